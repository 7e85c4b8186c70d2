# SPDX-License-Identifier: GPL-2.0-or-later
"""The adapter for TRex, with a made-up STLClient: what it asks of TRex, and what it answers."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import schema_checks
import trex_made_up
from trex_made_up import port

from skblab.lab import paths
from skblab.testbeds.asked import MOST_PACKETS, Stream
from skblab.testbeds.command import Command
from skblab.testbeds.sending import Sending
from skblab_analysis.formats.sender import SenderAnswer

TREX = paths.tree() / "runners" / "adapters" / "trex_stl.py"
MACS = {
    **{"G0_MAC": "02:00:00:00:00:01", "R0_MAC": "02:00:00:00:00:02"},
    **{"C0_MAC": "02:00:00:00:00:05", "S1_MAC": "02:00:00:00:00:06"},
}
STREAM = Stream(family=4, frame=64, flows=32)
SENDING = Sending(STREAM, 1000, rate=1000.0, seconds=2.0)
# What other ports have counted before, and then what comes late.
STATS = [
    *[{0: port(5_000, 7), 1: port(3, 4_900)}] * 4,
    {0: port(5_400, 7), 1: port(3, 5_000)},
    {0: port(5_990, 7, 10), 1: port(3, 5_700)},
    {0: port(5_990, 7, 10), 1: port(3, 5_880)},
]


def run(
    api: Path, sending: Sending, *options: str, tag: str = ""
) -> subprocess.CompletedProcess[str]:
    """Have the adapter do what a testbed asks for whose ports the kernel does not have."""
    asked = Command((str(TREX),), counts=True).request(sending, MACS, tag)
    return subprocess.run(
        [sys.executable, str(TREX), *options],
        input=asked.model_dump_json(by_alias=True),
        env={"PYTHONPATH": str(api.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )


def answered(api: Path, sending: Sending, *options: str, tag: str = "") -> dict[str, Any]:
    done = run(api, sending, *options, tag=tag)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    schema_checks.schema("sender-answer").validate(found)
    assert SenderAnswer.model_validate_json(done.stdout)
    return found


def streams(api: Path) -> list[dict[str, Any]]:
    [added] = [named for name, named in trex_made_up.calls(api) if name == "add_streams"]
    [made] = added["words"]
    return list(made)


def frame(stream: dict[str, Any]) -> bytes:
    return bytes.fromhex(stream["packet"]["pkt_buffer"])


def steps(stream: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the instructions that change packets."""
    vm = stream["packet"]["vm"]
    return vm["words"][0] if vm else []


