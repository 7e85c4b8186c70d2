# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether each patch of a series is fit for review by itself: `make patches-check`.

One tree goes through the series patch by patch, and two output folders, for the stock
configuration and for the same one without our options, are built on from patch to patch. What
the unpatched tree says already is not a patch's fault.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from skblab.lab import paths, store
from skblab.lab.kernel import build, config, findings, generated, objects, series, source
from skblab.lab.kernel.architectures import (
    ARCHITECTURES,
    DRIVERS,
    FRAGMENT,
    UNCOMPILED,
    Compiling,
    compiler,
)
from skblab.lab.kernel.findings import Findings
from skblab.lab.kernel.lines import DEFAULT, Line
from skblab.lab.kernel.model import Request
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

KIND = "checks"
RESULT = "result.json"
# Raise when a check below becomes another one.
RECIPE = "6"
NEEDS = ("sparse", "perl", "python3-minimal", "python3-yaml")
MIN_FREE_GIB = 12

# In the order in which they are made. `on` and `off`: with and without the series' options.
TEXT = ("applies", "checkpatch", "kernel-doc", "generated")
BUILT = ("build on", "build off", "W=1 on", "W=1 off", "sparse on", "sparse off")
ELSEWHERE = tuple(architecture.name for architecture in ARCHITECTURES)
WHOLE = ("whole on", "whole off")
CHECKS = (*TEXT, *BUILT, *ELSEWHERE, *WHOLE)
# How much is compiled: the whole kernel at each patch, touched folders, or nothing.
Depth = Literal["full", "quick", "text"]
Verdict = Literal["ok", "failed", "nothing to check", "as off", "not reached"]
SIDES: tuple[Literal["off", "on"], ...] = ("off", "on")


class Outcome(Closed):
    """One check of one patch: what it found, what is worth knowing besides, where to read on."""

    verdict: Verdict
    found: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log: str = ""


class PatchResult(Closed):
    """All checks of one patch; `seconds` is the wall time they took."""

    patch: str
    key: str
    outcomes: dict[str, Outcome]
    seconds: float

    @property
    def good(self) -> bool:
        """Whether nothing failed and everything was reached."""
        return all(
            outcome.verdict not in ("failed", "not reached") for outcome in self.outcomes.values()
        )


@dataclass(frozen=True)
class CheckRequest:
    """Which patches to check (numbers from 1), of which source, and how deeply.

    `part` is one of several series, to be checked by itself.
    """

    source: Path | None = None
    revision: str | None = None
    line: Line = DEFAULT
    part: str | None = None
    only: tuple[int, ...] = ()
    first: int = 1
    depth: Depth = "full"
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.source is None:
            self.line.require_patches("this command checks")

    def selected(self, count: int) -> list[int]:
        """Return the numbers to check; UsageError for one that the series does not have."""
        for number in (*self.only, self.first):
            if not 1 <= number <= count:
                raise UsageError(f"there is no patch {number}: the series has 1 to {count}")
        return [
            number
            for number in range(self.first, count + 1)
            if not self.only or number in self.only
        ]


def check(request: CheckRequest, labroot: LabRoot, reporter: Reporter) -> list[PatchResult]:
    """Check the patches that `request` names, and the whole series at its end.

    Raises SkblabError when a check cannot be made at all; what it finds is in the results.
    """
    if missing := [name for name in NEEDS if name not in labroot.versions]:
        raise UsageError(
            f"the lab root has no {', '.join(missing)}; remove {labroot.path} and try again"
        )
    asked = Request(
        source=request.source, revision=request.revision, jobs=request.jobs, line=request.line
    )
    wanted = build.plan(asked, labroot, reporter)
    whole = wanted.series
    assert whole is not None
    if request.part is not None:
        whole = whole.part(request.part)
        wanted = replace(wanted, series=whole)
    patches = whole.patches
    selected = request.selected(len(patches))
    keys = _keys(wanted, labroot, request.depth)
    results = {number: _cached(keys[number]) for number in selected}
    if any(result is None for result in results.values()):
        with store.locked("patches-check", reporter), _work() as work:
            run = _Run(wanted, whole, labroot, reporter, request.depth, work)
            run.through(keys, {number for number, result in results.items() if result is None})
        results = {
            number: _cached(keys[number])
            or _not_reached(whole.label(patches[number - 1]), keys[number])
            for number in selected
        }
    return [result for _, result in sorted(results.items()) if result is not None]


