# SPDX-License-Identifier: GPL-2.0-or-later
"""RFC 2544's other tests: their tables, the page's section, and what they could not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from skblab_analysis.base import lines
from skblab_analysis.base.comparison import Unit
from skblab_analysis.base.tables import titled
from skblab_analysis.base.words import (
    ABSENT,
    FIXED_SPACE,
    NARROW_SPACE,
    joined,
    number,
    quantity,
    share,
)
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run
from skblab_analysis.rfc2544 import picture
from skblab_analysis.rfc2544.rows import Test
from skblab_analysis.rfc2544.summary import Mean, OfSetting, Rfc2544Summary, of
from skblab_analysis.view import Cells, Section, View, suffix

NANOSECONDS = 1e9
COLUMNS = ("latency", "tester alone", "longest burst", "buffer", "recovery")
# Columns of loss that a table has room for.
MOST_LOADS = 10


def rows(summary: Rfc2544Summary, space: str = " ") -> list[Cells]:
    """Return a row for every setting, of COLUMNS; none if there is nothing but frame loss."""
    if not any(summary.tested(test) for test in ("latency", "back-to-back", "recovery")):
        return []

    def time(value: float) -> str:
        return quantity(value, "ns", space)

    def seconds(value: float) -> str:
        return quantity(value * NANOSECONDS, "ns", space)

    def frames(value: float) -> str:
        return number(value, 0, space)

    return [
        Cells(
            setting.setting,
            (
                _cell(setting, "latency", setting.latency_ns, time),
                _text(setting.floor_ns, time),
                _cell(setting, "back-to-back", setting.burst, frames),
                _text(setting.buffer_s, seconds),
                _recovery(setting, seconds),
            ),
        )
        for setting in summary.settings
    ]


def loads(summary: Rfc2544Summary) -> list[float]:
    """Return the loads that a table of frame loss has columns for, the greatest first."""
    found = sorted({load for setting in summary.settings for load in setting.loss}, reverse=True)
    every = -(-len(found) // MOST_LOADS)
    return found[:: every or 1]


def load_names(summary: Rfc2544Summary) -> list[str]:
    """Return those loads in words: shares of the tester's maximum."""
    return [share(load, 0) for load in loads(summary)]


def loss_rows(summary: Rfc2544Summary) -> list[Cells]:
    """Return the frame loss rate of every setting that has one, in per cent."""
    columns = loads(summary)
    return [
        Cells(setting.setting, tuple(_loss(setting, load) for load in columns))
        for setting in summary.settings
        if setting.loss
    ]


def unseen(found: Sequence[Rfc2544Summary]) -> list[str]:
    """Return what the tests could not tell, and why, with which settings."""
    said = []
    for summary in found:
        who: dict[tuple[str, str], list[str]] = {}
        for setting in summary.settings:
            for missing in setting.untold:
                name = f"{setting.setting} ({missing.count} of {missing.of})"
                who.setdefault((missing.test, "; ".join(missing.reasons)), []).append(name)
        said += [
            f"{summary.traffic}: RFC 2544's {test} is missing with {joined(names)}: {why}."
            for (test, why), names in who.items()
        ]
    return said


def note(summary: Rfc2544Summary) -> str:
    """Return what the figures are, in a sentence or two."""
    bounded = any(tested.burst is not None and tested.burst.open for tested in summary.settings)
    said = (
        "Means of the repetitions that have a figure, ± one standard deviation, at the strict rate."
    )
    return said + (" ≥: no burst that was tried lost anything." if bounded else "")


def tables(summary: Rfc2544Summary) -> list[Table]:
    """Return the figures of RFC 2544's other tests, and frame loss by load."""
    made = []
    for title, names, cells in (
        (f"RFC 2544 ({summary.traffic})", COLUMNS, rows(summary)),
        (
            f"Frame loss rate (%, by share of the tester's maximum, {summary.traffic})",
            load_names(summary),
            loss_rows(summary),
        ),
    ):
        if not cells:
            continue
        table = titled(title)
        table.add_column("setting", overflow="fold")
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for row in cells:
            table.add_row(escape(row.name), *row.figures)
        made.append(table)
    if rows(summary):
        made[0].caption = note(summary)
    return made


