# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own networking selftests on the unpatched and the patched kernel, compared."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from skblab.lab import kernel, labroot, paths
from skblab.lab.kernel import source as sources
from skblab.lab.kernel.lines import Line
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.selftests import tree
from skblab.selftests.guestrun import Outcome, booter, run_all
from skblab.selftests.ktap import loose

LIST = "own-tests.toml"
SECONDS = 90
# A result that differs is looked at again this often on both kernels before it counts.
REPEATS = 2
# In the guest the tests get a folder that they may write to.
FOLDER = "/root/kernel"
NET = f"{FOLDER}/{tree.NET}"
PREPARE = f"""
cp -a /skblab/tools/. /
ldconfig
mkdir -p {FOLDER}
cp -a /skblab/src/tools /skblab/src/Documentation {FOLDER}/
sysctl -q kernel.dmesg_restrict=0
"""

# What one test leaves must not be found by the next.
AFTER = "ip -all netns delete; true"

# The result of one run: by the name of each sub-test; the test as a whole is named "".
Results = Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """A sub-test whose result is not the same; "absent" is a result like the others."""

    test: str
    name: str
    unpatched: str
    patched: str


def tests() -> list[str]:
    """Return the names of the tests that are compared."""
    return list(limits())


def limits() -> dict[str, float]:
    """Return the seconds that each compared test may take."""
    text = resources.files(__package__).joinpath(LIST).read_text()
    return {
        test["name"]: float(test.get("seconds", SECONDS)) for test in tomllib.loads(text)["test"]
    }


def results(outcome: Outcome) -> dict[str, str]:
    """Return what a test said in a form that two runs can be compared by."""
    found = {name: result.value for name, result in loose(outcome.text).items()}
    found[""] = whole(outcome)
    return found


def whole(outcome: Outcome) -> str:
    """Return the result of a test as a whole, by its status and its kernel, not by its text."""
    if "kernel warned" in outcome.why or "guest" in outcome.why:
        return outcome.why
    return f"status {outcome.status}" if outcome.status is not None else "no status"


def differences(test: str, unpatched: Results, patched: Results) -> list[Difference]:
    """Return the sub-tests of a test whose results differ, in a fixed order."""
    return [
        Difference(test, name, unpatched.get(name, "absent"), patched.get(name, "absent"))
        for name in sorted({*unpatched, *patched})
        if unpatched.get(name) != patched.get(name)
    ]


def steady(test: str, runs: Sequence[tuple[Results, Results]]) -> list[Difference]:
    """Return the differences that are there in every pair of runs (unpatched, patched).

    A sub-test that gives both results on one kernel says nothing about the patches.
    """
    found: list[Difference] = []
    for difference in differences(test, *runs[0]):
        before = {boot.get(difference.name) for boot, _ in runs}
        after = {boot.get(difference.name) for _, boot in runs}
        if before.isdisjoint(after):
            found.append(difference)
    return found


@dataclass(frozen=True)
class Side:
    """One of the two kernels with its selftests; both run the same files, those of the source."""

    name: str
    built: kernel.Kernel
    folder: tree.Tree
    extra: Path
    root: LabRoot

    def run(self, names: Sequence[str], logs: Path, reporter: Reporter) -> dict[str, Outcome]:
        """Run tests on this kernel."""
        allowed = limits()

        boot = booter(self.built, self.root, self.folder, Bind(self.extra, "tools"))
        found: dict[str, Outcome] = {}
        with_all = (logs / self.name, NET, allowed.__getitem__, PREPARE, AFTER)
        for outcome in run_all(names, boot, *with_all):
            reporter.say(f"{self.name:9}  {outcome.test}  {outcome.seconds:.0f} s")
            found[outcome.test] = outcome
        return found


def _both(
    left: Side, right: Side, names: Sequence[str], logs: Path, reporter: Reporter
) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    """Run tests on both kernels at once, so that both have the same machine to run on."""
    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(side.run, names, logs, reporter) for side in (left, right))
        return first.result(), second.result()


@dataclass(frozen=True)
class Compared:
    """What the two kernels said, and what differs.

    `pairs` has by test the results of each run, unpatched and patched; `unsteady` tests differed
    once and not always. `logs` has what they printed; `uncompiled` were not compiled here.
    """

    names: Sequence[str]
    pairs: Mapping[str, Sequence[tuple[Results, Results]]]
    found: Sequence[Difference]
    unsteady: Sequence[str]
    logs: Path
    uncompiled: Sequence[str]


def run(names: Sequence[str], flavour: kernel.Flavour, line: Line, reporter: Reporter) -> Compared:
    """Compare the two kernels by these tests."""
    root = labroot.ensure(reporter)
    origin = sources.find(None, root, line, reporter)
    folder = tree.ensure(origin, None, root, reporter)
    extra = tree.extra_packages(root, reporter)
    unpatched, patched = (
        Side(name, kernel.ensure(request, root, reporter), folder, extra, root)
        for name, request in (
            ("unpatched", kernel.Request(flavour=flavour, patches=False, line=line)),
            ("patched", kernel.Request(flavour=flavour, line=line)),
        )
    )
    logs = paths.cache() / "logs" / f"kselftest-compare-{patched.built.release}"
    with reporter.step("own selftests"):
        first, second = _both(unpatched, patched, names, logs, reporter)
        pairs = {name: [(results(first[name]), results(second[name]))] for name in names}
        for number in range(REPEATS):
            again = [name for name in names if steady(name, pairs[name])]
            if not again:
                break
            reporter.say(f"differing, run again: {', '.join(again)}")
            more = logs / f"again-{number + 1}"
            one, two = _both(unpatched, patched, again, more, reporter)
            for name in again:
                pairs[name].append((results(one[name]), results(two[name])))
    found = [difference for name in names for difference in steady(name, pairs[name])]
    unsteady = [name for name in names if len(pairs[name]) > 1 and not steady(name, pairs[name])]
    return Compared(names, pairs, found, unsteady, logs, folder.uncompiled)


def show(both: Compared) -> None:
    """Print the results of each test, then what differs."""
    names, pairs, found, unsteady = both.names, both.pairs, both.found, both.unsteady
    console = Console(highlight=False, soft_wrap=True)
    kinds = ("pass", "fail", "skip")
    console.print(f"{'test':36}{'whole':>10}" + "".join(f"{kind:>7}" for kind in kinds))
    for name in names:
        one, _ = pairs[name][-1]
        counts = [sum(value == kind for value in one.values()) for kind in kinds]
        numbers = "".join(f"{count:7}" for count in counts)
        mark = "  differs" if any(difference.test == name for difference in found) else ""
        mark = "  unsteady" if name in unsteady else mark
        console.print(f"{escape(name):36}{one[''][:9]:>10}{numbers}{mark}")
    for difference in found:
        sub = difference.name or "the test as a whole"
        console.print(
            f"[red]{escape(difference.test)}[/]: {escape(sub)}: "
            f"unpatched {escape(difference.unpatched)}, patched {escape(difference.patched)}"
        )
    if unsteady:
        console.print(f"unsteady, not by the patches: {', '.join(unsteady)}")
    if both.uncompiled:
        console.print(f"not compiled here: {', '.join(both.uncompiled)}")
    total = sum(len(pairs[name][0][0]) for name in names)
    console.print(
        f"{len(names)} tests, {total} results, {len(found)} differ; what they printed: {both.logs}"
    )
