# SPDX-License-Identifier: GPL-2.0-or-later
"""The progress bar as a terminal of 80 columns shows it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from skblab.lab import reporter
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


def test_a_plain_log_tells_how_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 30.0, 80.0, 100.0])
    monkeypatch.setattr(reporter, "time", SimpleNamespace(monotonic=lambda: next(times)))
    shown = io.StringIO()
    with Reporter(Console(file=shown, width=WIDTH)).bar("measuring", 100) as done:
        for count in (3, 25, 29, 80, 100):
            done(count)
    assert shown.getvalue().splitlines() == [
        "measuring: 20 % after 30 s, about 120 s left",
        "measuring: 80 % after 80 s, about 20 s left",
        "measuring: 100 % after 100 s, about 0 s left",
    ]
