# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers by setting: recorded with what they are of, compared block by block, and shown."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from rich.console import Console
from test_report import fake_gnuplot

from skblab_analysis.base.certainty import Difference
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.offered import behind
from skblab_analysis.base.words import FIXED_SPACE, NARROW_SPACE
from skblab_analysis.formats.run import Plan
from skblab_analysis.layers import summary as layers_summary
from skblab_analysis.layers import view as layers_by_setting
from skblab_analysis.layers.rows import Probed
from skblab_analysis.layers.summary import DELAY, WHOLE, LayeringSummary, Setting
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings, terminal
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

TRAFFIC = "IPv4, 64 bytes, 1 flow"
COUNT = 500
POINTS = synthetic_run.FORWARD_POINTS


def document(layers: list[int]) -> dict[str, Any]:
    """Return what the probe prints of COUNT packets that take so long in each layer, in ns."""
    rows = [[time + number % 7 for time in layers] for number in range(COUNT)]
    made = synthetic_run.pathlat(packets=10)
    empty = {
        name: synthetic_run._path(name, points, end, [], [], [])
        for name, points, end in (
            ("receive", synthetic_run.POINTS, "delivered"),
            ("send", synthetic_run.SEND_POINTS, "transmitted"),
        )
    }
    forward = synthetic_run._path("forward", POINTS, "transmitted", rows, [*map(sum, rows)])
    return made | {
        "paths": [empty["receive"], forward, empty["send"]],
        "flags": made["flags"] | {"reentered": 0},
        "samples": made["samples"] | {"filtered": 0},
    }


