# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes gnuplot's SVG part of a page: its colours become the page's, its ids its own.

The colours of the pictures are found by value and replaced by CSS variables, so that the page
decides how they look in light and in dark; text takes the page's font. Nothing else changes.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from markupsafe import Markup, escape

from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.pictures import COLOURS, INK, MUTED

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

# Value in the pictures to CSS variable of the page.
VARIABLES = {
    INK: "--ink",
    0x000000: "--ink",
    MUTED: "--muted",
    0xDFE3E8: "--rule",
    0x8A949E: "--faint",
    **{colour: f"--series-{number}" for number, colour in enumerate(COLOURS)},
}
PAPER = 0xFFFFFF

_PAINTS = ("fill", "stroke", "color")
_NAMES = {"black": 0x000000}
_RGB = re.compile(r"rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\)")


def inline(path: Path, prefix: str, title: str, description: str, css_class: str) -> Markup:
    """Return the SVG at `path` for use inside HTML, named for a screen reader.

    `prefix` makes its ids unique on the page. RecordError when the file is no SVG.
    """
    try:
        root = ET.fromstring(path.read_bytes())
    except (OSError, ET.ParseError) as error:
        raise RecordError(f"{path} is no readable SVG picture: {error}") from error
    width, height = root.attrib.pop("width"), root.attrib.pop("height")
    root.set("viewBox", root.get("viewBox", f"0 0 {width} {height}"))
    for element in list(root):
        # gnuplot's own title and description name gnuplot, not the picture.
        if element.tag in (f"{{{SVG}}}title", f"{{{SVG}}}desc"):
            root.remove(element)
    for holder in root.iter(f"{{{SVG}}}defs"):
        # Backgrounds for boxed text, which no picture has; their white would not follow.
        for unused in holder.findall(f"{{{SVG}}}filter"):
            holder.remove(unused)
    for element in root.iter():
        _recolour(element)
        _rename(element, prefix)
        element.attrib.pop("font-family", None)
    body = "".join(_serialise(child) for child in root)
    return Markup(
        f'<svg class="{escape(css_class)}" viewBox="{escape(root.get("viewBox"))}" role="img" '
        f'aria-labelledby="{escape(prefix)}-title {escape(prefix)}-desc">'
        f'<title id="{escape(prefix)}-title">{escape(title)}</title>'
        f'<desc id="{escape(prefix)}-desc">{escape(description)}</desc>{body}</svg>'
    )


def _recolour(element: ET.Element) -> None:
    styles = []
    for paint in _PAINTS:
        colour = _colour(element.get(paint, ""))
        if colour == PAPER and paint == "color":
            # Around a point, to part it from others; `none` is no colour, and would be ink.
            del element.attrib[paint]
            styles.append("color:var(--paper)")
        elif colour == PAPER:
            element.set(paint, "none")
        elif colour in VARIABLES:
            del element.attrib[paint]
            styles.append(f"{paint}:var({VARIABLES[colour]})")
    if styles:
        element.set("style", ";".join(styles))


def _colour(text: str) -> int | None:
    """Return 0xRRGGBB of a colour as gnuplot writes it; None for `none` or `currentColor`."""
    match = _RGB.fullmatch(text)
    if match:
        red, green, blue = (int(part) for part in match.groups())
        return red << 16 | green << 8 | blue
    if re.fullmatch(r"#[0-9A-Fa-f]{6}", text):
        return int(text[1:], 16)
    return _NAMES.get(text)


def _rename(element: ET.Element, prefix: str) -> None:
    own = element.get("id")
    if own is not None:
        element.set("id", f"{prefix}-{own}")
    target = element.attrib.pop(f"{{{XLINK}}}href", None)
    if target is not None:
        element.set("href", f"#{prefix}-{target.removeprefix('#')}")


def _serialise(element: ET.Element) -> str:
    """Return the element as HTML wants SVG: without namespace prefixes."""
    for node in element.iter():
        node.tag = node.tag.removeprefix(f"{{{SVG}}}")
    return ET.tostring(element, encoding="unicode")
