"""The ``trilat`` command: from arguments to one line or a report, and an exit code.

Only here errors become exit codes. What click and rich are needed for lies in
`trilat.correlator.commands`, so that an installation without them can say what is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from trilat.agent.errors import TrilatError

if TYPE_CHECKING:
    import click

    from trilat.correlator.commands.group import Settings

__all__ = ["EXIT_INTERNAL", "EXIT_INTERRUPTED", "EXIT_USAGE", "main", "run"]

EXIT_USAGE = 2
EXIT_INTERNAL = 70
"""``EX_SOFTWARE`` of BSD's sysexits.h: outside the verdicts' codes, so CI cannot mistake it."""
EXIT_INTERRUPTED = 130
_EXIT_PIPE_CLOSED = 141  # 128 + SIGPIPE, as shells report it
_TOOLS = ("click", "duckdb", "httpx", "rich", "numpy")


def main() -> None:
    """Entry point of the ``trilat`` script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: without the program's name.

    Returns:
        The exit code: the verdict's, 2 for wrong usage or unreadable input, 70 for a defect of
        trilat itself, 130 when interrupted.
    """
    settings: Settings | None = None
    try:
        # Here, where an interrupt is expected: the imports take a while.
        from trilat.correlator.commands.group import Settings, trilat

        settings = Settings()
        return _run(trilat, settings, list(arguments))
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python would complain once more when
        # it flushes stdout at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED)
    except TrilatError as error:
        return _fail(str(error))
    except Exception as error:
        if settings is not None and settings.debug:
            raise
        return _explain(error)


def _explain(error: Exception) -> int:
    """One line for an exception that is none of ours."""
    if isinstance(error, ModuleNotFoundError) and error.name in _TOOLS:
        return _fail(f"{error.name} is not installed; pip install 'trilat[locust]'")
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}")
    return _fail(
        f"a defect of trilat: {type(error).__name__}: {error}; trilat --debug … shows where",
        EXIT_INTERNAL,
    )


def _run(group: click.Group, settings: object, arguments: list[str]) -> int:
    import click

    # Not group.main: it ends the process itself, and with code 1, where the output is closed early.
    try:
        with group.make_context("trilat", arguments, obj=settings) as context:
            code = group.invoke(context)
    except click.exceptions.Exit as end:  # --help and --version
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return EXIT_USAGE
    except click.ClickException as error:
        seen_by = getattr(error, "ctx", None)
        where = f"; see {seen_by.command_path} --help" if seen_by is not None else ""
        return _fail(error.format_message().rstrip(".") + where)
    assert isinstance(code, int), "every command returns its exit code"
    return code


def _fail(message: str, code: int = EXIT_USAGE) -> int:
    with suppress(OSError):  # nobody reads it any more: the exit code has to do
        print("trilat: error: " + " ".join(message.split()), file=sys.stderr)
    return code
