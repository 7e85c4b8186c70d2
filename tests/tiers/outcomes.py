# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests took and how they ended: kept as they end, told before and after, and a table."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skblab.lab.guest import eventlog
from tiers import schedule

if TYPE_CHECKING:
    import pytest

BOOTS, AGAIN = "guest_boots", "guests_started_again"
SCALED, PROCESSOR = "at_full_scale", "processor_seconds"
# Beside the outcomes: what each test failed with.
FAILURES = "failures.txt"


def _made(file: Path) -> Path:
    """Return a file whose folder is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@dataclass
class Outcome:
    """How a test ended; `seconds` are those of its set-up and tear-down, too.

    `processor` are the seconds of processors of the test and of all processes that ended with it:
    a guest that several tests share is counted with the last. `full` tells that it has a full
    scale, and was at it.
    """

    seconds: float = 0.0
    boots: int = 0
    again: int = 0
    slow: bool = False
    full: bool = False
    result: str = "passed"
    processor: float = 0.0


@dataclass
class Outcomes:
    """The outcomes of a run; each is added to `file`, if there is one, when its test is over."""

    file: Path | None
    found: dict[str, Outcome] = field(default_factory=lambda: defaultdict(Outcome))

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            # A line that was cut short is not to be gone on with.
            text = self.file.read_bytes()
            os.truncate(self.file, text.rfind(b"\n") + 1)

    def add(self, report: pytest.TestReport) -> None:
        """Take in the report of a phase of a test."""
        one = self.found[report.nodeid]
        one.seconds += report.duration
        one.slow = "slow" in report.keywords
        if report.outcome != "passed" and one.result != "failed":
            one.result = report.outcome
        if report.outcome == "failed" and self.file is not None:
            # A run of hours tells it at its end only, and one that is stopped may not.
            with _made(self.file.with_name(FAILURES)).open("a") as file:
                file.write(f"== {report.nodeid}: {report.when}\n{report.longreprtext}\n\n")
        if report.when != "teardown":
            return
        properties: dict[str, Any] = dict(report.user_properties)
        one.full = bool(properties.get(SCALED, False))
        one.processor = round(float(properties.get(PROCESSOR, 0.0)), 2)
        one.boots, one.again = int(properties.get(BOOTS, 0)), int(properties.get(AGAIN, 0))
        if self.file is not None:
            with _made(self.file).open("a") as file:
                file.write(json.dumps({"test": report.nodeid, **vars(one)}) + "\n")

    def summary(self) -> Iterator[str]:
        """Give lines on what the run took."""
        processor = sum(outcome.processor for outcome in self.found.values())
        yield f"the tests took {processor:.0f} s of processors"
        boots = sum(outcome.boots for outcome in self.found.values())
        if boots:
            seconds = sum(outcome.seconds for outcome in self.found.values() if outcome.boots)
            yield f"{boots} guests were started; the tests that did took {seconds:.0f} s in all"
        for name, outcome in sorted(self.found.items()):
            if outcome.again:
                yield f"{name}: QEMU failed {outcome.again} times and was started again"

    def write_table(self, file: Path) -> None:
        """Write a table of Markdown: test, result, seconds, guests; the longest first."""
        rows = table(self.file) if self.file is not None else self.found
        lines = [
            "| test | result | seconds | processor | guests |",
            "| --- | --- | ---: | ---: | ---: |",
        ]
        for name, outcome in sorted(rows.items(), key=lambda row: -row[1].seconds):
            cell = name.replace("|", "\\|")
            took = f"{outcome.seconds:.1f} | {outcome.processor:.1f}"
            lines.append(f"| `{cell}` | {outcome.result} | {took} | {outcome.boots} |")
        whole, processor = (
            sum(getattr(outcome, name) for outcome in rows.values())
            for name in ("seconds", "processor")
        )
        boots = sum(outcome.boots for outcome in rows.values())
        lines.append(f"| all {len(rows)} | | {whole:.0f} | {processor:.0f} | {boots} |")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")


def table(file: Path) -> dict[str, Outcome]:
    """Return the last outcome of each test in a file of outcomes, none if there is no file.

    A last line that was cut short by a kill is as if its test had not run.
    """
    found: dict[str, Outcome] = {}
    text = file.read_text() if file.exists() else ""
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            read = json.loads(line)
            name = read.pop("test")
            found[name] = Outcome(**read)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{file}:{number}: not an outcome; remove the file") from None
    return found


def processor_seconds() -> float:
    """Return what this process and those of its children that have ended took of processors."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def passed(file: Path) -> set[str]:
    """Return the tests that passed according to a file of outcomes."""
    return {name for name, outcome in table(file).items() if outcome.result == "passed"}


def complaints(events: Iterable[eventlog.Event], allowed: Collection[str]) -> list[str]:
    """Return what consoles of guests tell that no pattern allows.

    What one said that was booted again was no fault of its kernel: see Guest.connect().
    """
    return [
        text
        for event in events
        if event.event == eventlog.ENDED
        for text in event.findings
        if not any(re.search(pattern, text) for pattern in allowed)
    ]


def announcement(
    tests: Collection[str],
    durations: Mapping[str, schedule.Duration],
    workers: int,
    commit: int | None,
    *,
    full: bool = False,
) -> Iterator[str]:
    """Say how many tests will run and for how long, and which part of the slow ones they are."""
    known = [durations[test] for test in tests if test in durations]
    boots = sum(duration.boots for duration in known)
    minutes = schedule.expected(tests, durations, workers, full=full) / 60
    yield (
        f"{len(tests)} tests {workers} at a time, {boots} boots of guests: "
        f"about {minutes:.0f} minutes"
    )
    if commit is not None:
        slow = sum(duration.seconds for duration in durations.values() if duration.slow)
        here = sum(duration.seconds for duration in known)
        share = here / slow if slow else 1.0
        yield f"commit {commit}: {share:.0%} of all slow tests' time; the next commits have others"
