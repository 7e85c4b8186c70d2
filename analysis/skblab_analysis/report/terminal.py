# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables for the terminal: layers, NAPI polls, the ledger, exact figures, rates.

`of_run(folder)` gives all that a run has. Values stand in the run's unit, named in the title; a
dash is a percentile without enough samples (see loglinear).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.words import (
    ABSENT,
    FIXED_SPACE,
    PATHS,
    Scale,
    at_rate,
    label,
    number,
    scale,
    share,
    signed,
    slowest,
    small_share,
)
from skblab_analysis.cost import bench, functions
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.exact.summary import SPREAD_LIMIT, Cost, ExactSummary
from skblab_analysis.formats.heard import Complaint
from skblab_analysis.formats.pathlat import GroupPath, LateDocument, PathlatDocument, PathName
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency import view as delays
from skblab_analysis.latency.summary import LatencySummary
from skblab_analysis.layers import summary as layers_summary
from skblab_analysis.layers import view as layers_by_setting
from skblab_analysis.layers.account import Account
from skblab_analysis.layers.ledger import Ledger
from skblab_analysis.layers.series import Series
from skblab_analysis.layers.summary import LayeringSummary
from skblab_analysis.load import load
from skblab_analysis.rfc2544 import summary as rfc2544_summary
from skblab_analysis.rfc2544 import view as benchmarks
from skblab_analysis.rfc2544.summary import Rfc2544Summary
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput import view as rates
from skblab_analysis.throughput.summary import GoalSummary, ThroughputSummary

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def of_run(folder: Path, document: PathlatDocument | None = None) -> list[Table]:
    """Return every table of the run folder in reading order; RecordError when it is broken.

    With the probe's document of a run that has one, also those of its groups.
    """
    run = load(folder)
    made: list[Table] = []
    for account in run.document.accounts:
        made += [*of_series(run.of_trial(account.trial), document), account_table(account)]
    for ledger in run.document.ledgers:
        made += [*of_series(run.of_trial(ledger.trial)), ledger_table(ledger)]
    made += map(exact_table, exact_summary.of(run))
    made += (table for one in throughput_summary.of(run) for table in throughput_tables(one))
    made += (table for one in rfc2544_summary.of(run) for table in rfc2544_tables(one))
    made += (table for one in latency_summary.of(run) for table in latency_tables(one))
    made += map(layering_table, layers_summary.of(run))
    complaints = run.complaints()
    return [*made, complaint_table(complaints)] if complaints else made


def complaint_table(complaints: Sequence[Complaint]) -> Table:
    """Return the table of what kernels complained of: a trial with such a line is invalid."""
    table = titled("What kernels complained of")
    table.add_column("when")
    table.add_column("line", overflow="fold")
    for one in complaints:
        for line in one.lines:
            table.add_row(one.where, escape(str(line)))
        if one.more:
            table.add_row(one.where, f"and {number(one.more)} further lines")
    return table


def of_series(found: Sequence[Series], document: PathlatDocument | None = None) -> list[Table]:
    """Return the tables of one trial: what comes before all packets, then each path.

    After each path come the groups of the document, if it has any.
    """
    made = []
    polls = [one for one in found if one.kind == "napi"]
    if polls:
        made.append(napi_table(polls))
    for path in PATHS:
        packets = [one for one in found if one.path == path and one.histogram.buckets]
        if packets:
            made.append(layer_table(packets))
            if document is not None and document.groups:
                made.append(group_table(path, document, scale_of(packets)))
    return made


def share_of_total(one: Series, found: Sequence[Series]) -> float | None:
    """Return the layer's summed time over that of the whole path.

    None without a whole path, or if other packets passed the layer as well, as scripts count.
    """
    wholes = [other.histogram for other in found if other.kind == "total"]
    total = sum(whole.total for whole in wholes)
    others = one.histogram.count > sum(whole.count for whole in wholes)
    return one.histogram.total / total if total and not others else None


