# SPDX-License-Identifier: GPL-2.0-or-later
"""What Intel's PCM tools print: each version's tables, their units, gaps, and what is damaged.

No file of `pcm/` was recorded on a machine. Each was made by hand, after the code that prints it
in the version of its name, with figures that a two-socket server could have: header and row of
`pcm` as `print_csv_header` and `print_csv` of pcm.cpp have them, of `pcm-memory` as
`display_bandwidth_csv` of pcm-memory.cpp, of `pcm-numa` as `print_stats` of pcm-numa.cpp, of
`pcm-pcie` as `LegacyPlatform` of pcm-pcie.h.

- pcm-201812: Broadwell, `;`, sockets named once. pcm-202201: Ice Lake, empty cells above the four
  columns of top-down analysis. pcm-202604: Granite Rapids with `--die`, a core that was never
  awake, new columns.
- pcm-memory-202201: Skylake, channels 1 and 4 have no memory and no columns. pcm-memory-202302:
  Ice Lake, channel 7 has none and empty fields.
- pcm-numa-202201: up to 202604 it is the same.
- pcm-pcie-202201: Ice Lake with `-B`. pcm-pcie-202604: Sapphire Rapids with `-B -e`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutated import examples, texts, value_or_line
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.pcm import Sample, Tool, Unit, Value, parse

FOLDER = Path(__file__).with_name("pcm")
TOOLS: tuple[Tool, ...] = get_args(Tool)
FILES = sorted(path.stem for path in FOLDER.glob("*.csv"))


def printed(name: str) -> str:
    return (FOLDER / f"{name}.csv").read_text()


def tool_of(name: str) -> Tool:
    return next(tool for tool in TOOLS if name.rpartition("-")[0] == tool)


def read(name: str) -> list[Sample]:
    return parse(tool_of(name), printed(name))


def values(sample: Sample, scope: str, number: int | None, name: str) -> Iterator[Value]:
    for value in sample.values:
        if (value.scope, value.number, value.name) == (scope, number, name):
            yield value


def one(sample: Sample, scope: str, number: int | None, name: str, socket: int = -1) -> Value:
    """The only value of this name; of links, dies and channels there is one each socket."""
    some = values(sample, scope, number, name)
    [value] = (value for value in some if socket in (-1, value.socket))
    return value


def says(tool: Tool, text: str) -> str:
    with pytest.raises(SkblabError) as caught:
        parse(tool, text)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_there_are_files_of_each_tool() -> None:
    assert {tool_of(name) for name in FILES} == set(TOOLS)


@pytest.mark.parametrize("name", FILES)
def test_all_columns_are_known(name: str) -> None:
    samples = read(name)
    assert samples
    for sample in samples:
        assert sample.tool == tool_of(name)
        assert len(sample.values) == len(samples[0].values)
        for value in sample.values:
            assert value.scope != "other" and value.unit != "unknown", value
            assert (value.value is None) == bool(value.why)
            assert value.scope == "system" or value.number is not None
        keys = [(v.scope, v.socket, v.number, v.name) for v in sample.values]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("name", "scope", "number", "column", "unit", "value"),
    [
        ("pcm-202201", "system", None, "EXEC", "ratio", 0.66),
        ("pcm-202201", "system", None, "L2MISS", "count", 41_820_000),
        ("pcm-202201", "system", None, "L3HIT", "share", 0.81),
        ("pcm-202201", "system", None, "Frontend_bound(%)", "share", 0.22),
        ("pcm-202201", "system", None, "READ", "bytes", 7_220_000_000),
        ("pcm-202201", "system", None, "LOCAL", "share", 0.87),
        ("pcm-202201", "system", None, "TotalUPIin", "bytes", 950_500_000),
        ("pcm-202201", "system", None, "UPItoMC", "ratio", 0.1),
        ("pcm-202201", "system", None, "PhysIPC%", "share", 0.5286),
        ("pcm-202201", "system", None, "Core C0res%", "share", 0.3978),
        ("pcm-202201", "system", None, "Package C0res%", "share", 1.0),
        ("pcm-202201", "system", None, "Proc Energy (Joules)", "J", 141.3),
        ("pcm-202201", "system", None, "LLCRDMISSLAT (ns)", "ns", 118.42),
        ("pcm-202201", "system", None, "UncFREQ (Ghz)", "Hz", 2_400_000_000),
        ("pcm-202201", "socket", 0, "TEMP", "°C", 41),
        ("pcm-202201", "socket", 1, "Retiring(%)", "share", 0.31),
        ("pcm-202201", "socket", 1, "Package C0res%", "share", 1.0),
        ("pcm-202201", "socket", 1, "DRAM Energy (Joules)", "J", 11.9),
        ("pcm-202604", "system", None, "SYSTEM Energy (Joules)", "J", 2013.71),
        ("pcm-202604", "system", None, "Core_bound(%)", "share", 0.14),
        ("pcm-202604", "core", 3, "C6res%", "share", 1.0),
        ("pcm-202604", "core", 3, "TIME(ticks)", "count", 10_006_000_000),
        ("pcm-201812", "system", None, "QPItoMC", "ratio", 0.1),
        ("pcm-201812", "system", None, "Package C7res%", "share", 0.0),
        ("pcm-201812", "socket", 1, "L3OCC", "bytes", 13_775 * 1024),
        ("pcm-201812", "socket", 1, "LMB", "bytes", 2023 * 1024 * 1024),
        ("pcm-201812", "socket", 1, "Proc Energy (Joules)", "J", 69.2),
        ("pcm-memory-202201", "socket", 0, "P. Write (T/s)", "count/s", None),
        ("pcm-memory-202302", "socket", 0, "Memory (MB/s)", "bytes/s", 8_344_380_000),
        ("pcm-memory-202302", "system", None, "Memory", "bytes/s", 9_823_420_000),
        ("pcm-numa-202201", "core", 1, "IPC", "ratio", 0.88),
        ("pcm-numa-202201", "core", 1, "Remote DRAM accesses", "count", 169_779),
        ("pcm-numa-202201", "system", None, "Local DRAM accesses", "count", 7_255_871),
        ("pcm-pcie-202201", "socket", 0, "PCIRdCur", "count", 19_628_451),
        ("pcm-pcie-202201", "socket", 1, "PCIe Wr (B)", "bytes", 39_424),
        ("pcm-pcie-202604", "socket", 0, "PCIe Wr (B) (Miss)", "bytes", 1_057_323_904),
        ("pcm-pcie-202604", "socket", 1, "ItoM (Hit)", "count", 2465),
    ],
)
def test_units(
    name: str, scope: str, number: int | None, column: str, unit: Unit, value: float | None
) -> None:
    found = one(read(name)[0], scope, number, column)
    assert found.unit == unit
    assert found.socket == (number if scope == "socket" else found.socket)
    # Without the fraction that a float's product has.
    assert found.value == value or value is None


def test_links_have_data_and_utilisation() -> None:
    sample = read("pcm-201812")[0]
    data = one(sample, "link", 1, "dataIn", socket=0)
    assert (data.unit, data.value) == ("bytes", 246_150_000)
    assert one(sample, "link", 1, "dataIn (percent)", socket=0).value == 0.01
    links = [value for value in read("pcm-202604")[0].values if value.scope == "link"]
    assert {(value.socket, value.number) for value in links} == {
        (socket, link) for socket in (0, 1) for link in (0, 1, 2)
    }
    assert {value.name for value in links} == {
        *("dataIn", "dataIn (percent)", "trafficOut", "trafficOut (percent)")
    }
    carried = sum(value.value or 0 for value in links if value.name == "dataIn")
    total = one(read("pcm-202604")[0], "system", None, "TotalUPIin").value
    assert total == pytest.approx(carried, rel=1e-4)


def test_dies_and_cores_have_their_socket() -> None:
    sample = read("pcm-202604")[0]
    assert one(sample, "die", 1, "UncFREQ Die 1 (Ghz)", socket=1).value == 1_800_000_000
    assert one(sample, "die", 0, "TEMP", socket=1).value == 40
    assert {(v.number, v.socket) for v in sample.values if v.scope == "core"} == {
        *((0, 0), (1, 0), (2, 1), (3, 1))
    }
    numa = read("pcm-numa-202201")[0]
    assert {(v.number, v.socket) for v in numa.values if v.scope == "core"} == {
        (core, None) for core in range(4)
    }


def test_channels_add_up_to_their_socket() -> None:
    for name, channels in (
        ("pcm-memory-202201", {0, 2, 3, 5}),
        ("pcm-memory-202302", {*range(8)}),
    ):
        for sample in read(name):
            for socket in (0, 1):
                some = [v for v in sample.values if (v.scope, v.socket) == ("channel", socket)]
                assert {v.number for v in some} == channels
                read_all = sum(v.value or 0 for v in some if v.name.endswith("Read"))
                whole = one(sample, "socket", socket, "Mem Read (MB/s)").value
                assert whole == pytest.approx(read_all)


def test_times() -> None:
    assert [sample.time for sample in read("pcm-202201")] == [
        datetime(2022, 2, 3, 9, 41, 7, 118_000),
        datetime(2022, 2, 3, 9, 41, 8, 119_000),
    ]
    assert read("pcm-201812")[0].time == datetime(2018, 10, 2, 14, 5, 11, 402_000)
    numa = read("pcm-numa-202201")
    assert [sample.elapsed_ns for sample in numa] == [1_000_000_000, 1_001_000_000]
    for sample in (*numa, *read("pcm-pcie-202201")):
        assert sample.time is None


def test_a_gap_is_no_zero() -> None:
    idle = read("pcm-202604")[0]
    for name, why in (
        ("IPC", "pcm printed -1.00, which stands for unknown"),
        # -1 Hz, in GHz.
        ("CFREQ", "pcm printed -0.00, which stands for unknown"),
        ("PhysIPC%", "pcm printed -33.33, which stands for unknown"),
        ("L3MPI", "pcm printed -nan: it divided by 0"),
        ("TEMP", "pcm printed N/A"),
        ("L3OCC", "pcm printed N/A"),
    ):
        found = one(idle, "core", 3, name)
        assert (found.value, found.why) == (None, why)
    assert one(idle, "core", 3, "INST").value == 0
    channel = one(read("pcm-memory-202302")[0], "channel", 7, "Ch7Read", socket=1)
    assert (channel.value, channel.why) == (
        None,
        "pcm-memory left it empty, as it does for an idle channel",
    )
    assert one(read("pcm-numa-202201")[0], "core", 3, "IPC").value is None
    assert one(read("pcm-202201")[0], "socket", 1, "TEMP").value is None


@pytest.mark.parametrize("name", FILES)
def test_banners_messages_and_a_second_run(name: str) -> None:
    banner = " Intel(r) Performance Counter Monitor 202604\n\nNumber of sockets: 2, cores: 4\n"
    text = banner + printed(name) + "\nCleaning up\n Zeroed PMU registers\n"
    again = parse(tool_of(name), text + banner.replace(",", "") + printed(name))
    assert again == 2 * read(name)
    assert parse(tool_of(name), text.replace("\n", "\r\n")) == read(name)


def test_a_message_behind_the_last_separator() -> None:
    assert parse("pcm", printed("pcm-202604") + "Cleaning up\n") == read("pcm-202604")
    assert "fields in '2026-04-20" in says("pcm", printed("pcm-202604") + "12.5\n\n;")


@pytest.mark.parametrize("name", FILES)
def test_of_a_killed_tool_the_whole_samples_are_kept(name: str) -> None:
    """Wherever the text ends: a prefix of the samples, and never a figure that was cut."""
    tool, text, whole = tool_of(name), printed(name), read(name)
    ends = 0
    for end in range(0, len(text), 1 if len(text) < 2000 else 7):
        begun = value_or_line(partial(parse, tool, text[:end]))
        if begun is None:
            assert not ends, "a longer text has a table, if a shorter one has"
            continue
        ends += 1
        if tool == "pcm-pcie" and begun != whole[: len(begun)]:
            # Its first table may have been cut between two sockets.
            [first] = begun
            assert first.values == whole[0].values[: len(first.values)]
            continue
        assert begun == whole[: len(begun)]
    assert ends


@pytest.mark.parametrize("name", FILES)
def test_a_last_row_without_its_newline(name: str) -> None:
    """Of two tools it is whole by its last separator; of the others the last figure may be cut."""
    whole = read(name) if tool_of(name) in ("pcm", "pcm-numa") else read(name)[:-1]
    assert parse(tool_of(name), printed(name).rstrip("\n")) == whole


def test_no_samples_yet() -> None:
    header = printed("pcm-202201").split("\n2022")[0]
    assert parse("pcm", header) == []
    assert parse("pcm-numa", "Time elapsed: 1000 ms\nCore,IPC,Instructions,Cycles,Lo") == []
    assert parse("pcm-pcie", "Skt,PCIRdCur,ItoM\n") == []


def row(name: str, line: int, old: str, new: str) -> str:
    lines = printed(name).split("\n")
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    return "\n".join(lines)


def test_damage_is_said_in_one_line() -> None:
    assert says("pcm", "") == (
        "pcm -csv printed nothing; expected a row of System and sockets, "
        "and below it one that begins with Date and Time"
    )
    assert says("pcm-numa", "pcm-numa tool does not support your processor currently.\n") == (
        "pcm-numa -csv, line 1: no table up to 'pcm-numa tool does not support your processor "
        "currently.'; expected a table with a header that begins Core,IPC"
    )
    assert says("pcm", row("pcm-202201", 3, "0.66,1.32,", "0.66,")) == (
        "pcm -csv, line 3: 242 fields in "
        "'2022-02-03,09:41:07.118,0.66,0.50,1.25,8.01,41.82,0.81,0.67…'"
        "; expected 243 as in the header"
    )
    assert says("pcm", row("pcm-202201", 3, ",0.66,", ",0.6x,")) == (
        "pcm -csv, line 3: EXEC is '0.6x'; expected a number or N/A"
    )
    assert says("pcm", row("pcm-202201", 3, "2022-02-03", "2022-02-30")) == (
        "pcm -csv, line 3: '2022-02-30 09:41:07.118' is no time; "
        "expected such as 2026-04-01,12:00:00.000"
    )
    assert says("pcm", printed("pcm-memory-202302")) == (
        "pcm -csv, line 2: no row of sockets above Date; expected one that begins with System"
    )
    assert "names below" in says("pcm", row("pcm-202201", 2, "EXEC,", ""))
    assert says("pcm-numa", row("pcm-numa-202201", 3, "0,", "")).endswith(
        "expected 6 as in the header of line 2"
    )
    assert "the table of line 2 has no end" in says(
        "pcm-numa", printed("pcm-numa-202201").replace("\n*", "\n9", 1)
    )
    lost = printed("pcm-pcie-202201").split("\n")
    del lost[2]
    assert "rows in the last table; expected 1 as before" in says("pcm-pcie", "\n".join(lost))
    assert says("pcm-pcie", "Skt,PCIRdCur\n0,5(Odd)\n") == (
        "pcm-pcie -csv, line 2: PCIRdCur is '5(Odd)'; expected a number or N/A"
    )
    assert "the row ends with '1,5'" in says("pcm-pcie", "Skt,PCIRdCur\n0,5(Hit)\n1,5\n")
    assert "0 rows in the table of line 1" in says("pcm-pcie", "Skt,PCIRdCur\nSkt,PCIRdCur\n")


def test_a_short_row_is_no_gap_at_its_end() -> None:
    numa = row("pcm-numa-202201", 3, "0,1.39,", "0,")
    assert "5 fields in '0,3289844102," in says("pcm-numa", numa)
    pcie = row("pcm-pcie-202201", 2, "0,19628451,", "0,")
    assert "7 fields in '0,17384005," in says("pcm-pcie", pcie)
    assert says("pcm-pcie", row("pcm-pcie-202201", 2, ",1193186112", ",")).endswith(
        "line 2: PCIe Wr (B) is ''; expected a number or N/A"
    )


def test_a_channel_that_fell_idle_is_no_shift_of_columns() -> None:
    lines = printed("pcm-memory-202201").split("\n")
    fields = lines[3].split(",")
    lines[3] = ",".join([*fields[:2], *fields[4:]])
    assert says("pcm-memory", "\n".join(lines)).endswith(
        "expected 29 as in the header (it may leave out idle channels: give it -all)"
    )


def test_columns_of_a_later_version_keep_their_name() -> None:
    text = (
        "System,System,System,Socket 0,Socket 0,Accelerator,NPU Energy (Joules),\n"
        "Date,Time,NEWEST,,New_bound(%),Busy,SKT1,\n"
        "2027-01-01,00:00:00.000,-3,4,50,6,7,"
    )
    [sample] = parse("pcm", text)
    assert [(v.scope, v.socket, v.name, v.unit, v.value) for v in sample.values] == [
        ("system", None, "NEWEST", "unknown", -3.0),
        ("socket", 0, "column 4", "unknown", 4.0),
        ("socket", 0, "New_bound(%)", "share", 0.5),
        ("other", None, "Accelerator Busy", "unknown", 6.0),
        ("socket", 1, "NPU Energy (Joules)", "J", 7.0),
    ]


def test_persistent_memory_ranks_and_cxl() -> None:
    """Columns by display_bandwidth_csv of 202604, and of ranks by printSocketRankBWHeader_cvt."""
    text = (
        ",,SKT0,SKT0,SKT0,SKT0,SKT0,SKT0,SKT0,SKT0,System,System,System\n"
        "Date,Time,Ch0PMM_Read, PMM_Write (MB/s),NM hit rate,NM hits (M/s),iMC0 NM read hit rate,"
        "PMM_MM_Bw/DRAM_Bw,EDC_Ch3Write,CXL.cache_P0hst->dv,DRAMRead,PMMREAD,CXLRead\n"
        "2026-04-01,12:00:00.000,1.5,2,0.75,3,0.5,1.25,4,5,6,7,8\n"
    )
    [sample] = parse("pcm-memory", text)
    assert [(v.scope, v.number, v.name, v.unit, v.value) for v in sample.values] == [
        ("channel", 0, "Ch0PMM_Read", "bytes/s", 1_500_000),
        ("socket", 0, "PMM_Write (MB/s)", "bytes/s", 2_000_000),
        ("socket", 0, "NM hit rate", "share", 0.75),
        ("socket", 0, "NM hits (M/s)", "count/s", 3_000_000),
        ("socket", 0, "iMC0 NM read hit rate", "share", 0.5),
        ("socket", 0, "PMM_MM_Bw/DRAM_Bw", "ratio", 1.25),
        ("channel", 3, "EDC_Ch3Write", "bytes/s", 4_000_000),
        ("socket", 0, "CXL.cache_P0hst->dv", "bytes/s", 5_000_000),
        ("system", None, "DRAMRead", "bytes/s", 6_000_000),
        ("system", None, "PMMREAD", "bytes/s", 7_000_000),
        ("system", None, "CXLRead", "bytes/s", 8_000_000),
    ]
    ranks = ",,SKT1,SKT1,\nDate,Time,Mem_Ch2_R0_reads,Mem_Ch2_R0_writes,\n"
    [sample] = parse("pcm-memory", ranks + "2026-04-01,12:00:00.000,10.5,1,\n2026-04-01,12:00:01.0")
    assert [(v.scope, v.socket, v.number, v.value) for v in sample.values] == [
        ("channel", 1, 2, 10_500_000),
        ("channel", 1, 2, 1_000_000),
    ]


def check(tool: Tool, text: str) -> None:
    for sample in parse(tool, text):
        assert sample.tool == tool
        for value in sample.values:
            assert value.tool == tool and value.name
            assert (value.value is None) == bool(value.why)
            assert value.value is None or math.isfinite(value.value)
            assert value.value is None or value.value >= 0 or value.unit in ("°C", "unknown")


@examples
@given(data=st.data())
def test_any_output(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FILES))
    tool = data.draw(st.sampled_from(TOOLS)) if data.draw(st.booleans()) else tool_of(name)
    text = data.draw(texts(printed(name)))
    value_or_line(lambda: check(tool, text))


@examples
@given(st.sampled_from(TOOLS), st.text(max_size=300))
def test_any_text(tool: Tool, text: str) -> None:
    value_or_line(lambda: check(tool, text))
