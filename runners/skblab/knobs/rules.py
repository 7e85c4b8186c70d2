# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules that are a text of nft's own, in a file: read once, checked, told from others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

FILE = re.compile(r"(?=.{5,80}$)[\w.+/-]+\.nft")
MOST_BYTES = 1 << 20
# Names of tables that are ours.
_OURS = re.compile(r"\bskblab\b")
_INCLUDE = re.compile(r"(?:^|[;{])\s*include\b")


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
    for number, line in enumerate(text.split("\n"), 1):
        said = line.partition("#")[0]
        if "\0" in line:
            raise ValueError(f"{file}:{number}: has a NUL character, expected text")
        if _INCLUDE.search(said):
            raise ValueError(
                f"{file}:{number}: includes another file, and a run keeps this one alone: write "
                "its text here"
            )
        if _OURS.search(said):
            raise ValueError(f"{file}:{number}: skblab is the table of skblab's own: rename it")
    return text


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
