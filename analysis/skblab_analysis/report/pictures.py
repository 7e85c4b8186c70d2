# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of a run by gnuplot: shares of the path, distributions, exact cost, throughput.

Each picture leaves NAME.gp, NAME.dat, NAME.svg, NAME-narrow.svg (for a phone) and NAME.png side
by side; `gnuplot NAME.gp` in that folder makes the pictures again. The drawing itself is in
analysis/gnuplot/; here are the figures, the ticks and the words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skblab_analysis import files
from skblab_analysis.base.certainty import Interval
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.words import (
    ABSENT,
    PATHS,
    TIME_UNITS,
    label,
    number,
    quantity,
    share,
    signed,
    slowest,
)
from skblab_analysis.exact.summary import ExactSummary
from skblab_analysis.latency.summary import Delay, LatencySummary
from skblab_analysis.layers.series import Series
from skblab_analysis.throughput import view as rates
from skblab_analysis.throughput.summary import ThroughputSummary

# Runs gnuplot with arguments in a folder; raises when gnuplot fails.
GnuplotRunner = Callable[[Sequence[str], Path], None]

TEMPLATES = Path(__file__).resolve().parents[2] / "gnuplot"
OUTPUTS = (".svg", "-narrow.svg", ".png")

# Told apart also with the common kinds of colour blindness; the total is ink.
INK = 0x1B1F24
MUTED = 0x66707A
COLOURS = (0x0B6E99, 0xD1600A, 0x2A8F57, 0xB5478A, 0x6B5FD3, 0x8A6D3B, 0x2FA8B8, 0xB8860B)
# Of what is forwarded with a setting.
MORE, LESS = COLOURS[2], COLOURS[1]

MISSING = "?"
# A histogram's smallest time is 0, which a logarithmic axis cannot show.
SMALLEST = 1

Value = str | int | float


@dataclass(frozen=True)
class Picture:
    """One picture before it is drawn: the template's variables and its data file."""

    name: str
    template: str
    title: str
    description: str
    variables: Mapping[str, Value | Sequence[str] | Sequence[int]]
    data: str


def draw(picture: Picture, folder: Path, gnuplot: GnuplotRunner) -> None:
    """Write and draw a picture in `folder`; RefusedError when gnuplot leaves no output."""
    variables = {"name": picture.name, "data": f"{picture.name}.dat", **picture.variables}
    script = "\n".join(
        [
            "# SPDX-License-Identifier: GPL-2.0-or-later",
            f"# {picture.title}. Draw it again: gnuplot {picture.name}.gp",
            "reset session",
            *(_assignment(name, value) for name, value in variables.items()),
            "",
            *(_template(part) for part in ("style", picture.template, "outputs")),
        ]
    )
    for suffix in OUTPUTS:
        (folder / f"{picture.name}{suffix}").unlink(missing_ok=True)
    files.write(folder / f"{picture.name}.dat", picture.data)
    files.write(folder / f"{picture.name}.gp", script)
    gnuplot([f"{picture.name}.gp"], folder)
    for suffix in OUTPUTS:
        output = folder / f"{picture.name}{suffix}"
        if not output.is_file() or not output.stat().st_size:
            raise RefusedError(f"gnuplot made no {output.name} from {picture.name}.gp in {folder}")


def share_picture(name: str, found: Sequence[Series], without: Series | None = None) -> Picture:
    """Mean times laid end to end, with median and tail beside them. One row a layer.

    `found` holds the layers in order and the whole path, with a value in each. `without` is a
    layer to leave out; shares are then of the others' time.
    """
    unit = found[0].unit
    layers = [one for one in found if one.kind == "layer"]
    packets = max(one.histogram.count for one in found)
    coloured = dict(zip((one.layer for one in layers), _colours(layers), strict=True))
    shown = [one for one in layers if one is not without]
    whole = sum(one.histogram.total for one in shown)
    lines, start = [], 0.0
    for one in shown:
        # Over all packets, also those that skip this layer: only so do the bars add up.
        width = one.histogram.total / packets
        words = f"{share(one.histogram.total / whole if whole else None)} · {quantity(width, unit)}"
        colour = coloured[one.layer]
        lines.append(_share_line(one, label(one), start, start + width, colour, words))
        start += width
    totals = [one for one in found if one.kind == "total"]
    if without is None:
        for one in totals:
            mean = one.histogram.total / packets
            lines.append(_share_line(one, "whole path", 0, mean, INK, quantity(mean, unit)))
            start = max(start, mean)
        shown = [*shown, *totals]
    low = min(_median(one) for one in shown)
    high = max(one.histogram.maximum for one in shown)
    tail_low, tail_high = _decades(low, high)
    title = f"Where {PATHS[found[0].path or 'receive']} goes"
    return Picture(
        name=name,
        template="share",
        title=title if without is None else f"{title}, without {label(without)}",
        description=_share_words(shown),
        variables={
            "rows": len(lines),
            "mean_max": max(start, SMALLEST) * 1.02,
            "mean_ticks": _ticks(_linear(0, max(start, SMALLEST)), unit),
            "tail_min": tail_low,
            "tail_max": tail_high,
            "tail_ticks": _ticks(_powers(tail_low, tail_high), unit),
        },
        data="# layer start end colour p50 p99 max text text\n" + "".join(lines),
    )


