# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of a script, from whichever tool, on their way into a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.histogram import Histogram, bounds, index
from skblab_analysis.base.whole import MOST_COUNTED, whole
from skblab_analysis.formats.catalogue import load
from skblab_analysis.formats.pathlat import LayerDistribution, NapiDistribution
from skblab_analysis.formats.scripts import Begun, ScriptDocument, ScriptName, Source, Tool

TOTAL = "total"
# What a script prints of the packets of a path beside its layers.
COUNTS = ("begun", "again", "merged", "freed", "under_way")


@dataclass
class Figures:
    """Histograms by layer and by context of NAPI, and counts."""

    layers: dict[str, dict[str, Any]] = field(default_factory=dict)
    polls: dict[tuple[str, str], tuple[Histogram, int | None]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    missed: int = 0

    def layer(
        self,
        name: str,
        buckets: Mapping[int, int],
        total: int,
        maximum: int,
        minimum: int | None = None,
    ) -> None:
        """Add the layer that ends at the point `name`; `buckets` by their lower ends."""
        self.layers[name] = _distribution(histogram(buckets, total, maximum, minimum))

    def poll(
        self,
        name: str,
        who: str,
        buckets: Mapping[int, int],
        total: int,
        maximum: int,
        minimum: int | None = None,
        work: int | None = None,
    ) -> None:
        """Add polls; `who` is a context, or the task in whose place they ran."""
        key = (name, context_of(who))
        one = histogram(buckets, total, maximum, minimum)
        before, packets = self.polls.get(key, (Histogram({}), None))
        both = None if work is None and packets is None else (work or 0) + (packets or 0)
        self.polls[key] = (before.merge(one), both)

    def document(
        self, backend: Tool, script: ScriptName, source: Source, release: str
    ) -> ScriptDocument:
        """Return the document; SkblabError where the script printed too little."""
        napi = tuple(
            NapiDistribution(name=name, context=context, work=work, **_distribution(histogram))
            for (name, context), (histogram, work) in self.polls.items()
        )
        head = {"backend": backend, "script": script, "source": source, "kernel": release}
        if script == "napi":
            return ScriptDocument(**head, missed=self.missed, napi=napi)
        if missing := [name for name in COUNTS if name not in self.counts]:
            raise SkblabError(f"{backend}: {script} did not print {', '.join(missing)}")
        counts = {name: self.counts[name] for name in COUNTS}
        points = next(path for path in load().paths if path.name == script).points
        empty = _distribution(Histogram({}))
        # One that was seen nowhere, as without a queueing discipline, is not between others.
        seen = [points[0], *(point for point in points[1:] if point in self.layers)]
        layers = tuple(
            _layer(before, point, self.layers[point]) for before, point in pairwise(seen)
        )
        path_time = _layer(points[0], seen[-1], self.layers.get(TOTAL, empty))
        return ScriptDocument(
            **head,
            missed=self.missed,
            hooked=Begun(**counts, dropped=self.dropped),
            layers=layers,
            path_time=path_time,
        )


def _layer(before: str, point: str, distribution: dict[str, Any]) -> LayerDistribution:
    return LayerDistribution.model_validate({"from": before, "to": point, **distribution})


def context_of(who: str) -> str:
    """Return the context of a poll, by its name or by that of the task it ran in place of."""
    name = who.strip().replace(" ", "_")
    if name in ("softirq", "ksoftirqd", "busy_poll", "netpoll"):
        return name
    if name == "thread" or name.startswith("napi/"):
        return "kthread"
    return "ksoftirqd" if name.startswith("ksoftirqd/") else "softirq"


def histogram(
    buckets: Mapping[int, int], total: int, maximum: int, minimum: int | None
) -> Histogram:
    """Return the histogram of buckets by lower end; bpftrace keeps no minimum but that one."""
    held: dict[int, int] = {}
    for lower, count in buckets.items():
        number = index(whole(lower))
        if bounds(number)[0] != lower:
            raise SkblabError(f"a bucket begins at {lower}, expected {bounds(number)[0]}")
        held[number] = whole(count, MOST_COUNTED)
    if not held:
        return Histogram({})
    least = min(buckets) if minimum is None else minimum
    return Histogram(held, whole(total), whole(least), whole(maximum))


def _distribution(histogram: Histogram) -> dict[str, Any]:
    return {
        "count": histogram.count,
        "sum": histogram.total,
        "min": histogram.minimum,
        "max": histogram.maximum,
        "buckets": tuple(sorted(histogram.buckets.items())),
    }
