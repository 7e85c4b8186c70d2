# SPDX-License-Identifier: GPL-2.0-or-later
"""One generator and one topology for all: what sends by pktgen does it by generator.sh."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pytest

from skblab.bench import measure, wall
from skblab.lab import paths
from skblab.testbeds import base, netns
from waiting import PATIENCE, until

# Of traffic/tests, which is of the traffic tools alone.
APART = "tests"


@pytest.mark.parametrize(
    ("own", "script"),
    [
        ("/proc/net/pktgen/", "generator.sh"),
        ("ip netns add ", "net.sh"),
        (" type veth peer ", "net.sh"),
        (" clsact", "net.sh"),
    ],
)
def test_no_other_script_does_it(own: str, script: str) -> None:
    runners = paths.tree() / "runners"
    files = [file for file in runners.rglob("*.sh") if APART not in file.parts]
    files += (runners / "skblab").rglob("*.py")
    assert [file.name for file in files if own in file.read_text()] == [script]


def test_all_that_send_have_it_once() -> None:
    for script in (
        measure.script((), boot=0, packets=1, repeats=1),
        wall.script(pairs=1),
        netns.script("lay_out"),
    ):
        assert script.count("\ngenerate() {") == 1


def test_a_word_that_is_none_is_refused() -> None:
    here = 'nsenter() { shift; "$@"; }\n'
    call = "generate device=g0 cuont=1"
    argv = ["sh", "-euc", f"{here}{base.functions('generator')}\n{call}"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "generate: cuont=1: no such word\n")


def test_a_kernel_without_pktgen(tmp_path: Path) -> None:
    script = f'nsenter() {{ shift; "$@"; }}\n{base.functions("generator")}\ngenerate device=g0'
    env = os.environ | {"PKTGEN": str(tmp_path)}
    argv = ["sh", "-euc", script]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert done.stderr == (
        "generate: this kernel has no pktgen, which sends all packets: it needs CONFIG_NET_PKTGEN\n"
    )


@dataclass
class FakeKernel:
    """Plays pktgen by files in a folder: its thread begins `late` seconds after a start, or never.

    A start returns at once, as one does whose thread has not begun. `fails` begins in an error.
    It sends for `lasts` seconds, from when it has heard `awaits` if it waits for that. Its thread
    `has` a device, and takes as long as `forgets` seconds to give it away; one that comes
    meanwhile is `taken` with it.
    """

    folder: Path
    late: float | None = 0.0
    lasts: float = 0.1
    fails: bool = False
    awaits: str = ""
    has: str = ""
    forgets: float = 0.0
    taken: bool = False
    removal: float | None = None
    told: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    due: float | None = None
    started: int = 0
    stopped: int = 0
    last_stopped: int = 0
    ran: bool = False
    began: float | None = None
    ends: float | None = None
    result: str = "Idle"
    shown: dict[str, deque[tuple[TextIO, str]]] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)
    # A test shows what it has set at once, while the thread that plays shows what it did.
    turn: threading.Lock = field(default_factory=threading.Lock)

    def show(self) -> None:
        """Have the files say what is so, each whole or not at all.

        A device has started before it runs, and runs no longer before it has stopped: pktgen_run()
        and pktgen_stop_device(). In between it says when it stopped the last time.
        """
        running = self.began is not None
        thread = f"Running: {'g0 ' if running else ''}\nStopped: {self.has}\nResult: NA\n"
        if running != self.ran:
            self.ran = running
            self.put("g0", self.figures(self.last_stopped))
            self.last_stopped = self.stopped
        self.put("kpktgend_0", thread)
        self.put("g0", self.figures(self.now() if running else self.stopped))

    def figures(self, stopped: int) -> str:
        """Return what its file says of a device that stopped, or is seen running, at that time."""
        sent = (max(stopped, self.started) - self.started) // 1000
        return (
            f"Current:\n     pkts-sofar: {sent}  errors: 3\n     started: {self.started}us  "
            f"stopped: {stopped}us idle: 0us\n     seq_num: {sent + 1}  cur_dst_mac_offset: 0\n"
            f"Result: {self.result}\n"
        )

    def now(self) -> int:
        """Return the kernel's time in microseconds, by hundredths of a second."""
        return int(time.monotonic() * 100) * 10_000

    def put(self, name: str, text: str) -> None:
        """Have a file say `text`, as long as it says it: what opened it may write seconds later."""
        if name not in self.heard and name in self.shown and self.shown[name][-1][1] == text:
            return
        self.heard.discard(name)
        new = (self.folder / "new").open("w+")
        new.write(text)
        new.flush()
        (self.folder / "new").rename(self.folder / name)
        # Who opened the one before may write to it yet.
        self.shown.setdefault(name, deque(maxlen=200)).append((new, text))

    def hear(self, name: str) -> str:
        """Return what was written to a file since it was last heard, if anything was."""
        for file, shown in self.shown[name]:
            file.seek(0)
            if (text := file.read()) and text != shown:
                self.heard.add(name)
                file.seek(0)
                file.truncate()
                # pktgen takes the end of the line off, whatever it is (pgctrl_write()).
                said = text[:-1] if name == "pgctrl" else text.strip()
                self.told.append(said)
                return said
        return ""

    def run(self) -> None:
        """Play until it is `over`."""
        while not self.over.is_set():
            with self.turn:
                self.play()
            time.sleep(0.002)

    def play(self) -> None:
        """Hear what was written, do it, and show what came of it."""
        # All settings are there before a start is.
        asked = self.hear("pgctrl")
        while setting := self.hear("g0"):
            self.result = f"OK: {setting.replace(' ', '=')}"
        asked_of_thread = self.hear("kpktgend_0")
        if asked_of_thread == "rem_device_all":
            self.removal = time.monotonic() + self.forgets
        elif asked_of_thread and self.removal is not None:
            self.taken = True
        if self.removal is not None and time.monotonic() >= self.removal:
            self.removal, self.has = None, ""
        if asked == "start" and self.late is not None:
            self.due = time.monotonic() + self.late
        if self.began is not None and self.ends is None and self.awaits in self.told:
            self.ends = time.monotonic() + self.lasts
        ended = self.ends is not None and time.monotonic() > self.ends
        if self.began is not None and (asked == "stop" or ended):
            self.began, self.stopped = None, self.now()
            took = self.stopped - self.started
            self.result = f"OK: {took}(c{took}+d0) usec, {took // 1000} (60byte,0frags)"
        if self.due is not None and time.monotonic() >= self.due:
            self.due = None
            if self.fails:
                self.result = "Error starting"
            else:
                self.began, self.started, self.result = time.monotonic(), self.now(), "Starting"
                self.ends = None if self.awaits else self.began + self.lasts
        self.show()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[FakeKernel]:
    played = FakeKernel(tmp_path)
    played.put("pgctrl", "")
    (tmp_path / "cmdline").write_text("console=ttyS0 quiet\n")
    played.show()
    thread = threading.Thread(target=played.run)
    thread.start()
    yield played
    played.over.set()
    thread.join()


