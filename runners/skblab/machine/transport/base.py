# SPDX-License-Identifier: GPL-2.0-or-later
"""The interface every way of reaching a machine has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skblab_analysis.base.errors import SkblabError, one_line


class TransportError(SkblabError):
    """The machine cannot be reached, or went away in the middle of a command."""


@dataclass(frozen=True)
class Done:
    """A finished command: exit status and both output streams; its process id, where known."""

    status: int
    stdout: str
    stderr: str
    pid: int | None = field(default=None, compare=False)

    def check(self, what: str) -> Done:
        """Return self if the status is 0, else raise SkblabError naming `what`."""
        if self.status != 0:
            why = (self.stderr.strip() or self.stdout.strip() or "it printed nothing").splitlines()
            raise SkblabError(f"{what} failed (exit {self.status}): {one_line(why[-1])}")
        return self


class Running(Protocol):
    """A command that was started and not yet waited for."""

    def wait_for(self, text: str, seconds: float) -> None:
        """Return once `text` appeared on standard error; SkblabError if it ends or is late."""

    def said(self, text: str) -> bool:
        """Tell whether `text` appeared on standard error."""

    def running(self) -> bool:
        """Tell whether the command still runs. Raises TransportError if there is trouble."""

    def take_lines(self) -> list[str]:
        """Return the whole lines of standard output that have come since the last call."""

    def take_errors(self) -> str:
        """Return what came on standard error since the last call."""

    def send(self, text: str) -> None:
        """Write to its standard input. Raises TransportError if it has ended."""

    def interrupt(self) -> None:
        """Ask the command to finish (SIGINT)."""

    def end_input(self) -> None:
        """End its standard input, which stays open until then, or we are gone."""

    def wait(self, seconds: float) -> Done:
        """Return the finished command; SkblabError if it takes longer than `seconds`."""


class Transport(Protocol):
    """Runs commands on one machine. Scripts are POSIX shell, run with `set -eu`."""

    def run(self, argv: Sequence[str], *, stdin: str = "", seconds: float = 600) -> Done:
        """Run one command to its end. Raises TransportError if the machine goes away."""

    def script(self, text: str, *, seconds: float = 600) -> Done:
        """Run a shell script given as text."""

    def start(self, argv: Sequence[str]) -> Running:
        """Start a command in the background."""

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        """Run a command (a login shell if empty) on our own terminal; return its status."""

    def put(self, source: Path, target: str) -> None:
        """Copy a file to the machine."""
