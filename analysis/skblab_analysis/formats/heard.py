# SPDX-License-Identifier: GPL-2.0-or-later
"""What kernels complained of on their consoles while a run was recorded.

It is in the journal, an event for each trial or boot in which there was any:

    {"event": "kernel", "trials": [3], "when": "", "setting": "", "more": 0, "lines": [
        {"machine": "router", "kind": "warning", "line": "WARNING: CPU: 0 …", "count": 1}]}

`trials` are those that it made invalid. None: no trial was under way that has a row, and `when`
says in words what was; `setting` is that of an attempt that broke off. `more` counts lines that are
not among `lines`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, JsonValue, NonNegativeInt, PositiveInt

from skblab_analysis.base.checked import Closed, parse

EVENT = "kernel"
# A kernel that warns of every packet has said it by then.
MOST = 20


@dataclass(frozen=True)
class Heard:
    """A line of a machine's console that tells of trouble, and what kind it is."""

    machine: str
    kind: str
    line: str

    def __str__(self) -> str:
        """It in words."""
        return f"kernel {self.kind} ({self.machine}): {self.line}"


class Line(Closed):
    """A line, and how often it came."""

    machine: str
    kind: str
    line: str
    count: PositiveInt

    def __str__(self) -> str:
        """It in words."""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{Heard(self.machine, self.kind, self.line)}{times}"


class Complaint(Closed):
    """What kernels complained of in one trial, or outside of any."""

    trials: tuple[NonNegativeInt, ...]
    when: str
    setting: str
    lines: Annotated[tuple[Line, ...], Field(min_length=1)]
    more: NonNegativeInt

    @property
    def spoils(self) -> bool:
        """Whether it was while something was measured."""
        return bool(self.trials or self.setting)

    @property
    def where(self) -> str:
        """When it was, in words."""
        if not self.trials:
            return self.when or "outside of trials"
        numbers = ", ".join(map(str, self.trials))
        return f"trial {numbers}" if len(self.trials) == 1 else f"trials {numbers}"


def data(
    found: Sequence[Heard], trials: Sequence[int] = (), when: str = "", setting: str = ""
) -> dict[str, Any]:
    """Return what the event says; equal lines are one."""
    counts = list(Counter(found).items())
    lines: list[JsonValue] = [
        {
            "machine": complaint.machine,
            "kind": complaint.kind,
            "line": complaint.line,
            "count": count,
        }
        for complaint, count in counts[:MOST]
    ]
    more = sum(count for _, count in counts[MOST:])
    place: dict[str, JsonValue] = {"trials": list(trials), "when": when, "setting": setting}
    return place | {"lines": lines, "more": more}


def reason(found: Sequence[Heard]) -> str:
    """Return why a trial is invalid in which kernels complained of this."""
    others = len(found) - 1
    more = f", and {others} more such {'line' if others == 1 else 'lines'}" if others else ""
    return f"{found[0]}{more}"


def complaints(events: Iterable[Mapping[str, Any]]) -> list[Complaint]:
    """Return what the data of such events say; RecordError if one says nothing of the kind."""
    return [
        parse(Complaint, dict(event), "what a kernel said, in the journal,") for event in events
    ]
