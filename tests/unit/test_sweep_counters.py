# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts of a trial: how it is read, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from searches import search

from skblab.machine.counters import Values, difference, functions, parse
from skblab.machine.transport import LocalTransport
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.work import summary as work_summary
from skblab_analysis.work.rows import Counter, CounterRow
from skblab_analysis.work.summary import works
from skblab_analysis.work.view import NOT

PRINTED = """\
== interrupts
           CPU0       CPU1
  4:          1         {tty}   IO-APIC   4-edge      ttyS0
 25:       {rx0}          7   PCI-MSIX-0000:00:02.0   1-edge      virtio0-input.0
LOC:       1000       2000   Local timer interrupts
ERR:          3
== softirqs
                    CPU0       CPU1
          HI:          0          0
      NET_RX:       {net_rx}          9
== softnet
{softnet} 00000001 00000002 {unused} 00000005 00000000 00000000 00000000 00000000 00000000
00000000 00000000 00000000 {unused} 00000000 00000000 00000000 00000001 00000000 00000000
== numa node0
numa_hit {numa_hit}
numa_miss 0
numa_foreign 0
interleave_hit 1053
local_node {numa_hit}
other_node 0
== threads
{threads}== owners
r0: 24
r0: 25
== driver r0
NIC statistics:
     rx_queue_0_xdp_packets: 0
== qdiscs
{qdiscs}== snmp
Ip: Forwarding DefaultTTL InReceives ForwDatagrams OutDiscards
Ip: {forwarding} 64 {received} 10 0
{icmp}Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab InSegs
Tcp: 1 200 120000 -1 0 {established} 7
Udp: InDatagrams NoPorts InErrors
Udp: 0 {no_ports} 0
== netstat
TcpExt: SyncookiesSent TCPOFOQueue
TcpExt: 0 5
IpExt: InNoRoutes InOctets
IpExt: 0 {bytes}
== snmp6
Ip6InReceives                   \t0
Ip6OutOctets                    \t{octets}
Icmp6OutType143                 \t8
== device r0
rx_bytes: {bytes}
rx_packets: 10
"""
BEFORE = {
    "tty": 5,
    "rx0": 100,
    "net_rx": 30,
    "softnet": "000000ff",
    "threads": "ksoftirqd/0 500\n",
    "bytes": 640,
    "unused": " ".join(["00000000"] * 6),
    "numa_hit": 28077,
    "qdiscs": """\
qdisc mq 0: dev r0 root
 Sent 9000 bytes 90 pkt (dropped 4294967290, overlimits 0 requeues 2)
 backlog 1514b 1p requeues 2
qdisc fq_codel 0: dev r0 parent :1 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms
 Sent 4500 bytes 45 pkt (dropped 4294967290, overlimits 0 requeues 2)
 backlog 1514b 1p requeues 2
  maxpacket 1514 drop_overlimit 0 new_flow_count 3 ecn_mark 0
qdisc noqueue 0: dev lo root refcnt 2
 Sent 1 bytes 1 pkt (dropped 1, overlimits 1 requeues 1)
 backlog 0b 0p requeues 0
""",
    "forwarding": 2,
    "received": 10,
    "icmp": "",
    "established": 3,
    "no_ports": 0,
    "octets": 768,
}
AFTER = BEFORE | {
    "rx0": 350,
    "net_rx": 31,
    "softnet": "00000100",
    "threads": "ksoftirqd/0 500\nnapi/r0-8193 9000\n",
    "bytes": 1280,
    "numa_hit": 28079,
    "qdiscs": """\
qdisc mq 0: dev r0 root
 Sent 9300 bytes 93 pkt (dropped 4, overlimits 1 requeues 2)
 backlog 0b 0p requeues 2
qdisc fq_codel 0: dev r0 parent :1 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms
 Sent 4800 bytes 48 pkt (dropped 4, overlimits 1 requeues 2)
 backlog 0b 0p requeues 2
  maxpacket 9000 drop_overlimit 9 new_flow_count 3 ecn_mark 0
qdisc ingress ffff: dev r0 parent ffff:fff1 ----------------
 Sent 64 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc noqueue 0: dev lo root refcnt 2
 Sent 9 bytes 9 pkt (dropped 9, overlimits 9 requeues 9)
 backlog 0b 0p requeues 0
""",
    "forwarding": 1,
    "received": 12,
    "icmp": "IcmpMsg: OutType3\nIcmpMsg: 2\n",
    "established": 1,
    "no_ports": 1,
    "octets": 832,
}


