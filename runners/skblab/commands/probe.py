# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab probe` commands."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from typer.core import TyperArgument

from skblab.commands.documents import (
    CountedCase,
    KernelMedians,
    LayerMedian,
    Study,
    Verified,
)
from skblab.commands.options import (
    KERNEL_DEFAULT,
    AsJson,
    FlavourName,
    KernelName,
    echo,
)
from skblab.commands.probing import (
    OURS,
    Exact,
    GuestFlavour,
    GuestKernel,
    LoadName,
    Packets,
    Rate,
    SshConfig,
    Where,
)
from skblab.lab import kernel, labroot
from skblab.lab.kernel import lines, names
from skblab.lab.reporter import Reporter, printer
from skblab.probe import cost, scripts, study, targets
from skblab.probe import request as request_of
from skblab.probe.layers import Asked, Timed
from skblab.probe.loads import Load, Traffic
from skblab.probe.request import Request
from skblab.probe.verify import counts, medians
from skblab.probe.verify import tables as verify
from skblab.probe.verify.counts import Verdict
from skblab.probe.verify.medians import Measured, agreements
from skblab.probe.verify.plan import BACKENDS, PACKETS, RATE, cases_of, comparable, kernels, unfit
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import number
from skblab_analysis.cost.summary import sentence
from skblab_analysis.formats.ledger import MAX_UNACCOUNTED
from skblab_analysis.formats.pathlat import COUNTING, PathlatDocument
from skblab_analysis.formats.scripts import series as script_series
from skblab_analysis.layers import late as late_packets
from skblab_analysis.layers import series, tables, trial_view
from skblab_analysis.load import UNIT_OF_CLOCK, load
from skblab_analysis.report import study as study_table
from skblab_analysis.report import terminal
from skblab_analysis.trials.rows import Clock

