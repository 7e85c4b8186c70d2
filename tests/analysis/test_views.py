# SPDX-License-Identifier: GPL-2.0-or-later
"""The report asks every measure, and names none."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import searches

import skblab_analysis
from skblab_analysis import measures
from skblab_analysis.load import load
from skblab_analysis.report import findings, terminal
from skblab_analysis.view import View

PACKAGE = Path(skblab_analysis.__file__).parent


def test_every_view_is_in_the_list_once() -> None:
    views = [
        importlib.import_module(f"skblab_analysis.{path.parent.name}.{path.stem}").VIEW
        for path in PACKAGE.glob("*/*view.py")
    ]
    assert len(views) > 7
    assert {id(view) for view in views} == {id(view) for view in measures.VIEWS}
    assert len(views) == len(measures.VIEWS)


def test_the_report_names_no_measure() -> None:
    names = {path.parent.name for path in PACKAGE.glob("*/*view.py")}
    for path in (*PACKAGE.glob("report/*.py"), *PACKAGE.glob("base/*.py")):
        imported = set(re.findall(r"skblab_analysis[. ](?:import )?(\w+)", path.read_text()))
        assert not imported & names, path
    for path in PACKAGE.glob("report/templates/*.j2"):
        assert not names & set(re.findall(r"(\w+)/\w+\.html\.j2", path.read_text())), path


def test_a_further_view_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = View(
        headline=lambda run: "More",
        summary=lambda run: ["In short.", "In a second.", "In a third."],
        sentences=lambda run: ["Said."],
        unseen=lambda run: ["Not seen."],
    )
    run = load(searches.finished_run(tmp_path))
    usual = findings.headline(run)
    monkeypatch.setattr(findings, "VIEWS", (*measures.VIEWS, more))
    monkeypatch.setattr(terminal, "VIEWS", (more,))
    assert findings.headline(run) == usual
    said, end = findings.sentences(run)[-2:]
    assert said == "Said." and end.startswith("The run ended after 3 blocks: ")
    assert "Not seen." in findings.unseen(run)
    [shown] = terminal.of_run(run.folder)
    # No more than two lines that are of no comparison, and at most five of all.
    assert str(shown) == "\n".join(f"• {line}" for line in findings.summary(run))
    assert findings.summary(run)[:2] == ["In short.", "In a second."]
    assert "In a third." not in findings.summary(run)
    assert len(findings.summary(run)) <= findings.LINES
    monkeypatch.setattr(findings, "VIEWS", (more, *measures.VIEWS))
    assert findings.headline(run) == "More"
