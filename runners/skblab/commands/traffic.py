# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab traffic`: the sender and the receiver of runners/traffic, on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skblab.commands.options import KERNEL_DEFAULT, AsJson, KernelName
from skblab.commands.options import echo as echo_document
from skblab.lab import labroot, tools
from skblab.lab.drawing import gnuplot
from skblab.lab.kernel import names
from skblab.lab.reporter import Reporter, printer
from skblab.traffic import hosts, plan, running
from skblab.traffic.hosts import Hosts
from skblab_analysis.base.errors import EXIT_NO
from skblab_analysis.report import summary, terminal
from skblab_analysis.report.page import build_report

traffic = typer.Typer(
    no_args_is_help=True,
    help="Send and receive UDP packets or TCP, and account for all of it.\n\n"
    "The program is skblab-traffic, in Rust. It is one file without libraries: copy it to any "
    "machine with the same kind of processor, it needs neither skblab nor root there (root only "
    "for frames of a device).\n\n"
    "Example: `skblab traffic receive --bind 0.0.0.0:5000`",
)
# All of them are the program's own, and so is its help.
PASSED_ON = {"ignore_unknown_options": True}
Options = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT", help="Those of the program; --help lists them."),
]


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def send(options: Options = None) -> None:
    """Send numbered, stamped packets at a rate, or at times of a generator.

    It prints a JSON document: packets sent and refused, the rate that was asked for and the one
    that was reached, and how far packets were behind their times. With `--device` it sends
    Ethernet frames from a device, around the stack, as pktgen does: that needs CAP_NET_RAW.

    Example: `skblab traffic send --to 198.18.0.2:5000 --rate 10000 --count 100000`
    """
    _run("send", options or ())


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def receive(options: Options = None) -> None:
    """Count received, lost, repeated and reordered packets.

    It prints `ready` once packets are taken in, and at its end a JSON document. It reads the
    packets of `skblab traffic send`, and those of pktgen. With `--device` it counts them among a
    device's frames, before the stack has them: that needs CAP_NET_RAW.

    Example: `skblab traffic receive --bind 0.0.0.0:5000 --expect 100000`
    """
    _run("receive", options or ())


