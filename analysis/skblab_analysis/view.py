# SPDX-License-Identifier: GPL-2.0-or-later
"""What a measure shows of a run: the interface between the measures and the report.

Each measure's package has a `view.py` with a `VIEW`; `measures.py` lists them in reading order.
The report asks every view, and knows no measure. A view gives nothing of a run that has nothing
of its measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from skblab_analysis.base.comparison import Comparison
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.rows import Row, Stored
from skblab_analysis.base.sampled import Sampled
from skblab_analysis.formats.summary import Figure
from skblab_analysis.load import Run


@dataclass(frozen=True)
class Cells:
    """One row of a page's table: its name, a sentence below the name, and the figures as text."""

    name: str
    figures: tuple[str, ...]
    about: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Section:
    """A section of the page, in words and HTML by `template`, a path in this package.

    The template finds `data` as `shown`, and the pictures by their names (`figure`).
    """

    template: str
    data: object
    pictures: tuple[Picture, ...] = ()


def _none(run: Run) -> Sequence[Any]:
    return ()


def _unsaid(run: Run) -> str | None:
    return None


@dataclass(frozen=True)
class View:
    """What is shown of a measure, each part made from a run; errors are RecordError.

    tables     for a terminal of 80 columns
    sections   of the page
    headline   the finding in one sentence without its full stop, None without any
    compared   what settings differ from the baseline: all that tables and pictures have of it
    summary    what a summary has to say before that, in a sentence or two
    sentences  the findings
    unseen     what could not be seen, in sentences
    figures    of the tables, for scripts; their differences are those of `compared`
    samples    the figures that settings are told by, block by block, to compare with other runs
    depends    keys of `[measure]` in an experiment file that samples depend on, such as
               `latency.seconds`, and what each is if the file does not give it
    lengths    the same of those that say how long trials last, where samples do not depend on it:
               of a mean per packet and of a share, shorter trials only widen the interval
    derived    tables for other programs, and their rows, which are written beside the others
    texts      files for other programs, by their names, which are written beside the page
    """

    tables: Callable[[Run], Sequence[Table]] = _none
    sections: Callable[[Run], Sequence[Section]] = _none
    headline: Callable[[Run], str | None] = _unsaid
    compared: Callable[[Run], Sequence[Comparison]] = _none
    summary: Callable[[Run], Sequence[str]] = _none
    sentences: Callable[[Run], Sequence[str]] = _none
    unseen: Callable[[Run], Sequence[str]] = _none
    figures: Callable[[Run], Sequence[Figure]] = _none
    samples: Callable[[Run], Sequence[Sampled]] = _none
    depends: Mapping[str, float | None] = field(default_factory=dict)
    lengths: Mapping[str, float | None] = field(default_factory=dict)
    derived: Callable[[Run], Sequence[tuple[Stored, Sequence[Row]]]] = _none
    texts: Callable[[Run], Sequence[tuple[str, str]]] = _none


def suffix(place: int) -> str:
    """Return what tells files and anchors of further traffic from those of the first, place 0."""
    return f"-{place + 1}" if place else ""
