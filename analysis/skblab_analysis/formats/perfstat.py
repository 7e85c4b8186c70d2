# SPDX-License-Identifier: GPL-2.0-or-later
"""What `perf stat -j` prints: one JSON object a line, by each version with the option (from 6.0).

Linux, tools/perf/util/stat-display.c: `print_counter_value_json`, `print_running_json`,
`print_aggr_id_json` and `print_metric_json`. Versions differ in what a line has, so a line is read
by its keys; keys that are not known are ignored. What is known of the differences:

- `metric-value` was a number in 6.0 and 6.1, and is text in 6.12. The metric of an event that has
  none is 0 with the unit "" or, until 6.12, "(null)".
- `counters` was `aggregate-number` until 6.16; now it counts the units of an uncore event as well.
- A rewrite of 2026 (stat-print-json.c, not seen in a release) prints each metric on a line of its
  own, which does not name the event, and has no `variance`, `cgroup` and `metricgroup`.
- perf escapes nothing and obeys the locale. Four things that are no JSON are read all the same: a
  decimal comma (LC_NUMERIC), a bare nan or inf, no comma behind `core` (events with /percore/, 6.0
  to 6.12), and a comma before the last brace (6.13.0).
- `pcnt-running` is cut to whole percent: 99.9 % of the time is printed as 99.00. Only the rewrite
  rounds it, to 0.01 %.

Have it printed with LC_ALL=C and without `-x`. --metric-only by CPU or socket cannot be read of 6.0
and 6.1, which open a brace too many.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.base.whole import whole

# The kinds of place that a count is of; perf prints one of them, and `cgroup` with any.
PLACES = (*("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread", "cgroup"),)
# What a line of metrics alone may have besides the metrics.
_BESIDES = frozenset((*PLACES, "interval", "aggregate-number", "counters"))
_KNOWN = _BESIDES | {
    *("event", "unit", "counter-value", "event-runtime", "pcnt-running", "variance"),
    *("metric-value", "metric-unit", "metric-threshold", "metricgroup"),
}
_NO_VALUE = {"<not counted>": "not counted", "<not supported>": "not supported"}
_NO_UNIT = ("", "(null)")
_MOST_NS = 2**64 - 1
# By %f, so that the largest number has 309 digits and a fraction.
_LONGEST = 400
_NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"-?(?:nan|inf)|none|")
# Text (1: with more text right behind it), a number with a decimal comma (2, 3), no number (4), and
# a comma with nothing behind it. Texts are matched so that nothing inside them is.
_NO_JSON = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"?(?=(")?)'
    r"|(?<=: )(-?[0-9]+),([0-9]+)(?=[,}])"
    r"|(?<=: )(-?(?:nan|inf))(?=[,}])"
    r"|,(?= ?})"
)
_EXPECTED = "an object of `perf stat -j` (LC_ALL=C, without -x and -v)"

_Pairs = tuple[tuple[str, object], ...]
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, strict=False)


@dataclass(frozen=True)
class Count:
    """One line: what an event counted somewhere, or (with no `event`) metrics alone.

    event: as perf names it, which may differ from what was asked for.
    unit: of `value`, such as "msec", or "" for a plain count.
    value: None if there is none, and `why`: "not counted" (never ran) or "not supported". perf
        scales what a multiplexed event counted up to the whole time: with `running` below 1 this
        is an estimate.
    where: by the words of PLACES, such as {"cpu": "0"} or {"socket": "S0"}; {} for all.
    interval: seconds since the start, with -I.
    running: share of the time that the event was enabled in which it was counting, 0 to 1. It is 1
        for an event that is not supported. (`print_running_json`)
    runtime: ns in which it was counting, added up over CPUs.
    metrics: value and unit of each metric on that line; the value is None if it is no number.
    """

    event: str
    unit: str = ""
    value: float | None = None
    why: str = ""
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    interval: float | None = None
    running: float | None = None
    runtime: int | None = None
    metrics: tuple[tuple[float | None, str], ...] = ()


def parse(text: str) -> list[Count]:
    """Return the counts of what `perf stat -j` printed, or raise SkblabError in one line.

    Without blank lines, comments ("# started on", of -o) and lines that only head others.
    """
    counts = []
    for number, line in enumerate(text.split("\n"), 1):
        printed = line.strip()
        if not printed or printed.startswith("#"):
            continue
        try:
            counts += [found for pairs in _objects(printed) if (found := _count(pairs))]
        except (ValueError, RecursionError) as error:
            raise SkblabError(
                f"line {number} of what perf stat printed, {one_line(printed, 100)!r}, is not as "
                f"expected ({one_line(str(error), 120)}): expected {_EXPECTED}"
            ) from error
    return counts


def _objects(line: str) -> list[_Pairs]:
    try:
        return list(_decoded(line))
    except ValueError as error:
        mended = _NO_JSON.sub(_mended, line)
        if mended == line:
            raise
        try:
            return list(_decoded(mended))
        except ValueError:
            raise error from None


def _decoded(line: str) -> Iterator[_Pairs]:
    """Yield the objects of a line: --metric-only of 6.0 and 6.1 printed several."""
    at = 0
    while at < len(line):
        found, at = _DECODER.raw_decode(line, at)
        if not isinstance(found, tuple):
            raise ValueError("it is no object")
        yield found
        while line[at : at + 1].isspace():
            at += 1


def _mended(match: re.Match[str]) -> str:
    behind, whole_part, fraction, no_number = match.groups()
    if match[0].startswith('"'):
        return f"{match[0]}, " if behind else match[0]
    if whole_part:
        return f"{whole_part}.{fraction}"
    return "null" if no_number else ""


def _count(pairs: _Pairs) -> Count | None:
    """Return what an object says, None if it only heads others."""
    fields = {key: value for key, value in pairs if key in _KNOWN}
    others = [(key, value) for key, value in pairs if key not in _KNOWN]
    counted = "event" in fields or "counter-value" in fields
    if counted or "metric-value" in fields:
        if len(fields) + len(others) < len(pairs):
            raise ValueError("a key is there twice")
        metrics = _metric(fields)
    else:
        metrics = _metrics(others) if fields.keys() <= _BESIDES else ()
    if not counted and not metrics:
        return None
    value, why = _value(fields) if counted else (None, "")
    percent = _known_number(fields, "pcnt-running", 100)
    runtime = fields.get("event-runtime")
    return Count(
        event=_event(fields) if counted else "",
        unit=_unit(fields, "unit") if counted else "",
        value=value,
        why=why,
        where=_where(fields),
        interval=_known_number(fields, "interval"),
        running=None if percent is None else percent / 100,
        runtime=None if runtime is None else whole(runtime, _MOST_NS),
        metrics=metrics,
    )


def _event(fields: Mapping[str, object]) -> str:
    event = fields.get("event")
    if not isinstance(event, str) or not event.strip():
        raise ValueError("`event` is no name")
    return event.strip()


def _value(fields: Mapping[str, object]) -> tuple[float | None, str]:
    """Return the value, and why there is none."""
    value = fields.get("counter-value")
    if isinstance(value, str) and (why := _NO_VALUE.get(value.strip())):
        return None, why
    return _bounded("counter-value", value), ""


def _known_number(fields: Mapping[str, object], key: str, most: float = math.inf) -> float | None:
    return None if (value := fields.get(key)) is None else _bounded(key, value, most)


def _bounded(key: str, value: object, most: float = math.inf) -> float:
    number = _number(value)
    if number is None or not 0 <= number <= most:
        bound = "0 or more" if most == math.inf else f"0 to {most}"
        raise ValueError(f"`{key}` is {one_line(repr(value), 40)}, not a number of {bound}")
    return number


def _number(value: object) -> float | None:
    """Return the finite number that a value is, whether it is one or the text of one."""
    if isinstance(value, str) and len(value) <= _LONGEST and _NUMBER.fullmatch(value):
        value = float(value.replace(",", "."))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _where(fields: Mapping[str, object]) -> dict[str, str]:
    where = {}
    for place in PLACES:
        value = fields.get(place, "")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(f"`{place}` is {one_line(repr(value), 40)}, not a name")
        # Events that are in no cgroup have an empty one.
        if name := str(value).strip():
            where[place] = name
    return where


def _unit(fields: Mapping[str, object], key: str) -> str:
    unit = fields.get(key)
    if unit is not None and not isinstance(unit, str):
        raise ValueError(f"`{key}` is {one_line(repr(unit), 40)}, not a name")
    return "" if unit is None or unit.strip() in _NO_UNIT else unit.strip()


def _metric(fields: Mapping[str, object]) -> tuple[tuple[float | None, str], ...]:
    """Return the metric of a line, if there is one: without a unit it is 0 and a placeholder."""
    given = fields.get("metric-value")
    value, unit = _metric_value(given), _unit(fields, "metric-unit")
    placeholder = not unit and ("metric-unit" in fields or value is None)
    return () if placeholder else ((value, unit),)


def _metric_value(value: object) -> float | None:
    """Return a metric's value, None for what perf prints where it could not compute one."""
    number = _number(value)
    unknown = value is None or (isinstance(value, str) and _NO_NUMBER.fullmatch(value))
    if number is None and not unknown:
        raise ValueError(f"`metric-value` is {one_line(repr(value), 40)}, not a number")
    return number


def _metrics(others: Sequence[tuple[str, object]]) -> tuple[tuple[float | None, str], ...]:
    """Return the metrics of a line of --metric-only, whose keys are their units."""
    if not others:
        return ()
    metrics = tuple(
        (_number(value), unit.strip())
        for unit, value in others
        if isinstance(value, str) and (_number(value) is not None or _NO_NUMBER.fullmatch(value))
    )
    if not metrics:
        raise ValueError("it has neither an event nor a metric")
    return metrics
