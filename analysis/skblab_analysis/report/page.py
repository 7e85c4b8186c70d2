# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of a run: report/index.html and tables of all figures, made from the run folder alone.

The page is one file that needs nothing else: style and pictures are inside, no script, no request.
Links lead to the raw files of the run folder beside it. report.md has the same as Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from skblab_analysis import tables
from skblab_analysis.base import disk, words
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.pictures import Picture
from skblab_analysis.base.tables import IDENTICAL
from skblab_analysis.comparison.rows import COMPARISON
from skblab_analysis.comparison.rows import rows as comparison_rows
from skblab_analysis.load import Run, load
from skblab_analysis.measures import VIEWS
from skblab_analysis.report import advice, findings, left_out, markdown, pictures, svg
from skblab_analysis.report.pictures import GnuplotRunner

TEMPLATES = Path(__file__).resolve().parent / "templates"
# Those of sections are beside their measures.
PACKAGE = TEMPLATES.parents[1]


@dataclass(frozen=True)
class Drawn:
    """A picture inside the page, for wide and for narrow screens; None where it is not drawn."""

    title: str
    wide: Markup | None = None
    narrow: Markup | None = None


def build_report(run_dir: Path, gnuplot: GnuplotRunner | None) -> Path:
    """Write report/index.html, report.md, pictures and what is derived; returns the page's path.

    Without gnuplot pictures are written as scripts and data, and the page has links to these.
    Raises RecordError for a folder that is no whole run, and whatever `gnuplot` raises.
    """
    return write(load(run_dir), gnuplot).page


@dataclass(frozen=True)
class Made:
    """A run whose page was written, and what the templates show of it."""

    run: Run
    page: Path
    shown: Mapping[str, object]


def write(run: Run, gnuplot: GnuplotRunner | None) -> Made:
    """Write the page of a run, as build_report() does."""
    folder = run.folder / "report"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot make {folder}: {error.strerror}") from error
    _write_derived(run)
    for name, text in (made for view in VIEWS for made in view.texts(run)):
        disk.write(folder / name, text)
    sections = [section for view in VIEWS for section in view.sections(run)]
    shown = {
        "run": run.document,
        "headline": findings.headline(run),
        "summary": findings.summary(run),
        "findings": findings.sentences(run),
        "identical": dict.fromkeys(run.identical, IDENTICAL),
        "unseen": findings.unseen(run),
        "left_out": left_out.of(run.trials),
        "complaints": run.complaints(),
        "sections": sections,
        "drawn": {
            picture.name: drawn(picture, folder, gnuplot)
            for section in sections
            for picture in section.pictures
        },
        "advice": advice.of(run) if advice.asked(run) else None,
        "total_seconds": sum(timing.seconds for timing in run.document.timings),
        "raw": _raw_files(run.folder),
    }
    page = environment().get_template("report.html.j2").render(shown)
    return Made(run, write_page(folder, page), shown)


def write_page(folder: Path, page: str) -> Path:
    """Write a page, and the same as Markdown beside it; returns the page's path."""
    path = folder / "index.html"
    disk.write(path, page)
    disk.write(folder / "report.md", markdown.of_page(page))
    return path


def _write_derived(run: Run) -> None:
    """Write what is made of a run's records as tables beside them; no rows leave no file."""
    found = [(COMPARISON, comparison_rows(findings.compared(run), run.alike))]
    for table, rows in (*found, *(made for view in VIEWS for made in view.derived(run))):
        path = run.folder / f"{table.file}.parquet"
        if rows:
            tables.write(path, table.arrow_of(rows))
        else:
            with disk.explained(path):
                path.unlink(missing_ok=True)


@cache
def environment() -> jinja2.Environment:
    """Return where templates are found, and what they can do."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader((TEMPLATES, PACKAGE)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["count"] = words.spaced
    made.filters["seconds"] = words.seconds
    return made


def drawn(picture: Picture, folder: Path, gnuplot: GnuplotRunner | None) -> Drawn:
    """Write a picture into a folder, and return it as a page has it."""
    if gnuplot is not None:
        pictures.draw(picture, folder, gnuplot)
    elif not pictures.write(picture, folder):
        return Drawn(picture.title)

    def variant(suffix: str, css_class: str) -> Markup:
        return svg.inline(
            folder / f"{picture.name}{suffix}.svg",
            f"{picture.name}{suffix}",
            picture.title,
            picture.description,
            css_class,
        )

    return Drawn(picture.title, variant("", "wide"), variant("-narrow", "narrow"))


def _raw_files(run_dir: Path) -> list[str]:
    """Return the run's own files, relative to the folder, all but the report."""
    found: list[Path] = [
        path.relative_to(run_dir)
        for path in run_dir.rglob("*")
        if path.is_file() and path.relative_to(run_dir).parts[0] != "report"
    ]
    return [path.as_posix() for path in sorted(found, key=lambda path: (len(path.parts), path))]
