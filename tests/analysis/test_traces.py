# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets that other programs recorded: read, counted as our receiver does, kept and exported.

Against the receiver itself: tests/guest/test_traffic.py.
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path

import golden_files
import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_traces import (
    BOTH_TIMES_LOG,
    ECHO_LOG,
    NEW_LOG,
    SAMPLES,
    SERVER_LOG,
    START_NS,
    TREX,
    ethernet,
    ipv4,
    pcap,
    pcapng,
    pktgen,
    some_packets,
    stamped,
    times,
    udp,
)

from mutated import changed_bytes, examples, value_or_line
from skblab_analysis.base.errors import EXIT_USAGE, SkblabError, UsageError
from skblab_analysis.formats.packets import Flag, load
from skblab_analysis.formats.traces import (
    account,
    chunk,
    export,
    luna,
    numbering,
    opening,
    timestamps,
)
from skblab_analysis.formats.traces import pcap as captures
from skblab_analysis.formats.traces.document import FormatName, ImportDocument, Stream
from skblab_analysis.formats.traces.times import ERROR, PERCENTILES, TAIL, WHOLE, TimesCount
from skblab_analysis.formats.traces.tracking import Tracker

GOLDEN = golden_files.FOLDER / "packets.rec"
NAMES: dict[str, FormatName] = {
    **{"timestamps": "timestamps", "luna": "luna", "pcap": "pcap", "pcapng": "pcap"},
    "trex": "trex",
}


def read(
    folder: Path, data: bytes | str, name: FormatName | None = None, output: Path | None = None
) -> ImportDocument:
    file = folder / "file"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return opening.run(file, output, name)


def stream(document: ImportDocument) -> Stream:
    [one] = document.streams
    return one


any_size = st.builds(lambda shift, value: value >> shift, st.integers(0, 52), st.integers(0, 2**52))


@given(st.lists(any_size, min_size=1, max_size=300), st.integers(1, 40), st.booleans())
def test_figures_are_those_of_all_values(values: list[int], step: int, doubles: bool) -> None:
    made = TimesCount()
    for at in range(0, len(values), step):
        made.add(np.array(values[at : at + step], np.float64 if doubles else np.int64))
    report = made.report()
    assert (report.count, report.negative) == (len(values), 0)
    assert (report.min_ns, report.max_ns) == (min(values), max(values))
    assert report.mean_ns is not None
    assert math.isclose(report.mean_ns, math.fsum(values) / len(values), rel_tol=1e-9)
    if len(values) > 1:
        assert report.sd_ns is not None
        assert math.isclose(report.sd_ns, np.std(values, ddof=1), rel_tol=1e-6, abs_tol=1e-6)
    for name, beyond in PERCENTILES:
        assert (name in report.percentiles_ns) == (len(values) * beyond >= TAIL * WHOLE)
        if name in report.percentiles_ns:
            exact = sorted(values)[-(-len(values) * (WHOLE - beyond) // WHOLE) - 1]
            assert abs(report.percentiles_ns[name] - exact) <= exact * ERROR


def test_below_zero_is_counted_only() -> None:
    made = TimesCount()
    made.add(np.array([-1, 3, -5]))
    made.add(np.array([-1.0]))
    made.add(np.array([], np.int64))
    report = made.report()
    assert (report.count, report.negative, report.min_ns, report.sd_ns) == (1, 3, 3, None)


def judged(
    numbers: Sequence[int], flows: Sequence[int], window: int, expect: int | None
) -> list[int]:
    """Return the flags of packets, one by one."""
    seen, highest, found = set[int](), -1, []
    for number in numbers:
        if expect is not None and number >= expect:
            found.append(int(Flag.BEYOND))
        elif highest - number >= window:
            found.append(int(Flag.TOO_OLD))
        elif number in seen:
            found.append(int(Flag.DUPLICATE))
        else:
            found.append(int(Flag.REORDERED) if number < highest else 0)
            seen.add(number)
            highest = max(highest, number)
    return found


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=80),
    st.integers(1, 30),
    st.none() | st.integers(1, 60),
)
def test_a_tracker_is_as_one_by_one(
    packets: list[tuple[int, int]], step: int, expect: int | None
) -> None:
    window = 16
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skblab_analysis.formats.traces.tracking.WINDOW", window)
        tracker = Tracker(expect)
        numbers, flows = ([packet[at] for packet in packets] for at in (0, 1))
        found = list[int]()
        for at in range(0, len(packets), step):
            part = slice(at, at + step)
            got = tracker.observe(np.array(numbers[part]), np.array(flows[part], np.uint16))
            found += got.tolist()
    expected = judged(numbers, flows, window, expect)
    assert found == expected
    new = [flag in (0, int(Flag.REORDERED)) for flag in expected]
    highest, in_flow = dict[int, int](), 0
    for number, flow, is_new in zip(numbers, flows, new, strict=True):
        if is_new:
            in_flow += number < highest.get(flow, -1)
            highest[flow] = max(number, highest.get(flow, -1))
    counts = tracker.counts
    assert counts.reordered_in_flow == in_flow
    assert (counts.distinct, counts.reordered) == (sum(new), expected.count(int(Flag.REORDERED)))
    assert counts.distinct + counts.duplicates + counts.too_old + counts.beyond == len(packets)
    assert tracker.flows == len(highest)
    below = expect if expect is not None else max(highest.values(), default=-1) + 1
    assert tracker.lost == max(below - sum(new), 0)


