# SPDX-License-Identifier: GPL-2.0-or-later
"""Workloads: files of shell that lay out devices and send packets through them.

for workload in shipped():      # runners/workloads/*.sh
    print(workload.name, workload.title)

A file begins with lines `# KEY: VALUE`, those of HEADS, up to its first empty one. It has the
functions `prepare` and `load`; workload.sh says what they go on from.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal, get_args

from skblab.bench.measure import symbols
from skblab.lab import paths
from skblab.testbeds import base, netns
from skblab_analysis.base import textfile
from skblab_analysis.base.errors import UsageError, one_line
from skblab_analysis.formats import compare

SUFFIX = ".sh"
# Whose settings a workload takes.
Knobs = Literal["router", "receiver"]
# What stands at the begin of a file, and what each is.
HEADS = {
    "title": "what is sent where, in a few words",
    "unit": "what is counted, in the singular; packet if it is not said",
    "quick": "yes, for a workload that --quick has",
    "knobs": f"whose settings can be made: {' or '.join(get_args(Knobs))}",
}
FUNCTIONS = ("prepare", "load")
_HEAD = re.compile(r"^# ([a-z]+): *(.*?) *$")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
LONGEST = 80


@dataclass(frozen=True)
class Workload:
    """A workload's file, checked; `text` is the whole of it."""

    name: str
    title: str
    text: str
    unit: str = "packet"
    quick: bool = False
    knobs: Knobs | None = None
    # The scripts that it goes on from, as they were when its file was read.
    library: str = ""

    @property
    def digest(self) -> str:
        """Names the file alone."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def sha256(self) -> str:
        """Names what is run: the file, and the scripts that it goes on from."""
        return hashlib.sha256(self.script("").encode()).hexdigest()

    def record(self) -> compare.Workload:
        """Return it as documents have it."""
        return compare.Workload(
            name=self.name, title=self.title, unit=self.unit, sha256=self.sha256
        )

    def script(self, call: str) -> str:
        """Return a script that makes a call of its functions, or of workload.sh's."""
        return "\n".join((self.library, self.text, call))


def read(file: Path, named: str | None = None) -> Workload:
    """Return the workload in a file; UsageError, for what is named so, in one line."""
    said = str(file) if named is None else named
    text = textfile.read(file, "the workload")
    name = file.name.removesuffix(SUFFIX)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{said}: expected a name of at most 40 small letters, digits, dots, dashes and "
            f"underscores, and {SUFFIX}"
        )
    heads: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            break
        found = _HEAD.match(line)
        if found is None:
            continue
        key, value = found.groups()
        if key not in HEADS:
            raise UsageError(
                f"{said} line {number}: no such head {key!r}; known are: {', '.join(HEADS)}"
            )
        if key in heads:
            raise UsageError(f"{said} line {number}: {key} was said before")
        if not value or len(value) > LONGEST:
            raise UsageError(
                f"{said} line {number}: {key} is {HEADS[key]}; expected 1 to {LONGEST} characters"
            )
        heads[key] = value
    if "title" not in heads:
        raise UsageError(f"{said}: expected a line `# title: {HEADS['title']}`")
    knobs = heads.get("knobs")
    if knobs is not None and knobs not in get_args(Knobs):
        raise UsageError(f"{said}: knobs: {one_line(knobs)}: expected {HEADS['knobs']}")
    quick = heads.get("quick", "no")
    if quick not in ("yes", "no"):
        raise UsageError(f"{said}: quick: {one_line(quick)}: expected yes or no")
    for function in FUNCTIONS:
        if not re.search(rf"^{function}\(\)", text, re.MULTILINE):
            raise UsageError(
                f"{said}: it has no function {function}(); expected both of {FUNCTIONS}"
            )
    return Workload(
        name,
        heads["title"],
        text,
        heads.get("unit", "packet"),
        quick == "yes",
        knobs,  # type: ignore[arg-type]
        _library(),
    )


def _library() -> str:
    own = (resources.files(__package__) / "workload.sh").read_text()
    return "\n".join((base.functions(*netns.PARTS), symbols(), own))


def folder() -> Path:
    """Return where those are that come with skblab."""
    return paths.tree() / "runners" / "workloads"


def shipped() -> tuple[Workload, ...]:
    """Return those that come with skblab, by name."""
    return tuple(read(file) for file in sorted(folder().glob(f"*{SUFFIX}")))


def whole_word(word: str) -> str:
    """Return what a workload is chosen by, in every folder: a name, or a file's path."""
    is_file = "/" in word or word.endswith(SUFFIX)
    return str(Path(word).expanduser().resolve()) if is_file else word


def choose(wanted: Sequence[str], *, quick: bool = False) -> tuple[Workload, ...]:
    """Return those that are wanted by name or by file, in that order; all shipped ones if none is.

    `quick`: of all, the few that --quick has.
    """
    known = {workload.name: workload for workload in shipped()}
    if not wanted:
        return tuple(one for one in known.values() if one.quick or not quick)
    found: dict[str, Workload] = {}
    for word in wanted:
        one = known.get(word)
        if one is None and ("/" in word or word.endswith(SUFFIX)):
            one = read(Path(word).expanduser(), f"--workload {word}")
        if one is None:
            near = difflib.get_close_matches(word, known, 1)
            mean = f"; did you mean {near[0]}?" if near else f"; known are: {', '.join(known)}"
            raise UsageError(f"--workload {word}: no such workload{mean}")
        if one.name in found:
            raise UsageError(f"--workload {word}: {one.name} is named twice")
        found[one.name] = one
    return tuple(found.values())
