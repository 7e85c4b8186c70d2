# SPDX-License-Identifier: GPL-2.0-or-later
"""Our own sender as a tester's generator, in pktgen's place: `skblab-traffic send --device`.

It sends the same packets from the same device, and says of itself what came of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from skblab.machine.transport import Transport
from skblab.testbeds.asked import FIRST_PORT, MIXES, MOST_PACKETS
from skblab.testbeds.sending import Sending, Sent, Step
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.base.real import Real
from skblab_analysis.formats.pathlat import SenderDocument

NAME = "skblab-traffic"
# As generator.sh has them for pktgen: where packets are from and to, and the range of random ones.
FROM = {4: "198.18.0.2", 6: "2001:db8:0:1::2"}
TO = {4: f"198.19.0.2:{FIRST_PORT}", 6: f"[2001:db8:0:2::2]:{FIRST_PORT}"}
RANDOM = {
    4: "11.0.0.0-99.255.255.255",
    6: "2400::-240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
}
BATCH = 64
# Of a sending without a limit in time.
LONGEST_SECONDS = 600.0
# Which port of the tester, and the Ethernet address that packets of it go to.
WHOLE, ALONE = ("g0", "R0_MAC"), ("c0", "S1_MAC")


class _Document(SenderDocument):
    seconds: Real


@dataclass(frozen=True)
class Native:
    """The sender: `program` is where it is, `inside` what its command begins with.

    `cpu` is the one that it has, if not any; `batch`: frames that the kernel is given at once where
    so many are due; `xdp`: by AF_XDP, but for what is to pass the device's queue discipline.
    """

    program: str = NAME
    inside: tuple[str, ...] = ()
    cpu: int | None = None
    batch: int = BATCH
    xdp: bool = False

    @property
    def name(self) -> str:
        """Which generator it is."""
        return f"{NAME} by AF_XDP" if self.xdp else NAME

    @property
    def counts(self) -> bool:
        """The kernel does."""
        return False

    def argv(self, sending: Sending, macs: Mapping[str, str], tag: str = "") -> list[str]:
        """Return the command; `macs` are the ports' addresses by the names that tester.sh has."""
        device, mac = ALONE if sending.tester else WHOLE
        words = [*self.inside, self.program, "send", "--device", device, "--mac", macs[mac]]
        more = ["--batch", str(self.batch)]
        if self.cpu is not None:
            more += ["--cpu", str(self.cpu)]
        if self.xdp and not sending.by_queue:
            more.append("--xdp")
        return [*words, *_options(sending), *more, *(("--vlan", tag) if tag else ())]

    def send(
        self, transport: Transport, sending: Sending, macs: Mapping[str, str], tag: str
    ) -> Sent:
        """Send, and return what came of it; nothing is known of the sink yet."""
        argv = self.argv(sending, macs, tag)
        seconds = (sending.seconds or LONGEST_SECONDS) + LONGEST_SECONDS
        done = transport.run(argv, seconds=seconds).check("the generator")
        document = parse(_Document, done.stdout, "the sender's document")
        if sending.then and document.step is None:
            raise SkblabError("the generator did not come to the change of its rate")
        step = None
        if document.step is not None:
            number = document.step.sequence
            # When it was due. When it left is not told, but no packet of all was later than this.
            late_ns = document.late.max_ns if document.late else 0
            step = Step(number, number, (document.step.at_ns + late_ns) // 1000)
        return Sent(document.sent, document.unsent, round(document.seconds * 1e6), step)


def _plain(rate: float) -> str:
    """Return a rate to a millionth of a packet a second."""
    return f"{rate:.6f}".rstrip("0").rstrip(".")


def _options(sending: Sending) -> Iterator[str]:
    stream = sending.stream
    yield from ("--from", FROM[stream.family], "--to", TO[stream.family])
    if stream.destinations == "random":
        yield from ("--to-range", RANDOM[stream.family])
    frame = stream.frame
    if isinstance(frame, int):
        yield from ("--frame", str(frame))
    else:
        weights = ",".join(f"{size}*{weight}" for size, weight in MIXES[frame].items())
        yield from ("--frame", f"mix:{weights}")
    yield from ("--flows", str(stream.flows), "--source-port", str(FIRST_PORT))
    if sending.packets < MOST_PACKETS:
        yield from ("--count", str(sending.packets))
    if sending.rate:
        yield from ("--rate", _plain(sending.rate))
    if sending.then:
        yield from ("--then", _plain(sending.then), "--after", f"{sending.after:g}")
    yield from ("--seconds", f"{sending.seconds or LONGEST_SECONDS:g}")
    if sending.by_queue:
        yield "--queue"