probe = typer.Typer(
    help="Time packets layer by layer, on this machine or another.\n\n"
    "Example: `skblab probe layers --seconds 10`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

# Options that mean nothing without a guest of ours, and those that change no number.
OF_A_GUEST = ("load", "packets", "rate", "flows", "exact", "flavour", "name")
OF_SHOWING = ("hist", "as_json", "cost_", "verbose")

LIVE_SECONDS = 1.0
# Fewer hooks are attached then.
OF_ALL_COST = (
    "That is of all paths and points. With --path or --points the hooks cost less: "
    "docs/explain/cost-of-tools.md."
)
# Groups of options in the help of `layers`.
SOURCE, ONLY, LATE = "Source", "Only these packets", "Late packets"


@probe.command("layers")
def layers(
    context: typer.Context,
    on: Where = targets.HERE,
    ssh_config: SshConfig = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="How long. Default: until Ctrl-C; a guest until its load is over."),
    ] = None,
    max_unaccounted: Annotated[
        float,
        typer.Option(
            min=0, max=100, help="How many packets may be unaccounted for, in per cent of all."
        ),
    ] = MAX_UNACCOUNTED,
    by: Annotated[
        str | None,
        typer.Option(
            help="Also show groups of packets, by cpu, queue, context or protocol.",
            autocompletion=lambda: ["cpu", "queue", "context", "protocol"],
        ),
    ] = None,
    hist: Annotated[bool, typer.Option("--hist", help="Also print the histograms.")] = False,
    as_json: AsJson = False,
    cost_: Annotated[
        bool,
        typer.Option(
            "--cost/--no-cost",
            help="Print what the probe itself costs. skblab measures it once for a guest's kernel.",
        ),
    ] = True,
    source: Annotated[
        str,
        typer.Option(
            help="What to read: histograms of the patched kernel (they cost least and cover all "
            "packets), hooks, or auto: histograms if there are any and no option asks for more, "
            "else hooks.",
            autocompletion=lambda: list(request_of.SOURCES),
            rich_help_panel=SOURCE,
        ),
    ] = "auto",
    backend: Annotated[
        str,
        typer.Option(
            help="bpf, or the scripts of bpftrace or stap, which are slower and have no filters.",
            autocompletion=lambda: [request_of.BPF, *scripts.BACKENDS],
            rich_help_panel=SOURCE,
        ),
    ] = request_of.BPF,
    kprobes: Annotated[
        bool,
        typer.Option(
            "--kprobes", help="Hook by kprobe, even where fentry works.", rich_help_panel=SOURCE
        ),
    ] = False,
    room: Annotated[
        int | None,
        typer.Option(
            help="For hooks: room for so many packets at a time. Default: 65536.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="If the probe does not attach: print all that libbpf and the kernel say of it.",
            rich_help_panel=SOURCE,
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            help="Only packets that this device received, and its polls.", rich_help_panel=ONLY
        ),
    ] = None,
    netns: Annotated[
        str | None,
        typer.Option(
            help="Only packets that entered in this network namespace.", rich_help_panel=ONLY
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            help="Only receive, forward or send.",
            autocompletion=lambda: ["receive", "forward", "send"],
            rich_help_panel=ONLY,
        ),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="For hooks: look only at these points of the path, such as ip,socket, where it "
            "begins and ends, and at xmit; with poll in the list also at NAPI polls. "
            "docs/reference/catalogue.md lists the points. The fewer, the less the probe costs.",
            rich_help_panel=ONLY,
        ),
    ] = None,
    family: Annotated[
        int | None, typer.Option(help="Only IPv4 (4) or IPv6 (6).", rich_help_panel=ONLY)
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="Only udp, tcp, sctp, or a protocol number.", rich_help_panel=ONLY),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Only from or to this port.", rich_help_panel=ONLY)
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Only from or to this address.", rich_help_panel=ONLY)
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Record packets whose path time is at least this, such as 250us.",
            rich_help_panel=LATE,
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(help="With --late: only if so many in a row are late.", rich_help_panel=LATE),
    ] = None,
    late_max: Annotated[
        int | None,
        typer.Option(
            help="With --late: record no more than these. Default: 1000.", rich_help_panel=LATE
        ),
    ] = None,
    late_rate: Annotated[
        int | None,
        typer.Option(
            help="With --late: record no more a second; 0: any number. Default: 100.",
            rich_help_panel=LATE,
        ),
    ] = None,
    stop: Annotated[
        bool,
        typer.Option(
            "--stop",
            help="With --late: freeze the ftrace buffer at the first late packet.",
            rich_help_panel=LATE,
        ),
    ] = False,
    load: LoadName = "udp",
    packets: Packets = 100_000,
    rate: Rate = 10_000,
    flows: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="Send UDP from so many source ports in turn.",
            rich_help_panel=OURS,
        ),
    ] = 1,
    exact: Exact = False,
    flavour: GuestFlavour = "stock",
    name: GuestKernel = KERNEL_DEFAULT,
) -> None:
    """Show where the time of packets goes, layer by layer.

    It times every packet that this machine (or `--on` another) receives, forwards or sends:
    from the driver to the program, or back to a driver. A kernel with the skblab patches
    measures by itself. On other kernels, from 5.15 on, the probe hooks the kernel's functions.
    It writes `results/layers-<time>/`.

    Exit status 1: more packets are unaccounted for than `--max-unaccounted` allows.

    Example: `skblab probe layers --seconds 10`
    """
    targets.check(on, ssh_config)
    if hist and as_json:
        raise UsageError("--hist with --json: the document has the histograms; leave one out")
    if on != targets.GUEST:
        refuse(context, OF_A_GUEST, f"is of a guest's own traffic; with --on {on} leave it out")
    request = Request(
        source=source,
        seconds=seconds,
        device=device,
        netns=netns,
        path=path,
        points=points,
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
        verbose=verbose,
    )
    request_of.check(request, backend, list(scripts.BACKENDS))
    if exact and backend != request_of.BPF:
        raise UsageError(f"--exact is for --backend {request_of.BPF}; {backend} tells nanoseconds")
    if exact and late is not None:
        raise UsageError("--late: with --exact nothing waits, so no packet is late; leave one out")
    wanted = Load.parse(load)
    if flows > 1 and wanted.protocol != "udp":
        raise UsageError(f"--flows {flows}: {wanted} is one connection; expected 1, or --load udp")
    sending = Traffic(wanted, packets, rate, flows) if on == targets.GUEST else None
    chosen = names.parse(name).request(flavour)
    # What it says goes to standard error, and leaves the document alone.
    reporter = Reporter(quiet=as_json and not verbose)
    root = labroot.ensure(reporter)
    asked = Asked(
        on=on,
        ssh_config=ssh_config,
        backend=backend,
        request=request,
        sending=sending,
        chosen=chosen,
        max_unaccounted=max_unaccounted,
        again=again(context, "layers"),
        exact=exact,
    )
    # Scripts write no document while they count.
    live = backend == request_of.BPF and not as_json
    timed = asked.run(root, reporter, partial(_shown, reporter, asked.clock, live=live))
    if as_json:
        typer.echo(timed.text.strip())
    else:
        _show(timed, request, asked.clock, hist)
    if cost_:
        # Last: it may take minutes, and the results are there already.
        probed = cost.probe_of(timed.document, kprobes)
        there = (timed.folder.path, probed, timed.target)
        costs = cost.of_run(*there, wanted, root, reporter)
        if not as_json:
            printer().print(escape(sentence(costs)))
            if path or points:
                printer().print(OF_ALL_COST)


