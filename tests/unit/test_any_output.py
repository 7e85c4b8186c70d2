# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a tool or the kernel prints gives values or one clear line."""

from __future__ import annotations

import io
import json
import math
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import synthetic_run
import test_calibrate
import test_sweep_counters
import test_sweep_cpu
import test_sweep_knob_queues
import test_sweep_knob_routes
import test_sweep_knob_values
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from test_analyze import a_document
from test_probe_scripts import HOOKED, LAYERS, tapped, traced

from mutated import Json, contents, documents, examples, json_texts, texts, value_or_line
from skblab.analyze import running as analyzing
from skblab.bench import measure, readers
from skblab.bench.functions import counts as function_counts
from skblab.bench.functions.symbols import Symbols
from skblab.calibrate import told as calibrated
from skblab.calibrate.tester import Programs
from skblab.knobs import applying
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value
from skblab.lab.guest import console
from skblab.lab.kernel import findings, objects, series
from skblab.machine import counters
from skblab.machine.device import Device, Machine
from skblab.machine.transport import Transport
from skblab.machine.transport.base import Done
from skblab.probe import loads
from skblab.probe.scripts import bpftrace, systemtap
from skblab.probe.scripts.figures import Figures
from skblab.probe.verify import counts as verify
from skblab.selftests import ktap
from skblab.soak import verdict
from skblab.sweep.measure import cpu
from skblab.testbeds import NETNS, Sending, base
from skblab.testbeds.asked import Stream
from skblab.testbeds.command import SOURCES, Command
from skblab.testbeds.native import Native
from skblab.testbeds.processes import Others
from skblab.testbeds.virtio import MACS
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.cpu.rows import Worked
from skblab_analysis.formats import study
from skblab_analysis.formats.pathlat import ToolDocument
from skblab_analysis.formats.scripts import ScriptName, Source, ledger
from skblab_analysis.packets import tables as packet_tables

MACHINE = NETNS.machine(4)
HOST = Machine((Device("r0", beyond=("198.18.0.2",)), Device("r1", beyond=("198.19.0.2",))), cpus=4)


def shown(*some: Json) -> str:
    """What `ip`, `tc` and `ethtool` print as JSON."""
    return "".join(json.dumps(row) + "\n" for row in some)


