# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts of a trial: how it is read, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from searches import search

from skblab.machine.counters import Values, difference, parse
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.work import summary as work_summary
from skblab_analysis.work.rows import Counter, CounterRow
from skblab_analysis.work.summary import works

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
== owners
r0 24
r0 25
== threads
{threads}== device r0
rx_bytes {bytes}
rx_packets 10
== driver r0
rx_queue_0_xdp_packets 0
"""
BEFORE = {
    "tty": 5,
    "rx0": 100,
    "net_rx": 30,
    "softnet": "000000ff",
    "threads": "ksoftirqd/0 500\n",
    "bytes": 640,
    "unused": " ".join(["00000000"] * 6),
}
AFTER = BEFORE | {
    "rx0": 350,
    "net_rx": 31,
    "softnet": "00000100",
    "threads": "ksoftirqd/0 500\nnapi/r0-8193 9000\n",
    "bytes": 1280,
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
    lines = ["== interrupts", "CPU0", "1: 1", "== softirqs", "CPU0", "HI: 1", "== softnet"]
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
    }


def test_a_driver_may_name_its_counters_with_anything() -> None:
    named = "rx\tqueue\u00a00\u2028drops "
    later = parse(f"{PRINTED.format(**AFTER)}{named}7\n", ["r0"])
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


@pytest.mark.parametrize("name", ["interrupts", "softirqs", "softnet", "device r0"])
def test_a_kind_that_is_missing_is_an_error(name: str) -> None:
    text = PRINTED.format(**BEFORE)
    head, _, rest = text.partition(f"== {name}\n")
    text = f"{head}== {rest.partition('== ')[2]}"
    with pytest.raises(SkblabError, match=f"have no {name}"):
        parse(text, ["r0"])


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
