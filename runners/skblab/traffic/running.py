# SPDX-License-Identifier: GPL-2.0-or-later
"""Running a traffic file: trial by trial, all flows at once, and a record of each flow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab.machine.recording import begins, recording, watched
from skblab.machine.transport import Running
from skblab.machine.watch import Watch
from skblab.testbeds.traffic import ended, stop
from skblab.traffic import bypktgen, generators
from skblab.traffic.hosts import PORT, Host, Hosts
from skblab.traffic.plan import Flow, Setting, TrafficFile, changed
from skblab_analysis.base.checked import RefusedError, parse
from skblab_analysis.base.errors import one_line
from skblab_analysis.base.words import joined, rough_time
from skblab_analysis.formats.pathlat import ReceiverDocument, SenderDocument
from skblab_analysis.formats.published import Published, parameters
from skblab_analysis.formats.run import Environment, Plan
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.traffic.rows import Exchanged

READY_SECONDS = 60
# How long a receiver waits for more packets, beyond the time that may lie between two of them.
IDLE_SECONDS = 1.0
# Memory for packets that wait for a receiver: what it has no time for is no loss of the network.
RCVBUF = 16 << 20
# A machine that is busy ends later than it should.
LATE_SECONDS = 60.0
NANOSECONDS = 1_000_000_000
# Generators whose times may be far from any that is written.
UNBOUNDED = ("pareto", "file")
# Of a Poisson process one time in 500 million is longer than so many times the mean.
LONGEST = 20


def _sent(printed: str) -> SenderDocument:
    return parse(SenderDocument, printed, "the sender's document")


@dataclass(frozen=True)
class Ends:
    """The commands of a flow's two ends, and what reads what the sender printed."""

    receiver: list[str]
    sender: list[str]
    sent: Callable[[str], SenderDocument] = _sent


def ends(flow: Flow, sender: Host, receiver: Host, *, one_clock: bool) -> Ends:
    """Return the commands of a flow's receiver and sender."""
    address = receiver.addresses[flow.family]
    where = f"[{address}]:{flow.port}" if flow.family == 6 else f"{address}:{flow.port}"
    # With a rate the number of packets ends it, and its time only if that is not kept.
    count, late = (None, 0.0) if flow.rate is None else (_count(flow), LATE_SECONDS)
    limit = flow.seconds + late
    send: dict[str, object] = {
        "--to": where,
        "--seconds": f"{limit:g}",
        "--count": count,
        "--rate": flow.rate,
        "--interval": flow.interval,
        "--frame": flow.frame,
        "--size": flow.size,
        "--flows": flow.flows,
        "--batch": flow.batch,
        "--spin": f"{flow.spin:g}",
        "--seed": flow.seed,
        "--realtime": flow.realtime,
        "--cpu": flow.cpu,
    }
    receive: dict[str, object] = {
        "--bind": where,
        "--expect": count,
        "--interval": _interval(flow),
        "--idle": f"{IDLE_SECONDS + _longest(flow):g}",
        "--seconds": f"{limit + READY_SECONDS:g}",
        "--rcvbuf": RCVBUF,
        "--realtime": flow.receiver_realtime,
        "--cpu": flow.receiver_cpu,
    }
    receiving = [
        *(receiver.program, "receive", *_words(receive)),
        *(["--same-clock"] if one_clock else []),
    ]
    if flow.by == "pktgen":
        sending = bypktgen.argv(flow, sender, receiver, count, limit)
        return Ends([*receiving, "--device", PORT], sending, bypktgen.document)
    return Ends(
        receiving,
        [sender.program, "send", *_words(send), *(["--segment"] if flow.segment else [])],
    )


def _words(options: Mapping[str, object]) -> list[str]:
    """Return options with their values; without those that have none."""
    given = ((name, str(value)) for name, value in options.items() if value is not None)
    return [word for pair in given for word in pair]


def _interval(flow: Flow) -> str | None:
    """Return the one time that there is to be between packets; None if there are several."""
    if flow.rate is not None:
        return f"{NANOSECONDS / flow.rate:.3f}ns"
    if flow.interval is None or generators.parse(flow.interval, "time").constant is None:
        return None
    return flow.interval


def _longest(flow: Flow) -> float:
    """Return the longest time that may lie between two packets, in seconds."""
    if flow.rate is not None:
        return 2 / flow.rate
    if flow.interval is None:
        return 0.0
    found = generators.parse(flow.interval, "time")
    if found.kind in UNBOUNDED:
        return flow.seconds
    return min(LONGEST * max(found.values) / NANOSECONDS, flow.seconds)


def _count(flow: Flow) -> int:
    assert flow.rate is not None
    return max(2, round(flow.rate * flow.seconds))


def plan_of(file: TrafficFile, path: Path, published: Mapping[str, Published]) -> Plan:
    """Return what is asked for, as the run folder keeps it."""
    return Plan(
        experiment=file.name,
        question=file.question,
        seed=file.seed,
        baseline=file.setting[0].name,
        settings=tuple(setting.name for setting in file.setting),
        traffic=tuple(flow.name for flow in file.flow),
        again=f"./skblab traffic run {path}",
        parameters={
            **{f"flow {flow.name}": str(flow) for flow in file.flow},
            **parameters(
                {
                    setting.name: published[setting.published]
                    for setting in file.setting
                    if setting.published
                }
            ),
        },
    )