def _keys(wanted: build.Plan, labroot: LabRoot, depth: Depth) -> dict[int, str]:
    """Return the key of each patch's result: it and all before it, and what checks them."""
    assert wanted.series is not None
    elsewhere = [repr(ARCHITECTURES)]
    elsewhere += [config.fragment(name).read_text() for name in (FRAGMENT, DRIVERS)]
    parts = [
        RECIPE,
        depth,
        *(elsewhere if depth != "text" else ()),
        wanted.source.digest,
        *(config.fragment(name).read_text() for name in wanted.request.fragments),
        *(f"{name} {version}" for name, version in wanted.toolchain.items()),
        *(f"{name} {labroot.versions[name]}" for name in NEEDS),
    ]
    keys = {}
    records = wanted.series.records()
    for number, record in enumerate(records, 1):
        parts += [record.name, record.sha256]
        last = ["last"] if number == len(records) else []
        keys[number] = store.digest([*parts, *last])
    return keys


def _cached(key: str) -> PatchResult | None:
    file = store.entry(KIND, key) / RESULT
    with contextlib.suppress(OSError, ValueError):
        return PatchResult.model_validate_json(file.read_bytes())
    return None


def _not_reached(patch: str, key: str) -> PatchResult:
    missed = dict.fromkeys(TEXT, Outcome(verdict="not reached"))
    return PatchResult(patch=patch, key=key, outcomes=missed, seconds=0)


@contextlib.contextmanager
def _work() -> Iterator[Path]:
    """A folder for trees and output, gone afterwards; one that a killed run left goes, too."""
    folder = paths.cache() / "checking"
    store.remove(folder)
    folder.mkdir()
    try:
        free = shutil.disk_usage(folder).free / 2**30
        if free < MIN_FREE_GIB:
            raise SkblabError(
                f"{free:.1f} GiB free at {folder}, checking patches needs {MIN_FREE_GIB} GiB; "
                "free some space or set SKBLAB_CACHE to a larger disk"
            )
        yield folder
    finally:
        store.remove(folder, quiet=True)


