# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups of tests, their expected time, and slices of the slow ones: plain functions, no pytest.

`durations.json` holds what each test of a guest took when it was last measured (`make durations`):
seconds on 2 cores with 2 workers, and boots of guests. Tests that are not in it count as quick.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("durations.json")
QUICK_SECONDS = 0.05
# Each test of these files has guests or builds of its own, some for many minutes: it is a group.
APART = frozenset(
    f"tests/guest/test_{name}.py"
    for name in (
        "fuzz",
        "kernel_tests",
        "patches_check",
        "probe_verify",
    )
)
# One sweep in guests at a time has this machine's processors, and others wait: on one worker they
# keep no second one waiting. Nor does one test put back what another's killed sweep has left.
SWEEPS = "sweeps in guests"
SWEEPING = frozenset(
    f"tests/guest/test_{name}.py"
    for name in (
        "demo",
        "experiments",
        "sweep_boots",
        "sweep_exact",
        "sweep_hosts_taken",
        "sweep_quick",
        "sweep_trouble",
        "sweep_virtio",
        "sweep_wall",
    )
)
# A group of slow tests that takes longer is cut into its functions.
LONG_GROUP_SECONDS = 600.0
# One that takes no longer may also be the last to begin.
SHORT_GROUP_SECONDS = 120.0
# As many commits in a row have all slow tests. Of another number, such as one by the time that is
# left, slices would not fit together.
SLICES = 5


@dataclass(frozen=True)
class Duration:
    """What a test took: seconds of wall time, boots of guests, and whether it is marked slow.

    `full_seconds` is what it took at full scale (`make test-all`), if that was measured;
    `estimated` are seconds that nobody has measured yet. `whole_at` is the number of the commit
    (git rev-list --count) in which it last passed in `make test-all`, if it is slow.
    """

    seconds: float
    boots: int = 0
    slow: bool = False
    full_seconds: float | None = None
    estimated: bool = False
    whole_at: int | None = None


def read(file: Path = FILE) -> dict[str, Duration]:
    """Return the stored durations by node id. Raises ValueError for a file that is none."""
    return {name: Duration(**found) for name, found in json.loads(file.read_text()).items()}


def write(durations: Mapping[str, Duration], file: Path = FILE) -> None:
    """Store durations, a line for each test, in order."""
    lines = []
    for name, duration in sorted(durations.items()):
        row = {
            "seconds": round(duration.seconds, 1),
            "boots": duration.boots,
            "slow": duration.slow,
        }
        if duration.full_seconds is not None:
            row["full_seconds"] = round(duration.full_seconds, 1)
        if duration.estimated:
            row["estimated"] = True
        if duration.whole_at is not None:
            row["whole_at"] = duration.whole_at
        lines.append(f"  {json.dumps(name)}: {json.dumps(row)}")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def passed_since(commit: int, durations: Mapping[str, Duration]) -> set[str]:
    """Return the slow tests that passed in `make test-all` in that commit or a later one."""
    return {
        name
        for name, duration in durations.items()
        if duration.slow and duration.whole_at is not None and duration.whole_at >= commit
    }


def group(test: str) -> str:
    """Return the group of a test: those of one run one after the other, on one worker.

    It is the test's file; or its folder, below `tests/guest/`: all tests there have the same guest;
    or the test, where the file's tests share nothing; or all sweeps in guests.
    """
    file = test.partition("::")[0]
    if file in SWEEPING:
        return SWEEPS
    if file in APART:
        return test
    folder, _, _ = file.rpartition("/")
    return folder if folder.startswith("tests/guest/") else file


def ordered(
    tests: Iterable[str],
    durations: Mapping[str, Duration],
    *,
    full: bool = False,
    turn: int = 0,
) -> list[str]:
    """Return tests by groups, the longest group first: no worker is left with it in the end.

    Of short groups another one is the first at each `turn`: what comes last may find no time.
    """
    totals: defaultdict[str, float] = defaultdict(float)
    tests = list(tests)
    for test in tests:
        totals[group(test)] += seconds(test, durations, full=full)
    place = {test: number for number, test in enumerate(tests)}
    longest_first = sorted(totals, key=lambda name: (-totals[name], name))
    long = [name for name in longest_first if totals[name] > SHORT_GROUP_SECONDS]
    short = longest_first[len(long) :]
    start = turn % len(short) if short else 0
    rank = {name: at for at, name in enumerate([*long, *short[start:], *short[:start]])}
    return sorted(tests, key=lambda test: (rank[group(test)], place[test]))


def expected(
    tests: Iterable[str], durations: Mapping[str, Duration], workers: int, *, full: bool = False
) -> float:
    """Return the seconds of wall time that tests will take: no group is on two workers."""
    totals: defaultdict[str, float] = defaultdict(float)
    for test in tests:
        totals[group(test)] += seconds(test, durations, full=full)
    if not totals:
        return 0.0
    return max(max(totals.values()), sum(totals.values()) / max(1, workers))


@dataclass(frozen=True)
class Slice:
    """A part of the slow tests: that of number `number` of SLICES, of `share` of their time."""

    tests: frozenset[str]
    number: int
    share: float


def choose(
    tests: Collection[str],
    durations: Mapping[str, Duration],
    *,
    commit: int,
    workers: int,
) -> Slice:
    """Return the slice of the slow `tests` for a commit's number.

    Each test is in one of the slices, which take about as long on so many workers; the commit's
    number counts them through.
    """
    parts: dict[str, list[str]] = {}
    totals: defaultdict[str, float] = defaultdict(float)
    for test in tests:
        totals[group(test)] += seconds(test, durations)
    for test in sorted(tests):
        found = group(test)
        name = test if found == SWEEPS else test.partition("[")[0]
        parts.setdefault(name if totals[found] > LONG_GROUP_SECONDS else found, []).append(test)
    took = {
        name: sum(seconds(test, durations) for test in some) for name, some in sorted(parts.items())
    }
    slices: list[list[str]] = [[] for _ in range(SLICES)]
    for name in sorted(parts, key=lambda name: -took[name]):
        wall = [expected([*chosen, *parts[name]], durations, workers) for chosen in slices]
        loads = [sum(seconds(test, durations) for test in chosen) for chosen in slices]
        best = min(range(SLICES), key=lambda number: (wall[number], loads[number]))
        slices[best] += parts[name]
    number = commit % SLICES
    whole = sum(took.values())
    took_here = sum(seconds(test, durations) for test in slices[number])
    share = took_here / whole if whole else 1.0
    return Slice(frozenset(slices[number]), number, share)


def seconds(test: str, durations: Mapping[str, Duration], *, full: bool = False) -> float:
    """Return what a test takes, if asked at full scale; what nothing is stored of is quick."""
    found = durations.get(test)
    if found is None:
        return QUICK_SECONDS
    return found.full_seconds or found.seconds if full else found.seconds