FEATURE = {"active": True, "fixed": False, "requested": True}
NAPI = {"ifname": "r0", "possible": "0-3", "settings": True, "id": 8, "threaded": 1, "cpus": "1-2"}
LINK = {"ifname": "r0", "mtu": 1500, "max_mtu": 9000, "num_rx_queues": 4}
QDISC = [{"kind": "fq", "handle": "5b5b:", "root": True, "options": {}}, {"kind": "ingress"}]
VLAN = [{"ifname": "skbvlan0", "linkinfo": {"info_data": {"id": 7}}}]
# A knob of each kind, a value of it, and what is printed of it on two devices.
PRINTED: dict[str, tuple[Value, str]] = {
    "rp_filter": (1, "net/ipv4/conf/all/rp_filter=0\nnet/ipv4/conf/r0/rp_filter=0\n"),
    "netdev_budget": (300, "net/core/netdev_budget=300\n"),
    "ring_rx": (128, test_sweep_knob_values.RINGS),
    "queues": (2, test_sweep_knob_values.CHANNELS),
    "gro": (
        False,
        shown(
            [{"ifname": "r0", "generic-receive-offload": FEATURE}],
            [{"ifname": "r1", "generic-receive-offload": FEATURE | {"fixed": True}}],
        ),
    ),
    "rss": (
        "equal 2",
        shown([LINK], [{"ifname": "r0", "rss-indirection-table": [0, 1, 0, 1]}]),
    ),
    "rss_key": ("symmetric", shown([LINK], [{"ifname": "r0", "rss-hash-key": [109, 90] * 20}])),
    "threaded": (True, "r0/threaded=0\nr1/threaded=0\n"),
    "rps": ("all", "r0/queues/rx-0/rps_cpus=00000000,0000000f\nr1/queues/rx-1/rps_cpus=3\n"),
    "napi_threaded": ("on", shown(NAPI, NAPI | {"ifname": "r1", "threaded": 2})),
    "napi_cpus": ("0-1", shown(NAPI, NAPI | {"ifname": "r1"})),
    "napi_policy": ("fifo 50", shown(NAPI | {"policy": 1, "priority": 5}, NAPI | {"nice": -5})),
    "irq_affinity": ("far", test_sweep_knob_queues.INTERRUPTS),
    "qdisc": ("mq", f"r0 2 {json.dumps(QDISC)}\nr1 1 []\n"),
    "mtu": (9000, shown([LINK], [LINK | {"ifname": "r1"}])),
    "vlan": (7, f"r0 {json.dumps(VLAN)}\nr1 \n"),
    "netfilter": (
        "nft-forward 3",
        'nft 3 nft-forward 3\n-A SKBLAB -m comment --comment "iptables-forward 2" -j ACCEPT\n',
    ),
    "routes": (5, test_sweep_knob_routes.printed("5:5", {"dst": "10.0.0.0/8", "dev": "eth9"})),
    "governor": (
        "powersave",
        "offered performance powersave\ncpu0/cpufreq/scaling_governor=performance\n",
    ),
    "idle_states": (1, "cpu0/cpuidle/state0/disable=0\ncpu0/cpuidle/state1/disable=1\n"),
    "smt": (True, "offered\nsmt/control=on\n"),
    "load": ("20 on 2-3", "load 20@0-1\nonline 0-3\n"),
    "workqueue_cpus": ("1-2", "00000000,0000000f\n0-3\n"),
    "ksoftirqd_policy": ("fifo 5", "thread ksoftirqd/0 0 0 0\nthread ksoftirqd/1 2 7 0\n"),
    "irq_thread_policy": ("other -5", "thread irq/24-virtio0- 1 50 0\n"),
    "irqaffinity": ("0-1", "quiet irqaffinity=0\n"),
    "kernel": ("rt", "#1 SMP PREEMPT_RT Debian 6.12\n"),
    "patches": (True, "6.12.48-skblab\n"),
    "preempt": ("full", "none voluntary (full)\n"),
    "mitigations": ("off", "console=ttyS0 mitigations=off\n"),
    "isolcpus": ("1-2", "1-2\n"),
    "nohz_full": ("none", "(null)\n"),
    "rcu_nocbs": ("1", "quiet rcu_nocbs=1\n"),
    "selinux": ("off", "off\n"),
}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_the_samples_are_good(name: str) -> None:
    value, printed = PRINTED[name]
    KNOBS[name].check(value)
    assert KNOBS[name].state(printed)


@pytest.mark.parametrize("name", sorted(PRINTED))
@examples
@given(data=st.data())
def test_what_a_knob_prints(name: str, data: st.DataObject) -> None:
    value, plain = PRINTED[name]
    printed = data.draw(texts(plain))
    machine = data.draw(st.sampled_from((MACHINE, HOST)))

    def turn() -> None:
        applying.fitting(name, printed, value)
        state = applying.state(name, machine, printed)
        assert state
        assert applying.restoring(name, machine, state) is not None
        wanted = applying.wanted(name, machine, value, state)
        assert applying.restoring(name, machine, wanted)

    value_or_line(turn)


COUNTERS = test_sweep_counters.PRINTED.format(**test_sweep_counters.AFTER)
FULLER = (
    COUNTERS
    + test_sweep_counters.SLAB.format("12 C0=5 C1=7", 0)
    + "== driver r1\n     rx_drops: 18446744073709551615\n== device r1\nrx_packets: 0\n"
)


@examples
@given(texts(COUNTERS, FULLER), texts(COUNTERS, FULLER))
def test_what_the_kernel_counted(before: str, after: str) -> None:
    def read() -> None:
        first, last = (counters.parse(text, ["r0"]) for text in (before, after))
        assert all(value >= 0 for value in last.values())
        for change in counters.difference(first, last):
            assert change.value and (change.value > 0 or change.kind == "driver")
            assert change.cpu is None or change.cpu >= 0

    value_or_line(read)


@examples
@given(texts("100 0 12345 100 5000\n"), st.sampled_from((base.SENT, ("packets forwarded",))))
def test_what_scripts_count(printed: str, names: tuple[str, ...]) -> None:
    found = value_or_line(lambda: base.counts("the router", printed, names))
    assert found is None or (len(found) == len(names) and min(found) >= 0)


NETWORK = """\
Inter-|   Receive                                                |  Transmit
    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0
    r0: 640 10 0 0 0 0 0 0 640 10 0 1 0 0 0 0
Ip: Forwarding DefaultTTL ForwDatagrams
Ip: 1 64 10
Ip6OutForwDatagrams             \t5
"""


