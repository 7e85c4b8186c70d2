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
from skblab.sweep.spent import over_budget
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.words import rough_time
from skblab_analysis.formats.journal import JOURNAL


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
        assert fitting(found, 1) == blocks
        assert (found.seconds(blocks) / 60 <= budget) is True
        assert (refusal(found, 1) is None) is (blocks > 0)
    assert fitting(planned(least=5, most=5), 1) == 5


def test_boots_that_run_side_by_side_take_the_time_of_one() -> None:
    whole = planned(exact=True, least=5, most=5)
    block = whole.seconds(1)
    # Five boots, of a block each.
    for at_once, rounds in ((1, 5), (2, 3), (4, 2), (5, 1), (8, 1)):
        assert whole.seconds(at_once=at_once) == pytest.approx(rounds * block)
    assert [whole.seconds(blocks, 2) for blocks in (1, 2)] == [block, block]
    # What fits, and what is said of it, too.
    few = planned(exact=True, least=2, most=5, budget_minutes=2.5 * block / 60)
    assert [fitting(few, at_once) for at_once in (1, 2, 4)] == [2, 4, 5]
    [cut] = told(few, 2)
    assert cut.startswith(f"4 of 5 blocks fit in the budget of {2.5 * block / 60:g} min")
    assert f"(about {rough_time(2 * block)}). Block 5 is not measured" in cut


def test_another_block_takes_the_time_of_its_boots_side_by_side(tmp_path: Path) -> None:
    """Two boots in a block, and both at once: the third block takes as long as each before."""
    journal = tmp_path / JOURNAL
    times = {"began": 0, "load": 120}
    journal.write_text(
        "".join(
            f'{{"at": "2025-01-01T00:{at // 60:02}:00+00:00", "event": "{event}"}}\n'
            for event, at in times.items()
        )
    )

    def over(budget: float, boots: int, at_once: int) -> bool:
        return over_budget(tmp_path, budget, 2, boots=boots, at_once=at_once) is not None

    # Two blocks have taken two minutes.
    assert [over(budget, 2, 2) for budget in (2.9, 3)] == [True, False]
    assert [over(budget, 1, 1) for budget in (2.9, 3)] == [True, False]
    # Both at once, and the third one alone.
    assert [over(budget, 1, 2) for budget in (3.9, 4)] == [True, False]
    # Three boots in two rounds for each block.
    assert [over(budget, 3, 2) for budget in (3.3, 3.4)] == [True, False]


def test_what_is_cut_is_said() -> None:
    assert list(told(planned(least=2, most=2), 1)) == []
    [whole] = told(planned(least=2, most=2, budget_minutes=99), 1)
    assert whole == "All of it fits in the budget of 99 min."
    early, some = told(planned(least=2, most=5, width=0.05, budget_minutes=30), 1)
    assert early == (
        "It ends after 2 blocks at the earliest (about 17 min), once the scatter between blocks is "
        "within 5.00% of each mean."
    )
    assert some == (
        "3 of 5 blocks fit in the budget of 30 min (about 26 min). Blocks 4 to 5 are not measured: "
        "skblab leaves out whole blocks, the last ones first."
    )
    cut, few = told(planned(least=2, most=2, budget_minutes=10), 1)
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
        [enough] = re.findall(r"give it more: --minutes (\d+)$", said)
        # What it says to write is enough.
        text = file.read_text()
        more = tmp_path / "more.toml"
        more.write_text(text.replace("budget_minutes = 0.5", f"budget_minutes = {enough}"))
        assert fitting(make_plan(read(str(more)), exact=bool(exact)), 1) >= 1
        # A dry run says it below the plan.
        done = CliRunner().invoke(app, ["sweep", str(file), *exact, "--dry-run"])
        assert f"it cannot run: {said.removeprefix(f'{file}: ')}" in done.stdout
        assert " for all blocks\n" in done.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("exact", [False, True], ids=["timed", "exact"])
@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_a_shipped_experiment_has_a_budget_that_it_fits_in(file: Path, exact: bool) -> None:
    found = make_plan(read(str(file)), exact=exact)
    repeats = found.experiment.repeats
    # Hours at most, and minutes for a first look.
    most = 10 if file.stem in ("first", "quick") else 8 * 60
    assert repeats.budget_minutes is not None and repeats.budget_minutes <= most
    assert fitting(found, 1) >= repeats.least
    if file.stem != "realtime":
        # A machine that takes half as long again has all of it, too.
        assert 1.5 * found.seconds() <= 60 * repeats.budget_minutes
        assert fitting(found, 1) == repeats.most


def test_a_dry_run_of_the_longest_experiment_says_what_its_budget_cuts() -> None:
    said = CliRunner().invoke(app, ["sweep", "realtime", "--dry-run"]).stdout
    assert re.search(
        r"(?m)^8 of 15 blocks fit in the budget of 480 min \(about 7\.\d h\)\. "
        r"Blocks 9 to 15 are not measured: ",
        said,
    )
    assert " for all blocks\n" in said


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
            assert fitting(plan, 1) >= plan.experiment.repeats.least
            assert plan.seconds(fitting(plan, 1)) <= 60 * 240
            found.append(page)
    assert found


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "1 min"), (200, "3 min"), (5990, "100 min"), (9000, "2.5 h"), (864000, "10 days")],
)
def test_an_estimate_is_a_round_number(seconds: float, words: str) -> None:
    assert rough_time(seconds) == words
