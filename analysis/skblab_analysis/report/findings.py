# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run found, in words of its measures, and what it could not see."""

from __future__ import annotations

from pydantic import BaseModel

from skblab_analysis.base import told
from skblab_analysis.base.comparison import Comparison
from skblab_analysis.base.whole import Whole
from skblab_analysis.base.words import counted
from skblab_analysis.load import Run
from skblab_analysis.measures import VIEWS

# Lines of a summary, and how many of them tell of anything else than comparisons.
LINES = 5
PLAIN = 2


def headline(run: Run) -> str:
    """Return the finding in one sentence, for the top of a page: that of the first measure."""
    found = filter(None, (view.headline(run) for view in VIEWS))
    return next(found, "This run holds no result")


def compared(run: Run) -> list[Comparison]:
    """Return what settings differ from the baseline, of all measures."""
    return [comparison for view in VIEWS for comparison in view.compared(run)]


def summary(run: Run) -> list[str]:
    """Return the findings in at most LINES sentences, the most important first."""
    plain = [sentence for view in VIEWS for sentence in view.summary(run)]
    nothing, others = told.lines(compared(run), run.identical, run.only_here)
    return [*nothing, *plain[:PLAIN], *others][:LINES]


def sentences(run: Run) -> list[str]:
    """Return all findings, one sentence or two each, then why the run ended before its plan."""
    said = [sentence for view in VIEWS for sentence in view.sentences(run)]
    end = _end(run)
    return said if end is None else [*said, end]


class _Enough(BaseModel):
    """What the journal says when no more blocks are needed, or the budget is spent."""

    blocks: Whole
    reason: str


def _end(run: Run) -> str | None:
    """Return after how many blocks the run ended, and why; None if it had all of its plan."""
    end: _Enough | None = None
    for event in run.journal:
        if event.event == "resumed":
            # It asks again whether more blocks are needed.
            end = None
        elif event.event == "enough":
            end = event.told(_Enough)
    if end is None:
        return None
    return f"The run ended after {counted(end.blocks, 'block')}: {end.reason}."


def unseen(run: Run) -> list[str]:
    """Return what the run could not see, from its numbers, then from what it was told."""
    said = [sentence for view in VIEWS for sentence in view.unseen(run)]
    environment = run.document.environment
    wall = environment.guests.get("wall") if environment else None
    if wall is not None and wall.accel.startswith("tcg"):
        said.append(
            "The guest’s processor was emulated (tcg): its nanoseconds are not those of real "
            "hardware. Compare shares and layers with each other, not with another machine."
        )
    return said + list(run.document.gaps)