@traffic.command("run")
def run_(
    file: Annotated[Path, typer.Argument(help="The traffic file, see docs/reference/traffic.md.")],
    on: Annotated[
        str | None,
        typer.Option(
            metavar="here|guest",
            help="Have hosts as namespaces of this machine, or of a guest. Default: as the file "
            "says. Not of a file that names machines.",
            autocompletion=lambda: ["here", "guest"],
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, max=86_400, help="Let each flow last so long instead."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Measure each setting so often instead.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and measure nothing.")
    ] = False,
    name: KernelName = KERNEL_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Run flows between hosts as a file says, setting by setting, and report what came of them.

    All flows of a setting run at once. It writes `results/NAME-<time>/`. Hosts are namespaces of
    this machine (root), namespaces of a guest, or machines over SSH that the file names.

    Example: `skblab traffic run runners/studies/luna-2013.toml --seconds 2`
    """
    given, published = plan.read(file, on=on, seconds=seconds, repeats=repeats)
    asked = running.plan_of(given, file, published)
    if dry_run:
        for line in running.told(given):
            typer.echo(line)
        return
    reporter = Reporter()
    root = labroot.ensure(reporter)
    chosen = names.parse(name)

    def up(flavour: str | None) -> AbstractContextManager[Hosts]:
        if given.hosts:
            return hosts.machines(given, root, reporter)
        if given.where == "here":
            return hosts.here(given, root, reporter)
        return hosts.guest(given, chosen.request(flavour or "stock"), root, reporter)

    hosts.build(given, chosen.request, root, reporter)
    folder = running.recorded(given, asked, up, reporter)
    page = build_report(folder.path, gnuplot(root))
    if as_json:
        echo_document(summary.of_run(folder.path, page))
        return
    console = printer()
    for table in terminal.of_run(folder.path):
        console.print(table)
        console.print()
    console.print(f"Report: {page}", soft_wrap=True)


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def echo(options: Options = None) -> None:
    """Send each packet back to where it came from.

    It prints `ready` once packets are taken in, and at its end (Ctrl-C, or --seconds) a JSON
    document: packets sent back, and those refused. Only packets of `skblab traffic` and of pktgen
    are sent back.

    Example: `skblab traffic echo --bind 0.0.0.0:5000`
    """
    _run("echo", options or ())


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def rtt(options: Options = None) -> None:
    """Send packets at a rate to an echo, and say how long each took there and back.

    It prints a JSON document: the distribution of round trips, loss, reordering, and how far
    packets were behind their times. Both times of a packet are of this machine's clock.

    Example: `skblab traffic rtt --to 198.18.0.2:5000 --rate 1000 --count 10000`
    """
    _run("rtt", options or ())


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def clock(options: Options = None) -> None:
    """Say how far the clock of an echo's machine is ahead of this machine's.

    It sends probes to `skblab traffic echo`, which writes its times into them, and prints a JSON
    document: by how much that clock is ahead, and how much more or less that may be, however long
    packets take each way. `receive --clock-ahead` takes it off one-way delays.

    Example: `skblab traffic clock --to 198.18.0.2:5000`
    """
    _run("clock", options or ())


@traffic.command(context_settings=PASSED_ON, add_help_option=False)
def wakeup(options: Options = None) -> None:
    """Say how late this machine wakes a task that sleeps, as cyclictest does.

    No packet is sent: what it prints, as a JSON document, is what this machine itself adds to the
    times that it sends and receives at.

    Example: `skblab traffic wakeup --rate 1000 --seconds 10 --realtime fifo:50`
    """
    _run("wakeup", options or ())


@traffic.command("tcp-serve", context_settings=PASSED_ON, add_help_option=False)
def tcp_serve(options: Options = None) -> None:
    """Answer requests over TCP, and take streams.

    It prints `ready` once it listens, and at its end (Ctrl-C, or --seconds) a JSON document:
    connections, and how they ended. It is what `tcp-crr`, `tcp-rr` and `tcp-stream` connect to.

    Example: `skblab traffic tcp-serve --bind 0.0.0.0:5000`
    """
    _run("tcp-serve", options or ())


@traffic.command("tcp-crr", context_settings=PASSED_ON, add_help_option=False)
def tcp_crr(options: Options = None) -> None:
    """Make a TCP connection for each request: how many per second, and how long they took.

    Connect, request, response, close: what netperf calls TCP_CRR and neper tcp_crr. It makes as
    many as it can with --flows at once, or --rate of them each second. It prints a JSON document:
    the rate that was asked for and the one that was reached, the distribution of the times for
    connecting and for the answer, and what failed, by its kind.

    Example: `skblab traffic tcp-crr --to 198.18.0.2:5000 --flows 64 --seconds 10`
    """
    _run("tcp-crr", options or ())


@traffic.command("tcp-rr", context_settings=PASSED_ON, add_help_option=False)
def tcp_rr(options: Options = None) -> None:
    """Send requests over TCP connections that are kept, and say how long each answer took.

    What netperf calls TCP_RR and neper tcp_rr. It prints a JSON document: requests per second, and
    the distribution of the times until the answer was there.

    Example: `skblab traffic tcp-rr --to 198.18.0.2:5000 --rate 1000 --seconds 10`
    """
    _run("tcp-rr", options or ())


@traffic.command("tcp-stream", context_settings=PASSED_ON, add_help_option=False)
def tcp_stream(options: Options = None) -> None:
    """Send as much as TCP connections take, or bits at a rate.

    What netperf calls TCP_STREAM and neper tcp_stream. It prints a JSON document: bits per second
    that the kernel took and that came, what was sent again, and round-trip times. With `--reverse`
    the server sends.

    Example: `skblab traffic tcp-stream --to 198.18.0.2:5000 --flows 4 --seconds 10`
    """
    _run("tcp-stream", options or ())


@traffic.command()
def calibrate(
    seconds: Annotated[
        float, typer.Option(min=5, max=3600, metavar="SECONDS", help="How long all of it may take.")
    ] = 60,
    show: Annotated[
        bool, typer.Option("--show", help="Print the last one of this machine and kernel again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what this machine itself adds as a tester, over loopback and over a veth pair.

    Least latency, jitter, the largest rate without loss, how exactly rates from 1 to a million
    packets per second are kept, how exact times between packets are with and without real-time
    mode, and how late a task is woken. It is kept in the cache, by machine and kernel.

    The networks are skblab's own, and go with it however it ends. Without root rights it measures
    over loopback only.

    Example: `skblab traffic calibrate --seconds 60`
    """
    import platform
    import time

    from rich.console import Console

    from skblab.calibrate import keep, measure, told
    from skblab.calibrate.result import Calibration
    from skblab.calibrate.tester import Programs, is_root
    from skblab.machine.environment import describe_host
    from skblab_analysis.base.disk import now

    if show:
        found = keep.load()
    else:
        reporter = Reporter(quiet=as_json)
        # Without root rights the program can be used that root has had made.
        root = (None if is_root() else labroot.existing()) or labroot.ensure(reporter)
        folder = tools.ensure_traffic(root, reporter)
        begun = time.monotonic()
        with (
            Programs(folder, tools.TRAFFIC, root if is_root() else None) as tester,
            reporter.bar("calibrating", seconds) as update,
        ):
            calibrating = measure.Calibrating(tester, seconds, update)
            wakeup, places = calibrating.run()
        host = describe_host()
        found = Calibration(
            machine=keep.machine(),
            kernel=platform.release(),
            cpu=host.cpu,
            cpus=host.cpus,
            when=now(),
            seconds=time.monotonic() - begun,
            wakeup=wakeup,
            places=places,
            skipped=tuple(calibrating.skipped),
        )
        keep.store(found)
    if as_json:
        echo_document(found)
        return
    console = Console(highlight=False)
    # Figures are not cut off where a terminal is narrow.
    console.width = max(console.width, 110)
    for part in told.tables(found):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


class Format(StrEnum):
    """What `import` reads; as `FormatName` of the analysis, which is loaded when it is needed."""

    RECORDS = "records"
    TIMESTAMPS = "timestamps"
    LUNA = "luna"
    PCAP = "pcap"
    TREX = "trex"


class Target(StrEnum):
    """What `export` writes; as `ExportName` of the analysis."""

    CSV = "csv"
    PARQUET = "parquet"
    PCAP = "pcap"


Input = Annotated[Path, typer.Argument(metavar="FILE", help="The file that is read.")]


@traffic.command("import")
def import_(
    file: Input,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help=f"What the file is: {', '.join(Format)} [default: told from its content or name].",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the packets to it, as records."),
    ] = None,
    same_clock: Annotated[
        bool,
        typer.Option(
            "--same-clock", help="The sender's stamps and those of arrival are of one clock."
        ),
    ] = False,
    expect: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Packets that were sent, to know all lost ones."),
    ] = None,
    transmission: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="NUMBER",
            help="Of a capture, the transmission to count [default: that of the first packet].",
        ),
    ] = None,
) -> None:
    """Read what another program has recorded of packets, and count it as `receive` does.

    It reads captures (pcap, pcapng) of packets of `skblab traffic send` or pktgen, `timestamps-*`
    files of the real-time study, logs of LUNA, TRex's latency statistics (JSON), and records of
    `receive --record`. It prints a JSON document: loss, reordering, inter-arrival times, jitter and
    delay, null where the file does not tell, with the reason. Exit status 1 says that a part of the
    file could not be read.

    Example: `skblab traffic import capture.pcap -o packets.rec`
    """
    from skblab_analysis.formats.traces import opening

    document = opening.run(
        file,
        output,
        form.value if form else None,
        same_clock=same_clock,
        expect=expect,
        transmission=transmission,
    )
    typer.echo(document.model_dump_json())
    _tell(file, document.troubles)