@dataclass
class _Run:
    """One way through the series. `known` is what trees before the present one said already."""

    plan: build.Plan
    series: Series
    labroot: LabRoot
    reporter: Reporter
    depth: Depth
    work: Path
    known: dict[str, Findings] = field(default_factory=dict)
    # The sides whose options no longer fit the tree: a patch changed a Kconfig file.
    stale: set[str] = field(default_factory=lambda: set(SIDES))
    differ: bool = False
    elsewhere: dict[str, Compiling] = field(default_factory=dict)

    @property
    def tree(self) -> Path:
        return self.work / "tree"

    def through(self, keys: Mapping[int, str], missing: set[int]) -> None:
        """Apply the series patch by patch, check the `missing` ones, and store their results."""
        self._plain([self.series.patches[number - 1] for number in missing])
        patcher = series.patch_in(self.labroot)
        for number, patch in enumerate(self.series.patches, 1):
            if number > max(missing):
                return
            start = time.monotonic()
            status, output = patcher(patch, self.tree)
            if status != 0:
                found = (f"does not apply: {series.explain(output)}",)
                failed = Outcome(verdict="failed", found=found)
                self._store(keys[number], patch, {"applies": failed}, start)
                return
            if any(file.split("/")[-1].startswith("Kconfig") for file in _touched(patch)):
                self.stale |= set(SIDES)
                for compiling in self.elsewhere.values():
                    compiling.configured = False
            if number not in missing:
                cached = _cached(keys[number])
                for name, outcome in (cached.outcomes if cached else {}).items():
                    self._learn(name, outcome)
                continue
            name = self.series.label(patch)
            self.reporter.say(f"patch {number} of {len(self.series.patches)}: {name}")
            outcomes = self._checks(patch, last=number == len(self.series.patches))
            self._store(keys[number], patch, outcomes, start)

    def _learn(self, name: str, outcome: Outcome) -> None:
        tool = name.split()[0]
        self.known[tool] = self.known.get(tool, Findings()) + Findings(outcome.found)

    def _store(self, key: str, patch: Path, outcomes: Mapping[str, Outcome], start: float) -> None:
        """Keep a patch's outcomes and their logs."""
        due = TEXT if self.depth == "text" else (*TEXT, *BUILT, *ELSEWHERE)
        whole = {name: outcomes.get(name, Outcome(verdict="not reached")) for name in due}
        whole |= {name: outcomes[name] for name in WHOLE if name in outcomes}
        final = store.entry(KIND, key)

        def keep(part: Path) -> None:
            kept = {}
            for name, outcome in whole.items():
                log = Path(outcome.log)
                if outcome.log and log.is_file():
                    kept_name = log.name.removeprefix("patches-check-")
                    shutil.copyfile(log, part / kept_name)
                    outcome = outcome.model_copy(update={"log": str(final / kept_name)})
                kept[name] = outcome
            seconds = round(time.monotonic() - start, 1)
            name = self.series.label(patch)
            result = PatchResult(patch=name, key=key, outcomes=kept, seconds=seconds)
            disk.write_whole(part / RESULT, result.model_dump_json(indent=1) + "\n")

        store.remove(final)
        store.ensure(KIND, key, self.reporter, keep)

    # The unpatched tree: what it says already.

    def _plain(self, patches: Sequence[Path]) -> None:
        self.tree.mkdir()
        with source.tree(self.plan.source, None, self.labroot, self.reporter) as plain:
            source.link_copy(plain, self.tree)
        files = sorted({file for patch in patches for file in _touched(patch)})
        self.known = {"kernel-doc": self._kernel_doc(files)}
        if self.depth == "text":
            return
        # First, since it may need the network.
        compilers = {one: compiler(one, self.labroot, self.reporter) for one in ARCHITECTURES}
        self.reporter.say("building the unpatched tree, to know what it says already")
        self._configure("off")
        make = self._make("off", "plain")
        output = make.run(self._targets(files), "building the unpatched tree")
        users = objects.users(make.output, files)
        # By patch: a header alone is shown by an object that a C file beside it makes needless.
        shown = {
            name for patch in patches for name in objects.choose(_touched(patch), users).objects
        }
        self.known |= {
            "build": findings.read(output) + self._undefined("off"),
            "W=1": _complaints(make, ["W=1"], sorted(shown)),
            "sparse": _complaints(make, _SPARSE, sorted(shown)),
        }
        chosen = {name for patch in patches for name in self._portable(_touched(patch), users)}
        for architecture in ARCHITECTURES:
            name = architecture.name
            self.reporter.say(f"compiling {len(chosen)} objects of the unpatched tree for {name}")
            compiling = self.elsewhere[name] = Compiling(
                *(architecture, self.plan, self.labroot, self.tree, self.work / name),
                log=_logs() / f"patches-check-{name}.log",
                compiler=compilers[architecture],
            )
            compiling.prepare()
            self.known[name] = compiling.complaints(sorted(chosen)) if chosen else Findings()

    def _portable(
        self, files: Sequence[str], users: Mapping[str, Collection[str]]
    ) -> tuple[str, ...]:
        """Return the objects that show `files` on any architecture.

        They are those of C files, also of such that this configuration leaves out, and for a header
        one that has it.
        """
        own = {
            f"{name.removesuffix('.c')}.o"
            for name in objects.sources(files)
            if name.endswith(".c") and (self.tree / name).is_file()
        }
        both = {*own, *objects.choose(files, users).objects}
        return tuple(sorted(name for name in both if not name.startswith("arch/")))

    def _targets(self, files: Sequence[str]) -> list[str]:
        """Return what to build: all into one object, with modpost's checks, or touched folders."""
        if self.depth == "full":
            return ["modpost"]
        folders = {str(Path(name).parent) for name in objects.sources(files) if name[-1] == "c"}
        there = sorted(name for name in folders if (self.tree / name / "Makefile").is_file())
        return ["prepare", *(f"{name}/" for name in there)]

    def _make(self, side: str, log: str) -> build.Make:
        file = _logs() / f"patches-check-{log}.log"
        return build.Make(self.plan, self.labroot, self.tree, self.work / side, file)

    def _configure(self, side: str) -> None:
        names = [
            fragment
            for fragment in self.plan.request.fragments
            if side == "on" or fragment != "skblab"
        ]
        output = self.work / side
        output.mkdir(exist_ok=True)
        log = _logs() / f"patches-check-config-{side}.log"
        config.merge(names, self.tree, output, self.labroot, log, half_applied=True)
        self.stale.discard(side)

    # The checks of one patch, with the tree as it is after it.

    def _checks(self, patch: Path, *, last: bool) -> dict[str, Outcome]:
        files = _touched(patch)
        found = {"applies": Outcome(verdict="ok")}
        found["checkpatch"] = self._checkpatch(patch)
        found["kernel-doc"] = self._added(
            "kernel-doc", self._kernel_doc(files) if objects.sources(files) else None
        )
        found["generated"] = self._generated(files)
        if self.depth == "text":
            return found
        if not any(_built(file) for file in files):
            # Only documentation and tools: the kernel is the one before.
            nothing = Outcome(verdict="nothing to check")
            found |= dict.fromkeys((*BUILT, *ELSEWHERE), nothing)
        else:
            for side in SIDES:
                found |= self._side(side, files)
            users = objects.users(self.work / ("on" if self.differ else "off"), files)
            chosen = self._portable(files, users)
            for name, compiling in self.elsewhere.items():
                found[name] = self._elsewhere(name, compiling, chosen)
        if last and self.depth == "full":
            for side in SIDES:
                found[f"whole {side}"] = self._whole(side)
        return found

    def _side(self, side: str, files: Sequence[str]) -> dict[str, Outcome]:
        names = (f"build {side}", f"W=1 {side}", f"sparse {side}")
        self._prepare(side)
        if side == "on" and not self.differ:
            return dict.fromkeys(names, Outcome(verdict="as off"))
        built, compiled, sparse = names
        make = self._make(side, built.replace(" ", "-"))
        outcomes = {built: self._built(make, side, files)}
        if outcomes[built].verdict == "failed":
            return outcomes
        choice = objects.choose(files, objects.users(make.output, files))
        notes = tuple(f"not compiled in this configuration: {name}" for name in choice.unseen)
        for name, words in ((compiled, ["W=1"]), (sparse, [*_SPARSE])):
            one = replace(make, log=_logs() / f"patches-check-{name.replace(' ', '-')}.log")
            if not choice.objects:
                outcomes[name] = Outcome(verdict="nothing to check", notes=notes)
                continue
            self.reporter.say(f"  {name}: {len(choice.objects)} objects")
            said = _complaints(one, words, choice.objects)
            outcomes[name] = self._added(name, said, notes, str(one.log))
        return outcomes

    def _elsewhere(self, name: str, compiling: Compiling, chosen: Sequence[str]) -> Outcome:
        if not chosen and compiling.configured:
            return Outcome(verdict="nothing to check")
        self.reporter.say(f"  {name}: {len(chosen)} objects")
        try:
            compiling.prepare()
        except SkblabError as error:
            return Outcome(verdict="failed", found=(_without_log(error),), log=str(compiling.log))
        said = compiling.complaints(chosen) if chosen else Findings()
        # Not the patch's fault, and nothing is known of these.
        notes = [one for one in said if one in self.known[name] and UNCOMPILED in one]
        return self._added(name, said, tuple(sorted(notes)), str(compiling.log))

    def _prepare(self, side: str) -> None:
        """Bring a side's configuration up to the tree; `on` begins as a copy of `off`."""
        if side not in self.stale:
            return
        output, off = self.work / side, self.work / "off"
        if side == "off":
            self._configure(side)
            return
        if not self.differ:
            trial = self.work / "trial"
            trial.mkdir()
            names = self.plan.request.fragments
            log = _logs() / "patches-check-config-trial.log"
            config.merge(names, self.tree, trial, self.labroot, log, half_applied=True)
            same = _options(trial) == _options(off)
            store.remove(trial)
            self.stale.discard(side)
            if same:
                return
            self.differ = True
            # So that only what depends on our options is compiled once more.
            subprocess.run(["cp", "-a", str(off), str(output)], check=True)
        self._configure(side)

    def _built(self, make: build.Make, side: str, files: Sequence[str]) -> Outcome:
        self.reporter.say(f"  build {side}")
        try:
            output = make.run(self._targets(files), f"building with our options {side}")
        except SkblabError as error:
            return Outcome(verdict="failed", found=(_without_log(error),), log=str(make.log))
        said = findings.read(output) + self._undefined(side)
        return self._added(f"build {side}", said, log=str(make.log))

    def _undefined(self, side: str) -> Findings:
        """Return the symbols that the linked objects lack; the linker script has the usual ones."""
        if self.depth != "full":
            return Findings()
        bind = Bind(self.work / side, "build")
        call = ["nm", "-u", f"{bind.inside}/vmlinux.o"]
        return findings.undefined(self.labroot.run(call, binds=[bind], what="nm vmlinux.o"))

    def _whole(self, side: str) -> Outcome:
        if side == "on" and not self.differ:
            return Outcome(verdict="as off")
        self._prepare(side)
        make = self._make(side, f"whole-{side}")
        self.reporter.say(f"  the whole kernel, our options {side}")
        try:
            make.run(["all"], f"building the whole kernel with our options {side}")
        except SkblabError as error:
            return Outcome(verdict="failed", found=(_without_log(error),), log=str(make.log))
        return Outcome(verdict="ok")

    def _checkpatch(self, patch: Path) -> Outcome:
        binds = [Bind(self.tree, "src"), Bind(patch.parent, "out")]
        script = ["scripts/checkpatch.pl", "--strict", "--terse", "--show-types", "--no-summary"]
        # The tree has no history: it knows no commit.
        script += ["--ignore", "UNKNOWN_COMMIT_ID"]
        output = _said(
            self.labroot.command(
                ["perl", *script, f"/skblab/out/{patch.name}"], binds=binds, workdir="/skblab/src"
            )
        )
        maintained = (self.tree / "MAINTAINERS").read_text()
        said = findings.checkpatch(output, patch.read_text(), maintained)
        log = _logs() / "patches-check-checkpatch.log"
        log.write_text(output)
        verdict: Verdict = "failed" if said.serious else "ok"
        return Outcome(verdict=verdict, found=said.serious, notes=said.checks, log=str(log))

    def _generated(self, files: Sequence[str]) -> Outcome:
        names = generated.find(self.tree, files)
        if not names:
            return Outcome(verdict="nothing to check")
        stale = tuple(generated.stale(self.tree, names, self.labroot))
        return Outcome(verdict="failed" if stale else "ok", found=stale)

    def _kernel_doc(self, files: Sequence[str]) -> Findings:
        there = [name for name in objects.sources(files) if (self.tree / name).is_file()]
        if not there:
            return Findings()
        output = _said(
            self.labroot.command(
                ["scripts/kernel-doc", "-none", *there],
                binds=[Bind(self.tree, "src")],
                workdir="/skblab/src",
            )
        )
        return findings.read(output)

    def _added(
        self,
        name: str,
        said: Findings | None,
        notes: tuple[str, ...] = (),
        log: str = "",
    ) -> Outcome:
        """Return an outcome for what was not said before; from now on it is known."""
        if said is None:
            return Outcome(verdict="nothing to check", notes=notes)
        known = self.known.get(name.split()[0], Findings())
        found = tuple(findings.added(known, said))
        verdict: Verdict = "failed" if found else "ok"
        outcome = Outcome(verdict=verdict, found=found, notes=notes, log=log)
        # Both sides are held against the same tree; what one side found is no excuse for a
        # later patch, and no second fault of it either.
        self._learn(name, outcome)
        return outcome


