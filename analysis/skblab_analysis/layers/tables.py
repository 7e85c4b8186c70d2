# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of one trial of the probe: layers, NAPI polls, the ledger.

Values stand in the trial's unit, named in the title; a dash is a percentile without enough samples
(see base/histogram).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import (
    FIXED_SPACE,
    Scale,
    number,
    scale,
    share,
    slowest,
    small_share,
)
from skblab_analysis.formats.ledger import Exchange, Ledger
from skblab_analysis.formats.pathlat import GroupPath, PathlatDocument, PathName
from skblab_analysis.layers.rows import IN
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.words import PATHS, label, whose

# A layer with no more packets than so many of the whole path's has a share of it.
FEW_OTHERS = 1.01
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def of_series(found: Sequence[Series], document: PathlatDocument | None = None) -> list[Table]:
    """Return the tables of one trial: what comes before all packets, then each path.

    After each path come the groups of the document, if it has any.
    """
    made = []
    polls = [series for series in found if series.kind == "napi"]
    if polls:
        made.append(napi_table(polls))
    filled = [series for series in found if series.histogram.buckets]
    for path in PATHS:
        packets = of_path(path, filled)
        if packets:
            made.append(layer_table(packets))
            if document is not None and document.groups:
                made.append(group_table(path, document, scale_of(packets)))
    coming = [series for series in filled if series.path == IN]
    if coming and not any(of_path(path, filled) for path in ("receive", "forward")):
        made.append(layer_table(coming))
    return made


def of_path(path: PathName, found: Sequence[Series]) -> list[Series]:
    """Return the series of a path, those of `in` before them; none if the path has none itself.

    What is sent does not come in.
    """
    own = [series for series in found if series.path == path]
    coming = [series for series in found if series.path == IN] if own and path != "send" else []
    return [*coming, *own]


def share_of_total(series: Series, found: Sequence[Series]) -> float | None:
    """Return the layer's summed time over that of the whole path.

    None without a whole path, or if many other packets passed the layer as well: scripts and the
    kernel's histograms count all.
    """
    wholes = [other.histogram for other in found if other.kind == "path"]
    total = sum(whole.total for whole in wholes)
    others = series.histogram.count > FEW_OTHERS * sum(whole.count for whole in wholes)
    return series.histogram.total / total if total and not others else None


def percentiles(found: Iterable[Series]) -> dict[str, float]:
    """Return the percentiles to show: the last only where there are packets enough for it."""
    *usual, last = PERCENTILES
    known = any(series.histogram.quantile(PERCENTILES[last]) is not None for series in found)
    return {name: PERCENTILES[name] for name in (*usual, *([last] if known else []))}


def scale_of(found: Sequence[Series]) -> Scale:
    """Return the one scale in which all of these are written."""
    return scale(found[0].unit, max(series.histogram.maximum for series in found))


