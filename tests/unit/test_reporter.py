# SPDX-License-Identifier: GPL-2.0-or-later
"""The progress bar as a terminal of 80 columns shows it."""

from __future__ import annotations

import io

from rich.console import Console

from skblab.lab.reporter import Reporter

WIDTH = 80


def test_a_long_note_leaves_the_times_room() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=WIDTH, color_system=None)
    with Reporter(console).bar("measuring", 100) as done:
        done(12, "best so far: NAPI threads, busy polling at 1 234 567 packets/s " * 2)
    lines = [line for line in shown.getvalue().splitlines() if "12 %" in line]
    assert lines
    for line in lines:
        assert "measuring; best so far" in line
        assert line.rstrip().endswith("12 % 0:00:00 left -:--:--")