_SPARSE = ("C=2", "CHECK=sparse")


def _logs() -> Path:
    folder = paths.cache() / "logs"
    folder.mkdir(exist_ok=True)
    return folder


def _touched(patch: Path) -> tuple[str, ...]:
    return objects.touched(patch.read_text(errors="replace"))


def _built(file: str) -> bool:
    """Whether a file can make another kernel."""
    return not file.startswith(("Documentation/", "tools/", "samples/")) and file != "MAINTAINERS"


def _options(output: Path) -> dict[str, str]:
    values = config.parse((output / ".config").read_text())
    return {option: value for option, value in values.items() if value != "n"}


def _complaints(make: build.Make, words: Sequence[str], chosen: Sequence[str]) -> Findings:
    """Return what making objects complains of; an error is a complaint like any other."""
    if not chosen:
        # Without a target, make would build the whole kernel.
        return Findings()
    try:
        output = make.run([*words, "-k", *chosen], f"make {words[0]}")
    except SkblabError as error:
        output = make.log.read_text(errors="replace")
        said = findings.read(output)
        return said or Findings([_without_log(error)])
    return findings.read(output)


def _without_log(error: SkblabError) -> str:
    return str(error).split("; whole output:")[0]


def _said(call: Sequence[str]) -> str:
    """Return what a command prints, whatever its exit status."""
    status, printed = series.run_merged(call)
    if status not in (0, 1) and not printed.strip():
        raise SkblabError(f"{one_line(' '.join(call), 100)} failed (exit {status})")
    return printed