@given(st.lists(st.integers(0, 15), max_size=40), st.integers(0, 100), st.integers(1, 9))
def test_numbers_in_full_are_near_the_highest(low: list[int], begin: int, step: int) -> None:
    expected, highest = list[int](), begin
    for number in low:
        near = range(max(highest - 8, 0), max(highest - 8, 0) + 16)
        [full] = [one for one in near if one % 16 == number]
        expected.append(full)
        highest = max(highest, full)
    found, highest = list[int](), begin
    for at in range(0, len(low), step):
        part = numbering.unfolded(np.array(low[at : at + step], np.int64), 4, highest).tolist()
        found += part
        highest = max([highest, *part])
    assert found == expected


def test_timestamps(tmp_path: Path) -> None:
    output = tmp_path / "out.rec"
    pairs = [(0.001, 0.001_01), (0.002, 0.002_03), (0.003, 0.003_02)]
    document = read(tmp_path, times(pairs), "timestamps", output)
    found = stream(document)
    assert document.troubles == () and document.record and document.record.kept == 3
    assert found.received == 3 and found.lost is None and "lost" in document.unknown
    assert found.delay and (found.delay.min_ns, found.delay.max_ns) == (10_000, 30_000)
    assert found.jitter and (found.jitter.min_ns, found.jitter.max_ns) == (10_000, 20_000)
    assert found.inter_arrival and found.inter_arrival.max_ns == 1_020_000
    assert (found.seconds, found.rate) == (0.002_01, 2 / 0.002_01)
    packets = load(output)
    assert packets.header.lacking == {"sequence", "flow", "payload"}
    assert (packets.header.stamps, packets.header.receiver_clock) == ("tester", None)
    assert packets.records["sequence"].tolist() == [0, 1, 2]
    # Records of it say the same.
    again = opening.run(output, None, None)
    assert again.format == "records" and again.unknown.keys() == packets.header.lacking
    assert stream(again).model_copy(update={"foreign": None}) == found


def test_timestamps_that_are_none_are_left_out(tmp_path: Path) -> None:
    wrong = [(math.nan, 1.0), (1.0, math.inf), (-1.0, 1.0), (1e300, 1.0)]
    document = read(tmp_path, times([(1.0, 2.0), *wrong, (1.0, 4.0)]) + b"abc", "timestamps")
    assert stream(document).received == 2
    first, second = document.troubles
    assert first.startswith("4 packets have no times, the first of them number 1, at byte 16")
    assert second.endswith("its last 3 bytes are left out")


def test_seconds_since_1970_are_read_as_nanoseconds(tmp_path: Path) -> None:
    found = stream(read(tmp_path, times([(1.8e9, 1.8e9 + 1)]), "timestamps"))
    assert found.delay and found.delay.min_ns == 1_000_000_000


