# SPDX-License-Identifier: GPL-2.0-or-later
"""What else each setting changes: every knob is in the table, and every value is told apart."""

from __future__ import annotations

import pytest

from skblab.knobs import effects
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value


def test_every_knob_is_in_the_table_once() -> None:
    assert effects.EFFECTS.keys() | effects.NONE == KNOBS.keys()
    assert not effects.EFFECTS.keys() & effects.NONE


@pytest.mark.parametrize("name", sorted(effects.EFFECTS))
def test_some_value_of_each_has_an_effect(name: str) -> None:
    said = [effects.of(name, form.example) for form in KNOBS[name].check.forms]
    assert any(said)
    used = {
        effect
        for effect in effects.EFFECTS[name]
        for form in KNOBS[name].check.forms
        if effect.of(form.example)
    }
    assert used == set(effects.EFFECTS[name]), "an effect that no form of a value has"
    for effect in effects.EFFECTS[name]:
        assert effect.words.endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("gro", False, "Local TCP receivers"),
        ("threaded", True, "scheduling priority"),
        ("netfilter", "none", "NAT and rules"),
        ("netfilter", "conntrack", "nf_conntrack_max"),
        ("rp_filter", 0, "a protection goes"),
        ("ring_rx", 4096, "latency grows"),
        ("ring_rx", 4096, "takes memory"),
        ("mitigations", "off", "a protection goes"),
    ],
)
def test_what_a_reader_asked_for_is_said(name: str, value: Value, said: str) -> None:
    assert said in effects.of(name, value)


def test_values_that_change_nothing_else_say_nothing() -> None:
    for name, value in (("threaded", False), ("lro", False), ("rps", "none"), ("load", 40)):
        assert effects.of(name, value) == ""
    # 1 is not true, and 0 not false: of what takes numbers.
    assert "forged" in effects.of("rp_filter", 0)
    assert "by another way" in effects.of("rp_filter", 1)
    assert list(effects.told({"threaded": False, "my_own": 3})) == [("my_own=3", effects.UNKNOWN)]
