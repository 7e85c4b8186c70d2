# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency of settings at given rates: its tables, the page's section, and sentences about them.

A difference in brackets is not significant.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from skblab_analysis.base import lines, told
from skblab_analysis.base.bars import Bar, bars
from skblab_analysis.base.certainty import AGAIN, Difference
from skblab_analysis.base.certainty import Change as SettingChange
from skblab_analysis.base.comparison import Comparison, Unit, Wording
from skblab_analysis.base.differences import alarms_text, brackets, change_text, not_significant
from skblab_analysis.base.offered import KEPT, behind
from skblab_analysis.base.pictures import COLOURS, Curve, Picture, distribution
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.base.tables import INTERVAL, known_columns, named, titled
from skblab_analysis.base.words import (
    NARROW_SPACE,
    at_rate,
    counted,
    joined,
    number,
    quantity,
    share,
    spaced,
)
from skblab_analysis.formats.summary import Figure
from skblab_analysis.latency import rates
from skblab_analysis.latency.cells import QUANTILES, figure_row, late_rows, rows, scale_of
from skblab_analysis.latency.rows import COMPARED
from skblab_analysis.latency.summary import (
    RESOLUTION,
    Delay,
    LatencySummary,
    Lateness,
    false_alarms,
    of,
)
from skblab_analysis.load import Run
from skblab_analysis.view import Cells, Section, View, suffix

SECONDS_A_DAY = 86_400


