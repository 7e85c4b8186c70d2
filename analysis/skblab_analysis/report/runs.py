# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of several runs beside each other: those that can be compared, and why others not.

Whether runs differ is decided as within a run, by base/certainty.py: blocks of two runs are two
samples. Their scatter is that of boots; what changes from one day to the next is in no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from skblab_analysis.base.certainty import Difference, Interval
from skblab_analysis.base.comparison import Comparison, Unit
from skblab_analysis.base.differences import difference_text, half_text
from skblab_analysis.base.sampled import Sampled, difference
from skblab_analysis.base.words import (
    ABSENT,
    NARROW_SPACE,
    count_decimals,
    counted,
    joined,
    number,
    quantity,
    share,
)
from skblab_analysis.load import Run
from skblab_analysis.measures import VIEWS
from skblab_analysis.report import findings, places, states
from skblab_analysis.trials.rows import Clock

CLOCKS: tuple[Clock, ...] = ("wall", "exact")
# Times are written with the unit that suits each.
TIMES = {"ns": "time", "ns/packet": "time per packet"}
# What may be few of a packet, or a share.
EVENTS = ("count/packet", "bytes/packet", "J/packet", "1")
# So many settings that only one run has are named, and of more it is said how many they are.
NAMED = 6
# So many figures that no other run has are listed.
LISTED = 3


@dataclass(frozen=True)
class Against:
    """A difference as a share, in brackets if it is not significant, and half of its interval."""

    share: str = ""
    half: str = ""

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.share} {self.half}".strip()


@dataclass(frozen=True)
class Line:
    """A setting in one run: its figure, and what it differs from others, as text and as numbers.

    `differs` is from the first of these lines; None of that one, or if nothing can be compared.
    """

    run: str
    number: int
    started: datetime
    interval: Interval
    differs: Difference | None
    first: bool
    mean: str
    half: str
    median: str
    blocks: str
    from_baseline: Against
    from_first: Against


@dataclass(frozen=True)
class Shared:
    """A setting that several runs have; `state` is what it sets, by knob."""

    setting: str
    lines: tuple[Line, ...]
    state: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Compared:
    """One figure of the settings that several runs share; `only`: which settings one run has.

    `row` and `measure` are what it is called among others of its measure; empty: it stands alone.
    Rows of one `place` were measured there in the same way; of `many`, those are shown that differ.
    """

    title: str
    unit: Unit
    settings: tuple[Shared, ...]
    only: tuple[str, ...]
    row: str = ""
    measure: str = ""
    place: tuple[object, ...] = ()
    many: bool = False


@dataclass(frozen=True)
class Several:
    """What several runs come to: tables, what compared runs differ in, and what is in no table.

    `rows` are figures that stand below each other in a table of their measure.
    """

    tables: tuple[Compared, ...]
    rows: tuple[Compared, ...]
    differ: tuple[str, ...]
    apart: tuple[str, ...]


@dataclass(frozen=True)
class _One:
    """A run by its number, and its figures."""

    number: int
    run: Run

    @property
    def name(self) -> str:
        return f"run {self.number}"

    @cached_property
    def samples(self) -> Sequence[Sampled]:
        return [sample for view in VIEWS for sample in view.samples(self.run)]

    @cached_property
    def changes(self) -> Mapping[tuple[object, ...], Against]:
        """What each setting differs from its own run's baseline, by figure and setting."""
        return {
            (*found.of, change.setting): _of_whole(found, change.difference)
            for found in findings.compared(self.run)
            for change in found.changes
        }

    @cached_property
    def values(self) -> Mapping[str, Mapping[str, str]]:
        """What each setting asks for, by knob."""
        return states.of(self.run)

    def of_clock(self, clock: Clock) -> Sequence[Sampled]:
        return [sample for sample in self.samples if sample.exact == (clock == "exact")]


Kept = TypeVar("Kept")
# Facts, and what has all of them.
Alike = tuple[Mapping[str, str], list[Kept]]
# A run, and a figure of each of its settings.
_Having = tuple[_One, dict[str, Sampled]]


def of(runs: Sequence[Run]) -> Several:
    """Return the figures of runs beside each other; the first run that has one is its reference."""
    ours = [_One(number, run) for number, run in enumerate(runs, 1)]
    tables: list[Compared] = []
    differ: list[str] = []
    apart: list[str] = []
    for clock in CLOCKS:
        having = [one for one in ours if one.of_clock(clock)]
        groups = _by_place(having, clock)
        for group in groups:
            found, left = _tables(group, clock)
            tables += found
            apart += left
            if found:
                differ += _differ(group, clock)
        for group in groups[1:]:
            why = places.differ(
                places.place(having[0].run.document, clock),
                places.place(group[0].run.document, clock),
            )
            apart.append(f"{_names(group)} and {having[0].name}: {'; '.join(why)}.")
    apart += _clocks(ours)
    return Several(
        tuple(table for table in tables if not table.row),
        tuple(table for table in tables if table.row),
        tuple(dict.fromkeys(differ)),
        tuple(dict.fromkeys(apart)),
    )


