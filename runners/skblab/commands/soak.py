# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab soak` command (`make kernel-soak`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skblab.commands.documents import Soak
from skblab.commands.options import KERNEL_DEFAULT, AsJson, FlavourName, KernelName, echo
from skblab.lab import kernel, labroot, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.console import OFTEN_OTHERS
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import names, ownlines
from skblab.lab.kernel import source as sources
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, printer
from skblab.machine.guest import Guest
from skblab.selftests import tree
from skblab.soak import plan as planner
from skblab.soak import reports, verdict
from skblab.soak.verdict import SoakResult
from skblab_analysis.base.errors import SkblabError, UsageError

PROGRAM = (
    *("env", "PYTHONPATH=/skblab/tree/runners", "python3", "-B"),
    *("-m", "skblab.soak.guest.soak", "/tmp/plan.json", "/skblab/src"),
)
# Beside the plan itself: set-up, the count in peace, two leak scans, under emulation.
EXTRA_SECONDS = {"stock": 600, "rt": 900, "debug": 2400, "kcsan": 2400, "kmsan": 5400}
MEMORY = {"stock": 2048, "rt": 2048, "debug": 4096, "kcsan": 4096, "kmsan": 8192}
# A race needs two CPUs that run at once. Each of these kernels says how it goes without a danger
# of QEMU's (GuestSpec.one_thread).
AT_ONCE = frozenset({"kcsan"})
# A batch of packets takes seconds there: with the rests of other kernels twenty loads leave a task
# of theirs no processor for minutes, and RCU reports a stall.
LONGEST_REST = {"kmsan": 60.0}
# What a kernel cannot do without that danger, or takes for a fault of its own: bitmap_parse()
# writes half a word of the mask for rps_cpus and looks at all of it. KMSAN reports each mask, and
# nothing comes of it.
WITHOUT = {**dict.fromkeys(AT_ONCE, planner.REWRITING), "kmsan": frozenset({"rps"})}


