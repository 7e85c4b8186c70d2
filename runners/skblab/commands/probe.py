# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab probe` commands."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from skblab.commands.options import FlavourName
from skblab.lab import kernel, labroot, paths, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter, printer
from skblab.machine.guest import Guest
from skblab.machine.reading import Reading, until_asked
from skblab.machine.recording import begins, recording, watched
from skblab.machine.watch import Watch
from skblab.probe import cost, environment, loads, scripts, study, targets
from skblab.probe import request as request_of
from skblab.probe.backends import Probing, attached
from skblab.probe.loads import Load, Traffic
from skblab.probe.request import Request
from skblab.probe.targets import Target
from skblab.probe.verify import counts, medians
from skblab.probe.verify import tables as verify
from skblab.probe.verify.plan import (
    BACKENDS,
    PACKETS,
    RATE,
    Backend,
    Case,
    cases_of,
    comparable,
    rounds,
)
from skblab.testbeds import traffic
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import number
from skblab_analysis.cost.probe import sentence
from skblab_analysis.formats.heard import reason
from skblab_analysis.formats.pathlat import COUNTING, PathlatDocument
from skblab_analysis.formats.run import Plan
from skblab_analysis.formats.scripts import ScriptsDocument
from skblab_analysis.formats.scripts import series as script_series
from skblab_analysis.layers import series, tables, trial_view
from skblab_analysis.layers.account import MAX_UNACCOUNTED
from skblab_analysis.load import load
from skblab_analysis.report import terminal
from skblab_analysis.runfolder import RunFolder