def distribution_picture(name: str, what: str, title: str, found: Sequence[Series]) -> Picture:
    """Cumulative distribution of each series, and its complement for the tails.

    `what` is what is counted, such as "Packets". Every series holds a value.
    """
    unit = found[0].unit
    total = [number for number, one in enumerate(found, 1) if one.kind == "total"]
    blocks = []
    for one in found:
        count, done = one.histogram.count, 0
        lines = [f"# {label(one)}", f"{max(one.histogram.minimum, SMALLEST)} 0 1"]
        for _, upper, held in one.histogram.rows():
            done += held
            bound = max(min(upper, one.histogram.maximum), SMALLEST)
            lines.append(f"{bound} {done / count:.9g} {(count - done) / count:.9g}")
        blocks.append("\n".join(lines) + "\n")
    low, high = _decades(
        min(one.histogram.minimum for one in found), max(one.histogram.maximum for one in found)
    )
    # The rarest value that any series can show is one in its count; a few more make no decade.
    most = max(one.histogram.count for one in found)
    rarest = 10.0 ** -max(math.ceil(math.log10(0.99 * most)), 1)
    return Picture(
        name=name,
        template="distribution",
        title=title,
        description=_distribution_words(what, found),
        variables={
            "what": what,
            "series": len(found),
            "titles": ["whole path" if one.kind == "total" else label(one) for one in found],
            "colours": _colours(found),
            "heavy": total[0] if total else 0,
            "from": low,
            "to": high,
            "ticks": _ticks(_powers(low, high), unit),
            "rarest": rarest,
            "rare_ticks": _rare_ticks(rarest),
        },
        data="\n\n".join(blocks),
    )


def exact_picture(exact: ExactSummary, suffix: str = "") -> Picture:
    """Instructions per packet by setting, tester apart, with the difference from the first.

    `suffix` tells those of further traffic from the first.
    """
    differences = {one.setting: one.difference for one in exact.differences}
    lines = []
    for cost in exact.costs:
        tester = exact.tester(cost)
        difference = differences.get(cost.setting)
        value = difference.effect if difference else 0.0
        words = "baseline"
        if difference:
            words = f"{signed(value, 1)} ({share(difference.share, 1, sign=True)})"
        lines.append(
            f"{_quoted(cost.setting)} {tester.mean if tester else 0.0:.3f} {cost.mean:.3f} "
            f"{value:.3f} "
            f"{_quoted(number(cost.mean, 1))} {_quoted(words)}\n"
        )
    values = [one.difference.effect for one in exact.differences]
    low, high = min([0.0, *values]), max([0.0, *values])
    if low == high:
        high = 1.0
    top = max(cost.mean for cost in exact.costs)
    return Picture(
        name=f"exact{suffix}",
        template="exact",
        title=f"Instructions per packet{f', {exact.traffic}' if exact.traffic else ''}",
        description=_exact_words(exact),
        variables={
            "rows": len(lines),
            "all_max": top * 1.02,
            "all_ticks": _ticks(_linear(0, top), ""),
            "diff_min": low * 1.05,
            "diff_max": high * 1.05,
            "diff_ticks": _ticks(_linear(low, high), ""),
        },
        data="# setting tester whole difference text text\n" + "".join(lines),
    )


