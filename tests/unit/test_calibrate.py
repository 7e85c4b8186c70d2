# SPDX-License-Identifier: GPL-2.0-or-later
"""A calibration: which trials it makes, what it keeps, and how it talks to the program.

With real packets: tests/guest/test_traffic.py.
"""

from __future__ import annotations

import io
import json
import math
import re
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from rich.console import Console

from conftest import Skblab
from skblab.calibrate import keep, measure, told
from skblab.calibrate.measure import Calibrating
from skblab.calibrate.result import Calibration
from skblab.calibrate.tester import Programs, free_port
from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.pathlat import ToolDocument
from skblab_analysis.formats.traffic import EchoDocument

TIMES = {
    **{"count": 3, "negative": 0, "min_ns": 900_000, "mean_ns": 1_000_300.0, "sd_ns": 400.0},
    **{"max_ns": 1_100_000, "percentiles_ns": {}},
}
PROCESS = {
    **dict.fromkeys(("minor_faults", "major_faults", "involuntary_switches"), 0),
    **dict.fromkeys(("realtime", "cpu", "rt_runtime_us", "rt_period_us")),
}
LATE = {"threshold_ns": 100_000, "count": 1, "mean_ns": 5.0, "max_ns": 200_000}
CAME = {
    **{"distinct": 1000, "duplicates": 0, "reordered": 0, "too_old": 0, "beyond": 0, "lost": 0},
    **{"received": 1000, "inter_arrival": TIMES, "jitter": TIMES, "percentile_error": 0.004},
}
SENT = {
    **{"schema": "skblab.traffic/2", "role": "send", "sent": 1000, "unsent": 0, "batch": 1},
    **{"rate_reached": 1000.0, "late": LATE},
}
RECEIVED = CAME | {
    **{"schema": "skblab.traffic/2", "role": "receive", "expected": None, "foreign": {"total": 0}},
    "delay": TIMES,
}
STOPPED = {"schema": "skblab.traffic/2", "stopped_by": "seconds", "process": PROCESS}
ROUND_TRIP = {
    **SENT,
    **CAME,
    **STOPPED,
    **{"role": "round_trip", "to": "127.0.0.1:5000", "asked": None, "attempted": 1000},
    **{"errors": {}, "payload_bytes": 64, "transmission": 1, "rate_asked": 1000},
    **{"intervals": None, "rate_planned": 1000.0, "seconds": 1.0, "foreign": 0, "drops": 0},
    "stamps": {"clock": "realtime", "kind": "kernel", "not_by_kernel": 0, "stepped_ns": 0},
    **{"round_trip": TIMES, "record": None},
}
ECHO = STOPPED | {
    **{"role": "echo", "bind": "127.0.0.1:5000", "received": 9, "echoed": 9, "bytes": 576},
    **{"refused": {"foreign": 0, "own_port": 0, "by_kernel": 0}, "errors": {}, "drops": 0},
    **{"seconds": 1.0, "rate": None},
}
WAKEUP = STOPPED | {
    **{"role": "wakeup", "rate": 1000, "missed": 2, "late": TIMES, "percentile_error": 0.004},
}
One = TypeVar("One", bound=ToolDocument)
Other = TypeVar("Other", bound=ToolDocument)
# Where this machine would lose packets, and what its sender can.
CEILING, FASTEST = 60_000.0, 100_000.0


def option(words: Sequence[object], name: str) -> Any:  # noqa: ANN401 (a word or a number)
    return words[words.index(name) + 1] if name in words else None


def test_what_an_echo_says_adds_up() -> None:
    refused = {"foreign": 1, "own_port": 2, "by_kernel": 4}
    found = parse(EchoDocument, {**ECHO, "received": 16, "refused": refused}, "it")
    assert (found.received, found.echoed) == (16, 9)
    with pytest.raises(RecordError, match="received 9 is not echoed 9 \\+ refused 7"):
        parse(EchoDocument, {**ECHO, "refused": refused}, "it")


