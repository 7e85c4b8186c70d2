# SPDX-License-Identifier: GPL-2.0-or-later
"""Who is at fault where a step of a build fails: the source, or the machine that it runs on.

A search for a commit leaves out those that do not build. That a machine had no memory is nothing
that a commit did, and ends the search.
"""

from __future__ import annotations

import re
from pathlib import Path

from skblab.lab.labroot.root import FULL_DISK
from skblab_analysis.base.errors import SkblabError, one_line

# "  CC      net/core/dev.o": a step and its file.
STEP = re.compile(r"  ([A-Z][A-Z0-9_]*)(?: \[M\])? +(\S+)")
_ERROR = re.compile(
    r"(?:^|[: ])(?:fatal )?error: |undefined reference to|multiple definition of|^error\b"
    "|No rule to make target|FAILED unresolved symbol"
    # Kconfig's own words, but for its warnings.
    r"|\bKconfig[\w.-]*:\d+: ?(?!warning\b)",
    re.I,
)
# A rule that failed or a Makefile that cannot be read, where nothing else says why.
_STOPPED = re.compile(r"\*\*\* .*(?:\bError \d+|\bStop\.)")
# What make, a shell or the compiler says of a process that a signal ended.
_KILLED = re.compile(
    r"\bKilled\b|\bTerminated\b|Segmentation fault|internal compiler error|Error 1(?:2[89]|3\d)\b"
    # And of a machine that has too little of something.
    "|Resource temporarily unavailable|Cannot allocate memory|Input/output error"
)


class SourceError(SkblabError):
    """The source is refused, its configuration or its code; what was compiled before is whole."""


def first_error(output: str) -> str | None:
    """Return the first line of a build's output that says what is wrong, if any does."""
    lines = (line for line in output.splitlines() if not STEP.match(line))
    found = next((line for line in lines if _ERROR.search(line)), None)
    return one_line(found.replace("/skblab/src/", "")) if found else None


def explained(what: str, error: SkblabError, log: Path) -> SkblabError:
    """Return what to raise for a step that failed: SourceError where it is the source's fault."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    if FULL_DISK.search(text):
        return error
    telling = first_error(text)
    said = f"{what} failed: {telling}; whole output: {log}" if telling else str(error)
    return (SourceError if of_source(text) else SkblabError)(said)


def of_source(output: str) -> bool:
    """Whether a step that failed and printed `output` did so because of the source."""
    if _KILLED.search(output):
        return False
    return first_error(output) is not None or _STOPPED.search(output) is not None
