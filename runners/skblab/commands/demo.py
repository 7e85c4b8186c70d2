# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab demo` command (`make demo`): everything from source to report in one go."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from skblab.demo import forwarding, layers
from skblab.lab import kernel, labroot, paths, tools
from skblab.lab.drawing import gnuplot
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.errors import GuestError
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, printer
from skblab.machine.environment import describe, describe_guest
from skblab.machine.guest import Guest
from skblab.machine.recording import begins, recording, watched
from skblab.machine.watch import Watch
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.formats.run import Command, Plan
from skblab_analysis.formats.run import Guest as GuestRecord
from skblab_analysis.report import terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock

SEED = 1
BASELINE = "rp_filter=0"
# Two boots: the second shows how well the count repeats. They run at once, one CPU each.
EXACT_BOOTS = 2
GAPS = (
    "The two paths are joined by a veth pair: no hardware takes its time between them.",
    "Whether a packet waits for its reader to be woken or to get a processor is not told apart: "
    "both are in the layer socket to wake.",
    "The exact figures hold one frame size, one flow, one CPU and veth devices, no hardware.",
)


def demo(
    packets: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="UDP packets to time.")
    ] = 100_000,
    rate: Annotated[
        int, typer.Option(min=0, help="Packets per second; 0: as fast as the sender can.")
    ] = layers.RATE_PPS,
    exact_packets: Annotated[
        int, typer.Option(min=1000, max=10_000_000, help="Packets per exact trial.")
    ] = 50_000,
    jobs: Annotated[int | None, typer.Option(min=1, help="Compile jobs (default: CPUs).")] = None,
) -> None:
    """Patch, build, boot, send, time, report: where a UDP packet's time goes.

    Times UDP packets layer by layer in the patched kernel, then counts the instructions that
    forwarding one packet takes with rp_filter 0 and 1. Leaves `results/demo-<time>/` and prints
    the path of its report.
    """
    begun = time.monotonic()
    reporter = Reporter()
    root = labroot.ensure(reporter)
    request = kernel.Request() if jobs is None else kernel.Request(jobs=jobs)
    built = kernel.ensure(request, root, reporter)
    programs = tools.ensure(root, built, reporter)
    plan = Plan(
        experiment="demo",
        question="Where does a UDP packet's time go, and what does rp_filter cost?",
        seed=SEED,
        packets=packets,
        baseline=BASELINE,
        again=f"./skblab demo --packets {packets} --rate {rate} --exact-packets {exact_packets}",
        parameters={"rate_pps": rate, "exact_packets": exact_packets, "exact_boots": EXACT_BOOTS},
    )
    folder = RunFolder.create(paths.results(), "demo", plan)
    guests: dict[Clock, GuestRecord] = {}
    shares = [Bind(programs, "tools")]
    try:
        with recording(folder, lambda: describe(built, guests), reporter):
            guests["wall"] = _layers(folder, built, root, shares, packets, rate, reporter)
            guests["exact"] = _forwarding(folder, built, root, shares, exact_packets, reporter)
    except (RefusedError, GuestError):
        # What was refused, and why, is in the report.
        _show(folder, reporter, time.monotonic() - begun, build_report(folder.path, gnuplot(root)))
        raise
    folder.finish(
        describe(built, guests),
        reporter.timings,
        versions=_versions(root),
        commands=_commands(),
        gaps=GAPS,
    )
    with reporter.step("report"):
        page = build_report(folder.path, gnuplot(root))
    _show(folder, reporter, time.monotonic() - begun, page)


def _layers(
    folder: RunFolder,
    built: kernel.Kernel,
    root: LabRoot,
    shares: list[Bind],
    packets: int,
    rate: int,
    reporter: Reporter,
) -> GuestRecord:
    folder.journal("attempt", clock="wall", packets=packets)
    reporter.say(f"timing {packets} UDP packets by layer in a guest")
    log = folder.logs / "console-wall.log"
    watch = Watch()
    with (
        reporter.step("layers: guest and packets"),
        watched(folder, watch, "wall"),
        Guest.boot(make_spec(), built, root, shares=shares, log=log) as guest,
    ):
        begins(folder, watch, guest=guest.console)
        record = describe_guest(guest)
        found = layers.measure(guest, packets, rate, folder.logs)
    folder.record_wall(found.pathlat, found.sender, found.receiver)
    return record


def _forwarding(
    folder: RunFolder,
    built: kernel.Kernel,
    root: LabRoot,
    shares: list[Bind],
    packets: int,
    reporter: Reporter,
) -> GuestRecord:
    folder.journal("attempt", clock="exact", packets=packets, boots=EXACT_BOOTS)
    reporter.say(f"counting instructions per forwarded packet, {EXACT_BOOTS} boots at once")
    spec = make_spec(exact=True)
    watch = Watch()
    with (
        reporter.step("exact: guests and packets"),
        watched(folder, watch, "exact"),
        contextlib.ExitStack() as stack,
    ):
        guests = [
            stack.enter_context(
                Guest.boot(
                    spec,
                    built,
                    root,
                    shares=shares,
                    log=folder.logs / f"console-exact-{boot}.log",
                    wait=False,
                )
            )
            for boot in range(EXACT_BOOTS)
        ]
        for guest in guests:
            guest.connect()
        begins(folder, watch, **{f"boot {n}": guest.console for n, guest in enumerate(guests)})
        record = describe_guest(guests[0])
        trials = forwarding.measure(guests, packets, folder.logs)
    folder.record_exact(trials)
    return record


def _versions(root: LabRoot) -> dict[str, str]:
    wanted = ("gcc", "bpftool", "libbpf1", "qemu-system-x86", "gnuplot-nox", "iproute2", "rustc")
    return {name: root.versions[name] for name in wanted if name in root.versions}


def _commands() -> list[Command]:
    return [
        Command(where="guest, wall clock", command="sh logs/layers.sh"),
        Command(where="guest, exact", command="sh logs/forwarding.sh"),
    ]


def _show(folder: RunFolder, reporter: Reporter, seconds: float, page: Path) -> None:
    console = printer()
    for table in terminal.of_run(folder.path):
        console.print(table)
        console.print()
    console.print(f"Where the time went: {seconds:.0f} s in all")
    for step, spent in reporter.timings.items():
        console.print(f"  {spent:7.1f} s  {step}")
    console.print()
    console.print(f"Report: {page}", soft_wrap=True)
