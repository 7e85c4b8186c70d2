# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages: their links lead somewhere, all are reached, and none is too long to be read."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from skblab.lab import paths

TREE = paths.tree()
# Five screens.
LONGEST, WIDTH = 250, 110
FORMATS = "results-schema"
_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE)
_CODE_BLOCK = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(\s*(?P<target>[^)\s]+)\s*\)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *#*$", re.MULTILINE)
_NAMED = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
_ELSEWHERE = re.compile(r"[a-z]+:")


def files(*patterns: str) -> tuple[Path, ...]:
    """Return files of the project, as git knows them or would."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(words, cwd=TREE, capture_output=True, text=True, check=True)
    found = [TREE / name for name in sorted(set(listed.stdout.split("\0"))) if name]
    return tuple(file for file in found if file.is_file())


@cache
def pages() -> tuple[Path, ...]:
    """Return all pages."""
    return files("*.md")


def prose(text: str) -> str:
    """Return a page without its blocks of code, in which there are neither links nor headings."""
    return _CODE_BLOCK.sub("", _FENCE.sub("", text))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return what can stand behind # in a link to a page, as GitHub makes it of headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.finditer(prose(page.read_text())):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading["text"])
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return frozenset(found)


@cache
def links(page: Path) -> tuple[tuple[Path, str], ...]:
    """Return the file or folder, and the anchor, of each link of a page to this tree."""
    targets = (
        match["target"].partition("#")
        for match in _LINK.finditer(_CODE.sub("", prose(page.read_text())))
        if not _ELSEWHERE.match(match["target"])
    )
    return tuple(
        ((page.parent / name).resolve() if name else page, anchor) for name, _, anchor in targets
    )


def reached(begin: set[Path]) -> set[Path]:
    """Return some pages, and those that a link on one of them leads to."""
    return begin | {target for page in begin for target, _ in links(page) if target.suffix == ".md"}


def screen_lines(page: Path) -> int:
    """Return how many lines of a screen a page takes, whose long lines go on in the next."""
    return sum(max(1, -(-len(line) // WIDTH)) for line in page.read_text().splitlines())


# Pages for readers; a table of all columns is looked into, not read.
READ = tuple(page for page in pages() if page.name != "columns.md" or page.parent.name != FORMATS)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(TREE)))
def test_each_link_leads_somewhere(page: Path) -> None:
    broken = [
        f"{target.relative_to(TREE)}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_each_page_that_a_file_names_is_there() -> None:
    lost = set()
    for file in files():
        text = file.read_bytes().decode(errors="replace")
        for match in _NAMED.finditer(text):
            if not (TREE / match[0]).is_file():
                lost.add(f"{file.relative_to(TREE)}: {match[0]}")
    assert lost == set()


def test_a_link_and_a_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# The `[page]`, once\n\n## Off\n\n## Off\n\n"
        "See [a](other.md#b), [c](#off-1) and `[d](e.md)`\n\n    [f](g.md)\n\n"
        "```sh\n# no heading\n[h](i.md)\n```\n[web](https://example.org/x)\n"
    )
    assert anchors(page) == {"the-page-once", "off", "off-1"}
    assert links(page) == ((tmp_path / "other.md", "b"), (page, "off-1"))


def test_no_page_is_longer_than_five_screens() -> None:
    long = {str(page.relative_to(TREE)): screen_lines(page) for page in READ}
    assert {name: lines for name, lines in long.items() if lines > LONGEST} == {}


def test_the_front_page_is_short() -> None:
    assert len((TREE / "README.md").read_text().splitlines()) <= 100


def test_each_page_is_two_clicks_from_the_front_page() -> None:
    one = reached({TREE / "README.md"})
    two = reached(one)
    assert [str(page.relative_to(TREE)) for page in READ if page not in two] == []
    assert TREE / "docs" / "README.md" in one


def test_each_page_begins_with_its_answer() -> None:
    """Behind the title comes a paragraph: no list, no table, no command."""
    for page in (TREE / "README.md", *(TREE / "docs").rglob("*.md")):
        text = re.sub(r"<!--.*?-->\n", "", page.read_text())
        title, _, rest = text.partition("\n\n")
        assert title.startswith("# "), page
        assert re.match(r"[*`\w]", rest), f"{page}: {rest[:40]!r}"
