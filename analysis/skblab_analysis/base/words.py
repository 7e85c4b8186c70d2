# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as tables, pictures and pages show them: units, rounding, a list in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from skblab_analysis.base.histogram import Histogram

ABSENT = "–"
NARROW_SPACE = "\u202f"
# Keeps a per cent sign on the line of its number.
FIXED_SPACE = "\u00a0"

# Steps of time units, largest first: (nanoseconds, name).
TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def number(value: float | None, digits: int = 0, space: str = " ") -> str:
    """Return a number with its thousands apart by `space`; a dash for None."""
    if value is None:
        return ABSENT
    return f"{value:,.{digits}f}".replace(",", space).replace("-", "−")


class _OfRate(Protocol):
    """What was measured with one traffic at one rate, in packets per second."""

    @property
    def traffic(self) -> str: ...
    @property
    def rate(self) -> int: ...


def at_rate(summary: _OfRate) -> str:
    """Return what a summary is of, its title: the traffic and its rate."""
    return f"{summary.traffic}, {number(summary.rate)} packets/s"


def share(part: float | None, digits: int = 1, sign: bool = False) -> str:
    """Return a share of 1 in per cent, never rounded to 0.0; a dash for None."""
    if part is None:
        return ABSENT
    if 0 < abs(part) < 10 ** -(digits + 2) / 2 and not sign:
        digits = _leading(part)
    figure = f"{100 * part:{'+' if sign else ''}.{digits}f}".replace("-", "−")
    return f"{figure}{FIXED_SPACE}%"


def signed(value: float, digits: int = 0, space: str = " ") -> str:
    """Return a number with its sign always written."""
    return ("+" if value > 0 else "") + number(value, digits, space)


def small_share(part: float | None) -> str:
    """Return a share in per cent with digits enough for two that matter: 0.012 %."""
    if part is None:
        return ABSENT
    if part == 0:
        return f"0{FIXED_SPACE}%"
    return share(part, min(max(_leading(part) + 1, 0), 6))


def _leading(part: float) -> int:
    """Decimals needed to show the first digit of a share in per cent; below 0 for 10 % and more.

    A damaged run may have a share that is no number, or one that is none in per cent.
    """
    return -math.floor(math.log10(abs(part))) - 2 if math.isfinite(part) else 0


def quantity(value: float | None, unit: str, space: str = NARROW_SPACE) -> str:
    """Return a value with its unit, three digits that matter: 31.2 µs, 4 210 instructions."""
    if value is None:
        return ABSENT
    if unit != "ns":
        return f"{number(value, 0, space)} {unit}"
    for step, name in TIME_UNITS:
        if abs(value) >= step or step == 1:
            scaled = value / step
            digits = 0 if step == 1 else decimals(scaled)
            return f"{number(scaled, digits, space)}{space}{name}"
    raise AssertionError("the last unit takes every value")


@dataclass(frozen=True)
class Scale:
    """How the values of one table are written: divided by `step`, in `name`."""

    step: int
    name: str

    def text(self, value: float | None, space: str = " ") -> str:
        """Return a value without its unit, three digits that matter; a dash for None."""
        if value is None:
            return ABSENT
        scaled = value / self.step
        whole = self.name in ("ns", "instructions") or scaled == int(scaled)
        return number(scaled, 0 if whole else decimals(scaled), space)


def slowest(histogram: Histogram, text: Callable[[float | None], str]) -> str:
    """Return the maximum as `text` writes it, or its bound where no more is known."""
    bound = f"≤{FIXED_SPACE}" if histogram.bounded and histogram.buckets else ""
    return bound + text(histogram.maximum)


def scale(unit: str, largest: int) -> Scale:
    """Return one scale for a table whose largest value is `largest`."""
    if unit != "ns" or largest < 100_000:
        return Scale(1, unit)
    return Scale(1_000, "µs") if largest < 10_000_000_000 else Scale(1_000_000, "ms")


def decimals(value: float) -> int:
    """Return after how many decimals a value has three digits that matter."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def count_decimals(value: float) -> int:
    """Return decimals enough to tell one count in ten thousand packets."""
    return 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4


def seconds(value: float) -> str:
    """Return a wall time in words a person reads at once: 3.1 s, 4 min 12 s, 24 h 00 min."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes >= 60:
        hours, minutes = divmod(round(value / 60), 60)
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s"


def rough_time(value: float) -> str:
    """Return estimated seconds as a person would say them: 3 min, 2.5 h, 10 days."""
    minutes = value / 60
    if minutes < 100:
        return f"{max(1.0, minutes):.0f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:.1f} h"
    return f"{minutes / 60 / 24:.0f} days"


def counted(count: int, what: str) -> str:
    """Return "1 block" or "2 blocks"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def joined(parts: list[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def spaced(value: float) -> str:
    """Return a whole number as pages have it."""
    return number(value, 0, NARROW_SPACE)
