# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe`: what is asked for, where, with which traffic; and what is refused."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from conftest import Skblab
from skblab.lab.reporter import Reporter
from skblab.machine.transport import LocalTransport, Running, TransportError, host
from skblab.probe import attending, targets
from skblab.probe.attached import attached
from skblab.probe.loads import Load
from skblab.probe.request import Request
from skblab.testbeds import traffic
from skblab_analysis.base.errors import SkblabError, UsageError
from waiting import PATIENCE


def test_what_is_not_asked_for_is_left_to_the_probe() -> None:
    assert Request().options() == []


class Looked:
    """A probe that ends by itself after so many looks."""

    def __init__(self, ends: int) -> None:
        self.ends, self.looks = ends, 0

    def look(self) -> bool:
        self.looks += 1
        return self.looks < self.ends

    def end(self) -> str:
        return f"after {self.looks}"


@pytest.mark.parametrize(
    ("seconds", "asked_at", "said"),
    [
        (None, None, "after 5"),
        (None, 3, "after 3"),
        (0.25, None, "after 3"),
        (9.0, None, "after 5"),
    ],
)
def test_a_probe_is_attended_until_its_time_is_up(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, asked_at: int | None, said: str
) -> None:
    now = [1000.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda spent: now.append(now.pop() + spent)
    )
    monkeypatch.setattr(attending, "time", clock)
    probe = Looked(5)
    target = cast(targets.Target, None)
    found = attending.attend(
        probe, target, None, Reporter(quiet=True), lambda: probe.looks == asked_at, seconds
    )
    assert found == (said, None)


def test_options_are_the_probes_own() -> None:
    request = Request(
        source="hooks",
        seconds=2.0,
        by="cpu",
        late="250us",
        late_max=7,
        late_rate=0,
        stop=True,
        port=53,
    )
    assert request.every(0.5).options() == [
        *("--source", "hooks", "--seconds", "2", "--interval", "0.5", "--port", "53"),
        *("--by", "cpu", "--late", "250us", "--late-max", "7", "--late-rate", "0", "--stop"),
    ]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(port=0), ["--port", "0"]),
        (Request(run=0, late_max=0), ["--run", "0", "--late-max", "0"]),
        (Request(family=0, room=0), ["--family", "0", "--room", "0"]),
        (Request(stop=False, kprobes=False), []),
        (Request(seconds=1234567.0), ["--seconds", "1234567"]),
        (Request(seconds=0.25), ["--seconds", "0.25"]),
        (Request(seconds=86400.125), ["--seconds", "86400.125"]),
    ],
)
def test_a_number_reaches_the_probe_as_it_was_given(request_: Request, words: list[str]) -> None:
    assert set(request_.options()) == set(words)
    assert len(request_.options()) == len(words)


@pytest.mark.parametrize(
    "text", ["udp", "udp6", "tcp", "tcp6-forward", "sctp-forward", "sctp6", "udp-forward"]
)
def test_a_load_is_named_as_it_is_read(text: str) -> None:
    assert str(Load.parse(text)) == text


def test_a_load_knows_where_to() -> None:
    assert Load.parse("udp4").address == "198.18.1.2"
    assert Load.parse("tcp6-forward").address == "2001:2:0:2::2"
    assert Load.parse("tcp-forward").reader == "target"
    assert Load.parse("tcp").reader == "router"


@pytest.mark.parametrize("text", ["icmp", "udp5", "forward", "udp-forwards", ""])
def test_another_load_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected udp, tcp or sctp"):
        Load.parse(text)


@pytest.mark.parametrize("on", ["-oProxyCommand=x", "two words", "", "user@"])
def test_what_is_no_target_is_refused(on: str) -> None:
    with pytest.raises(UsageError, match="expected here, guest, or a host"):
        targets.check(on)


@pytest.mark.parametrize("on", ["here", "guest", "router", "root@192.0.2.1", "2001:db8::1"])
def test_targets(on: str) -> None:
    targets.check(on)


def test_an_ssh_configuration_is_a_hosts(tmp_path: Path) -> None:
    config = tmp_path / "config"
    with pytest.raises(UsageError, match="config: no such file"):
        targets.check("router", config)
    config.touch()
    targets.check("router", config)
    for on in ("here", "guest"):
        with pytest.raises(UsageError, match="only for --on HOST"):
            targets.check(on, config)


