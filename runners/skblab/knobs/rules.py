# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules that are a text of nft's own, in a file: read once, checked, told from others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

FILE = re.compile(r"(?=.{5,80}$)[\w.+/-]+\.nft", re.ASCII)
MOST_BYTES = 1 << 20
# As nft's scanner parts a text: a string has no escapes and may be of several lines, a comment ends
# with its line.
_ASIDE = re.compile(r'(?P<string>"[^"]*")|(?P<comment>#[^\n]*)')
_CONTINUED = r"(?:\\\r?\n)*"
# A table of this name is ours.
_OURS = re.compile(rf"\b{_CONTINUED.join('skblab')}\b", re.ASCII)
# A word of nft's own, which names nothing else unless it is a part of a longer one.
_INCLUDE = re.compile(rf"(?<![\w./-]){_CONTINUED.join('include')}(?![\w./-])", re.ASCII)


def is_file(value: object) -> bool:
    """Whether a value of the knob is the name of a file."""
    return isinstance(value, str) and FILE.fullmatch(value) is not None


def read(file: Path) -> str:
    """Return the text of a file; ValueError with its line says what it cannot have."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read the rules in {file}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"{file}: has {len(content)} bytes, expected at most {MOST_BYTES}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        bad = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{file}:{bad}: {error.reason}, expected UTF-8") from error
    if not text.strip():
        raise ValueError(f"{file}: is empty, expected rules as nft -f takes them")
    for found, said in (
        (re.search("\0", text), "has a NUL character, expected text"),
        (
            _INCLUDE.search(_without(text, "comment", "string")),
            "includes another file, and a run keeps this one alone: write its text here",
        ),
        (
            _OURS.search(_without(text, "comment")),
            "skblab is the table of skblab's own: rename it",
        ),
    ):
        if found:
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(f"{file}:{line}: {said}")
    return text


def _without(text: str, *kinds: str) -> str:
    """Return a text with spaces instead of some things; all else stays at its place."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0]) if found.lastgroup in kinds else found[0]

    return _ASIDE.sub(blank, text)


def key(text: str) -> str:
    """Return what tells a text from others."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Texts:
    """The texts of files by their names: those that an experiment has, or of the files as such."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._known = known

    def __getitem__(self, value: str) -> str:
        """Return the text of a file; ValueError if it cannot be had."""
        if self._known is None:
            return read(Path(value))
        try:
            return self._known[value]
        except KeyError:
            raise ValueError(f"{value}: no such rules are kept with this experiment") from None
