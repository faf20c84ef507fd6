"""Reports of a result: `terminal` prints it, `html` makes a page of it.

Both draw what `figures` and `conditions` read from the result. Import the modules themselves.
"""

from __future__ import annotations

__all__: list[str] = []
