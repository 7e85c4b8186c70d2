# SPDX-License-Identifier: GPL-2.0-or-later
"""All figures of a run as one document, for scripts: what the terminal's tables show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from skblab_analysis.base.compared import compared
from skblab_analysis.formats.summary import (
    Advised,
    Complaint,
    Figure,
    Reason,
    SummaryDocument,
    Trials,
)
from skblab_analysis.load import Run, load
from skblab_analysis.measures import VIEWS
from skblab_analysis.report import advice, findings


def of_run(folder: Path, page: Path | None = None) -> SummaryDocument:
    """Return the figures of a run folder; RecordError when it is broken."""
    return of(load(folder), page)


def of(run: Run, page: Path | None = None) -> SummaryDocument:
    """Return the figures of a run; `page` is where it is shown."""
    document = run.document
    advised = advice.of(run)
    good = sum(trial.state == "good" for trial in run.trials)
    return SummaryDocument(
        folder=str(run.folder.resolve()),
        report=None if page is None else str(page.resolve()),
        name=document.name,
        state=document.state,
        reason=document.reason,
        synthetic=document.synthetic,
        baseline=document.plan.baseline,
        headline=findings.headline(run),
        findings=tuple(findings.sentences(run)),
        unseen=tuple(findings.unseen(run)),
        trials=Trials(good=good, invalid=len(run.trials) - good),
        reasons=_reasons(run),
        figures=_figures(run),
        unaccounted={str(ledger.trial): ledger.share for ledger in document.ledgers},
        advice=tuple(_advised(advised)),
        why_none=advised.why_none,
        commands=document.commands,
        complaints=tuple(
            Complaint(where=told.where, lines=tuple(str(line) for line in told.lines))
            for told in run.complaints()
        ),
    )


def _advised(found: advice.Advice) -> Iterator[Advised]:
    kinds: tuple[tuple[Literal["set", "mixed", "only_here"], tuple[advice.Setting, ...]], ...] = (
        ("set", found.ranked),
        ("mixed", found.mixed),
        ("only_here", found.only_here),
    )
    for kind, settings in kinds:
        for one in settings:
            yield Advised(
                setting=one.name,
                advice=kind,
                better=one.gains,
                worse=one.losses,
                only_here=one.only_here,
            )


def _figures(run: Run) -> tuple[Figure, ...]:
    """Return all figures, each with its difference, which is a row of comparison.parquet."""
    differences = {
        figure.key: difference
        for comparison in findings.compared(run)
        for figure, difference in compared(comparison, run.alike)
    }
    return tuple(
        figure.model_copy(update={"difference": differences.get(figure.key)})
        for view in VIEWS
        for figure in view.figures(run)
    )


def _reasons(run: Run) -> tuple[Reason, ...]:
    said = {trial.setting: trial.reason for trial in run.trials if trial.reason}
    return tuple(Reason(setting=setting, reason=reason) for setting, reason in said.items())
