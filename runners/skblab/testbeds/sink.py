# SPDX-License-Identifier: GPL-2.0-or-later
"""The sink of a latency trial at work: pktsink, started where the packets arrive, and its document.

Begin it before the generator, and end it once nothing more comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from skblab.machine.reading import Reading, started
from skblab.machine.transport import Transport
from skblab_analysis.base.checked import parse
from skblab_analysis.formats.pktsink import ArrivalsDocument


@dataclass(frozen=True)
class Place:
    """A device, in a namespace that `ip netns` made, or in that of the machine (None)."""

    device: str
    netns: str | None = None

    def options(self, device: str, netns: str) -> list[str]:
        """Return it as the options of these names."""
        return [device, self.device, *([netns, self.netns] if self.netns else [])]


@dataclass(frozen=True)
class Sink:
    """What pktsink is asked for.

    `stamper` is where packets are stamped anew as they leave the generator, which has to send by
    `xmit_mode queue_xmit` then: without it stamps hold the wait for a packet's time. Times are
    those of packets with the numbers `first` to `last`, where the first that is sent has 1, and of
    those that arrive `begin` seconds after the first or later, and sooner than `end`.
    """

    place: Place
    stamper: Place | None = None
    late_us: tuple[float, ...] = ()
    run: int | None = None
    first: int | None = None
    last: int | None = None
    begin: float | None = None
    end: float | None = None
    passes: bool = False

    def at(self, testbed: Rooms) -> Sink:
        """Return what it is asked for there."""
        if testbed.rooms:
            return self
        stamper = self.stamper and replace(self.stamper, netns=None)
        return replace(self, place=replace(self.place, netns=None), stamper=stamper)

    def options(self) -> list[str]:
        """Return pktsink's options."""
        words = self.place.options("--device", "--netns")
        if self.stamper:
            words += self.stamper.options("--stamp", "--stamp-netns")
        for late in self.late_us:
            words += ["--late", f"{late:.15g}us"]
        for option, value in (("--run", self.run), ("--first", self.first), ("--last", self.last)):
            if value is not None:
                words += [option, str(value)]
        for option, seconds in (("--from", self.begin), ("--until", self.end)):
            if seconds is not None:
                words += [option, f"{seconds:.15g}"]
        return [*words, "--pass"] if self.passes else words


class Rooms(Protocol):
    """What a sink has to know of a testbed."""

    @property
    def rooms(self) -> bool:
        """Whether generator and sink are in network namespaces of these names."""


class Counting:
    """A pktsink that is attached."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._document: ArrivalsDocument | None = None

    def end(self) -> ArrivalsDocument:
        """Have it end, and return its document; the same one when called again."""
        if self._document is None:
            text = self._reading.end()
            self._document = parse(ArrivalsDocument, text, "the document of pktsink")
        return self._document


@contextlib.contextmanager
def counting(transport: Transport, program: str, sink: Sink) -> Iterator[Counting]:
    """Have pktsink attached, and ended with this block; UsageError in its words if it refuses."""
    argv = [program, *sink.options()]
    with started(transport, argv, "pktsink was not attached") as running:
        made = Counting(Reading(running, lambda text: None, "pktsink"))
        yield made
        made.end()
