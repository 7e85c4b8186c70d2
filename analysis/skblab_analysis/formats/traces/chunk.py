# SPDX-License-Identifier: GPL-2.0-or-later
"""What every reader of this folder yields: some thousand packets by columns, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from skblab_analysis.formats.packets import ClockName, Delay, Stamps
from skblab_analysis.formats.traces.document import FormatName, Stream
from skblab_analysis.formats.traces.times import Nanoseconds

# Packets of a chunk: their columns fit into a processor's cache.
MOST = 1 << 15


@dataclass(frozen=True, slots=True)
class Chunk:
    """Packets in the order in which they came; None for a column that the source does not have.

    `kind` has the bits of `packets.Flag` that a source knows: foreign, of another transmission,
    pktgen's, not stamped by the kernel, and the sender's clock.
    """

    received_ns: Nanoseconds
    sent_ns: Nanoseconds | None = None
    sequence: npt.NDArray[np.int64] | None = None
    flow: npt.NDArray[np.uint16] | None = None
    payload_bytes: npt.NDArray[np.uint16] | None = None
    kind: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.received_ns)


@dataclass(slots=True)
class Origin:
    """What a source says of all its packets; `transmission` is known when one of it has come.

    `unknown` says why, by field of the document: `sequence`, `sent`, `flow`, `payload` and others.
    """

    format: FormatName
    stamps: Stamps
    receiver_clock: ClockName | None
    one_clock: bool
    delay: Delay = "one way"
    delay_unknown: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)
    transmission: int | None = None
    # Datagrams without a header that is known: short, magic, version.
    foreign: dict[str, int] = field(default_factory=dict)


class Source(Protocol):
    """A file that is read once, from its begin to its end."""

    origin: Origin

    def parts(self) -> Iterator[Chunk | str]:
        """Yield packets, and in one line each what could not be read."""


class Summary(Protocol):
    """A file that has figures and no packets."""

    def streams(self) -> tuple[Stream, ...]:
        """Return its figures."""

    def unknown(self) -> Mapping[str, str]:
        """Return what it does not tell, and why."""
