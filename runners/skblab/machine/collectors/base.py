# SPDX-License-Identifier: GPL-2.0-or-later
"""What a collector is, and how one runs for exactly as long as something else goes on.

with collecting(perf, transport) as counted:
    ...                             # send packets
counted.result                      # what it counted meanwhile
"""

from __future__ import annotations

import contextlib
import shlex
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from skblab.machine.transport import Transport
from skblab_analysis.events.rows import Event

# Said once the collector counts.
BEGUN = "skblab: counting"
# Until it does, and until it has ended: processors of some machines are slow.
SECONDS = 120.0
# What a collector runs, as it would any command: it ends when its input does. That is not the
# collector's own, which some read keys from.
COMMAND = f"echo '{BEGUN}' >&2; read -r _ <&3 || :"


@dataclass(frozen=True)
class Tool:
    """A command that has to be on the machine, and how to get it there."""

    command: str
    install: str


Result = TypeVar("Result")
Given_co = TypeVar("Given_co", covariant=True)


class Recorder(Protocol[Given_co]):
    """Something that looks on while a command runs, and tells what it has seen."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @abstractmethod
    def argv(self, command: Sequence[str]) -> list[str]:
        """Return its command line that looks on while another command runs."""

    @abstractmethod
    def read(self, printed: str) -> Given_co:
        """Return what its standard output says; SkblabError if it is none of its own."""


class Collector(Recorder[tuple[Event, ...]], Protocol):
    """Something that counts events; `name` is that of its rows, and of its table."""

    @property
    def tool(self) -> Tool:
        """What it needs on the machine."""

    @abstractmethod
    def able(self, transport: Transport) -> tuple[Collector | None, tuple[Event, ...]]:
        """Return what of it can count on a machine, None for nothing, and events that cannot be."""

    @abstractmethod
    def asks(self) -> Iterator[str]:
        """Yield the commands by which `able` finds out."""


@dataclass
class Counted(Generic[Result]):
    """What a collector counted; nothing until it has ended."""

    found: Result | None = None

    @property
    def result(self) -> Result:
        """What was counted, once the collector has ended."""
        assert self.found is not None
        return self.found


def line(collector: Recorder[Result]) -> str:
    """Return the script that runs a collector until its standard input ends."""
    argv = ["env", "LC_ALL=C", *collector.argv(["sh", "-c", COMMAND])]
    return f"exec 3<&0; exec {shlex.join(argv)} </dev/null"


@contextlib.contextmanager
def collecting(
    collector: Recorder[Result], transport: Transport, *, ending: float = SECONDS
) -> Iterator[Counted[Result]]:
    """Have a collector count on a machine; SkblabError if it does not begin, or fails.

    `ending`: seconds until it has to have ended once nothing goes on any more.
    """
    counted = Counted[Result]()
    running = transport.start(["sh", "-c", line(collector)])
    try:
        running.wait_for(BEGUN, SECONDS)
        yield counted
    except BaseException:
        with contextlib.suppress(Exception):
            # What went wrong is told; nothing goes on counting.
            running.end_input()
            running.wait(SECONDS)
        raise
    running.end_input()
    done = running.wait(ending).check(collector.name)
    counted.found = collector.read(done.stdout)
