# SPDX-License-Identifier: GPL-2.0-or-later
"""A shell on a machine that stays, and runs script after script; and a transport that has one.

A script of its own costs a session, a process and the reading of all functions: on an emulated
processor that is an eighth of a second, which between trials of half a second is much.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from skblab.machine.transport.base import Done, Running, Transport, TransportError
from skblab_analysis.base.errors import SkblabError, one_line

POLL_SECONDS = 0.005
END_SECONDS = 5
# Standard error comes by a way of its own, at most so long after the rest.
LATE_SECONDS = 5


class Shell:
    """A shell with the functions of `preamble`; each script runs in a copy of it, by `set -eu`."""

    def __init__(self, transport: Transport, preamble: str) -> None:
        self._marks = f"skblab-{secrets.token_hex(8)}"
        self._count = 0
        self._running = transport.start(["sh"])
        self._running.send(preamble + "\n")

    def script(self, text: str, *, seconds: float = 600) -> Done:
        """Run a script to its end.

        Raises TransportError if the machine goes away, the shell ends, or it takes too long: the
        shell is of no more use then.
        """
        self._count += 1
        ends = f"{self._marks}-{self._count} "
        # One that has ended already may not take it: its end, and why, are seen below.
        with contextlib.suppress(TransportError):
            self._running.send(
                f"(\nset -eu\n{text}\n) </dev/null\necho {ends} $? && echo {ends} >&2\n"
            )
        deadline = time.monotonic() + seconds
        printed: list[str] = []
        while True:
            # Before its lines are taken: the last of them may be the script's end.
            running = self._running.running()
            for line in self._running.take_lines():
                before, mark, status = line.rpartition(ends)
                if not mark or not status.endswith("\n"):
                    # Or one that was cut: the machine has gone, which is seen below.
                    printed.append(line)
                    continue
                # What does not end its last line has the mark on it.
                printed.append(before)
                return Done(int(status), "".join(printed), self._errors(ends, int(status)))
            if not running:
                said = one_line(self._running.take_errors())
                raise TransportError(
                    f"the shell ended: {said or 'its machine has gone, or the connection to it'}"
                )
            if time.monotonic() > deadline:
                raise TransportError(f"a script did not end within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Have it end; nothing if it has, or its machine has gone."""
        with contextlib.suppress(SkblabError, OSError):
            self._running.end_input()
            self._running.wait(END_SECONDS)

    def _errors(self, ends: str, status: int) -> str:
        """Return what came on standard error: all of it where it explains a failure."""
        found = self._running.take_errors()
        deadline = time.monotonic() + LATE_SECONDS
        while status and ends.strip() not in found and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            found += self._running.take_errors()
        return re.sub(rf"{self._marks}-\d+\n", "", found)


class Staying:
    """A transport whose scripts run in one shell, which begins with the first of them.

    All else goes by the transport below it.
    """

    def __init__(self, below: Transport) -> None:
        self._below = below
        self._shell: Shell | None = None

    def script(self, text: str, *, seconds: float = 600) -> Done:
        """Run a shell script, see Shell."""
        self._shell = self._shell or Shell(self._below, "")
        return self._shell.script(text, seconds=seconds)

    def run(self, argv: Sequence[str], *, stdin: str = "", seconds: float = 600) -> Done:
        """Run one command to its end."""
        return self._below.run(argv, stdin=stdin, seconds=seconds)

    def start(self, argv: Sequence[str]) -> Running:
        """Start a command in the background."""
        return self._below.start(argv)

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        """Run a command on our own terminal."""
        return self._below.attach(argv, tty=tty)

    def put(self, source: Path, target: str) -> None:
        """Copy a file to the machine."""
        self._below.put(source, target)

    def end(self) -> None:
        """Have its shell end, if it has one."""
        if self._shell is not None:
            self._shell.end()


@contextlib.contextmanager
def staying(below: Transport) -> Iterator[Staying]:
    """Have a shell stay on a machine for all its scripts."""
    made = Staying(below)
    try:
        yield made
    finally:
        made.end()