def summed(data: bytes) -> int:
    """Return the sum of RFC 1071 over what holds its own checksum: all ones, if that is right."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_counters_are_read_before_and_after_once_they_stand_still(tmp_path: Path) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    found = answered(api, SENDING)
    # All that were tried, at their rate: the made-up TRex takes no time.
    assert found == {
        **{"schema": "skblab.sender/1", "sent": 990, "refused": 10, "received": 980},
        "seconds": 1.0,
    }
    asked = trex_made_up.calls(api)
    before, after = 4, 6
    assert [name for name, _ in asked] == [
        *("STLClient", "connect", "reset", "add_streams"),
        *["get_stats"] * before,
        *("start", "wait_on_traffic"),
        *["get_stats"] * after,
        "disconnect",
    ]
    said = dict(asked)
    assert said["STLClient"] == {"server": "127.0.0.1"}
    assert said["reset"] == {"ports": [0, 1]}
    assert said["start"] == {"ports": [0], "mult": "1", "duration": 2.0, "force": True}
    assert said["wait_on_traffic"] == {"ports": [0], "timeout": 12.0}


def test_a_stream_has_the_packets_that_are_asked_for(tmp_path: Path) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    answered(api, SENDING)
    [stream] = streams(api)
    assert stream["mode"] == {"is": "STLTXSingleBurst", "total_pkts": 1000, "pps": 1000.0}
    assert (stream["mac_src_override_by_pkt"], stream["mac_dst_override_mode"]) == (True, 1)
    data = frame(stream)
    # As RFC 2544 counts, there are 4 bytes of checksum more.
    assert len(data) == 60
    assert data[:14].hex() == "02000000000202000000000108" + "00"
    assert data[14:34][12:] == bytes([198, 18, 0, 2, 198, 19, 0, 2])
    assert struct.unpack("!HHH", data[34:40]) == (1024, 1024, 26)
    assert summed(data[14:34]) == 0xFFFF
    assert summed(data[26:34] + struct.pack("!II", 26, 17) + data[34:]) == 0xFFFF
    variable, write, fix = steps(stream)
    assert variable == {
        **{"is": "STLVmFlowVar", "name": "port", "size": 2, "op": "inc"},
        **{"min_value": 1024, "max_value": 1055},
    }
    assert write == {"is": "STLVmWrFlowVar", "fv_name": "port", "pkt_offset": 34}
    assert fix == {"is": "STLVmFixChecksumHw", "l3_offset": 14, "l4_offset": 34, "l4_type": 11}


def test_a_tag_comes_on_top_of_the_size(tmp_path: Path) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    sending = Sending(Stream(family=6, frame=82, flows=1), 1000, rate=1000.0, seconds=2.0)
    answered(api, sending, tag="7")
    [stream] = streams(api)
    data = frame(stream)
    assert len(data) == 82
    assert data[12:18].hex() == "8100000786dd"
    assert data[18:26].hex() == "60000000" + "0018" + "11" + "40"
    assert summed(data[26:58] + struct.pack("!II", 24, 17) + data[58:]) == 0xFFFF
    # One flow to one address: nothing changes, and no card has to mend a checksum.
    assert steps(stream) == []


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        (4, [("address", "0b000000", "63ffffff", 30)]),
        (
            6,
            [
                ("network", "2400" + "0" * 12, "240f" + "f" * 12, 38),
                # TRex counts the numbers of a variable in 8 bytes.
                ("host", "0" * 16, "f" * 15 + "e", 46),
            ],
        ),
    ],
)
def test_random_destinations(
    tmp_path: Path, family: int, wanted: list[tuple[str, str, str, int]]
) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    stream = Stream.model_validate(
        {"family": family, "frame": 128, "flows": 1, "destinations": "random"}
    )
    answered(api, Sending(stream, 1000, rate=1000.0, seconds=2.0))
    *pairs, _ = steps(streams(api)[0])
    found = [
        (
            variable["name"],
            *(
                variable[end].to_bytes(variable["size"], "big").hex()
                for end in ("min_value", "max_value")
            ),
            write["pkt_offset"],
        )
        for variable, write in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    assert found == wanted
    assert {variable["op"] for variable in pairs[::2]} == {"random"}


def test_a_mix_is_a_stream_for_each_size(tmp_path: Path) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    mix = Stream(family=4, frame="ams-ix", flows=1)
    answered(api, Sending(mix, 1001, rate=1000.0, seconds=2.0))
    made = streams(api)
    assert [len(frame(stream)) + 4 for stream in made] == [1518, 1270, 767, 383, 191, 96]
    counts = [stream["mode"]["total_pkts"] for stream in made]
    assert counts == [210, 260, 30, 30, 40, 431]
    assert sum(counts) == 1001
    assert [stream["mode"]["pps"] for stream in made] == [210.0, 260.0, 30.0, 30.0, 40.0, 430.0]


def test_as_fast_as_it_goes_until_the_time_is_up(tmp_path: Path) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    found = answered(api, Sending(STREAM, MOST_PACKETS, seconds=3.0))
    [stream] = streams(api)
    assert stream["mode"] == {"is": "STLTXCont", "pps": 1.0}
    assert dict(trex_made_up.calls(api))["start"]["mult"] == "100%"
    assert found["seconds"] == 3.0


def test_the_testers_own_loop_has_other_ports(tmp_path: Path) -> None:
    stats = [{2: values[0], 3: values[1]} for values in STATS]
    api = trex_made_up.write(tmp_path, stats)
    alone = Sending(STREAM, 1000, rate=1000.0, seconds=2.0, tester=True)
    assert answered(api, alone, "--loop", "2,3")["received"] == 980
    assert frame(streams(api)[0])[:12].hex() == "020000000006020000000005"


@pytest.mark.parametrize(
    ("sending", "options", "said"),
    [
        (Sending(STREAM, 10, by_queue=True), [], "trex_stl.py: TRex's packets pass no kernel"),
        (
            Sending(STREAM, 10, rate=10.0, seconds=2.0, then=5.0, after=1.0),
            [],
            "trex_stl.py: TRex does not say which packet is the first at another rate",
        ),
        (Sending(STREAM, 10, tester=True), [], "trex_stl.py: the tester's own loop is asked for"),
        (SENDING, ["--ports", "zero"], "trex_stl.py: zero: expected two ports, such as 0,1"),
    ],
)
def test_what_trex_cannot_do_is_one_line(
    tmp_path: Path, sending: Sending, options: list[str], said: str
) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    done = run(api, sending, *options)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(said)


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    api = trex_made_up.write(tmp_path, STATS)
    (api / "gone").touch()
    done = run(api, SENDING)
    assert (done.returncode, done.stdout) == (1, "")
    last = "trex_stl.py: *** Failed to get server response from 127.0.0.1"
    assert done.stderr.splitlines()[-1] == last
