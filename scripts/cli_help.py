"""Prints docs/cli.md: what each command's --help says. scripts/docs writes it to the file."""

from __future__ import annotations

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
        sections = [_section("trilat", trilat.get_help(context))]
        for name, command in trilat.commands.items():
            with click.Context(command, parent=context, info_name=name) as inner:
                sections.append(_section(f"trilat {name}", command.get_help(inner)))
    return "\n".join([_HEAD, *sections])


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
