# SPDX-License-Identifier: GPL-2.0-or-later
"""When the medians of `skblab probe verify` agree, and when not, from figures made up."""

from __future__ import annotations

import pytest

from skblab.probe.verify.medians import WHOLE, Agreement, Layer, Measured, agreements, complaints
from skblab.probe.verify.plan import BACKENDS, comparable
from skblab_analysis.base.errors import SkblabError

LAYERS = [Layer("receive", to) for to in ("stack", "ip", WHOLE)]


def measured(name: str, cost: float, *medians: int) -> Measured:
    ranges = [(low, low + low // 16) for low in medians]
    return Measured(name, {"receive": cost}, dict(zip(LAYERS, ranges, strict=True)))


def test_a_true_median_is_where_all_ranges_meet() -> None:
    found = [measured("a", 100, 1600, 320, 1920), measured("b", 2000, 3200, 640, 3840)]
    assert list(agreements(found)) == [
        Agreement(LAYERS[0], 1500, 1700, "a", "a"),
        Agreement(LAYERS[1], 220, 340, "a", "a"),
        Agreement(LAYERS[2], 1840, 2040, "b", "a"),
    ]
    assert complaints(found) == []


def test_one_that_says_too_little_contradicts_the_others() -> None:
    found = [measured("a", 100, 1600, 320, 1920), measured("b", 200, 1600, 160, 1920)]
    assert complaints(found) == [
        "receive: ip: a says at least 220 instructions, its own work taken off, and b at most 170",
        "receive: the layers of a have 150 instructions more than the least that is said of each; "
        "its own work is 100",
    ]


def test_what_is_beyond_in_all_has_to_be_its_own_work() -> None:
    found = [measured("a", 10, 1600, 320, 1920), measured("b", 1000, 2560, 960, 2600)]
    assert complaints(found) == [
        "receive: the layers of b have 1480 instructions more than the least that is said of each; "
        "its own work is 1000",
    ]


def test_a_layer_that_one_lacks_is_an_error() -> None:
    short = Measured("b", {"receive": 1}, {LAYERS[0]: (1, 1)})
    with pytest.raises(SkblabError, match="b: no median of receive: ip"):
        list(agreements([measured("a", 100, 1600, 320, 1920), short]))


def test_histograms_meet_the_quickest_hooks() -> None:
    names = [backend.name for backend in comparable(BACKENDS, patched=True)]
    assert names == ["histograms", "hooks by fentry"]
    assert comparable([], patched=True) == []
    names = [backend.name for backend in comparable(BACKENDS, patched=False)]
    assert names == ["hooks by fentry", "hooks by kprobe", "bpftrace hooks", "stap hooks"]
