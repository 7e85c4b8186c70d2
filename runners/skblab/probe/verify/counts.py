# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the probes' counts right? Cases of packets whose number is known otherwise.

A load of known length runs in a guest while a probe looks on. The programs at both ends, the
devices and the IP layers count as well, and all must agree to the packet:

    devices     packets received = paths of received and forwarded packets + merged + in flight;
                by the kernel's histograms, which count passes: = packets at driver; packets at
                xmit = transmitted + dropped + unclear
    IP          packets forwarded = paths of forwarded packets
    programs    UDP: datagrams read = paths that ended delivered, each seen at every point
                TCP, SCTP: messages arrived whole; as many paths delivered, and of forwarded
                packets transmitted, as they need at least, each seen at every point

Segmentation is switched off, so that a packet is a packet everywhere. Of scripts see agreement.py.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import product

from skblab.lab import kernel
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import TransportError
from skblab.machine.watch import Watch
from skblab.probe import loads, targets
from skblab.probe.backends import Probing, attached
from skblab.probe.guests import guest_of_ours
from skblab.probe.loads import Sent
from skblab.probe.request import BPF, HISTOGRAMS, HOOKS
from skblab.probe.targets import Target
from skblab.probe.verify import agreement
from skblab.probe.verify.agreement import SURE, UDP_POINTS
from skblab.probe.verify.plan import Backend, Case, boots
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, UsageError, understood
from skblab_analysis.base.whole import whole
from skblab_analysis.formats.ledger import of_probe
from skblab_analysis.formats.pathlat import InDocument, PathDocument, PathlatDocument, PathName
from skblab_analysis.formats.scripts import ScriptsDocument

# Longer than a delayed acknowledgement of SCTP, which has 200 ms.
QUIET_SECONDS = 0.5
SETTLE_SECONDS = 30
# Times that a case is tried, each at half the rate of the one before.
SLOWER = 5
# Times that it is tried to attach while no packet comes.
ATTEMPTS = 3
NAMESPACES = ("source", "router", "target")
ROUTER_DEVICES = ("r0", "r1")
# Of /proc/net/dev: name, packets received, packets not transmitted.
DEVICE = r"^\s*(\w+):\s*\d+\s+(\d+)(?:\s+\d+){9}\s+(\d+)(?:\s+\d+){4}$"
# Not on a path without a queueing discipline.
OPTIONAL = "dequeue"
# Of histograms: each datagram of the path passes each of these.
POINTS: dict[PathName, Sequence[str]] = {
    "receive": UDP_POINTS,
    "forward": SURE["forward"],
    "send": ("transport", "output", "queue", "xmit", "done"),
}


@dataclass(frozen=True)
class Counters:
    """What the kernel counted: packets that devices received, that IP forwarded.

    `refused` are those that the router's devices had no room to transmit.
    """

    received: int
    forwarded: int
    refused: int = 0

    @classmethod
    def parse(cls, text: str) -> Counters:
        """Add up /proc/net/dev, snmp and snmp6 of all namespaces.

        SkblabError if they are not as the kernel writes them.
        """
        with understood("what the kernel counts of devices and IP", text):
            devices = re.findall(DEVICE, text, re.MULTILINE)
            received = sum(whole(count) for name, count, _ in devices if name != "lo")
            refused = sum(whole(count) for name, _, count in devices if name in ROUTER_DEVICES)
            forwarded = sum(map(whole, re.findall(r"^Ip6OutForwDatagrams\s+(\S+)$", text, re.M)))
            for names, values in re.findall(r"^Ip: (\D.*)\nIp: (.*)$", text, re.MULTILINE):
                forwarded += whole(values.split()[names.split().index("ForwDatagrams")])
            return cls(received, forwarded, refused)

    def since(self, before: Counters) -> Counters:
        """Return what was counted after `before`."""
        return Counters(
            *(
                getattr(self, counter.name) - getattr(before, counter.name)
                for counter in fields(self)
            )
        )


@dataclass(frozen=True)
class Verdict:
    """What became of a case.

    `missed` events are those of which the back end itself says that it missed them; `before` has
    those of earlier tries.
    """

    case: Case
    backend: str
    packets: int
    complaints: tuple[str, ...]
    missed: int = 0
    before: tuple[int, ...] = ()


