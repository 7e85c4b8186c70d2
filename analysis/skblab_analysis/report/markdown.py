# SPDX-License-Identifier: GPL-2.0-or-later
"""A page as Markdown, for a mail or a pull request: the same words and tables, pictures linked.

It is made of the page itself, so that neither says what the other does not. What only a screen
shows is left out: drawings are links to their PNG, and flame graphs and bars are not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

# What has no end tag in HTML.
VOID = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"),
        *("source", "track", "wbr"),
    )
)
# What is no part of the text.
LEFT_OUT = frozenset(("head", "style", "svg"))
INLINE = frozenset(("a", "b", "br", "code", "i", "small", "span", "time", "em", "strong", "wbr"))
HEADING = re.compile(r"h([1-6])")
# A letter that would be read as markup. An underscore within a word is none: rp_filter.
_SPECIAL = re.compile(r"[\\`*<]|(?<![^\W_])_|_(?![^\W_])|\](?=\()|(?<=!)\[")
_DRAWING = re.compile(r"(<svg\b[^>]*>(?:<title\b[^>]*>[^<]*</title>)?).*?</svg>", re.DOTALL)
_LINE_START = re.compile(r"^(#{1,6} |[-+] |\d+[.)] |> )", re.MULTILINE)


@dataclass
class Node:
    """An element: its attributes, and texts and elements in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def left_out(self) -> bool:
        """Whether it is nothing for a reader of text."""
        classes = self.attributes.get("class", "").split()
        hidden = self.attributes.get("aria-hidden") == "true"
        return self.tag in LEFT_OUT or hidden or bool({"files", "flame"} & set(classes))

    def nodes(self) -> Iterator[Node]:
        """Yield the elements in it."""
        return (child for child in self.children if isinstance(child, Node))

    def all(self, tag: str) -> Iterator[Node]:
        """Yield each element of a kind in it, however deep."""
        for child in self.nodes():
            if child.tag == tag:
                yield child
            yield from child.all(tag)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        # All that was opened in it is closed as well; what was never opened closes nothing.
        for place in range(len(self.open) - 1, 0, -1):
            if self.open[place].tag == tag:
                del self.open[place:]
                return

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def of_page(page: str) -> str:
    """Return a page of ours as Markdown."""
    reader = _Reader()
    # Most of a page are its drawings, of which no more is wanted than what they are called.
    reader.feed(_DRAWING.sub(r"\1</svg>", page))
    reader.close()
    return "\n\n".join(_blocks(reader.root)) + "\n"


def _blocks(node: Node) -> Iterator[str]:
    """Yield the blocks of an element; what stands beside each other in a line is one."""
    line: list[Node | str] = []
    for child in [*node.children, None]:
        if isinstance(child, str) or (isinstance(child, Node) and child.tag in INLINE):
            line.append(child)
            continue
        if said := _inline(line).strip():
            yield _LINE_START.sub(r"\\\1", said)
        line = []
        if child is not None and not child.left_out:
            yield from _block(child)