def read(values: dict[str, object]) -> Values:
    return parse(PRINTED.format(**values), ["r0"])


def test_what_was_not_there_before_has_not_risen() -> None:
    before = {
        key: value for key, value in read(BEFORE).items() if key[0] not in ("device", "thread")
    }
    kinds = {change.kind for change in difference(before, read(AFTER))}
    assert "thread" in kinds and "device" not in kinds


def test_a_line_of_softnet_is_of_the_cpu_that_it_names() -> None:
    lines = ["== interrupts", "CPU0", "1: 1", "== softirqs", "CPU0", "HI: 1"]
    lines += ["== snmp", "Udp: NoPorts", "Udp: 0", "== netstat", "IpExt: InOctets", "IpExt: 0"]
    lines.append("== softnet")
    rest = " ".join(["00000000"] * 10)
    found = parse("\n".join([*lines, f"00000001 {rest}", f"00000002 {rest}"]), [])
    assert found["softnet", "processed", 0] == 1
    assert found["softnet", "processed", 1] == 2
    # Later ones do: a CPU that is off has no line.
    found = parse("\n".join([*lines, f"00000001 {rest} 00000000 00000003"]), [])
    assert found["softnet", "processed", 3] == 1


def test_what_rose_is_told() -> None:
    found = difference(read(BEFORE), read(AFTER))
    rows = [change.row(0) for change in found]
    assert {(row.kind, row.name, row.cpu, row.value, row.unit) for row in rows} == {
        ("interrupt", "r0 25 virtio0-input.0", 0, 250, ""),
        ("softirq", "NET_RX", 0, 1, ""),
        ("softnet", "processed", 0, 1, ""),
        ("thread", "napi/r0-8193", None, 9000, "ns"),
        ("device", "r0 rx_bytes", None, 640, "bytes"),
        ("numa", "node0 numa_hit", None, 2, ""),
        ("numa", "node0 local_node", None, 2, ""),
        # Counters of 32 bits began anew; states and other devices are left out.
        ("qdisc", "r0 mq root bytes", None, 300, "bytes"),
        ("qdisc", "r0 mq root packets", None, 3, "packets"),
        ("qdisc", "r0 mq root drops", None, 10, ""),
        ("qdisc", "r0 mq root overlimits", None, 1, ""),
        ("qdisc", "r0 fq_codel :1 bytes", None, 300, "bytes"),
        ("qdisc", "r0 fq_codel :1 packets", None, 3, "packets"),
        ("qdisc", "r0 fq_codel :1 drops", None, 10, ""),
        ("qdisc", "r0 fq_codel :1 overlimits", None, 1, ""),
        ("qdisc", "r0 ingress ffff:fff1 bytes", None, 64, "bytes"),
        ("qdisc", "r0 ingress ffff:fff1 packets", None, 1, "packets"),
        ("protocol", "IpInReceives", None, 2, ""),
        ("protocol", "IcmpMsgOutType3", None, 2, ""),
        ("protocol", "UdpNoPorts", None, 1, ""),
        ("protocol", "IpExtInOctets", None, 640, "bytes"),
        ("protocol", "Ip6OutOctets", None, 64, "bytes"),
    }


SLAB = """\
== slab skbuff_head_cache alloc_fastpath
{0}
== slab skbuff_head_cache free_slowpath
{1}
"""


