# SPDX-License-Identifier: GPL-2.0-or-later
"""What knobs were found to be: one row a reading, whatever number of trials had it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import markupsafe
from markupsafe import Markup
from rich.markup import escape
from rich.table import Table

from skblab_analysis.base.tables import titled
from skblab_analysis.load import Run, once
from skblab_analysis.settings.rows import SettingRow
from skblab_analysis.view import Cells, Section, View

COLUMNS = ("knob", "value", "before", "wanted", "after", "trials")
OF_HELD = ("knob", "value", "as it was read", "trials")
# Rules and routes have many lines; the table on disk has all of them.
LONGEST, LONGEST_OF_HELD = 60, 150


@dataclass(frozen=True)
class Reading:
    """What a knob was in a setting's trials, and in how many of them.

    Where it held, `before` is empty: by the random order any other setting may have left anything.
    """

    setting: str
    knob: str
    value: str
    before: str
    wanted: str
    after: str
    trials: int

    @property
    def held(self) -> bool:
        """Whether it was as wanted at the end."""
        return self.after == self.wanted

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table has of it, by COLUMNS."""
        texts = (self.knob, self.value, self.before, self.wanted, self.after)
        return (*(_short(text, LONGEST) for text in texts), str(self.trials))

    @property
    def held_cells(self) -> tuple[str, ...]:
        """The same by OF_HELD, of one that was as wanted."""
        texts = (self.knob, self.value, self.after)
        return (*(_short(text, LONGEST_OF_HELD) for text in texts), str(self.trials))


@once
def of(run: Run) -> list[Reading]:
    """Return all readings of a run, those that are not as wanted first, in the plan's order."""

    def reading(row: SettingRow) -> tuple[str, str, str, str, str, str]:
        setting = run.trials[row.trial].setting
        before = row.before if row.after != row.wanted else ""
        return setting, row.knob, row.value, before, row.wanted, row.after

    counted = Counter(map(reading, run.settings))
    order = run.setting_order({texts[0] for texts in counted})
    found = [Reading(*texts, trials=trials) for texts, trials in counted.items()]
    return sorted(found, key=lambda read: (read.held, order.index(read.setting), read.knob))


def differing(run: Run, readings: Sequence[Reading]) -> list[Reading]:
    """Return those of the baseline, and of other settings what was otherwise than with it."""
    baseline = run.document.plan.baseline
    usual = {(read.knob, read.value, read.after) for read in readings if read.setting == baseline}
    return [
        read
        for read in readings
        if read.setting == baseline or (read.knob, read.value, read.after) not in usual
    ]


def _short(text: str, longest: int) -> str:
    line, *more = text.split("\n")
    cut = bool(more) or len(line) > longest
    return f"{line[:longest].rstrip()} …" if cut else line


def _breakable(text: str) -> Markup:
    """Return a text whose lines may break in paths of files, which have no spaces."""
    broken = markupsafe.escape(text).replace("/", Markup("/<wbr>"))
    return broken.replace("=", Markup("<wbr>="))


def _tables(run: Run) -> list[Table]:
    """Those that were not as wanted: a terminal has no room for the others."""
    readings = [reading for reading in of(run) if not reading.held]
    if not readings:
        return []
    table = titled("Settings that did not hold")
    for name in ("setting", *COLUMNS):
        table.add_column(name, overflow="fold")
    for reading in readings:
        table.add_row(*map(escape, (reading.setting, *reading.cells)))
    return [table]


def _sections(run: Run) -> list[Section]:
    readings = of(run)
    if not readings:
        return []
    failed = [
        Cells(
            name=reading.setting,
            about="not as wanted: such a trial is invalid",
            figures=tuple(map(_breakable, reading.cells)),
            strong=True,
        )
        for reading in readings
        if not reading.held
    ]
    held = [
        Cells(name=reading.setting, about="", figures=tuple(map(_breakable, reading.held_cells)))
        for reading in differing(run, [reading for reading in readings if reading.held])
    ]
    shown = {"failed": failed, "columns": COLUMNS, "held": held, "of_held": OF_HELD}
    return [Section("settings/section.html.j2", shown)]


VIEW = View(tables=_tables, sections=_sections)
