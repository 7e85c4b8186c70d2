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

from skblab.commands.options import FlavourName
from skblab.lab import kernel, labroot
from skblab.lab.reporter import Reporter, printer
from skblab.probe import cost, scripts, study, targets
from skblab.probe import request as request_of
from skblab.probe.layers import Asked, Document
from skblab.probe.loads import Load, Traffic
from skblab.probe.request import Request
from skblab.probe.verify import counts, medians
from skblab.probe.verify import tables as verify
from skblab.probe.verify.plan import BACKENDS, PACKETS, RATE, cases_of, comparable
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.base.words import number
from skblab_analysis.cost.summary import sentence
from skblab_analysis.formats.ledger import MAX_UNACCOUNTED
from skblab_analysis.formats.pathlat import COUNTING, PathlatDocument
from skblab_analysis.formats.scripts import series as script_series
from skblab_analysis.layers import late as late_packets
from skblab_analysis.layers import series, tables, trial_view
from skblab_analysis.load import load
from skblab_analysis.report import study as study_table
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
    asked = Asked(
        on=on,
        ssh_config=ssh_config,
        backend=backend,
        request=request,
        sending=sending,
        chosen=kernel.Request(flavour=kernel.flavour(flavour), patches=patches),
        max_unaccounted=max_unaccounted,
        again=_again(context),
    )
    # Scripts write no document while they count.
    live = backend == request_of.BPF and not as_json
    timed = asked.run(root, reporter, partial(_shown, reporter, live=live))
    if as_json:
        typer.echo(timed.text.strip())
    else:
        _show(timed.folder, timed.document, hist, timed.roles)
    if cost_:
        # Last: it may take minutes, and the results are there already.
        probed = cost.probe_of(timed.document, kprobes)
        there = (timed.folder.path, probed, timed.target)
        costs = cost.of_run(*there, wanted, root, reporter)
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
    folder, found, where = study.recorded(experiment, file, root, max_unaccounted, reporter)
    console = printer()
    title = f"{experiment.name}: ours ({where}) and published, µs"
    console.print(study_table.table(title, found, published))
    console.print(study_table.RULES)
    console.print(f"What differs: {experiment.differs}")
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
        some = [backend for backend in chosen if backend.patched == patched]
        request = kernel.Request(flavour=kernel.flavour(flavour), patches=patched)
        if some:
            found = counts.of_all(request, root, some, wanted, (packets, rate), reporter)
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
def _shown(
    reporter: Reporter, request: Request, *, live: bool
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


def _tables(text: str) -> list[Table]:
    document = parse(PathlatDocument, text, "the probe's document", context=COUNTING)
    return tables.of_series(series.from_document(0, "ns", document), document)


def _show(folder: RunFolder, document: Document, hist: bool, roles: Mapping[int, str]) -> None:
    console = printer()
    pathlat = document if isinstance(document, PathlatDocument) else None
    run = load(folder.path)
    for table in (*trial_view.tables(run, pathlat), *terminal.complaint_tables(run)):
        console.print(table)
        console.print()
    if isinstance(document, PathlatDocument):
        found = series.from_document(0, "ns", document)
        _show_pathlat(console, document, roles)
    else:
        found = [one for script in document.scripts for one in script_series(0, "ns", script)]
        if not any(script.path_time and script.path_time.count for script in document.scripts):
            console.print("No packet came to its end.")
    if hist:
        for one in found:
            console.print(tables.histogram_table(one))
    console.print(f"Results: {folder.path}", soft_wrap=True)


def _show_pathlat(console: Console, document: PathlatDocument, roles: Mapping[int, str]) -> None:
    if document.groups_others:
        console.print(f"{number(document.groups_others)} packets are in none of the groups.")
    if document.late is not None:
        for line in late_packets.sentences(document.late, roles):
            console.print(escape(line))
        console.print(late_packets.table(document.late, roles))
        console.print()
    if not any(path.ended for path in document.paths):
        console.print(f"No packet came to its end{_unwanted(document)}.")
    if document.hooks is not None and document.hooks.absent:
        console.print(f"Not on this kernel: {', '.join(document.hooks.absent)}", soft_wrap=True)


def _unwanted(document: PathlatDocument) -> str:
    filtered = document.samples.filtered if document.samples else 0
    return f"; {number(filtered)} were none of those asked for" if filtered else ""
