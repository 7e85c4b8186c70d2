# SPDX-License-Identifier: GPL-2.0-or-later
"""Who is at fault where a step of a build fails: the source, or the machine that it runs on.

A search for a commit leaves out those that do not build. That a machine had no memory is nothing
that a commit did, and ends the search.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from skblab.lab.labroot.root import FULL_DISK
from skblab_analysis.base.errors import SkblabError, one_line

# "  CC      net/core/dev.o": a step and its file.
STEP = re.compile(r"  ([A-Z][A-Z0-9_]*)(?: \[M\])? +(\S+)")
_ERROR = re.compile(
    r"(?:^|[: ])(?:fatal )?error: |undefined reference to|multiple definition of|^error\b"
    "|No rule to make target|FAILED unresolved symbol"
    # Kconfig's own words, but for its warnings; the compiler has notes of kconfig.h.
    r"|(?-i:\bKconfig(?:\.[\w.-]+)?):\d+:(?! ?warning\b)"
    # A Makefile that cannot be read, or that says itself why it stops.
    r"|\*\*\* .*\bStop\.",
    re.I,
)
# What make, a shell or the compiler says of a process that a signal ended.
_KILLED = re.compile(
    r"\bKilled\b|\bTerminated\b|\bAborted\b|Segmentation fault|Bus error|internal compiler error"
    r"|Error 1(?:2[89]|[3-9]\d)\b|\bkilled by SIG|terminated (?:with|by) signal"
    # And of a machine that has too little of something.
    "|Resource temporarily unavailable|Cannot allocate memory|Input/output error|Cannot fork"
    "|(?i:out of memory|memory exhausted|not enough memory|MemoryError)"
    "|Read-only file system|Too many open files|Stale file handle"
)
# "  123 |   text": a line of the source, which the compiler shows under what it says of it.
_QUOTED = re.compile(r"\s*\d* \| ")


class SourceError(SkblabError):
    """The source is refused, its configuration or its code; what was compiled before is whole."""


def first_error(output: str) -> str | None:
    """Return the first line of a build's output that says what is wrong, if any does."""
    found = next((line for line in _said(output) if _ERROR.search(line)), None)
    return one_line(found.replace("/skblab/src/", "")) if found else None


def explained(what: str, error: SkblabError, log: Path) -> SkblabError:
    """Return what to raise for a step that failed: SourceError where it is the source's fault."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    if FULL_DISK.search(text):
        return error
    telling = first_error(text)
    said = f"{what} failed: {telling}; whole output: {log}" if telling else str(error)
    # Where nothing says why, nobody can tell.
    of_source = telling is not None and not _killed(f"{text}\n{error}")
    return (SourceError if of_source else SkblabError)(said)


@contextlib.contextmanager
def explaining(what: str, log: Path) -> Iterator[None]:
    """Have a step that fails say why, and who is at fault; `log` keeps what it printed."""
    try:
        yield
    except SkblabError as error:
        raise explained(what, error, log) from error


def _killed(output: str) -> bool:
    return any(_KILLED.search(line) for line in _said(output))


def _said(output: str) -> Iterator[str]:
    """Yield what is said in an output: no steps, and no lines of the source."""
    for line in output.splitlines():
        if not STEP.match(line) and not _QUOTED.match(line):
            yield line
