# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as Markdown: it says what the page says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import golden_files
import pytest
import searches
import synthetic_run
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from test_report import fake_gnuplot

from skblab_analysis.report import markdown, together
from skblab_analysis.report.page import build_report


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", text)


def test_golden_markdown(tmp_path: Path) -> None:
    page = build_report(synthetic_run.finished_run(tmp_path), fake_gnuplot)
    golden_files.check("report-md.txt", without_times((page.parent / "report.md").read_text()))


class _Cells(HTMLParser):
    """The cells of a page's tables, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td" and ("class", "bar") not in attrs:
            self.open = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.open &= tag != "td"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.cells[-1] += data


def test_every_figure_of_the_page_is_in_the_markdown(tmp_path: Path) -> None:
    folders = [synthetic_run.finished_run(tmp_path, 2_000), searches.finished_run(tmp_path)]
    made = together.build(folders, tmp_path / "both", fake_gnuplot)
    reader = _Cells()
    reader.feed(made.page.read_text())
    assert len(reader.cells) > 100
    text = (made.page.parent / "report.md").read_text()
    cells = [
        cell.strip()
        for line in text.splitlines()
        if line.startswith("| ")
        for cell in line.split(" | ")
    ]
    for cell in reader.cells:
        said = " ".join(re.sub(r"[ \n]+", " ", cell).split(" ")).strip()
        assert said in cells or f"{said} |" in cells, said


def test_pictures_are_linked_and_are_there(tmp_path: Path) -> None:
    page = build_report(searches.finished_run(tmp_path), fake_gnuplot)
    links = re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", (page.parent / "report.md").read_text())
    assert ("Packets per second, IPv4, 64 bytes, 1 flow", "throughput.png") in links
    assert all((page.parent / link).is_file() for _, link in links)


def test_without_gnuplot_no_picture_is_linked(tmp_path: Path) -> None:
    page = build_report(searches.finished_run(tmp_path), None)
    text = (page.parent / "report.md").read_text()
    assert "![" not in text
    assert "not drawn, for want of gnuplot" in text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h2 id='a'>A <i>b</i></h2><p>c\n  d</p>", "## A *b*\n\nc d\n"),
        ("<p>x<svg><title>no</title></svg><span class='files'>no</span></p>", "x\n"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c\n"),
        ("<ol><li>a<pre><code>x\ny</code></pre></li></ol>", "1. a\n\n   ```\n   x\n   y\n   ```\n"),
        ("<pre><code>```</code></pre>", "````\n```\n````\n"),
        ("<dl><dt>K</dt><dd>a<br><code>b</code></dd></dl>", "- **K**: a\n  - `b`\n"),
        ("<p><a href='#x'>up</a> <a href='x.svg'>it</a></p>", "up [it](x.svg)\n"),
        ("<p># no heading</p>", "\\# no heading\n"),
        ("<p>irq_<wbr>affinity</p><p>b</p></i>", "irq\\_affinity\n\nb\n"),
        ("<p><i>a</p><p>b</p>", "*a*\n\nb\n"),
        ("<p>rp_filter _x_ a*b `c` &lt;i&gt;</p>", "rp_filter \\_x\\_ a\\*b \\`c\\` &lt;i>\n"),
        (
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>"
            "<tr><th rowspan='2'>x|y<small>z</small></th><td>1<small>±2</small></td></tr>"
            "<tr><td>3</td></tr></tbody></table>",
            "| a | b |\n| --- | ---: |\n| x\\|y (z) | 1 ±2 |\n| x\\|y (z) | 3 |\n",
        ),
    ],
)
def test_parts_of_a_page(page: str, text: str) -> None:
    assert markdown.of_page(page) == text


@given(st.text(alphabet="ab_*`|<>[]()#!\\ -1.", min_size=1, max_size=30))
def test_no_text_is_a_tag_or_a_further_cell(text: str) -> None:
    page = f"<table><tbody><tr><th>{escape(text)}</th><td>1</td></tr></tbody></table>"
    *_, row = markdown.of_page(page).strip().splitlines()
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert not re.search(r"<(?!!)", row)
