# SPDX-License-Identifier: GPL-2.0-or-later
"""Running a traffic file: trial by trial, all flows at once, and a record of each flow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Literal

from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab.machine.recording import begins, recording, watched
from skblab.machine.transport import Running
from skblab.machine.watch import Watch
from skblab.testbeds.traffic import ended, finished, stop
from skblab.traffic.clock_lines import Line
from skblab.traffic.clocks import Clocks, Pair
from skblab.traffic.ends import LATE_SECONDS, READY_SECONDS, Ends, Head, ends
from skblab.traffic.flow import Flow
from skblab.traffic.hosts import Hosts
from skblab.traffic.plan import Setting, TrafficFile, changed
from skblab.traffic.tcp import TcpFlow
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.errors import one_line
from skblab_analysis.base.words import joined, rough_time
from skblab_analysis.formats.published import Published, parameters
from skblab_analysis.formats.run import Environment, Plan
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.traffic.rows import Exchanged


def plan_of(file: TrafficFile, path: Path, published: Mapping[str, Published]) -> Plan:
    """Return what is asked for, as the run folder keeps it."""
    return Plan(
        experiment=file.name,
        question=file.question,
        seed=file.seed,
        baseline=file.setting[0].name,
        settings=tuple(setting.name for setting in file.setting),
        traffic=tuple(flow.name for flow in file.flows),
        again=f"./skblab traffic run {path}",
        parameters={
            **{f"flow {flow.name}": str(flow) for flow in file.flows},
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
    for flow in file.flows:
        yield f"flow {flow}: {flow.sender} to {flow.receiver}, {flow.seconds:g} s"
    for setting in file.setting:
        changes = [f"{key} = {value}" for key, value in setting.flow.items()]
        changes += [f"{key} = {value} (TCP)" for key, value in setting.tcp.items()]
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
                clocks = None if hosts.one_clock else Clocks(hosts)
                watch = Watch()
                begins(folder, watch, **hosts.kernels)
                for block, setting in some:
                    _trial(file, block, setting, (hosts, clocks), watch, folder, reporter)
                    done += 1
                    advance(done)
        gaps = [f"Hosts were {joined(list(where))}."]
        if not hosts.one_clock and file.flow:
            gaps.append(
                "The hosts have clocks of their own, which were compared before and after each "
                "trial: one-way delays may be off by what the tables say."
            )
        if file.differs:
            gaps.append(f"What differs from the study: {file.differs}")
        assert known is not None
        folder.finish(known, reporter.timings, gaps=gaps)
    return folder


def _trial(
    file: TrafficFile,
    block: int,
    setting: Setting,
    place: tuple[Hosts, Clocks | None],
    watch: Watch,
    folder: RunFolder,
    reporter: Reporter,
) -> None:
    hosts, clocks = place
    flows = [changed(flow, setting) for flow in file.flows]
    told = clocks.lines(flows) if clocks else {}
    with watched(folder, watch, "wall", setting.name):
        found = exchange(flows, hosts, told)
    off = clocks.off(flows, told) if clocks else {}
    for flow, (command, sent, received) in zip(flows, found, strict=True):
        head = Head(setting=setting.name, block=block, traffic=flow.name)
        name = f"block {block + 1}, {setting.name}, {flow.name}"
        try:
            measured = command.measured(head, sent, received)
            if isinstance(measured, Exchanged) and clocks:
                measured = measured.by_clocks(off[_names(flow)])
                if why := measured.receiver.delay_unknown:
                    reporter.say(f"{name}: one-way delays are not known: {why}")
            folder.record(measured)
        except RefusedError as why:
            # It is recorded as invalid, and the others are worth measuring.
            reporter.say(f"{name}: {one_line(str(why))}")


def exchange(
    flows: Sequence[Flow | TcpFlow], hosts: Hosts, told: Mapping[Pair, Line | str] | None = None
) -> list[tuple[Ends, str, str]]:
    """Run flows at once, and return what sender and receiver of each printed.

    `told` has what clocks of several machines differ by, or why that is not known. Each sender
    starts once all receivers are ready. Whatever is raised ends all of them; SkblabError if a
    program fails.
    """
    pairs = [(hosts.by_name[flow.sender], hosts.by_name[flow.receiver]) for flow in flows]
    commands = [
        ends(flow, *pair, "one" if hosts.one_clock else _known((told or {}).get(_names(flow))))
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
            limit = flow.longest + 2 * LATE_SECONDS
            name = f"the sender of {flow.name!r}"
            sent = command.sent(finished(sender, name, limit), name)
            if command.serves:
                receiver.interrupt()
            received = ended(receiver, f"the receiver of {flow.name!r}", limit)
            found.append((command, sent, received.stdout))
        return found
    except BaseException:
        stop((*senders, *receivers))
        raise


def _names(flow: Flow | TcpFlow) -> Pair:
    return flow.sender, flow.receiver


def _known(told: Line | str | None) -> Line | Literal["apart"]:
    return told if isinstance(told, Line) else "apart"
