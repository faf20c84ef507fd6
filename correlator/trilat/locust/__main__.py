"""``python -m trilat.locust …``: Locust itself, with the plugin loaded and nothing else changed."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from gevent.monkey import get_original

import trilat.locust  # noqa: F401 - loading it adds the plugin
from locust import main
from trilat.correlator.commands.child import PARENT_VARIABLE

_LOOK_EVERY_S = 1.0


def _stop_with_parent(parent: int) -> None:
    """Ask this process to stop, as Ctrl-C does, once its parent has gone.

    Nobody would see what the load does any more, or could stop it. A thread of the system's looks
    after that: a greenlet would not run while a user's task holds the processor.
    """
    sleep = get_original("time", "sleep")

    def look() -> None:
        while os.getppid() == parent:
            sleep(_LOOK_EVERY_S)
        # The parent read our output. Locust's last words into a broken pipe would be errors in the
        # middle of its stopping.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts what stands before "&" with SIGINT ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    get_original("_thread", "start_new_thread")(look, ())


if __name__ == "__main__":
    sys.argv[0] = "locust"  # as Locust's own messages and help name it
    started_by = os.environ.pop(PARENT_VARIABLE, "")  # it is not for our own children
    if started_by.isdecimal():
        _stop_with_parent(int(started_by))
    run: Any = main.main
    run()
