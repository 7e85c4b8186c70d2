# SPDX-License-Identifier: GPL-2.0-or-later
"""A shell on a machine that stays, and runs script after script.

A script of its own costs a session, a process and the reading of all functions: on an emulated
processor that is an eighth of a second, which between trials of half a second is much.
"""

from __future__ import annotations

import contextlib
import secrets
import time

from skblab.errors import SkblabError
from skblab.transport.base import Done, Transport, TransportError

POLL_SECONDS = 0.005
END_SECONDS = 5
# Standard error comes by a way of its own: so long after what it explains.
LATE_SECONDS = 0.2


class Shell:
    """A shell with the functions of `preamble`; each script runs in a copy of it, by `set -eu`."""

    def __init__(self, transport: Transport, preamble: str) -> None:
        self._mark = f"skblab-{secrets.token_hex(8)}"
        self._running = transport.start(["sh"])
        self._lines: list[str] = []
        self._running.send(preamble + "\n")

    def script(self, text: str, *, seconds: float = 600) -> Done:
        """Run a script to its end.

        Raises TransportError if the machine goes away, the shell ends, or it takes too long: the
        shell is of no more use then.
        """
        self._running.send(f"(\nset -eu\n{text}\n) </dev/null\necho {self._mark} $?\n")
        deadline = time.monotonic() + seconds
        printed: list[str] = []
        while True:
            for line in self._running.take_lines():
                before, mark, status = line.rpartition(f"{self._mark} ")
                if not mark:
                    printed.append(line)
                    continue
                # What does not end its last line has the mark on it.
                printed.append(before)
                return Done(int(status), "".join(printed), self._errors(int(status)))
            if not self._running.running():
                raise TransportError(f"the shell ended: {self._running.take_errors().strip()}")
            if time.monotonic() > deadline:
                raise TransportError(f"a script did not end within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Have it end; nothing if it has, or its machine has gone."""
        with contextlib.suppress(SkblabError, OSError):
            self._running.end_input()
            self._running.wait(END_SECONDS)

    def _errors(self, status: int) -> str:
        if status:
            time.sleep(LATE_SECONDS)
        return self._running.take_errors()