def generate(kernel: FakeKernel, *words: str, quick: bool = False) -> tuple[int, list[int], str]:
    """Return exit status, the numbers printed, and the complaint; `quick`: half a minute is not."""
    tools = kernel.folder / "bin"
    tools.mkdir(exist_ok=True)
    if quick:
        (tools / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.001\n")
        (tools / "sleep").chmod(0o755)
    call = f"generate device=g0 mac=02:00:00:00:00:02 {' '.join(words)}"
    script = f'nsenter() {{ shift; "$@"; }}\n{base.functions("generator")}\n{call}'
    env = os.environ | {"PKTGEN": str(kernel.folder), "PATH": f"{tools}:{os.environ['PATH']}"}
    argv = ["sh", "-euc", script]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env, timeout=600)
    return done.returncode, [int(word) for word in done.stdout.split()], done.stderr


def cleaned_up(kernel: FakeKernel) -> bool:
    """Whether it was told to stop and to give the device away, and nothing after that."""
    until("it was told both", PATIENCE, lambda: set(kernel.told[-2:]) == {"stop", "rem_device_all"})
    # Nothing comes behind it.
    time.sleep(0.1)
    kept = (kernel.folder / "skblab-pktgen").read_text()
    return set(kernel.told[-2:]) == {"stop", "rem_device_all"} and not kept


