# SPDX-License-Identifier: GPL-2.0-or-later
"""What befalls a sweep: links, devices and machines that go, a clock that is set, a full disk."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import TREE, Skblab, emulators
from delivered import delivered
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.load import Run, load
from two_hosts import BUDGET, EXPERIMENT, Hosts, two_hosts
from waiting import until

pytestmark = [pytest.mark.guest, pytest.mark.slow]


@pytest.fixture(scope="module")
def hosts(stock: Kernel, lab: LabRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with two_hosts(stock, lab, tmp_path_factory.mktemp("hosts")) as found:
        yield found


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "few-hosts.toml"
    file.write_text(EXPERIMENT.replace("seconds = 1", "seconds = 3"))
    return file


@dataclass
class Sweep:
    """A sweep that is under way; `errors` has what it says."""

    process: subprocess.Popen[bytes]
    results: Path
    errors: Path

    def said(self) -> str:
        return self.errors.read_text()

    def run(self) -> Run:
        [folder] = self.results.iterdir()
        return load(folder)

    def ends(self, status: int) -> None:
        assert self.process.wait(900) == status, self.said()
        assert "Traceback" not in self.said()

    def kill(self, *words: str) -> None:
        """Kill the processes of this sweep that have all of these in their commands."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                arguments = (place / "cmdline").read_text().split("\0")
                if str(self.results).encode() in (place / "environ").read_bytes():
                    found += [int(place.name)] if set(words) <= set(arguments) else []
        assert found
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@contextlib.contextmanager
def under_way(arguments: list[str], tmp_path: Path) -> Iterator[Sweep]:
    results, errors = tmp_path / "results", tmp_path / "errors"
    tmp_path.mkdir(exist_ok=True)
    env = {**os.environ, "SKBLAB_RESULTS": str(results)}
    call = [str(TREE / "skblab"), *arguments]
    with (
        errors.open("w") as file,
        subprocess.Popen(call, env=env, stderr=file, stdout=subprocess.DEVNULL) as process,
    ):
        try:
            yield Sweep(process, results, errors)
        finally:
            process.terminate()


@contextlib.contextmanager
def set_on(hosts: Hosts, experiment: Path, tmp_path: Path) -> Iterator[Sweep]:
    """Have a sweep on hosts that has made its setting by now."""
    with under_way(hosts.options(experiment), tmp_path) as sweep:
        until("the setting is made", 900, lambda: hosts.sh(f"cat {BUDGET}").strip() == "200")
        yield sweep


