# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/commands.md, and a page for each command: its usage, arguments and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skblab.manual.walk import Described, commands
from skblab.pages.keys import cell
from skblab_analysis.base.errors import EXIT_STATUSES

if TYPE_CHECKING:
    from typer._click import Command

INDEX = "docs/reference/commands.md"
FOLDER = "docs/reference/commands"
MADE = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/commands/: change it there. -->
"""
HEAD = """# Commands

Each command prints the same by `--help`.

    ./skblab --help

| command | what it does |
| --- | --- |
"""
STATUSES = """
## Exit statuses

[What a message means](messages.md) has more.

| status | what it means |
| --- | --- |
"""


def pages() -> dict[str, str]:
    """Return the index and each command's page."""
    made: dict[str, str] = {}
    rows: list[str] = []
    for found in sorted(commands(), key=lambda found: found.words):
        if not found.words:
            continue
        file, under = f"{found.words[0]}.md", found.words[1:]
        link = f"commands/{file}" + (f"#{found.name.replace(' ', '-')}" if under else "")
        rows.append(f"| [`{found.name}`]({link}) | {_sentence(found.command)} |\n")
        made[file] = f"{made[file]}\n" if under else MADE
        made[file] += _section(found, "##" if under else "#")
    statuses = "".join(f"| {status} | {means} |\n" for status, means in EXIT_STATUSES)
    return {INDEX: MADE + HEAD + "".join(rows) + STATUSES + statuses} | {
        f"{FOLDER}/{file}": text for file, text in made.items()
    }


def _sentence(command: Command) -> str:
    return cell((command.help or "").partition("\n\n")[0])


def _section(found: Described, level: str) -> str:
    """Return what a command does, its usage, and a table of what it takes."""
    usage = found.command.get_usage(found.context).removeprefix("Usage: ")
    said = (found.command.help or "").strip()
    text = f"{level} `{found.context.command_path}`\n\n{said}\n\n    {usage}\n"
    rows = [
        _row(*record)
        for parameter in found.command.get_params(found.context)
        if (record := parameter.get_help_record(found.context)) is not None
        and parameter.name != "help"
    ]
    if found.context.ignore_unknown_options and len(rows) == 1:
        return f"{text}\nIts options are those of the program, which `--help` lists.\n"
    return text + ("\n| option | what it does |\n| --- | --- |\n" + "".join(rows) if rows else "")


def _row(names: str, text: str) -> str:
    return f"| `{cell(names)}` | {cell(text)} |\n"
