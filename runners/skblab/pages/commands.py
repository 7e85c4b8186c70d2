# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/commands.md, and a page for each command: its usage, arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from typer.core import TyperGroup
from typer.main import get_command

from skblab.cli import app
from skblab.pages.keys import cell

if TYPE_CHECKING:
    from typer._click import Command, Context

INDEX = "docs/reference/commands.md"
FOLDER = "docs/reference/commands"
MADE = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/commands/: change it there. -->
"""
HEAD = """# Commands

Each command prints the same by `--help`. Exit status 0 is good; 1: the answer is no, or the run
failed; 2: bad usage; 125: a guest died. [What a message means](messages.md) has more.

    ./skblab --help

| command | what it does |
| --- | --- |
"""


def pages() -> dict[str, str]:
    """Return the index and each command's page."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    top = group.make_context("skblab", [], resilient_parsing=True)
    made: dict[str, str] = {}
    rows: list[str] = []
    for name in sorted(group.list_commands(top)):
        command = group.get_command(top, name)
        if command is None or command.hidden:
            continue
        rows += _rows(name, command)
        made[f"{FOLDER}/{name}.md"] = MADE + "".join(_sections(name, command, top, "#"))
    return {INDEX: MADE + HEAD + "".join(rows), **made}


def _rows(name: str, command: Command) -> Iterator[str]:
    """Yield the index's rows of a command, and of those under it."""
    link = f"commands/{name}.md"
    yield f"| [`skblab {name}`]({link}) | {_sentence(command)} |\n"
    for under, child in _children(command):
        anchor = f"skblab-{name}-{under}"
        yield f"| [`skblab {name} {under}`]({link}#{anchor}) | {_sentence(child)} |\n"


def _children(command: Command) -> list[tuple[str, Command]]:
    found = command.commands if isinstance(command, TyperGroup) else {}
    return [(name, child) for name, child in sorted(found.items()) if not child.hidden]


def _sentence(command: Command) -> str:
    return cell((command.help or "").partition("\n\n")[0])


def _sections(name: str, command: Command, parent: Context, level: str) -> Iterator[str]:
    """Yield the sections of a command: what it does, its usage, a table; those under it follow."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"{level} `{context.command_path}`\n\n{(command.help or '').strip()}\n\n    {usage}\n"
    rows = [_row(*record) for record in _records(command, context)]
    if rows:
        yield "\n| option | what it does |\n| --- | --- |\n" + "".join(rows)
    for under, child in _children(command):
        yield "\n"
        yield from _sections(under, child, context, "##")


def _records(command: Command, context: Context) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name != "help":
            yield record


def _row(names: str, text: str) -> str:
    return f"| `{cell(names)}` | {cell(text)} |\n"