@examples
@given(texts(NETWORK))
def test_what_devices_and_ip_count(text: str) -> None:
    found = value_or_line(lambda: verify.Counters.parse(text))
    assert found is None or min(found.received, found.forwarded) >= 0


BENCH = (
    "warm-up off 1 tester 4 100 100 5000\noff 1 forward 4 100 100 900000\nproof on 2 read 6 5 5 9"
)


@examples
@given(texts(BENCH))
def test_what_the_benchmark_prints(text: str) -> None:
    def read() -> None:
        for line in map(measure.Line.parse, text.splitlines()):
            assert line.trial(0).per_packet > 0

    value_or_line(read)


@examples
@given(texts("4 1 off 1000 1010 5000\n6 2 on 990 1000 5000\n"))
def test_what_the_throughput_test_prints(text: str) -> None:
    found = value_or_line(lambda: measure.wall_pairs(text))
    assert all(pair.off_kpps > 0 and pair.on_kpps > 0 for pair in found or ())


HISTOGRAMS = [{"buckets": [0, 2, 3]} for _ in range(16)]
READ: dict[str, tuple[Any, str]] = {
    "bpftrace": (
        readers.bpftrace,
        "@stack:\n[1, 2)   3 |@@|\n[2, 4)   1 |@|\n@ip:\n(..., 0) 1 |",
    ),
    "systemtap": (readers.systemtap, "stack 10\nip 9\n"),
    "path_map": (
        readers.path_map,
        json.dumps([{"formatted": {"value": {".bss": [{"hists": [HISTOGRAMS]}]}}}]),
    ),
    "runs": (readers.runs, json.dumps([{"name": "on_poll", "run_cnt": 5}, {"name": "other"}])),
    "pathlat": (
        readers.pathlat,
        json.dumps(
            {
                "paths": [
                    {
                        "path": "send",
                        "layers": [{"to": "ip", "count": 3}],
                        "path_time": {"count": 3},
                    }
                ],
                "in": {"layers": [{"to": "stack", "count": 3}]},
                "histograms": {"entered": 3, "stale": 0},
            }
        ),
    ),
    "debugfs": (
        readers.debugfs,
        "count entered 10\nsum in stack 10 8.5\ncount dropped 3\nsum napi poll 3 2.000\n",
    ),
    "polls": (readers.polls, "sum forward done 10 5\nsum napi poll 3\n"),
}


@pytest.mark.parametrize("name", sorted(READ))
@examples
@given(data=st.data())
def test_what_a_reader_left(name: str, data: st.DataObject) -> None:
    read, plain = READ[name]
    sample = texts(plain)
    if plain.startswith(("[", "{")) and "\n" not in plain:
        sample = json_texts(json.loads(plain)) | sample
    text = data.draw(sample)
    found = value_or_line(lambda: measure.seen_by(read, text, name))
    assert found is None or all(type(n) is int and n >= 0 for n in found.values())


POLLED = {
    "poll_ns": {"r0, python3": [{"min": 100, "max": 103, "count": 2}, {"max": -1, "count": 1}]},
    "poll": {"r0, python3": {"count": 2, "average": 100, "total": 200}},
    "poll_max": {"r0, python3": 100},
    "delay_ns": {"r0, softirq": [{"min": 100, "max": 103, "count": 2}]},
    "delay": {"r0, softirq": {"count": 2, "average": 100, "total": 200}},
    "delay_max": {"r0, softirq": 100},
    "work": {"r0, python3": 2},
}
MAPS: list[dict[str, Any]] = [HOOKED | {"dropped": {"2": 2}}, HOOKED | POLLED]
TRACED = [
    json.loads(line)
    for names, maps in zip((LAYERS, ()), MAPS, strict=True)
    for line in traced(names, **maps)
]
LOST = {"type": "lost_events", "data": {"events": 4}}


def check_figures(found: Figures) -> None:
    some: tuple[tuple[ScriptName, Source], ...] = (
        *(("receive", "hooks"), ("forward", "hooks")),
        *(("napi", "hooks"), ("napi", "samples")),
    )
    for name, source in some:
        document = found.document("bpftrace", name, source, "6.12")
        if document.path_time is not None:
            assert ledger(0, "ns", document).missing >= 0


def lines(document: Json) -> list[str]:
    return [json.dumps(row) for row in document] if isinstance(document, list) else ["[]"]