def prepare(target: Target) -> None:
    """Make the namespaces, with NAPI on every device and no segmentation."""
    loads.prepare(target.transport, napi=True)
    offloads = "tso off gso off tx-sctp-segmentation off tx-udp-segmentation off"
    target.transport.script(
        "for pair in source:s0 router:r0 router:r1 target:t0; do\n"
        f"ip netns exec ${{pair%:*}} ethtool -K ${{pair#*:}} {offloads}\ndone"
    ).check("switching segmentation off")


@dataclass(frozen=True)
class Count:
    """A case with some back ends at once, `packets` at `rate` a second; `tools` make these."""

    case: Case
    backends: Sequence[Backend]
    packets: int
    rate: int
    tools: tuple[LabRoot, Reporter]

    def run(self, target: Target) -> list[Verdict]:
        """Run it in a target that was prepared.

        A device of the guest may have had no room, and packets that were lost are not known. Or a
        back end says itself that it missed some, as when an interrupt in one of its programs brings
        packets that need the same program. Then once more, and slower.
        """
        before: list[tuple[int, ...]] = []
        watch = Watch({} if target.guest is None else {target.name: target.guest.console})
        watch.look()
        for slower in range(SLOWER):
            sent, found = _run(replace(self, rate=-(-self.rate >> slower)), target)
            if sent.received == self.packets and not any(verdict.missed for verdict in found):
                break
            before.append(tuple(verdict.missed for verdict in found))
        else:
            before.pop()
        said = tuple(map(str, watch.look()))
        return [
            replace(
                verdict,
                before=tuple(missed[at] for missed in before),
                complaints=(*verdict.complaints, *said),
            )
            for at, verdict in enumerate(found)
        ]


def _run(count: Count, target: Target) -> tuple[Sent, list[Verdict]]:
    _set_threaded(target, count.case.threaded)
    try:
        return _counted(count, target)
    except (TransportError, UsageError):
        raise
    except SkblabError as error:
        # Of one case: the others are still to be told of.
        said, packets = (str(error),), count.packets
        failed = [Verdict(count.case, backend.name, packets, said) for backend in count.backends]
        return Sent(packets, packets), failed


def _counted(count: Count, target: Target) -> tuple[Sent, list[Verdict]]:
    case, backends, packets = count.case, count.backends, count.packets
    with contextlib.ExitStack() as stack:
        before, probing = _attached(target, backends, count.tools, stack)
        sent = loads.run(target.transport, case.load, packets, count.rate)
        # The programs have gone, but their connections may still say good-bye.
        counted = _settled(target).since(before)
        documents = [probe.end() for probe in probing]
    verdicts = []
    for backend, text in zip(backends, documents, strict=True):
        said = []
        if backend.tool == BPF:
            document = parse(PathlatDocument, text, "the probe's document")
            said += complaints(case, packets, sent, counted, document)
            missed = document.samples.missed if document.samples else 0
            missed += document.hooks.kprobes_missed if document.hooks else 0
        else:
            found = parse(ScriptsDocument, text, "the scripts' document")
            udp = case.load.protocol == "udp"
            missed = sum(script.missed for script in found.scripts)
            if (sent.sent, sent.received) != (packets, packets):
                said.append(f"sent {sent.sent} and read {sent.received}, expected {packets}")
            said += agreement.complaints(found, udp, packets, *astuple(counted))
        verdicts.append(Verdict(case, backend.name, packets, tuple(said), missed))
    return sent, verdicts


def _attached(
    target: Target,
    backends: Sequence[Backend],
    tools: tuple[LabRoot, Reporter],
    stack: contextlib.ExitStack,
) -> tuple[Counters, list[Probing]]:
    """Attach the back ends; return the counters as they were all the time, and the probes.

    To attach takes seconds, in which a connection that has ended may still have something to say.
    Whether the probes saw that is not known: then once more.
    """
    for _ in range(ATTEMPTS):
        before = _settled(target)
        with contextlib.ExitStack() as trial:
            probing = [
                trial.enter_context(attached(backend.tool, target, backend.request, *tools))
                for backend in backends
            ]
            if _counters(target) == before:
                stack.enter_context(trial.pop_all())
                return before, probing
            for probe in probing:
                probe.end()
    raise SkblabError(f"packets came each time that {backends[0].name} was attached")


