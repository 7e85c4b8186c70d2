# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of a file as tables for people, which fit into 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rich import box
from rich.table import Table

from skblab_analysis.base.words import ABSENT, number, share
from skblab_analysis.formats.analyze import PERCENTILES, FileFigures, Late, Times

_US = 1000
# Those of the table; --json and --parquet have all.
_MOST_FLOWS = 20
# Whether the data begins, and whether it ends, within an anomaly.
OPEN = {(False, False): "no", (True, False): "begin", (False, True): "end", (True, True): "both"}
_OF_FLOW = ("50", "99", "99.9")


def of_file(found: FileFigures) -> Iterator[Table | str]:
    """Yield what to print of a file, in order."""
    yield f"{found.file} ({found.format}): {_span(found)}"
    yield _counts(found)
    yield _times(found)
    if found.late:
        yield _late(found.late)
    if found.flows is not None:
        yield _flows(found)
        if len(found.flows) > _MOST_FLOWS:
            yield f"{len(found.flows) - _MOST_FLOWS} more flows: --json and --parquet have all"
    reasons: dict[str, list[str]] = {}
    for name, why in found.unknown.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        yield f"not known: {', '.join(names)}: {why}"
    if set_back := _set_back(found):
        yield set_back


def _span(found: FileFigures) -> str:
    rate = f", {number(found.rate)} packets/s" if found.rate is not None else ""
    packets = "1 packet" if found.packets == 1 else f"{number(found.packets)} packets"
    return f"{packets} in {found.seconds:.6g} s{rate}"


def _set_back(found: FileFigures) -> str | None:
    """Return what negative times mean, if there are any."""
    if found.inter_arrival_ns.negative:
        return (
            "arrivals go back in time: the receiver's clock was set back, so its rate, and all "
            "that is over time, are wrong"
        )
    if found.latency_ns and found.latency_ns.negative:
        return "packets arrive before they are sent: a clock was set back, or two clocks differ"
    return None


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table


def _counts(found: FileFigures) -> Table:
    table = _table("", "packets", "share")
    extents = found.reordered.extent_packets if found.reordered else None
    rows: list[tuple[str, int | None, float | None]] = [
        ("received", found.received, None),
        ("lost", found.lost, found.lost_share),
        ("reordered", *((None, None) if found.reordered is None else _reordered(found))),
        ("duplicates", found.duplicates, None),
    ]
    if extents is not None and extents.count:
        rows.insert(3, ("farthest reordered, by", extents.max, None))
    if found.lost is None and found.missing:
        rows.insert(2, ("lost, at most", found.missing, None))
    others = {
        "of another transmission": found.other_transmission,
        "foreign": found.foreign,
        "too old": found.too_old,
        "beyond those expected": found.beyond,
        "stamped late": found.not_by_kernel,
        "without a time": found.bad_times,
        "received, not in the file": found.not_kept,
    }
    rows.extend((name, count, None) for name, count in others.items() if count)
    for name, count, part in rows:
        table.add_row(name, number(count), "" if part is None else share(part))
    return table


def _reordered(found: FileFigures) -> tuple[int | None, float | None]:
    assert found.reordered is not None
    return found.reordered.count, found.reordered.share


def _times(found: FileFigures) -> Table:
    kinds: tuple[Times | None, ...] = (found.latency_ns, found.jitter_ns, found.inter_arrival_ns)
    of = f"latency, {found.latency_of}" if found.latency_of else "latency"
    table = _table("µs", of, "jitter", "inter-arrival")

    def add(name: str, value_of: Callable[[Times], float | None]) -> None:
        values = [None if kind is None else value_of(kind) for kind in kinds]
        if any(value is not None for value in values):
            table.add_row(name, *(_us(value, 3) for value in values))

    add("min", lambda kind: kind.min)
    add("mean", lambda kind: kind.mean)
    add("deviation", lambda kind: kind.sd)
    for name in PERCENTILES:
        add(f"{name} %", partial(_percentile, name))
    add("max", lambda kind: kind.max)
    if any(kind and kind.negative for kind in kinds):
        negative = (None if kind is None else kind.negative for kind in kinds)
        table.add_row("negative, packets", *map(number, negative))
    return table


def _percentile(name: str, kind: Times) -> float | None:
    return kind.percentiles.get(name)


def _us(value_ns: float | None, digits: int) -> str:
    return ABSENT if value_ns is None else number(value_ns / _US, digits)


def _late(late: tuple[Late, ...]) -> Table:
    table = _table("packets × µs", "anomalies", "packets", "share", "longest, µs", "open")
    for kind in late:
        medians = "" if kind.of_median is None else f" (x{kind.of_median:g})"
        most = kind.duration_ns.max
        table.add_row(
            f"≥ {kind.least} × {kind.late_ns / _US:.6g}{medians}",
            number(kind.count),
            number(kind.packets),
            share(kind.share),
            _us(most, 1),
            OPEN[kind.open_begin, kind.open_end],
        )
    return table


def _flows(found: FileFigures) -> Table:
    table = _table(
        "flow, µs", "packets", "packets/s", "mean", *(f"{name} %" for name in _OF_FLOW), "max"
    )
    for flow in (found.flows or ())[:_MOST_FLOWS]:
        percentiles = flow.percentiles or {}
        middle = map(percentiles.get, _OF_FLOW)
        cells = (_us(value, 1) for value in (flow.mean_ns, *middle, flow.max_ns))
        table.add_row(str(flow.flow), number(flow.packets), number(flow.rate), *cells)
    return table
