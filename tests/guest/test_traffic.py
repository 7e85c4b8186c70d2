# SPDX-License-Identifier: GPL-2.0-or-later
"""The traffic tools between two namespaces (netns.sh), which are of the test alone.

Over loopback, and against packets that are forged: runners/traffic/tests/pair.rs. Over a link
that loses, repeats and reorders, which takes a kernel with netem: stock/test_traffic_faults.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from schema_checks import fits

from conftest import TREE, Skblab, links
from skblab.lab import tools
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.formats.traffic import (
    ClockDocument,
    EchoDocument,
    RoundTripDocument,
    WakeupDocument,
)
from waiting import PATIENCE, until

SCRIPT = "/skblab/tree/runners/traffic/tests/netns.sh"
# What it says of what it sent, changed; the rest is the real tool's.
LYING = """#!/bin/sh
[ "$1" = send ] || exec /skblab/tools/skblab-traffic "$@"
/skblab/tools/skblab-traffic "$@" | sed -E '{change}'
"""

# A receiver and a sender that loses, repeats and mixes packets, in a network of their own.
RECORDED = """
set -eu
ip link set lo up
"$1" receive --bind 127.0.0.1:5000 --record "$2/packets.rec" --same-clock --idle 1 \\
    >"$2/report.json" 2>"$2/said" &
until grep -q ready "$2/said"; do sleep 0.05; done
"$3" "$4"
wait $!
"""
MIXED = """
import random, socket, time
from made_up_traces import pktgen, stamped

drawn = random.Random(1)
numbers = [at + drawn.choice([0] * 20 + [-3, 5]) for at in range(20, 4020) if drawn.random() < 0.98]
ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
for number in numbers:
    payload = stamped(number, time.time_ns(), 9) + bytes(drawn.randrange(100))
    odd = drawn.random()
    if odd < 0.02:
        payload = stamped(number, time.time_ns(), 8)
    elif odd < 0.04:
        payload = drawn.choice([b"", b"[", b"other", b"what is not one of ours"])
    drawn.choice(ends).sendto(payload, ("127.0.0.1", 5000))
    time.sleep(0.0001)
"""

# An echo, round trips over it with a record of each packet, and wake-ups.
TRIPS = """
set -eu
ip link set lo up
"$1" echo --bind 127.0.0.1:5000 >"$2/echo.json" 2>"$2/said" &
until grep -q ready "$2/said"; do sleep 0.05; done
"$1" rtt --to 127.0.0.1:5000 --count 300 --rate 3000 --record "$2/trips.rec" >"$2/round-trip.json"
"$1" clock --to 127.0.0.1:5000 --count 20 >"$2/clock.json"
kill $!
wait $!
"$1" wakeup --seconds 0.1 >"$2/wakeup.json"
"""

pytestmark = pytest.mark.labroot


@pytest.fixture(scope="module")
def traffic(lab: LabRoot) -> Path:
    return tools.ensure_traffic(lab, Reporter())


def over_a_clean_link(
    lab: LabRoot, traffic: Path, binary: str, *binds: Bind
) -> subprocess.CompletedProcess[str]:
    before = links()
    call = lab.command(
        ["sh", SCRIPT, binary, "clean"],
        binds=[Bind(TREE, "tree"), Bind(traffic, "tools"), *binds],
    )
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert links() == before
    return done


def test_every_packet_of_both_families(lab: LabRoot, traffic: Path) -> None:
    done = over_a_clean_link(lab, traffic, "/skblab/tools/skblab-traffic")
    # A machine that is busy is a little behind.
    said = [line for line in done.stderr.splitlines() if "packets a second were sent" not in line]
    assert (done.returncode, said) == (0, [])
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["ok ipv4", "ok ipv6"]


@pytest.mark.parametrize(
    "change",
    ['s/"sent":[0-9]+/"sent":29999/', 's/"rate_reached":[0-9.]+/"rate_reached":29999/'],
    ids=["count", "rate"],
)
def test_what_does_not_agree_fails(
    lab: LabRoot, traffic: Path, tmp_path: Path, change: str
) -> None:
    liar = tmp_path / "liar"
    liar.write_text(LYING.format(change=change))
    liar.chmod(0o755)
    done = over_a_clean_link(lab, traffic, "/skblab/out/liar", Bind(tmp_path, "out"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "netns.sh: ipv4: not true: " in done.stderr


# In a network of its own; what the sender and the receiver print.
BOTH = """ip link set lo up
rm -f {folder}/ready
{receive} >{folder}/receive 2>{folder}/ready &
until grep -qs ready {folder}/ready; do sleep 0.05; done
{send} >{folder}/send
wait $!
"""


def pair(program: str, folder: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the program says as a sender of 2 000 packets, and as their receiver."""
    script = BOTH.format(
        # Room for all of them: the receiver may wait for a processor that others have.
        receive=f"{program} receive --bind 127.0.0.1:5000 --expect 2000 --rcvbuf 16777216",
        send=f"{program} send --to 127.0.0.1:5000 --count 2000 {' '.join(options)}",
        folder=folder,
    )
    subprocess.run(["unshare", "--net", "sh", "-euc", script], check=True, timeout=120)
    sent, received = (json.loads((folder / name).read_text()) for name in ("send", "receive"))
    return sent, received