@dataclass(frozen=True)
class Shown:
    """What the section has of one traffic."""

    suffix: str
    traffic: str
    columns: tuple[str, ...]
    rows: list[Cells]
    loads: list[str]
    losses: list[Cells]
    some: str
    note: str


def _section(run: Run, summary: Rfc2544Summary, place: int) -> Section:
    baseline = run.document.plan.baseline
    drawn = picture.picture(summary, baseline, suffix(place))
    shown = Shown(
        suffix=suffix(place),
        traffic=summary.traffic,
        columns=COLUMNS,
        rows=rows(summary, NARROW_SPACE),
        loads=load_names(summary),
        losses=loss_rows(summary),
        some=lines.some_of(len(picture.shown(summary, baseline)), len(picture.tested(summary))),
        note=note(summary),
    )
    return Section("rfc2544/section.html.j2", shown, (drawn,) if drawn else ())


def _recovery(setting: OfSetting, write: Callable[[float], str]) -> str:
    if setting.lasting:
        return "not"
    found, within = setting.recovery_s, setting.within_s
    if found is not None and within is not None and found.mean <= within.mean:
        # It may be shorter.
        return f"≤ {write(within.mean)}"
    return _cell(setting, "recovery", found, write)


def _cell(setting: OfSetting, test: Test, found: Mean | None, write: Callable[[float], str]) -> str:
    """Return a figure, and of how many repetitions it is, if not of all; or that there is none."""
    missing = setting.missing(test)
    if found is None:
        return ABSENT if missing is None else "missing"
    some = f" ({found.count} of {missing.of})" if missing else ""
    return f"{_text(found, write)}{some}"


def _text(found: Mean | None, write: Callable[[float], str]) -> str:
    if found is None:
        return ABSENT
    least = "≥ " if found.open else ""
    spread = "" if found.deviation is None else f" ±{FIXED_SPACE}{write(found.deviation)}"
    return f"{least}{write(found.mean)}{spread}"


def _loss(setting: OfSetting, load: float) -> str:
    lost = setting.loss.get(load)
    # The generator did not keep it, or it was not tried.
    return ABSENT if lost is None else number(lost, 1)


# Figures of a setting by name, with their unit.
FIGURES: dict[str, tuple[str, Unit]] = {
    "latency": ("latency_ns", "ns"),
    "latency of the tester": ("floor_ns", "ns"),
    "back-to-back": ("burst", "packets"),
    "buffer": ("buffer_s", "s"),
    "recovery": ("recovery_s", "s"),
    "recovery may be shorter by": ("within_s", "s"),
}


def _figures(summary: Rfc2544Summary) -> Iterator[Figure]:
    for setting in summary.settings:
        for name, (field, unit) in FIGURES.items():
            found: Mean | None = getattr(setting, field)
            if found is not None:
                yield Figure(
                    measure="rfc2544",
                    figure=name,
                    part="at least" if found.open else "",
                    unit=unit,
                    setting=setting.setting,
                    traffic=summary.traffic,
                    value=found.mean,
                )
        for load, percent in setting.loss.items():
            yield Figure(
                measure="rfc2544",
                figure="frame loss",
                part=f"{load:g} of the tester's throughput",
                unit="1",
                setting=setting.setting,
                traffic=summary.traffic,
                value=percent / 100,
            )


VIEW = View(
    figures=lambda run: [figure for summary in of(run) for figure in _figures(summary)],
    tables=lambda run: [table for summary in of(run) for table in tables(summary)],
    sections=lambda run: [_section(run, found, place) for place, found in enumerate(of(run))],
    unseen=lambda run: unseen(of(run)),
)
