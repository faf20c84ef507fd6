"""Everything trilat raises on purpose.

::

    TrilatError
    ├── UsageError      the command line or an option cannot hold
    └── InputError      a file or an answer cannot be read
        └── JournalError

Only the command line turns these into an exit code (2) and one line on stderr.
"""

from __future__ import annotations

__all__ = ["InputError", "JournalError", "TrilatError", "UsageError"]


class TrilatError(Exception):
    """Base of all errors that trilat raises on purpose; its text is one line for a person."""


class UsageError(TrilatError):
    """An option or argument cannot hold; the text says which and what to do."""


class InputError(TrilatError):
    """Input from outside cannot be used; the text names the file and the place in it."""


class JournalError(InputError):
    """A journal file is not one, or not of a version that this release reads."""