def throughput_picture(summary: ThroughputSummary, suffix: str = "") -> Picture:
    """Rates by setting and goal with their intervals, and the difference by the first goal.

    `suffix` tells those of further traffic from the first.
    """
    main = summary.main
    lines, tops, ends = [], [0.0], [0.0]
    for rate in main.rates:
        marks = []
        for goal in summary.goals:
            found = goal.rate(rate.setting)
            interval = found.interval if found else None
            marks += _whiskers(interval)
            tops += [] if interval is None else [interval.mean, interval.high or 0.0]
        change = main.change(rate.setting)
        if change is None:
            marks += [*_whiskers(None), MISSING]
        else:
            one = change.difference
            colour = (MORE if one.share > 0 else LESS) if one.significant else MUTED
            low, high = one.ends or (one.share, one.share)
            reach = (low, max(one.share, min(high, rates.MOST)))
            marks += [*(f"{100 * value:.3f}" for value in (one.share, *reach)), str(colour)]
            ends += [100 * end for end in reach]
        words = ABSENT if rate.interval is None else number(rate.interval.mean)
        difference, half = rates.difference_words(main, rate.setting)
        said = f"{difference} {half}".strip()
        lines.append(
            " ".join([_quoted(rate.setting), *marks, _quoted(words), f"{_quoted(said)}\n"])
        )
    top, low, high = max(tops) or 1.0, min(ends), max(ends)
    if low == high:
        high = 1.0
    return Picture(
        name=f"throughput{suffix}",
        template="throughput",
        title=f"Packets per second, {summary.traffic}",
        description=_throughput_words(summary),
        variables={
            "rows": len(lines),
            "goals": len(summary.goals),
            "titles": [one.goal for one in summary.goals],
            "colours": list(COLOURS[: len(summary.goals)]),
            "rate_max": top * 1.02,
            "rate_ticks": _ticks(_linear(0, top), ""),
            "diff_min": low - 0.05 * (high - low),
            "diff_max": high + 0.05 * (high - low),
            "diff_ticks": _ticks(_linear(low, high), "%"),
        },
        data="# setting, mean low high of each goal and the difference, colour text text\n"
        + "".join(lines),
    )


def latency_series(summary: LatencySummary) -> list[Series]:
    """Return latency by setting, to be drawn: the baseline, what differs most, the tester.

    Without those that have too few packets for a median.
    """

    def differs(one: Delay) -> float:
        change = summary.change(one.setting)
        found = change.compared if change else None
        return math.inf if change is None else abs(found.share) if found else 0.0

    room = len(COLOURS) - len(summary.testers)
    most = sorted(summary.delays, key=differs, reverse=True)[: max(room, 1)]
    shown = [*(one for one in summary.delays if one in most), *summary.testers]
    return [
        replace(one.trials[0].figures["latency"], layer=one.setting, histogram=one.latency)
        for one in shown
        if one.latency.quantile(0.5) is not None
    ]


def _whiskers(interval: Interval | None) -> list[str]:
    """A mean and the ends of its interval; of one without any, the mean itself."""
    if interval is None:
        return [MISSING] * 3
    half = interval.half or 0.0
    return [f"{interval.mean + by:.3f}" for by in (0, -half, half)]


def _share_line(one: Series, name: str, start: float, end: float, colour: int, words: str) -> str:
    histogram = one.histogram
    p50, p99 = histogram.quantile(0.5), histogram.quantile(0.99)
    marks = [_mark(p50), _mark(p99), _mark(histogram.maximum)]
    tail = " · ".join(quantity(value, one.unit) for value in (p50, p99) if value is not None)
    return " ".join(
        [
            _quoted(name),
            f"{start:.3f} {end:.3f} {colour}",
            *marks,
            _quoted(words),
            f"{_quoted(tail)}\n",
        ]
    )


def _mark(value: float | None) -> str:
    return MISSING if value is None else f"{max(value, SMALLEST):.3f}"


def _median(one: Series) -> float:
    """The leftmost mark of a row: the median, or the maximum where that alone is given."""
    median = one.histogram.quantile(0.5)
    return one.histogram.maximum if median is None else median


def _colours(found: Sequence[Series]) -> list[int]:
    """One colour a series, the same for a layer in every picture of the run."""
    colours, taken = [], 0
    for one in found:
        if one.kind == "total":
            colours.append(INK)
        else:
            colours.append(COLOURS[taken % len(COLOURS)])
            taken += 1
    return colours


