# SPDX-License-Identifier: GPL-2.0-or-later
"""What a collector is, and how one runs for exactly as long as something else goes on.

with collecting(perf, transport) as counted:
    ...                             # send packets
counted.events                      # what it counted meanwhile
"""

from __future__ import annotations

import contextlib
import shlex
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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


class Collector(Protocol):
    """Something that counts; `name` is that of its rows, and of its table."""

    @property
    def name(self) -> str:
        """What its events are listed by."""

    @property
    def tool(self) -> Tool:
        """What it needs on the machine."""

    @abstractmethod
    def able(self, transport: Transport) -> tuple[Collector | None, tuple[Event, ...]]:
        """Return what of it can count on a machine, None for nothing, and events that cannot be."""

    @abstractmethod
    def asks(self) -> Iterator[str]:
        """Yield the commands by which `able` finds out."""

    @abstractmethod
    def argv(self, command: Sequence[str]) -> list[str]:
        """Return its command line that counts while another command runs."""

    @abstractmethod
    def read(self, printed: str) -> tuple[Event, ...]:
        """Return the events of its standard output; SkblabError if it is none."""


@dataclass
class Counted:
    """What a collector counted; none until it has ended."""

    events: tuple[Event, ...] = field(default_factory=tuple)


def line(collector: Collector) -> str:
    """Return the script that runs a collector until its standard input ends."""
    argv = ["env", "LC_ALL=C", *collector.argv(["sh", "-c", COMMAND])]
    return f"exec 3<&0; exec {shlex.join(argv)} </dev/null"


@contextlib.contextmanager
def collecting(collector: Collector, transport: Transport) -> Iterator[Counted]:
    """Have a collector count on a machine; SkblabError if it does not begin, or fails."""
    counted = Counted()
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
    done = running.wait(SECONDS).check(collector.name)
    counted.events = collector.read(done.stdout)