def test_a_user_has_the_program_and_a_real_time_sender(
    traffic: Path, run_skblab: Skblab, tmp_path: Path
) -> None:
    """It is one file: it runs outside of the lab root, whatever libraries are there."""
    before = links()
    program = run_skblab("traffic", "program").stdout.strip()
    assert Path(program).parent == traffic
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    assert "statically linked" in needed.stdout or "not a dynamic executable" in needed.stderr
    options = ("--interval", "poisson:200us", "--realtime", "fifo:1", "--cpu", "0")
    sent, received = pair(program, tmp_path, *options, "--frame", "mix:64*7,594*4,1518*1")
    assert (sent["sent"], sent["unsent"], received["distinct"]) == (2000, 0, 2000)
    assert (sent["process"]["realtime"], sent["process"]["cpu"]) == ("fifo 1", 0)
    # Its memory is there, and stays.
    assert sent["process"]["major_faults"] == 0
    assert sent["process"]["minor_faults"] < 50
    assert received["process"]["realtime"] is None
    # Of a mix each has its share, and frames are what RFC 2544 counts.
    assert sent["payload_bytes"]["min"] + sent["frame_overhead"] == 64
    assert sent["payload_bytes"]["max"] + sent["frame_overhead"] == 1518
    assert sent["payload_bytes"]["sum"] == received["bytes"]
    # The mean of 2 000 exponential times is within a tenth of theirs, of this seed's always.
    assert sent["rate_planned"] == pytest.approx(5000, rel=0.1)
    assert links() == before


def test_what_is_wrong_is_one_line_and_nothing_is_sent(traffic: Path, run_skblab: Skblab) -> None:
    program = run_skblab("traffic", "program").stdout.strip()
    for words, told in (
        (("--size", "normal:1,2"), "--size normal: no such generator; there are: constant"),
        (("--interval", "poisson:1"), "1: expected a number and ns, us, ms or s"),
        (("--frame", "60"), "use --size 16 or --frame 62 or more"),
        (("--realtime", "fifo:0"), "expected fifo:PRIORITY or rr:PRIORITY, 1 to 99"),
        (("--cpu", "100000"), "CPU 100000"),
        (("--batch", "9", "--segment", "--size", "uniform:64,70"), "expected --size BYTES"),
        (("--size", "3000000000"), "a UDP payload of at most 65507 bytes, a frame of 65553"),
        (("--size", "constant:10.5"), "use --size 16 or --frame 62 or more"),
        (("--size", "\nx"), "--size x: expected bytes, such as 512"),
        (("--strict-rate",), "there is no rate to be kept; give --rate or --interval"),
        (("--rate", "9", "--strict-rate", "nan"), "expected per cent from 0, such as 0.1"),
        (("--interval", "file:/dev/zero"), "/dev/zero: it has more than 64 MiB"),
        (("--no-such-option",), "unexpected argument '--no-such-option' found"),
        (("--count", "many"), "invalid value 'many' for '--count <N>'"),
        (("--size", "64", "--frame", "64"), "cannot be used with"),
    ):
        # It is what `skblab traffic` becomes, which takes a second to get there.
        call = [program, "send", "--to", "127.0.0.1:5000", *words]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert told in done.stderr
        assert len(done.stderr.splitlines()) == 1
    done = run_skblab("traffic", "send")
    assert (done.returncode, done.stderr) == (
        2,
        "skblab-traffic: the following required arguments were not provided: --to <ADDR:PORT>; "
        "see --help\n",
    )
    done = run_skblab("traffic", "send", "--help")
    assert done.returncode == 0 and "gaussian:MEAN,DEVIATION" in done.stdout


def test_a_rate_that_is_not_kept_is_told(run_skblab: Skblab) -> None:
    """Nobody sends four billion packets a second: a warning, and 1 if the rate was to be kept."""
    words = ("traffic", "send", "--to", "127.0.0.1:9", "--rate", "4000000000", "--count", "1000")
    # Of one batch the time of its end is known, too.
    batch = ("--strict-rate", "--batch", "1024")
    for strict, status in (((), 0), (("--strict-rate",), 1), (batch, 1)):
        done = run_skblab(*words, *strict)
        assert done.returncode == status, done.stderr
        told = "packets a second were sent of 40" in done.stderr
        assert told, done.stderr
        assert json.loads(done.stdout)["rate_reached"] < 1e9


