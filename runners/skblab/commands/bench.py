# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab bench` commands."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from skblab.bench import measure, plan, programs, wall
from skblab.bench.plan import Row
from skblab.lab import kernel, labroot, paths, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, printer
from skblab.machine.environment import describe, describe_guest
from skblab.machine.guest import Guest
from skblab.machine.recording import begins, recording
from skblab.machine.watch import Watch
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import EXIT_NO, UsageError
from skblab_analysis.cost import bench as records
from skblab_analysis.cost.view import of_bench
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.run import Environment, Plan, Timing
from skblab_analysis.runfolder import RunFolder

bench = typer.Typer(
    help="What the patches cost, and the tools beside them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

GAPS = (
    "One frame size, one flow, one CPU and veth devices, no hardware; every packet alone (no GRO).",
    "The reader never sleeps while packets come, so the cost of waking it is not in the figures.",
    "Instructions say nothing of cache misses and mispredicted branches.",
)
DOCUMENT = "bench.json"

# Kernels that keep their stamps elsewhere: finished ones, or a patch after the series.
Others = dict[str, kernel.Kernel | Path]


@bench.command("patch")
def patch(
    rows: Annotated[
        str, typer.Option(help="Only these rows, apart by commas; see docs/cost.md.")
    ] = "",
    packets: Annotated[
        int, typer.Option(min=500, max=100_000, help="Packets per counted trial.")
    ] = 20_000,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Trials of each in a boot.")] = 1,
    boots: Annotated[int, typer.Option(min=1, max=16, help="Guests of each kernel, at once.")] = 2,
    pairs: Annotated[
        int, typer.Option(min=0, max=1000, help="Throughput pairs, wall clock; 0: none.")
    ] = 8,
    alternative: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER: a finished kernel that keeps its stamps elsewhere."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Compile jobs (default: CPUs).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Count what the patches and other tools cost per packet, and print one table.

    Instructions per packet of forwarding and of UDP receive, IPv4 and IPv6, in exact mode: the
    patched kernel switched off and on, with readers, beside bpftrace, SystemTap and BPF on an
    unpatched one. A row whose reader did not see every packet at every point is refused, and
    the exit status is 1. Leaves `results/bench-patch-<time>/`.
    """
    reporter = Reporter()
    others: Others = {**patches(), **_alternatives(alternative or [])}
    wanted = plan.choose([name.strip() for name in rows.split(",") if name.strip()], others)
    root = labroot.ensure(reporter)
    run = _Run(root, reporter, wanted, packets, repeats, boots, pairs, others, jobs)
    folder = RunFolder.create(paths.results(), "bench-patch", _plan(run, rows))
    with recording(folder, lambda: run.last, reporter):
        document = run.go(folder)
    assert run.last is not None
    folder.finish(run.last, reporter.timings, versions=document.versions, commands=[], gaps=GAPS)
    write_whole(folder.path / DOCUMENT, document.model_dump_json(indent=1, by_alias=True) + "\n")
    if as_json:
        typer.echo(document.model_dump_json(indent=1, by_alias=True))
    else:
        console = printer()
        for table in of_bench(document):
            console.print(table)
            console.print()
        console.print(f"Records: {folder.path}", soft_wrap=True)
    refused = [row for row in document.rows if row.refused]
    for row in refused:
        reporter.say(f"skblab: row {row.name} is refused: {row.refused}")
    if run.no_pairs:
        reporter.say(f"skblab: the throughput pairs are refused: {run.no_pairs}")
    if refused or run.no_pairs:
        raise typer.Exit(EXIT_NO)


def patches() -> dict[str, Path]:
    """Return the alternatives that are patches of this tree, by name."""
    folder = paths.tree() / "patches" / "v6.12" / "alternatives"
    return {patch.stem: patch for patch in sorted(folder.glob("*.patch"))}


def _alternatives(given: list[str]) -> dict[str, kernel.Kernel]:
    """Return the kernels of --alternative by name."""
    found = {}
    for text in given:
        name, equals, place = text.partition("=")
        if not equals or not name.isidentifier() or not name.islower():
            raise UsageError(
                f"--alternative {text}: expected NAME=FOLDER with a lower-case word as NAME"
            )
        found[name] = finished(place, f"--alternative {text}")
    return found


def finished(place: str, option: str) -> kernel.Kernel:
    """Return the finished kernel in a folder; UsageError that begins with `option` if none is."""
    folder = Path(place).expanduser().resolve()
    if not (folder / "bzImage").is_file() or not (folder / "kernel.json").is_file():
        raise UsageError(
            f"{option}: {folder} holds no finished kernel; "
            "expected a folder that `skblab kernel build` printed"
        )
    return kernel.Kernel(folder, folder.name)


def ensure_kernel(
    name: str, others: Others, root: LabRoot, reporter: Reporter, jobs: int | None = None
) -> kernel.Kernel:
    """Return the kernel of that name: a finished one that was given, or one built with `jobs`."""
    other = others.get(name)
    if isinstance(other, kernel.Kernel):
        return other
    request = plan.request(name, other)
    if jobs is not None:
        request = replace(request, jobs=jobs)
    return kernel.ensure(request, root, reporter)


def _plan(run: _Run, rows: str) -> Plan:
    again = (
        f"./skblab bench patch --packets {run.packets} --repeats {run.repeats} "
        f"--boots {run.boots} --pairs {run.pairs}" + (f" --rows {rows}" if rows else "")
    )
    return Plan(
        experiment="bench-patch",
        question="What do the path stamps cost per packet, and what do other tools cost?",
        seed=0,
        packets=run.packets,
        baseline=plan.BASELINE,
        again=again,
        parameters={"rows": ",".join(row.name for row in run.rows), "repeats": run.repeats},
    )


class _Run:
    """One run of the benchmark: its kernels, its guests, and what they gave."""

    def __init__(
        self,
        root: LabRoot,
        reporter: Reporter,
        rows: tuple[Row, ...],
        packets: int,
        repeats: int,
        boots: int,
        pairs: int,
        others: Others,
        jobs: int | None,
    ) -> None:
        self.root, self.reporter, self.rows = root, reporter, rows
        self.packets, self.repeats, self.boots, self.pairs = packets, repeats, boots, pairs
        self.others, self.jobs = others, jobs
        self.environments: dict[str, Environment] = {}
        self.last: Environment | None = None
        # Why there are none, if kernels complained.
        self.no_pairs = ""

    def go(self, folder: RunFolder) -> records.BenchDocument:
        """Run every row; return the document, refused rows named in it."""
        found = measure.Found()
        releases: dict[str, str] = {}
        wall_pairs: list[records.WallPair] = []
        for name in plan.kernels(self.rows):
            built = ensure_kernel(name, self.others, self.root, self.reporter, self.jobs)
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
            timings=tuple(Timing(step=s, seconds=t) for s, t in self.reporter.timings.items()),
        )

    def _exact(
        self, folder: RunFolder, name: str, built: kernel.Kernel, rows: list[Row]
    ) -> measure.Found:
        """Run the rows of one kernel in guests that count instructions, all boots at once."""
        kinds = {row.tool for row in rows}
        made = [programs.ensure(self.root, self.reporter)]
        if "systemtap" in kinds:
            made.append(programs.ensure_module(self.root, built, self.reporter))
        with tempfile.TemporaryDirectory(prefix="skblab-") as scratch:
            inside = programs.gather(made, Path(scratch) / "programs")
            shares = [
                Bind(paths.tree(), "tree"),
                Bind(inside, "build"),
                Bind(folder.logs, "out", writable=True),
            ]
            if "pathlat" in kinds:
                shares.append(Bind(tools.ensure(self.root, built, self.reporter), "tools"))
            self.reporter.say(
                f"counting instructions on {built.release}: {len(rows)} rows, {self.boots} boots"
            )
            watch = Watch()
            with self.reporter.step(f"exact: {name}"), contextlib.ExitStack() as stack:
                guests = [
                    stack.enter_context(
                        Guest.boot(
                            make_spec(exact=True),
                            built,
                            self.root,
                            shares=shares,
                            log=folder.logs / f"console-{name}-{boot}.log",
                            wait=False,
                        )
                    )
                    for boot in range(self.boots)
                ]
                for guest in guests:
                    guest.connect()
                begins(folder, watch, **{f"boot {n}": one.console for n, one in enumerate(guests)})
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
        points = 0 if row.name == plan.BASELINE or row.group == "napi" else plan.POINTS
        tool = f"{row.tool} {versions.get(row.tool, '')}".strip()
        return records.Row(
            name=row.name,
            title=row.title,
            group=row.group,
            kernel=release,
            tool=tool,
            points={"forward": points, "receive": points} if points else {},
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
