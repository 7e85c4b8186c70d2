# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages: their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from skblab.lab import paths

TREE = paths.tree()
_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE)
_CODE_BLOCK = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(\s*(?P<target>[^)\s]+)\s*\)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:")


@cache
def pages() -> tuple[Path, ...]:
    """Return all pages of the project, as git knows them or would."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(words, cwd=TREE, capture_output=True, text=True, check=True)
    found = [TREE / name for name in sorted(set(listed.stdout.split()))]
    return tuple(page for page in found if page.is_file())


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


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file or folder, and the anchor, of each link of a page to this tree."""
    for match in _LINK.finditer(_CODE.sub("", prose(page.read_text()))):
        if not _ELSEWHERE.match(match["target"]):
            name, _, anchor = match["target"].partition("#")
            yield ((page.parent / name).resolve() if name else page), anchor


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(TREE)))
def test_each_link_leads_somewhere(page: Path) -> None:
    broken = [
        f"{target.relative_to(TREE)}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_a_link_and_a_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# The `[page]`, once\n\n## Off\n\n## Off\n\n"
        "See [a](other.md#b), [c](#off-1) and `[d](e.md)`\n\n    [f](g.md)\n\n"
        "```sh\n# no heading\n[h](i.md)\n```\n[web](https://example.org/x)\n"
    )
    assert anchors(page) == {"the-page-once", "off", "off-1"}
    assert list(links(page)) == [(tmp_path / "other.md", "b"), (page, "off-1")]