def _set_threaded(target: Target, threaded: bool) -> None:
    pairs = (("source", "s0"), ("router", "r0"), ("router", "r1"), ("target", "t0"))
    lines = [
        f"ip netns exec {netns} sh -c 'echo {int(threaded)} >/sys/class/net/{device}/threaded'"
        for netns, device in pairs
    ]
    target.transport.script("\n".join(lines)).check("setting threaded NAPI")


def _settled(target: Target) -> Counters:
    """Return the counters once they stand still."""
    deadline = time.monotonic() + SETTLE_SECONDS
    before = _counters(target)
    while True:
        time.sleep(QUIET_SECONDS)
        now = _counters(target)
        if now == before:
            return now
        if time.monotonic() > deadline:
            raise SkblabError(f"packets still come {SETTLE_SECONDS} s after the load")
        before = now


def _counters(target: Target) -> Counters:
    files = "/proc/net/dev /proc/net/snmp /proc/net/snmp6"
    lines = [f"ip netns exec {netns} cat {files}" for netns in NAMESPACES]
    return Counters.parse(target.transport.script("\n".join(lines)).check("counters").stdout)


def complaints(
    case: Case, packets: int, sent: Sent, counted: Counters, document: PathlatDocument
) -> list[str]:
    """Return every count that does not agree, in words."""
    found: list[str] = []
    _same(found, "packets or messages sent", sent.sent, packets)
    _same(found, "packets or messages read", sent.received, packets)
    receive, forward = document.path("receive"), document.path("forward")
    if document.in_ is not None:
        found += _of_passes(case, packets, counted, document, document.in_)
    else:
        found += _of_paths(counted, document)
        for path in (receive, forward):
            found += _unseen(path)
    if case.load.protocol == "udp":
        _same(found, "paths delivered", receive.ends.delivered, packets)
        onward = packets if case.load.forward else 0
        _same(found, "paths transmitted", forward.ends.transmitted, onward)
    else:
        # How a connection cuts and acknowledges its messages is its own affair, but all must come.
        least = case.load.least(packets)
        merged = document.merged
        if document.in_ is not None:
            # GRO's, which the histograms do not count but as what came in and did not go on.
            merged += document.in_.seen["driver"] - document.in_.seen.get("stack", 0)
        usual = [("delivered", receive.ends.delivered)]
        usual += [("transmitted", forward.ends.transmitted)] if case.load.forward else []
        for end, count in usual:
            if count + merged < least:
                found.append(f"paths {end}: {count}, expected at least {least}, or merged ones")
    found += _lost(document)
    return found


def _same(found: list[str], what: str, have: int, want: int) -> None:
    if have != want:
        found.append(f"{what}: {have}, expected {want}")


def _of_paths(counted: Counters, document: PathlatDocument) -> Iterator[str]:
    """Yield what does not agree of documents that have each packet's path once."""
    receive, forward = document.path("receive"), document.path("forward")
    in_flight = document.hooks.in_flight if document.hooks else 0
    # What GRO has made one is forwarded as one, and leaves as several: the first, and copies.
    paths = _ended(receive) + _ended(forward) + document.merged + in_flight
    if paths != counted.received:
        yield f"paths of packets that devices received: {paths}, expected {counted.received}"
    # One that the next device's ring has no room for was forwarded, too.
    if _ended(forward) != counted.forwarded:
        yield f"paths forwarded: {_ended(forward)}, expected {counted.forwarded}"