@pytest.mark.parametrize(
    ("before", "after", "rises"),
    [
        # A CPU that has none yet is not named.
        ("100 C1=100", "107 C0=5 C1=102", {0: 5, 1: 2}),
        # Each CPU's has 32 bits.
        ("4294967295 C1=4294967295", "4 C1=4", {1: 5}),
        ("0", "0", {}),
        # A kernel for one CPU.
        ("7", "9", {0: 2}),
    ],
)
def test_a_slab_cache_counts_by_cpu(before: str, after: str, rises: dict[int, int]) -> None:
    text = PRINTED.format(**BEFORE)
    found = [parse(text + SLAB.format(counted, "1 C0=1"), ["r0"]) for counted in (before, after)]
    changes = difference(*found)
    assert {change.cpu: change.value for change in changes} == rises
    assert {(change.kind, change.name) for change in changes} <= {
        ("slab", "skbuff_head_cache alloc_fastpath")
    }


def test_slab_caches_are_read_where_the_kernel_counts(tmp_path: Path) -> None:
    """No kernel of ours does: files as they are there, by name, and others that are no counts."""
    slab = tmp_path / "slab"
    for cache in ("kmalloc-1k", "skbuff_head_cache", "ip6_dst_cache", "dentry"):
        (slab / cache).mkdir(parents=True)
        for name in ("alloc_fastpath", "free_slowpath", "alloc_slab", "alloc_from_partial"):
            (slab / cache / name).write_text("3 C0=1 C2=2\n")
    (slab / "skbuff_head_cache" / "free_cpu_sheaf").write_text("0\n")
    # A cache of the same size, with which the kernel has merged it.
    (slab / "skbuff_fclone_cache").symlink_to("kmalloc-1k")
    script = f"{functions()}\nSLAB={slab}\nof_all_namespaces\ncountable\n"
    printed = LocalTransport().script(script).check("reading").stdout
    assert "slab allocations\tcounted\n" in printed
    found, _, _ = printed[printed.index("== slab") :].partition("slab allocations")
    values = parse(PRINTED.format(**BEFORE) + found, ["r0"])
    counted = {(name, cpu): value for (kind, name, cpu), value in values.items() if kind == "slab"}
    caches = ("kmalloc-1k", "skbuff_head_cache", "skbuff_fclone_cache", "ip6_dst_cache")
    assert counted == {
        (f"{cache} {way}", cpu): value
        for cache in caches
        for way in ("alloc_fastpath", "free_slowpath")
        for cpu, value in ((0, 1), (2, 2))
    } | {("skbuff_head_cache free_cpu_sheaf", 0): 0}


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("Udp: InDatagrams NoPorts InErrors\n", ""),
        ("Udp: InDatagrams NoPorts InErrors\n", "Udp: InDatagrams NoPorts\n"),
        ("IpExt: InNoRoutes", "TcpExt: InNoRoutes"),
        ("Ip6InReceives  ", "Ip6InReceives 1"),
        ("rx_packets: 10", "rx_packets 10"),
        ("numa_miss 0", "numa_miss -1"),
        ("== numa node0", "== numa"),
    ],
)
def test_what_no_kernel_prints_is_one_line(good: str, bad: str) -> None:
    text = PRINTED.format(**BEFORE)
    assert good in text
    with pytest.raises(SkblabError, match="what the kernel's counters say is not as expected"):
        parse(text.replace(good, bad, 1), ["r0"])


def test_a_counter_that_falls_is_not_known() -> None:
    with pytest.raises(SkblabError, match="counter of protocol IpInReceives fell from 10 to 9"):
        difference(read(BEFORE), read(AFTER | {"received": 9}))


def test_a_driver_may_name_its_counters_with_anything() -> None:
    named = "     rx\tqueue\u00a00\u2028drops: 7"
    later = parse(f"{PRINTED.format(**AFTER)}== driver r0\n{named}\n", ["r0"])
    found = difference(read(BEFORE), later)
    [counter] = [counter for counter in found if counter.kind == "driver"]
    assert counter.row(0).name == "r0 rx\ufffdqueue\ufffd0\ufffddrops"
    assert counter.value == 7
    # The kernel's own have none of these.
    bad: Values = {("softirq", "NET\tRX", 0): 1}
    with pytest.raises(SkblabError, match="the name of a kernel's counter"):
        difference(dict.fromkeys(bad, 0), bad)