def tables(summary: LatencySummary, identical: Collection[str] = ()) -> list[Table]:
    """Return times by setting at one rate, and what was late."""
    scaled = scale_of(summary)
    table = titled(f"Latency ({scaled.name}, {at_rate(summary)})")
    table.add_column("setting", overflow="fold")
    times = [name for name in QUANTILES if name != "p99.99"]
    made = rows(summary)
    names, figures = known_columns(
        ("lost", *times, "max", "p99 differs", INTERVAL),
        [
            (row.lost, *row.times[: len(times)], row.times[-1], row.difference, row.half)
            for row in made
        ],
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for place, (row, cells) in enumerate(zip(made, figures, strict=True)):
        table.add_row(
            named(row.setting, identical),
            *cells,
            end_section=place == len(summary.delays) - 1,
        )
    table.caption = "\n".join(brackets(change.compared for change in summary.changes)) or None
    return [table, _late_packets_table(summary, identical)]


def _late_packets_table(summary: LatencySummary, identical: Collection[str]) -> Table:
    table = titled(f"Late packets ({at_rate(summary)})")
    table.add_column("setting", overflow="fold")
    for name in ("from", "late", "of all", "anomalies", "longest", "per million"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in late_rows(summary):
        figures = (row.threshold, row.late, row.share, row.runs, row.longest, row.difference)
        table.add_row(named(row.setting, identical), *figures)
    table.caption = (
        f"anomaly: {_in_a_row(summary)} or more late packets in a row; per million: late packets "
        "more than with the baseline"
    )
    return table


def _in_a_row(summary: LatencySummary) -> int:
    everyone = (*summary.delays, *summary.testers)
    return max((late.in_a_row for delay in everyone for late in delay.lateness), default=1)


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic at one rate."""

    suffix: str
    title: str
    unit: str
    quantiles: list[str]
    columns: list[str]
    rows: tuple[Cells, ...]
    late: tuple[Cells, ...]
    in_a_row: int
    others: tuple[Cells, ...]


def _section(summary: LatencySummary, place: int) -> Section:
    scaled = scale_of(summary)
    made = rows(summary, NARROW_SPACE)
    columns, figures = known_columns(
        ("p99 differs", INTERVAL, *QUANTILES, "max", "lost", "blocks", "rate"),
        [(row.difference, row.half, *row.times, row.lost, row.blocks, row.rate) for row in made],
    )
    shown = Shown(
        suffix=suffix(place),
        title=at_rate(summary),
        unit=scaled.name,
        quantiles=list(QUANTILES),
        columns=columns,
        rows=tuple(
            Cells(name=row.setting, figures=cells, strong=row.setting == summary.baseline)
            for row, cells in zip(made, figures, strict=True)
        ),
        late=tuple(
            Cells(
                name=row.setting,
                figures=(
                    *(row.threshold, row.late, row.share, row.runs, row.in_runs, row.longest),
                    row.difference,
                ),
            )
            for row in late_rows(summary, NARROW_SPACE)
        ),
        in_a_row=_in_a_row(summary),
        others=tuple(
            Cells(f"{delay.setting}: {figure}", figure_row(delay, figure, scaled, NARROW_SPACE))
            for delay in (*summary.delays, *summary.testers)
            for figure in ("jitter", "inter-arrival")
        ),
    )
    pictures = (*_picture(summary, suffix(place)), *_anomalies(summary, suffix(place)))
    return Section("latency/section.html.j2", shown, pictures)


@dataclass(frozen=True)
class ShownRates:
    """What the section of several rates has of one traffic."""

    suffix: str
    traffic: str
    caption: str


def _sections(run: Run) -> list[Section]:
    found = of(run)
    made = [_section(summary, place) for place, summary in enumerate(found)]
    for place, one in enumerate(rates.of(found)):
        caption = (
            "First the 99th percentile, with its smallest and largest block, and the median "
            "(thin); then the packets that were lost. "
            f"{lines.some_of(len(one.shown), len(one.settings))}"
        ).rstrip()
        made.append(
            Section(
                "latency/rates.html.j2",
                ShownRates(suffix(place), one.traffic, caption),
                (rates.picture(one, suffix(place)),),
            )
        )
    return made


def _picture(summary: LatencySummary, suffix: str) -> tuple[Picture, ...]:
    """The distributions of the baseline, of what differs most, and of the tester, if any is known.

    Without those that have too few packets for a median.
    """

    def differs(delay: Delay) -> float:
        change = summary.change(delay.setting)
        found = change.compared if change else None
        return math.inf if change is None else abs(found.share) if found else 0.0

    room = len(COLOURS) - len(summary.testers)
    most = sorted(summary.delays, key=differs, reverse=True)[: max(room, 1)]
    curves = [
        Curve(delay.setting, delay.latency)
        for delay in (*(delay for delay in summary.delays if delay in most), *summary.testers)
        if delay.latency.quantile(0.5) is not None
    ]
    title = f"Latency, {at_rate(summary)}"
    return (distribution(f"latency{suffix}", "Packets", title, "ns", curves),) if curves else ()


def _anomalies(summary: LatencySummary, suffix: str) -> Iterator[Picture]:
    """Yield how many anomalies a day has by setting, by the first threshold; nothing without any.

    Of the share of packets that begin one, at the rate that was asked for.
    """
    known = [
        (delay.setting, delay.lateness[0])
        for delay in (*summary.delays, *summary.testers)
        if delay.lateness and delay.lateness[0].packets
    ]
    if not any(late.runs for _, late in known):
        return
    found = []
    for setting, late in known:
        daily = late.runs / late.packets * summary.rate * SECONDS_A_DAY
        longest = f"; longest {counted(late.longest, 'packet')}" if late.runs else ""
        found.append(Bar(setting, daily, f"{number(daily)}{longest}"))
    late = known[0][1]
    what = f"{late.in_a_row} or more in a row from {quantity(late.threshold_ns, 'ns')}"
    title = f"Anomalies by setting, {at_rate(summary)}"
    yield bars(f"anomalies{suffix}", title, f"Anomalies a day: {what}", found, compared=False)


def headline(found: Sequence[LatencySummary], apart: Collection[str] = ()) -> str | None:
    """Return the finding in one sentence; None if there is none.

    Gains of the settings in `apart` are none to tell.
    """
    return told.headline(compared(found), apart=apart) or next(_delays(found), None)


def _delays(found: Sequence[LatencySummary]) -> Iterator[str]:
    """Yield the first setting's 99th percentile, or median, of each traffic and rate."""
    for summary in found:
        first = summary.delays[0]
        for part in (COMPARED, 0.5):
            latency = first.latency.quantile(part)
            if latency is not None:
                yield (
                    f"{share(part, 0)} of packets take less than {quantity(latency, 'ns')} with "
                    f"{first.setting} ({at_rate(summary)})"
                )
                break


def compared(found: Sequence[LatencySummary]) -> list[Comparison]:
    """Return what 99th percentiles and shares of late and lost packets differ from the baseline."""
    made = []
    for summary in found:
        if summary.baseline is None:
            continue
        compared = [(change.setting, change.compared) for change in summary.changes]
        late = [(change.setting, change.late) for change in summary.changes]
        lost = [(change.setting, change.lost) for change in summary.changes]
        made.append(_comparison(summary, "p99", "", "ns", compared, WORDING))
        if lateness := summary.delays[0].lateness:
            # Settings are compared by the first threshold.
            made.append(_comparison(summary, "late", _from(lateness[0]), "1", late, None))
        made.append(_comparison(summary, "lost", "", "1", lost, None))
    return made


def _from(late: Lateness) -> str:
    return f"from {late.threshold_ns} ns"


def _comparison(
    summary: LatencySummary,
    figure: str,
    part: str,
    unit: Unit,
    found: Sequence[tuple[str, Difference | None]],
    wording: Wording | None,
) -> Comparison:
    assert summary.baseline is not None
    return Comparison(
        measure="latency",
        figure=figure,
        part=part,
        unit=unit,
        baseline=summary.baseline,
        changes=tuple(
            SettingChange(setting, difference)
            for setting, difference in found
            if difference is not None
        ),
        wording=wording,
        traffic=summary.traffic,
        rate=summary.rate,
        # Who loses more packets has fewer late ones.
        decides=figure == "lost",
    )


WORDING = Wording(
    what="latency",
    noun="",
    better=("lower", "the 99th percentile by {}"),
    worse=("raise", "the 99th percentile by {}"),
    best="Biggest drop of the 99th percentile",
    worst="Biggest rise of the 99th percentile",
)


def _summary(found: Sequence[LatencySummary]) -> list[str]:
    """Return the baseline's 99th percentile, where no significance is known."""
    unknown = [
        summary
        for summary in found
        if all(
            change.compared is None or change.compared.significant is None
            for change in summary.changes
        )
    ]
    return [f"{said}." for said in _delays(unknown)]


def sentences(found: Sequence[LatencySummary]) -> list[str]:
    """Return the findings."""
    said = [sentence for summary in found for sentence in _sentences(summary)]
    return [*said, *alarms_text("latency", false_alarms(found))]


def unseen(found: Sequence[LatencySummary]) -> list[str]:
    """Return what these trials could not tell."""
    said = []
    for summary in found:
        where = at_rate(summary)
        if not summary.testers:
            said.append(f"{where}: the tester was not measured alone: its own delay is unknown.")
        everyone = (*summary.delays, *summary.testers)
        slow = [delay.setting for delay in everyone if behind(delay.trials)]
        if slow:
            said.append(
                f"{where}: the generator sent over {share(KEPT, 0)} less than that in some block "
                f"of {joined(slow)}. Such a block is in no comparison."
            )
        single = [delay.setting for delay in summary.delays if len(delay.trials) == 1]
        if single:
            said.append(
                f"{where}: {joined(single)} {'has' if len(single) == 1 else 'have'} one block "
                "only: whether it differs is not known."
            )
        short = [
            delay.setting for delay in summary.delays if delay.latency.quantile(COMPARED) is None
        ]
        if short:
            said.append(f"{where}: too few packets for a 99th percentile of {joined(short)}.")
    return said


def _sentences(summary: LatencySummary) -> Iterator[str]:
    first, where = summary.delays[0], at_rate(summary)
    middle, most = first.latency.quantile(0.5), first.latency.quantile(COMPARED)
    if middle is not None:
        said = f"{where}: with {first.setting} half of the packets take less than "
        said += quantity(middle, "ns")
        if most is not None:
            said += f" and 99 % less than {quantity(most, 'ns')}"
        yield f"{said}{_floor(summary)}."
    yield from _late_words(first)
    compared = [
        SettingChange(change.setting, change.compared)
        for change in summary.changes
        if change.compared is not None and change.setting != AGAIN
    ]
    if significant := [change for change in compared if change.difference.significant]:
        order = sorted(significant, key=lambda change: change.difference.share)
        said = joined([change_text(change) for change in order])
        yield f"Its 99th percentile against {summary.baseline}: {said}."
    yield from not_significant(compared)


def _floor(summary: LatencySummary) -> str:
    """Say what the tester's own part in these times is."""
    for tester in summary.testers:
        middle = tester.latency.quantile(0.5)
        if middle is not None:
            return f"; with the tester alone it is {quantity(middle, 'ns')} for half of them"
    return ""


def _late_words(delay: Delay) -> Iterable[str]:
    if not delay.lateness:
        return
    parts = [
        f"{spaced(late.late)} took {quantity(late.threshold_ns, 'ns')} or more, "
        f"in {spaced(late.runs)} anomal{'y' if late.runs == 1 else 'ies'} of "
        f"{late.in_a_row} in a row or more"
        for late in delay.lateness
    ]
    packets = spaced(delay.lateness[0].packets)
    yield f"Of its {packets} packets {joined(parts)}."


def _figures(summary: LatencySummary) -> Iterator[Figure]:
    """Yield times, then the shares of late and of lost packets."""
    for delay in (*summary.delays, *summary.testers):
        found: list[tuple[str, str, float | None]] = [("mean", "", delay.latency.mean)]
        found += [(name, "", delay.latency.quantile(share)) for name, share in QUANTILES.items()]
        found += [("late", _from(late), late.share) for late in delay.lateness]
        found.append(("lost", "", delay.lost / delay.tried if delay.tried else None))
        for name, part, value in found:
            yield Figure(
                measure="latency",
                figure=name,
                part=part,
                unit="1" if name in ("late", "lost") else "ns",
                setting=delay.setting,
                traffic=summary.traffic,
                rate=summary.rate,
                value=value,
                blocks=len(delay.trials),
            )


def _samples(summary: LatencySummary) -> Iterator[Sampled]:
    for delay in summary.delays:
        if blocks := delay.compared():
            yield Sampled(
                measure="latency",
                figure="p99",
                unit="ns",
                setting=delay.setting,
                blocks=blocks,
                traffic=summary.traffic,
                rate=summary.rate,
                resolution=RESOLUTION,
                relative=True,
            )


VIEW = View(
    samples=lambda run: [one for summary in of(run) for one in _samples(summary)],
    depends={"latency.seconds": 10.0, "latency.cut_seconds": None},
    figures=lambda run: [figure for summary in of(run) for figure in _figures(summary)],
    tables=lambda run: [table for summary in of(run) for table in tables(summary, run.identical)],
    sections=_sections,
    headline=lambda run: headline(of(run), run.only_here),
    compared=lambda run: compared(of(run)),
    summary=lambda run: _summary(of(run)),
    sentences=lambda run: sentences(of(run)),
    unseen=lambda run: unseen(of(run)),
)
