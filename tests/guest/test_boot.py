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
from skblab.lab.kernel import Kernel
from skblab.machine import byhand
from skblab.selftests import ktap
from waiting import PATIENCE

pytestmark = pytest.mark.guest
# For a selftest on a busy machine.
SECONDS = 2400


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
    before, others = _host_state(), emulators()
    yield
    deadline = time.monotonic() + PATIENCE
    while emulators() - others and time.monotonic() < deadline:
        time.sleep(0.1)
    assert emulators() - others == set()
    assert _host_state() == before


def _start(*arguments: str) -> subprocess.Popen[str]:
    return _run("boot", *arguments)


def _run(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(TREE / "skblab"), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _guest(process: subprocess.Popen[str]) -> int:
    """Wait until a command has a guest; return the process id of its emulator."""
    deadline = time.monotonic() + 120
    while not (found := emulators(process.pid)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no guest was started"
        time.sleep(0.05)
    return found.pop()


def _says_up(process: subprocess.Popen[str]) -> None:
    """Wait until the command in the guest has said so."""
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n", process.communicate()


UP = ("--", "sh", "-c", "echo up; sleep 3000")


def test_all_that_a_command_needs_passes_through(
    skblab: Skblab, stock: Kernel, tmp_path: Path
) -> None:
    script = """set -e
        uname -r; nproc; ls -d /sys/devices/system/node/node? | wc -l; cat /proc/cmdline
        echo kept >/skblab/out/file; echo gone >/root/file
        echo "out: $1"; echo err >&2; cat
        test -e "/lib/modules/$(uname -r)/build/.config"
         for name in skblab-traffic pktsink ping iperf3 pathlat bpftrace stap perf trace-cmd; do
             command -v $name
         done | wc -l
        exit 42"""
    more = ("--cpus", "2", "--numa", "2", "--memory", "1024", "--append", "skblab.test=1")
    call = ("--share", str(tmp_path), "--", "sh", "-c", script, "sh", "a  'b' $c")
    done = skblab("boot", *more, *call, stdin="typed\n")
    assert done.returncode == 42, done.stderr
    release, cpus, nodes, command_line, *rest = done.stdout.splitlines()
    assert release == stock.release
    assert re.fullmatch(r"6\.12\.\d+-skblab", release)
    assert (cpus, nodes) == ("2", "2")
    assert command_line.endswith("skblab.test=1")
    assert rest == ["out: a  'b' $c", "typed", "9"]
    # Behind it may stand what was removed of a cache that is full.
    assert "err" in done.stderr.splitlines()
    assert (tmp_path / "file").read_text() == "kept\n"


@pytest.mark.slow
def test_uname_prints_the_patched_release(skblab: Skblab, stock: Kernel) -> None:
    done = skblab("boot", "--", "uname", "-r")
    assert (done.returncode, done.stdout) == (0, f"{stock.release}\n"), done.stderr


@pytest.mark.slow
@pytest.mark.console("sysrq triggered crash")
def test_a_panic_is_said_in_one_line_with_its_cause(skblab: Skblab, tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    done = skblab("boot", "--log", str(log), "--", "sh", "-c", "echo c >/proc/sysrq-trigger")
    assert done.returncode == 125
    complaint = done.stderr.strip().splitlines()[-1]
    assert "Kernel panic - not syncing: sysrq triggered crash" in complaint
    assert str(log) in complaint
    assert "sysrq triggered crash" in log.read_text()


@pytest.mark.console("Requested init /nonexistent failed")
def test_a_guest_that_panics_on_boot(skblab: Skblab) -> None:
    done = skblab("boot", "--append", "init=/nonexistent", "--", "true")
    assert done.returncode == 125
    assert "Requested init /nonexistent failed" in done.stderr


@pytest.mark.slow
def test_a_guest_that_is_killed_and_took_no_port_of_the_host() -> None:
    listening = _listening()
    process = _start(*UP)
    _says_up(process)
    assert _listening() - listening == set()
    os.kill(_guest(process), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 125
    assert "the guest was killed" in err


def test_a_second_shell_lasts_as_long_as_the_guest(skblab: Skblab, stock: Kernel) -> None:
    listening = _listening()
    process = _start(*UP)
    _says_up(process)
    assert _listening() - listening == set()
    # With what follows the process id: "12" would be the beginning of 123's guest, too.
    name = f"{process.pid}-"
    listed = skblab("ssh", "--list", "--guest", name)
    assert listed.returncode == 0, listed.stderr
    [line] = _listed(listed.stdout, name)
    assert stock.release in line
    done = skblab(
        "ssh", "--guest", name, "--", "sh", "-c", "uname -r; cat; exit 7", stdin="typed\n"
    )
    assert (done.returncode, done.stdout) == (7, f"{stock.release}\ntyped\n"), done.stderr
    # The end of a second session is none of the guest's.
    second = _run("ssh", "--guest", name, *UP)
    _says_up(second)
    process.terminate()
    process.communicate(timeout=60)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 125
    assert err.startswith(f"skblab: guest {name}") and err.endswith(" has ended\n")
    assert _listed(skblab("ssh", "--list").stdout, name) == []


def _listed(table: str, name: str) -> list[str]:
    """Return the lines of `skblab ssh --list` with the guests whose names begin so."""
    return [line for line in table.splitlines() if line.startswith(name)]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_a_selftest_of_the_series_by_hand(skblab: Skblab) -> None:
    test = f"cd {byhand.NET_SELFTESTS} && ./net_path.py"
    done = skblab("boot", "--selftests", "--", "sh", "-c", test, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    report = ktap.parse(done.stdout)
    assert report.count(ktap.Result.PASS) > 0 and report.count(ktap.Result.FAIL) == 0


@pytest.mark.slow
def test_systemtap_finds_what_the_kernel_was_built_from(skblab: Skblab) -> None:
    # Up to the compiler, which takes an emulated CPU too long.
    script = """stap -p2 -e 'probe kernel.function("ip_rcv").call { println("x") }'"""
    done = skblab("boot", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "net/ipv4/ip_input.c" in done.stdout


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("at once", marks=pytest.mark.slow),
        "booting",
        pytest.param("running", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_at_any_moment(when: str) -> None:
    process = _start(*UP)
    if when == "running":
        _says_up(process)
    else:
        _guest(process)
        # Any moment of the boot does.
        time.sleep(1.0 if when == "booting" else 0.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "skblab: stopped; what was finished is kept"


def test_a_guest_never_outlives_a_killed_parent() -> None:
    process = _start(*UP)
    _guest(process)
    process.kill()
    process.communicate(timeout=60)
    # The fixture sees that the guest is gone; its folder is swept by the next guest.


@pytest.mark.slow
def test_sigterm_ends_the_guest() -> None:
    process = _start(*UP)
    _says_up(process)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def _listening() -> set[str]:
    """Local addresses of the host's listening TCP sockets."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # TCP_LISTEN
                found.add(fields[1])
    return found


@pytest.mark.slow
def test_an_unreadable_exit_is_not_taken_for_the_commands(skblab: Skblab) -> None:
    done = skblab("boot", "--", "sh", "-c", "exit 255")
    assert done.returncode == 255
