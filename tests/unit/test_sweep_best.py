# SPDX-License-Identifier: GPL-2.0-or-later
"""Which setting is ahead while a sweep goes on."""

from __future__ import annotations

import io

from rich.console import Console

from skblab.lab.reporter import Reporter
from skblab.sweep.best import BestSoFar
from skblab.sweep.progress import Key


def key(setting: str, rate: int | None = None) -> Key:
    return Key(setting, 0, "IPv4, 64 bytes, 1 flow", "latency" if rate else "throughput", rate)


def test_the_best_mean_of_the_first_kind_is_ahead() -> None:
    most = BestSoFar("throughput", more=True, unit="packets/s")
    least = BestSoFar("throughput", more=False, unit="ns")
    for best in (most, least):
        assert str(best) == ""
        best.add(key("a"), 10_000.0)
        # One alone is ahead of nothing.
        assert str(best) == ""
        best.add(key("b"), 30_000.0)
        best.add(key("b"), 10_000.0)
        best.add(key("c"), None)
        # Of another kind.
        best.add(key("a", 100), 90_000.0)
    assert str(most) == "best so far: b, 20 000 packets/s"
    assert str(least) == "best so far: a, 10 000 ns"


def test_a_plain_log_has_it_too() -> None:
    file = io.StringIO()
    reporter = Reporter(Console(file=file, highlight=False))
    with reporter.bar("searching", 10) as update:
        update(5, "best so far: b, 20 000 packets/s")
    assert "searching: 50 % after 0 s, about 0 s left; best so far: b" in file.getvalue()
