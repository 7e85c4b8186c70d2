# SPDX-License-Identifier: GPL-2.0-or-later
"""The first edition of the kernel series beside the one that was measured.

Its figures are stored, because that series is no longer in the tree: first-edition.csv says where
they are from.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from skblab_analysis.cost import bench
from skblab_analysis.formats.bench import FAMILIES, BenchDocument

FILE = "first-edition.csv"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Beside:
    """A row of a benchmark: what it adds now, and what the first edition added, in instructions.

    Of a packet; `what` "NAPI poll": of a poll.
    """

    what: str
    family: str
    row: str
    first: float
    now: float
    significant: bool | None


def stored() -> dict[Key, float]:
    """Return the first edition's figures by what they are of, IP version and row."""
    text = (resources.files(__package__) / FILE).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {
        (line["what"], line["family"], line["row"]): float(line["more"])
        for line in csv.DictReader(lines)
    }


def beside(document: BenchDocument) -> list[Beside]:
    """Return the rows of a benchmark that the first edition has figures for."""
    now = dict(_measured(document))
    return [Beside(*key, first, *now[key]) for key, first in stored().items() if key in now]


def _measured(document: BenchDocument) -> Iterator[tuple[Key, tuple[float, bool | None]]]:
    """Yield what each row adds, and whether that is significant."""
    for what, path in (("forwarding", bench.forwarding), ("UDP receive", bench.receive)):
        for family in FAMILIES:
            for figure in path(document, family):
                if figure.difference is not None and figure.certainty is not None:
                    found = figure.difference, figure.certainty.significant
                    yield (what, str(family), figure.row.name), found
    for poll in bench.polls(document):
        yield ("NAPI poll", "", poll.row.name), (poll.per_poll, poll.certainty.significant)