probe = typer.Typer(
    help="Time packets by layer, on this machine or another.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

# Options that mean nothing without a guest of ours, and those that change no number.
OF_A_GUEST = ("load", "packets", "rate", "flows", "flavour", "patches")
OF_SHOWING = ("hist", "as_json", "cost_")

LIVE_SECONDS = 1.0
LOOK_SECONDS = 0.1


class _Enough(Exception):
    """There is nothing more to wait for."""


@probe.command("layers")
def layers(
    context: typer.Context,
    on: Annotated[
        str,
        typer.Option(help="Where: here, guest (a kernel and traffic of ours), or [USER@]HOST."),
    ] = targets.HERE,
    ssh_config: Annotated[
        Path | None, typer.Option(help="With a host: SSH's configuration file, as for ssh -F.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="How long; until Ctrl-C if not given, a guest until its load is over."),
    ] = None,
    source: Annotated[
        str,
        typer.Option(
            help="samples or histograms (the patched kernel's own; histograms cost least, and are "
            "of all packets), hooks, or auto: samples if there are any, else hooks."
        ),
    ] = "auto",
    backend: Annotated[
        str,
        typer.Option(help="bpf, or the scripts of bpftrace or stap: slower, without filters."),
    ] = request_of.BPF,
    kprobes: Annotated[
        bool, typer.Option("--kprobes", help="Hooks by kprobe, even where fentry works.")
    ] = False,
    room: Annotated[
        int | None, typer.Option(help="Hooks: packets under way at once [65536].")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Only packets that came in by this device, and its polls.")
    ] = None,
    netns: Annotated[
        str | None, typer.Option(help="Only packets that entered in this network namespace.")
    ] = None,
    path: Annotated[str | None, typer.Option(help="Only receive, forward or send.")] = None,
    family: Annotated[int | None, typer.Option(help="Only IPv4 (4) or IPv6 (6).")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Only udp, tcp, sctp, or a protocol number.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Only from or to this port.")] = None,
    address: Annotated[str | None, typer.Option(help="Only from or to this address.")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Also by groups of packets: cpu, queue, context or protocol."),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(help="Record packets whole that take at least so long, such as 250us."),
    ] = None,
    run: Annotated[
        int | None, typer.Option(help="With --late: only if so many in a row are late.")
    ] = None,
    late_max: Annotated[
        int | None, typer.Option(help="With --late: record no more than these [1000].")
    ] = None,
    late_rate: Annotated[
        int | None,
        typer.Option(help="With --late: record no more in a second; 0: any number [100]."),
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="With --late: freeze the ftrace buffer at the first.")
    ] = False,
    max_unaccounted: Annotated[
        float, typer.Option(min=0, max=100, help="Per cent of packets that may be unaccounted for.")
    ] = MAX_UNACCOUNTED,
    load: Annotated[
        str, typer.Option(help="Guest: udp, tcp or sctp, then 6 for IPv6, then -forward.")
    ] = "udp",
    packets: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Guest: packets or messages to send.")
    ] = 100_000,
    rate: Annotated[
        int, typer.Option(min=0, help="Guest: a second; 0: as fast as the sender can.")
    ] = 10_000,
    flows: Annotated[
        int, typer.Option(min=1, max=1000, help="Guest: source ports of UDP, in turn.")
    ] = 1,
    flavour: Annotated[str, typer.Option(help="Guest: the kernel's flavour.")] = "stock",
    patches: Annotated[
        bool, typer.Option("--patches/--no-patches", help="Guest: with our kernel series or not.")
    ] = True,
    hist: Annotated[bool, typer.Option("--hist", help="Also print the histograms.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the probe's document, and nothing else.")
    ] = False,
    cost_: Annotated[
        bool,
        typer.Option(
            "--cost/--no-cost",
            help="Say what the probe itself costs; a guest's kernel is measured for it, once.",
        ),
    ] = True,
) -> None:
    """Where does the time of packets go, layer by layer?

    Times every packet that this machine (or --on another) receives, forwards or sends, from the
    driver to the program or back to a driver. A kernel with the skblab patches measures by itself;
    on others, from 5.15 on, the probe hooks its functions. Leaves `results/layers-<time>/`.

    Exit status 1: more packets are unaccounted for than --max-unaccounted allows.
    """
    targets.check(on, ssh_config)
    if hist and as_json:
        raise UsageError("--hist with --json: the document has the histograms; leave one out")
    if on != targets.GUEST:
        _refuse(context, OF_A_GUEST, f"is of a guest's own traffic; with --on {on} leave it out")
    request = Request(
        source=source,
        seconds=seconds,
        device=device,
        netns=netns,
        path=path,
        family=family,
        protocol=protocol,
        port=port,
        address=address,
        by=by,
        late=late,
        run=run,
        late_max=late_max,
        late_rate=late_rate,
        stop=stop,
        kprobes=kprobes,
        room=room,
    )
    request_of.check(request, backend, list(scripts.BACKENDS))
    wanted = Load.parse(load)
    if flows > 1 and wanted.protocol != "udp":
        raise UsageError(f"--flows {flows}: {wanted} is one connection; expected 1, or --load udp")
    sending = Traffic(wanted, packets, rate, flows) if on == targets.GUEST else None
    reporter = Reporter(quiet=as_json)
    root = labroot.ensure(reporter)
    plan = Plan(
        experiment="layers",
        question="Where does the time of packets go, layer by layer?",
        seed=0,
        packets=packets if sending else None,
        again=_again(context),
        parameters={"on": on, **({"load": str(wanted)} if on == targets.GUEST else {})},
    )
    watch = Watch()
    with contextlib.ExitStack() as stack:
        if on == targets.GUEST:
            chosen = kernel.Request(flavour=kernel.flavour(flavour), patches=patches)
            target = stack.enter_context(
                guest_of_ours(chosen, root, reporter, lambda one: loads.prepare(one.transport))
            )
        else:
            program = tools.ensure_probe(root, reporter) / "pathlat"
            target = stack.enter_context(targets.machine(on, root, program, reporter, ssh_config))
        # Before the way to it is closed.
        stack.callback(watch.end)
        stack.enter_context(targets.stamps_for(target, source))
        known = environment.describe(target)
        asked = stack.enter_context(until_asked())
        # Scripts write no document while they count.
        live = backend == request_of.BPF and not as_json
        show, request = stack.enter_context(_shown(request, reporter, live=live))
        probing = stack.enter_context(attached(backend, target, request, root, reporter, show))
        # Not before: what the probe refuses is no run.
        folder = RunFolder.create(paths.results(), "layers", plan)
        begins(folder, watch, **{target.name: target.kernel_log(reporter)})
        with recording(folder, lambda: known, reporter):
            with watched(folder, watch, "wall"):
                document = _attend(*(probing, target, request, reporter, asked), sending)
            found = _record(folder, document, backend, max_unaccounted)
        folder.finish(known, reporter.timings)
    if said := watch.look():
        folder.heard_apart(said, "after the trial")
        reporter.say(f"after the trial: {reason(said)}")
    if as_json:
        typer.echo(document.strip())
    else:
        _show(folder, found, hist)
    if cost_:
        # Last: it may take minutes, and the results are there already.
        probed = cost.probe_of(found, kprobes)
        costs = cost.of_run(folder.path, probed, target, wanted, root, reporter)
        if not as_json:
            printer().print(escape(sentence(costs)))


@probe.command("study")
def study_(
    file: Annotated[Path, typer.Argument(help="Such as runners/studies/murshed-2016.toml.")],
    max_unaccounted: Annotated[
        float, typer.Option(min=0, max=100, help="Per cent of packets that may be unaccounted for.")
    ] = MAX_UNACCOUNTED,
) -> None:
    """Run a published study's experiments again, and set our figures beside its own.

    Each experiment times known packets in one interval by a script of SystemTap, in a guest. Leaves
    `results/study-<time>/`, with every packet's time in logs/.

    Exit status 1: an experiment does not account for its packets.
    """
    experiment, published = study.read(file)
    reporter = Reporter()
    root = labroot.ensure(reporter)
    chosen = kernel.Request(flavour=experiment.flavour, patches=experiment.patches)
    with guest_of_ours(chosen, root, reporter, lambda one: loads.prepare(one.transport)) as target:
        known = environment.describe(target)
        folder = RunFolder.create(paths.results(), "study", study.plan(experiment, file))
        with recording(folder, lambda: known, reporter):
            found = study.run(experiment, target, root, folder, max_unaccounted, reporter)
        folder.finish(known, reporter.timings, gaps=[experiment.differs])
        where = f"kernel {target.release}, {make_spec().accel}"
    study.show(printer(), experiment, found, published, where)
    typer.echo(f"Results: {folder.path}")


@probe.command("verify")
def verify_(
    packets: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Packets or messages in each case.")
    ] = PACKETS,
    rate: Annotated[
        int, typer.Option(min=0, help="A second; 0: as fast as the sender can.")
    ] = RATE,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only cases with this load, such as tcp6-forward, or this one case, such as "
            "'udp, NAPI threads'; may be repeated."
        ),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option(help="Only this back end; may be repeated.")
    ] = None,
    medians_: Annotated[
        bool,
        typer.Option(
            "--medians/--no-medians",
            help="Also compare the layers' medians, in instructions, with what each adds itself.",
        ),
    ] = True,
    flavour: FlavourName = "stock",
) -> None:
    """Are the probes right? Counts known packets with every back end, to the packet.

    UDP, TCP and SCTP, IPv4 and IPv6, received and forwarded, polled in softirqs and in NAPI
    threads, in guests of ours with and without the kernel series. Then UDP in exact mode, where
    the medians have to agree within the instructions that the back ends add.

    Exit status 1: a count or a median does not agree.
    """
    wanted = cases_of(only or [])
    names = [one.name for one in BACKENDS]
    for name in backend or []:
        if name not in names:
            raise UsageError(f"--backend {name}: expected {', '.join(names)}")
    chosen = [one for one in BACKENDS if not backend or one.name in backend]
    reporter = Reporter()
    root = labroot.ensure(reporter)
    console = printer()
    wrong = []
    for patched in (True, False):
        request = kernel.Request(flavour=kernel.flavour(flavour), patches=patched)
        if some := [one for one in chosen if one.patched == patched]:
            found = _count(request, root, some, wanted, (packets, rate), reporter)
            console.print(verify.counts_table(found))
            wrong += [f"{one.backend}, {one.case}" for one in found if one.complaints]
        some = comparable(chosen, patched=patched)
        if medians_ and len(some) > 1:
            built = kernel.ensure(request, root, reporter)
            measured = medians.measure(built, some, root, reporter)
            console.print(verify.medians_table(built.release, measured))
            said = medians.complaints(measured)
            console.print(*said, sep="\n")
            wrong += said
    if wrong:
        raise SkblabError(f"{len(wrong)} do not agree: {'; '.join(wrong[:3])}")


