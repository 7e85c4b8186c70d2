# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions per packet that tests are held to: tests/guest/exact_figures.toml, by kernel.

They repeat to 0.1 %, so a test holds them to 1 %. Another kernel, compiler, emulator or emulated
processor than the figures are of has figures of its own: it is held to 10 % of the nearest one's,
and a warning in pytest's summary says so. SKBLAB_FIGURES=write stores what is measured, and
compares nothing.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skblab.lab.guest.spec import EXACT_PROCESSOR
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.errors import SkblabWarning

FILE = Path(__file__).parent / "guest" / "exact_figures.toml"
NEAR, FAR = 0.01, 0.1
HEAD = """\
# SPDX-License-Identifier: GPL-2.0-or-later
# Instructions per packet, by kernel, compiler, emulator and processor; tests/exact_figures.py says
# what holds. The part of a name before ": " is the test that measures it. To store those of
# another kernel, or of a change that is meant to cost something:
#   SKBLAB_FIGURES=write .venv/bin/python -m pytest tests/guest/TEST.py
"""


@dataclass(frozen=True)
class Built:
    """What figures are of."""

    release: str
    flavour: str
    patched: bool
    compiler: str
    emulator: str
    processor: str

    @classmethod
    def of(cls, kernel: Kernel, lab: LabRoot) -> Built:
        record = kernel.record
        emulator = lab.versions["qemu-system-x86"]
        return cls(
            record.release,
            record.flavour,
            record.patched,
            record.toolchain["gcc-14"],
            # 1:10.0.13+ds-0+deb13u1: how Debian packs it is nothing to the guest.
            emulator.partition(":")[2].partition("+")[0],
            EXACT_PROCESSOR,
        )

    def __str__(self) -> str:
        return f"{self.release} (gcc {self.compiler}, QEMU {self.emulator}, {self.processor})"

    def distance(self, other: Built) -> tuple[object, ...]:
        """Return what is smaller, the nearer another one is."""
        ours, theirs = (_numbers(side.release) for side in (self, other))
        apart = [abs(number - two) for number, two in zip(ours, theirs, strict=False)]
        facts = ((one.processor, one.compiler, one.emulator) for one in (self, other))
        return apart, *(mine != its for mine, its in zip(*facts, strict=True))


@dataclass
class Stored:
    built: Built
    figures: dict[str, float] = field(default_factory=dict)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def read(file: Path) -> list[Stored]:
    document = tomllib.loads(file.read_text()) if file.exists() else {}
    return [
        Stored(
            Built(**{name: value for name, value in table.items() if name != "figures"}), figures
        )
        for table in document.get("kernel", ())
        if (figures := table["figures"])
    ]


def write(file: Path, stored: list[Stored]) -> None:
    text = HEAD
    for entry in stored:
        facts = vars(entry.built).items()
        text += "\n[[kernel]]\n" + "".join(f"{name} = {json.dumps(fact)}\n" for name, fact in facts)
        text += "[kernel.figures]\n"
        text += "".join(
            f"{json.dumps(name)} = {entry.figures[name]}\n" for name in sorted(entry.figures)
        )
    file.write_text(text)


def hold(
    test: str, figures: Mapping[str, float], kernel: Kernel, lab: LabRoot, file: Path = FILE
) -> None:
    """Fail if one of these is not what is stored of this kernel, or far from the nearest one's."""
    hold_to(test, figures, Built.of(kernel, lab), file)


def hold_to(test: str, figures: Mapping[str, float], built: Built, file: Path) -> None:
    measured = {f"{test}: {name}": value for name, value in figures.items()}
    stored = read(file)
    if os.environ.get("SKBLAB_FIGURES") == "write":
        mine = next((entry for entry in stored if entry.built == built), None)
        if mine is None:
            stored.append(mine := Stored(built))
        mine.figures |= {name: round(value, 1) for name, value in measured.items()}
        write(file, stored)
        pytest.skip(f"stored in {file}: look at it, and run the test again")
    complaints = []
    for name, value in measured.items():
        like = [
            entry
            for entry in stored
            if name in entry.figures
            and (entry.built.flavour, entry.built.patched) == (built.flavour, built.patched)
        ]
        if not like:
            complaints.append(f"{name} is {value:.1f}, and nothing is stored of such a kernel")
            continue
        nearest = min(like, key=lambda one: built.distance(one.built))
        held, own = nearest.figures[name], nearest.built == built
        said = f"{name} is {value:.1f}, {value / held - 1:+.2%} of {held} of {nearest.built}"
        if abs(value - held) > (NEAR if own else FAR) * held:
            complaints.append(said)
        elif not own:
            warnings.warn(
                f"this kernel, {built}, is another one than figures are stored of, and is held to "
                f"{FAR:.0%} only: {said}; to store its own: {_command(test)}",
                SkblabWarning,
                stacklevel=3,
            )
    if complaints:
        pytest.fail(
            f"{'; '.join(complaints)}. This kernel is {built}. If that is as it should be: "
            f"{_command(test)}, and commit {file.name}"
        )


def _command(test: str) -> str:
    return f"SKBLAB_FIGURES=write .venv/bin/python -m pytest tests/guest/{test}.py"