class FakeTester:
    """A machine that sends what it is asked for up to a rate, and loses packets above another."""

    def __init__(self, *, realtime: bool = True, ceiling: float = CEILING) -> None:
        self.places: tuple[str, ...] = ("loopback", "veth")
        self.without_veth = ""
        self.realtime = realtime
        self.ceiling = ceiling
        self.asked = list[tuple[object, ...]]()

    def alone(self, model: type[One], *words: object) -> One:
        if "--realtime" in words and not self.realtime:
            raise SkblabError("skblab-traffic: cannot run in real time: not permitted")
        return parse(model, self.say("wakeup", WAKEUP), "it")

    def say(self, role: str, document: dict[str, Any]) -> object:
        """Return what a program prints in place of a document."""
        return document

    def pair(
        self,
        place: str,
        models: tuple[type[One], type[Other]],
        waits: Sequence[object],
        sends: Sequence[object],
    ) -> tuple[One, Other]:
        self.asked.append((place, *waits, "/", *sends))
        sender, waiter = models
        if sends[0] == "rtt":
            return (
                parse(sender, self.say("round trip", ROUND_TRIP), "it"),
                parse(waiter, self.say("echo", ECHO), "it"),
            )
        rate = option(sends, "--rate") or FASTEST
        reached = min(float(rate), FASTEST)
        sent = option(sends, "--count") or 1000
        lost = 5 if reached > self.ceiling else 0
        # As fast as possible there is nothing to be late for.
        late = LATE if option(sends, "--rate") else None
        said = {"rate_reached": reached, "sent": sent, "batch": option(sends, "--batch")}
        came = {"distinct": sent - lost, "received": sent - lost}
        return (
            parse(sender, self.say("send", SENT | said | {"late": late}), "it"),
            parse(waiter, self.say("receive", RECEIVED | came), "it"),
        )


def calibrated(tester: FakeTester, seconds: float = 60.0) -> Calibration:
    calibrating = Calibrating(tester, seconds)  # type: ignore[arg-type]
    wakeup, places = calibrating.run()
    return Calibration(
        machine=keep.machine(),
        kernel="6.12",
        cpu="made up",
        cpus=2,
        when=datetime(2026, 11, 29, tzinfo=UTC),
        seconds=1.0,
        wakeup=wakeup,
        places=places,
        skipped=tuple(calibrating.skipped),
    )


def test_all_is_measured_over_both_places() -> None:
    tester = FakeTester()
    found = calibrated(tester)
    assert found.skipped == ()
    assert [one.mode for one in found.wakeup] == ["normal", "real time"]
    assert [place.name for place in found.places] == ["loopback", "veth"]
    for place in found.places:
        assert [rate.asked for rate in place.rates] == [10**power for power in range(7)]
        assert [one.mode for one in place.spacing] == ["normal", "real time"]
        assert place.spacing[0].error_sd_ns == math.hypot(400, 300)
        last = place.rates[-1]
        assert (last.reached, last.off_percent, last.batch) == (FASTEST, -90.0, measure.BATCH)
        assert place.rates[0].lost == 0 and place.rates[-1].lost == 5
    realtime = [words for words in tester.asked if "--realtime" in words]
    assert len(realtime) == 2 and all(words.count("--realtime") == 2 for words in realtime)


def test_the_largest_rate_is_found_by_halves() -> None:
    found = calibrated(FakeTester()).places[0].largest
    assert found and found.without_loss and found.least_with_loss
    width = FASTEST / 2**measure.HALVINGS
    assert found.without_loss <= CEILING < found.least_with_loss
    assert found.least_with_loss - found.without_loss <= width + 1


def test_a_sender_that_loses_nothing_is_asked_once() -> None:
    tester = FakeTester(ceiling=math.inf)
    found = calibrated(tester).places[1].largest
    assert found and (found.without_loss, found.least_with_loss) == (FASTEST, None)
    fastest = [words for words in tester.asked if option(words, "--rate") == 0]
    assert len(fastest) == 2


def test_a_loss_at_a_rate_that_was_good_bounds_nothing() -> None:
    class Once(FakeTester):
        """A machine that loses packets now and then, whatever the rate is."""

        def say(self, role: str, document: dict[str, Any]) -> object:
            fastest = self.asked and option(self.asked[-1], "--rate") == 0
            if fastest and role == "receive":
                less = document["distinct"] - 1
                return document | {"distinct": less, "received": less}
            return document | ({"rate_reached": 10.0} if fastest and role == "send" else {})

    found = calibrated(Once(ceiling=math.inf)).places[0].largest
    assert found and (found.without_loss, found.least_with_loss) == (FASTEST, None)


def test_a_machine_that_loses_always_has_no_such_rate() -> None:
    found = calibrated(FakeTester(ceiling=0)).places[0].largest
    assert found and found.without_loss is None and found.least_with_loss


def test_without_real_time_that_is_said() -> None:
    found = calibrated(FakeTester(realtime=False))
    assert found.skipped == ("real time: cannot run in real time: not permitted",)
    assert [one.mode for one in found.places[0].spacing] == ["normal"]


