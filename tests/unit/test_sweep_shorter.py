# SPDX-License-Identifier: GPL-2.0-or-later
"""--minutes and --scale: what of an experiment is measured in less time, by which rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from skblab.cli import app
from skblab.sweep import shorter
from skblab.sweep.budget import fitting
from skblab.sweep.experiment import Experiment
from skblab.sweep.measure.latency import Latency
from skblab.sweep.measure.rfc2544.section import Rfc2544
from skblab.sweep.measure.throughput.section import Throughput
from skblab.sweep.request import SHIPPED, Parameters, Request, make_plan, read, unfinished
from skblab.testbeds import KINDS, Sending
from skblab.testbeds.asked import Stream
from skblab.testbeds.base import calling
from skblab_analysis.base.errors import UsageError
from skblab_analysis.runfolder import RunFolder


def experiment(measure: dict[str, object], **repeats: object) -> Experiment:
    made = {"name": "few", "question": "?", "measure": measure, "repeats": repeats}
    return Experiment.model_validate(made | {"matrix": {"rp_filter": [0, 1, 2]}})


def seconds(found: Experiment) -> float:
    return make_plan(found, exact=False).seconds()


def test_every_length_of_a_trial_is_scaled() -> None:
    found = experiment(
        {
            "throughput": {"seconds": 4.0, "confirm_seconds": 60},
            "rfc2544": {"latency_seconds": 120},
            "latency": {"rates": [100], "seconds": 0.5},
        }
    )
    half = shorter.scaled(found, 0.5).measure
    assert (half[Throughput].seconds, half[Throughput].confirm_seconds) == (2.0, 30.0)
    # RFC 2544's other tests that were not asked for are not now.
    assert half[Rfc2544].latency_seconds == 60
    assert half[Rfc2544].recovery_seconds is None
    # One that the file has shorter than a second stays.
    assert half[Latency].seconds == 0.5
    least = shorter.scaled(found, 0.01).measure
    assert (least[Throughput].seconds, least[Throughput].confirm_seconds) == (1.0, 1.0)
    twice = shorter.scaled(found, 2).measure
    assert (twice[Throughput].seconds, twice[Latency].seconds) == (8.0, 1.0)
    [told] = shorter.told(found, 0.5)
    assert told.startswith("Trials last 0.5 of the time")
    # Only of what is another length now.
    assert "measure.throughput.seconds = 2 (the file: 4)" in told and "measure.latency" not in told
    [told] = shorter.told(experiment({"latency": {"rates": [100], "seconds": 0.5}}), 0.5)
    assert told == "No trial is shorter: none is made shorter than 1 s."
    assert list(shorter.told(found, 1)) == []


def test_trials_that_get_too_long_are_refused() -> None:
    found = experiment({"latency": {"rates": [190_000], "seconds": 1000.0}})
    with pytest.raises(UsageError, match=r"^trials 100 times as long: .*seconds would be 100000: "):
        shorter.scaled(found, 100)


def test_a_day_of_a_studys_rate_is_sent_until_it_is_over() -> None:
    """It is more than the ten digits that pktgen reads."""
    found = experiment({"latency": {"rates": [190_000], "seconds": 1000.0}})
    day = shorter.scaled(found, 86.4).measure[Latency]
    assert day.seconds == 86_400
    sending = Sending.timed(Stream(family=4, frame=64, flows=1), 190_000, day.seconds)
    assert sending.packets == 16_416_000_000
    words = calling("send", sending, 0).split()
    assert {"count=0", "limit=86400.5", "gap=5263"} <= set(words)


def test_trials_are_shorter_only_if_the_fewest_blocks_do_not_fit() -> None:
    found = experiment({"latency": {"rates": [100, 200], "seconds": 20.0}}, least=2, most=2)
    whole = seconds(found) / 60
    assert shorter.share(found, whole, seconds) == 1.0
    fits = shorter.share(found, 0.5 * whole, seconds)
    assert 0.2 < fits < 0.5
    # As long as they can be: a step more is too long.
    assert seconds(shorter.scaled(found, fits)) <= 30 * whole
    assert seconds(shorter.scaled(found, fits + 1 / shorter.STEPS)) > 30 * whole
    # At the shortest they do not fit either; blocks are left out then.
    assert shorter.share(found, 0.1, seconds) == 0.05


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.toml")))
@pytest.mark.parametrize("minutes", [10.0, 45.0])
def test_every_shipped_experiment_fits_in_its_minutes_or_says_what_would_do(
    name: str, minutes: float
) -> None:
    found = read(name)
    [testbed, *_] = (kind for kind in KINDS if not KINDS[kind].unable(found))
    if testbed == "hosts" or not found.measure.model_fields_set:
        pytest.skip("it is for hosts, or has nothing that is timed")
    request = Request(name, testbed=testbed, minutes=minutes)
    plan = request.plan()
    blocks = fitting(plan, 1)
    said = "\n".join(request.dry_run())
    if blocks:
        assert plan.seconds(blocks) <= 60 * minutes
        assert "it cannot run: one block takes" not in said
        assert request.typed.endswith(f"--minutes {minutes:g} --testbed {testbed}") or (
            testbed == "netns" and request.typed.endswith(f"--minutes {minutes:g}")
        )
    else:
        assert "give it more: --minutes " in said


def test_a_run_is_resumed_with_the_lengths_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path))
    plan, folder = Request("first", minutes=4, scale=0.5).begin()
    asked = Parameters.of(RunFolder.open(folder.path))
    assert (asked.minutes, asked.scale) == (4, 0.5)
    assert RunFolder.open(folder.path).document.plan.again.endswith("--scale 0.5 --minutes 4")
    again, _ = unfinished(folder.path)
    assert again.digest == plan.digest
    assert again.experiment.repeats.budget_minutes == 4


def test_they_contradict_what_is_counted() -> None:
    done = CliRunner().invoke(app, ["sweep", "first", "--exact", "--scale", "2", "--dry-run"])
    assert isinstance(done.exception, UsageError)
    assert "--packets says how long a trial is" in str(done.exception)
    done = CliRunner().invoke(app, ["sweep", "first", "--minutes", "0"])
    assert done.exit_code == 2
