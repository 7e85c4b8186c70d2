# SPDX-License-Identifier: GPL-2.0-or-later
"""Elements on this machine: processes, so many at once, which end when skblab does."""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from skblab.jobs import slurm
from skblab.jobs.campaign import Place
from skblab.jobs.model import Engine
from skblab.jobs.submitter import RUNNING, Name, Queue, command

# As Slurm's KillWait: for a guest to be ended, and a try to be noted.
KILL_SECONDS = 30.0


@dataclass
class _Waiting:
    call: list[str]
    log: Path
    minutes: int


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    until: float


@dataclass
class Local:
    """The Submitter that needs nothing; `at_once` elements run side by side."""

    at_once: int
    poll: float = 0.5
    on: Engine = "local"
    _waiting: dict[Name, _Waiting] = field(default_factory=dict)
    _order: deque[Name] = field(default_factory=deque)
    _running: dict[Name, _Running] = field(default_factory=dict)

    def ready(self, place: Place) -> None:
        """Raise UsageError if a cluster may still run elements of a campaign."""
        if place.engines() - {self.on}:
            slurm.require_none(place)

    def submit(
        self, place: Place, array: int, count: int, minutes: int, without: Collection[str] = ()
    ) -> None:
        """Have them wait for their turn. There is no other node, whatever is to be `without`."""
        for index in range(count):
            name = (array, index)
            call = ["setpriv", "--pdeathsig", "KILL", "--", *command(place, array), str(index)]
            self._waiting[name] = _Waiting(call, place.log / f"{array:04}-{index}.txt", minutes)
            self._order.append(name)
        self._go_on()

    def queue(self, place: Place) -> Queue:
        """Start those whose turn has come; return all that are not over."""
        self._go_on()
        waiting = dict.fromkeys(self._waiting, "waiting")
        return Queue({**waiting, **dict.fromkeys(self._running, RUNNING)})

    def cancel(self, place: Place) -> int:
        """End all, with time for each to note it."""
        count = len(self._waiting) + len(self._running)
        self._waiting.clear()
        self._order.clear()
        for one in self._running.values():
            one.process.terminate()
        deadline = time.monotonic() + KILL_SECONDS
        for one in self._running.values():
            _end(one.process, deadline - time.monotonic())
        self._running.clear()
        return count

    def _go_on(self) -> None:
        for name, one in list(self._running.items()):
            if one.process.poll() is None and time.monotonic() > one.until:
                one.process.terminate()
                _end(one.process, KILL_SECONDS)
            if one.process.poll() is not None:
                del self._running[name]
        while self._order and len(self._running) < self.at_once:
            name = self._order.popleft()
            waiting = self._waiting.pop(name)
            with waiting.log.open("ab") as log:
                process = subprocess.Popen(
                    waiting.call,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C reaches skblab alone, which then ends them in order.
                    start_new_session=True,
                )
            self._running[name] = _Running(process, time.monotonic() + 60 * waiting.minutes)


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(max(0.1, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
