"""Prints docs/cli.md: what each command's --help says. scripts/docs writes it to the file."""

from __future__ import annotations

from collections.abc import Iterator

import click

from trilat.correlator.commands.group import trilat

__all__ = ["page"]

_WIDTH = 100
_HEAD = """# The command line

Written by `scripts/docs` from the commands' own help; a test fails when it is out of date.
"""


def page() -> str:
    """The whole page as Markdown."""
    with click.Context(
        trilat,
        info_name="trilat",
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=trilat.context_settings["help_option_names"],
    ) as context:
        sections = list(_sections(trilat, context))
    return "\n".join([_HEAD, *sections])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command's help, and that of the commands in it."""
    yield _section(context.command_path, command.get_help(context))
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            with click.Context(inner, parent=context, info_name=name) as below:
                yield from _sections(inner, below)


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
