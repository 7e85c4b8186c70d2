# SPDX-License-Identifier: GPL-2.0-or-later
"""Command lines of the pages: those of `skblab` and of `make`, as a reader would paste them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# The usage lines of the commands themselves, with [OPTIONS] in them.
MADE = "docs/reference/commands/"
_FENCED = re.compile(r"^(?:```|~~~)[^\n]*\n(.*?)^(?:```|~~~)", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^(?: {4,}|\t)[^\n]*\n)+", re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
_ASSIGNED = re.compile(r"[A-Z][A-Z_0-9]*=.*", re.DOTALL)
# What a shell puts another command's output for: `$(uname -r)`.
_SUBSTITUTED = re.compile(r"\$\([^()]*\)")
_PROGRAMS = {"./skblab": "skblab", "skblab": "skblab", "make": "make"}


@dataclass(frozen=True)
class CommandLine:
    """A command line of a page; `whole` if it stands in a block of code, to be pasted."""

    page: str
    program: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    whole: bool

    def __str__(self) -> str:
        """Return it as a shell takes it."""
        given = [f"{name}={shlex.quote(value)}" for name, value in self.variables]
        program = "./skblab" if self.program == "skblab" else self.program
        return " ".join([*given, program, shlex.join(self.words)]).strip()


def command_lines(page: Path, tree: Path) -> Iterator[CommandLine]:
    """Yield the command lines of a page, in its blocks of code and in its sentences."""
    name, text = str(page.relative_to(tree)), page.read_text()
    if name.startswith(MADE):
        return
    blocks = [match[1] for match in _FENCED.finditer(text)]
    rest = _FENCED.sub("", text)
    blocks += [match[0] for match in _INDENTED.finditer(rest)]
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            yield from _commands(name, line, whole=True)
    for match in _INLINE.finditer(_INDENTED.sub("", rest)):
        yield from _commands(name, " ".join(match[1].split()), whole=False)


def _commands(page: str, line: str, *, whole: bool) -> Iterator[CommandLine]:
    """Yield those of a line: there may be several, with `;`, `&&` or `|` between them."""
    lexer = shlex.shlex(_SUBSTITUTED.sub("x", line.strip()), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        # A quotation mark alone: a sentence, output, or another language.
        return
    parts: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set(";&|"):
            parts.append([])
        else:
            parts[-1].append(word)
    for part in parts:
        given = {}
        while part and _ASSIGNED.fullmatch(part[0]):
            variable, _, given[variable] = part.pop(0).partition("=")
        if not part or part[0] not in _PROGRAMS or (not whole and len(part) == 1):
            continue
        program, *rest = part
        if program == "make":
            given |= dict(word.split("=", 1) for word in rest if _ASSIGNED.fullmatch(word))
            rest = [word for word in rest if not _ASSIGNED.fullmatch(word)]
        yield CommandLine(page, _PROGRAMS[program], tuple(rest), tuple(given.items()), whole)


def recipes(makefile: str) -> Mapping[str, str]:
    """Return what each target of a Makefile runs."""
    found: dict[str, list[str]] = {}
    target = ""
    for line in makefile.replace("\\\n", " ").splitlines():
        if match := re.match(r"([a-z][a-z-]*):(?!=)", line):
            target = match[1]
            found.setdefault(target, [])
        elif line.startswith("\t") and target:
            found[target].append(line.strip().lstrip("@"))
    return {name: "\n".join(lines) for name, lines in found.items()}
