# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs of a command line: every form of every knob comes through, anything else is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import text

from skblab.bench.given import parse, word
from skblab.knobs.registry import KNOBS
from skblab_analysis.base.errors import UsageError


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_a_command_line_takes_every_form(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.txt").write_text("11.0.0.0/8\n" if name == "routes" else "2400::/12\n")
    Path("my-rules.nft").write_text("table inet filter {}\n")
    for form in KNOBS[name].check.forms:
        value = KNOBS[name].check(form.example)
        assert parse([word(name, value)], "--set") == {name: value}


def test_a_text_needs_no_quotes_and_may_have_them() -> None:
    assert parse(['netfilter="nft-forward 2"', "gro=true"], "--set") == {
        "netfilter": "nft-forward 2",
        "gro": True,
    }
    assert parse(["rps=all"], "--set") == {"rps": "all"}
    # As tables have it; and a list of CPUs may have one.
    assert parse(["gro=on", "napi_cpus=0"], "--set") == {"gro": True, "napi_cpus": "0"}
    assert parse([], "--set") == {}


@given(text())
def test_anything_is_a_value_or_one_line(typed: str) -> None:
    for words in ([typed], [f"rp_filter={typed}"], [f"netfilter={typed}", "gro=true"]):
        try:
            found = parse(words, "--set")
        except UsageError as error:
            assert str(error).startswith("--set ")
        else:
            assert all(KNOBS[name].check(value) == value for name, value in found.items())
