# SPDX-License-Identifier: GPL-2.0-or-later
"""Labels of pictures never overlap, whatever settings are called."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import searches
from hypothesis import given
from hypothesis import strategies as st

from skblab.lab.drawing import gnuplot
from skblab.lab.labroot import LabRoot
from skblab_analysis.base import labels
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.pictures import (
    LEGENDS,
    NARROW_LEGEND,
    NARROW_PANEL,
    WIDE_PANEL,
    Curve,
    Picture,
    distribution,
)
from skblab_analysis.exact.picture import picture as exact_picture
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.exact.summary import summarise
from skblab_analysis.load import load
from skblab_analysis.report import pictures
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.picture import picture as rate_picture

# As a matrix names them, up to what a setting may have: alike at both ends.
SETTINGS = [
    f"rp_filter=1, netfilter: {10 ** (number % 5)} rules in FORWARD{', more' * (number % 6)}, "
    f"RFS with {number} flows"[:80]
    for number in range(20)
]


def exact(tmp_path: Path) -> Picture:
    trials = [
        ExactTrial(
            setting=setting, block=block, packets=10, delivered=10, instructions=10 * cost + block
        )
        for number, setting in enumerate(["baseline", *SETTINGS])
        for block in range(2)
        for cost in (7_000 + 1_234_567 * number,)
    ]
    return exact_picture(summarise(trials))


def rates(tmp_path: Path) -> Picture:
    # One has no good load in some block, which its line says.
    made = [
        searches.search(setting, block, None if number == 3 and block == 2 else 80_000.0 + number)
        for number, setting in enumerate(["baseline", *SETTINGS])
        for block in range(3)
    ]
    [found] = throughput_summary.of(load(searches.finished_run(tmp_path, made)))
    return rate_picture(found)


MADE = {"exact": (exact, -3), "rates": (rates, -3)}


@pytest.mark.parametrize("kind", MADE)
def test_names_and_figures_of_a_line_fit_beside_each_other(tmp_path: Path, kind: str) -> None:
    make, texts_from = MADE[kind]
    lines = [shlex.split(line) for line in make(tmp_path).data.splitlines()[1:]]
    assert len(lines) == 21
    for line in lines:
        whole, difference, narrow = line[texts_from:]
        size = labels.PNG_SIZE
        assert labels.width(line[0], size) + labels.width(whole, size) < WIDE_PANEL
        for text in (whole, difference):
            both = labels.width(narrow, labels.SVG_SIZE) + labels.width(text, labels.SVG_SIZE)
            assert both < NARROW_PANEL
    # Each can be told from all others, and none is cut to nothing.
    for place in (0, -1):
        assert len({line[place] for line in lines}) == len(lines)
        assert all(len(line[place]) >= len("baseline") for line in lines)


def test_a_legend_fits_its_column() -> None:
    curves = [Curve(name, Histogram.of([1, 2])) for name in SETTINGS[:8]]
    made = distribution("one", "Packets", "title", "ns", curves).variables
    titles, narrow = made["titles"], made["narrow_titles"]
    assert isinstance(titles, list) and isinstance(narrow, list)
    assert len(set(titles)) == len(set(narrow)) == len(curves)
    assert all(labels.width(str(title), labels.SVG_SIZE) <= NARROW_LEGEND for title in narrow)
    assert made["legend_columns"] == 2 and max(map(len, titles)) <= LEGENDS[2]
    short = distribution(
        "one", "Packets", "title", "ns", [Curve("driver→stack", Histogram.of([1]))]
    )
    assert short.variables["legend_columns"] == 3


def test_a_name_that_has_room_is_whole() -> None:
    assert labels.names(["a", "a longer name"], [400, 400], len) == ["a", "a longer name"]
    assert labels.names(["a longer name", "a longest name"], [7, 7], len) == [
        "1: a…me",
        "2: a…me",
    ]
    assert labels.elided("abcdefgh", 0, len) == labels.ELLIPSIS


@given(st.text("ab W", max_size=40), st.floats(0, 300))
def test_a_name_keeps_as_much_as_has_room(name: str, room: float) -> None:
    def measure(text: str) -> float:
        return labels.width(text, 10)

    fitting = []
    for kept in range(2, len(name)):
        head = (kept + 1) // 2
        begin, end = name[:head].rstrip(), name[len(name) - kept + head :].lstrip()
        if measure(way := f"{begin}{labels.ELLIPSIS}{end}") <= room:
            fitting.append(way)
    expected = name if measure(name) <= room else [labels.ELLIPSIS, *fitting][-1]
    assert labels.elided(name, room, measure) == expected


def test_a_name_of_any_length_is_cut_at_once() -> None:
    """A name of some thousand letters took minutes: it was measured for each of them."""
    measured = []

    def measure(text: str) -> float:
        measured.append(text)
        return len(text)

    assert len(labels.elided("x" * 50_000, 40, measure)) == 40
    assert len(measured) < 30


@pytest.mark.labroot
@pytest.mark.parametrize("kind", MADE)
def test_drawn_texts_do_not_overlap(tmp_path: Path, lab: LabRoot, kind: str) -> None:
    made = MADE[kind][0](tmp_path / "runs")
    pictures.draw(made, tmp_path, gnuplot(lab))
    for suffix in ("", "-narrow"):
        found = list(boxes(tmp_path / f"{made.name}{suffix}.svg"))
        assert len(found) > 60
        assert list(overlapping(found)) == []


Box = tuple[float, float, float, str]


def boxes(file: Path) -> Iterator[Box]:
    """Yield where each text of a drawing begins and ends, its baseline, and what it says."""
    root = ET.parse(file).getroot()
    view = [float(value) for value in root.attrib["viewBox"].split()]
    space = "{http://www.w3.org/2000/svg}"
    for group in root.iter(f"{space}g"):
        moved = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", group.get("transform", ""))
        for text in group.findall(f"{space}text") if moved else ():
            assert moved is not None
            words = "".join(text.itertext())
            size = float(group.get("font-size", labels.SVG_SIZE))
            wide = labels.width(words, size)
            anchor = {"start": 0.0, "middle": 0.5, "end": 1.0}[group.get("text-anchor", "start")]
            left = float(moved[1]) - anchor * wide
            # No text is cut, either: what is widest stands at the right.
            assert left >= view[0] - 1, words
            assert left + wide <= view[2] + 1, words
            yield left, left + wide, float(moved[2]), words


def overlapping(found: list[Box]) -> Iterator[tuple[str, str]]:
    for place, (left, right, line, words) in enumerate(found):
        for other_left, other_right, other_line, other in found[place + 1 :]:
            if abs(line - other_line) < 8 and left < other_right and other_left < right:
                yield words, other
