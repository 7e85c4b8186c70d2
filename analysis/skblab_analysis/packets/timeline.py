# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures over time of the packets of one file: latency and rate, and anomalies.

However many packets there are, the program has counted them by bins; a picture has fewer of these,
since nobody can tell thousands apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from skblab_analysis.base.pictures import (
    MISSING,
    SMALLEST,
    Picture,
    Value,
    decades,
    linear,
    powers,
    ticks,
)
from skblab_analysis.base.words import counted, number, quantity
from skblab_analysis.formats.analyze import Bin, FileFigures, Late, LateBin

TEMPLATES = Path(__file__).resolve().parent
# Bins of a picture, at most: 1.5 pixels each where it is wide.
MOST = 500
# Limits that are drawn beside latency, and of which anomalies have a picture.
LIMITS = 2
NS_PER_S = 1e9
NS_PER_US = 1e3
# Units of the time axis, the largest first: nanoseconds, name.
UNITS = ((3600e9, "hours"), (60e9, "minutes"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
# Hours between ticks: shares of a day, and days.
HOURS = (1, 2, 3, 6, 12, 24, 48)
# An axis has a unit of which it shows at least so many.
FEWEST = 2
# Of an axis, what may be without packets before the first ones.
EMPTY = 0.1

Row = TypeVar("Row", Bin, LateBin)


@dataclass(frozen=True)
class TimeAxis:
    """An axis of times after the first packet: `unit_ns` is the length of its unit."""

    unit_ns: float
    low: float
    high: float
    name: str

    @classmethod
    def of(cls, found: FileFigures) -> TimeAxis:
        """Return one for all packets of a file that were looked at."""
        rows, width = found.over_time.rows, found.over_time.width_ns
        # Some came before the first one of a file: a clock was set back, or threads wrote.
        low = min(0, rows[0].begin_ns)
        high = max(rows[-1].begin_ns + width, 1)
        if rows[0].begin_ns > (high - low) * EMPTY:
            # A part of the file: what was before has nothing to show.
            low = rows[0].begin_ns
        long = (one for one in UNITS if high - low >= FEWEST * one[0])
        unit_ns, name = next(long, UNITS[-1])
        return cls(unit_ns, low / unit_ns, high / unit_ns, name)

    def places(self) -> list[float]:
        """Return where ticks are: of a day at each sixth hour, elsewhere at round numbers."""
        rough = (self.high - self.low) / 4
        step = next((hours for hours in HOURS if hours >= rough >= HOURS[0]), None)
        if self.unit_ns != UNITS[0][0] or step is None:
            return linear(self.low, self.high)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [float(step * number) for number in range(first, last + 1)]

    @property
    def variables(self) -> dict[str, Value]:
        """What a template wants to know of it."""
        return {
            "from": self.low,
            "to": self.high,
            "x_ticks": ticks(self.places(), ""),
            "x_label": f"{self.name} after the first packet",
        }


@dataclass(frozen=True)
class Group(Generic[Row]):
    """Bins in a row that are drawn as one: from `begin_ns` on, `width_ns` long."""

    begin_ns: int
    width_ns: int
    rows: tuple[Row, ...]

    def place(self, axis: TimeAxis) -> list[float]:
        """Return its middle and half of its width, in the unit of an axis."""
        half = self.width_ns / 2 / axis.unit_ns
        return [self.begin_ns / axis.unit_ns + half, half]

    def latency(self) -> list[float | None]:
        """Return the least, the mean and the largest latency; None if none is known."""
        known = [
            (row.min_ns, row.mean_ns, row.max_ns, row.packets)
            for row in self.rows
            if row.min_ns is not None and row.mean_ns is not None and row.max_ns is not None
        ]
        if not known:
            return [None, None, None]
        packets = sum(count for *_, count in known)
        mean = sum(mean * (count / packets) for _, mean, _, count in known)
        found = (min(one[0] for one in known), mean, max(one[2] for one in known))
        return [max(value, SMALLEST) for value in found]


def groups(rows: Sequence[Row], width_ns: int) -> list[Group[Row]]:
    """Return bins of a width in at most MOST + 1 groups, without those that have none."""
    if not rows:
        return []
    width = _drawn_width(rows, width_ns)
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.begin_ns // width, []).append(row)
    return [Group(at * width, width, tuple(some)) for at, some in found.items()]


def _drawn_width(rows: Sequence[Row], width_ns: int) -> int:
    span = (rows[-1].begin_ns - rows[0].begin_ns) // width_ns + 1
    return -(-span // MOST) * width_ns


def width_ns(found: FileFigures) -> int | None:
    """Return how long the bins of the picture over time are; None without a packet."""
    rows = found.over_time.rows
    return _drawn_width(rows, found.over_time.width_ns) if rows else None


def limit_name(late: Late) -> str:
    """Return what an anomaly is, as tables have it."""
    # With all digits: two kinds of a file may differ by little.
    limit = f"{late.late_ns / NS_PER_US:.10g} µs"
    if late.of_median is not None:
        limit = f"{late.of_median:g} medians"
    return f"≥ {late.least} packets of ≥ {limit}"


def limits(found: FileFigures) -> list[Late]:
    """Return the kinds of anomalies whose latency is drawn beside that of packets."""
    times = found.latency_ns
    if times is None or times.min is None or times.max is None:
        return []
    low, high = decades(times.min, times.max)
    return [late for late in (found.late or ())[:LIMITS] if low < late.late_ns < high]


def over_time(name: str, title: str, found: FileFigures) -> Picture | None:
    """Return latency and rate over time; None without a packet."""
    made = groups(found.over_time.rows, found.over_time.width_ns)
    if not made:
        return None
    axis = TimeAxis.of(found)
    ends = _ends(found)
    rates = [_rate(group, *ends) for group in made]
    latency = [group.latency() for group in made]
    known = [value for values in latency for value in values if value is not None]
    low, high = decades(min(known), max(known)) if known else (1.0, 10.0)
    late = limits(found)
    most = max((rate for rate in rates if rate is not None), default=0.0) or 1.0
    return Picture(
        name=name,
        template=TEMPLATES / "over_time.gp",
        title=f"Latency and rate over time, {title}" if known else f"Rate over time, {title}",
        description=_in_words(found, len(made)),
        variables={
            "latency": int(bool(known)),
            "low": low,
            "high": high,
            "latency_ticks": ticks(powers(low, high), "ns"),
            **axis.variables,
            "most": most * 1.05,
            "rate_ticks": ticks(linear(0, most), ""),
            "limits": len(late),
            # gnuplot has no empty arrays.
            "limit_at": [one.late_ns for one in late] or [0],
        },
        data=_data(
            "middle half rate least mean largest",
            (
                [*group.place(axis), rate, *values]
                for group, rate, values in zip(made, rates, latency, strict=True)
            ),
        ),
    )


def _ends(found: FileFigures) -> tuple[float, float]:
    """Return when the first and the latest packet came that were looked at, after the origin."""
    origin_ns = found.over_time.origin_ns
    if found.first_ns is None or found.latest_ns is None:
        return 0.0, 0.0
    # The first one of the file may not be the earliest.
    return min(found.first_ns - origin_ns, found.over_time.rows[0].begin_ns), (
        found.latest_ns - origin_ns
    )


def _rate(group: Group[Bin], first_ns: float, latest_ns: float) -> float | None:
    """Return packets a second; None where the data fill less than half of its time."""
    begin = max(group.begin_ns, first_ns)
    end = min(group.begin_ns + group.width_ns, latest_ns)
    if end - begin < group.width_ns / 2:
        return None
    return sum(row.packets for row in group.rows) / ((end - begin) / NS_PER_S)


def _in_words(found: FileFigures, bins: int) -> str:
    said = [f"{number(found.packets)} packets in {found.seconds:.6g} s, {counted(bins, 'bin')}"]
    if (times := found.latency_ns) is not None and times.count:
        least, most = quantity(times.min, "ns"), quantity(times.max, "ns")
        said.append(f"latency from {least} to {most}, {quantity(times.mean, 'ns')} in the mean")
    return f"{'; '.join(said)}."


def anomalies(name: str, title: str, late: Late, found: FileFigures) -> Picture | None:
    """Return the anomalies of one kind over time, as long as its file; None if there is none."""
    made = groups(late.over_time.rows, late.over_time.width_ns)
    if not made:
        return None
    axis = TimeAxis.of(found)
    latency = [group.latency() for group in made]
    known = [value for values in latency for value in values if value is not None]
    low, high = decades(min(*known, max(late.late_ns, SMALLEST) * 0.999), max(known))
    longest = [max(SMALLEST, *(row.longest_ns for row in group.rows)) for group in made]
    shortest, top = decades(min(longest), max(longest))
    counts = [sum(row.anomalies for row in group.rows) for group in made]
    most = max(counts)
    return Picture(
        name=name,
        template=TEMPLATES / "anomalies.gp",
        title=f"Anomalies over time, {limit_name(late)}, {title}",
        description=_anomalies_in_words(late),
        variables={
            "several": int(most > 1),
            "low": low,
            "high": high,
            "latency_ticks": ticks(powers(low, high), "ns"),
            "limit": max(late.late_ns, SMALLEST),
            "limit_name": limit_name(late),
            # The shortest has a length, too.
            "shortest": shortest / 2,
            "longest": top,
            "duration_ticks": ticks(powers(shortest, top), "ns"),
            "most": most * 1.05,
            "count_ticks": ticks(_whole(linear(0, most)), ""),
            **axis.variables,
        },
        data=_data(
            "middle least mean largest longest anomalies",
            (
                [group.place(axis)[0], *values, duration, count]
                for group, values, duration, count in zip(
                    made, latency, longest, counts, strict=True
                )
            ),
        ),
    )


def _whole(values: Sequence[float]) -> list[float]:
    return [value for value in values if value == int(value)]


def _anomalies_in_words(late: Late) -> str:
    duration = late.duration_ns
    most = max(row.max_ns for row in late.over_time.rows)
    return (
        f"{number(late.count)} {'anomaly' if late.count == 1 else 'anomalies'} of "
        f"{number(late.packets)} packets in all; from {quantity(duration.min, 'ns')} to "
        f"{quantity(duration.max, 'ns')} long; the largest latency is {quantity(most, 'ns')}."
    )


def _data(columns: str, lines: Iterable[Sequence[float | None]]) -> str:
    cells = (
        " ".join(MISSING if value is None else f"{value:.9g}" for value in line) for line in lines
    )
    return "\n".join([f"# {columns}", *cells]) + "\n"
