# SPDX-License-Identifier: GPL-2.0-or-later
"""The transport to this machine itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from skblab.machine.transport.base import Done, Running
from skblab.machine.transport.process import Background, no_trouble, popen, run


class LocalTransport:
    """Commands on this machine, as whoever runs skblab; `wrap` says what runs each of them."""

    def __init__(self, wrap: Callable[[Sequence[str]], list[str]] = list) -> None:
        self._wrap = wrap

    @classmethod
    def within(cls, namespace: Path) -> Self:
        """Return one whose commands are in a network namespace, a file that `nsenter` takes.

        They end when we do, however that is.
        """
        there = ["setpriv", "--pdeathsig", "KILL", "--", "nsenter", f"--net={namespace}", "--"]
        return cls(lambda argv: [*there, *argv])

    def run(self, argv: Sequence[str], *, stdin: str = "", seconds: float = 600) -> Done:
        """Run one command to its end. Raises TransportError if it takes too long."""
        return run(self._wrap(argv), argv, stdin, seconds, no_trouble)

    def script(self, text: str, *, seconds: float = 600) -> Done:
        """Run a shell script given as text, with `set -eu`."""
        return self.run(["sh", "-eu", "-s"], stdin=text, seconds=seconds)

    def start(self, argv: Sequence[str]) -> Running:
        """Start a command in the background; it can be interrupted and waited for."""
        return Background(popen(self._wrap(argv)), argv)

    def attach(self, argv: Sequence[str], *, tty: bool) -> int:
        """Run a command, or a shell, on our own terminal; return its exit status."""
        del tty
        return subprocess.run(self._wrap(argv or ["sh"]), check=False).returncode

    def put(self, source: Path, target: str) -> None:
        """Copy a file."""
        shutil.copy2(source, target)
