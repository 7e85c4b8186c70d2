# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading what a selftest prints: KTAP (and TAP 13/14), and the older ways of the kernel's tests.

`parse` is strict: a test of ours must keep its plan. `loose` reads any line that looks like a
verdict, for comparing two runs of tests that were written before KTAP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from skblab_analysis.base.errors import one_line


class Result(Enum):
    """The result of one case."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    XFAIL = "xfail"


@dataclass(frozen=True)
class Case:
    """One case: its name, its result, and what was said beside it (a reason, mostly)."""

    name: str
    result: Result
    comment: str = ""


@dataclass(frozen=True)
class Report:
    """What a test printed: cases in order, and what is wrong with the output itself."""

    cases: tuple[Case, ...]
    faults: tuple[str, ...]
    skipped: str | None = None

    def count(self, result: Result) -> int:
        """Return how many cases have this result."""
        return sum(case.result is result for case in self.cases)


# Of a number; a longer one is none that a test has.
MOST_DIGITS = 18
# Characters of a line that can be a verdict: what is longer is a program's own output.
LONGEST_LINE = 1000
_VERSION = re.compile(r"(?:KTAP version \d+|TAP version 1[34])$")
_PLAN = re.compile(r"1\.\.(\d+)(?:\s+#\s*(SKIP)\b\s*(.*))?$", re.I)
_CASE = re.compile(r"(not )?ok(?: +(\d+))?(?: +(?:- +)?(.*))?$")
_DIRECTIVE = re.compile(r"^(.*?)\s*(?<!\\)#\s*(SKIP|TODO|XFAIL|TIMEOUT|ERROR)\b:?\s*(.*)$", re.I)
_BAIL = re.compile(r"Bail out!\s*(.*)$")
# What selftests in Python (lib/py/ksft.py) say before the line of a case: the check that
# did not hold, or the last line of a traceback.
_CHECK = re.compile(r"[#\s]*#\s*(Check failed .*|Exception\| .*)$")
# Of these as many are kept as people read.
MOST_CHECKS = 3


@dataclass
class _Level:
    """The lines of one test so far; sub-tests have a level of their own."""

    depth: int
    plan: int | None = None
    seen: int = 0


def parse(text: str) -> Report:
    """Return what a KTAP text says.

    Only the leaves count: a line that sums up its own sub-tests must agree with them, and is
    no case of its own.
    """
    cases: list[Case] = []
    faults: list[str] = []
    skipped: str | None = None
    levels: list[_Level] = []
    # Cases since the last result line of the level above, with where they begin.
    below: dict[int, int] = {}
    checks = _Checks()
    for raw in text.splitlines():
        depth, line = _indent(raw)
        if levels and len(raw) <= LONGEST_LINE and (said := _CHECK.match(line)):
            checks.take(said[1])
        if _VERSION.match(line):
            while levels and levels[-1].depth >= depth:
                faults += _close(levels.pop())
            levels.append(_Level(depth))
            below[depth] = len(cases)
        elif not levels or depth > levels[-1].depth or line.startswith("#"):
            # What a program prints between the lines of its test says nothing to us.
            continue
        elif bail := _BAIL.match(line):
            faults.append(f"bailed out: {bail[1] or 'no reason'}")
        elif plan := _PLAN.match(line):
            level = _at(levels, depth, faults)
            if level.plan is not None:
                faults.append("two plans")
            level.plan = int(plan[1][:MOST_DIGITS])
            if level.plan == 0 and depth == 0:
                skipped = plan[3] or "no reason given"
        elif found := _CASE.match(line):
            deeper = levels[-1].depth > depth
            level = _at(levels, depth, faults)
            level.seen += 1
            if found[2] and int(found[2][:MOST_DIGITS]) != level.seen:
                faults.append(f"case {level.seen} has the number {found[2]}")
                level.seen = int(found[2][:MOST_DIGITS])
            case = _case(found)
            if case.result is Result.FAIL and not case.comment:
                case = replace(case, comment=checks.text)
            checks = _Checks()
            if deeper:
                faults += _agree(case, cases[below[depth + 2] :] if depth + 2 in below else [])
            else:
                cases.append(case)
    if not levels:
        return Report((), ("it printed no KTAP",))
    while levels:
        faults += _close(levels.pop())
    return Report(tuple(cases), tuple(faults), skipped)


class _Checks:
    """What was said of a case before its line."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.more = 0
        self.raised = ""
        self._in_traceback = False

    def take(self, said: str) -> None:
        """Take in a line of _CHECK's; of a traceback the first line behind its frames counts."""
        if not said.startswith("Exception"):
            self.more += len(self.failed) == MOST_CHECKS
            self.failed += [said][: MOST_CHECKS - len(self.failed)]
            return
        indented = said.startswith("Exception|  ")
        if self._in_traceback and not indented:
            self.raised = said
        self._in_traceback = indented

    @property
    def text(self) -> str:
        """All of it, in one line."""
        rest = [f"{self.more} more"] if self.more else []
        said = [*self.failed, *rest, *([self.raised] if self.raised else [])]
        # A terminal would do what escape sequences say.
        plain = "".join(letter if letter.isprintable() else " " for letter in "; ".join(said))
        return one_line(plain, LONGEST_LINE)