def percentiles(found: Iterable[Series]) -> dict[str, float]:
    """Return the percentiles to show: the last only where there are packets enough for it."""
    *usual, last = PERCENTILES
    known = any(one.histogram.quantile(PERCENTILES[last]) is not None for one in found)
    return {name: PERCENTILES[name] for name in (*usual, *([last] if known else []))}


def scale_of(found: Sequence[Series]) -> Scale:
    """Return the one scale in which all of these are written."""
    return scale(found[0].unit, max(one.histogram.maximum for one in found))


def layer_table(found: Sequence[Series]) -> Table:
    """Return the table of layers and whole path, one row each."""
    scaled = scale_of(found)
    what = PATHS[found[0].path or "receive"].replace("’", "'")
    table = titled(f"Where {what} goes ({scaled.name})")
    # The only column that may fold: a number that is cut short would be a wrong one.
    table.add_column("layer", overflow="fold")
    shown = percentiles(found)
    for name in ("packets", "mean", *shown, "max", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        total = one.kind == "total"
        table.add_row(
            "whole path" if total else label(one).replace(" → ", "→"),
            *_figures(one, scaled, shown.values()),
            ""
            if one.kind == "entry"
            else share(share_of_total(one, found)).replace(FIXED_SPACE, ""),
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
    whole = document.path(path).leg.count
    for group in groups:
        one = group.path(path)
        if one is not None:
            histogram = one.leg.histogram()
            table.add_row(
                group.name,
                number(histogram.count),
                share(histogram.count / whole).replace(FIXED_SPACE, ""),
                scaled.text(histogram.mean),
                scaled.text(histogram.quantile(0.5)),
                scaled.text(histogram.quantile(0.99)),
                scaled.text(histogram.maximum),
                _slowest(one),
            )
    return table


def _slowest(one: GroupPath) -> str:
    layer = one.slowest
    if layer is None or not one.leg.sum:
        return ""
    return f"{layer.to_point} ({share(layer.sum / one.leg.sum).replace(FIXED_SPACE, '')})"


def napi_table(found: Sequence[Series]) -> Table:
    """Return the table of NAPI polls: delay from schedule to poll, and time in the poll."""
    scaled = scale_of(found)
    table = titled(f"NAPI polls ({scaled.name})")
    table.add_column("figure, context", overflow="fold")
    shown = percentiles(found)
    for name in ("polls", "mean", *shown, "max", "packets"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        work = "" if one.work is None else number(one.work)
        table.add_row(label(one), *_figures(one, scaled, shown.values()), work)
    return table


def histogram_table(one: Series) -> Table:
    """Return a series' buckets: each one's bounds, and how much lies in it and below its end."""
    table = titled(f"{one.path or 'NAPI'}: {label(one)} ({one.unit})")
    for name in ("from", "to", "count", "up to here"):
        table.add_column(name, justify="right", no_wrap=True)
    below = 0
    for lower, upper, count in one.histogram.rows():
        below += count
        table.add_row(
            number(lower), number(upper), number(count), share(below / one.histogram.count, 2)
        )
    return table


def _figures(one: Series, scaled: Scale, shown: Iterable[float]) -> list[str]:
    histogram = one.histogram
    return [
        number(histogram.count),
        scaled.text(histogram.mean),
        *(scaled.text(histogram.quantile(q)) for q in shown),
        slowest(histogram, scaled.text) if histogram.buckets else scaled.text(None),
    ]


def ledger_table(ledger: Ledger) -> Table:
    """Return the ledger: what became of every packet, then each point of the path."""
    table = titled("Ledger (packets)")
    table.add_column("what", no_wrap=True)
    table.add_column("packets", justify="right", no_wrap=True)
    table.add_column("not", justify="right", no_wrap=True)
    table.add_column("check")
    table.add_row("sent", number(ledger.sent), "", "= received + lost")
    table.add_row("received", number(ledger.received), "", "")
    table.add_row("lost", number(ledger.lost), "", lost_words(ledger))
    for name, value in rest_of(ledger):
        table.add_row(name, number(value), "", "")
    table.add_section()
    for count in ledger.points:
        table.add_row(
            f"seen at {count.point}",
            number(count.seen),
            number(count.not_seen),
            "seen + not = received" if ledger.read == ledger.received else "seen + not = read",
        )
    if ledger.sent_points:
        table.add_section()
    for count in ledger.sent_points:
        table.add_row(
            f"sender at {count.point}",
            number(count.seen),
            number(count.not_seen),
            "seen + not = sent" if count.seen else "not on the path",
        )
    return table


def account_table(account: Account) -> Table:
    """Return the account of a probe that does not know what was sent."""
    table = titled(account_title(account))
    table.add_column("what", no_wrap=True)
    table.add_column("packets", justify="right", no_wrap=True)
    table.add_column("")
    for name, value, words in account_rows(account):
        table.add_row(name, number(value), words)
    table.add_section()
    for cause, count in account.unaccounted.items():
        table.add_row(f"unaccounted: {cause}", number(count), "")
    table.add_row("unaccounted for", small_share(account.share), "of those that ended")
    return table


def account_title(account: Account) -> str:
    """Return the title: what is counted, and of which path if the probe saw but one."""
    return f"Account (paths of packets{f', {account.path}' if account.path else ''})"


def account_rows(account: Account) -> list[tuple[str, int, str]]:
    """Return the lines of an account that have something to say: name, packets, words."""
    rows = [
        ("begun", account.begun, _begun_words(account)),
        ("ended", account.ended, ""),
        ("merged into others", account.merged, ""),
        ("in flight when it stopped", account.in_flight, ""),
        ("more in flight at its start", account.earlier, ""),
        ("continued", account.continued, "entered anew while on their way"),
        ("unwanted", account.filtered, "by the filters"),
        ("further copies", account.copies, "among the ended"),
        *((f"polls: {cause}", n, "in no histogram") for cause, n in account.polls.items()),
    ]
    return [
        (name, value, words)
        for name, value, words in rows
        if value is not None and (name == "ended" or value)
    ]


def _begun_words(account: Account) -> str:
    if account.source == "histograms":
        return "= ended − further copies + merged + in flight − in flight at its start"
    return "= ended + merged + in flight + continued + unaccounted for"


MOST_LATE = 20


def late_table(late: LateDocument) -> Table:
    """Return the slowest of the late packets: which layer made each late, and what its CPU did."""
    slowest = sorted(late.packets, key=lambda packet: -packet.total_ns)[:MOST_LATE]
    ns = scale("ns", slowest[0].total_ns if slowest else late.threshold_ns)
    limit = scale("ns", late.threshold_ns)
    row = f", {late.in_a_row} in a row" if late.in_a_row > 1 else ""
    table = titled(f"Late packets ({limit.text(late.threshold_ns)} {limit.name} or more{row})")
    table.add_column("path", no_wrap=True)
    table.add_column(f"{ns.name}", justify="right", no_wrap=True)
    table.add_column("made late by", no_wrap=True)
    table.add_column(f"{ns.name}", justify="right", no_wrap=True)
    table.add_column("CPU", justify="right", no_wrap=True)
    table.add_column("which did longest", overflow="fold")
    table.add_column(f"{ns.name}", justify="right", no_wrap=True)
    for packet in slowest:
        layer, took = packet.slowest
        deed = packet.longest_deed
        table.add_row(
            packet.path,
            ns.text(packet.total_ns),
            layer,
            ns.text(took),
            str(packet.cpu),
            escape(deed[0]) if deed else "",
            ns.text(deed[1]) if deed else "",
        )
    said = [
        f"{number(late.packets_late)} late in {number(late.runs)} runs: {number(late.recorded)} "
        "recorded"
    ]
    if late.limited:
        said.append(f"{number(late.limited)} not, for there were enough")
    if late.lost:
        said.append(f"{number(late.lost)} not, for want of room")
    if late.early_in_a_row:
        said.append(f"{number(late.early_in_a_row)} before a run was long enough")
    if late.tracing_stopped:
        said.append("tracing stopped at the first")
    table.caption = ", ".join(said)
    return table


def rest_of(ledger: Ledger) -> list[tuple[str, int]]:
    """Return the ledger's lesser figures; those of faults are given even when zero."""
    always = [
        ("duplicates", ledger.duplicates),
        ("reordered", ledger.reordered),
        *((f"unplaced: {cause}", count) for cause, count in ledger.unplaced.items()),
    ]
    if_any = [
        ("never sent", ledger.unsent),
        ("foreign datagrams read", ledger.other),
        ("read without a sample", ledger.unsampled),
        ("sampled but in no layer", ledger.incomplete),
        ("merged into others", ledger.merged),
        ("samples of other ends", ledger.other_end),
        ("samples of other traffic, left out", ledger.filtered),
        ("drops of other traffic", ledger.dropped_elsewhere),
    ]
    return always + [(name, count) for name, count in if_any if count]


def lost_words(ledger: Ledger) -> str:
    """Return where the lost packets went, as far as the probe could tell."""
    if not ledger.lost:
        return ""
    parts = [f"{number(count)} {reason}" for reason, count in ledger.drop_reasons.items() if count]
    if ledger.lost_elsewhere:
        parts.append(f"{number(ledger.lost_elsewhere)} before the first point")
    return ", ".join(parts)


def exact_table(exact: ExactSummary) -> Table:
    """Return instructions per packet by setting with the difference and the repeat spread."""
    what = f", {exact.traffic}" if exact.traffic else ""
    table = titled(f"Exact cost (instructions per packet{what})")
    rows = [*exact.costs, *exact.testers]
    # Said once where all have the same.
    each = {(one.trials, one.boots) for one in rows}
    counted = ("trials", "boots") if len(each) > 1 else ()
    table.add_column("setting", overflow="fold")
    for name in (*counted, "all", "path", "difference", "of all", "spread"):
        table.add_column(name, justify="right", no_wrap=True)
    by_setting = {one.setting: one.difference for one in exact.differences}
    for cost in rows:
        difference = by_setting.get(cost.setting)
        alone = cost in exact.testers
        if alone and cost is exact.testers[0]:
            table.add_section()
        table.add_row(
            escape(cost.setting),
            *((str(cost.trials), str(cost.boots)) if counted else ()),
            number(cost.mean, 1),
            "" if alone else number(exact.path(cost), 1),
            *(exact_words(difference)[::2] if difference else ("" if alone else "baseline", "")),
            _spread(cost),
        )
    said = [f"{trials} trials of each, in {boots} boots" for trials, boots in each if not counted]
    said += [
        f"{escape(one.setting)}: not significant, the smallest detectable difference is "
        f"{number(one.difference.detectable, 1)}"
        for one in exact.differences
        if one.difference.significant is False
    ]
    if any(one.difference.significant is None for one in exact.differences):
        said.append("in brackets: of one boot, whether it is significant is not known")
    table.caption = "; ".join(said)
    return table


def exact_words(one: Difference, space: str = " ") -> tuple[str, str, str]:
    """Return a difference, in brackets if not significant, half of its interval, and its share."""
    text = signed(one.effect, 1, space)
    half = "" if one.margin is None else f"±{number(one.margin, 1, space)}"
    return text if one.significant else f"({text})", half, share(one.share, 1, sign=True)


def throughput_tables(summary: ThroughputSummary) -> list[Table]:
    """Return the rates by setting, a table for each goal."""
    return [_rate_table(summary, goal) for goal in summary.goals]


def _rate_table(summary: ThroughputSummary, goal: GoalSummary) -> Table:
    table = titled(f"Throughput, {goal.goal} (packets/s, {summary.traffic})")
    table.add_column("setting", overflow="fold")
    for name in ("packets/s", "95 %", "difference", "95 %", "blocks", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    made = rates.rows(goal)
    for place, one in enumerate(made):
        table.add_row(
            escape(one.setting),
            *(one.rate, one.half, one.difference, one.difference_half, one.blocks, one.limit),
            end_section=place == len(goal.rates) - 1,
        )
    table.caption = f"good: {rates.goal_words(goal)}"
    if any(one.doubtful for one in made):
        table.caption += "; in brackets: not significant"
    return table


def rfc2544_tables(summary: Rfc2544Summary) -> list[Table]:
    """Return the figures of RFC 2544's other tests, and frame loss by load."""
    made = []
    for title, names, found in (
        (f"RFC 2544 ({summary.traffic})", benchmarks.COLUMNS, benchmarks.rows(summary)),
        (
            f"Frame loss rate (%, by share of the tester's most, {summary.traffic})",
            benchmarks.load_names(summary),
            benchmarks.loss_rows(summary),
        ),
    ):
        if not found:
            continue
        table = titled(title)
        table.add_column("setting", overflow="fold")
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for one in found:
            table.add_row(escape(one.setting), *one.figures)
        made.append(table)
    if benchmarks.rows(summary):
        made[0].caption = benchmarks.note([summary])
    return made


def latency_tables(summary: LatencySummary) -> list[Table]:
    """Return times by setting at one rate, and what was late."""
    scaled = delays.scale_of(summary)
    table = titled(f"Latency ({scaled.name}, {at_rate(summary)})")
    table.add_column("setting", overflow="fold")
    names = [name for name in delays.QUANTILES if name != "p99.99"]
    for name in ("lost", *names, "max", "p99 differs", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    made = delays.rows(summary)
    for place, one in enumerate(made):
        figures = [*one.times[: len(names)], one.times[-1]]
        table.add_row(
            escape(one.setting),
            *(one.lost, *figures, one.difference, one.half),
            end_section=place == len(summary.delays) - 1,
        )
    if any(one.doubtful for one in made):
        table.caption = "in brackets: not significant"
    return [table, _late_packets_table(summary)]


def layering_table(summary: LayeringSummary) -> Table:
    """Return the mean of each layer by setting, a row below it with what it differs."""
    scaled = layers_by_setting.scale_of(summary)
    table = titled(f"Layers ({scaled.name}, mean, {at_rate(summary)})")
    table.add_column("setting", overflow="fold")
    for name in layers_by_setting.names(summary):
        table.add_column(name, justify="right", overflow="fold")
    for one in layers_by_setting.rows(summary):
        table.add_row(escape(one.setting), *one.means)
        if any(one.differences):
            table.add_row("", *one.differences, style="dim")
    table.caption = (
        "below each mean: what it differs from the baseline's; in brackets: not significant"
    )
    return table


def _late_packets_table(summary: LatencySummary) -> Table:
    row = max((one.in_a_row for delay in summary.delays for one in delay.lateness), default=1)
    table = titled(f"Late packets ({at_rate(summary)})")
    table.add_column("setting", overflow="fold")
    for name in ("from", "late", "of all", "anomalies", "longest", "per million"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in delays.late_rows(summary):
        figures = (one.threshold, one.late, one.share, one.runs, one.longest, one.difference)
        table.add_row(escape(one.setting), *figures)
    table.caption = (
        f"an anomaly: {row} late packets in a row or more; per million: late ones more than with "
        "the baseline"
    )
    return table


def of_bench(document: bench.BenchDocument) -> list[Table]:
    """Return the tables of a benchmark of the patches, those that it has figures for."""
    made = [_row_table(document)]
    for path, title in ((bench.forwarding, "Forwarding"), (bench.receive, "UDP receive")):
        sections = [(family, path(document, family)) for family in bench.FAMILIES]
        sections = [(family, figures) for family, figures in sections if figures]
        if sections:
            made.append(_cost_table(title, sections))
    polls = bench.polls(document)
    if polls:
        made.append(_poll_table(polls))
    if document.wall:
        made.append(_wall_table(document.wall))
    return made


CASE_TITLES: dict[functions.Case, str] = {
    "forward": "Forwarding",
    "receive": "UDP receive",
    "poll": "A NAPI poll a packet",
}


def of_functions(document: functions.FunctionsDocument, least: float) -> Table:
    """Return what each function executes in two rows, those apart by less than `least` in one."""
    table = titled(f"{CASE_TITLES[document.case]}, IPv{document.family} (instructions per packet)")
    table.add_column("function", no_wrap=True)
    for name in (document.a.name, document.b.name, "difference"):
        table.add_column(name, justify="right", no_wrap=True)

    def add(one: functions.Function, *, end: bool = False) -> None:
        values = (number(one.a, 1), number(one.b, 1), signed(one.difference, 1))
        table.add_row(escape(one.name), *values, end_section=end)

    shown, rest = functions.cut(document.functions, least)
    for one in shown:
        add(one)
    add(functions.total(rest, f"others ({len(rest)})"), end=True)
    add(functions.total(document.functions, "total"))
    clock = document.clock
    add(functions.Function(name="by the clock", a=clock["a"], b=clock["b"]))
    return table


def _row_table(document: bench.BenchDocument) -> Table:
    table = titled("Rows")
    table.add_column("row", no_wrap=True)
    for name in ("what it is", "kernel", "read by"):
        table.add_column(name, overflow="fold")
    group = None
    for row in document.rows:
        if group not in (None, row.group):
            table.add_section()
        group = row.group
        what = f"[red]refused:[/red] {escape(row.refused)}" if row.refused else escape(row.title)
        table.add_row(row.name, what, escape(row.kernel), escape(row.tool))
    return table


def _cost_table(title: str, sections: Sequence[tuple[int, Sequence[bench.Figures]]]) -> Table:
    table = titled(f"{title} (exact, instructions per packet)")
    table.add_column("row", no_wrap=True)
    receive = sections[0][1][0].queue is not None
    # The two parts of receiving stand in the place of the whole, which would be one too wide.
    split = ("queue", "read") if receive else ("whole",)
    for name in (*split, "path", "more", "of whole", "a point", "+-"):
        table.add_column(name, justify="right", no_wrap=True)
    for family, figures in sections:
        table.add_row(f"[bold]IPv{family}[/bold]")
        for one in figures:
            table.add_row(
                one.row.name,
                *((number(one.queue), number(one.read)) if receive else (number(one.whole),)),
                number(one.path),
                "baseline" if one.difference is None else signed(one.difference),
                ""
                if one.share is None
                else share(one.share, 1, sign=True).replace(FIXED_SPACE, ""),
                "" if one.per_point is None else signed(one.per_point, 1),
                _margin(one.certainty),
                end_section=one is figures[-1],
            )
    return table


def _poll_table(polls: Sequence[bench.Poll]) -> Table:
    table = titled("NAPI (exact, instructions per poll)")
    for name in ("row", "compared with"):
        table.add_column(name, no_wrap=True)
    for name in ("polls a packet", "more", "+-"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in polls:
        table.add_row(
            one.row.name,
            one.baseline,
            number(one.polls_per_packet, 2),
            signed(one.per_poll, 1),
            _margin(one.certainty),
        )
    return table


def _margin(one: Difference | None) -> str:
    """Return half of an interval; in brackets if it holds 0."""
    if one is None or one.margin is None:
        return "" if one is None else ABSENT
    text = number(one.margin, 1)
    return text if one.significant else f"({text})"


def _wall_table(pairs: Sequence[bench.WallPair]) -> Table:
    table = titled("Throughput of forwarding (wall, stamps on over off)")
    table.add_column("packets", no_wrap=True)
    for name in ("pairs", "off kpps", "on kpps", "on / off", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in bench.FAMILIES:
        found = bench.ratio([pair for pair in pairs if pair.family == family])
        if found is not None:
            table.add_row(
                f"IPv{family}",
                str(found.difference.blocks),
                number(found.off_kpps, 1),
                number(found.on_kpps, 1),
                number(1 + found.difference.effect, 3),
                _ratio_words(found.difference),
            )
    return table


def _ratio_words(one: Difference) -> str:
    if one.low is None or one.high is None:
        return ABSENT
    return f"{number(1 + one.low, 3)} to {number(1 + one.high, 3)}"


def _spread(cost: Cost) -> str:
    text = small_share(cost.spread)
    return text if cost.repeats is not False else f"[red]{text} > {small_share(SPREAD_LIMIT)}[/red]"


def titled(title: str) -> Table:
    """Return a table without columns, in the style of all that have a title."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        caption_justify="left",
    )