def _by_place(having: Sequence[_One], clock: Clock) -> list[list[_One]]:
    groups = _alike((places.place(one.run.document, clock), one) for one in having)
    return [same for _, same in groups]


def _clocks(ours: Sequence[_One]) -> Iterator[str]:
    """Yield which runs have nothing in common because of their clocks, or have no figures."""
    wall = [one for one in ours if one.of_clock("wall") and not one.of_clock("exact")]
    exact = [one for one in ours if one.of_clock("exact") and not one.of_clock("wall")]
    if wall and exact:
        yield (
            f"{_names(wall)} measured on the wall clock, {_names(exact)} counted instructions. "
            "Neither can be computed from the other."
        )
    for one in ours:
        if not one.samples:
            yield f"{one.name}: it has no figure of a setting."


def _differ(group: Sequence[_One], clock: Clock) -> Iterator[str]:
    first, *others = group
    for one in others:
        found = places.beside_place(first.run, one.run, clock)
        if found:
            yield f"{one.name} differs from {first.name} in: {'; '.join(found)}."


def _tables(group: Sequence[_One], clock: Clock) -> tuple[list[Compared], list[str]]:
    """Return the tables of runs of one place, and why there are none of others."""
    if len(group) < 2:
        return [], []
    found: dict[tuple[object, ...], list[_Having]] = {}
    for one in group:
        figures: dict[tuple[object, ...], dict[str, Sampled]] = {}
        for sample in one.of_clock(clock):
            figures.setdefault(sample.of, {})[sample.setting] = sample
        for of_what, by_setting in figures.items():
            found.setdefault(of_what, []).append((one, by_setting))
    tables, left = [], []
    told: set[int] = set()
    otherwise: dict[str, list[str]] = {}
    for having in _with_zeros(group, found.values()):
        ways = _by_way(having)
        for way, same in ways[1:]:
            names = _names([one for one, _ in same])
            why = "; ".join(places.differ(ways[0][0], way))
            said_of = f"{names} measured differently from {having[0][0].name} ({why})"
            otherwise.setdefault(said_of, []).append(title_of(_any(same)))
            told |= {one.number for one, _ in having}
        for _, same in ways:
            if len(same) < 2:
                continue
            # Whatever is in this place, and measured as by the first of them.
            there = (group[0].number, same[0][0].number)
            table, said = _table(same, there)
            left += said
            if table is not None:
                tables.append(table)
                told |= {one.number for one, _ in same}
    left += [f"{said_of}: {_listed(titles)}." for said_of, titles in otherwise.items()]
    for one in group:
        if one.number not in told:
            what = list(dict.fromkeys(title_of(sample) for sample in one.of_clock(clock)))
            left.append(
                f"{one.name}: no other run here has the same figure of a setting of the same name. "
                f"It has {_listed(what)}."
            )
    return tables, left


def _with_zeros(
    group: Sequence[_One], found: Iterable[Sequence[_Having]]
) -> Iterator[Sequence[_Having]]:
    """Yield figures with zeros where a run has others of a whole and not this one, but no minor."""
    wholes = {(one.number, *sample.whole): sample for one in group for sample in one.samples}
    for having in found:
        every = [sample for _, by_setting in having for sample in by_setting.values()]
        if all(sample.minor for sample in every):
            continue
        of_runs = {one.number: by_setting for one, by_setting in having}
        for sample in every if every[0].may_be_zero else ():
            for one in group:
                by_setting = of_runs.setdefault(one.number, {})
                whole = wholes.get((one.number, *sample.whole))
                if whole is not None and sample.setting not in by_setting:
                    zeros = dict.fromkeys(whole.blocks, 0.0)
                    by_setting[sample.setting] = replace(sample, blocks=zeros, resolution=0.0)
        yield [(one, of_runs[one.number]) for one in group if of_runs.get(one.number)]


def _by_way(having: Sequence[_Having]) -> list[Alike[_Having]]:
    """Return runs apart that measured a figure in another way, each with that way."""
    return _alike((places.measured(one[0].run, _any([one])), one) for one in having)


def _alike(known: Iterable[tuple[Mapping[str, str], Kept]]) -> list[Alike[Kept]]:
    """Return what has the same facts together, with these facts, in the order of the first."""
    found: dict[tuple[tuple[str, str], ...], Alike[Kept]] = {}
    for facts, one in known:
        _, same = found.setdefault(tuple(sorted(facts.items())), (facts, []))
        same.append(one)
    return list(found.values())


def _any(having: Sequence[_Having]) -> Sampled:
    """Return a sample of a figure, which is called the same in each of them."""
    return next(iter(having[0][1].values()))


