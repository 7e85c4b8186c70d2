# SPDX-License-Identifier: GPL-2.0-or-later
"""The clocks of hosts that are several machines: compared before and after each trial.

The flow's sender probes an echo at its receiver, by the flow's address and port, while none runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from skblab.testbeds.traffic import ended, finished, stop
from skblab.traffic.clock_lines import Compared, Line, line, off_by, was_set
from skblab.traffic.ends import READY_SECONDS, where
from skblab.traffic.flow import Flow
from skblab.traffic.hosts import Host, Hosts
from skblab.traffic.tcp import TcpFlow
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.traffic import ClockDocument

Pair = tuple[str, str]
PROBES = 200
# Longer than all probes take, if none comes back.
PROBING_SECONDS = 60
SET = "a clock was set while packets were sent"


class Clocks:
    """What is known of the clocks of senders and receivers, by their names."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._known: dict[Pair, list[Compared]] = defaultdict(list)
        # Of whom no probe came back, and why: they are not asked again.
        self._lost: dict[Pair, str] = {}

    def lines(self, flows: Iterable[Flow | TcpFlow]) -> dict[Pair, Line | str]:
        """Compare the clocks of all flows' hosts; return what receivers are told, or why not."""
        return {
            pair: found if isinstance(found, str) else line(self._known[pair])
            for pair, found in self._compared(flows).items()
        }

    def off(
        self, flows: Iterable[Flow | TcpFlow], told: Mapping[Pair, Line | str]
    ) -> dict[Pair, int | str]:
        """Compare them again after a trial; return by how much lines were off, ns, or why not."""
        befores = {pair: known[-1] for pair, known in self._known.items() if known}
        found: dict[Pair, int | str] = {}
        for pair, after in self._compared(flows).items():
            used, before = told[pair], befores.get(pair)
            if isinstance(used, str):
                found[pair] = used
            elif isinstance(after, str):
                found[pair] = after
            else:
                assert before is not None
                off = off_by(used, before, after)
                found[pair] = SET if off is None else off
        return found

    def _compared(self, flows: Iterable[Flow | TcpFlow]) -> dict[Pair, Compared | str]:
        """Return by pair of hosts how their clocks differ now, or why that is not known."""
        found: dict[Pair, Compared | str] = {}
        for flow in flows:
            pair = (flow.sender, flow.receiver)
            if isinstance(flow, TcpFlow) or pair in found:
                continue
            found[pair] = self._lost.get(pair) or self._compare(pair, flow)
        return found

    def _compare(self, pair: Pair, flow: Flow) -> Compared | str:
        sender, receiver = (self._hosts.by_name[name] for name in pair)
        known = self._known[pair]
        try:
            document = probe(sender, receiver, flow)
        except SkblabError as error:
            return one_line(str(error))
        compared = Compared.of(document)
        if compared is None:
            # What was before says nothing of what is after this.
            known.clear()
            why = document.unknown or "it is not known why"
            if not document.answered:
                # It took as long as all probes may, and would again.
                self._lost[pair] = why
            return why
        if known and was_set(known[-1], compared):
            known.clear()
        known.append(compared)
        return compared


def probe(sender: Host, receiver: Host, flow: Flow) -> ClockDocument:
    """Return how far the receiver's clock is ahead of the sender's; SkblabError if that fails."""
    there = where(flow, receiver)
    name = f"the clocks of {flow.sender!r} and {flow.receiver!r}"
    started = [
        receiver.transport.start(
            [receiver.program, "echo", "--bind", there, "--seconds", str(PROBING_SECONDS)]
        )
    ]
    try:
        started[0].wait_for("ready", READY_SECONDS)
        argv = [sender.program, "clock", "--to", there, "--count", str(PROBES)]
        started.append(sender.transport.start(argv))
        done = finished(started[1], name, PROBING_SECONDS)
        started[0].interrupt()
        ended(started[0], f"the echo for {name}", PROBING_SECONDS)
    except BaseException:
        stop(reversed(started))
        raise
    # With status 1 nothing is known, and the document says why.
    text = done.stdout if done.status == 1 and done.stdout.strip() else done.check(name).stdout
    return parse(ClockDocument, text, "the document of compared clocks")