def test_a_connection_that_breaks_is_made_again(
    hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    before = hosts.state()
    with set_on(hosts, experiment, tmp_path) as sweep:
        sweep.kill("ssh", "-M", "router")
        sweep.ends(0)
        assert "a new testbed continues" in sweep.said()
        trials = sweep.run().trials
    assert {(row.setting, row.state) for row in trials} == {
        (name, "good") for name in ("tester", "baseline", "baseline again", "NAPI threads")
    }
    assert hosts.state() == before


def test_a_clock_that_is_set_back_is_in_no_figure(
    hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    before = hosts.state()
    with set_on(hosts, experiment, tmp_path) as sweep:
        for machine in (hosts.router, hosts.tester):
            machine.transport.script("date -s @$(($(date +%s) - 3600))").check("setting a clock")
        sweep.ends(0)
        run = sweep.run()
    [latency] = latency_summary.of(run)
    assert len(latency.delays) == 3
    assert {row.state for row in run.trials} == {"good"}
    for delay in (*latency.delays, *latency.testers):
        delivered(delay, 600)
        assert 0 < (delay.latency.quantile(0.5) or 0) < 1e9
    assert hosts.state() == before


def test_a_device_that_is_unplugged(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    before = hosts.state()
    port = hosts.router_ports[1]
    device = hosts.sh(f"basename $(readlink /sys/class/net/{port}/device)").strip()
    driver = "/sys/bus/virtio/drivers/virtio_net"
    with set_on(hosts, experiment, tmp_path) as sweep:
        hosts.sh(f"echo {device} >{driver}/unbind")
        sweep.ends(1)
        [last] = sweep.said().splitlines()[-1:]
        assert last.startswith("skblab: not put back: threaded: ")
        run = sweep.run()
    assert run.document.state == "failed"
    states = {row.setting: (row.state, row.reason) for row in run.trials}
    state, reason = states["NAPI threads"]
    # It goes while packets are sent, or on a busy machine while settings are looked at or made.
    assert state == "invalid"
    assert reason in {
        "the router failed (exit 1): no device r1 (any more)",
        "not possible here: r1 has no threaded",
        "not set: threaded: sh: 1: cannot create /sys/class/net/r1/threaded: Directory nonexistent",
    }
    assert [found for found, _ in states.values() if found != "good"] == ["invalid"]
    assert hosts.sh(f"cat {BUDGET}") == "300\n"
    hosts.sh(f"echo {device} >{driver}/bind")
    done = skblab("cleanup")
    assert (done.returncode, done.stdout) == (0, "restored 1 testbed\n")
    assert hosts.state() == before


@pytest.mark.console("sysrq triggered crash")
@pytest.mark.parametrize("dies", ["router", "tester"])
def test_a_host_that_dies_is_waited_for_until_one_is_stopped(
    skblab: Skblab, stock: Kernel, lab: LabRoot, experiment: Path, tmp_path: Path, dies: str
) -> None:
    with (
        pytest.raises(GuestError, match=r"guest panic|the guest was killed"),
        two_hosts(stock, lab, tmp_path) as hosts,
    ):
        before = hosts.state_of(hosts.router)
        with set_on(hosts, experiment, tmp_path / "made") as sweep:
            if dies == "tester":
                assert hosts.tester._process is not None
                hosts.tester._process.kill()
            else:
                hosts.router.transport.start(["sh", "-c", "echo c >/proc/sysrq-trigger"])
            until("it is waited for", 600, lambda: "trying again" in sweep.said())
            sweep.process.send_signal(signal.SIGINT)
            sweep.process.send_signal(signal.SIGINT)
            sweep.ends(130)
            assert any(event.event == "death" for event in sweep.run().journal)
        assert skblab("cleanup").returncode == 1
        done = skblab("cleanup", "--forget", "router")
        assert done.returncode == 0
        assert "forgot what a killed sweep left on router" in done.stderr
        if dies == "tester":
            assert hosts.state_of(hosts.router) == before
        assert "nothing to restore" in skblab("cleanup").stdout


def test_guests_that_are_killed_are_followed_by_others(experiment: Path, tmp_path: Path) -> None:
    with under_way(["sweep", str(experiment), "--testbed", "virtio"], tmp_path) as sweep:
        until("a trial is over", 900, lambda: "packets lost" in sweep.said())
        for guest in emulators(sweep.process.pid):
            os.kill(guest, signal.SIGKILL)
        sweep.ends(0)
        run = sweep.run()
    assert "a new testbed continues" in sweep.said()
    assert len(run.trials) == 4
    assert {row.state for row in run.trials} == {"good"}


FULL = """
mount -t tmpfs -o size=4m none "$SKBLAB_RESULTS"
(until grep -qs recorded "$SKBLAB_RESULTS"/*/journal.jsonl; do sleep 0.1; done
dd if=/dev/zero of="$SKBLAB_RESULTS/ballast" bs=4k) 2>/dev/null &
"$@" sweep few-hosts.toml || echo "ended $?"
wait
rm "$SKBLAB_RESULTS/ballast"
"$@" resume "$SKBLAB_RESULTS"/few* || echo "resumed $?"
cp -r "$SKBLAB_RESULTS"/few* kept
"""


def test_a_disk_that_is_full(experiment: Path, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    # What is mounted in a namespace of its own goes with the shell.
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", FULL, "sh", str(TREE / "skblab")],
        cwd=tmp_path,
        env={**os.environ, "SKBLAB_RESULTS": str(tmp_path / "results")},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert "ended 1\n" in done.stdout
    assert "resumed" not in done.stdout
    assert "skblab: the disk is full: 0 MiB free, cannot write " in done.stderr
    assert "Traceback" not in done.stderr
    trials = load(tmp_path / "kept").trials
    assert len(trials) == 4
    assert {row.state for row in trials} == {"good"}