def _block(node: Node) -> Iterator[str]:
    if heading := HEADING.fullmatch(node.tag):
        yield f"{'#' * int(heading[1])} {_inline(node.children)}"
    elif node.tag in ("ul", "ol"):
        yield _list(node)
    elif node.tag == "dl":
        yield _definitions(node)
    elif node.tag == "pre":
        text = _text(node).strip("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
        yield f"{fence}\n{text}\n{fence}"
    elif node.tag == "table":
        yield from _table(node)
    elif node.tag == "figure":
        yield from _figure(node)
    else:
        yield from _blocks(node)


def _list(node: Node) -> str:
    items = []
    for place, item in enumerate((child for child in node.nodes() if child.tag == "li"), 1):
        mark = f"{place}. " if node.tag == "ol" else "- "
        inner = ("\n" if node.tag == "ul" else "\n\n").join(_blocks(item))
        items.append(mark + inner.replace("\n", "\n" + " " * len(mark)))
    return re.sub(r"\n +\n", "\n\n", "\n".join(items))


def _definitions(node: Node) -> str:
    lines: list[str] = []
    for child in node.nodes():
        if child.tag == "dt":
            lines.append(f"- **{_inline(child.children)}**:")
        elif child.tag == "dd":
            first, *others = _inline(child.children).split("\n")
            lines[-1] += f" {first}"
            lines += [f"  - {other}" for other in others]
    return "\n".join(lines)


def _table(node: Node) -> Iterator[str]:
    for caption in node.all("caption"):
        yield f"**{_inline(caption.children)}**"
    heads = [row for head in node.all("thead") for row in head.all("tr")]
    bodies = [row for body in node.all("tbody") for row in body.all("tr")]
    rows = list(_rows(bodies))
    first = _cells(heads[0]) if heads else [""] * max(map(len, rows), default=1)
    words = "texts" in node.attributes.get("class", "")
    rules = ["---" if place == 0 or words else "---:" for place in range(len(first))]
    yield "\n".join(f"| {' | '.join(row)} |" for row in (first, rules, *rows))


def _rows(found: list[Node]) -> Iterator[list[str]]:
    """Yield the cells of rows; a cell over several rows is in each, so that each can be read."""
    over, left = "", 0
    for row in found:
        cells = _cells(row)
        spans = next((int(cell.attributes.get("rowspan", 1)) for cell in row.nodes()), 1)
        if left:
            cells, left = [over, *cells], left - 1
        elif spans > 1:
            over, left = cells[0], spans - 1
        yield cells


def _cells(row: Node) -> list[str]:
    cells = (cell for cell in row.nodes() if cell.tag in ("td", "th") and not cell.left_out)
    return [_cell(cell).replace("|", r"\|").replace("\n", " ") for cell in cells]


def _cell(cell: Node) -> str:
    """Return what a cell says; what is small in a figure's cell is the rest of the figure."""
    if cell.tag == "th":
        return _inline(cell.children)
    same: list[Node | str] = []
    for child in cell.children:
        if isinstance(child, Node) and child.tag == "small":
            same += [" ", *child.children]
        else:
            same.append(child)
    return _inline(same)


def _figure(node: Node) -> Iterator[str]:
    title = next((_escaped(_text(one).strip()) for one in node.all("title")), "picture")
    link = next(
        (one.attributes["href"] for one in node.all("a") if _text(one).strip() == "PNG"), None
    )
    if link is not None:
        yield f"![{title}]({link})"
    for caption in node.all("figcaption"):
        yield _inline(caption.children)


def _inline(children: list[Node | str]) -> str:
    """Return what stands in a line; a line break in it is one for the reader."""
    said = "".join(_word(child) for child in children)
    lines = (" ".join(re.split(r"[ \t\r\f\v]+", line)).strip() for line in said.split("\n"))
    return "\n".join(line for line in lines if line)


def _word(child: Node | str) -> str:
    if isinstance(child, str):
        # Not what keeps words together, such as the narrow space of a number.
        return _escaped(re.sub(r"[ \t\r\n\f\v]+", " ", child))
    if child.left_out:
        return ""
    if child.tag == "br":
        return "\n"
    if child.tag == "code":
        text = " ".join(_text(child).split())
        fence = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
        pad = " " if fence != "`" else ""
        return f"{fence}{pad}{text}{pad}{fence}" if text else ""
    inner = _inline(child.children)
    if not inner:
        return ""
    if child.tag in ("b", "strong"):
        return f"**{inner}**"
    if child.tag in ("i", "em"):
        return f"*{inner}*"
    if child.tag == "small":
        return f" ({inner})"
    href = child.attributes.get("href", "")
    if child.tag == "a" and href and not href.startswith("#"):
        return f"[{inner}]({href})"
    return inner


def _text(node: Node) -> str:
    return "".join(
        child if isinstance(child, str) else _text(child)
        for child in node.children
        if isinstance(child, str) or not child.left_out
    )


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\{match[0]}" if match[0] != "<" else "&lt;", text)