def _table(
    having: Sequence[_Having], place: tuple[object, ...]
) -> tuple[Compared | None, list[str]]:
    names = list(dict.fromkeys(name for _, by_setting in having for name in by_setting))
    settings, left = [], []
    for name in names:
        with_it = [(one, found[name]) for one, found in having if name in found]
        if len(with_it) < 2:
            continue
        states = _by_state(with_it, name)
        settings += [
            Shared(
                name, tuple(_lines(same)), tuple(sorted(same[0][0].values.get(name, {}).items()))
            )
            for same in states
            if len(same) > 1
        ]
        first = states[0][0][0]
        left += [_other_state(name, first, [one for one, _ in same]) for same in states[1:]]
    if not settings:
        return None, left
    shown = {shared.setting for shared in settings}
    only = [
        f"Only {run.name} has {_some([name for name in found if name not in shown])}."
        for run, found in having
        if any(name not in shown for name in found)
    ]
    one = _any(having)
    measure = f"{one.measure}{_where(one)}" if one.row else ""
    many = any(sample.among > 1 for _, found in having for sample in found.values())
    named = (one.row, measure, place, many)
    return Compared(title_of(one), one.unit, tuple(settings), tuple(only), *named), left


def _by_state(
    with_it: Sequence[tuple[_One, Sampled]], setting: str
) -> list[list[tuple[_One, Sampled]]]:
    """Return runs apart that set something else by the same name."""
    states = _alike((one[0].values.get(setting, {}), one) for one in with_it)
    return [same for _, same in states]


def _lines(same: Sequence[tuple[_One, Sampled]]) -> Iterator[Line]:
    (_, first), *_ = same
    for one, sample in same:
        found = sample.interval
        own = one.changes.get((*sample.of, sample.setting), Against(ABSENT))
        if sample.setting == one.run.document.plan.baseline:
            own = Against("baseline")
        is_first = sample is first
        differs = None if is_first else difference(first, sample)
        yield Line(
            run=one.name,
            number=one.number,
            started=one.run.document.started,
            interval=found,
            differs=differs,
            first=is_first,
            mean=value_text(found.mean, sample.unit),
            half="" if found.half is None else f"±{value_text(found.half, sample.unit)}",
            median=value_text(sample.median, sample.unit),
            blocks=str(len(sample.blocks)),
            from_baseline=own,
            from_first=Against() if is_first else against(differs),
        )


def _of_whole(of: Comparison, found: Difference) -> Against:
    """Return a difference as a share of what its run has shares of."""
    if of.path is None:
        return against(found)
    text = share(of.share(found), 1, sign=True)
    half = "" if found.margin is None else f"±{share(of.of_whole(found, found.margin), 1)}"
    return Against(text if found.significant else f"({text})", half)


def against(found: Difference | None) -> Against:
    """Return a difference as text; a dash if there is none, or nothing that it is a share of."""
    if found is None or not found.of:
        return Against(ABSENT)
    return Against(difference_text(found), half_text(found))


def value_text(value: float, unit: str) -> str:
    """Return a figure's value; times have the unit that suits them, others none."""
    if unit in TIMES:
        return quantity(value, "ns")
    if unit in EVENTS:
        return number(value, count_decimals(value), NARROW_SPACE)
    return number(value, 1 if unit.startswith("instructions") else 0, NARROW_SPACE)


def title_of(sample: Sampled) -> str:
    """Return what a figure is, with its unit and its traffic."""
    name = ", ".join(dict.fromkeys(filter(None, (sample.measure, sample.figure, sample.part))))
    return f"{name} ({TIMES.get(sample.unit, sample.unit)}){_where(sample)}"


def _where(sample: Sampled) -> str:
    rate = f"{number(sample.rate, 0, NARROW_SPACE)} packets/s" if sample.rate else ""
    where = ", ".join(filter(None, (sample.traffic, rate)))
    return f": {where}" if where else ""


def _other_state(setting: str, first: _One, others: Sequence[_One]) -> str:
    """Return that, and in which knobs, a setting of the same name is another one."""
    one, other = first.values.get(setting, {}), others[0].values.get(setting, {})
    knobs = "; ".join(
        f"{knob}: {_said(one, knob)} in {first.name}, {_said(other, knob)} in {others[0].name}"
        for knob in dict.fromkeys((*one, *other))
        # Of commands by which one of them sets nothing, nothing is said.
        if one.get(knob) != other.get(knob)
        and (states.knob(knob) == knob or (states.knob(knob) in one and states.knob(knob) in other))
    )
    both = [knob for knob in one if knob in other and one[knob] != other[knob]]
    # What a setting leaves alone is as the machine has it, which may be the same.
    may = "is not" if both else "may not be"
    return f"in {first.name} and in {_names(others)}, {setting} {may} the same: {knobs}."


def _said(values: Mapping[str, str], name: str) -> str:
    return values.get(name, "not set" if states.knob(name) == name else places.UNKNOWN)


def _names(group: Sequence[_One]) -> str:
    return joined([one.name for one in group])


def _listed(titles: Sequence[str]) -> str:
    more = len(titles) - LISTED
    return "; ".join([*titles[:LISTED], *([counted(more, "further figure")] if more > 0 else [])])


def _some(names: Sequence[str]) -> str:
    return joined(list(names)) if len(names) <= NAMED else counted(len(names), "further setting")
