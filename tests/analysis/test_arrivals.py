# SPDX-License-Identifier: GPL-2.0-or-later
"""pktsink's document: what it says, and that figures which contradict each other are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_up_arrivals
import pytest
import schema_checks

from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.formats.pktsink import ArrivalsDocument, CountsDocument

GOLDEN = Path(__file__).parent / "golden" / "pktsink.json"
# The second run is open at its end.
LATENCIES = [20_000] * 40 + [900_000, 800_000, 700_000] + [30_000] * 50 + [260_000] * 4


def read(made: dict[str, Any]) -> ArrivalsDocument:
    return parse(ArrivalsDocument, made, "the document")


def made_up() -> dict[str, Any]:
    return made_up_arrivals.document(LATENCIES)


def test_what_it_says() -> None:
    found = read(made_up())
    assert (found.packets.distinct, found.packets.lost) == (97, 0)
    assert found.packets.missing(100) == 3
    assert found.latency.histogram().quantile(0.5) == pytest.approx(30_000, rel=1 / 16)
    assert found.inter_arrival.count == found.jitter.count == 96
    low, high = found.late
    assert (low.packets_late, low.runs.count, low.runs.longest) == (7, 2, 4)
    first, last = low.runs.recorded
    assert (first.sequence, first.packets, first.mean_ns) == (41, 3, 800_000)
    assert (first.end_ns - first.begin_ns, first.sent_ns) == (1_800_000, 2_000_000)
    assert not first.open_begin and not first.open_end
    assert last.open_end
    assert (high.packets_late, high.runs.count) == (2, 1)
    assert list(found.doubts()) == []


def test_all_late_is_one_anomaly() -> None:
    (run,) = read(made_up_arrivals.document([800_000] * 50)).late[1].runs.recorded
    assert run.open_begin and run.open_end
    assert run.packets == 50


@pytest.mark.parametrize("latencies", [[], [7]])
def test_few_packets_have_no_times_between_them(latencies: list[int]) -> None:
    found = read(made_up_arrivals.document(latencies))
    assert found.jitter.count == found.inter_arrival.count == 0


def test_what_the_programs_own_code_wrote_is_read() -> None:
    """Of 12 packets: 3 is lost, 5 comes after 6 and twice, 9 to 11 are late, one is foreign."""
    found = parse(ArrivalsDocument, GOLDEN.read_text(), "the golden document")
    packets = found.packets
    assert (packets.seen, packets.foreign, packets.received) == (13, 1, 12)
    assert (packets.distinct, packets.duplicates, packets.reordered) == (11, 1, 1)
    assert (packets.lost, packets.highest, packets.furthest_behind) == (1, 12, 1)
    assert [gap.sequence for gap in found.gaps.recorded] == [4, 6]
    (run,) = found.late[0].runs.recorded
    assert (run.sequence, run.packets, run.min_ns, run.max_ns) == (9, 3, 300_000, 500_000)
    assert found.late[1].runs.count == 0
    assert list(found.doubts()) == []


def test_its_schema_takes_it() -> None:
    schema_checks.fits("pktsink", json.loads(GOLDEN.read_text()))
    assert made_up().keys() <= json.loads(GOLDEN.read_text()).keys()
    schema_checks.schema("pktsink").validate(made_up())


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the made-up document with one member changed."""
    made = made_up()
    *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    part: Any = made
    for key in above:
        part = part[key]
    part[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "skblab.pktsink/2", "schema"),
        ("packets.seen", 98, "seen is 98, and its parts are 97"),
        ("packets.duplicates", 1, "received is 97, and its parts are 98"),
        ("packets.lost", 1, "highest is 97, and its parts are 98"),
        ("packets.reordered", 98, "reordered 98 or outside 0 of 97"),
        ("packets.outside", 1, "stamps: 97 values, expected 96"),
        ("stamps.egress", 96, "stamps: 96 values, expected 97"),
        ("latency.negative", 1, "latency: 98 values, expected 97"),
        ("inter_arrival.overflow", 1, "inter_arrival: 97 values, expected 96"),
        ("jitter.overflow", 1, "jitter: 97 values, expected 96"),
        ("late.0.runs.count", 3, "count is 3: 2 recorded, 0 not"),
        ("late.0.runs.packets", 8, "8 packets in all, and recorded are 7"),
        ("late.0.runs.recorded.0.min_ns", 900_000, "3 packets of 900000"),
        ("late.0.packets_late", 6, "7 packets in runs, of 6 that were late"),
        ("late.0.threshold_ns", 700_001, "a run has a packet of 700000 ns, which is not late"),
        ("gaps.longest", -1, "greater than or equal to 0"),
        ("ifindex", "4", "ifindex"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(
    path: str, value: object, said: str
) -> None:
    with pytest.raises(RecordError, match=said):
        read(changed(path, value))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clock.steps": 2, "clock.stepped_ns": -7}, "the clock was set 2 times, by -7 ns in all"),
        ({"clock.tai_offset_s.end": 37}, "the offset of CLOCK_TAI was changed"),
        ({"stamps.egress": 96, "stamps.pktgen": 1}, "1 packets were not stamped anew at g0"),
        ({"stamps.stamper.failed": 1}, "1 packets could not be stamped anew"),
        ({"packets.merged": 3}, "3 packets stand for several"),
    ],
)
def test_what_makes_times_doubtful_is_said(changes: dict[str, object], said: str) -> None:
    made = made_up()
    for path, value in changes.items():
        *above, last = path.split(".")
        part = made
        for key in above:
            part = part[key]
        part[last] = value
    (doubt,) = read(made).doubts()
    assert said in doubt


def counted(level: str = "throughput") -> dict[str, Any]:
    """What two CPUs have counted: one of them a packet of another sender, too."""
    own = {"seen": 3, "foreign": 1, "received": 2, "earlier": 0}
    other = {"seen": 2, "foreign": 0, "received": 1, "earlier": 1}
    both = {name: own[name] + other[name] for name in own}
    times = {"first_packet_ns": 1_700_000_000_000_000_000, "span_ns": 1_000_000}
    times_of = times if level == "throughput" else None
    return {
        "schema": "skblab.pktsink-counts/1",
        "kernel": "6.12",
        "seconds": 1.5,
        "device": "s0",
        "ifindex": 3,
        "level": level,
        "restarts": 1,
        "packets": {**both, "merged": 0, "highest": 4, "bytes": 180},
        "throughput": times_of,
        "cpus": [
            {
                "cpu": 0,
                "packets": {**own, "merged": 0, "highest": 3, "bytes": 120},
                "throughput": times_of,
            },
            {
                "cpu": 2,
                "packets": {**other, "merged": 0, "highest": 4, "bytes": 60},
                "throughput": None,
            },
        ],
    }


def test_what_cpus_have_counted() -> None:
    schema_checks.schema("pktsink-counts").validate(counted())
    found = parse(CountsDocument, counted(), "the document")
    assert found.packets.lost_at_least == 1
    assert found.packets_per_second == pytest.approx(2000)
    assert found.bits_per_second == pytest.approx(2000 * 60 * 8)
    without = parse(CountsDocument, counted("counters"), "the document")
    assert without.packets_per_second is without.bits_per_second is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"packets": {**counted()["packets"], "seen": 6}}, "seen is 6, and its parts are 5"),
        ({"packets": {**counted()["packets"], "bytes": 1}}, "bytes is 1"),
        ({"packets": {**counted()["packets"], "highest": 9}}, "highest is 9"),
        ({"level": "counters"}, "which level counters does not look at"),
    ],
)
def test_counts_that_contradict_each_other(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        parse(CountsDocument, counted() | change, "the document")