@probe.command("study")
def study_(
    file: Annotated[
        Path, typer.Argument(help="The study's file, such as runners/studies/murshed-2016.toml.")
    ],
    max_unaccounted: Annotated[
        float,
        typer.Option(
            min=0, max=100, help="How many packets may be unaccounted for, in per cent of all."
        ),
    ] = MAX_UNACCOUNTED,
    as_json: AsJson = False,
) -> None:
    """Run a published study's experiments again, and print our figures beside its own.

    Each experiment times known packets in one interval, by a script of SystemTap in a guest. It
    writes `results/study-<time>/`, with the time of every packet in logs/.

    Exit status 1: an experiment does not account for its packets.

    Example: `skblab probe study runners/studies/murshed-2016.toml`
    """
    experiment, published = study.read(file)
    reporter = Reporter()
    root = labroot.ensure(reporter)
    folder, found, where = study.recorded(experiment, file, root, max_unaccounted, reporter)
    if as_json:
        echo(
            Study(
                name=experiment.name,
                where=where,
                folder=str(folder.path),
                differs=experiment.differs,
                ours=tuple(found),
                published=published,
            )
        )
        return
    console = printer()
    title = f"{experiment.name}: ours ({where}) and published, µs"
    console.print(study_table.table(title, found, published))
    console.print(study_table.RULES)
    console.print(f"What differs: {experiment.differs}")
    typer.echo(f"Results: {folder.path}")


@probe.command("verify")
def verify_(
    packets: Annotated[
        int,
        typer.Option(min=1, max=10_000_000, help="Send so many packets or messages in each case."),
    ] = PACKETS,
    rate: Annotated[
        int, typer.Option(min=0, help="Send so many a second; 0: as fast as the sender can.")
    ] = RATE,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only cases with this load, such as tcp6-forward, or this one case, such as "
            "'udp, NAPI threads'; may be repeated."
        ),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option(help="Run only this back end; may be repeated.")
    ] = None,
    medians_: Annotated[
        bool,
        typer.Option(
            "--medians/--no-medians",
            help="Also compare the medians of layers, in instructions.",
        ),
    ] = True,
    flavour: FlavourName = "stock",
    name: KernelName = lines.DEFAULT.name,
    as_json: AsJson = False,
) -> None:
    """Check the probes: count known packets with every back end, to the packet.

    skblab sends UDP, TCP and SCTP over IPv4 and IPv6, received and forwarded, polled in
    softirqs and in NAPI threads, in guests with and without the kernel series. Then it times
    UDP in exact mode, where the medians must agree within the instructions that the back ends
    add.

    --kernel 6.12+skblab, tree:DIR, debian:VERSION …: that kernel alone, with every back end that
    can run there.

    Exit status 1: a count or a median does not agree.

    Example: `skblab probe verify --only udp --no-medians`
    """
    wanted = cases_of(only or [])
    known_names = [known.name for known in BACKENDS]
    for given in backend or []:
        if given not in known_names:
            raise UsageError(f"--backend {given}: expected {', '.join(known_names)}")
    chosen = [known for known in BACKENDS if not backend or known.name in backend]
    reporter, chosen_kernel = Reporter(), names.parse(name)
    of = chosen_kernel.line
    if not of.has_options:
        if stamped := [known.name for known in chosen if known.patched and backend]:
            raise UsageError(
                f"--backend {stamped[0]}: there are no path stamps for Linux {of} yet; "
                "expected one of the hooks"
            )
        reporter.say(f"Linux {of} has no path stamps yet: only hooks are checked")
        chosen = [known for known in chosen if not known.patched]
    booted = kernels(chosen_kernel, flavour, chosen, named=bool(backend))
    for known in chosen:
        if len(booted) == 1 and known not in booted[0][1]:
            reporter.say(f"left out: {known.name}: {unfit(known, chosen_kernel)}")
    root = labroot.ensure(reporter)
    # Tables are printed as they come: the next kernel takes minutes.
    console = Console(quiet=True) if as_json else printer()
    counted: list[CountedCase] = []
    of_kernels: list[KernelMedians] = []
    wrong: list[str] = []
    for request, some in booted:
        patched = request.patches
        found = counts.of_all(request, root, some, wanted, (packets, rate), reporter)
        console.print(verify.counts_table(found))
        counted += [_counted(case, patched=patched) for case in found]
        wrong += [f"{case.backend}, {case.case}" for case in found if case.complaints]
        some = comparable(some if len(booted) == 1 else chosen, patched=patched)
        if medians_ and len(some) > 1:
            built = kernel.ensure(request, root, reporter)
            measured = medians.measure(built, some, root, reporter)
            console.print(verify.medians_table(built.release, measured))
            of_kernels.append(_medians(built.release, measured))
            said = medians.complaints(measured)
            console.print(*said, sep="\n")
            wrong += said
    if as_json:
        echo(
            Verified(
                good=not wrong,
                counts=tuple(counted),
                medians=tuple(of_kernels),
                wrong=tuple(wrong),
            )
        )
    if wrong:
        raise SkblabError(f"{len(wrong)} do not agree: {'; '.join(wrong[:3])}")