def test_a_generator_that_ends_by_itself(kernel: FakeKernel) -> None:
    status, [sent, refused, took], said = generate(kernel, "count=100")
    assert (status, refused, said) == (0, 3, "")
    assert sent == took // 1000
    assert took >= 100_000
    assert "stop" not in kernel.told


@pytest.mark.parametrize("exact", [True, False])
def test_where_instructions_are_counted_it_starts_when_rcu_is_done(
    kernel: FakeKernel, exact: bool
) -> None:
    if exact:
        (kernel.folder / "cmdline").write_text("norandmaps skblab.exact=1 quiet\n")
    perl = kernel.folder / "bin" / "perl"
    perl.parent.mkdir()
    perl.write_text('#!/bin/sh\necho "$*" >"$0.told"\nexec /usr/bin/perl "$@"\n')
    perl.chmod(0o755)
    status, [sent, _, took], said = generate(kernel, "count=100")
    assert (status, said, sent) == (0, "", took // 1000)
    assert perl.with_suffix(".told").exists() == exact
    assert not exact or ",.2)" in perl.with_suffix(".told").read_text()


def test_a_program_can_mark_what_it_starts(kernel: FakeKernel) -> None:
    program = kernel.folder / "marked"
    program.write_text('#!/bin/sh\necho "$1" >"$2"\necho "$*" >"$0.told"\n')
    program.chmod(0o755)
    status, [sent, _, took], said = generate(kernel, "count=100", f"marked={program}")
    assert (status, said) == (0, "")
    assert sent == took // 1000
    told = (kernel.folder / "marked.told").read_text()
    word, file, begins, ends = told.split()
    assert (word, file) == ("start", f"{kernel.folder}/pgctrl")
    assert (begins.split(",")[0], ends.split(",")[0]) == ("pktgen_xmit", "pktgen_stop_device")


def test_one_that_begins_late_has_all_of_its_time(kernel: FakeKernel) -> None:
    kernel.late, kernel.lasts = 0.8, 300.0
    status, [sent, _, took], said = generate(kernel, "limit=0.5")
    assert (status, said) == (0, "")
    # Long before it would have ended.
    assert 500_000 <= took < 300_000_000
    assert sent == took // 1000
    assert kernel.told.count("start") == 1 <= kernel.told.count("stop")


@pytest.mark.parametrize("over", [1, 30])
def test_time_that_is_over_before_the_start_begins_anew(kernel: FakeKernel, over: int) -> None:
    """A busy machine lets a shell wait until its time is over; not for ever."""
    stub = kernel.folder / "bin" / "timeout"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\necho >>"$0.told"\n'
        f'[ "$(wc -l <"$0.told")" -gt {over} ] || exit 124\nexec /usr/bin/timeout "$@"\n'
    )
    stub.chmod(0o755)
    status, printed, said = generate(kernel, "count=100", "limit=0.5")
    if over == 1:
        assert (status, said, kernel.told.count("start")) == (0, "", 1)
        assert printed[0] == printed[2] // 1000
    else:
        assert (status, printed) == (1, [])
        assert said == "generate: pktgen was asked to start by nobody in 20 times 0.5 s\n"
        assert "start" not in kernel.told


def test_a_mark_and_a_limit_exclude_each_other(kernel: FakeKernel) -> None:
    status, printed, said = generate(kernel, "limit=1", "marked=/bin/true")
    assert (status, printed) == (2, [])
    assert said == "generate: limit= and marked= exclude each other\n"


@pytest.mark.slow
def test_one_that_never_begins_sends_nothing_afterwards(kernel: FakeKernel) -> None:
    kernel.late = None
    status, printed, said = generate(kernel, "limit=0.2", "step='0.1 5'", quick=True)
    assert (status, printed) == (1, [])
    assert said == "generate: pktgen did not begin in 120 s: CPU 0 has no time for it\n"
    assert cleaned_up(kernel)
    assert not (kernel.folder / "skblab-step").exists()