def of(setting: str, block: int, forwarded: int = COUNT, offered: float = 100.0) -> Probed:
    return Probed(
        setting=setting,
        block=block,
        traffic=TRAFFIC,
        rate=100,
        tried=COUNT,
        forwarded=forwarded,
        offered_rate=offered,
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    plan = Plan(experiment="where", question="Where does it go?", seed=1, baseline="baseline")
    folder = RunFolder.create(tmp_path, "where", plan, synthetic=True)
    usual = [1000 * (number + 1) for number in range(len(POINTS) - 1)]
    for boot in range(3):
        for setting, more in (("baseline", 0), ("baseline again", 1), ("rules", 2500)):
            layers = [*usual]
            # All are slower in one block than in another.
            layers[2] += 100 * boot + more
            layers[3] += boot
            folder.record_probe(document(layers), 0.1, of=of(setting, boot))
    folder.finish(synthetic_run.environment(), {"measuring": 1.0})
    return load(folder.path)


def summary(run: Run) -> LayeringSummary:
    [found] = layers_summary.of(run)
    return found


def test_the_layer_that_a_setting_changes_is_named(run: Run) -> None:
    found = summary(run)
    assert (found.traffic, found.rate, found.baseline) == (TRAFFIC, 100, "baseline")
    assert [setting.name for setting in found.settings] == ["baseline", "baseline again", "rules"]
    whole = found.change("rules", WHOLE)
    assert whole is not None and whole.significant and whole.effect == pytest.approx(2500)
    [(layer, moved)] = found.moved("rules")
    assert layer == f"{POINTS[2]}→{POINTS[3]}"
    assert moved.effect == pytest.approx(2500)
    assert found.settings[0].layers[WHOLE].count == 3 * COUNT
    # Polls in softirqs and in ksoftirqd are one delay.
    assert found.settings[0].layers[DELAY].count > 0


def made_up(**layers: tuple[float, float]) -> LayeringSummary:
    """A setting's layers: what each differs by, and half of the interval of that."""
    changes = {
        name: Difference(effect, 1000.0, half, 1.0, None, 3)
        for name, (effect, half) in layers.items()
    }
    settings = (Setting("baseline", (), {}), Setting("rules", (), {}))
    return LayeringSummary(TRAFFIC, 100, "baseline", tuple(layers), settings, {"rules": changes})


def test_only_what_is_significant_and_goes_the_same_way_has_moved() -> None:
    layers = {WHOLE: (40.0, 5.0), "a": (10.0, 2.0), "b": (1.0, 2.0), "c": (30.0, 2.0)}
    found = made_up(**layers, d=(-9.0, 2.0), **{DELAY: (50.0, 2.0)})
    assert [name for name, _ in found.moved("rules")] == ["c", "a"]
    assert found.moved("baseline") == []
    [said] = layers_by_setting.sentences([found])
    assert "differs by +40 ns: most of it in c +30 ns and a +10 ns." in said.replace(
        NARROW_SPACE, " "
    )
    quicker = made_up(**{WHOLE: (-40.0, 5.0), "a": (-10.0, 2.0)})
    [said] = layers_by_setting.sentences([quicker])
    assert "differs by −40 ns: of it in a −10 ns." in said.replace(NARROW_SPACE, " ")
    # Not significant.
    assert layers_by_setting.sentences([made_up(**{WHOLE: (4.0, 5.0), "a": (10.0, 2.0)})]) == []


def test_the_whole_path_and_the_delay_have_the_first_columns() -> None:
    found = made_up(a=(1.0, 2.0), **{DELAY: (1.0, 2.0), WHOLE: (1.0, 2.0)}, b=(1.0, 2.0))
    assert layers_by_setting.names(found) == [WHOLE, DELAY, "a", "b"]


def test_a_sweep_is_not_taken_for_a_run_of_the_probe(run: Run) -> None:
    assert run.ledgers() == []
    assert len(run.document.ledgers) == 9
    assert {row.measure for row in run.trials} == {"layers"}
    said = " ".join(findings.sentences(run)).replace(NARROW_SPACE, " ").replace(FIXED_SPACE, " ")
    words = "with rules a packet's way through the router differs by +2.50 µs: most of it in "
    assert "paths" not in said
    assert f"{words}{POINTS[2]}→{POINTS[3]} +2.50 µs." in said


def test_packets_that_the_probe_did_not_see_make_it_void(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "where", Plan(experiment="where", seed=1))
    layers = [1000] * (len(POINTS) - 1)
    with pytest.raises(RefusedError, match="saw 500 of 502 forwarded packets"):
        folder.record_probe(document(layers), 0.1, of=of("baseline", 0, COUNT + 2))
    assert layers_summary.of(load(folder.path)) == []


def test_a_rate_that_was_not_kept_is_compared_with_nothing(run: Run) -> None:
    folder = RunFolder.open(run.folder)
    usual = [1000 * (number + 1) for number in range(len(POINTS) - 1)]
    for setting, offered in (("baseline", 100.0), ("rules", 90.0)):
        folder.record_probe(document(usual), 0.1, of=of(setting, 3, offered=offered))
    found = summary(load(run.folder))
    whole = found.change("rules", WHOLE)
    assert whole is not None and whole.blocks == 3
    assert [behind(found_setting.trials) for found_setting in found.settings] == [0, 0, 1]
    said = " ".join(layers_by_setting.unseen([found]))
    assert "did not keep that rate in some block of rules" in said


def test_a_layer_that_packets_skip_is_of_all_packets(run: Run) -> None:
    """A flow table leads past some points: what a layer has there is another interval."""
    folder = RunFolder.open(run.folder)
    made = document([1000] * (len(POINTS) - 1))
    path = made["paths"][1]
    few = synthetic_run._distribution([1000] * (COUNT // 5))
    gone = path["layers"][1]
    path["layers"][1] = {"from": gone["from"], "to": gone["to"], **few}
    folder.record_probe(made, 0.1, of=of("rules", 3))
    [trial] = [row for row in summary(load(run.folder)).settings[2].trials if row.block == 3]
    assert trial.means()[f"{POINTS[1]}→{POINTS[2]}"] == pytest.approx(200)


def test_the_table_and_the_report_have_all_layers(run: Run) -> None:
    console = Console(width=120, record=True, highlight=False, file=io.StringIO())
    for table in terminal.of_run(run.folder):
        console.print(table)
    text = console.export_text()
    assert "Layers (ns, mean, IPv4, 64 bytes, 1 flow, 100 packets/s)" in text
    assert "+2 500 ±1" in text
    page = build_report(run.folder, fake_gnuplot).read_text()
    assert "Where the time goes: IPv4, 64 bytes, 1 flow, 100 packets/s" in page
    assert "rules: difference" in page
    for before, point in pairwise(POINTS):
        assert f'<th scope="col">{before}→<wbr>{point}</th>' in page


def test_a_run_of_layers_alone_has_a_headline(run: Run) -> None:
    assert findings.headline(run) == (
        "IPv4, 64 bytes, 1 flow, 100 packets/s: with baseline a packet's way through the router "
        f"takes 36.1{NARROW_SPACE}µs, the longest part of it xmit→done (22.2{FIXED_SPACE}%)"
    )