BPFTRACE = [*TRACED, LOST, {"type": "helper_error", "data": {}}]


@examples
@given(
    documents(BPFTRACE).map(lines) | texts("\n".join(lines(BPFTRACE))).map(str.splitlines),
)
def test_what_bpftrace_prints(printed: list[str]) -> None:
    value_or_line(lambda: check_figures(bpftrace.read(printed, "")))


FIGURE = "count 3, average 100, total 300, shortest 100, longest 100 ns"
SYSTEMTAP = "".join(
    tapped(
        LAYERS,
        10,
        *(f"{name}: {value}" for name, value in HOOKED.items()),
        *("dropped: 2", "packets r0 softirq: 4"),
        *(f"{name} r0 softirq: {FIGURE}" for name in ("delay", "time")),
        *("bucket delay-softirq 100: 3", "bucket time-softirq 100: 3"),
    )
)


@examples
@given(
    texts(SYSTEMTAP),
    texts("WARNING: Number of errors: 1, skipped probes: 2\n"),
)
def test_what_systemtap_prints(printed: str, said: str) -> None:
    text = printed.splitlines(keepends=True)
    value_or_line(lambda: check_figures(systemtap.read(text, said)))


STUDY = "ready\nudp 1200 64\ntcp -5 1000\nudp 900 64\n" + "".join(
    f"{name}: {number}\n" for number, name in enumerate(study.Counts.model_fields)
)


@examples
@given(texts(STUDY))
def test_what_a_script_of_a_study_prints(printed: str) -> None:
    def read() -> None:
        found = study.read_printed(printed.splitlines(), "")
        assert found.bytes >= 0
        study.ledger(0, found, "udp", 3, 64, resent=False)
        study.figures("udp_network_layer", [packet.ns for packet in found.packets])

    value_or_line(read)


@examples
@given(
    json_texts({"schema": "skblab.traffic/1", "role": "send", "sent": 9, "seconds": 0.5}),
    json_texts({"received": 9, "seconds": 0.25}),
)
def test_what_a_load_prints(sent: str, received: str) -> None:
    found = value_or_line(lambda: loads.told(sent, received))
    assert found is None or (found.sent >= 0 and math.isfinite(found.rate or 0))


