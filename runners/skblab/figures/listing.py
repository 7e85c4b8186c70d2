# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of the documents' figures, and where each is in its document."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from skblab.figures import printed
from skblab.lab import paths
from skblab_analysis.base import tomlfile
from skblab_analysis.base.checked import Closed

FILE = "docs/figures.toml"
FOLDER = "docs"
# What the head of a page says that is made from stored runs.
FROM_RUNS = "<!-- Made from docs/versions/"


class Command(Closed):
    """What makes figures: `seconds` with everything in the cache, when and on what it ran last.

    One that `needs` something of the reader's own cannot be run as it stands.
    """

    run: str
    seconds: PositiveInt
    date: datetime.date
    kernel: str
    needs: str = ""


class Within(Closed):
    """How much a figure may differ: by a number, a share of it, or the greater of the two.

    `factor` is for the wall clock of a busy machine. Without any of them it is not compared.
    """

    number: float = 0
    percent: float = 0
    factor: float = 0

    @property
    def compared(self) -> bool:
        """Whether the figure is compared."""
        return bool(self.number or self.percent or self.factor)

    def holds(self, then: float, now: float) -> bool:
        """Tell whether a figure is still what it was."""
        if self.factor:
            return then == now or (then * now > 0 and 1 / self.factor <= now / then <= self.factor)
        return abs(now - then) <= max(self.number, abs(then) * self.percent / 100)

    def __str__(self) -> str:
        """Return it in words."""
        if not self.compared:
            return "not compared"
        said = [f"{self.number:g}"] if self.number else []
        said += [f"{self.percent:g} %"] if self.percent else []
        said += [f"{self.factor:g} times"] if self.factor else []
        return " or ".join(said)


class Place(Closed):
    """A place in a document: a text in it, or the first table or code behind the text `after`."""

    document: str
    text: str = ""
    after: str = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.text) is bool(self.after):
            raise ValueError("expected either text, or after, which a table follows")
        return self

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where it is in the document; nothing if it is not there."""
        whole = (paths.tree() / self.document).read_text()
        found = re.finditer(printed.flexible(self.text or self.after), whole)
        spans = [match.span() for match in found]
        try:
            return spans if self.text else [printed.block(whole, end) for _, end in spans[:1]]
        except ValueError:
            return []

    @property
    def content(self) -> str:
        """What is there."""
        begin, end = self.spans[0]
        return (paths.tree() / self.document).read_text()[begin:end]


class Figure(Place):
    """A figure, or a table of them, as a command printed it.

    A table is found in what the command prints by itself. Of a text `read` says where its numbers
    are in there, as `pattern` has it. `by_hand` says it in words, where no program can.
    """

    command: str
    within: Within
    # Of single columns of a table.
    columns: dict[str, Within] = {}  # noqa: RUF012 - pydantic copies it
    read: str = ""
    by_hand: str = ""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.text and not (self.read or self.by_hand):
            raise ValueError("expected read, or by_hand: how is it found in what is printed?")
        return self

    @property
    def pattern(self) -> re.Pattern[str]:
        """`read` as a pattern: # is a number that is compared, ~ another one, … anything."""
        parts = {"#": f"({printed.NUMBER})", "~": printed.NUMBER}
        words = (
            "".join(parts.get(part, re.escape(part)) for part in re.split("([#~])", word))
            for word in self.read.split()
        )
        # What may be anything begins and ends at a space, which may be one and the same.
        return re.compile(r"\s+".join(words).replace(r"\s+…\s+", r"\s[\s\S]*?(?<=\s)"))


class Exempt(Place):
    """What looks like a measurement and is none: `why`."""

    why: Annotated[str, Field(min_length=4)]


class Listing(Closed):
    """The whole list."""

    command: dict[str, Command]
    figure: tuple[Figure, ...]
    exempt: tuple[Exempt, ...] = ()

    @model_validator(mode="after")
    def _known(self) -> Self:
        for figure in self.figure:
            if figure.command not in self.command:
                raise ValueError(
                    f"no command {figure.command}; known are: {', '.join(self.command)}"
                )
        if unused := set(self.command) - {figure.command for figure in self.figure}:
            raise ValueError(f"commands of no figure: {', '.join(sorted(unused))}")
        return self

    @property
    def places(self) -> tuple[Place, ...]:
        """All that is listed."""
        return (*self.figure, *self.exempt)

    def lost(self) -> Iterator[str]:
        """Yield what is not in its document any more, in words."""
        for place in self.places:
            if not place.spans:
                yield f"{place.document}: {place.text or place.after}"

    def unlisted(self, document: str) -> Iterator[str]:
        """Yield what looks like a measurement in a document and is not listed, in words."""
        text = (paths.tree() / document).read_text()
        own = [span for place in self.places if place.document == document for span in place.spans]
        for begin, end in printed.measured(text):
            if not any(first <= begin and end <= last for first, last in own):
                line = text.count("\n", 0, begin) + 1
                yield f"{document}:{line}: {' '.join(text[begin:end].split())}"


def documents() -> list[str]:
    """Return the documents whose figures are listed, by their places in the tree.

    Not those that are made from stored runs, and have no figure of their own.
    """
    tree = paths.tree()
    return [
        "README.md",
        *(
            str(file.relative_to(tree))
            for file in sorted((tree / FOLDER).rglob("*.md"))
            if not file.read_text().partition("\n")[2].startswith(FROM_RUNS)
        ),
    ]


def read(file: Path | None = None) -> Listing:
    """Return the list; UsageError says what is wrong with it."""
    return tomlfile.read(Listing, file or paths.tree() / FILE, "the list of figures")
