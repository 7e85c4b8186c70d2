# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time in a sweep: how /proc/stat is read, and what a trial at a rate records."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import ValidationError
from test_sweep_wall import Guest, Sweep, experiment
from typer.testing import CliRunner

from skblab.cli import app
from skblab.machine.transport.base import Done
from skblab.machine.transport.local import LocalTransport
from skblab.sweep.experiment import BASELINE, Experiment
from skblab.sweep.measure.cpu import Cpu, difference, intervals, parse, watching
from skblab.sweep.measures import measures
from skblab.sweep.planned import Measurement
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.cpu.rows import TICK_NS, TimesRow
from skblab_analysis.cpu.summary import of
from waiting import until

STAT = """cpu  30 3 60 2000 9 3 40 6 0 0
cpu0 10 1 20 1000 3 1 {softirq} 2 0 0
cpu1 20 2 40 {idle} 6 2 10 4 0 0
intr 1 2 3
ctxt 5
"""
FILE = """
name = "few"
question = "What does it take?"
[measure.cpu]
rates = [100]
seconds = 2
"""


def stat(softirq: int = 30, idle: int = 1000) -> str:
    return STAT.format(softirq=softirq, idle=idle)


@dataclass
class Router:
    """A made-up router, whose first CPU is five ticks in softirqs between readings."""

    softirq: int = 30

    def run(self, argv: Sequence[str]) -> Done:
        assert list(argv) == ["cat", "/proc/stat"]
        self.softirq += 5
        return Done(0, stat(self.softirq), "")


def test_what_each_cpu_did() -> None:
    first, second = difference(parse(stat()), parse(stat(softirq=37, idle=1020)))
    assert (first.cpu, first.softirq, first.busy, first.idle) == (0, 7 * TICK_NS, 7 * TICK_NS, 0)
    assert (second.cpu, second.busy, second.idle) == (1, 0, 20 * TICK_NS)


def test_idle_time_may_fall_and_no_other() -> None:
    _, second = difference(parse(stat()), parse(stat(idle=999)))
    assert second.idle == 0
    with pytest.raises(SkblabError, match="softirq of CPU 0 fell from 30 to 29 in the trial"):
        difference(parse(stat()), parse(stat(softirq=29)))


def test_a_cpu_that_went_away_is_an_error() -> None:
    fewer = "".join(line for line in stat().splitlines(True) if not line.startswith("cpu1"))
    with pytest.raises(SkblabError, match="other CPUs after the trial"):
        difference(parse(stat()), parse(fewer))


@pytest.mark.parametrize("printed", ["", "cpu 1 2 3\n", "cpu0 1 2 3\n", stat(softirq=-1)])
def test_what_is_no_proc_stat_is_an_error(printed: str) -> None:
    with pytest.raises(SkblabError, match="/proc/stat"):
        parse(printed)


def test_cpu_time_is_measured_at_each_rate_of_each_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment().model_dump() | {"measure": {"cpu": {"rates": [50, 100], "seconds": 2.0}}}
    guest = Guest(transport=Router())
    run = Sweep.begin(tmp_path, Experiment.model_validate(made), guest).run(monkeypatch)
    assert {row.state for row in run.trials} == {"good"}
    # The tester has no CPUs of the router.
    assert Counter((row.setting, row.measure, row.rate) for row in run.trials) == Counter(
        (setting, "cpu", rate) for setting in (BASELINE, AGAIN, "strict") for rate in (50, 100)
    )
    assert {row.softirq for row in run.rows(TimesRow) if row.cpu == 0} == {5 * TICK_NS}
    assert [(summary.rate, summary.usages[0].per_packet()) for summary in of(run)] == [
        (50, 5 * TICK_NS / 100),
        (100, 5 * TICK_NS / 200),
    ]


def test_a_dry_run_says_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0, done.exception
    assert done.stdout.count("cat /proc/stat  # on the router") >= 2
    assert "count=200 gap=10000000 limit=2.5" in done.stdout


def test_a_dry_run_says_what_is_read_in_a_trial(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(FILE.replace("seconds = 2", "seconds = 2\nevery_seconds = 0.5"))
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0, done.exception
    assert " sh 5 0.5 &  # on the router" in done.stdout


@pytest.mark.parametrize(("every", "seconds"), [(3.0, 2.0), (0.1, 200.0)])
def test_parts_of_a_trial_are_bounded(every: float, seconds: float) -> None:
    with pytest.raises(ValidationError, match="expected from 1 to 1000 parts of a trial"):
        Cpu(rates=(1,), seconds=seconds, every_seconds=every)


def test_cpus_are_read_again_and_again() -> None:
    """By the machine's own shell, of its own CPUs: it ends by itself."""
    cpu = Cpu(rates=(1,), seconds=1.0, every_seconds=0.25)
    with watching(LocalTransport(), cpu) as in_trial:
        found = in_trial()
    begins = sorted({part.begin for part in found})
    assert len(begins) == 4 and begins[0] == 0
    assert all(part.end > part.begin for part in found)
    cpus = {part.cpu for part in found}
    assert len(found) == 4 * len(cpus)
    with watching(LocalTransport(), Cpu(rates=(1,))) as in_trial:
        assert in_trial() == ()


def test_a_trial_that_fails_ends_the_readings() -> None:
    cpu = Cpu(rates=(1,), seconds=777.0, every_seconds=111.5)
    with pytest.raises(SkblabError, match="it broke"), watching(LocalTransport(), cpu):
        raise SkblabError("it broke")
    listed = ["ps", "-wwe", "-o", "args="]

    def there() -> bool:
        printed = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
        return "sh 8 111.5" in printed

    until("the loop ends", 20, lambda: not there())


def test_parts_are_between_two_readings() -> None:
    first, second = (
        stat(softirq, idle).partition("intr")[0] for softirq, idle in ((30, 9), (41, 9))
    )
    found = intervals(f"12.34 5.00\n{first}13.36 5.00\n{second}")
    assert [(part.cpu, part.begin, part.end) for part in found] == [
        (0, 0, 102 * TICK_NS),
        (1, 0, 102 * TICK_NS),
    ]
    assert found[0].softirq == 11 * TICK_NS
    assert intervals("") == ()
    with pytest.raises(SkblabError, match="has other CPUs after the trial"):
        intervals(f"12.34 5.00\n{first}13.36 5.00\ncpu0 10 1 20 1000 3 1 30 2 0 0\n")


def test_an_overview_has_what_sets_a_value_if_there_is_any(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run"])
    assert "Measured: cpu" in done.stdout and "by hand" not in done.stdout
    settings = "[baseline]\nrp_filter = 1\n"
    file.write_text(FILE.replace("[measure.cpu]", f"{settings}[measure.cpu]"))
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run"])
    by_hand = done.stdout.partition("What sets each value by hand")[2]
    assert "\n  rp_filter = 1  " in by_hand


def test_a_trial_takes_its_seconds_and_some_more() -> None:
    made = experiment().model_dump() | {"measure": {"cpu": {"rates": [50], "seconds": 9.0}}}
    wanted = Experiment.model_validate(made)
    [stream], [part] = wanted.traffic.each(), measures(wanted.measure)
    assert part.seconds(wanted.measure, Measurement(0, "cpu", stream, 50)) > 9