def _count(
    request: kernel.Request,
    root: LabRoot,
    backends: list[Backend],
    chosen: list[Case],
    load: tuple[int, int],
    reporter: Reporter,
) -> list[counts.Verdict]:
    found: list[counts.Verdict] = []
    with guest_of_ours(request, root, reporter, counts.prepare) as target:
        stamps = targets.stamps(
            *(target, any(one.patched for one in backends)),
            histograms=any(one.request.source == request_of.HISTOGRAMS for one in backends),
        )
        with stamps, reporter.bar("verifying", len(backends) * len(chosen)) as done:
            for some, case in product(rounds(backends), chosen):
                verdicts = counts.Count(case, some, *load, (root, reporter)).run(target)
                for one in verdicts:
                    if one.complaints:
                        reporter.say(f"{one.backend}, {one.case}: {'; '.join(one.complaints)}")
                found += verdicts
                done(len(found))
    return found


def _refuse(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raise UsageError if one of these options was given: it would do nothing."""
    for name, option, _ in _given(context):
        if name in names:
            raise UsageError(f"{option} {why}")


def _given(context: typer.Context) -> Iterator[tuple[str, str, Any]]:
    """Yield the options that were given: parameter, option as it was meant, value."""
    for one in context.command.params:
        name = one.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            continue
        value = context.params[name]
        yield name, (one.secondary_opts if value is False else one.opts)[0], value


def _again(context: typer.Context) -> str:
    """Return the command with all that was given, but for what only shows the result."""
    words = ["./skblab", "probe", "layers"]
    for name, option, value in _given(context):
        if name not in OF_SHOWING:
            words += [option] if isinstance(value, bool) else [option, str(value)]
    return shlex.join(words)


@contextlib.contextmanager
def guest_of_ours(
    chosen: kernel.Request, root: LabRoot, reporter: Reporter, prepare: Callable[[Target], None]
) -> Iterator[Target]:
    """Boot a guest with the probe in it, and `prepare` it."""
    built = kernel.ensure(chosen, root, reporter)
    shares = [Bind(tools.ensure(root, built, reporter), "tools")]
    reporter.say(f"booting {built.record.release}")
    with Guest.boot(make_spec(), built, root, shares=shares) as guest:
        program = f"{traffic.PROGRAMS}/pathlat"
        release = built.record.release
        target = Target(targets.GUEST, guest.transport, program, release, built, guest)
        prepare(target)
        if said := Watch({targets.GUEST: guest.console}).look():
            reporter.say(f"before anything was measured: {reason(said)}")
        yield target


@contextlib.contextmanager
def _shown(
    request: Request, reporter: Reporter, *, live: bool
) -> Iterator[tuple[Callable[[str], None], Request]]:
    """Give what shows a document, and the request with as many as are shown: on a terminal."""
    console = reporter.console
    if not (live and console.is_terminal):
        yield lambda text: None, request
        return
    with Live(console=console, transient=True, auto_refresh=False) as shown:
        yield (
            lambda text: shown.update(Group(*_tables(text)), refresh=True),
            request.every(LIVE_SECONDS),
        )


def _attend(
    probing: Probing,
    target: Target,
    request: Request,
    reporter: Reporter,
    asked: Callable[[], bool],
    sending: Traffic | None,
) -> str:
    """Return the probe's last document, once it is over, or the load, or the user asks for it."""
    deadline = time.monotonic() + (math.inf if request.seconds is None else request.seconds)

    def look() -> None:
        # pathlat ends by itself, and knows better when its time began.
        late = not isinstance(probing, Reading) and time.monotonic() >= deadline
        if late or not probing.look() or asked():
            raise _Enough

    limit = "until Ctrl-C" if request.seconds is None else f"for {request.seconds:g} s"
    reporter.say(
        f"timing packets on {target.name}, kernel {target.release}, "
        + (limit if sending is None else str(sending))
    )
    with contextlib.suppress(_Enough):
        if sending is not None:
            sent = sending.run(target.transport, look)
            reporter.say(f"sent {number(sent.sent)}, received {number(sent.received)}")
        while sending is None:
            look()
            time.sleep(LOOK_SECONDS)
    return probing.end()


def _record(
    folder: RunFolder, document: str, backend: str, max_unaccounted: float
) -> PathlatDocument | ScriptsDocument:
    if backend != request_of.BPF:
        said = parse(ScriptsDocument, document, "the scripts' document")
        folder.record_scripts(said.scripts, max_unaccounted)
        return said
    folder.record_probe(document, max_unaccounted)
    return parse(PathlatDocument, document, "the probe's document")


def _tables(text: str) -> list[Table]:
    document = parse(PathlatDocument, text, "the probe's document", context=COUNTING)
    return tables.of_series(series.from_document(0, "ns", document), document)


def _show(folder: RunFolder, document: PathlatDocument | ScriptsDocument, hist: bool) -> None:
    console = printer()
    pathlat = document if isinstance(document, PathlatDocument) else None
    run = load(folder.path)
    for table in (*trial_view.tables(run, pathlat), *terminal.complaint_tables(run)):
        console.print(table)
        console.print()
    if isinstance(document, PathlatDocument):
        found = series.from_document(0, "ns", document)
        _show_pathlat(console, document)
    else:
        found = [one for script in document.scripts for one in script_series(0, "ns", script)]
        if not any(script.leg and script.leg.count for script in document.scripts):
            console.print("No packet came to its end.")
    if hist:
        for one in found:
            console.print(tables.histogram_table(one))
    console.print(f"Results: {folder.path}", soft_wrap=True)


def _show_pathlat(console: Console, document: PathlatDocument) -> None:
    if document.groups_others:
        console.print(f"{number(document.groups_others)} packets are in none of the groups.")
    if document.late is not None:
        console.print(tables.late_table(document.late))
        console.print()
    if not any(path.ended for path in document.paths):
        console.print(f"No packet came to its end{_unwanted(document)}.")
    if document.hooks is not None and document.hooks.absent:
        console.print(f"Not on this kernel: {', '.join(document.hooks.absent)}", soft_wrap=True)


def _unwanted(document: PathlatDocument) -> str:
    filtered = document.samples.filtered if document.samples else 0
    return f"; {number(filtered)} were none of those asked for" if filtered else ""
