# SPDX-License-Identifier: GPL-2.0-or-later
"""The log of guests: what is noted is read, only where somebody asks, and damage is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from skblab.lab.guest import eventlog
from skblab.lab.guest.console import Finding, Kind
from skblab_analysis.base.errors import SkblabError


def test_what_is_noted_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    monkeypatch.delenv(eventlog.VARIABLE, raising=False)
    eventlog.note(eventlog.STARTED, "key")
    assert eventlog.read(file) == []
    monkeypatch.setenv(eventlog.VARIABLE, str(file))
    eventlog.note(eventlog.STARTED, "key")
    eventlog.note(eventlog.ENDED, "key", [Finding(Kind.WARNING, "WARNING: CPU: 0")])
    assert [(event.event, event.findings) for event in eventlog.read(file)] == [
        (eventlog.STARTED, ()),
        (eventlog.ENDED, ("WARNING: CPU: 0",)),
    ]


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "7\n", '{"event": "ended"}\n'])
def test_what_is_no_log_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    with pytest.raises(SkblabError, match="not a log of guests") as said:
        eventlog.read(file)
    assert "\n" not in str(said.value)
