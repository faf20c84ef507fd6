"""``python -m trilat.locust …``: Locust itself, with the plugin loaded and nothing else changed."""

from __future__ import annotations

import sys
from typing import Any

import trilat.locust  # noqa: F401 - loading it adds the plugin
from locust import main

if __name__ == "__main__":
    sys.argv[0] = "locust"  # as Locust's own messages and help name it
    run: Any = main.main
    run()
