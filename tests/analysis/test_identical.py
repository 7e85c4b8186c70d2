# SPDX-License-Identifier: GPL-2.0-or-later
"""Which settings are the baseline's own state, by what was read of their knobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import searches
import synthetic_run

from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.rows import LONGEST_TEXT
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.settings.identical import identical
from skblab_analysis.settings.rows import ReadBack
from skblab_analysis.trials.rows import TrialRow


def read_back(value: str, before: str) -> ReadBack:
    return ReadBack(knob="rp_filter", value=value, before=before, wanted=value, after=value)


def sweep(results: Path, readings: Sequence[tuple[str, Sequence[ReadBack]]]) -> Path:
    """Return a run of trials in this order, a block each time the baseline comes."""
    folder = RunFolder.create(results, "settings", searches.plan(), synthetic=True)
    block = -1
    for number, (setting, found) in enumerate(readings):
        block += setting == "baseline"
        folder.known(found)
        folder.record(searches.search(setting, max(block, 0), 80_000.0 + number))
    return folder.finish(synthetic_run.environment(), {"searching": 1.0})


def test_a_knob_that_the_baseline_does_not_set_is_as_it_was_before_anything_set_it(
    tmp_path: Path,
) -> None:
    path = sweep(
        tmp_path,
        [
            ("baseline", ()),
            ("rp_filter=1", [read_back("1", "0")]),
            ("rp_filter=0", [read_back("0", "1")]),
        ],
    )
    assert load(path).identical == {"rp_filter=0"}


def test_a_setting_is_identical_to_the_baseline_in_every_block_or_not(tmp_path: Path) -> None:
    """What the baseline was read to be counts, and not what another setting left behind."""
    path = sweep(
        tmp_path,
        [
            ("baseline", [read_back("1", "0")]),
            ("as left", [read_back("0", "0")]),
            ("one", [read_back("1", "0")]),
            ("two", [read_back("1", "1")]),
            ("baseline", [read_back("2", "0")]),
            ("one", [read_back("1", "2")]),
            ("two", [read_back("2", "1")]),
        ],
    )
    assert load(path).identical == {"two"}


def test_a_run_without_readings_marks_nothing(tmp_path: Path) -> None:
    assert load(searches.finished_run(tmp_path)).identical == frozenset()


def test_of_another_baseline_no_setting_is_known_to_be_its_own_state(tmp_path: Path) -> None:
    """`one` leaves alone what `both` sets as well, and has no reading of it."""
    two = ReadBack(knob="gro", value="off", before="on", wanted="off", after="off")
    path = sweep(
        tmp_path,
        [
            ("baseline", ()),
            ("both", [read_back("1", "0"), two]),
            ("one", [read_back("1", "0")]),
            ("none", [read_back("0", "1")]),
        ],
    )
    run = load(path)
    assert run.alike == {"both": False, "one": False, "none": True}
    assert run.against("both").alike == {}
    assert run.against("both").identical == frozenset()
    # What was asked of the run itself is still known.
    assert run.identical == {"none"}


@pytest.mark.parametrize("of_baseline", ["none", "invalid"])
def test_where_the_baseline_was_not_read_it_is_not_known(of_baseline: str) -> None:
    """In the second block the baseline has no good trial: what was there before is not its own."""
    made = [("baseline", 0, "0"), ("one", 0, "1"), ("zero", 0, "0"), ("three", 0, "3")]
    made += [("baseline", 1, "0"), ("one", 1, "1"), ("zero", 1, "0"), ("three", 1, "0")]
    trials = [
        TrialRow.model_validate(
            {
                **{"trial": trial, "clock": "wall", "setting": setting, "block": block},
                "state": "invalid" if (setting, block) == ("baseline", 1) else "good",
            }
        )
        for trial, (setting, block, _) in enumerate(made)
    ]
    readings = [
        read_back(value, "1").row(trial)
        for trial, (setting, block, value) in enumerate(made)
        if of_baseline == "invalid" or (setting, block) != ("baseline", 1)
    ]
    assert identical(readings, trials, "baseline") == {"one": False, "zero": None, "three": False}
    # Of the second block alone nothing is known, whatever was there before.
    assert identical([row for row in readings if row.trial > 4], trials, "baseline") == {
        **{"one": None, "zero": None, "three": None}
    }


def test_the_baseline_under_its_other_name_tells_which_knobs_it_sets() -> None:
    """The baseline's own reading is missing, and what was there before is not the baseline's."""
    trials = [
        TrialRow(trial=trial, clock="wall", setting=setting)
        for trial, setting in enumerate(("baseline", "one", AGAIN))
    ]
    readings = [read_back("1", "1").row(1), read_back("0", "1").row(2)]
    assert identical(readings, trials, "baseline") == {"one": None}


@pytest.mark.parametrize(
    ("text", "boot", "state", "same"),
    [
        ("1", "", "good", {"other": True}),
        # Of another kernel, whatever its knobs are.
        ("1", "kernel=rt", "good", {"other": False}),
        # It tells nothing of the setting.
        ("1", "", "invalid", {}),
        # The end of what is longer is not stored.
        ("1" * (LONGEST_TEXT - 1), "", "good", {"other": True}),
        ("1" * LONGEST_TEXT, "", "good", {"other": None}),
    ],
)
def test_only_what_is_known_to_be_alike_is_identical(
    text: str, boot: str, state: str, same: dict[str, bool | None]
) -> None:
    trials = [
        TrialRow(trial=0, clock="wall", setting="baseline"),
        TrialRow.model_validate(
            {"trial": 1, "clock": "wall", "setting": "other", "boot_knobs": boot, "state": state}
        ),
    ]
    readings = [read_back(text, text).row(trial) for trial in range(2)]
    assert identical(readings, trials, "baseline") == same
    assert True not in identical(readings, trials, None).values()