def _indent(raw: str) -> tuple[int, str]:
    """Return depth and text; selftests nest with `# ` as well as with two spaces."""
    line = raw.rstrip()
    depth = 0
    while line.startswith(("  ", "# ")) and _speaks(line[2:].lstrip(" #")):
        line = line[2:]
        depth += 2
    return depth, line


def _speaks(line: str) -> bool:
    """Tell whether a line is one of KTAP's, not a diagnostic."""
    return bool(_VERSION.match(line) or _PLAN.match(line) or re.match(r"(?:not )?ok \d", line))


def _at(levels: list[_Level], depth: int, faults: list[str]) -> _Level:
    """Return the level of `depth`, closing the sub-tests above it."""
    while levels[-1].depth > depth and len(levels) > 1:
        faults += _close(levels.pop())
    return levels[-1]


def _close(level: _Level) -> list[str]:
    """Return what is wrong with a level when its text is over."""
    if level.plan is None:
        return ["it has no plan"]
    if level.plan != level.seen:
        return [f"it planned {level.plan} cases and reported {level.seen}"]
    return []


def _case(found: re.Match[str]) -> Case:
    failed, name, comment = bool(found[1]), found[3] or f"case {found[2] or '?'}", ""
    directive = ""
    if said := _DIRECTIVE.match(name):
        name, directive, comment = said[1] or f"case {found[2] or '?'}", said[2].upper(), said[3]
    elif " # " in name:
        name, _, comment = name.partition(" # ")
    result = Result.FAIL if failed else Result.PASS
    if directive == "SKIP":
        result = Result.SKIP
    elif directive in ("TODO", "XFAIL"):
        result = Result.XFAIL
    elif directive in ("TIMEOUT", "ERROR"):
        result = Result.FAIL
        comment = f"{directive} {comment}".strip()
    return Case(name.strip(), result, comment.strip())


def _agree(summary: Case, children: list[Case]) -> list[str]:
    """Return a fault if the line that sums up sub-tests does not say what they say."""
    failed = any(child.result is Result.FAIL for child in children)
    if failed and summary.result is not Result.FAIL:
        return [f"{summary.name} says {summary.result.value}, but a case below it failed"]
    if summary.result is Result.FAIL and children and not failed:
        return [f"{summary.name} failed, but no case below it did"]
    return []


# How the older tests say it; the first group is the name, the second the verdict.
_LOOSE = (
    re.compile(r"^\s*(?:TEST: )?(\S.*?)\s+\[\s*(OK|PASS|FAIL|SKIP|XFAIL|ok|fail)\s*\]\s*$"),
    re.compile(r"^\s*()(PASS|FAIL|SKIP|XFAIL|ok|Ok|fail|FAILED):\s*(\S.*)$"),
    re.compile(r"^\s*\[\s*(PASS|FAIL|SKIP|OK|FAILED)\s*\]()\s*(.*)$"),
    re.compile(r"^\s*(\S.*?)[: .]+\s*(PASS|FAIL|SKIP|PASSED|FAILED|OK)\s*$"),
    re.compile(r"^\s*(\S.*?)\s{2,}(ok|fail|failed|skip)\s*$"),
)
_WORDS = {"PASS": Result.PASS, "OK": Result.PASS, "PASSED": Result.PASS, "FAIL": Result.FAIL}
_WORDS |= {"FAILED": Result.FAIL, "SKIP": Result.SKIP, "XFAIL": Result.XFAIL}
# What differs from run to run without meaning: numbers of time, addresses, names made up.
_VOLATILE = re.compile(
    r"0x[0-9a-f]+|\b[a-z]{2,}-[A-Za-z0-9]{6,8}\b|\b\d+(?:\.\d+)?\s*(?:[munμ]?s|%|[KMG]?[Bb]/s)\b"
)


def loose(text: str) -> dict[str, Result]:
    """Return every verdict in a text, KTAP or not, by name; a name that is used again is numbered.

    Numbers that a clock or a speed made are left out of the names.
    """
    found: dict[str, Result] = {}
    numbers: dict[str, int] = {}
    for raw in text.splitlines():
        line = raw.rstrip()
        one = _loose_case(line) if len(line) <= LONGEST_LINE else None
        if one is None:
            continue
        name = _VOLATILE.sub("…", " ".join(one.name.split()))
        unique = name
        # From the last number on: of a name that is used again and again each would be tried.
        while unique in found:
            numbers[name] = numbers.get(name, 1) + 1
            unique = f"{name} ({numbers[name]})"
        found[unique] = one.result
    return found


def _loose_case(line: str) -> Case | None:
    _, bare = _indent(line)
    if match := re.match(r"(not )?ok (\d+)(?: +(?:- +)?(.*))?$", bare):
        return _case(match)
    for pattern in _LOOSE:
        if match := pattern.match(line):
            words = [group for group in match.groups() if group]
            verdict = next(word for word in words if word.upper() in _WORDS)
            name = " ".join(word for word in words if word is not verdict) or "(no name)"
            return Case(name, _WORDS[verdict.upper()])
    return None
