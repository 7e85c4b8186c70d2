# SPDX-License-Identifier: GPL-2.0-or-later
"""Budgets: what of a plan fits, what is cut, what is refused before it starts."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skblab.cli import app
from skblab.lab import paths
from skblab.sweep.budget import fitting, refusal, told
from skblab.sweep.experiment import Experiment
from skblab.sweep.plan import Plan
from skblab.sweep.request import SHIPPED, make_plan, read
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.words import rough_time


def planned(*, exact: bool = False, **repeats: object) -> Plan:
    """Return the plan of four settings; a timed block takes 8 minutes, a counted one one."""
    made = {
        "name": "few",
        "question": "?",
        "matrix": {"rp_filter": [0, 1, 2]},
        "measure": {"throughput": {"goals": ["ndr"], "trials": 9}},
        "repeats": repeats,
    }
    return make_plan(Experiment.model_validate(made), exact=exact)


def test_as_many_blocks_fit_as_the_budget_has_room_for() -> None:
    block = planned(least=1, most=1).seconds() / 60
    assert 7 < block < 9
    for budget, blocks in ((block - 0.1, 0), (block + 0.1, 1), (3.5 * block, 3), (99 * block, 5)):
        found = planned(least=2, most=5, budget_minutes=budget)
        assert fitting(found) == blocks
        assert (found.seconds(blocks) / 60 <= budget) is True
        assert (refusal(found) is None) is (blocks > 0)
    assert fitting(planned(least=5, most=5)) == 5


def test_what_is_cut_is_said() -> None:
    assert list(told(planned(least=2, most=2))) == []
    [whole] = told(planned(least=2, most=2, budget_minutes=99))
    assert whole == "All of it fits in the budget of 99 min."
    early, some = told(planned(least=2, most=5, width=0.05, budget_minutes=30))
    assert early == (
        "It ends after 2 blocks at the earliest (about 17 min), once the scatter between blocks is "
        "within 5.00% of each mean."
    )
    assert some == (
        "3 of 5 blocks fit in the budget of 30 min (about 26 min). Blocks 4 to 5 are not measured: "
        "skblab leaves out whole blocks, the last ones first."
    )
    cut, few = told(planned(least=2, most=2, budget_minutes=10))
    assert "Block 2 is not measured: " in cut
    assert few == (
        "That is fewer than repeats.least = 2. With one block no difference is significant."
    )


def test_a_budget_without_room_for_a_block_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_RESULTS", str(tmp_path / "results"))
    file = tmp_path / "few.toml"
    file.write_text(
        'name = "few"\nquestion = "?"\nmatrix.rp_filter = [0, 1, 2]\n[measure.throughput]\n'
        "[repeats]\nbudget_minutes = 0.5\n"
    )
    for exact in ([], ["--exact"]):
        done = CliRunner().invoke(app, ["sweep", str(file), *exact])
        assert isinstance(done.exception, UsageError)
        said = str(done.exception)
        assert said.startswith(f"{file}: one block takes about ")
        assert ("--exact" in said) is not bool(exact)
        [enough] = re.findall(r"write budget_minutes = (\d+)$", said)
        # What it says to write is enough.
        text = file.read_text()
        more = tmp_path / "more.toml"
        more.write_text(text.replace("budget_minutes = 0.5", f"budget_minutes = {enough}"))
        assert fitting(make_plan(read(str(more)), exact=bool(exact))) >= 1
        # A dry run says it below the plan.
        done = CliRunner().invoke(app, ["sweep", str(file), *exact, "--dry-run"])
        assert f"it cannot run: {said.removeprefix(f'{file}: ')}" in done.stdout
        assert " for all blocks\n" in done.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("exact", [False, True], ids=["timed", "exact"])
@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_a_shipped_experiment_fits_in_its_budget(file: Path, exact: bool) -> None:
    found = make_plan(read(str(file)), exact=exact)
    assert fitting(found) == found.experiment.repeats.most


def test_the_experiment_of_the_pages_fits_in_its_budget(tmp_path: Path) -> None:
    found: list[Path] = []
    for page in sorted((paths.tree() / "docs").rglob("*.md")):
        # A block of code, indented or fenced.
        for block in re.findall(
            r'(?m)^ *name = "my-settings"\n(?:.*\n)*? *budget_minutes = .*\n', page.read_text()
        ):
            file = tmp_path / f"{len(found)}.toml"
            file.write_text(textwrap.dedent(block))
            plan = make_plan(read(str(file)), exact=False)
            assert fitting(plan) >= plan.experiment.repeats.least
            assert plan.seconds(fitting(plan)) <= 60 * 240
            found.append(page)
    assert found


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "1 min"), (200, "3 min"), (5990, "100 min"), (9000, "2.5 h"), (864000, "10 days")],
)
def test_an_estimate_is_a_round_number(seconds: float, words: str) -> None:
    assert rough_time(seconds) == words
