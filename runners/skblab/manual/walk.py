# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command that there is, read from its definition, group by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typer.core import TyperGroup
from typer.main import get_command

from skblab import cli

if TYPE_CHECKING:
    from typer._click import Command, Context, Parameter

# Where a parameter of no group of its own stands.
ARGUMENTS, OPTIONS = "Arguments", "Options"


@dataclass(frozen=True)
class Described:
    """A command by its words after `skblab` (none: skblab itself), and what is said of it."""

    words: tuple[str, ...]
    command: Command
    context: Context

    @property
    def name(self) -> str:
        """As it is typed: `skblab probe layers`."""
        return " ".join(("skblab", *self.words))

    @property
    def paragraphs(self) -> list[str]:
        """Its help, a paragraph each, on one line each; the first says what it does."""
        return [" ".join(part.split()) for part in (self.command.help or "").split("\n\n")]

    @property
    def summary(self) -> str:
        """What it does, in a line without its full stop."""
        return self.paragraphs[0].partition(". ")[0].removesuffix(".")

    @property
    def parameters(self) -> dict[str, list[Parameter]]:
        """What it takes, by the group that its help has it in, in order."""
        found: dict[str, list[Parameter]] = {}
        for parameter in self.command.get_params(self.context):
            plain = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
            if parameter.get_help_record(self.context) is not None:
                group = getattr(parameter, "rich_help_panel", None) or plain
                found.setdefault(group, []).append(parameter)
        return found

    @property
    def group(self) -> bool:
        """Whether it does nothing itself, and has commands below it."""
        return isinstance(self.command, TyperGroup)


def commands() -> Iterator[Described]:
    """Yield skblab itself, then each of its commands and of theirs, but for hidden ones."""
    root = get_command(cli.app)
    yield from _below(Described((), root, root.make_context("skblab", [], resilient_parsing=True)))


def _below(one: Described) -> Iterator[Described]:
    yield one
    if not isinstance(one.command, TyperGroup):
        return
    for name in one.command.list_commands(one.context):
        command = one.command.get_command(one.context, name)
        if command is None or command.hidden:
            continue
        context = command.make_context(name, [], parent=one.context, resilient_parsing=True)
        yield from _below(Described((*one.words, name), command, context))