def test_one_that_fails_says_so(kernel: FakeKernel) -> None:
    kernel.fails = True
    status, printed, said = generate(kernel, "count=100")
    assert (status, printed) == (1, [])
    assert said == "generate: pktgen did not start: Error starting\n"
    assert cleaned_up(kernel)


def test_a_step_is_not_taken_for_the_end(kernel: FakeKernel) -> None:
    kernel.late, kernel.lasts, kernel.awaits = 0.3, 0.2, "delay 5000"
    status, [sent, _, took], said = generate(kernel, "count=100", "step='0.3 5000'")
    assert (status, said) == (0, "")
    assert took >= 500_000
    assert sent == took // 1000
    assert "delay 5000" in kernel.told
    step = (kernel.folder / "skblab-step").read_text().split()
    assert 0 < int(step[0]) <= int(step[1]) < sent
    # Both clocks tell hundredths of a second.
    assert int(step[2]) - kernel.started >= 290_000
    assert int(step[3]) == kernel.started


def test_a_step_that_comes_after_the_end_hides_no_figures(kernel: FakeKernel) -> None:
    status, [sent, _, took], said = generate(kernel, "count=100", "step='2 5000'")
    assert (status, said) == (0, "")
    assert 100_000 <= took == kernel.stopped - kernel.started
    assert sent == took // 1000


def test_a_device_is_given_to_a_thread_that_has_given_away_its_last(kernel: FakeKernel) -> None:
    with kernel.turn:
        kernel.has, kernel.forgets = "c0 ", 0.4
        kernel.show()
    status, _, said = generate(kernel, "count=100")
    assert (status, said, kernel.taken) == (0, "", False)
    assert kernel.told.index("rem_device_all") < kernel.told.index("add_device g0")


def test_a_thread_that_has_none_is_not_asked_to_give_it_away(kernel: FakeKernel) -> None:
    other, nothing = kernel.folder / "kpktgend_1", "Running: \nStopped: \nResult: NA\n"
    other.write_text(nothing)
    status, _, said = generate(kernel, "count=100")
    assert (status, said) == (0, "")
    # It would do so after it was given one, where it has no time at once.
    assert other.read_text() == nothing


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("gap=100",),
            {"delay 100", "src_min 198.18.0.2", "dst 198.19.0.2", "udp_dst_min 1024"},
        ),
        (
            ("ratep=3", "from=198.18.0.7", "to=198.18.0.8", "port=5000"),
            {"ratep 3", "src_max 198.18.0.7", "dst 198.18.0.8", "udp_dst_max 5000"},
        ),
        (
            ("family=6", "from=2001:db8::7", "to=2001:db8::8"),
            {"src6 2001:db8::7", "dst6 2001:db8::8", "delay 0"},
        ),
    ],
    ids=["delay", "ratep", "IPv6"],
)
def test_ends_and_rate_are_as_asked_for(
    kernel: FakeKernel, words: tuple[str, ...], told: set[str]
) -> None:
    # A file keeps the last word only: the shell says all of them.
    script = f'nsenter() {{ shift 2; sh -x "$@"; }}\n{base.functions("generator")}\ngenerate "$@"'
    argv = ["sh", "-euc", script, "sh", "device=g0", "mac=02:00:00:00:00:02", "count=100", *words]
    env = os.environ | {"PKTGEN": str(kernel.folder)}
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=env, timeout=600)
    said = [
        line[len("+ echo ") :] for line in done.stderr.splitlines() if line.startswith("+ echo")
    ]
    assert told <= set(said)
    # A delay would be in place of the rate.
    assert sum(one.startswith(("delay ", "ratep ")) for one in said) == 1


def test_another_namespace_sends_if_it_is_named() -> None:
    script = base.functions("generator")
    argv = ["sh", "-euc", f'nsenter() {{ echo "$1"; }}\n{script}\ngenerate device=g0']
    for env, where in (({}, "generator"), ({"GENERATOR": "a"}, "a")):
        done = subprocess.run(
            argv, check=True, capture_output=True, text=True, env=os.environ | env
        )
        assert done.stdout == f"--net=/run/netns/{where}\n"