def told(file: TrafficFile) -> Iterator[str]:
    """Yield in lines what would run: flows, settings, and about how long all of it takes."""
    for flow in file.flow:
        yield f"flow {flow}: {flow.sender} to {flow.receiver}, {flow.seconds:g} s"
    for setting in file.setting:
        changes = [f"{key} = {value}" for key, value in setting.flow.items()]
        changes += [f"kernel {setting.kernel}"] if setting.kernel else []
        yield f"setting {setting.name}: {', '.join(changes) or 'as it stands'}"
    trials = file.repeats * len(file.setting)
    boots = " without boots" if in_guests(file) else ""
    yield f"{trials} trials, about {rough_time(file.seconds())}{boots}"


def in_guests(file: TrafficFile) -> bool:
    """Whether hosts are in guests, which are booted for each block."""
    return not file.hosts and file.where == "guest"


# Hosts with a kernel of this flavour, where there is a choice.
Up = Callable[[str | None], AbstractContextManager[Hosts]]


def recorded(file: TrafficFile, plan: Plan, up: Up, reporter: Reporter) -> RunFolder:
    """Run all trials in hosts that come up for them; return the run's folder.

    In guests each block has hosts of its own, with the kernels that settings ask for.
    """
    anew = in_guests(file)
    folder = RunFolder.create(paths.results(), file.name, plan)
    known: Environment | None = None
    with contextlib.ExitStack() as stack:
        stack.enter_context(recording(folder, lambda: known, reporter))
        trials = list(file.trials())
        advance = stack.enter_context(reporter.bar("trials", len(trials)))
        where = dict[str, None]()
        done = 0
        for (_, kernel), some in groupby(
            trials, lambda trial: (trial[0], trial[1].kernel) if anew else (0, None)
        ):
            with up(kernel) as hosts:
                known = known or hosts.environment()
                where[hosts.where] = None
                watch = Watch()
                begins(folder, watch, **hosts.kernels)
                for block, setting in some:
                    _trial(file, block, setting, hosts, watch, folder, reporter)
                    done += 1
                    advance(done)
        gaps = [f"Hosts were {joined(list(where))}."]
        if not hosts.one_clock:
            gaps.append("The hosts have clocks of their own: one-way delays are not known.")
        if file.differs:
            gaps.append(f"What differs from the study: {file.differs}")
        assert known is not None
        folder.finish(known, reporter.timings, gaps=gaps)
    return folder


def _trial(
    file: TrafficFile,
    block: int,
    setting: Setting,
    hosts: Hosts,
    watch: Watch,
    folder: RunFolder,
    reporter: Reporter,
) -> None:
    flows = [changed(flow, setting) for flow in file.flow]
    with watched(folder, watch, "wall", setting.name):
        found = exchange(flows, hosts)
    for flow, (sent, received) in zip(flows, found, strict=True):
        _record(folder, flow, block, setting, sent, received, reporter)


def _record(
    folder: RunFolder,
    flow: Flow,
    block: int,
    setting: Setting,
    sent: SenderDocument,
    received: ReceiverDocument,
    reporter: Reporter,
) -> None:
    trial = Exchanged(
        setting=setting.name,
        block=block,
        traffic=flow.name,
        rate=flow.rate,
        sender=sent,
        receiver=received,
    )
    try:
        folder.record(trial)
    except RefusedError as why:
        # It is recorded as invalid, and the others are worth measuring.
        reporter.say(f"block {block + 1}, {setting.name}, {flow.name}: {one_line(str(why))}")


def exchange(flows: Sequence[Flow], hosts: Hosts) -> list[tuple[SenderDocument, ReceiverDocument]]:
    """Run flows at once, and return what both ends of each said; SkblabError if a program fails.

    Each sender starts once all receivers are ready. Whatever is raised ends all of them.
    """
    pairs = [(hosts.by_name[flow.sender], hosts.by_name[flow.receiver]) for flow in flows]
    commands = [
        ends(flow, *pair, one_clock=hosts.one_clock)
        for flow, pair in zip(flows, pairs, strict=True)
    ]
    receivers: list[Running] = []
    senders: list[Running] = []
    try:
        for command, (_, host) in zip(commands, pairs, strict=True):
            receivers.append(host.transport.start(command.receiver))
        for running in receivers:
            running.wait_for("ready", READY_SECONDS)
        for command, (host, _) in zip(commands, pairs, strict=True):
            senders.append(host.transport.start(command.sender))
        found = []
        for flow, command, sender, receiver in zip(
            flows, commands, senders, receivers, strict=True
        ):
            limit = flow.seconds + 2 * LATE_SECONDS
            sent = ended(sender, f"the sender of {flow.name!r}", limit)
            received = ended(receiver, f"the receiver of {flow.name!r}", limit)
            found.append(
                (
                    command.sent(sent.stdout),
                    parse(ReceiverDocument, received.stdout, "the receiver's document"),
                )
            )
        return found
    except BaseException:
        stop((*senders, *receivers))
        raise
