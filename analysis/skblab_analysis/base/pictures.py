# SPDX-License-Identifier: GPL-2.0-or-later
"""A picture before gnuplot draws it: its figures, ticks and words. What all measures share.

The distribution of several histograms is here; other pictures are made by the measure that has
them, with a gnuplot template of its own beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab_analysis.base import labels
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.histogram import TAIL_SAMPLES, Histogram
from skblab_analysis.base.words import TIME_UNITS, number, quantity, slowest

TEMPLATES = Path(__file__).resolve().parents[2] / "gnuplot"

# Told apart also with the common kinds of colour blindness; the total is ink.
INK = 0x1B1F24
MUTED = 0x66707A
COLOURS = (0x0B6E99, 0xD1600A, 0x2A8F57, 0xB5478A, 0x6B5FD3, 0x8A6D3B, 0x2FA8B8, 0xB8860B)

# Pixels of a line that has names: beside the panel of differences, and above it on a phone.
WIDE_PANEL = 478.0
NARROW_PANEL = 352.0
# Letters in a legend by its columns, which gnuplot makes as wide as their number; and pixels in the
# only column of a narrow one.
LEGENDS = {3: 16, 2: 28}
NARROW_LEGEND = 285.0

MISSING = "?"
# An axis of percentiles has room for 0 % and 50 % up to so many steps.
MOST_STEPS = 5
# A histogram's smallest time is 0, which a logarithmic axis cannot show.
SMALLEST = 1

Value = str | int | float | Sequence[str] | Sequence[int]


@dataclass(frozen=True)
class Picture:
    """One picture before it is drawn: the template's variables and its data file."""

    name: str
    template: Path
    title: str
    description: str
    variables: Mapping[str, Value]
    data: str


@dataclass(frozen=True)
class Curve:
    """A histogram by its name; `whole` is that of a path, to which others add up."""

    name: str
    histogram: Histogram
    whole: bool = False


def distribution(
    name: str,
    what: str,
    title: str,
    unit: str,
    curves: Sequence[Curve],
    done: str = "done by this time",
) -> Picture:
    """Return the cumulative distribution of each curve, and its complement for the tails.

    `what` is what is counted, such as "Packets", and `done` what those up to a value are; `unit` is
    that of the values. Every histogram holds a value.
    """
    names = ["whole path" if curve.whole else curve.name for curve in curves]
    longest = max(map(len, names))
    columns = next((count for count, letters in LEGENDS.items() if longest <= letters), 2)
    titles = labels.names(names, [LEGENDS[columns]] * len(names), len)
    heavy = [place for place, curve in enumerate(curves, 1) if curve.whole]
    histograms = [curve.histogram for curve in curves]
    low, high = decades(
        min(histogram.minimum for histogram in histograms),
        max(histogram.maximum for histogram in histograms),
    )
    # The rarest value that any curve can show is one in its count; a few more make no decade.
    most = max(histogram.count for histogram in histograms)
    rarest = 10.0 ** -max(math.ceil(math.log10(0.99 * most)), 1)
    return Picture(
        name=name,
        template=TEMPLATES / "distribution.gp",
        title=title,
        description=_in_words(what, unit, curves),
        variables={
            "what": f"{what} {done}",
            "series": len(curves),
            "titles": titles,
            "narrow_titles": labels.names(
                names,
                [NARROW_LEGEND] * len(names),
                lambda text: labels.width(text, labels.SVG_SIZE),
            ),
            "legend_columns": columns,
            "colours": _colours(curves),
            "heavy": heavy[0] if heavy else 0,
            "from": low,
            "to": high,
            "ticks": ticks(powers(low, high), unit),
            "rarest": rarest,
            "rare_ticks": _rare_ticks(rarest),
            "known": TAIL_SAMPLES,
        },
        data="\n\n".join(map(_block, curves)),
    )


def _block(curve: Curve) -> str:
    histogram, done = curve.histogram, 0
    whole = histogram.count
    # A line break would begin a line of data.
    lines = [f"# {' '.join(curve.name.split())}", f"{max(histogram.minimum, SMALLEST)} 0 1 {whole}"]
    for _, upper, count in histogram.rows():
        done += count
        bound = max(min(upper, histogram.maximum), SMALLEST)
        above = whole - done
        lines.append(f"{bound} {done / whole:.9g} {above / whole:.9g} {above}")
    return "\n".join(lines) + "\n"