def layer_table(found: Sequence[Series]) -> Table:
    """Return the table of layers and whole path, one row each."""
    scaled = scale_of(found)
    what = whose(found).replace("’", "'")
    table = titled(f"Where {what} goes ({scaled.name})")
    # The only column that may fold: a number that is cut short would be a wrong one.
    table.add_column("layer", overflow="fold")
    shown = percentiles(found)
    for name in ("packets", "mean", *shown, "max", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for series in found:
        total = series.kind == "path"
        table.add_row(
            "whole path" if total else label(series).replace(" → ", "→"),
            *_figures(series, scaled, shown.values()),
            ""
            if series.kind == "since_entry"
            else share(share_of_total(series, found)).replace(FIXED_SPACE, ""),
            style="bold" if total else None,
        )
    return table


def group_table(path: PathName, document: PathlatDocument, scaled: Scale) -> Table:
    """Return the table of a path's groups: the whole path, and where each spends most."""
    groups = document.groups or ()
    by = groups[0].by if groups else ""
    table = titled(f"{path} by {by} ({scaled.name})")
    table.add_column(by, no_wrap=True)
    for name in ("packets", "of all", "mean", "p50", "p99", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most of it in", overflow="fold")
    whole = document.path(path).path_time.count
    for group in groups:
        grouped = group.path(path)
        if grouped is not None:
            histogram = grouped.path_time.histogram()
            table.add_row(
                group.name,
                number(histogram.count),
                share(histogram.count / whole).replace(FIXED_SPACE, ""),
                scaled.text(histogram.mean),
                scaled.text(histogram.quantile(0.5)),
                scaled.text(histogram.quantile(0.99)),
                scaled.text(histogram.maximum),
                _slowest(grouped),
            )
    return table


def _slowest(grouped: GroupPath) -> str:
    layer = grouped.slowest
    if layer is None or not grouped.path_time.sum:
        return ""
    return f"{layer.to_point} ({share(layer.sum / grouped.path_time.sum).replace(FIXED_SPACE, '')})"


def napi_table(found: Sequence[Series]) -> Table:
    """Return the table of NAPI polls: delay from schedule to poll, and time in the poll."""
    scaled = scale_of(found)
    table = titled(f"NAPI polls ({scaled.name})")
    table.add_column("figure, context", overflow="fold")
    shown = percentiles(found)
    for name in ("polls", "mean", *shown, "max", "packets"):
        table.add_column(name, justify="right", no_wrap=True)
    for series in found:
        work = "" if series.work is None else number(series.work)
        table.add_row(label(series), *_figures(series, scaled, shown.values()), work)
    return table


def histogram_table(series: Series) -> Table:
    """Return a series' buckets: each one's bounds, and how much lies in it and below its end."""
    table = titled(f"{series.path or 'NAPI'}: {label(series)} ({series.unit})")
    for name in ("from", "to", "count", "up to here"):
        table.add_column(name, justify="right", no_wrap=True)
    below = 0
    for lower, upper, count in series.histogram.rows():
        below += count
        table.add_row(
            number(lower), number(upper), number(count), share(below / series.histogram.count, 2)
        )
    return table


def _figures(series: Series, scaled: Scale, shown: Iterable[float]) -> list[str]:
    histogram = series.histogram
    return [
        number(histogram.count),
        scaled.text(histogram.mean),
        *(scaled.text(histogram.quantile(q)) for q in shown),
        slowest(histogram, scaled.text) if histogram.buckets else scaled.text(None),
    ]


@dataclass(frozen=True)
class Line:
    """A line of a ledger: a count, for a point also of what it did not see, and words."""

    name: str
    count: int
    missed: int | None = None
    words: str = ""


def ledger_table(ledger: Ledger) -> Table:
    """Return the ledger: what became of known packets, what the probe saw, what is missing."""
    table = titled(ledger_title(ledger))
    table.add_column("what", no_wrap=True)
    table.add_column("packets", justify="right", no_wrap=True)
    exchange = ledger.exchange
    if exchange is not None:
        table.add_column("not", justify="right", no_wrap=True)
    table.add_column("")
    for part in ledger_parts(ledger):
        for line in part:
            missed = "" if line.missed is None else number(line.missed)
            middle = () if exchange is None else (missed,)
            table.add_row(line.name, number(line.count), *middle, line.words)
        table.add_section()
    middle = () if exchange is None else ("",)
    table.add_row("unaccounted for", small_share(ledger.share), *middle, "of those that ended")
    return table


def ledger_title(ledger: Ledger) -> str:
    """Return the title: what is counted, and of which path if the probe saw but one."""
    return f"Ledger (paths of packets{f', {ledger.path}' if ledger.path else ''})"


def ledger_parts(ledger: Ledger) -> list[list[Line]]:
    """Return the lines of a ledger that have something to say, part by part."""
    exchange = ledger.exchange
    parts = [[*_of_ends(exchange)], [*_points(exchange)]] if exchange else []
    missing = [Line(f"unaccounted: {cause}", count) for cause, count in ledger.unaccounted.items()]
    return [part for part in (*parts, _of_probe(ledger), missing) if part]


def _of_ends(exchange: Exchange) -> Iterator[Line]:
    """Yield what sender and receiver say; lesser figures only if there are any."""
    yield Line("sent", exchange.sent, words="= received + lost")
    yield Line("received", exchange.received)
    yield Line("lost", exchange.lost, words=lost_words(exchange))
    yield Line("duplicates", exchange.duplicates)
    yield Line("reordered", exchange.reordered)
    if_any = (
        Line("never sent", exchange.unsent),
        Line("foreign datagrams read", exchange.other),
        Line("delivered but in no layer", exchange.incomplete),
        Line("received, with another end", exchange.other_end),
        Line("drops of other traffic", exchange.dropped_elsewhere),
    )
    yield from (line for line in if_any if line.count)


def _points(exchange: Exchange) -> Iterator[Line]:
    read = "received" if exchange.read == exchange.received else "read"
    for point in exchange.points:
        yield Line(f"seen at {point.point}", point.seen, point.not_seen, f"seen + not = {read}")
    for point in exchange.sent_points:
        words = "seen + not = sent" if point.seen else "not on the path"
        yield Line(f"sender at {point.point}", point.seen, point.not_seen, words)


def _of_probe(ledger: Ledger) -> list[Line]:
    begun = "= ended + merged + in flight + continued + unaccounted for"
    if ledger.source == "histograms":
        begun = "= ended − further copies + merged + all below"
    found = [
        ("begun", ledger.begun, begun),
        ("ended", ledger.ended, ""),
        ("merged into others", ledger.merged, ""),
        ("not sent by a driver", ledger.dropped, "dropped, or sent as copies"),
        ("elsewhere", ledger.elsewhere, "in flight, dropped, merged by GRO, or used by the kernel"),
        ("in flight when it stopped", ledger.in_flight, ""),
        ("more ended than begun", ledger.earlier, "copies, segments, or in flight at its start"),
        ("continued", ledger.continued, "entered anew while on their way"),
        ("unwanted", ledger.filtered, "by the filters"),
        ("further copies", ledger.copies, "among the ended"),
        *((f"polls: {cause}", n, "in no histogram") for cause, n in ledger.polls.items()),
    ]
    return [
        Line(name, count, words=words)
        for name, count, words in found
        if count is not None and (name == "ended" or count)
    ]


def lost_words(exchange: Exchange) -> str:
    """Return where the lost packets went, as far as the probe could tell."""
    if not exchange.lost:
        return ""
    reasons = exchange.drop_reasons.items()
    parts = [f"{number(count)} {reason}" for reason, count in reasons if count]
    if not parts and exchange.dropped:
        # The kernel's histograms tell no reasons, but the last point that the most passed.
        last = [point for point, n in exchange.dropped_points.items() if n == exchange.dropped][-1]
        parts.append(f"{number(min(exchange.dropped, exchange.lost))} after {last}")
    if exchange.lost_elsewhere:
        parts.append(f"{number(exchange.lost_elsewhere)} before the first point")
    return ", ".join(parts)
