# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions per packet that a probe adds, by the benchmark with two rows: without and with it.

Both rows are of one kernel, in one boot. With scripts, all of a back end are attached at once, as
`skblab probe layers` has them.
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import cast

from skblab.bench import measure, plan, programs, readers
from skblab.bench.plan import Row
from skblab.lab import kernel, paths, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import describe, describe_guest
from skblab.machine.guest import Guest
from skblab.machine.watch import Watch
from skblab.probe.scripts import BACKENDS, bpftrace, names, systemtap
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.formats import bench
from skblab_analysis.formats.cost import FAMILY, WITH, WITHOUT, ExactCost, Probe
from skblab_analysis.formats.run import Environment
from skblab_analysis.formats.scripts import Tool

PACKETS = 2000
# One that waited for the timer would be wrong by two thousand instructions a packet: the least of
# these has not.
ROUNDS = 3


def stamped(built: kernel.Kernel) -> bool:
    """Tell whether the kernel can stamp packets."""
    return "skblab" in built.record.fragments


def rows(built: kernel.Kernel, probe: Probe) -> tuple[Row, Row]:
    """Return the two rows: stamps are off without the probe, and with one that needs none."""
    off = 0 if stamped(built) else None
    by_stamps = probe.source == "histograms"
    options = f"--source {probe.source}{' --kprobes' if probe.kprobes else ''}"
    own = probe.backend == "bpf"
    return (
        Row(WITHOUT, "nobody attached", built.release, "tool", off),
        Row(
            *(WITH, str(probe), built.release, "tool", 1 if by_stamps else off),
            reader=f"pathlat:{options}" if own else "scripts",
            proof="pathlat" if own else "none",
            stamped=by_stamps,
        ),
    )


def count(
    built: kernel.Kernel, probe: Probe, labroot: LabRoot, logs: Path, again: str
) -> ExactCost:
    """Count in a guest; RefusedError unless the probe saw every packet. Raw output is in `logs`.

    `again` is the command that does it.
    """
    reporter = Reporter(quiet=True)
    some = rows(built, probe)
    found = measure.Found()
    with tempfile.TemporaryDirectory(prefix="skblab-") as scratch:
        inside = programs.gather([programs.ensure(labroot, reporter)], Path(scratch) / "programs")
        if probe.backend != "bpf":
            _put_scripts(built, probe, labroot, inside)
        shares = [
            Bind(paths.tree(), "tree"),
            Bind(inside, "build"),
            Bind(logs, "out", writable=True),
            Bind(tools.ensure(labroot, built, reporter), "tools"),
        ]
        watch = Watch()
        with Guest.boot(
            make_spec(exact=True, flavour=built.record.flavour), built, labroot, shares=shares
        ) as guest:
            watch.sources["guest"] = guest.console
            environment = describe(built, {"exact": describe_guest(guest)})
            done = guest.transport.start(["sh", "-euc", script(some)]).wait(measure.SECONDS)
    disk.write(logs / "bench.sh", script(some))
    disk.write(logs / "bench.txt", done.stdout + done.stderr)
    done.check("counting what the probe costs")
    watch.refuse(f"what the probe costs on {built.release} cannot be told")
    measure.read(done.stdout, some, 0, logs, found)
    if probe.backend != "bpf":
        found.proofs.append(_proof(built, probe, done.stdout, logs))
    return ExactCost(
        probe=probe,
        kernel=built.release,
        stamps=some[0].trace != some[1].trace,
        bench=_document(built, some, found, environment, again),
    )


def script(rows: tuple[Row, ...]) -> str:
    """Return what the guest runs."""
    head = measure.head(0, PACKETS, families=str(FAMILY), rounds=str(ROUNDS), repeat="1")
    return "\n".join([*head, *(f"run {shlex.join(row.words())}" for row in rows)]) + "\n"


def _document(
    built: kernel.Kernel,
    rows: tuple[Row, ...],
    found: measure.Found,
    environment: Environment,
    again: str,
) -> bench.BenchDocument:
    for row in rows:
        if faults := bench.faults(row.name, found.trials, found.proofs):
            raise RefusedError(
                f"what the probe costs on {built.release} cannot be told: {'; '.join(faults[:3])}"
            )
    return bench.BenchDocument(
        again=again,
        baseline=WITHOUT,
        packets=PACKETS,
        repeats=ROUNDS,
        rows=tuple(
            bench.Row(
                name=row.name,
                title=row.title,
                group=row.group,
                kernel=built.release,
                points={"forward": plan.POINTS, "receive": plan.POINTS} if row.tool else {},
            )
            for row in rows
        ),
        trials=tuple(found.trials),
        proofs=tuple(found.proofs),
        environments={built.release: environment},
    )


def _put_scripts(built: kernel.Kernel, probe: Probe, labroot: LabRoot, folder: Path) -> None:
    """Put the scripts where bench.sh looks for them, each with the command it becomes."""
    for name, _, full in names(None, probe.polls or "hooks"):
        if probe.backend == systemtap.NAME:
            module = systemtap.ensure(labroot, built, full, Reporter(quiet=True))
            file = folder / module.name
            file.write_bytes(module.read_bytes())
            argv = systemtap.command(f"/skblab/build/{file.name}")
        else:
            file = folder / f"{full}.bt"
            file.write_text(bpftrace.text(full))
            argv = bpftrace.command(f"/skblab/build/{file.name}")
        (folder / f"reader-{name}").write_text(f"exec {shlex.join(argv)}\n")


def _proof(built: kernel.Kernel, probe: Probe, output: str, logs: Path) -> bench.Proof:
    """Return what the scripts of the two paths saw, and had to see."""
    tool = BACKENDS[probe.backend]
    seen: dict[str, int] = {}
    for name, source, _ in names(None, probe.polls or "hooks"):
        stem = logs / f"{WITH}-0-1-{name}"
        lines = stem.with_suffix(".txt").read_text().splitlines(keepends=True)
        figures = tool.read(lines, stem.with_suffix(".err").read_text())
        if name != "napi":
            backend = cast("Tool", probe.backend)
            document = figures.document(backend, name, source, built.release)
            seen |= readers.script(document)
    own = [line for line in map(measure.Line.parse, output.splitlines()) if line.row == WITH]
    sent = measure.sent(own, proof=False)
    expected = readers.script_expected(sent)
    how = "the histograms themselves"
    return bench.Proof(row=WITH, boot=0, repeat=1, expected=expected, seen=seen, how=how)