@traffic.command()
def export(
    file: Input,
    to: Annotated[Target, typer.Option(help=f"What to write: {', '.join(Target)}.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to.")],
) -> None:
    """Write records of packets as CSV, as Parquet, or as a capture (pcap, in nanoseconds).

    Columns have their units in their names. A capture has made-up frames: true are when a packet
    came, and number, send time and length in its payload; addresses are made up, and each flow is a
    source port. `skblab traffic import` reads it back.

    Example: `skblab traffic export packets.rec --to parquet -o packets.parquet`
    """
    from skblab_analysis.formats.traces import export as exporting

    count, troubles = exporting.run(file, output, to.value)
    typer.echo(f"{count} packets: {output}")
    _tell(file, troubles)


def _tell(file: Path, troubles: Sequence[str]) -> None:
    """Say what of a file could not be read, and exit with 1 then."""
    for trouble in troubles:
        typer.echo(f"skblab: {file}: {trouble}", err=True)
    if troubles:
        raise typer.Exit(EXIT_NO)


@traffic.command()
def program() -> None:
    """Print where the program is: one file, to be copied to other machines.

    Example: `skblab traffic program`
    """
    typer.echo(_program())


def _program() -> Path:
    reporter = Reporter()
    return tools.ensure_traffic(labroot.ensure(reporter), reporter) / tools.TRAFFIC


def _run(what: str, options: Sequence[str]) -> None:
    file = _program()
    os.execv(file, [file.name, what, *options])
