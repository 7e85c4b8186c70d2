# SPDX-License-Identifier: GPL-2.0-or-later
"""The testbeds whose router is a guest with network cards: packets pass, queues and interrupts are
real, and nothing is left. Its tester is this machine, or pktgen in another guest.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import schema_checks

import killed
from conftest import links
from delivered import LEAST, delivered
from retries import no_retries
from skblab.knobs.applying import applying
from skblab.knobs.values import Value
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.machine.counters import difference
from skblab.sweep.experiment import Experiment
from skblab.testbeds import GUESTS, VIRTIO, GuestKind, Sending
from skblab.testbeds import Testbed as Bed
from skblab.testbeds.asked import Stream
from skblab.testbeds.base import Offered
from skblab_analysis.base.errors import SkblabWarning
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.load import load
from skblab_analysis.work import summary as work_summary
from skblab_analysis.work.rows import Kind

pytestmark = pytest.mark.guest

COUNT = 4000
EXPERIMENT = Experiment.model_validate(
    {"name": "few", "question": "?", "measure": {"throughput": {}}}
)
FILE = """
name = "few-queues"
question = "Do queues and threads show?"
[traffic]
frame = [128]
flows = [32]
[[setting]]
name = "NAPI threads, interrupts to CPU 0"
knobs = { threaded = true, irq_affinity = "all 0" }
[measure.throughput]
goals = ["ndr"]
seconds = 0.3
trials = 1
width = 0.4
[measure.latency]
rates = [200]
seconds = 1
[repeats]
least = 1
most = 1
"""


@contextlib.contextmanager
def up(kind: GuestKind, stock: Kernel, lab: LabRoot, folder: Path) -> Iterator[Bed]:
    """Have a testbed of this kind, whose kernels complain of nothing and which leaves nothing."""
    before = links()
    spec = make_spec(cpus=kind.cpus(EXPERIMENT))
    with kind.up(EXPERIMENT, spec, stock, stock, lab, (), folder / "console.log") as (guest, made):
        made.prepare(EXPERIMENT.traffic)
        # Taps and bridges are not among the host's.
        assert links() == before
        yield made
        assert guest.console.warnings() == []
    assert links() == before


@pytest.fixture(scope="module")
def testbed(stock: Kernel, lab: LabRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with up(VIRTIO, stock, lab, tmp_path_factory.mktemp("virtio")) as made:
        yield made


@pytest.fixture(scope="module")
def beside_pktgen(
    stock: Kernel, lab: LabRoot, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with up(GUESTS["virtio-pktgen"], stock, lab, tmp_path_factory.mktemp("pktgen")) as made:
        yield made


def complete(testbed: Bed, sending: Sending) -> Offered:
    """Return what came of an offer of which nothing got lost, as it may while an emulator waits.

    Of three one after the other it does not get lost for that.
    """
    for _ in range(3):
        offered = testbed.offer(sending)
        assert LEAST * offered.sent <= offered.received <= offered.sent
        if offered.received == offered.sent == sending.packets:
            return offered
        lost = f"{offered.received} of {sending.packets} packets came: they are offered again"
        warnings.warn(lost, SkblabWarning, stacklevel=2)
    raise AssertionError(offered)


@pytest.mark.slow
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("tester", [False, True], ids=["whole", "tester"])
def test_every_packet_comes(testbed: Bed, family: int, tester: bool) -> None:
    stream = Stream.model_validate({"family": family, "frame": 128, "flows": 8})
    offered = complete(testbed, Sending(stream, COUNT, rate=2000, tester=tester))
    # A kernel now and then sends a packet of its own, which the sink drops elsewhere.
    assert COUNT <= offered.forwarded <= COUNT + 3


@pytest.mark.slow
@pytest.mark.parametrize("tester", [False, True], ids=["whole", "tester"])
def test_every_packet_of_pktgens_comes(beside_pktgen: Bed, tester: bool) -> None:
    stream = Stream(family=4, frame=128, flows=8)
    offered = complete(beside_pktgen, Sending(stream, COUNT, rate=2000, tester=tester))
    assert COUNT <= offered.forwarded <= COUNT + 3


@pytest.mark.slow
@pytest.mark.parametrize("bed", ["testbed", "beside_pktgen"])
def test_an_overload_stops_no_queue(bed: str, request: pytest.FixtureRequest) -> None:
    made: Bed = request.getfixturevalue(bed)
    stream = Stream(family=4, frame=128, flows=64)
    overload = made.offer(Sending(stream, 100_000, seconds=2))
    assert overload.received < overload.tried
    complete(made, Sending(stream, COUNT, rate=2000))


@pytest.mark.slow
def test_frames_are_as_they_are_asked_for(testbed: Bed) -> None:
    """Of all kinds of traffic each packet passes the router, which believes its checksums."""
    for traffic in (
        {"frame": "ams-ix", "flows": 32},
        {"frame": 1518, "flows": 1},
        {"family": 6, "frame": 82, "flows": 32},
    ):
        stream = Stream.model_validate({"family": 4, **traffic})
        complete(testbed, Sending(stream, COUNT, rate=2000))


@pytest.mark.slow
def test_a_rate_changes_at_its_packet(testbed: Bed) -> None:
    stream = Stream(family=4, frame=128, flows=8)
    sending = Sending(stream, 1500, rate=1000, seconds=5, then=500.0, after=1.0)
    step = testbed.offer(sending).step
    assert step is not None
    assert (step.before, step.after) == (1000, 1000)
    # A machine that stood still sends the packet late, and the sender says by how much.
    assert 1_000_000 <= step.microseconds < 1_500_000


def shares(testbed: Bed, kind: Kind, name: str) -> dict[int | None, int]:
    """Send packets of many flows, and return what was counted by CPU."""
    before = testbed.counters()
    complete(testbed, Sending(Stream(family=4, frame=128, flows=64), COUNT, rate=2000))
    found: dict[int | None, int] = {}
    for change in difference(before, testbed.counters()):
        if change.kind == kind and change.name.endswith(name):
            found[change.cpu] = found.get(change.cpu, 0) + change.value
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), [(4, "IpForwDatagrams"), (6, "Ip6OutForwDatagrams")])
def test_ip_and_qdiscs_count_each_packet(testbed: Bed, family: Literal[4, 6], name: str) -> None:
    before = testbed.counters()
    offered = complete(
        testbed, Sending(Stream(family=family, frame=128, flows=8), COUNT, rate=2000)
    )
    rises = {
        (change.kind, change.name): change.value
        for change in difference(before, testbed.counters())
    }
    assert rises["protocol", name] == offered.forwarded == COUNT
    # Whatever qdisc the kernel gives a network card; it may send packets of its own.
    assert (
        max(
            value
            for (kind, name), value in rises.items()
            if kind == "qdisc" and name.startswith("r1 ") and name.endswith(" root packets")
        )
        >= COUNT
    )
    assert rises["numa", "node0 numa_hit"] > 0
    # Of states, of other devices' qdiscs and of what is not there no row tells.
    assert not [name for _, name in rises if name.startswith(("lo ", "IpForwarding"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knobs", "cpus"),
    [
        ({"irq_affinity": "all 0"}, {0}),
        ({"irq_affinity": "all 1"}, {1}),
        ({"irq_affinity": "spread"}, {0, 1}),
    ],
    ids=str,
)
def test_interrupts_come_where_they_are_sent(
    testbed: Bed, tmp_path: Path, knobs: dict[str, Value], cpus: set[int]
) -> None:
    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        assert [applied for applied in applier.apply(knobs) if applied.invalid] == []
        inputs = shares(testbed, "softirq", "NET_RX")
    most = sum(inputs.values())
    assert {cpu for cpu, value in inputs.items() if value > most / 10} == cpus


@pytest.mark.slow
def test_one_queue_of_rss_has_all_flows(testbed: Bed, tmp_path: Path) -> None:
    def queues() -> set[str]:
        """Return the queues of r0 that interrupted more than now and then."""
        before = testbed.counters()
        sending = Sending(Stream(family=4, frame=128, flows=64), COUNT, rate=2000)
        complete(testbed, sending)
        found: dict[str, int] = {}
        for change in difference(before, testbed.counters()):
            if (
                change.kind == "interrupt"
                and change.name.startswith("r0 ")
                and "input" in change.name
            ):
                found[change.name] = found.get(change.name, 0) + change.value
        return {name for name, count in found.items() if count > sum(found.values()) / 10}

    assert len(queues()) == 2
    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        assert [applied for applied in applier.apply({"rss": "equal 1"}) if applied.invalid] == []
        [one] = queues()
        assert one.endswith("input.0")


@pytest.mark.slow
def test_threads_poll_where_they_are_asked_to(testbed: Bed, tmp_path: Path) -> None:
    def threads() -> set[str]:
        """Return the devices whose NAPI threads ran while packets were sent."""
        before = testbed.counters()
        testbed.offer(Sending(Stream(family=4, frame=128, flows=64), COUNT, rate=2000))
        found = [
            change for change in difference(before, testbed.counters()) if change.kind == "thread"
        ]
        names = [
            change.name for change in found if change.name.startswith("napi/") and change.value > 0
        ]
        return {name.removeprefix("napi/").partition("-")[0] for name in names}

    assert threads() == set()
    with applying(testbed.transport, testbed.machine, tmp_path / "undo.jsonl") as applier:
        assert [applied for applied in applier.apply({"threaded": True}) if applied.invalid] == []
        assert threads() == {"r0", "r1"}
    assert threads() == set()


def test_a_sweep_with_a_guest_that_is_killed_and_resumed(stock: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "few-queues.toml"
    file.write_text(FILE)
    results = tmp_path / "results"
    before = links()
    folder = killed.sweep(["sweep", str(file), "--testbed", "virtio"], results, 3)
    assert links() == before
    assert len(load(folder).trials) >= 3
    killed.resume(folder)
    assert links() == before
    run = load(folder)
    assert run.document.state == "finished"
    assert {row.state for row in run.trials} == {"good"}
    keys = [(row.setting, row.measure) for row in run.trials]
    # Each boot has its tester; baseline twice and a setting are each measured in two ways, once.
    assert keys.count(("tester", "tester")) == 2
    assert len(keys) - 2 == len(set(keys)) - 1 == 6
    works = {work.setting: work for work in work_summary.of(run)}
    threads = works["NAPI threads, interrupts to CPU 0"]
    assert threads.napi_ns > 0 == works["baseline"].napi_ns
    # All that this has interrupts CPU 0. One of each queue may still come to its old CPU: there the
    # kernel moves it (irq_move_irq), and under load that first one comes when the trial has begun.
    late = sum(count for cpu, count in threads.interrupts.items() if cpu != 0)
    assert late <= 4 and threads.interrupts[0] > 100
    assert run.document.environment is not None
    facts = run.document.environment.more
    assert "driver: virtio_net" in facts["router r0 driver"]
    # "virtio1-input.0 CPU 0; …"
    assert "input.0 CPU " in facts["router r1 IRQ affinity"]
    assert "Combined 2" in facts["router r0 queues"]
    [latency] = latency_summary.of(run)
    assert len(latency.delays) == 3
    for delay in latency.delays:
        delivered(delay, 200)
    # Killed from outside, and never lost.
    no_retries(run)
    schema_checks.folder_fits(folder)
    assert run.document.plan.again.endswith("--testbed virtio")
    assert (folder / "logs" / "console-wall-0.log").exists()
