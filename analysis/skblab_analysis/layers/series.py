# SPDX-License-Identifier: GPL-2.0-or-later
"""One named histogram of a trial: a layer, a whole path, or a figure of NAPI polls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skblab_analysis.base.histogram import Histogram, bounds, index
from skblab_analysis.base.rows import Numbered
from skblab_analysis.formats.pathlat import (
    AnyPath,
    Distribution,
    LayerDistribution,
    NapiDistribution,
    PathDocument,
    PathlatDocument,
)
from skblab_analysis.formats.pktsink import ArrivalsDocument
from skblab_analysis.layers.rows import IN, BucketRow, Counted, Kind, OfSeries, SeriesRow, Unit

_Key = tuple[int, AnyPath | None, Kind, str]

# Column of layers_summary to quantile.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}

# What a NAPI figure of the probe spans, in the points of the path.
NAPI_SPANS = {
    "delay": ("irq", "poll"),
    "time": ("poll", "poll_end"),
}

# What a tester's figure of arrivals spans: inter-arrival and jitter are of two packets in a row.
ARRIVAL_SPANS = {
    "latency": ("sent", "received"),
    "inter-arrival": ("received", "received"),
    "jitter": ("latency", "latency"),
}


@dataclass(frozen=True)
class Series:
    """A histogram with its name and units. `context` is None but for NAPI figures.

    `path` is None for these, and for those of kind `arrival`: what a tester found at its sink. Of
    kind `path` is the path time, to which layers add up; of kind `since_entry` the same packets'
    time since they first entered the stack, where that was before this path. Path `in` has layers
    of all packets that came in, before it is known which path they go.
    `work`: packets that the counted polls handled in all; None where it is not known.
    """

    trial: int
    path: AnyPath | None
    kind: Kind
    layer: str
    from_point: str
    to_point: str
    context: str | None
    counted: Counted
    unit: Unit
    negative: int
    overflow: int
    histogram: Histogram
    work: int | None = None

    def rows(self) -> Iterator[Numbered]:
        """Yield its row of `layers_summary`, and those of `layers`."""
        head = {name: getattr(self, name) for name in OfSeries.model_fields}
        histogram = self.histogram
        filled = bool(histogram.buckets)
        yield SeriesRow(
            **head,
            count=histogram.count,
            negative=self.negative,
            overflow=self.overflow,
            work=self.work,
            sum=histogram.total,
            min=histogram.minimum if filled else None,
            max=histogram.maximum if filled else None,
            bounded=histogram.bounded,
            mean=histogram.mean,
            **{name: histogram.quantile(share) for name, share in QUANTILES.items()},
        )
        for lower, upper, count in histogram.rows():
            yield BucketRow(**head, lower=lower, upper=upper, count=count)


def from_document(trial: int, unit: Unit, document: PathlatDocument) -> list[Series]:
    """Return every histogram of a pathlat document, layers in the order of the path.

    `unit` is "instructions" where the guest's clock counts them, else "ns".
    """
    found: list[Series] = []
    if document.in_ is not None:
        found += [of_layer(trial, unit, IN, "layer", layer) for layer in document.in_.layers]
    for path in document.paths:
        if path.path_time.count:
            found += _path(trial, unit, path)
    return found + [of_napi(trial, unit, figure) for figure in document.napi]


def _path(trial: int, unit: Unit, path: PathDocument) -> list[Series]:
    found = [of_layer(trial, unit, path.path, "layer", layer) for layer in path.layers]
    found.append(of_layer(trial, unit, path.path, "path", path.path_time))
    # Histograms of the first edition do not tell how many there were; none is known for certain.
    if path.reentered != 0 and not path.all_passed:
        entry = of_layer(trial, unit, path.path, "since_entry", path.since_entry)
        found.append(replace(entry, layer="entry", from_point="entry"))
    return found


def of_layer(trial: int, unit: Unit, path: AnyPath, kind: Kind, layer: LayerDistribution) -> Series:
    """Return the series of a layer, or of a whole path."""
    return Series(
        trial=trial,
        path=path,
        kind=kind,
        layer=f"{layer.from_point}-{layer.to_point}",
        from_point=layer.from_point,
        to_point=layer.to_point,
        context=None,
        counted="packet",
        unit=unit,
        negative=layer.negative,
        overflow=layer.overflow,
        histogram=layer.histogram(),
    )


def of_napi(trial: int, unit: Unit, figure: NapiDistribution) -> Series:
    """Return the series of a figure of NAPI polls."""
    start, end = NAPI_SPANS.get(figure.name, (f"{figure.name}_start", f"{figure.name}_end"))
    return Series(
        trial=trial,
        path=None,
        kind="napi",
        layer=f"{figure.name}-{figure.context}",
        from_point=start,
        to_point=end,
        context=figure.context,
        counted="poll",
        unit=unit,
        negative=figure.negative,
        overflow=figure.overflow,
        histogram=figure.histogram(),
        work=figure.work,
    )


def from_arrivals(trial: int, document: ArrivalsDocument) -> list[Series]:
    """Return latency, inter-arrival time and jitter of a latency trial."""
    figures = (document.latency, document.inter_arrival, document.jitter)
    return [
        _of_arrivals(trial, name, figure)
        for name, figure in zip(ARRIVAL_SPANS, figures, strict=True)
    ]


def _of_arrivals(trial: int, name: str, figure: Distribution) -> Series:
    start, end = ARRIVAL_SPANS[name]
    return Series(
        trial=trial,
        path=None,
        kind="arrival",
        layer=name,
        from_point=start,
        to_point=end,
        context=None,
        counted="packet",
        unit="ns",
        negative=figure.negative,
        overflow=figure.overflow,
        histogram=figure.histogram(),
    )


def from_rows(summaries: Sequence[SeriesRow], buckets: Mapping[str, Sequence[Any]]) -> list[Series]:
    """Rebuild series from the rows of `layers_summary` and the columns of `layers`.

    In the order of the summary. ValueError when the two tables contradict each other.
    """
    held: dict[_Key, list[tuple[int, int, int]]] = {}
    names = ("trial", "path", "kind", "layer", "lower", "upper", "count")
    for trial, path, kind, layer, *values in zip(*(buckets[name] for name in names), strict=True):
        lower, upper, count = values
        held.setdefault(_key(trial, path, kind, layer), []).append((lower, upper, count))
    series = []
    for row in summaries:
        figures = (row.sum, row.min or 0, row.max or 0, bool(row.bounded))
        key = _key(row.trial, row.path, row.kind, row.layer)
        histogram = _histogram(held.pop(key, []), figures)
        if histogram.count != row.count:
            raise ValueError(
                f"trial {row.trial}, {row.layer}: the summary counts {row.count} "
                f"but the buckets hold {histogram.count}"
            )
        series.append(
            Series(
                trial=row.trial,
                path=key[1],
                kind=row.kind,
                layer=row.layer,
                from_point=row.from_point,
                to_point=row.to_point,
                context=row.context,
                counted=row.counted,
                unit=row.unit,
                negative=row.negative,
                overflow=row.overflow,
                histogram=histogram,
                work=row.work,
            )
        )
    if held:
        trial, _, _, layer = next(iter(held))
        raise ValueError(f"trial {trial}, {layer}: buckets without a summary")
    return series


def _histogram(
    rows: Sequence[tuple[int, int, int]], figures: tuple[int, int, int, bool]
) -> Histogram:
    plain = {index(lower): count for lower, _, count in rows}
    if all(bounds(index(lower)) == (lower, upper) for lower, upper, _ in rows):
        return Histogram(plain, *figures)
    counts = {number: count for number, (_, _, count) in enumerate(rows)}
    edges = {number: (lower, upper) for number, (lower, upper, _) in enumerate(rows)}
    return Histogram(counts, *figures, edges)


def _key(trial: int, path: AnyPath | None, kind: Kind, layer: str) -> _Key:
    """Return what tells a series; before there was a column `path`, all packets were received."""
    if path is None and kind not in ("napi", "arrival"):
        path = "receive"
    return trial, path, kind, layer
