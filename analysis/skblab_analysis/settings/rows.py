# SPDX-License-Identifier: GPL-2.0-or-later
"""What knobs were found to be in each trial: before, what they were to be, and after it."""

from __future__ import annotations

from typing import Annotated

from skblab_analysis.base.rows import NO_UNIT, Column, Lines, Numbered, Row, Table, Text


class ReadBack(Row):
    """A knob's reading in a trial, in the words of the knob's own state."""

    knob: Annotated[Text, Column(NO_UNIT, "Name of the knob, such as `rp_filter`.")]
    value: Annotated[Lines, Column(NO_UNIT, "Value that the experiment asks for.")]
    before: Annotated[Lines, Column(NO_UNIT, "What it was before it was set.")]
    wanted: Annotated[Lines, Column(NO_UNIT, "What it was to be, of `before` and `value`.")]
    after: Annotated[
        Lines,
        Column(NO_UNIT, "What it was after the trial, which is invalid if that is not `wanted`."),
    ]

    @property
    def held(self) -> bool:
        """Whether it was as wanted from the beginning of the trial to its end."""
        return self.after == self.wanted

    def row(self, trial: int) -> SettingRow:
        """Return its row, for the trial's number in the run."""
        return SettingRow(trial=trial, **dict(self))


class SettingRow(ReadBack, Numbered):
    """A reading, and of which trial."""


TABLES = (Table(SettingRow, "settings", "one knob in one trial of a sweep", later=True),)
