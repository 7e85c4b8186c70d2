# SPDX-License-Identifier: GPL-2.0-or-later
"""The page about pandas: its code runs as it stands, on the stored example, and prints that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
PAGE = TREE / "docs" / "howto" / "read-results-in-pandas.md"
# Its run is one of the reader's own.
OF_A_SWEEP = "## What was set"
_FENCED = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def sections() -> list[str]:
    """The page's sections that read the example."""
    return [
        section
        for section in re.split(r"^(?=## )", PAGE.read_text(), flags=re.MULTILINE)
        if not section.startswith(OF_A_SWEEP)
    ]


def test_the_code_prints_what_the_page_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(TREE)
    names: dict[str, object] = {}
    printed = 0
    for section in sections():
        out = ""
        for block in _FENCED.finditer(section):
            if block["kind"] == "python":
                exec(block["text"], names)
                out = capsys.readouterr().out
            elif not block["kind"]:
                assert block["text"].rstrip("\n") == out.rstrip("\n")
                printed += 1
    assert printed == 7