def test_what_there_is_no_time_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    found = calibrated(FakeTester(), 20.0)
    assert found.wakeup and found.places[1].latency is None
    assert "veth: latency: there was no time left" in found.skipped


def test_a_calibration_is_kept_for_this_machine_and_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skblab_here: Skblab
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match=r"was not calibrated with kernel .*: run skblab traffic"):
        keep.load()
    found = calibrated(FakeTester())
    file = keep.store(found)
    assert keep.load() == found
    done = skblab_here("traffic", "calibrate", "--show", "--json")
    assert json.loads(done.stdout) == json.loads(found.model_dump_json())
    file.write_text(file.read_text()[:-30])
    done = skblab_here("traffic", "calibrate", "--show")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is damaged, or of another version of skblab" in done.stderr


def test_a_machine_id_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "machine-id"
    monkeypatch.setattr(keep, "MACHINE_ID", file)
    by_name = keep.machine()
    file.write_text("0123456789abcdef0123456789abcdef\n")
    assert keep.machine() != by_name and keep.machine() not in file.read_text()


def test_tables_for_people() -> None:
    console = Console(width=110, file=io.StringIO())
    for part in told.tables(calibrated(FakeTester(realtime=False))):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for words in ("late wakeup at 1 kHz, normal", "veth: spacing of 1 ms", "1000000", "Skipped: "):
        assert words in text
    assert "some were lost (64 packets at a time)" in text


class Said(ToolDocument):
    """What the program below says."""

    role: str = ""
    words: str = ""


BOTH = (Said, Said)
PROGRAM = """#!/bin/sh
case $1 in
receive) echo ready >&2; echo '{"role": "receive", "words": "'"$*"'"}' ;;
echo) echo ready >&2; trap 'echo "{}"; exit' TERM; while :; do sleep 0.01; done ;;
send) echo "a line of it" >&2; echo '{"role": "send", "words": "'"$*"'"}' ;;
wakeup) echo "skblab-traffic: it cannot" >&2; exit 2 ;;
esac
"""


def programs(tmp_path: Path) -> Programs:
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return Programs(tmp_path, "program", None)


def test_programs_are_asked_and_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    with programs(tmp_path) as tester:
        assert [*files.iterdir()]
        assert tester.places == ("loopback",)
        assert tester.without_veth == "a veth pair needs root rights"
        sent, received = tester.pair(
            "loopback",
            BOTH,
            ("receive", "--bind", "ADDRESS", "--idle", 0.5),
            ("send", "--to", "ADDRESS"),
        )
        assert (sent.role, received.role) == ("send", "receive")
        where = sent.words.removeprefix("send --to ")
        assert re.fullmatch(r"127\.0\.0\.1:[1-9][0-9]+", where)
        assert received.words == f"receive --bind {where} --idle 0.5"
        assert tester.pair("loopback", BOTH, ("echo",), ("send", "--to", "x"))[1] == Said()
        with pytest.raises(SkblabError, match="skblab-traffic: it cannot"):
            tester.alone(Said, "wakeup")
    assert [*files.iterdir()] == []


WAITING = """#!/bin/sh
case $1 in
receive)
	[ "$2" != taken ] || { echo "skblab-traffic: the port is taken" >&2; exit 2; }
	echo ready >&2; trap 'echo "{}"; exit' TERM
	while :; do sleep 0.01; done ;;
send) echo "skblab-traffic: no route" >&2; echo sent >>"${0%/*}/sent"; exit 2 ;;
esac
"""


def test_a_sender_that_fails_ends_its_receiver_and_none_sends_to_nobody(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(WAITING)
    program.chmod(0o755)
    with Programs(tmp_path, "program", None) as tester:
        # The receiver has no end of its own.
        with pytest.raises(SkblabError, match="no route"):
            tester.pair("loopback", BOTH, ("receive",), ("send",))
        assert (tmp_path / "sent").read_text() == "sent\n"
        with pytest.raises(SkblabError, match="the port is taken"):
            tester.pair("loopback", BOTH, ("receive", "taken"), ("send",))
    assert (tmp_path / "sent").read_text() == "sent\n"


def test_a_port_is_one_that_nobody_has() -> None:
    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", port))
        assert free_port() != port


def test_a_program_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with Programs(tmp_path, "none", None) as tester, pytest.raises(SkblabError, match="not found"):
        tester.alone(Said, "wakeup")


def test_a_tester_that_ends_is_noticed(tmp_path: Path) -> None:
    with programs(tmp_path) as tester:
        tester._process.kill()
        tester._process.wait()
        with pytest.raises(SkblabError, match="have ended too early"):
            tester.alone(Said, "wakeup")
