# SPDX-License-Identifier: GPL-2.0-or-later
"""skblab tune --dry-run: what would be tried, and that a tune then tries just that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import test_sweep_wall as walls
import test_tune as tunes
from typer.testing import CliRunner

from conftest import TREE
from skblab.cli import app
from skblab.knobs.values import Value
from skblab.lab import kernel, labroot
from skblab.sweep.running import Running
from skblab.tune import deriving
from skblab_analysis.base.errors import UsageError
from skblab_analysis.load import load

Json = dict[str, Any]
SCHEMA = json.loads((TREE / "results-schema/tune-plan.schema.json").read_text())


@pytest.fixture(autouse=True)
def nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object) -> None:
        raise AssertionError("something was begun")

    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path / "results"))
    for where, name in ((Running, "_testbed"), (kernel, "ensure"), (labroot, "ensure")):
        monkeypatch.setattr(where, name, begun)


def planned(tmp_path: Path, text: str, *words: str) -> tuple[Json, str]:
    """Return what a dry run prints: its document, and its lines."""
    file = tmp_path / "few.toml"
    file.write_text(text)
    call = ["tune", str(file), "--dry-run", *words]
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.exception
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    said = CliRunner().invoke(app, call)
    assert said.exit_code == 0, said.exception
    assert not (tmp_path / "results").exists() and not (tmp_path / "cache").exists()
    return document, said.stdout


def stage(document: Json, name: str) -> Json:
    [found] = [one for one in document["stages"] if one["name"] == name]
    return dict(found)


def test_a_tune_does_what_its_dry_run_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deriving, "MOST_BLOCKS", 3)
    where = ["--testbed", "netns", "--minutes", "600"]
    document, said = planned(tmp_path, tunes.SEVERAL, *where)
    assert [one["name"] for one in document["stages"]] == ["sweep", "each", "confirm"]
    assert (document["cannot_run"], document["not_covered"]) == ([], [])

    def slow(knobs: Mapping[str, Value]) -> float:
        return 0.0 if tunes.is_set(knobs, "no filter", "budget") else 1.0

    with monkeypatch.context() as patch:
        result, _ = tunes.tuned(tmp_path, patch, [tunes.Among(slow=slow)], tunes.SEVERAL)
    reports = [Path(report).parents[1] for report in result["reports"]]  # type: ignore[attr-defined]
    runs = [load(folder) for folder in reports]
    for run, one in zip(runs, document["stages"], strict=True):
        names = [setting["name"] for setting in one["settings"]]
        # What depends on results has no more settings than was said.
        assert len(run.document.plan.settings) <= len(names)
        if one["known"]:
            assert list(run.document.plan.settings) == names
            assert run.document.plan.parameters["plan"] == one["plan"]
    first, tried = stage(document, "sweep"), runs[0]
    order = [
        (boot["block"] - 1, setting["setting"], first["trials"][number]["measure"])
        for boot in first["order"]
        for setting in boot["settings"]
        for number in setting["trials"]
    ]
    assert [
        (row.block, row.setting, "throughput" if row.setting == "tester" else row.measure)
        for row in tried.trials
    ] == order
    assert order[0][1] == "tester" and len(order) == 3 * 6
    for name in ("no filter", "budget", "weight"):
        assert f"   - {name}: " in said
    assert "netdev_budget = 600: sysctl -w net.core.netdev_budget=600" in said
    assert said.count("   It decides: ") == 3


def test_what_the_time_has_no_room_for_is_said(tmp_path: Path) -> None:
    document, said = planned(tmp_path, tunes.SEVERAL, "--testbed", "netns", "--minutes", "1")
    [why] = document["cannot_run"]
    assert f"it cannot run: {why}" in said
    [enough] = re.findall(r"expected at least --minutes (\d+)\.$", why)
    document, _ = planned(tmp_path, tunes.SEVERAL, "--testbed", "netns", "--minutes", enough)
    assert document["cannot_run"] == []
    assert stage(document, "sweep")["blocks"] == 1
    few = [one for one in document["not_covered"] if one.startswith("sweep: 1 block of it fits.")]
    [more] = re.findall(r"3 take about --minutes (\d+)\.$", few[0])
    document, said = planned(tmp_path, tunes.SEVERAL, "--testbed", "netns", "--minutes", more)
    assert stage(document, "sweep")["blocks"] == 3
    # Its order has the blocks that fit.
    assert [boot["block"] for boot in stage(document, "sweep")["order"]] == [1, 2, 3]
    assert document["estimated_minutes"] <= document["minutes"]
    assert "block 3: " in said and "block 4: " not in said


ELEVEN = """
name = "few"
question = "Which?"
[[setting]]
name = "no GRO"
knobs = { gro = false }
""" + "".join(
    f'[[setting]]\nname = "{name}"\nknobs = {{ {name} = {value} }}\n'
    for name, value in (
        *(("rp_filter", 2), ("netdev_budget", 600), ("dev_weight", 128), ("busy_poll", 50)),
        *(("busy_read", 50), ("netdev_max_backlog", 5000), ("mtu", 1400)),
        *(("rfs_entries", 32768), ("gro_flush_timeout", 20000), ("napi_defer_hard_irqs", 2)),
    )
)


def test_what_is_never_tried_together_is_said(tmp_path: Path) -> None:
    document, _ = planned(tmp_path, ELEVEN, "--for", "instructions", "--minutes", "600")
    here, over = document["not_covered"]
    assert here.startswith("no GRO: measured and never advised from this testbed: without GRO")
    assert over.startswith("each: 2 settings of those that can be set together")
    first = stage(document, "sweep")
    assert [one["name"] for one in first["settings"] if one["only_here"]] == ["no GRO"]
    assert first["measure"] == {"instructions": {}}
    assert {one["measure"] for one in first["trials"]} == {"instructions"}
    # All of eight, and all but each; the baseline twice.
    assert len(stage(document, "each")["settings"]) == 2 + 1 + 8
    assert [one["name"] for one in stage(document, "confirm")["settings"]][2:] == [
        *("all of it together", "the best alone", "all that was tried")
    ]


def test_rates_are_said_and_one_setting_has_nothing_beside_it(tmp_path: Path) -> None:
    text = walls.SLOW_BASELINE + "[measure.latency]\nrates = [10000, 20000]\nseconds = 2\n"
    words = ["--for", "latency", "--testbed", "netns", "--minutes", "600"]
    document, said = planned(tmp_path, text, *words)
    assert [one["name"] for one in document["stages"]] == ["sweep", "confirm"]
    trials = stage(document, "sweep")["trials"]
    rates = [(one["measure"], one["rate"]) for one in trials if not one["tester"]]
    assert rates == [("latency", 10000), ("latency", 20000), ("throughput", None)]
    assert all(one["seconds"] > 0 for one in trials)
    assert "latency at 10 000/s, IPv4" in said.replace("\u202f", " ")


def test_what_this_testbed_cannot_is_said(tmp_path: Path) -> None:
    text = walls.SLOW_BASELINE + "[needs]\ncpus = 999\n"
    document, said = planned(tmp_path, text, "--for", "instructions")
    assert document["cannot_run"] and "needs.cpus" in document["cannot_run"][0]
    assert "it cannot run: " in said
    gone = tmp_path / "gone.toml"
    file = tmp_path / "few.toml"
    done = CliRunner().invoke(app, ["tune", str(file), "--dry-run", "--hosts", str(gone)])
    assert isinstance(done.exception, UsageError) and "gone.toml" in str(done.exception)
