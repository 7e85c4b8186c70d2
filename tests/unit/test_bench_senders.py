# SPDX-License-Identifier: GPL-2.0-or-later
"""The rate of senders beside pktgen: what is made of rounds, and of a kernel that complains."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import rich.console

from skblab.bench import senders
from skblab.lab import kernel, tools
from skblab.lab.guest.console import Console
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport.base import Done
from skblab.machine.watch import Watch
from skblab.testbeds import Testbed as Bed
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.errors import SkblabError

WARNING = "WARNING: CPU: 0 PID: 7 at net/core/dev.c:1 f+0x1/0x2"
PACKETS, ROUNDS = 1000, 2


class Lab:
    """A guest whose kernel says what is wanted when something is done, and its two senders."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.says: dict[str, str] = {}
        self.rounds = {"pktgen": 0, "ours": 0}
        self.told = io.StringIO()

    def at(self, what: str) -> None:
        if line := self.says.get(what):
            with self.log.open("a") as console:
                console.write(f"[    1.000000] {line}\n")

    @contextlib.contextmanager
    def up(self, *_: object) -> Iterator[tuple[None, object]]:
        tester = SimpleNamespace(script=lambda _: Done(0, "", ""))
        watch = Watch({"guest": Console(self.log)})
        yield None, SimpleNamespace(prepare=self.prepare, tester=tester, watch=watch)
        self.at("the end")

    def prepare(self, _: object) -> None:
        self.at("the set-up")

    def sender(self, name: str, rate: float) -> Callable[[Bed, int], float]:
        def send(_: Bed, packets: int) -> float:
            assert packets == PACKETS
            self.rounds[name] += 1
            self.at(f"{name} {self.rounds[name]}")
            return rate * self.rounds[name]

        return send

    def measure(self) -> tuple[str, list[senders.Measured]]:
        reporter = Reporter()
        reporter.console = rich.console.Console(file=self.told)
        return senders.measure(PACKETS, ROUNDS, cast(LabRoot, None), reporter, self.log)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path / "console.log")
    built: Any = SimpleNamespace(release="6.12-test")
    monkeypatch.setattr(kernel, "ensure", lambda *_: built)
    monkeypatch.setattr(tools, "ensure", lambda *_: tmp_path)
    monkeypatch.setattr(senders, "NETNS", made)
    monkeypatch.setattr(
        senders,
        "SENDERS",
        {"pktgen": made.sender("pktgen", 100.0), "ours": made.sender("ours", 50.0)},
    )
    return made


def test_every_sender_has_its_rate_of_each_round(lab: Lab) -> None:
    release, [peer, ours] = lab.measure()
    assert release == "6.12-test"
    assert (peer.rates, ours.rates) == ((100.0, 200.0), (50.0, 100.0))
    assert (ours.rate, ours.ratio(peer)) == (75.0, 0.5)
    assert lab.told.getvalue().count("before the first round") == 0


def test_a_rate_at_which_the_kernel_complained_is_none(lab: Lab) -> None:
    lab.says = {"ours 2": WARNING}
    with pytest.raises(RefusedError) as refused:
        lab.measure()
    assert str(refused.value) == (
        f"ours, round 2, on kernel 6.12-test: kernel warning (guest): {WARNING}"
    )


def test_what_the_kernel_says_last_counts_as_well(lab: Lab) -> None:
    lab.says = {"the end": WARNING}
    with pytest.raises(RefusedError, match=r"^after the last round, on kernel 6\.12-test: kernel"):
        lab.measure()


def test_what_the_kernel_says_before_is_told_and_of_no_sender(lab: Lab) -> None:
    lab.says = {"the set-up": WARNING}
    _, found = lab.measure()
    assert [len(one.rates) for one in found] == [ROUNDS, ROUNDS]
    told = " ".join(lab.told.getvalue().split())
    assert f"before the first round: kernel warning (guest): {WARNING}" in told


@pytest.mark.parametrize(("packets", "microseconds"), [(0, 5), (9, 0)])
def test_a_sender_that_reached_no_rate(packets: int, microseconds: int) -> None:
    offered = SimpleNamespace(tried=packets, microseconds=microseconds)
    testbed = cast(Bed, SimpleNamespace(offer=lambda _: offered))
    with pytest.raises(SkblabError, match=f"no rate: {packets} packets in {microseconds} µs"):
        senders.SENDERS[senders.PEER](testbed, PACKETS)