class Says:
    """A tester whose programs print one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def run(self, argv: object, *, stdin: str = "", seconds: float = 0) -> Done:
        return Done(0, self.text, "")


STREAM = Stream(family=4, frame=64, flows=1)
SENDINGS = st.sampled_from(
    (Sending(STREAM, 100_000), Sending(STREAM, 100_000, 10.0, 1.0, then=20.0, after=0.5))
)
SENDER = synthetic_run.sender() | {
    "seconds": 1.5,
    "rate_asked": 1000.0,
    "step": {"at_ns": 500, "sequence": 5, "rate": 20.0},
}
OWN_MACS = {**MACS, **dict.fromkeys(SOURCES.values(), "02:00:00:00:00:09")}
ANSWER = {
    **{"schema": "skblab.sender/1", "sent": 90, "refused": 1, "seconds": 1.5, "received": None},
    "step": {"packet": 5, "seconds": 0.5},
}


@examples
@given(json_texts(SENDER), SENDINGS)
def test_what_our_sender_prints(text: str, sending: Sending) -> None:
    says = cast(Transport, Says(text))
    found = value_or_line(lambda: Native().send(says, sending, MACS, ""))
    assert found is None or min(found.sent, found.refused, found.microseconds) >= 0


@pytest.mark.parametrize("seconds", ["Infinity", "NaN", "1e308", "-1", "1e-300", "null"])
def test_a_sender_that_took_no_time_that_there_is(seconds: str) -> None:
    whole = json.dumps(SENDER).replace('"seconds": 1.5', f'"seconds": {seconds}')
    with pytest.raises(SkblabError, match="the sender's document is not as expected: seconds: "):
        Native().send(cast(Transport, Says(whole)), Sending(STREAM, 9), MACS, "")


@examples
@given(json_texts(ANSWER, ANSWER | {"received": 80}), SENDINGS, st.booleans())
def test_what_a_command_of_the_users_answers(text: str, sending: Sending, counts: bool) -> None:
    command = Command(("send-it",), namespace="generator", counts=counts)
    says = cast(Transport, Says(text))
    found = value_or_line(lambda: command.send(says, sending, OWN_MACS, ""))
    assert found is None or (found.microseconds >= 0 and (found.received is not None) == counts)


@examples
@given(texts(test_sweep_cpu.stat()), texts(test_sweep_cpu.stat(softirq=37, idle=1020)))
def test_what_cpus_did(before: str, after: str) -> None:
    def read() -> None:
        times = cpu.difference(cpu.parse(before), cpu.parse(after))
        worked = Worked(rate=50, tried=100, forwarded=100, offered_rate=50.0, times=times)
        assert math.isfinite(worked.per_packet)
        list(worked.rows(0))

    value_or_line(read)


RAN = """\
/proc/3/comm:kpktgend_0
/proc/4/comm:ksoftirqd/0
/proc/9/comm:sshd: a:b
/proc/3/schedstat:1000000 5 6
/proc/4/schedstat:50000 5 6
/proc/9/schedstat:10000 5 6
/proc/11/schedstat:7 5 6
"""


@examples
@given(texts(RAN), texts(RAN.replace("000 5 6", "999 5 6")), st.integers(0, 2**63))
def test_who_had_the_cpu(before: str, after: str, took: int) -> None:
    found = value_or_line(lambda: Others.between(before, after, took))
    assert found is None or (found.microseconds >= 0 and "\n" not in found.who)


def tables(parts: Any) -> str:  # noqa: ANN401 (tables and texts)
    """Return what is printed of tables."""
    console = Console(file=io.StringIO(), width=100)
    for part in parts:
        assert isinstance(part, str | Table)
        console.print(part, markup=False, soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@examples
@given(text=json_texts(a_document()))
def test_what_analyze_counts(text: str) -> None:
    def read() -> None:
        with pytest.MonkeyPatch.context() as patch:
            done = subprocess.CompletedProcess(["it"], 0, text, "")
            patch.setattr(subprocess, "run", lambda *_, **__: done)
            found = analyzing.figures(Path("it"), Path("a.rec"), analyzing.Asked())
        assert tables(packet_tables.of_file(found))

    value_or_line(read)


class Prints(test_calibrate.FakeTester):
    """A tester of which some programs print other documents."""

    def __init__(self, said: dict[str, str]) -> None:
        super().__init__()
        self.said = said

    def say(self, role: str, document: dict[str, Any]) -> object:
        return self.said.get(role, document)


@examples
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "send": json_texts(test_calibrate.SENT),
            "receive": json_texts(test_calibrate.RECEIVED),
            "round trip": json_texts(test_calibrate.ROUND_TRIP),
            "echo": json_texts(test_calibrate.ECHO),
            "wakeup": json_texts(test_calibrate.WAKEUP),
        },
    )
)
def test_what_programs_of_a_calibration_print(said: dict[str, str]) -> None:
    """What cannot be used is left out, and the others are measured."""

    def read() -> None:
        found = test_calibrate.calibrated(Prints(said))
        assert all("\n" not in one for one in found.skipped)
        assert tables(calibrated.tables(found)) and math.isfinite(found.seconds)

    value_or_line(read)
    assert value_or_line(lambda: test_calibrate.calibrated(Prints(said))) is not None


@examples
@given(texts("both\n", '{"role": "send"}\nsaid it cannot\nend\n', '{"a": 1}\nend\n{}\nend\n'))
def test_what_the_script_of_a_calibration_prints(text: str) -> None:
    tester = Programs.__new__(Programs)
    tester._process = cast(
        Any,
        SimpleNamespace(
            stdin=io.StringIO(), stdout=io.StringIO(text), stderr=io.StringIO("torn\n")
        ),
    )
    found = value_or_line(lambda: tester.alone(ToolDocument, "wakeup"))
    assert found is None or isinstance(found, ToolDocument)


MAP = """\
0000000000001000 A per_cpu
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t __pfx_ip_rcv
ffffffff81000110 T ip_rcv
ffffffff81000200 t ip_rcv.cold\t[veth]
ffffffff82000000 D init_task
"""


@examples
@given(texts(MAP), st.integers(0, 2**64))
def test_symbols(text: str, address: int) -> None:
    def read() -> None:
        found = Symbols.parse(text)
        assert list(found.addresses) == sorted(set(found.addresses))
        name = found.name_of(address)
        assert name is None or name.strip() == name
        found.offset_of(address)

    value_or_line(read)


COUNTED = (
    "section 0 60\nffffffff81000110 40\nuser 15\nelsewhere 5\nframe 1 0 ffffffff81000205\n"
    "at 1 ffffffff81000110 40 6 5 4 3 2 1\nsection 1 0\n"
)


@examples
@given(texts(COUNTED))
def test_counts_of_instructions(text: str) -> None:
    known = Symbols.parse(MAP)
    for section in value_or_line(lambda: function_counts.parse(text)) or ():
        assert section.by_function(known).total() == section.total >= 0
        for missed in section.missed_by_stack(known).values():
            assert min(missed.values()) > 0


CONSOLE = """\
[    0.000000] Linux version 6.12.48-skblab
[    1.204554][    T1] WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 it+0x1/0x2
[    1.3] BUG: KASAN: slab-out-of-bounds in it
<4>[    2.000001] rcu: INFO: rcu_preempt self-detected stall on CPU
[    3.000000] INFO: task x:1 blocked for more than 120 seconds.
skblab-init: failed to mount
[    4.000000] Kernel panic - not syncing: it
"""


@examples
@given(contents(CONSOLE))
def test_what_a_console_shows(folder: Path, data: bytes) -> None:
    file = folder / "console.log"
    file.write_bytes(data)

    def read() -> None:
        followed = console.Console(file)
        followed.poll()
        assert all(finding.text and "\n" not in finding.text for finding in followed.findings)

    value_or_line(read)


KTAP = """\
KTAP version 1
1..3
    KTAP version 1
    1..1
    ok 1 below
