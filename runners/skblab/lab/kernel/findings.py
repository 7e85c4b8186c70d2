# SPDX-License-Identifier: GPL-2.0-or-later
"""What compilers and checkers complain of: read from their output, and compared before and after.

A finding is known by file and words, not by its line: a patch moves lines.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

Findings = Counter[str]

# gcc, sparse and kernel-doc all write FILE:LINE[:COLUMN]: KIND: WORDS. The source is bound at
# /skblab/src and the output at /skblab/build in every build.
_COMPLAINT = re.compile(
    r"(?:/skblab/src/|/skblab/build/|\.\./|\./)*(?P<file>[^\s:]+):(?P<place>\d+(?::\d+)?): "
    r"(?P<kind>warning|error|fatal error): (?P<words>.+)$"
)
# Modpost and objtool name no line.
_OTHER = re.compile(r"(?:WARNING: |ERROR: )(?P<tool>modpost): (?P<words>.+)$")
_OBJTOOL = re.compile(r"(?P<file>[^\s:]+\.o): (?P<kind>warning|error): objtool: (?P<words>.+)$")
# The compiler numbers its clones; neither that nor an offset is a change.
_NUMBERED = re.compile(r"\.(isra|constprop|part|cold)\.\d+|\+0x[0-9a-f]+")

_CHECKPATCH = re.compile(r"[^:]*:(?P<line>\d+): (?P<kind>ERROR|WARNING|CHECK):(?P<words>.+)$")
# A backport names its commit so.
_UPSTREAM = re.compile(r"\[ Upstream commit [0-9a-f]{40} \]")


def read(output: str) -> Findings:
    """Return each complaint in a tool's output with how many places it was made for.

    A header's complaint is printed for each object that includes it, and counts once.
    """
    places = set()
    for line in output.splitlines():
        text = line.strip()
        if found := _COMPLAINT.match(text):
            place = f"{found['file']}:{found['place']}"
            places.add((place, f"{found['file']}: {found['kind']}: {found['words'].strip()}"))
        elif found := _OBJTOOL.match(text) or _OTHER.match(text):
            places.add(("", _NUMBERED.sub("", text)))
    return Counter(what for _, what in places)


def added(before: Findings, after: Findings) -> list[str]:
    """Return what `after` has more of than `before`."""
    return sorted((after - before).elements())


@dataclass(frozen=True)
class Checkpatch:
    """What checkpatch.pl says of one patch, line by line."""

    serious: tuple[str, ...]
    checks: tuple[str, ...]


def checkpatch(output: str, patch: str, maintainers: str) -> Checkpatch:
    """Read the output of `checkpatch.pl --terse --show-types` for a patch, given as its text.

    Two of its complaints are only noted: of the line that names an upstream commit as
    Documentation/process/stable-kernel-rules.rst asks for, and of added files if `maintainers`, the
    text of MAINTAINERS, has all of them.
    """
    lines = dict(enumerate(patch.splitlines(), 1))
    serious: list[str] = []
    checks: list[str] = []
    for line in output.splitlines():
        if found := _CHECKPATCH.match(line):
            text = f"line {found['line']}: {found['kind']}:{found['words']}"
            about = lines.get(int(found["line"]), "")
            noted = (
                found["kind"] == "CHECK"
                or (found["words"].startswith("GIT_COMMIT_ID:") and _UPSTREAM.fullmatch(about))
                or (found["words"].startswith("FILE_PATH_CHANGES:") and _kept(patch, maintainers))
            )
            (checks if noted else serious).append(text)
    return Checkpatch(tuple(serious), tuple(checks))


def _kept(patch: str, maintainers: str) -> bool:
    """Whether every file that a patch adds, and no other, is below a folder of MAINTAINERS."""
    if re.search(r"^(?:deleted file|rename from) ", patch, re.MULTILINE):
        return False
    folders = re.findall(r"^F:\t(\S+/)$", maintainers, re.MULTILINE)
    added = re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", patch, re.MULTILINE)
    return bool(added) and all(name.startswith(tuple(folders)) for name in added)


def undefined(nm: str) -> Findings:
    """Return the symbols that `nm -u` names."""
    words = (line.split() for line in nm.splitlines())
    return Counter(f"undefined symbol: {word[-1]}" for word in words if word)
