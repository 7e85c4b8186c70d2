# SPDX-License-Identifier: GPL-2.0-or-later
"""What the machines of a hosts file can do, before any sweep: `skblab doctor --hosts FILE`.

Its testbed comes up as a sweep has it: ports are taken, packets are sent, and all is given back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from skblab.doctor.checks import Check
from skblab.lab import labroot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import Transport
from skblab.sweep.experiment import Experiment
from skblab.sweep.hostmachines import HostMachines, our_sender
from skblab.sweep.planned import Boot
from skblab.testbeds import hostsfile
from skblab.testbeds.asked import Stream, Traffic
from skblab.testbeds.base import CableError
from skblab.testbeds.hosts import Hosts
from skblab.testbeds.hostsfile import HostsFile
from skblab.testbeds.sending import Sending
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.base.words import counted, number

# The smallest frames: a tester that keeps up with these keeps up with all.
STREAM = Stream(family=4, frame=64, flows=32)
SECONDS = 1.0
# More than any port sends in that time.
PACKETS = 200_000_000
# A router that forwards more of what is sent is hardly the bottleneck.
ENOUGH = 0.98
# What a command is good for, that a sweep on hosts may ask for.
TOOLS = {
    "nft": "no knob `netfilter`",
    "perf": "no `[measure.events]` by perf, and no `[measure.samples]`",
}


def run_all(file: Path, reporter: Reporter) -> Iterator[Check]:
    """Yield what is found, check by check, until one makes the rest impossible.

    Raises UsageError for a file that is no hosts file.
    """
    wanted = hostsfile.read(file)
    experiment = Experiment.model_validate(
        {"name": "doctor", "question": "What is there?", "measure": {"throughput": {}}}
    )
    root = labroot.ensure(reporter)
    machines = HostMachines(wanted, experiment, reporter, our_sender(root, reporter), job="doctor")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(machines.alone())
            # Hosts are not booted, so there is no console to be kept.
            testbed = stack.enter_context(machines.up(Boot(0, {}, ()), Path(os.devnull)))
        except SkblabError as error:
            yield _failed("machines", error, "no sweep can run on them")
            return
        assert isinstance(testbed, Hosts)
        assert machines.known is not None
        facts = machines.known.more
        yield from _machines(wanted, facts)
        yield from _ports(wanted, facts)
        yield from _tools(wanted, testbed)
        try:
            testbed.prepare(Traffic())
            yield Check(
                name="cables",
                status="good",
                found="packets come from the generator through the router to the sink",
                means="the ports are joined as the hosts file has it",
            )
            yield from _rates(testbed, facts)
        except CableError as error:
            means = "packets do not come from the generator to the sink"
            yield _failed(
                "cables", error, means, "look at the cables, and at the ports in the hosts file"
            )
        except SkblabError as error:
            yield _failed("packets", error, "a trial of a sweep would fail so, too")


def _failed(
    name: str,
    error: SkblabError,
    means: str,
    mend: str = "do what that line says, then run this again",
) -> Check:
    return Check(name=name, status="missing", found=one_line(str(error)), means=means, mend=mend)


def _machines(file: HostsFile, facts: dict[str, str]) -> Iterator[Check]:
    for name, ssh in (("router", file.router.ssh), ("tester", file.tester.ssh)):
        own = {key.removeprefix(f"{name} "): value for key, value in facts.items()}
        nodes = sum(key.startswith(f"{name} CPUs of NUMA") for key in facts) or 1
        found = (
            f"{ssh}: Linux {own['release']}, {own.get('CPU', 'CPU not known')}, "
            f"{counted(int(own['CPUs']), 'CPU')}, {counted(nodes, 'NUMA node')}"
        )
        yield Check(
            name=name,
            status="good",
            found=found,
            means="reached, as root; its ports were taken and are given back",
        )
    if facts.get("router irqbalance"):
        yield Check(
            name="irqbalance",
            status="limited",
            found="runs on the router",
            means="it moves interrupts that a setting has put somewhere: such a trial is void",
            mend="systemctl stop irqbalance, on the router, while you measure interrupts",
        )


NODE = "NUMA node"
# Checks that rates are nothing worth with, if they are limited.
SPOILING = ("flow control", "rate")


def _ports(file: HostsFile, facts: dict[str, str]) -> Iterator[Check]:
    for short, port in zip(("r0", "r1"), file.router.ports, strict=True):
        told = [
            f"{'NUMA node ' if about == NODE else ''}{facts[key].rstrip(';')}"
            for about in ("driver", "link", "queues", NODE)
            # A device that belongs to no node says -1.
            if (key := f"router {short} {about}") in facts and facts[key].strip("; ") != "-1"
        ]
        yield Check(
            name=f"router's {port}",
            status="good",
            found="; ".join(told) or "a device that tells nothing of itself",
            means=f"messages and the report call it {short}",
        )
        if "on" in facts.get(f"router {short} flow control", "").replace(";", "").split():
            yield Check(
                name=SPOILING[0],
                status="limited",
                found=f"on at the router's {port}",
                means="a full router stops the generator, and nothing is ever lost",
                mend=f"ethtool -A {port} rx off tx off, on the router",
            )


def _tools(file: HostsFile, testbed: Hosts) -> Iterator[Check]:
    for tool, means in TOOLS.items():
        there = _has(testbed.transport, f"command -v {tool}")
        yield Check(
            name=tool,
            status="good" if there else "limited",
            found=f"{'there' if there else 'not'} on {file.router.ssh}",
            means="measures and knobs that need it can be had" if there else means,
            mend="" if there else f"install it on {file.router.ssh}, if you want that",
        )
    if not file.tester.apart:
        there = _has(testbed.tester, "test -r /sys/kernel/btf/vmlinux")
        yield Check(
            name="BTF",
            status="good" if there else "limited",
            found=f"{'there' if there else 'not'} on {file.tester.ssh}",
            means="latency can be measured" if there else "no `[measure.latency]`",
            mend="" if there else "boot a kernel with CONFIG_DEBUG_INFO_BTF there",
        )


def _has(transport: Transport, ask: str) -> bool:
    return transport.run(["sh", "-c", f"{ask} >/dev/null 2>&1"]).status == 0


def _rates(testbed: Hosts, facts: dict[str, str]) -> Iterator[Check]:
    """Yield what the tester sends at most, and what of it the router forwards."""
    by = facts["tester generator"]
    if testbed.loop:
        alone = testbed.offer(Sending(STREAM, PACKETS, seconds=SECONDS, tester=True))
        most = alone.received / (alone.microseconds / 1e6)
        yield Check(
            name="tester alone",
            status="good",
            found=f"{number(round(most))} packets/s of {STREAM}, by {by}, over its loop",
            means="where the router comes near it, the tester is the bottleneck",
        )
    else:
        yield Check(
            name="tester alone",
            status="limited",
            found="not known: the hosts file has no loop",
            means="whether the router or the tester lost packets is not known",
            mend="join two more of the tester's ports, and name them: loop = [ONE, OTHER]",
        )
    found = testbed.offer(Sending(STREAM, PACKETS, seconds=SECONDS))
    took = found.microseconds / 1e6
    sent, forwarded = found.sent / took, found.forwarded / took
    said = (
        f"{number(round(sent))} packets/s of {STREAM} sent by {by}, and "
        f"{number(round(forwarded))} packets/s of them forwarded"
    )
    if found.forwarded < ENOUGH * found.sent:
        means = "the tester sends more than the router forwards"
        yield Check(name="rate", status="good", found=said, means=means)
        return
    yield Check(
        name=SPOILING[1],
        status="limited",
        found=said,
        means="the router forwards nearly all of it: no setting that makes it faster will be seen",
        mend="use another tester (docs/howto/use-another-tester.md), or give the router more to do",
    )
