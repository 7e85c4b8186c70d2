# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of the benchmark: its kernels, its guests, and what they gave."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from skblab.bench import measure, plan, programs, wall
from skblab.bench.kernels import Others, ensure_kernel
from skblab.bench.plan import Row
from skblab.lab import kernel, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel.lines import DEFAULT, Line
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import describe, describe_guest, keep_changes
from skblab.machine.guest import Guest
from skblab.machine.recording import begins, recording
from skblab.machine.watch import Watch
from skblab_analysis.base.disk import write_whole
from skblab_analysis.formats import bench as records
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.run import Environment, Plan, timings_of
from skblab_analysis.runfolder import RunFolder

GAPS = (
    "One frame size, one flow, one CPU and veth devices, no hardware; every packet alone (no GRO).",
    "The reader never sleeps while packets come, so the cost of waking it is not in the figures.",
    "Instructions say nothing of cache misses and mispredicted branches.",
)
DOCUMENT = "bench.json"


@dataclass
class Run:
    """One run of the benchmark: which rows, how often, on which kernels."""

    root: LabRoot
    reporter: Reporter
    rows: tuple[Row, ...]
    packets: int
    repeats: int
    boots: int
    pairs: int
    others: Others
    jobs: int | None
    line: Line = DEFAULT
    environments: dict[str, Environment] = field(default_factory=dict, init=False)
    last: Environment | None = field(default=None, init=False)
    # Why there are no throughput pairs, if kernels complained.
    no_pairs: str = field(default="", init=False)

    def recorded(self, given: str) -> tuple[RunFolder, records.BenchDocument]:
        """Run every row and have all of it in a folder; `given`: the rows as a user named them."""
        folder = RunFolder.create(paths.results(), "bench-patch", _plan(self, given))
        with recording(folder, lambda: self.last, self.reporter):
            document = self.go(folder)
        assert self.last is not None
        timings, versions = self.reporter.timings, document.versions
        folder.finish(self.last, timings, versions=versions, commands=[], gaps=GAPS)
        text = document.model_dump_json(indent=1, by_alias=True)
        write_whole(folder.path / DOCUMENT, text + "\n")
        return folder, document

    def go(self, folder: RunFolder) -> records.BenchDocument:
        """Run every row; return the document, refused rows named in it."""
        found = measure.Found()
        releases: dict[str, str] = {}
        wall_pairs: list[records.WallPair] = []
        for name in plan.kernels(self.rows):
            built = ensure_kernel(name, self.others, self.root, self.reporter, self.line, self.jobs)
            releases[name] = built.release
            own = [row for row in self.rows if row.kernel == name]
            folder.journal("attempt", kernel=built.release, rows=[row.name for row in own])
            one = self._exact(folder, name, built, own)
            found.trials += one.trials
            found.proofs += one.proofs
            found.polls |= one.polls
            found.complaints |= one.complaints
            if name == plan.PATCHED and self.pairs:
                folder.journal("attempt", kernel=built.release, pairs=self.pairs)
                wall_pairs = self._wall(folder, built)
        versions = self._versions()
        return records.BenchDocument(
            again=folder.document.plan.again,
            baseline=plan.BASELINE,
            packets=self.packets,
            repeats=self.repeats,
            rows=tuple(self._row(row, releases[row.kernel], found, versions) for row in self.rows),
            trials=tuple(found.trials),
            proofs=tuple(found.proofs),
            polls=_polls(self.rows, found),
            against={row.name: row.against for row in self.rows if row.group == "napi"},
            wall=tuple(wall_pairs),
            versions=versions,
            environments=self.environments,
            timings=timings_of(self.reporter.timings),
        )

    def _exact(
        self, folder: RunFolder, name: str, built: kernel.Kernel, rows: list[Row]
    ) -> measure.Found:
        """Run the rows of one kernel in guests that count instructions, all boots at once."""
        kinds = {row.tool for row in rows}
        with programs.shares(kinds, built, self.root, self.reporter, folder.logs) as shares:
            self.reporter.say(
                f"counting instructions on {built.release}: {len(rows)} rows, {self.boots} boots"
            )
            watch = Watch()
            with self.reporter.step(f"exact: {name}"), contextlib.ExitStack() as stack:
                like = make_spec(exact=True)
                specs = [like.model_copy(update={"sample": boot}) for boot in range(self.boots)]
                Guest.prepare(specs, built, self.root, shares)
                guests = [
                    stack.enter_context(
                        Guest.boot(
                            spec,
                            built,
                            self.root,
                            shares=shares,
                            log=folder.logs / f"console-{name}-{boot}.log",
                            wait=False,
                        )
                    )
                    for boot, spec in enumerate(specs)
                ]
                for guest in guests:
                    guest.connect()
                begins(
                    folder,
                    watch,
                    **{f"boot {number}": guest.console for number, guest in enumerate(guests)},
                )
                keep_changes(folder, built)
                self.last = describe(built, {"exact": describe_guest(guests[0])})
                self.environments[built.release] = self.last
                found = measure.measure(guests, rows, self.packets, self.repeats, name, folder.logs)
            if said := watch.look():
                # One script ran them all.
                folder.heard_apart(said, f"while rows were counted on {built.release}", name)
                found.complaints |= dict.fromkeys((row.name for row in rows), reason(said))
            return found

    def _wall(self, folder: RunFolder, built: kernel.Kernel) -> list[records.WallPair]:
        """Run the throughput pairs in a guest whose clock is the wall's."""
        self.reporter.say(f"throughput off and on, {self.pairs} pairs, wall clock")
        watch = Watch()
        with (
            self.reporter.step("wall: pairs"),
            Guest.boot(
                make_spec(), built, self.root, log=folder.logs / "console-wall.log"
            ) as guest,
        ):
            begins(folder, watch, guest=guest.console)
            found = wall.measure(guest, self.pairs, folder.logs)
        if said := watch.look():
            folder.heard_apart(said, "while the throughput pairs ran", "pairs")
            self.no_pairs = reason(said)
            return []
        return found

    def _row(
        self, row: Row, release: str, found: measure.Found, versions: dict[str, str]
    ) -> records.Row:
        said = [found.complaints[row.name]] if row.name in found.complaints else []
        reasons = [*said, *records.faults(row.name, found.trials, found.proofs)]
        tool = f"{row.tool} {versions.get(row.tool, '')}".strip()
        return records.Row(
            name=row.name,
            title=row.title,
            group=row.group,
            kernel=release,
            tool=tool,
            points=row.points,
            refused="; ".join(reasons[:3]) + (" …" if len(reasons) > 3 else ""),
        )

    def _versions(self) -> dict[str, str]:
        packages = {"bpftrace": "bpftrace", "systemtap": "systemtap", "bpf": "libbpf1"}
        more = ("clang", "bpftool", "qemu-system-x86", "gcc")
        wanted = packages | {name: name for name in more}
        have = self.root.versions
        return {name: have[package] for name, package in wanted.items() if package in have}


def _polls(rows: tuple[Row, ...], found: measure.Found) -> dict[str, float]:
    """Return polls per packet of each NAPI row; one that nobody counted has as many as others."""
    known = [found.polls[row.name] for row in rows if row.name in found.polls]
    return {
        row.name: found.polls.get(row.name, known[0])
        for row in rows
        if row.group == "napi" and known
    }


def _plan(run: Run, rows: str) -> Plan:
    again = (
        f"./skblab bench patch --packets {run.packets} --repeats {run.repeats} "
        f"--boots {run.boots} --pairs {run.pairs}" + (f" --rows {rows}" if rows else "")
    )
    again = " ".join([again, *run.line.words])
    return Plan(
        experiment="bench-patch",
        question="What do the path stamps cost per packet, and what do other tools cost?",
        seed=0,
        packets=run.packets,
        baseline=plan.BASELINE,
        again=again,
        parameters={"rows": ",".join(row.name for row in run.rows), "repeats": run.repeats},
    )