def _decades(low: float, high: float) -> tuple[float, float]:
    """Return the powers of ten around the values, at least one decade apart."""
    first = math.floor(math.log10(max(low, SMALLEST)))
    last = math.ceil(math.log10(max(high, SMALLEST)))
    return 10.0**first, 10.0 ** max(last, first + 1)


def _powers(low: float, high: float) -> list[float]:
    """Return at most six powers of ten from `low` to `high`, both powers of ten."""
    first, last = round(math.log10(low)), round(math.log10(high))
    step = math.ceil((last - first + 1) / 6)
    return [10.0**power for power in range(first, last + 1, step)]


def _linear(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high`, 0 among them, at most five steps apart."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _ticks(values: Sequence[float], unit: str) -> str:
    """Return gnuplot's list of ticks: "10 µs" 10000, …"""
    return ", ".join(f"{_quoted(_tick(value, unit))} {value:g}" for value in values)


def _tick(value: float, unit: str) -> str:
    if unit == "%":
        # Labels of ticks are formats.
        return f"{value:g} %%".replace("-", "−")
    if unit != "ns" or value == 0:
        digits = 0 if float(value).is_integer() else 1
        return number(value, digits)
    for step, name in TIME_UNITS:
        if value >= step:
            return f"{value / step:g} {name}"
    return f"{value:g} ns"


def _rare_ticks(rarest: float) -> str:
    powers = range(round(-math.log10(rarest)) + 1)
    words = ["all", *(f"1 in {number(10**power)}" for power in powers if power)]
    return ", ".join(f"{_quoted(words[power])} {10.0**-power:g}" for power in powers)


def _quoted(text: str) -> str:
    """Return a gnuplot string; names are checked where records are read, so this must hold."""
    if any(character in text for character in '"\\\n'):
        raise ValueError(f"{text!r} cannot stand in a gnuplot script")
    return f'"{text}"'


def _assignment(name: str, value: Value | Sequence[str] | Sequence[int]) -> str:
    if isinstance(value, str):
        # Ticks hold quoted strings themselves, so they stand in single quotes.
        return f"{name} = '{value.replace(chr(39), chr(39) * 2)}'"
    if isinstance(value, int | float):
        return f"{name} = {value!r}"
    items = ", ".join(_quoted(item) if isinstance(item, str) else str(item) for item in value)
    return f"array {name}[{len(value)}] = [{items}]"


def _template(name: str) -> str:
    """Return a part of analysis/gnuplot/ without its licence line, which the script has once."""
    text = (TEMPLATES / f"{name}.gp").read_text()
    return text.partition("\n")[2]


def _share_words(found: Sequence[Series]) -> str:
    parts = []
    for one in found:
        name = "the whole path" if one.kind == "total" else label(one)
        histogram = one.histogram
        figures = [
            f"mean {quantity(histogram.mean, one.unit)}",
            f"median {quantity(histogram.quantile(0.5), one.unit)}",
            f"99 % {quantity(histogram.quantile(0.99), one.unit)}",
            _slowest_words(one),
        ]
        parts.append(f"{name}: {', '.join(figures)}")
    return "; ".join(parts) + "."


def _slowest_words(one: Series) -> str:
    return f"slowest {slowest(one.histogram, lambda value: quantity(value, one.unit))}"


def _distribution_words(what: str, found: Sequence[Series]) -> str:
    parts = [
        f"{label(one)}: half below {quantity(one.histogram.quantile(0.5), one.unit)}, "
        f"{_slowest_words(one)}"
        for one in found
    ]
    return f"{what} by time: the share done, and the share slower. " + "; ".join(parts) + "."


def _throughput_words(summary: ThroughputSummary) -> str:
    parts = []
    for goal in summary.goals:
        for one in rates.rows(goal):
            figures = f"{one.rate} {one.half}".strip()
            against = f", {one.difference} {one.difference_half}".rstrip(", ")
            parts.append(f"{one.setting}, {goal.goal}: {figures} packets/s{against}")
    return "; ".join(parts) + "."


def _exact_words(exact: ExactSummary) -> str:
    parts = [
        f"{cost.setting}: {number(cost.mean, 1)} instructions a packet" for cost in exact.costs
    ]
    parts += [
        f"{one.setting} differs from {exact.baseline.setting} by {signed(one.difference.effect, 1)}"
        for one in exact.differences
    ]
    return "; ".join(parts) + "."
