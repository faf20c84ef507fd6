"""Tests in a process that Locust has patched; ``test_patched.py`` starts it."""

from __future__ import annotations

import sys

collect_ignore_glob = [] if "trilat.locust" in sys.modules else ["*"]
