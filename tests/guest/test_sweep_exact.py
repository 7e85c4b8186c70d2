# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab sweep --exact` as a user runs it, and what is left when it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import killed
from conftest import Skblab, emulators, links
from exact_figures import hold
from skblab.lab import paths
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.sweep import plan as plans
from skblab.sweep.experiment import read
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.load import load
from waiting import PATIENCE

pytestmark = pytest.mark.guest

PACKETS = 8000
# What two rows of one boot that are the same may differ by: a few ticks of the timer.
SAME = 0.003
FILE = """
name = "few-settings"
question = "What does rp_filter cost, and what can veth not?"
[traffic]
family = [4, 6]
frame = [128]
[baseline]
rp_filter = 0
[[setting]]
name = "strict"
knobs = { rp_filter = 1 }
[[setting]]
name = "two queues"
knobs = { queues = 2 }
[measure.throughput]
[repeats]
least = 1
most = 1
"""

SHORT = """[measure.throughput]
goals = ["pdr"]
seconds = 0.2
trials = 1
width = 0.5
"""


@pytest.fixture(scope="module")
def resumed(stock: Kernel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A sweep that was killed in its first boot and resumed: its folder, and what that printed."""
    tmp_path = tmp_path_factory.mktemp("sweep")
    file = tmp_path / "few-settings.toml"
    file.write_text(FILE)
    arguments = ["sweep", str(file), "--exact", "--packets", str(PACKETS)]
    folder = killed.sweep(arguments, tmp_path / "results", 4)
    assert 4 <= len(load(folder).trials) < 10
    return folder, killed.resume(folder)


def test_settings_differ_and_the_baseline_does_not(resumed: tuple[Path, str]) -> None:
    ipv4, ipv6 = sorted(exact_summary.of(load(resumed[0])), key=lambda one: one.traffic)
    assert (ipv4.traffic, ipv6.traffic) == ("IPv4, 128 bytes, 1 flow", "IPv6, 128 bytes, 1 flow")
    [strict] = [difference for difference in ipv4.differences if difference.setting == "strict"]
    # Of one boot nothing is known; two are the demo's, see test_demo.py.
    assert strict.difference.significant is None
    # There is no rp_filter of IPv6.
    [strict] = [difference for difference in ipv6.differences if difference.setting == "strict"]
    assert abs(strict.difference.share) < SAME
    for summary in (ipv4, ipv6):
        assert [cost.setting for cost in summary.costs] == ["baseline", "baseline again", "strict"]
        [again] = [same for same in summary.differences if same.setting == "baseline again"]
        assert abs(again.difference.share) < SAME


def test_instructions_per_packet_are_those_of_this_kernel(
    resumed: tuple[Path, str], stock: Kernel, lab: LabRoot
) -> None:
    figures: dict[str, float] = {}
    for summary in exact_summary.of(load(resumed[0])):
        family = summary.traffic.partition(",")[0]
        figures |= {
            f"{family}, {cost.setting}": cost.mean for cost in (*summary.costs, *summary.testers)
        }
        [strict] = [same for same in summary.differences if same.setting == "strict"]
        if family == "IPv4":
            # A route is looked up for the source. Each figure repeats to 0.1 % of the whole, which
            # is 2 % of what lies between two; the demo, with two boots, holds that to 1 %.
            assert strict.difference.effect == pytest.approx(472, rel=0.1)
    hold("test_sweep_exact", figures, stock, lab)


def test_what_the_machine_cannot_is_left_out_and_said(resumed: tuple[Path, str]) -> None:
    folder, printed = resumed
    invalid = [row for row in load(folder).trials if row.state == "invalid"]
    assert len(invalid) == 2
    reason = "not possible here: queues: r0: its driver has no combined"
    assert {(row.setting, row.reason) for row in invalid} == {("two queues", reason)}
    assert f"two queues: skipped: {reason}" in printed
    assert (folder / "report" / "index.html").exists()
    assert not list(folder.glob("undo*"))


def test_a_resumed_sweep_has_each_trial_once(run_skblab: Skblab, resumed: tuple[Path, str]) -> None:
    run = load(resumed[0])
    keys = [(row.setting, row.block, row.traffic) for row in run.trials]
    # Tester, baseline twice, and two settings, of two kinds of traffic.
    assert len(keys) == len(set(keys)) == 10
    assert run.document.state == "finished"
    assert run.document.environment is not None
    facts = run.document.environment.more
    assert facts["router r0 driver"].startswith("driver: veth")
    assert facts["router routes of IPv6"] != "0"
    again = run_skblab("resume", str(run.folder))
    assert again.returncode == 2
    assert "is finished: nothing to resume" in again.stderr


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "how", [["--exact", "--packets", "2000"], ["--testbed", "virtio"]], ids=str
)
def test_killed_at_any_moment(tmp_path: Path, full: bool, how: list[str]) -> None:
    """Fifty times at full scale, else five."""
    file = tmp_path / "few-settings.toml"
    file.write_text(FILE.replace("[measure.throughput]", SHORT))
    program, results = str(paths.tree() / "skblab"), tmp_path / "results"
    env = {**os.environ, "SKBLAB_RESULTS": str(results)}
    before, others = links(), emulators()
    chosen, kills, folder = random.Random(4689), 0, None
    while kills < (50 if full else 5):
        argv = ["resume", str(folder)] if folder else ["sweep", str(file), *how]
        with subprocess.Popen(
            [program, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            if _ends_before(running, results, chosen, measuring=kills % 2 == 0):
                # Another one is killed in its turn.
                folder = None
                continue
            os.kill(running.pid, signal.SIGKILL)
        kills += 1
        deadline = time.monotonic() + PATIENCE
        while left := _of_run(str(results)) or emulators() - others:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        assert links() == before
        made = sorted(results.iterdir()) if results.exists() else []
        # Before it has begun there is no folder, and no experiment in it; one that was killed
        # behind its last trial has come to its end.
        folder = made[-1] if made and (made[-1] / "experiment.toml").exists() else None
        if folder is not None and load(folder).document.state == "finished":
            folder = None
    while folder is None or load(folder).document.state != "finished":
        argv = ["resume", str(folder)] if folder else ["sweep", str(file), *how]
        subprocess.run([program, *argv], env=env, check=True, capture_output=True)
        folder = sorted(results.iterdir())[-1]
    run = load(folder)
    keys = [(row.setting, row.block, row.traffic, row.measure) for row in run.trials]
    plan = plans.make(read(file), exact="--exact" in how)
    wanted = [
        (setting.setting, boot.block, str(measurement.stream), measurement.recorded_as)
        for boot, setting, measurement in plan.measurements()
    ]
    assert sorted(keys) == sorted(wanted)
    # Kills while something was measured, not only while guests came up.
    assert sum(map(_lost, results.iterdir())) > (10 if full else 0)


def _ends_before(
    running: subprocess.Popen[bytes], results: Path, chosen: random.Random, *, measuring: bool
) -> bool:
    """Wait for the moment of the next kill; return whether the run has come to its end instead.

    That is any time, or, whatever guests take to come up here, when a trial has just begun.
    """
    delay, begun = chosen.uniform(1, 40), _attempts(results)
    deadline = time.monotonic() + delay
    while running.poll() is None:
        if measuring and _attempts(results) > begun:
            # The shortest trial takes about half a second: it has not come to its end.
            time.sleep(delay / 500)
            return False
        if not measuring and time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    assert running.returncode == 0
    return True


def _lost(folder: Path) -> int:
    """Return how many trials of a run were begun and have no outcome. Its boots come in turn."""
    lost, open_ = 0, False
    for line in (folder / "journal.jsonl").read_text().splitlines():
        match json.loads(line)["event"]:
            case "attempt":
                lost += open_
                open_ = True
            # What is not possible for one kind of traffic may be told of all at once.
            case "recorded" | "invalid":
                open_ = False
    return lost + open_


def _attempts(results: Path) -> int:
    """Return how many trials were begun in all runs."""
    return sum(file.read_text().count('"attempt"') for file in results.glob("*/journal.jsonl"))


def _of_run(results: str) -> list[str]:
    """Return the processes that have this folder for their results."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if results.encode() in (process / "environ").read_bytes():
                found.append(f"{process.name} {(process / 'cmdline').read_text()}")
    return found
