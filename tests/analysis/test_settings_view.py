# SPDX-License-Identifier: GPL-2.0-or-later
"""What knobs were read to be, in the tables and the report: what did not hold comes first."""

from __future__ import annotations

from pathlib import Path

import page_checks
import pytest
import searches
from test_report import fake_gnuplot
from test_tables import text

from skblab_analysis.load import load
from skblab_analysis.report.page import build_report
from skblab_analysis.report.terminal import of_run
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.settings.rows import ReadBack
from skblab_analysis.settings.view import differing, of


def recorded(results: Path, *after: str) -> Path:
    """Return a run of a trial for each reading of a knob that is to be 1."""
    folder = RunFolder.create(results, "settings", searches.plan(), synthetic=True)
    for block, found in enumerate(after):
        rules = ReadBack(knob="rules", value="2", before="", wanted="a\nb", after="a\nb")
        folder.known([ReadBack(knob="rp", value="1", before="0", wanted="1", after=found), rules])
        folder.record(searches.search("baseline", block, 1000.0))
    return folder.path


def test_readings_that_are_alike_are_one_and_what_did_not_hold_is_first(tmp_path: Path) -> None:
    found = of(load(recorded(tmp_path, "1", "1", "0")))
    assert [(read.knob, read.after, read.trials, read.held) for read in found] == [
        ("rp", "0", 1, False),
        ("rp", "1", 2, True),
        ("rules", "a\nb", 3, True),
    ]
    assert found[0].cells == ("rp", "1", "0", "1", "0", "1")
    assert found[2].held_cells == ("rules", "2", "a …", "3")


def test_what_the_trial_before_left_makes_no_row_of_its_own(tmp_path: Path) -> None:
    """Settings come in random order, and any of them may have been before."""
    folder = RunFolder.create(tmp_path, "settings", searches.plan(), synthetic=True)
    for block, before in enumerate(("none", "1", "none", "2")):
        folder.known([ReadBack(knob="rp", value="1", before=before, wanted="1", after="1")])
        folder.record(searches.search("baseline", block, 1000.0))
    [found] = of(load(folder.path))
    assert found.held_cells == ("rp", "1", "1", "4")
    # Where one did not hold, it may say why.
    failed = of(load(recorded(tmp_path, "0")))[0]
    assert failed.before == "0"


@pytest.mark.parametrize("held", [True, False])
def test_the_page_has_all_and_the_terminal_what_did_not_hold(tmp_path: Path, held: bool) -> None:
    path = recorded(tmp_path, "1", "1" if held else "0")
    page = page_checks.check(build_report(path, fake_gnuplot))
    assert "What was set" in page.text
    assert ("not as wanted: such a trial is invalid" in page.text) is not held
    assert ("Knobs that did not hold" in page.text) is not held
    assert "Knobs by setting" in page.text
    assert ("Settings that did not hold" in text(*of_run(path))) is not held


def test_lines_of_the_page_break_in_paths_which_are_copied_as_they_are(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "settings", searches.plan(), synthetic=True)
    state = "net/ipv4/rp=<1>"
    folder.known([ReadBack(knob="rp", value="1", before="", wanted=state, after=state)])
    folder.record(searches.search("baseline", 0, 1000.0))
    path = build_report(folder.path, fake_gnuplot)
    assert state in page_checks.check(path).text
    assert "<td>net/<wbr>ipv4/<wbr>rp<wbr>=&lt;1&gt;</td>" in path.read_text()


def test_a_run_without_readings_has_no_such_section(tmp_path: Path) -> None:
    page = build_report(searches.finished_run(tmp_path), fake_gnuplot)
    assert "What was set" not in page.read_text()


def test_other_settings_have_what_the_baseline_has_not(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "settings", searches.plan(), synthetic=True)
    long = "x" * 400
    for setting, rp, rules in (("baseline", "0", "a"), ("strict", "1", "a"), ("long", "0", long)):
        for knob, state in (("rp", rp), ("rules", rules)):
            folder.known([ReadBack(knob=knob, value=state, before="", wanted=state, after=state)])
        folder.record(searches.search(setting, 0, 1000.0))
    run = load(folder.path)
    assert sorted((read.setting, read.knob) for read in differing(run, of(run))) == [
        *(("baseline", "rp"), ("baseline", "rules")),
        *(("long", "rules"), ("strict", "rp")),
    ]
    # What nothing can be compared with is all there.
    assert len(differing(run, [read for read in of(run) if read.setting != "baseline"])) == 4