def test_an_import_says_what_the_receiver_says(
    traffic: Path, tmp_path: Path, skblab_here: Skblab
) -> None:
    """Of a file that the receiver recorded: every figure that both have."""
    sender = tmp_path / "sender.py"
    folder = str(TREE / "tests/analysis")
    sender.write_text(f"import sys\nsys.path.insert(0, {folder!r})\n{MIXED}")
    call = ["unshare", "--net", "sh", "-c", RECORDED, "sh", str(traffic / "skblab-traffic")]
    subprocess.run([*call, str(tmp_path), sys.executable, str(sender)], check=True, timeout=120)
    report = json.loads((tmp_path / "report.json").read_text())
    assert min(report["duplicates"], report["reordered"], report["lost"], report["flows"]) > 2
    done = skblab_here("traffic", "import", str(tmp_path / "packets.rec"), "--same-clock")
    assert (done.returncode, done.stderr) == (0, "")
    [found] = json.loads(done.stdout)["streams"]
    for name in ("total", "other_transmission"):
        assert found["foreign"].pop(name) == report["foreign"].pop(name) > 0
    # What these are, records do not tell.
    assert set(found.pop("foreign").values()) == {None}
    found["stamps"]["stepped_ns"] = report["stamps"]["stepped_ns"]
    both = found.keys() & report.keys()
    assert found.keys() - both == {"name", "delay_of", "trex"}
    for key in sorted(both):
        assert close(found[key], report[key]), key


def close(one: object, other: object) -> bool:
    """Return whether figures are the same but for how sums are rounded."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9)
    return one == other


def test_what_echo_rtt_clock_and_wakeup_print_has_a_schema(
    traffic: Path, tmp_path: Path, skblab_here: Skblab
) -> None:
    program = str(traffic / "skblab-traffic")
    call = ["unshare", "--net", "sh", "-c", TRIPS, "sh", program, str(tmp_path)]
    subprocess.run(call, check=True, timeout=120)
    found = {}
    for name, model in (
        ("echo", EchoDocument),
        ("round-trip", RoundTripDocument),
        ("clock", ClockDocument),
        ("wakeup", WakeupDocument),
    ):
        text = (tmp_path / f"{name}.json").read_text()
        model.model_validate_json(text)
        found[name] = json.loads(text)
        fits(f"traffic-{name}", found[name])
    assert found["round-trip"]["distinct"] == 300 and found["echo"]["echoed"] == 320
    # A clock that is compared with itself is not ahead.
    ahead = found["clock"]["ahead"]
    assert abs(ahead["ahead_ns"]) <= ahead["off_ns"]
    done = skblab_here("traffic", "import", str(tmp_path / "trips.rec"))
    [stream] = json.loads(done.stdout)["streams"]
    assert stream["delay_of"] == "round trip"
    assert close(stream["delay"], found["round-trip"]["round_trip"])


def test_a_calibration_measures_both_places_and_leaves_nothing(
    lab: LabRoot, skblab_here: Skblab
) -> None:
    before = links()
    done = skblab_here("traffic", "calibrate", "--seconds", "25", "--json")
    assert (done.returncode, links()) == (0, before), done.stderr
    found = json.loads(done.stdout)
    assert [place["name"] for place in found["places"]] == ["loopback", "veth"], found["skipped"]
    for place in found["places"]:
        assert place["latency"]["min_ns"] > 0 and place["round_trip"]["min_ns"] > 0
        assert {rate["asked"] for rate in place["rates"]} >= {1, 10, 100, 1000}
    assert found["wakeup"][0]["late"]["count"] > 0
    again = skblab_here("traffic", "calibrate", "--show", "--json")
    assert json.loads(again.stdout) == found
    assert "late wakeup at 1 kHz" in skblab_here("traffic", "calibrate", "--show").stdout


def test_a_calibration_that_is_killed_leaves_nothing(lab: LabRoot, traffic: Path) -> None:
    before = links()
    call = [str(TREE / "skblab"), "traffic", "calibrate", "--seconds", "60"]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    until("a traffic program", PATIENCE, lambda: _below(process.pid, "skblab-traffic"))
    inside = _below(process.pid)
    process.kill()
    process.communicate()
    until("all are gone", PATIENCE, lambda: not any(map(_runs, inside)))
    assert links() == before


def _below(parent: int, name: str = "") -> list[int]:
    """Return the processes that a process has begun, and those of these, with such a name."""
    children = psutil.Process(parent).children(recursive=True)
    return [child.pid for child in children if not name or name in child.name()]


def _runs(pid: int) -> bool:
    """Return whether a process runs; one that waits to be asked how it ended does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
