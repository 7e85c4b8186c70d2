# SPDX-License-Identifier: GPL-2.0-or-later
"""What is compared, as a command line has it: kernels, settings, and stored runs.

6.12   debian:6.1   git:~/linux@HEAD      a kernel, named as everywhere
rp_filter=1                               a setting, on the kernel of --kernel
results/compare-20261128-120000           what a stored run measured of its first side
results/compare-20261128-120000@2         and of its second one
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skblab.bench import given
from skblab.bench.asked import check_flavour, request_of
from skblab.knobs.values import Knobs
from skblab.lab.kernel.names import Name, parse
from skblab.sweep.measure.exact import uncountable
from skblab_analysis.base.checked import read
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.compare import FILE, CompareDocument

# What a message about a word begins with.
OPTION = "compare"
_SETTING = re.compile(r"[a-z0-9_]+ *=")
_NUMBERED = re.compile(r"(.+)@([0-9]{1,3})")


@dataclass(frozen=True)
class Stored:
    """A side of a stored run: its folder, what that has, and the side's number there."""

    folder: Path
    document: CompareDocument
    side: int


@dataclass(frozen=True)
class Side:
    """A kernel and what is set on it, or a stored run; `word` is what it was named by."""

    word: str
    kernel: Name | None = None
    knobs: Knobs = field(default_factory=dict)
    stored: Stored | None = None


def parse_all(words: Sequence[str], kernel: str, common: Knobs, of: str) -> tuple[Side, ...]:
    """Return the sides that are named; UsageError for what is none, before anything is made.

    Settings are on `kernel`; `common` knobs are set on every side; `of`: a flavour.
    """
    check_flavour(of)
    sides = tuple(_side(word, kernel, common, of) for word in words)
    for side in sides:
        if why := next(uncountable(side.knobs), None):
            raise UsageError(f"{side.word}: {why}")
    if not any(side.kernel for side in sides) and len(sides) < 2:
        raise UsageError(f"{sides[0].word}: a stored run alone; name what to compare it with")
    return sides


def _side(word: str, kernel: str, common: Knobs, of: str) -> Side:
    if _SETTING.match(word):
        own = given.parse([word], OPTION)
        if twice := own.keys() & common.keys():
            raise UsageError(
                f"{word}: --set gives {min(twice)} to all sides; leave one of them out"
            )
        return Side(word, _kernel(kernel, "--kernel", of), common | own)
    if (stored := _stored(word)) is not None:
        return Side(word, stored=stored)
    return Side(word, _kernel(word, OPTION, of), common)


def _kernel(word: str, option: str, of: str) -> Name:
    name = parse(word, option)
    # What cannot be had is refused before anything is compiled.
    request_of(name, of)
    return name


def _stored(word: str) -> Stored | None:
    """Return the stored run that a word names; None if it is no folder."""
    folder, number = Path(word).expanduser(), 1
    if not folder.is_dir():
        numbered = _NUMBERED.fullmatch(word)
        if numbered is None or not Path(numbered[1]).expanduser().is_dir():
            return None
        folder, number = Path(numbered[1]).expanduser(), int(numbered[2])
    if not (folder / FILE).is_file():
        raise UsageError(
            f"{word}: {folder} has no {FILE}; expected the folder of a run of skblab compare, or "
            f"tree:{folder} for a kernel's source"
        )
    document = read(CompareDocument, folder / FILE, "the document of a comparison")
    if not 1 <= number <= len(document.sides):
        raise UsageError(f"{word}: that run has sides 1 to {len(document.sides)}")
    return Stored(folder, document, number - 1)
