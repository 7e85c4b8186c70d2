# SPDX-License-Identifier: GPL-2.0-or-later
"""Generators of times and sizes, as users write them: `poisson:1ms`, `uniform:64,1518`, `20us`.

skblab-traffic draws from them (runners/traffic/src/generator/); here a file is checked before
anything is built or booted. runners/traffic/tests/generators.txt holds both to one grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Unit = Literal["time", "bytes"]
# Of each, what stands behind its name.
FORMS = {
    "constant": "VALUE",
    "uniform": "LEAST,MOST",
    "gaussian": "MEAN,DEVIATION",
    "poisson": "MEAN",
    "pareto": "LEAST,SHAPE",
    "alternating": "VALUE,VALUE,…",
    "mix": "VALUE*WEIGHT,VALUE*WEIGHT,…",
    "file": "PATH, a file with a number in each line",
    "burst": "PACKETS,TIME",
}
# How many values there are behind the name, where that is fixed.
COUNTS = {"constant": 1, "uniform": 2, "gaussian": 2, "poisson": 1}
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
TIME = re.compile(rf"({NUMBER.pattern})(ns|us|ms|s)")
# A year, in nanoseconds: nothing that is larger is meant.
MOST = 3.2e16
MOST_PACKETS = 2**64 - 1


@dataclass(frozen=True)
class Generator:
    """A generator: its kind, and its values in nanoseconds or bytes; those of a file are not known.

    A burst has its one time, and a Pareto distribution the least value.
    """

    kind: str
    values: tuple[float, ...]

    @property
    def constant(self) -> float | None:
        """The value that it always gives; None if there are several."""
        return self.values[0] if self.kind == "constant" else None


def parse(text: str, unit: Unit) -> Generator:
    """Return what a text says; ValueError says in one sentence what is wrong with it."""
    kind, colon, rest = text.partition(":")
    if not colon:
        return Generator("constant", (_value(text, unit),))
    if kind not in FORMS:
        raise ValueError(f"{kind}: no such generator; there are: {', '.join(FORMS)}")
    try:
        return Generator(kind, _values(kind, rest, unit))
    except ValueError as why:
        raise ValueError(f"{text}: {why}; expected {kind}:{FORMS[kind]}") from None


def _values(kind: str, text: str, unit: Unit) -> tuple[float, ...]:
    words = text.split(",")
    match kind:
        case "file":
            # It is on the machine that sends.
            return ()
        case "burst":
            return (_burst(text, unit),)
        case "pareto":
            return (_pareto(text, unit),)
        case "mix":
            return _mix(words, unit)
    values = tuple(_value(word, unit) for word in words)
    if kind in COUNTS and len(values) != COUNTS[kind]:
        raise ValueError(f"{len(values)} numbers are not {COUNTS[kind]}")
    if kind == "uniform" and values[0] > values[1]:
        raise ValueError("LEAST is above MOST")
    if kind == "poisson" and values[0] == 0:
        raise ValueError("the mean is 0")
    return values


def _burst(text: str, unit: Unit) -> float:
    packets, every = _two(text)
    if not re.fullmatch(r"\+?[0-9]+", packets) or int(packets) > MOST_PACKETS:
        raise ValueError(f"{packets} is no whole number")
    if int(packets) == 0:
        raise ValueError("0 packets are no burst")
    if unit == "bytes":
        raise ValueError("a burst is of intervals, not of sizes")
    return _value(every, unit)


def _pareto(text: str, unit: Unit) -> float:
    least, shape = _two(text)
    value = _value(least, unit)
    if _value(shape, "bytes") <= 1:
        raise ValueError("the shape is at most 1, so that there is no mean")
    if value == 0:
        raise ValueError("LEAST is 0")
    return value


def _mix(words: list[str], unit: Unit) -> tuple[float, ...]:
    pairs = [word.partition("*") for word in words]
    values = tuple(_value(value, unit) for value, _, _ in pairs)
    weights = [_weight(weight) if star else 1.0 for _, star, weight in pairs]
    if not any(weights):
        raise ValueError("all weights are 0")
    return values


def _weight(text: str) -> float:
    try:
        return _value(text, "bytes")
    except ValueError:
        raise ValueError(f"{text} is no weight") from None


def _two(text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not comma:
        raise ValueError("there is one number")
    return first, second


def _value(text: str, unit: Unit) -> float:
    """Return a number in nanoseconds or bytes."""
    if unit == "time":
        expected = "a number and ns, us, ms or s, such as 1.5ms"
        timed = TIME.fullmatch(text)
        number = float(timed[1]) * NANOSECONDS[timed[2]] if timed else None
    else:
        expected = "bytes, such as 512"
        number = float(text) if NUMBER.fullmatch(text) else None
    if number is None or not 0 <= number <= MOST:
        raise ValueError(f"{text}: expected {expected}")
    return number
