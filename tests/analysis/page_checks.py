# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a report as a browser and a screen reader would, for the tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

VOID_TAGS = {"meta", "link", "br", "rect", "path", "circle", "use", "hr", "img", "polygon", "wbr"}


@dataclass
class Page(HTMLParser):
    """The parts of a page that the checks look at."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: str = ""
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "svg" not in self.open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(path: Path) -> Page:
    """Parse a page; fails when an element is not closed."""
    page = Page()
    page.feed(path.read_text())
    page.close()
    assert page.open == []
    page.text = " ".join(page.text.split())
    return page


def check(path: Path) -> Page:
    """Assert all that must hold of every report: accessible, self-contained, links that lead."""
    page = read(path)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("title")) >= 1
    assert len(page.all("h1")) == 1
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    assert not page.all("script")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    for name, attributes in page.tags:
        for reference in ("aria-labelledby", "aria-describedby"):
            for target in attributes.get(reference, "").split():
                assert target in ids, f"{name} is labelled by {target}, which is not there"
        for reference in ("href", "src"):
            target = attributes.get(reference, "")
            if target.startswith("#"):
                assert target[1:] in ids
            elif target and not target.startswith("data:"):
                assert name == "a", f"<{name}> would be fetched from {target}"
                assert (path.parent / unquote(target)).is_file(), f"{target} is not there"
        assert "onclick" not in attributes
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert svg["aria-labelledby"]
    assert all("scope" in attributes for attributes in page.all("th"))
    text = path.read_text()
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", text)
    assert "prefers-color-scheme: dark" in text
    return page
