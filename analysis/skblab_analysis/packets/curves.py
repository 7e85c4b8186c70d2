# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of how times of packets are distributed: latency, jitter, inter-arrival, by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.pictures import COLOURS, Curve, Picture, distribution
from skblab_analysis.formats.analyze import FileFigures, Times


@dataclass(frozen=True)
class Kind:
    """One kind of time: the field that has it, and what it is called."""

    field: str
    name: str

    @property
    def noun(self) -> str:
        """What is measured, in words."""
        return f"{self.name} time" if self.name == "inter-arrival" else self.name

    @property
    def picture(self) -> str:
        """The name of its picture."""
        return f"packets-{self.name}"

    def times(self, found: FileFigures) -> Times | None:
        """Return what a file has of it; None without a value."""
        times: Times | None = getattr(found, self.field)
        return times if times is not None and times.count else None


KINDS = (
    Kind("latency_ns", "latency"),
    Kind("inter_arrival_ns", "inter-arrival"),
    Kind("jitter_ns", "jitter"),
)


def histogram(times: Times) -> Histogram:
    """Return the histogram of times, of which there is one at least."""
    edges = {at: (low, high) for at, (low, high, _) in enumerate(times.histogram)}
    counts = {at: count for at, (_, _, count) in enumerate(times.histogram)}
    least = sum(edges[at][0] * count for at, count in counts.items())
    most = sum(edges[at][1] * count for at, count in counts.items())
    # The mean of huge values is rounded, and times their count it may be none that can be.
    total = min(max(round((times.mean or 0.0) * times.count), least), most)
    return Histogram(counts, total, times.min or 0, times.max or 0, edges=edges)


def pictures(files: Sequence[tuple[str, FileFigures]]) -> Iterator[Picture]:
    """Yield a picture of each kind of time that any of the named files has."""
    for kind in KINDS:
        known = [(name, times) for name, one in files if (times := kind.times(one)) is not None]
        if known:
            curves = [Curve(name, histogram(times)) for name, times in known[: len(COLOURS)]]
            title, done = f"Packets by {kind.noun}", f"with at most this {kind.noun}"
            yield distribution(kind.picture, "Packets", title, "ns", curves, done)