def test_softnet_has_its_own_cpus() -> None:
    values = read(BEFORE)
    assert values["softnet", "processed", 0] == 255
    assert values["softnet", "dropped", 0] == 1
    assert values["softnet", "time_squeeze", 0] == 2
    assert values["softnet", "received_rps", 0] == 5
    assert values["softnet", "processed", 1] == 0


@pytest.mark.parametrize(
    "name", ["interrupts", "softirqs", "softnet", "snmp", "netstat", "device r0"]
)
def test_a_kind_that_is_missing_is_an_error(name: str) -> None:
    text = PRINTED.format(**BEFORE)
    head, _, rest = text.partition(f"== {name}\n")
    text = f"{head}== {rest.partition('== ')[2]}"
    with pytest.raises(SkblabError, match=f"have no {name}"):
        parse(text, ["r0"])


def test_a_kernel_says_whether_it_counts_allocations() -> None:
    script = f"{functions()}\ncountable\n"
    printed = LocalTransport().script(script).check("asking what is counted").stdout
    said = dict(line.split("\t") for line in printed.splitlines())
    assert said.keys() == {"slab allocations", "NUMA allocations"}
    assert all(value == "counted" or value.startswith(NOT) for value in said.values())
    # What is said fits what is there.
    there = Path("/sys/kernel/slab/kmalloc-1k/alloc_fastpath").exists()
    assert (said["slab allocations"] == "counted") is there


def counter(kind: str, name: str, cpu: int | None, value: int) -> Counter:
    return Counter.model_validate({"kind": kind, "name": name, "cpu": cpu, "value": value})


def test_they_are_kept_by_trial_and_summed_up_by_setting(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "few", Plan(experiment="few", seed=1, baseline="baseline"))
    folder.record_invalid("wall", AGAIN, "nothing was counted")
    for cpu in (0, 1):
        folder.known(
            [
                counter("interrupt", "r0 25 virtio0-input.0", cpu, 10 + cpu),
                counter("interrupt", "4 ttyS0", cpu, 500),
                counter("interrupt", "LOC", cpu, 1000),
                counter("softirq", "NET_RX", cpu, 7),
                counter("softnet", "processed", cpu, 100),
                counter("softnet", "time_squeeze", cpu, 2),
                counter("thread", "napi/r0-8193", None, 5000),
                counter("device", "r0 rx_packets", None, 100),
            ]
        )
        folder.record(search("baseline", cpu, 1000.0))
    # What goes on with it has all of it.
    folder = RunFolder.open(folder.path)
    folder.record(search("other", 0, 1000.0))
    run = load(folder.path)
    assert {row.trial for row in run.rows(CounterRow)} == {1, 2}
    assert {row.unit for row in run.rows(CounterRow) if row.kind == "device"} == {"packets"}
    [work] = work_summary.of(run)
    assert (work.setting, work.trials) == ("baseline", 2)
    assert work.interrupts == {0: 10, 1: 11}
    assert work.net_rx == {0: 7, 1: 7}
    assert work.processed == {0: 100, 1: 100}
    assert (work.squeezed, work.dropped, work.napi_ns, work.ksoftirqd_ns) == (4, 0, 10_000, 0)
    # A trial that does not count is in no sum.
    assert works(run.rows(CounterRow), {}) == []


def test_an_older_kernel_does_not_tell_the_cpu() -> None:
    text = "\n".join(
        " ".join(line.split()[:11]) if len(line.split()) == 13 else line
        for line in PRINTED.format(**BEFORE).splitlines()
    )
    values = parse(text, ["r0"])
    assert values["softnet", "processed", 0] == 255
    assert values["softnet", "processed", 1] == 0