ok 1 first
# said
not ok 2 second # TIMEOUT 45 seconds
ok 3 third # SKIP no device
TEST: ping                                                 [ OK ]
PASS: it
it: OK
"""


@examples
@given(texts(KTAP))
def test_what_a_selftest_prints(text: str) -> None:
    def read() -> None:
        report = ktap.parse(text)
        assert sum(report.count(result) for result in ktap.Result) == len(report.cases)
        ktap.loose(text)

    value_or_line(read)


def test_a_selftest_may_print_without_end() -> None:
    def read() -> None:
        ktap.loose("x" + " " * 100_000 + "\n" + "it: OK\n" * 20_000)
        ktap.parse(f"KTAP version 1\n1..{'9' * 5000}\nok {'9' * 5000}\n")

    value_or_line(read)


CHECKED = """\
/skblab/src/net/core/dev.c:10:5: warning: unused variable 'x'
./net/core/dev.c:12: error: it
WARNING: modpost: missing MODULE_LICENSE()
net/core/dev.o: warning: objtool: it.part.0+0x12: unreachable
x.patch:7: WARNING:LONG_LINE: line over 100
x.patch:9: CHECK:SPACING: no space
                 U netif_rx
"""
PATCH = "--- a/net/core/dev.c\n+++ b/net/core/dev.c\n@@ -1 +1 @@\n-a\n+b\n+++ b/Makefile\n"
REFUSED = """\
checking file net/core/dev.c
Hunk #2 FAILED at 17.
patching file 'a b.c'
|--- a/net/x.c
|+++ b/net/x.c
The next patch would create the file net/y.c,
patch: **** malformed patch at line 3
"""


@examples
@given(texts(CHECKED, PATCH, REFUSED))
def test_what_checkers_and_patch_print(text: str) -> None:
    def read() -> None:
        found = findings.read(text) + findings.undefined(text)
        assert min(found.values(), default=1) > 0 and findings.added(found, found) == []
        assert all(
            isinstance(finding, str) for finding in findings.checkpatch(text, text, text).serious
        )
        assert all(objects.touched(text))
        assert "\n" not in series.explain(text)

    value_or_line(read)


PHASE = {
    "name": "calm",
    "seconds": 60.0,
    "steps": 10,
    "refused": 1,
    "left_out": 0,
    "loads": {"udp": {"sent": 9, "received": 9}},
}
SOAK = {
    "phases": [PHASE],
    "done": {"x": 1},
    "refused": {},
    "absent": {},
    "examples": {"x": "y"},
    "stuck": [],
    "calm": {"sent": 9, "received": 9, "passed": {"receive total": 9}},
    "left_devices": [],
    "leaks": None,
    "watched": 3,
    "taint": ["0", "512"],
}


@examples
@given(json_texts(SOAK))
def test_what_a_soak_reports(text: str) -> None:
    def read() -> None:
        found = verdict.parse(f"it said\n{text}")
        assert all(verdict.complaints(found, ["BUG"], patched=True, others=["KMSAN: x"]))

    value_or_line(read)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")