def test_a_log_of_lunas_server(tmp_path: Path) -> None:
    output = tmp_path / "out.rec"
    document = read(tmp_path, SERVER_LOG, None, output)
    found = stream(document)
    assert (document.format, document.troubles) == ("luna", ())
    assert (found.distinct, found.duplicates, found.reordered, found.lost) == (4, 1, 1, 0)
    assert (found.flows, found.bytes, found.reordered_in_flow) == (2, 36, 0)
    assert found.jitter is None and found.delay is None
    assert found.delay_unknown and "does not say when packets were sent" in found.delay_unknown
    assert found.inter_arrival and found.inter_arrival.max_ns == 999_000
    records = load(output).records
    assert records["received_ns"][0] == 1368543912939397000
    assert records["flow"].tolist() == [0, 0, 1, 0, 0]
    assert records["flags"].tolist() == [0, 0, 0, int(Flag.REORDERED), int(Flag.DUPLICATE)]


def test_other_logs_of_luna(tmp_path: Path) -> None:
    both = read(tmp_path, BOTH_TIMES_LOG)
    assert stream(both).distinct == 2 and "utime" in both.unknown
    echo = stream(read(tmp_path, ECHO_LOG))
    assert echo.delay and (echo.delay.min_ns, echo.delay.max_ns) == (55_000, 61_000)
    assert (echo.delay_of, echo.flows) == ("round trip", None)
    new = stream(read(tmp_path, NEW_LOG))
    assert (new.distinct, new.foreign and new.foreign.total) == (2, 1)
    assert new.inter_arrival and new.inter_arrival.min_ns == 1_000_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1368543912941390\t::1\t33606\tfour\t4", "sequence is 'four', expected a number"),
        ("1368543912941390\t::1\t70000\t4\t4", "port is '70000', expected a number"),
        ("1368543912941390\t::1\t33606\t4", "it has 4 columns, and expected are 5"),
        ("", "it has 1 columns, and expected are 5"),
        ("99999999999999999999\t::1\t33606\t4\t4", "ktime is '999"),
    ],
)
def test_a_line_that_is_no_packet(tmp_path: Path, line: str, said: str) -> None:
    document = read(tmp_path, SERVER_LOG + f"{line}\n" + "1368543912942390\t::1\t33606\t4\t4\n")
    assert stream(document).distinct == 5
    [trouble] = document.troubles
    assert trouble.startswith("1 lines are no packets and left out, the first of them line 7: ")
    assert said in trouble


def test_a_number_on_a_log_goes_on_behind_its_end(tmp_path: Path) -> None:
    lines = [f"{1000 + at}\t::1\t1\t{(2**32 - 2 + at) % 2**32}\t4\n" for at in range(2)]
    lines += [f"{2000 + at}\t::1\t1\t{at}\t4\n" for at in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(luna, "_AT_ONCE", 40)
        found = stream(read(tmp_path, SERVER_LOG.splitlines()[0] + "\n" + "".join(lines)))
    assert (found.distinct, found.reordered) == (4, 0)


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_capture(tmp_path: Path, form: str, order: str) -> None:
    output = tmp_path / "out.rec"
    make = pcap if form == "pcap" else pcapng
    document = read(tmp_path, make(some_packets(), order), None, output)
    found = stream(document)
    assert document.format == "pcap"
    assert document.troubles == ("3 packets of the capture are no whole UDP packets: left out",)
    assert (found.received, found.distinct, found.duplicates, found.reordered) == (9, 5, 1, 1)
    assert (found.lost, found.flows, found.transmission) == (0, 2, 9)
    assert found.foreign
    assert found.foreign.model_dump() == {
        **{"total": 3, "short": 1, "magic": 1, "version": 0},
        "other_transmission": 1,
    }
    assert found.jitter and found.jitter.max_ns == 30
    assert found.delay is None
    records = load(output).records
    new = records[(records["flags"] & int(Flag.FOREIGN)) == 0]
    took = (new["received_ns"] - new["sent_ns"]).tolist()
    assert took == [70, 90, 60, 50, 50, 50, 80]
    assert new["payload_bytes"].tolist() == [16] * 6 + [900]
    assert records["sequence"].tolist() == [0, 1, 3, 2, 2, 5, 0, 0, 4]


def test_a_capture_by_one_clock(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(some_packets(), unit_ns=1000))
    found = stream(opening.run(file, None, None, same_clock=True, transmission=8, expect=9))
    assert (found.transmission, found.distinct, found.expected, found.lost) == (8, 1, 9, 8)
    assert found.delay and found.delay.min_ns == 50


def test_a_capture_of_pktgen(tmp_path: Path) -> None:
    packets = [
        (START_NS + at * 1000 + 7, ethernet(ipv4(udp(pktgen(at + 1, START_NS + at * 1000)))))
        for at in range(5)
    ]
    output = tmp_path / "out.rec"
    found = stream(read(tmp_path, pcap(packets), None, output))
    assert (found.distinct, found.lost, found.transmission) == (5, 0, 0)
    assert found.jitter and found.jitter.max_ns == 0
    records = load(output).records
    assert set(records["flags"].tolist()) == {int(Flag.PKTGEN)}
    assert (records["received_ns"] - records["sent_ns"]).tolist() == [7] * 5


def test_stamps_of_another_machines_boot(tmp_path: Path) -> None:
    packets = [
        (START_NS + at * 1000, ethernet(ipv4(udp(stamped(at, 5_000 + at * 1000, clock=2)))))
        for at in range(5)
    ]
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(packets))
    found = stream(opening.run(file, None, None, same_clock=True))
    assert found.jitter and (found.jitter.count, found.jitter.max_ns) == (4, 0)
    assert found.delay_unknown and "CLOCK_MONOTONIC" in found.delay_unknown


