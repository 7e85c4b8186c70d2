# SPDX-License-Identifier: GPL-2.0-or-later
"""What settings differ from the baseline in one figure: the same for every measure.

A measure gives its comparisons to the report, which tells the largest ones and stores all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from skblab_analysis.base.certainty import AGAIN, Change, Difference
from skblab_analysis.base.differences import difference_text, half_text
from skblab_analysis.base.words import NARROW_SPACE, number, share, signed

Measure = Literal[
    "instructions",
    "throughput",
    "rfc2544",
    "latency",
    "traffic",
    "tcp",
    "cpu",
    "layers",
    "events",
    "samples",
    "packets",
]
Unit = Literal[
    "instructions/packet",
    "instructions",
    "ns/packet",
    "ns",
    "s",
    "packets/s",
    "packets",
    "1",
    "count/packet",
    "bytes/packet",
    "J/packet",
    "bytes/s",
    "count/s",
    "1/s",
    "bits/s",
]


@dataclass(frozen=True)
class Wording:
    """How a measure's differences are told.

    `what` is measured, such as "throughput"; `noun` stands behind a difference, and `whole`, such
    as " of the path", behind its percentage. `better` and `worse` are a verb and what follows it,
    with `{}` for a percentage; `best` and `worst` announce the largest ones.
    """

    what: str
    noun: str
    better: tuple[str, str]
    worse: tuple[str, str]
    best: str
    worst: str
    whole: str = ""


@dataclass(frozen=True)
class Comparison:
    """What settings differ from `baseline` in one figure, of one traffic, at one rate (packets/s).

    `figure` and `part` name it, see `compared.py`. `unit` is that of the figure, and of each effect
    that is not relative. `path` is what shares are of, in that unit: the baseline's path; None:
    they are of the baseline's figure. Without `wording` a summary leaves it out.
    """

    measure: Measure
    figure: str
    unit: Unit
    baseline: str
    changes: tuple[Change, ...]
    wording: Wording | None = None
    traffic: str = ""
    rate: int | None = None
    part: str = ""
    path: float | None = None
    more_is_better: bool = False
    decides: bool = False

    @property
    def of(self) -> tuple[object, ...]:
        """What it compares, as a `Sampled` says what it is a figure of."""
        return self.measure, self.figure, self.part, self.unit, self.traffic, self.rate

    @property
    def again(self) -> Difference | None:
        """What the baseline differed from itself; None if it was not compared."""
        return next((change.difference for change in self.changes if change.setting == AGAIN), None)

    @property
    def others(self) -> tuple[Change, ...]:
        """The settings that are not the baseline."""
        return tuple(change for change in self.changes if change.setting != AGAIN)

    @property
    def where(self) -> str:
        """The traffic, and the rate if it was given."""
        rate = f"{number(self.rate)} packets/s" if self.rate else ""
        return ", ".join(filter(None, (self.traffic, rate)))

    def of_whole(self, difference: Difference, value: float) -> float | None:
        """Return a value of a difference (effect, end, detectable) as a part of the whole.

        None if the baseline's figure is 0.
        """
        if difference.relative:
            return value
        whole = difference.of if self.path is None else self.path
        return value / whole if whole else None

    def share(self, difference: Difference) -> float | None:
        """Return a difference as a part of the whole."""
        return self.of_whole(difference, difference.effect)

    def detectable(self, difference: Difference) -> float | None:
        """Return the smallest detectable difference as a part of the whole."""
        found = difference.detectable
        return None if found is None else self.of_whole(difference, found)

    def gain(self, difference: Difference) -> float:
        """Return by which part a setting is better than the baseline; below 0 if it is worse."""
        found = self.share(difference) or 0.0
        return found if self.more_is_better else -found

    def amount(self, difference: Difference) -> str:
        """Return a difference with its interval, in words, without brackets."""
        assert self.wording is not None
        if difference.relative:
            text, half = difference_text(difference).strip("()"), half_text(difference)
            half = f"({half})" if half and not half.startswith("±") else half
            return " ".join(filter(None, (text, half, self.wording.noun)))
        text = signed(difference.effect, 1, NARROW_SPACE)
        if difference.margin is not None:
            text += f" ±{number(difference.margin, 1, NARROW_SPACE)}"
        part = share(self.share(difference), 1, sign=True)
        return f"{text} {self.wording.noun} ({part}{self.wording.whole})"

    def phrase(self, difference: Difference) -> str:
        """Return what a setting does, by how many per cent: "saves 34.1 % of the path"."""
        assert self.wording is not None
        gain = self.gain(difference)
        verb, rest = self.wording.better if gain > 0 else self.wording.worse
        return f"{verb}s {rest.format(share(abs(gain)))}"


def significant(found: Comparison) -> Iterator[Change]:
    """Yield the settings that differ significantly."""
    return (change for change in found.others if change.difference.significant)
