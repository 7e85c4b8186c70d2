# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab boot` as a user meets it: status, output, trouble, and what stays behind (nothing)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import TREE, Skblab, emulators
from skblab.kernel import Kernel

pytestmark = pytest.mark.guest


def _host_state() -> tuple[str, list[str], str, list[str]]:
    """Mounts, namespaces, devices and sysctls that a guest could leave changed."""
    mounts = Path("/proc/mounts").read_text()
    named = Path("/run/netns")
    names = sorted(name.name for name in named.iterdir()) if named.is_dir() else []
    links = sorted(link.name for link in Path("/sys/class/net").iterdir())
    forward = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    return mounts, names, forward, links


@pytest.fixture(autouse=True)
def _nothing_stays_behind(stock: Kernel) -> Iterator[None]:
    before, guests = _host_state(), emulators()
    yield
    deadline = time.monotonic() + 10
    while emulators() - guests and time.monotonic() < deadline:
        time.sleep(0.1)
    assert emulators() - guests == set()
    assert _host_state() == before


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(TREE / "skblab"), "boot", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _new_guest(before: set[int]) -> int:
    """Wait for a guest that was not there before; return its process id."""
    deadline = time.monotonic() + 60
    while not (new := emulators() - before):
        assert time.monotonic() < deadline, "no guest was started"
        time.sleep(0.05)
    return new.pop()


def test_uname_prints_the_patched_release(skblab: Skblab, stock: Kernel) -> None:
    done = skblab("boot", "--", "uname", "-r")
    assert (done.returncode, done.stdout) == (0, f"{stock.release}\n"), done.stderr
    assert re.fullmatch(r"6\.12\.\d+-skblab", stock.release)


def test_status_streams_and_arguments_pass_through(skblab: Skblab) -> None:
    script = 'echo "out: $1"; echo err >&2; cat; exit 42'
    done = skblab("boot", "--", "sh", "-c", script, "sh", "a  'b' $c", stdin="typed\n")
    assert done.returncode == 42
    assert done.stdout == "out: a  'b' $c\ntyped\n"
    assert done.stderr.endswith("err\n")


def test_false_exits_1(skblab: Skblab) -> None:
    assert skblab("boot", "--", "false").returncode == 1


def test_size_numa_and_share(skblab: Skblab, tmp_path: Path) -> None:
    script = "nproc; ls -d /sys/devices/system/node/node? | wc -l; cat /proc/cmdline; \
        echo kept >/skblab/out/file; echo gone >/root/file"
    more = ("--cpus", "2", "--numa", "2", "--memory", "1024", "--append", "skblab.test=1")
    done = skblab("boot", *more, "--share", str(tmp_path), "--", "sh", "-c", script)
    cpus, nodes, command_line = done.stdout.splitlines()
    assert (cpus, nodes) == ("2", "2"), done.stderr
    assert command_line.endswith("skblab.test=1")
    assert (tmp_path / "file").read_text() == "kept\n"


def test_a_panic_is_said_in_one_line_with_its_cause(skblab: Skblab, tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    done = skblab("boot", "--log", str(log), "--", "sh", "-c", "echo c >/proc/sysrq-trigger")
    assert done.returncode == 125
    complaint = done.stderr.strip().splitlines()[-1]
    assert "Kernel panic - not syncing: sysrq triggered crash" in complaint
    assert str(log) in complaint
    assert "sysrq triggered crash" in log.read_text()


def test_a_guest_that_panics_on_boot(skblab: Skblab) -> None:
    done = skblab("boot", "--append", "init=/nonexistent", "--", "true")
    assert done.returncode == 125
    assert "Requested init /nonexistent failed" in done.stderr


def test_a_guest_killed_half_way() -> None:
    before = emulators()
    process = _start("--", "sleep", "100")
    guest = _new_guest(before)
    time.sleep(1)
    os.kill(guest, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 125
    assert "the guest was killed" in err


@pytest.mark.parametrize("delay", [0.0, 1.0, 8.0], ids=["early", "booting", "running"])
def test_ctrl_c_at_any_moment(delay: float) -> None:
    before = emulators()
    process = _start("--", "sleep", "100")
    _new_guest(before)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "skblab: stopped; what was finished is kept"


def test_a_guest_never_outlives_a_killed_parent() -> None:
    before = emulators()
    process = _start("--", "sleep", "100")
    _new_guest(before)
    process.kill()
    process.communicate(timeout=60)
    # The fixture sees that the guest is gone; its folder is swept by the next guest.


def _listening() -> set[str]:
    """Local addresses of the host's listening TCP sockets."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # TCP_LISTEN
                found.add(fields[1])
    return found


def test_a_guest_takes_no_port_of_the_host() -> None:
    before, listening = emulators(), _listening()
    process = _start("--", "sleep", "100")
    _new_guest(before)
    time.sleep(1)
    assert _listening() - listening == set()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_an_unreadable_exit_is_not_taken_for_the_commands(skblab: Skblab) -> None:
    done = skblab("boot", "--", "sh", "-c", "exit 255")
    assert done.returncode == 255


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--flavour", "nonsense"), "unknown kernel flavour 'nonsense'"),
        (("--cpus", "0"), "--cpus"),
        (("--exact", "--cpus", "2"), "one CPU"),
        (("--memory", "many"), "--memory"),
        (("--share", "/nonexistent"), "/nonexistent"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    skblab: Skblab, arguments: tuple[str, ...], words: str
) -> None:
    done = skblab("boot", *arguments, "--", "true")
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
