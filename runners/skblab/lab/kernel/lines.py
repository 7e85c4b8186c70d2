# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of kernels that the lab runs: Debian's packages of each, and what of ours is for it.

A line is a stable kernel and all that follows on it, such as 6.12. Everything that differs between
lines is in `LINES`, and nothing else may ask for a line by its number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import paths
from skblab_analysis.base.errors import UsageError


@dataclass(frozen=True)
class Line:
    """A line by its `name`.

    `suite` has Debian's packages of it; None: the lab root has them. `parts` are the series below
    its folder of patches in the order in which they are applied; none: that folder is one series.
    `options_by` is the part that brings the options of `kconfig/skblab.config`. A fragment in
    `differing` is followed by one for this line: `base` by `base-7.3`.
    """

    name: str
    suite: str | None = None
    parts: tuple[str, ...] = ()
    options_by: str | None = None
    differing: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return its name."""
        return self.name

    @property
    def source_package(self) -> str:
        """Debian's package of its source."""
        return f"linux-source-{self.name}"

    @property
    def config_package(self) -> str:
        """Debian's package of its configurations."""
        return f"linux-config-{self.name}"

    @property
    def tarball(self) -> str:
        """The source in its package."""
        return f"usr/src/{self.source_package}.tar.xz"

    @property
    def patches(self) -> Path:
        """The folder of our patches for it."""
        return paths.tree() / "patches" / f"v{self.name}"

    @property
    def alternatives(self) -> list[Path]:
        """Patches of the user's own, by name: each makes a kernel where it follows the series."""
        return sorted((self.patches / "alternatives").glob("*.patch"))

    @property
    def present(self) -> tuple[str, ...]:
        """Those of `parts` that there are."""
        return tuple(part for part in self.parts if (self.patches / part / "series").is_file())

    @property
    def patched(self) -> bool:
        """Whether there are patches for it."""
        return bool(self.present) if self.parts else self.patches.is_dir()

    @property
    def has_options(self) -> bool:
        """Whether its patches bring the options of `kconfig/skblab.config`."""
        return self.options_by is None or self.options_by in self.present

    def fragments(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return these fragments of `kconfig/`, each with what differs on this line after it."""
        found = []
        for name in names:
            found += [name, f"{name}-{self.name}"] if name in self.differing else [name]
        return tuple(found)

    @property
    def words(self) -> tuple[str, ...]:
        """What a command that is to have it says; nothing for the default."""
        return () if self == DEFAULT else (f"--kernel {self}",)

    def suits(self, version: str) -> bool:
        """Whether a version is of this line and whole: then it has all that the fragments name.

        A release candidate may lack some of it.
        """
        return of_version(version) == self.name and "-rc" not in version

    def require_patches(self, what: str) -> None:
        """Raise UsageError if there are none: `what` needs them, and can be had without a line."""
        if not self.patched:
            raise UsageError(
                f"--kernel {self}: {what} our patches, and there are none for Linux {self} yet; "
                f"leave it out to have Linux {DEFAULT}"
            )


# Our series, in the order in which they are applied.
PARTS = ("pktgen", "napi", "net_path")
# What the name of a kernel with them ends with.
PATCHED = "+skblab"
DEFAULT = Line("6.12", parts=PARTS, options_by="net_path")
LINES = (
    DEFAULT,
    Line(
        "7.3",
        suite="trixie-backports",
        parts=PARTS,
        options_by="net_path",
        differing=("base", "rt", "kmsan"),
    ),
)
NAMES = tuple(line.name for line in LINES)


def line(name: str) -> Line:
    """Return the line of that name; UsageError with the known ones when it is none.

    As the name of a kernel with our series it is the same line.
    """
    for known in LINES:
        if name in (known.name, f"{known}{PATCHED}"):
            return known
    raise UsageError(f"--kernel {name}: no such line; known are: {', '.join(NAMES)}")


def of_version(version: str) -> str:
    """Return the name of the line that a version belongs to, whether the lab runs it or not."""
    return ".".join(version.split(".")[:2])


def fitting(version: str) -> Line:
    """Return the line whose configuration suits a version best: its own, or the one before it.

    A version before all of them is configured as the first.
    """
    wanted = _numbers(of_version(version))
    before = [line for line in LINES if _numbers(line.name) <= wanted]
    return max(before, key=lambda line: _numbers(line.name), default=LINES[0])


def _numbers(name: str) -> tuple[int, ...]:
    """Return a line's name as numbers: 7.3 is 7 and 3, also in 7.3-rc1."""
    return tuple(int(number) for number in re.findall(r"\d+", name)[:2])


def known(name: str) -> Line | None:
    """Return the line of that name if the lab runs it."""
    return next((line for line in LINES if line.name == name), None)