def soak(
    flavour: FlavourName = "debug",
    name: KernelName = KERNEL_DEFAULT,
    seconds: Annotated[
        int,
        typer.Option(min=10, max=86400, help="How long the load lasts, in seconds of the guest."),
    ] = 240,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the plan: the same seed makes the same plan.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Load a guest with all kinds of traffic while its settings change, and look for faults.

    A good soak has no kernel warning and no memory leak, leaves no device and no reference, and
    delivers packets of every kind in every phase, even while allocations are made to fail. Exit
    status 1: this one is not good.

    Example: `skblab soak --flavour stock --seconds 60`
    """
    reporter = Reporter()
    chosen = names.parse(name)
    if chosen.packaged is not None:
        raise UsageError(f"--kernel {name}: a soak needs a kernel's source, and a package has none")
    request = chosen.request(flavour)
    root = labroot.ensure(reporter)
    built = kernel.ensure(request, root, reporter)
    origin = sources.asked_for(request, root, reporter)
    series = sources.series_for(origin) if request.patches else None
    source_tree = tree.ensure(origin, series, root, reporter)
    rest = LONGEST_REST.get(flavour, planner.LONGEST_REST)
    plan = planner.make(seed, seconds, WITHOUT.get(flavour, ()), rest)
    log = paths.cache() / "logs" / f"soak-{built.release}-{time.strftime('%Y%m%d-%H%M%S')}.log"
    reporter.say(f"soak of {built.release}: {seconds} s, seed {seed}, {len(plan.steps)} steps")
    try:
        with reporter.step("soak"):
            result, said = run(plan, built, root, source_tree, log, reporter)
            own, others = reports_of(log, built, root, series)
    except GuestError as error:
        # That its guest died is what a soak is there to find out: a no, like any other.
        raise SkblabError(f"trouble: {error}") from error
    wrong = verdict.complaints(result, [*said, *own], request.patches, others)
    if as_json:
        echo(
            Soak(
                kernel=built.release,
                seed=seed,
                seconds=seconds,
                good=not wrong,
                complaints=tuple(wrong),
                reports=tuple(others),
                console=str(log),
                result=result,
            )
        )
    else:
        show(result, wrong, others, log)
    if wrong:
        raise typer.Exit(1)


def run(
    plan: planner.Plan,
    built: kernel.Kernel,
    root: LabRoot,
    source_tree: tree.Tree,
    log: Path,
    reporter: Reporter,
) -> tuple[SoakResult, list[str]]:
    """Do the soak; return the guest's report and what its kernel complained of."""
    flavour = built.record.flavour
    shares = [Bind(paths.tree(), "tree"), Bind(source_tree.path, "src")]
    spec = make_spec(
        memory=MEMORY[flavour], flavour=flavour, one_thread=flavour not in AT_ONCE, silent=True
    )
    with Guest.boot(spec, built, root, shares=shares, log=log) as guest:
        guest.transport.script(f"cat >/tmp/plan.json <<'PLAN'\n{plan.json()}\nPLAN\n").check("plan")
        limit = 2 * plan.seconds + EXTRA_SECONDS[flavour]
        with reporter.step("guest"):
            done = guest.transport.run(PROGRAM, seconds=limit)
        for line in done.stderr.splitlines():
            reporter.say(f"  {line}")
        if done.status != 0:
            raise SkblabError(f"the soak's program failed: {done.stderr.strip()[-300:]}")
    # Also what it said as it went down. reports_of() sorts out what KCSAN and KMSAN reported.
    findings = [one.text for one in guest.console.findings if one.kind not in OFTEN_OTHERS]
    return verdict.parse(done.stdout), findings


def reports_of(
    log: Path, built: kernel.Kernel, root: LabRoot, series: Series | None
) -> tuple[list[str], list[str]]:
    """Return what KCSAN and KMSAN reported: of lines of the series, and of the kernel's own."""
    found = reports.read(log.read_text(errors="replace"))
    if series is None:
        return [], list(dict.fromkeys(report.title for report in found))
    if not found:
        return [], []
    ours = ownlines.added(patch.read_text(errors="replace") for patch in series.patches)
    return reports.split(found, reports.resolver(built, root), ours)


def show(result: SoakResult, wrong: list[str], others: list[str], log: Path) -> None:
    """Print what was done, what flowed, and the verdict."""
    console = printer()
    console.soft_wrap = True
    table = Table(box=None, pad_edge=False)
    for title in ("action", "done", "refused", "not here"):
        table.add_column(title, justify="left" if title == "action" else "right")
    for name in sorted({*result.done, *result.refused, *result.absent}):
        row = (counts.get(name, 0) for counts in (result.done, result.refused, result.absent))
        table.add_row(name, *(str(count) for count in row))
    console.print(table)
    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("received of sent (errors)", no_wrap=True)
    for phase in result.phases:
        table.add_column(phase.name, justify="right", no_wrap=True)
    for name in result.phases[0].loads:
        loads = [phase.loads[name] for phase in result.phases]
        table.add_row(name, *(f"{load.received}/{load.sent} ({load.errors})" for load in loads))
    console.print(table)
    for phase in result.phases:
        faults = f"; failing: {phase.faults}" if phase.faults else ""
        console.print(f"{phase.name}: {phase.seconds:.0f} s, {phase.steps} steps{faults}")
    calm = result.calm
    console.print(f"in peace: {calm.received} of {calm.sent} received, passed {calm.passed}")
    leaks = "not looked for (no kmemleak here)" if result.leaks is None else "none"
    console.print(f"leaks: {escape(result.leaks.strip()[:2000]) if result.leaks else leaks}")
    if result.watched is not None:
        console.print(f"KCSAN watched {result.watched} accesses")
    if others:
        console.print(f"reports of the kernel's own, in no line of the series: {len(others)}")
    for text in wrong:
        console.print(f"[red]trouble:[/] {escape(text)}")
    console.print(f"{'trouble' if wrong else 'good'}; console: {log}")