def _of_passes(
    case: Case, packets: int, counted: Counters, document: PathlatDocument, coming: InDocument
) -> list[str]:
    """Return what does not agree of histograms of all that pass."""
    found: list[str] = []
    receive, forward = document.path("receive"), document.path("forward")
    send = document.path("send")
    kernel = document.histograms
    assert kernel is not None
    _same(found, "packets at driver", coming.seen["driver"], counted.received)
    _same(found, "packets forwarded", forward.seen.get("forward", 0), counted.forwarded)
    # Segmentation is what these devices do not do, and all are virtual: done when the next has it.
    given = sum(path.seen.get("xmit", 0) for path in (forward, send))
    known = forward.ends.transmitted + send.ends.transmitted + kernel.dropped + kernel.unclear
    _same(found, "packets at xmit", given, known)
    if case.load.protocol == "udp":
        found += _of_datagrams(case, packets, counted, document, coming)
        _same(found, "sent by a socket", kernel.sent, packets)
        return found
    # A device may have no room for a packet behind `queue`.
    for path, (first, *points) in (
        (receive, ("local", "transport")),
        (forward, ("forward", "output", "queue")),
    ):
        for point in points:
            count, want = path.seen.get(point, 0), path.seen.get(first, 0)
            _same(found, f"{path.path}: {point}", count, want)
    # What TCP put into the segment before was in the socket's queue, too.
    least = receive.ended + document.merged
    if receive.seen.get("socket", 0) < least:
        found.append(f"receive: socket: {receive.seen.get('socket', 0)}, expected {least} or more")
    if receive.seen.get("wake", 0) < receive.ended:
        found.append(f"receive: wake: {receive.seen.get('wake', 0)}, expected {receive.ended}")
    return found


def _of_datagrams(
    case: Case, packets: int, counted: Counters, document: PathlatDocument, coming: InDocument
) -> list[str]:
    """Return the same of UDP, with neither GRO nor drops: each packet passes each point."""
    found: list[str] = []
    onward = packets if case.load.forward else 0
    _same(found, "in: stack", coming.seen.get("stack", 0), counted.received)
    for point in ("ip", "route"):
        count, least = coming.seen.get(point, 0), packets + onward
        # ARP and IPv6's own messages come in, too.
        if not least <= count <= counted.received:
            found.append(f"in: {point}: {count}, expected {least} to {counted.received}")
    wanted: dict[PathName, int] = {"receive": packets, "forward": onward, "send": packets}
    for name, want in wanted.items():
        seen = document.path(name).seen
        for point in POINTS[name]:
            _same(found, f"{name}: {point}", seen.get(point, 0), want)
    return found


def _ended(path: PathDocument) -> int:
    return sum(path.ends.model_dump().values())


def _unseen(path: PathDocument) -> list[str]:
    return [
        f"{path.path}: {count} of {path.ended} were seen at {point}"
        for point, count in path.seen.items()
        if count != path.ended and not (point == OPTIONAL and count == 0)
    ]


def _lost(document: PathlatDocument) -> list[str]:
    counts: dict[str, int] = dict(of_probe(0, "ns", document).unaccounted)
    if document.hooks is not None:
        counts["napis_refused"] = document.hooks.napis_refused
    return [f"{name}: {count}, expected 0" for name, count in counts.items() if count]


def of_all(
    request: kernel.Request,
    root: LabRoot,
    backends: list[Backend],
    chosen: list[Case],
    load: tuple[int, int],
    reporter: Reporter,
) -> list[Verdict]:
    """Count each case with each back end in guests with this kernel; `load`: packets and rate."""
    found: list[Verdict] = []
    with reporter.bar("verifying", len(backends) * len(chosen)) as done:
        for arguments, those_of_boot in boots(backends).items():
            of_guest = [backend for together in those_of_boot for backend in together]
            with (
                guest_of_ours(request, root, reporter, prepare, arguments=arguments) as target,
                targets.stamps_for(target, HISTOGRAMS if of_guest[0].patched else HOOKS),
            ):
                for together, case in product(those_of_boot, chosen):
                    verdicts = Count(case, together, *load, (root, reporter)).run(target)
                    _tell(verdicts, reporter)
                    found += verdicts
                    done(len(found))
    return found


def _tell(verdicts: Sequence[Verdict], reporter: Reporter) -> None:
    """Say at once what does not agree: the table comes after the last case."""
    for verdict in verdicts:
        if verdict.complaints:
            reporter.say(f"{verdict.backend}, {verdict.case}: {'; '.join(verdict.complaints)}")