def test_what_was_done_to_a_machine_is_undone(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    here, do, undo = LocalTransport(), f"touch {mark}; echo done", f"rm {mark}"
    with host.kept(here, do, "marking", undo) as said:
        assert said == "done"
        assert mark.exists()
    assert not mark.exists()
    with pytest.raises(KeyError), host.kept(here, do, "marking", undo):
        raise KeyError
    assert not mark.exists()
    with (
        pytest.raises(SkblabError, match=r"marking failed \(exit 3\): because"),
        host.kept(here, "echo because >&2; exit 3", "marking", undo),
    ):
        raise AssertionError


KEEPS = """
import sys, time
from skblab.machine.transport import LocalTransport, host
with host.kept(LocalTransport(), f"touch {sys.argv[1]}; echo", "marking", f"rm {sys.argv[1]}"):
    print("ready", flush=True)
    time.sleep(30)
"""


def test_it_is_undone_after_kill_9(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    call = [sys.executable, "-c", KEEPS, str(mark)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert mark.exists()
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while mark.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not mark.exists()


def pathlat(folder: Path, script: str) -> targets.Target:
    """Return a target whose probe is this shell script."""
    program = folder / "pathlat"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return targets.Target("here", LocalTransport(), str(program), "6.12")


REFUSES = "echo 'libbpf: failed to load' >&2; echo 'pathlat: cannot; see' >&2; exit 2"


@pytest.mark.parametrize("verbose", [True, False])
def test_what_libbpf_says_of_a_refusal_is_told_if_asked_for(tmp_path: Path, verbose: bool) -> None:
    heard: list[str] = []
    target, request = pathlat(tmp_path, REFUSES), Request(verbose=verbose)
    assert request.options() == (["--verbose"] if verbose else [])
    with (
        pytest.raises(UsageError, match=r"^cannot; see$"),
        attached(target, request, lambda text: None, heard.append),
    ):
        raise AssertionError
    assert heard == (["libbpf: failed to load"] if verbose else [])


def test_what_the_probe_says_while_it_runs_is_told_when_it_comes(tmp_path: Path) -> None:
    heard: list[str] = []
    says = "echo ready >&2; echo 'libbpf: noise' >&2; echo 'pathlat: tracing stopped' >&2"
    target = pathlat(tmp_path, f"{says}; sleep 0.2")
    with attached(target, Request(), lambda text: None, heard.append) as reading:
        deadline = time.monotonic() + PATIENCE
        while not heard and time.monotonic() < deadline:
            reading.look()
        # Once.
        reading.look()
    assert heard == ["tracing stopped"]


def test_late_packets_are_of_the_wall_clock(skblab_here: Skblab) -> None:
    done = skblab_here("probe", "layers", "--on", "guest", "--exact", "--late", "250us")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--late: with --exact nothing waits, so no packet is late" in done.stderr


def test_the_command_says_so_in_one_line(skblab_here: Skblab) -> None:
    done = skblab_here("probe", "layers", "--on", "guest", "--load", "icmp")
    assert done.returncode == 2
    assert "--load icmp: expected udp, tcp or sctp" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("backend", ["bpf", "bpftrace"])
def test_what_no_probe_can_do_boots_nothing(skblab_here: Skblab, backend: str) -> None:
    done = skblab_here(
        *("probe", "layers", "--on", "guest", "--backend", backend, "--seconds", "nan")
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "skblab: --seconds nan: expected a number above 0, at most 1000000000\n"


def test_commands_here() -> None:
    here = LocalTransport()
    assert here.run(["cat"], stdin="text").stdout == "text"
    assert here.script("false; echo no").status == 1
    with pytest.raises(TransportError, match="did not end within 0 s"):
        here.run(["sleep", "600"], seconds=0.1)


COUNTS = """
import signal, sys, time
def end(*_): print("end"); sys.exit(0)
signal.signal(signal.SIGINT, end)
print("1", flush=True)
sys.stderr.write("ready\\n"); sys.stderr.flush()
time.sleep(30)
"""


def test_a_command_in_the_background_gives_its_lines_and_ends_when_asked() -> None:
    running = LocalTransport().start([sys.executable, "-c", COUNTS])
    running.wait_for("ready", PATIENCE)
    deadline = time.monotonic() + PATIENCE
    lines: list[str] = []
    while not lines and time.monotonic() < deadline:
        lines = running.take_lines()
    assert lines == ["1\n"]
    running.interrupt()
    done = running.wait(PATIENCE)
    assert done.status == 0
    assert running.take_lines() == ["end\n"]
    assert not running.running()


def test_what_is_raised_while_a_load_runs_ends_it() -> None:
    started: list[Running] = []

    class Noted(LocalTransport):
        def start(self, argv: Sequence[str]) -> Running:
            started.append(super().start(argv))
            return started[-1]

    # What other tests' killed commands left is ours by now, see conftest.py.
    others = set(psutil.Process().children())

    def enough() -> None:
        # Where the tests run in the background, neither heeds the signal before it sleeps.
        ours = set(psutil.Process().children()) - others
        if [backend.name() for backend in ours].count("sleep") == 2:
            raise KeyError

    sleeps = "exec env --default-signal=INT sleep 30"
    receiver, sender = (["sh", "-c", f"echo ready >&2; {sleeps}"], ["sh", "-c", sleeps])
    with pytest.raises(KeyError):
        traffic.exchange(Noted(), receiver, sender, 60, enough)
    assert [probe.wait(PATIENCE).status for probe in started] == [-signal.SIGINT] * 2