def _counted(verdict: Verdict, *, patched: bool) -> CountedCase:
    return CountedCase(
        patched=patched,
        backend=verdict.backend,
        case=str(verdict.case),
        packets=verdict.packets,
        complaints=verdict.complaints,
        missed=verdict.missed,
        missed_before=verdict.before,
    )


def _medians(release: str, measured: Sequence[Measured]) -> KernelMedians:
    return KernelMedians(
        kernel=release,
        layers=tuple(
            LayerMedian(
                layer=str(agreed.layer),
                backends={
                    medians_of.backend: medians_of.medians[agreed.layer] for medians_of in measured
                },
                low=agreed.low,
                high=agreed.high,
            )
            for agreed in agreements(measured)
        ),
        own_work={medians_of.backend: dict(medians_of.cost) for medians_of in measured},
    )


def refuse(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raise UsageError if one of these options was given: it would do nothing."""
    for name, option, _ in given(context):
        if name in names:
            raise UsageError(f"{option} {why}")


def given(context: typer.Context) -> Iterator[tuple[str, str, Any]]:
    """Yield the options that were given: parameter, option as it was meant, value."""
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name == "DEFAULT" or isinstance(param, TyperArgument):
            continue
        value = context.params[name]
        yield name, (param.secondary_opts if value is False else param.opts)[0], value


def again(context: typer.Context, *command: str) -> str:
    """Return the command with all options that were given, but for what only shows the result."""
    words = ["./skblab", "probe", *command]
    for name, option, value in given(context):
        if name not in OF_SHOWING:
            for one in value if isinstance(value, list | tuple) else (value,):
                # A branch moves; what was built is a commit.
                said = str(names.parse(one)) if name == "name" else str(one)
                words += [option] if isinstance(one, bool) else [option, said]
    return shlex.join(words)


@contextlib.contextmanager
def _shown(
    reporter: Reporter, clock: Clock, request: Request, *, live: bool
) -> Iterator[tuple[Callable[[str], None], Request]]:
    """Give what shows a document, and the request with as many as are shown: on a terminal."""
    console = reporter.console
    if not (live and console.is_terminal):
        yield lambda text: None, request
        return
    with Live(console=console, transient=True, auto_refresh=False) as shown:
        yield (
            lambda text: shown.update(Group(*_tables(text, clock)), refresh=True),
            request.every(LIVE_SECONDS),
        )


def _tables(text: str, clock: Clock) -> list[Table]:
    document = parse(PathlatDocument, text, "the probe's document", context=COUNTING)
    found = series.from_document(0, UNIT_OF_CLOCK[clock], document)
    return tables.of_series(found, document)


def _show(timed: Timed, request: Request, clock: Clock, hist: bool) -> None:
    console = printer()
    folder, document = timed.folder, timed.document
    pathlat = document if isinstance(document, PathlatDocument) else None
    run = load(folder.path)
    for table in (*trial_view.tables(run, pathlat), *terminal.complaint_tables(run)):
        console.print(table)
        console.print()
    if isinstance(document, PathlatDocument):
        found = series.from_document(0, UNIT_OF_CLOCK[clock], document)
        _show_pathlat(console, document, timed.roles, request)
    else:
        found = [
            series_of for script in document.scripts for series_of in script_series(0, "ns", script)
        ]
        if not any(script.path_time and script.path_time.count for script in document.scripts):
            console.print("No packet came to its end.")
    if hist:
        for histogram in found:
            console.print(tables.histogram_table(histogram))
    console.print(f"Results: {folder.path}", soft_wrap=True)


def _show_pathlat(
    console: Console, document: PathlatDocument, roles: Mapping[int, str], request: Request
) -> None:
    if document.groups_others:
        console.print(f"{number(document.groups_others)} packets are in none of the groups.")
    if document.late is not None:
        for line in late_packets.sentences(document.late, roles):
            console.print(escape(line))
        limits = {"most": request.late_max, "rate": request.late_rate}
        console.print(late_packets.table(document.late, roles, **limits))
        console.print()
    if not any(path.ended for path in document.paths):
        console.print(f"No packet came to its end{_unwanted(document)}.")
    if document.hooks is not None and document.hooks.absent:
        console.print(f"Not on this kernel: {', '.join(document.hooks.absent)}", soft_wrap=True)


def _unwanted(document: PathlatDocument) -> str:
    filtered = document.samples.filtered if document.samples else 0
    return f"; {number(filtered)} were none of those asked for" if filtered else ""