@pytest.mark.parametrize(("clock", "least"), [(0, 7), (1, 7 + 37 * 10**9)])
def test_stamps_of_tai_are_told_in_real_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: int, least: int
) -> None:
    monkeypatch.setattr(account, "_tai_offset_ns", lambda: 37 * 10**9)
    packets = [
        (sent + 7, ethernet(ipv4(udp(stamped(at, sent, clock=clock)))))
        for at, sent in enumerate(range(START_NS, START_NS + 5000, 1000))
    ]
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(packets))
    found = stream(opening.run(file, None, None, same_clock=True))
    assert found.delay and (found.delay.count, found.delay.min_ns) == (5, least)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pcap([], link=105), "link type 105 of the capture is not known: expected Ethernet"),
        (pcap([])[:20], "is no whole capture: it ends within its header"),
        (b"\0" * 40, "is no capture: it begins neither as pcap nor as pcapng"),
    ],
)
def test_what_is_no_capture(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(tmp_path, data, "pcap")


def test_packets_of_pcapng_that_cannot_be_used_are_told_once(tmp_path: Path) -> None:
    document = read(tmp_path, pcapng(some_packets(), link=105))
    [told] = document.troubles
    assert told.startswith("12 packets left out, the first at byte ")
    assert "of link type 105; expected Ethernet" in told


def test_trex_gives_figures_and_no_packets(tmp_path: Path) -> None:
    document = read(tmp_path, json.dumps(TREX))
    found = stream(document)
    assert (document.format, found.name) == ("trex", "pg_id 7")
    assert (found.lost, found.duplicates, found.reordered, found.received) == (2, 1, 3, 39)
    assert found.delay and (found.delay.min_ns, found.delay.max_ns) == (20_000, 123_000)
    assert (found.delay.mean_ns, found.delay.percentiles_ns) == (63_375, {})
    assert found.jitter is None and found.trex and found.trex.jitter_us == 23
    assert found.trex.histogram_us == {"20": 1, "30": 18, "100": 20}
    assert "no packets" in document.unknown["sequence"]
    with pytest.raises(UsageError, match="no records to write: leave out -o"):
        read(tmp_path, json.dumps(TREX), None, tmp_path / "out.rec")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "is no whole JSON"),
        (b'{"latency": {}}', "expected under `latency` an object for each pg_id"),
        (b'{"latency": {"1": {"latency": {"average": "x"}}}}', "latency.1.latency.average: "),
        (b"{}", "expected an object with `latency`"),
    ],
)
def test_what_is_not_of_trex(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(tmp_path, data)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_told(tmp_path: Path, name: str) -> None:
    file = tmp_path / "some"
    file.write_bytes(SAMPLES[name])
    assert opening.format_of(file) == NAMES[name]


def test_a_format_that_cannot_be_told(tmp_path: Path) -> None:
    file = tmp_path / "timestamps-1-p0.data"
    file.write_bytes(SAMPLES["pcap"])
    with pytest.raises(UsageError, match="the name of timestamps and the content of pcap"):
        opening.format_of(file)
    file = tmp_path / "other"
    for data in (b"", b"what is this? It is some text, and no more than that", bytes(64)):
        file.write_bytes(data)
        with pytest.raises(UsageError, match="cannot be told: expected one of records, time"):
            opening.format_of(file)
    with pytest.raises(UsageError, match="No such file"):
        opening.format_of(tmp_path / "none")


def whole_before(data: bytes, cut: int, form: str) -> int:
    """Return how many packets are whole in a file that is cut there."""
    if form == "timestamps":
        return cut // 16
    if form == "luna":
        return max(data[:cut].count(b"\n") - 1, 0)
    # Of those with UDP.
    is_udp = [True] * 8 + [False] * 3 + [True]
    return sum(
        packet and end <= cut for end, packet in zip(captured_until(form), is_udp, strict=True)
    )


@functools.cache
def captured_until(form: str) -> list[int]:
    """Return where each of the packets ends in a file of them."""
    make = pcap if form == "pcap" else pcapng
    packets = some_packets()
    return [len(make(packets[:number])) for number in range(1, len(packets) + 1)]


@pytest.mark.parametrize("name", ["timestamps", "luna", "pcap", "pcapng"])
def test_a_file_that_is_cut_keeps_its_whole_packets(tmp_path: Path, name: str) -> None:
    data = SAMPLES[name]
    for cut in range(len(data)):
        try:
            document = read(tmp_path, data[:cut], NAMES[name])
        except SkblabError as error:
            # The beginning is not there.
            assert cut < 40, error
            continue
        assert stream(document).received == whole_before(data, cut, name), cut


@pytest.mark.parametrize(("name", "head"), [("timestamps", 0), ("luna", None), ("pcap", 24)])
def test_a_file_without_packets_tells_the_same_fields(
    tmp_path: Path, name: str, head: int | None
) -> None:
    data = SAMPLES[name]
    begin = data[: data.index(b"\n") + 1 if head is None else head]
    none, some = (stream(read(tmp_path, text, NAMES[name])) for text in (begin, data))
    assert none.received == 0 and none.delay_unknown == some.delay_unknown

    def unknown(found: Stream) -> set[str]:
        # These take a packet, or two.
        return {key for key, value in found if value is None} - {"transmission", "rate"}

    assert unknown(none) == unknown(some)
    assert none.lost == (None if name == "timestamps" else 0)


@examples
@given(st.data())
def test_any_file_is_read_or_refused_in_a_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    name = data.draw(st.sampled_from([*SAMPLES, "records"]))
    sample = GOLDEN.read_bytes() if name == "records" else SAMPLES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        sample = changed_bytes(lambda low, high: data.draw(st.integers(low, high)), sample)
    output = folder / "out.rec"
    for form in (None, "records" if name == "records" else NAMES[name]):
        document = value_or_line(
            lambda form=form: read(folder, sample, form, None if name == "trex" else output)  # type: ignore[misc]
        )
        if document is None:
            continue
        for trouble in document.troubles:
            assert "\n" not in trouble and len(trouble) < 1000
        if document.record:
            # What was kept is read again, all of it.
            again = opening.run(output, None, None)
            assert again.troubles == () and stream(again).received == stream(document).received
    assert [*folder.glob(".*")] == []


@pytest.mark.parametrize("size", [1, 3, 1 << 15])
def test_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    expected = {name: read(tmp_path, data, NAMES[name]) for name, data in SAMPLES.items()}
    for module in (timestamps, captures):
        monkeypatch.setattr(module, "MOST", size)
    monkeypatch.setattr(luna, "_AT_ONCE", size)
    for name, data in SAMPLES.items():
        found = read(tmp_path, data, NAMES[name])
        for one, other in zip(found.streams, expected[name].streams, strict=True):
            assert alike(one.model_dump(), other.model_dump()), name


def alike(one: object, other: object) -> bool:
    """Return whether figures are the same but for how sums are rounded."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return one == other


def imported(tmp_path: Path) -> Path:
    output = tmp_path / "some.rec"
    read(tmp_path, SAMPLES["pcap"], None, output)
    return output


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_tables_have_what_the_records_have(tmp_path: Path, to: export.ExportName) -> None:
    file, output = imported(tmp_path), tmp_path / f"out.{to}"
    assert export.run(file, output, to) == (9, [])
    table = polars.read_csv(output) if to == "csv" else polars.read_parquet(output)
    records = load(file).records
    assert table.columns == export.SCHEMA.names
    assert table["received_ns"].to_list() == records["received_ns"].tolist()
    assert table["sequence"].to_list() == [0, 1, 3, 2, 2, 5, None, None, 4]
    assert table["duplicate"].to_list() == [at == 4 for at in range(9)]
    assert table["sender_clock"].to_list()[5:8] == ["CLOCK_REALTIME", None, None]
    read(tmp_path, SAMPLES["timestamps"], "timestamps", file)
    assert export.run(file, output, to) == (9, [])
    table = polars.read_csv(output) if to == "csv" else polars.read_parquet(output)
    assert table["payload_bytes"].null_count() == table["sequence"].null_count() == 9
    assert table["sent_ns"].to_list()[1] == 1_001_000_000


@pytest.mark.parametrize("name", ["timestamps", "luna", "pcap", "golden"])
def test_an_exported_capture_is_read_back(tmp_path: Path, name: str) -> None:
    file, output = tmp_path / "some.rec", tmp_path / "out.pcap"
    if name == "golden":
        file = GOLDEN
    else:
        read(tmp_path, SAMPLES[name], NAMES[name], file)
    first = load(file)
    assert export.run(file, output, "pcap") == (len(first.records), [])
    headers = output.read_bytes().split(bytes.fromhex("0200000000020200000000010800"))[1:]
    assert len(headers) == len(first.records)
    for header in headers:
        # Of a header with its checksum in it, the sum in ones' complement is 0 (RFC 1071).
        assert sum(struct.unpack(">10H", header[:20])) % 0xFFFF == 0
    again = tmp_path / "again.rec"
    opening.run(output, again, None, same_clock=first.header.one_clock)
    second = load(again)
    assert second.records["received_ns"].tolist() == first.records["received_ns"].tolist()
    for column in ("sequence", "flow", "sent_ns", "payload_bytes"):
        lacking = {"sent": "sent_ns", "payload": "payload_bytes"}
        if column in {lacking.get(one, one) for one in first.header.lacking}:
            continue
        known = (first.records["flags"] & int(Flag.FOREIGN)) == 0
        if column == "payload_bytes":
            # The header has its place in any.
            expected = np.where(known, np.maximum(first.records[column], 16), first.records[column])
            assert second.records[column].tolist() == expected.tolist()
            continue
        got, had = second.records[column][known], first.records[column][known]
        assert got.tolist() == had.tolist(), column


@pytest.mark.parametrize("name", ["records", "timestamps", "luna", "pcap", "trex"])
def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path, name: FormatName) -> None:
    with pytest.raises(SkblabError, match="No such file") as told:
        opening.run(tmp_path / "none", None, name)
    assert told.value.exit_code == EXIT_USAGE
    (tmp_path / "text").write_text("some text\n")
    with pytest.raises(UsageError, match="is no file of packet records"):
        export.run(tmp_path / "text", tmp_path / "out", "csv")


def test_an_export_is_whole_or_not_there(tmp_path: Path) -> None:
    file, output = imported(tmp_path), tmp_path / "out.csv"
    data = file.read_bytes()
    file.write_bytes(data[:-8])
    count, [trouble] = export.run(file, output, "csv")
    assert count == 9 and "the file ends within this block" in trouble
    with pytest.raises(UsageError, match="is the file that is read"):
        export.run(file, file, "csv")
    with pytest.raises(UsageError, match="is the file that is read"):
        opening.run(file, file, None)
    for nowhere, why in (("none/out", "there is no folder"), ("", "it is a folder")):
        for act in (
            lambda output: export.run(file, output, "csv"),
            lambda output: opening.run(file, output, None),
        ):
            with pytest.raises(UsageError, match=f"cannot write .*: {why}"):
                act(tmp_path / nowhere)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "out.csv", "some.rec"]


def test_memory_is_that_of_some_chunks(tmp_path: Path) -> None:
    """A file of ten chunks takes no more at once than a few arrays of one."""
    import tracemalloc

    count = 10 * chunk.MOST
    sent = np.arange(count) * 1e-6
    file = tmp_path / "timestamps-1.data"
    np.stack([sent, sent + 1e-5], 1).astype("<f8").tofile(file)
    opening.run(file, None, None)
    tracemalloc.start()
    opening.run(file, tmp_path / "out.rec", None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The numbers that a tracker remembers take 4 MiB.
    assert peak < (4 << 20) + chunk.MOST * 8 * 40
