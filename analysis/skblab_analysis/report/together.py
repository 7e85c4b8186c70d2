# SPDX-License-Identifier: GPL-2.0-or-later
"""One page of several runs: what each is, their figures beside each other, and each one's part.

Each run's own page is written as well: the parts are the same, and their links lead to the files
beside it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.words import counted, joined
from skblab_analysis.load import Run, is_run, load
from skblab_analysis.report import by_row, history, runs
from skblab_analysis.report.page import Made, drawn, environment, write, write_page
from skblab_analysis.report.pictures import GnuplotRunner

# So many runs are named in the title.
NAMED = 3
# Digits of what tells runs from others in a folder's name.
DIGITS = 8
_TAG = re.compile(r"<[A-Za-z/][^<>]*>")
_HEADING = re.compile(r"^(</?h)([1-5])\b")
_NAMED = re.compile(r'\b(id|aria-labelledby|aria-describedby|href)="([^"]*)"')


@dataclass(frozen=True)
class Part:
    """A run on the page of several: its number, what it is, and its own part."""

    number: int
    made: Made
    body: Markup
    own_page: str

    @property
    def anchor(self) -> str:
        """What its part is called in the page."""
        return f"run-{self.number}"


@dataclass(frozen=True)
class Together:
    """The page of several runs, and each run's own."""

    page: Path
    made: tuple[Made, ...]


def default_folder(found: Sequence[Path]) -> Path:
    """Return where the page of several runs is put: beside the first of them, by all their names.

    The same runs in the same order have the same folder, and others another one.
    """
    first = found[0].resolve()
    # Two runs of one name are told apart by where they are.
    names = [os.path.relpath(run.resolve(), first.parent) for run in found]
    key = hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()[:DIGITS]
    return first.parent / f"report-{first.name}-and-{len(found) - 1}-more-{key}"


def build(run_dirs: Sequence[Path], folder: Path, gnuplot: GnuplotRunner | None) -> Together:
    """Write one page of several runs into `folder`, and each run's own; RecordError as there.

    UsageError if the folder is a run, or in one, whose own page would be lost.
    """
    found = [load(run_dir) for run_dir in run_dirs]
    _outside(folder)
    made = tuple(write(run, gnuplot) for run in found)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot make {folder}: {error.strerror}") from error
    templates = environment()
    template = templates.get_template("part.html.j2")
    parts = []
    for number, one in enumerate(made, 1):
        base = os.path.relpath(one.page.parent.resolve(), folder.resolve())
        body = placed(template.render(one.shown), f"run-{number}", quote(base))
        parts.append(Part(number, one, Markup(body), quote(f"{base}/{one.page.name}")))
    several = runs.of(found)
    pictures = dict(history.pictures(several.tables))
    text = templates.get_template("several.html.j2").render(
        title=title(found),
        parts=parts,
        several=several,
        by_row=by_row.of(several.rows),
        history={place: picture.name for place, picture in pictures.items()},
        drawn={one.name: drawn(one, folder, gnuplot) for one in pictures.values()},
        identical={},
        synthetic=any(run.document.synthetic for run in found),
    )
    return Together(write_page(folder, text), made)


def _outside(folder: Path) -> None:
    """Raise UsageError if a folder is a run, or in one: one of those on the page, or any other.

    So it does if it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"cannot put the page of several runs into {folder}: that is a file; expected a folder "
            "for index.html"
        )
    there = folder.resolve()
    for place in (there, *there.parents):
        if is_run(place):
            raise UsageError(
                f"cannot put the page of several runs into {folder}: that is in the run {place}, "
                "which has its own page; expected a folder outside of the runs"
            )


def title(found: Sequence[Run]) -> str:
    """Return what the page is called."""
    names = list(dict.fromkeys(run.document.name for run in found))
    said = joined(names) if len(names) <= NAMED else f"{', '.join(names[:NAMED])} and others"
    return f"{counted(len(found), 'run')}: {said}"


def placed(body: str, anchor: str, base: str) -> str:
    """Return a run's part for a page of several: its own ids, its links, headings a level lower.

    A template escapes what could be taken for a tag, or for the end of an attribute.
    """

    def attribute(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name != "href":
            value = " ".join(f"{anchor}-{one}" for one in value.split())
        elif value.startswith("#"):
            value = f"#{anchor}-{value[1:]}"
        elif not value.startswith("data:"):
            value = f"{base}/{value}"
        return f'{name}="{value}"'

    def tag(match: re.Match[str]) -> str:
        lower = _HEADING.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", match[0])
        return _NAMED.sub(attribute, lower)

    return _TAG.sub(tag, body)