def _colours(curves: Sequence[Curve]) -> list[int]:
    """One colour a curve; those that have none of their own have the same one in each picture."""
    coloured = iter([colour(place) for place in range(len(curves))])
    return [INK if curve.whole else next(coloured) for curve in curves]


def _in_words(what: str, unit: str, curves: Sequence[Curve]) -> str:
    parts = [
        f"{curve.name}: half below {quantity(curve.histogram.quantile(0.5), unit)}, "
        f"{slowest_words(curve.histogram, unit)}"
        for curve in curves
    ]
    return f"{what} by time: the share done, and the share slower. " + "; ".join(parts) + "."


def slowest_words(histogram: Histogram, unit: str) -> str:
    """Return the maximum in words."""
    return f"slowest {slowest(histogram, lambda value: quantity(value, unit))}"


def colour(place: int) -> int:
    """Return the colour of the layer or curve at this place, from 0."""
    return COLOURS[place % len(COLOURS)]


def decades(low: float, high: float) -> tuple[float, float]:
    """Return the powers of ten around the values, at least one decade apart."""
    first = math.floor(math.log10(max(low, SMALLEST)))
    last = math.ceil(math.log10(max(high, SMALLEST)))
    return 10.0**first, 10.0 ** max(last, first + 1)


def powers(low: float, high: float) -> list[float]:
    """Return at most six powers of ten from `low` to `high`, both powers of ten."""
    first, last = round(math.log10(low)), round(math.log10(high))
    step = math.ceil((last - first + 1) / 6)
    return [10.0**power for power in range(first, last + 1, step)]


def linear(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high`, 0 among them, at most five steps apart."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def ticks(values: Sequence[float], unit: str, below: Sequence[str] = ()) -> str:
    """Return gnuplot's list of ticks: "10 µs" 10000, …

    `below` has for each what stands in a line of its own below it.
    """
    texts = [quoted(text) for text in tick_texts(values, unit)]
    if below:
        texts = [
            f"{text[:-1]}\\n{quoted(more)[1:]}" for text, more in zip(texts, below, strict=True)
        ]
    return ", ".join(f"{text} {value:g}" for text, value in zip(texts, values, strict=True))


def tick_texts(values: Sequence[float], unit: str) -> list[str]:
    """Return what ticks say, with as many decimals as tell them apart."""
    digits = next((few for few in range(6) if all(_round(value, few) for value in values)), 6)
    return [_tick(value, unit, digits) for value in values]


def _round(value: float, digits: int) -> bool:
    return math.isclose(value, round(value, digits), rel_tol=1e-6, abs_tol=1e-12)


def _tick(value: float, unit: str, digits: int) -> str:
    if unit == "%":
        # Labels of ticks are formats.
        return f"{value:g} %%".replace("-", "−")
    if unit != "ns" or value == 0:
        return number(value, digits if value else 0)
    for step, name in TIME_UNITS:
        if value >= step:
            return f"{value / step:g} {name}"
    return f"{value:g} ns"


def _rare_ticks(rarest: float) -> str:
    """Return the percentiles to that which so few are beyond: 0 %, 50 %, 90 %, 99 %, 99.9 %, …"""
    rare = [10.0**-power for power in range(1, round(-math.log10(rarest)) + 1)]
    digits = [max(power - 1, 0) for power in range(len(rare))]
    percentiles = [f"{100 * (1 - one):.{few}f}" for one, few in zip(rare, digits, strict=True)]
    words = list(zip(("0", "50", *percentiles), (1.0, 0.5, *rare), strict=True))
    # Of many steps the first two would touch.
    shown = words if len(rare) <= MOST_STEPS else words[1:]
    return ", ".join(f'"{text} %%" {share:g}' for text, share in shown)


def quoted(text: str) -> str:
    """Return a gnuplot string in double quotes, where gnuplot executes what backticks hold.

    Raises RecordError if a character of the text would end it or be read as code.
    """
    if any(character in text for character in '"\\\n`'):
        raise RecordError(f"{text!r} cannot stand in a gnuplot script")
    return f'"{text}"'
