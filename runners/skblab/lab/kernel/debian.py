# SPDX-License-Identifier: GPL-2.0-or-later
"""Our configuration beside Debian's: every path-relevant option that differs, and why.

`kconfig/debian-differences.toml` states which options a packet's path may depend on, and
holds one reason for each group of differences. A module in Debian that is built in here is
no difference: that is a decision, written down in `kconfig/README.md`.
"""

from __future__ import annotations

import fnmatch
import lzma
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, Field, field_validator

from skblab.lab import paths
from skblab.lab.kernel import config, debian_packages, source
from skblab.lab.kernel.debian_packages import Unpacked
from skblab.lab.kernel.lines import DEFAULT, NAMES, Line
from skblab.lab.kernel.model import Flavour, Request
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import tomlfile
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import UsageError

# The configurations that Debian's package of a line ships, by the first name that is there. There
# is none of a debug kernel, and nothing is measured on ours.
_CONFIGS: dict[Flavour, tuple[str, ...]] = {
    "stock": ("config.amd64_none_amd64.xz",),
    # Until rt was merged, Debian patched it in.
    "rt": ("config.amd64_rt_amd64.xz", "config.amd64_none_rt-amd64.xz"),
}


class Reason(Closed):
    """One reason, for the options that match `options` (shell patterns, without CONFIG_)."""

    options: tuple[str, ...] = Field(min_length=1)
    reason: str = Field(min_length=10)
    # The value these options have here; a difference of another kind is not covered.
    ours: str
    flavours: tuple[Flavour, ...] = tuple(_CONFIGS)
    # The lines that differ so.
    kernels: tuple[str, ...] = NAMES

    @field_validator("kernels")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if other := [name for name in names if name not in NAMES]:
            raise ValueError(f"no kernel {other[0]}: expected {', '.join(NAMES)}")
        return names


class Reasons(Closed):
    """The whole file: `scope` names the path-relevant options, by shell patterns."""

    scope: tuple[str, ...] = Field(min_length=1)
    difference: tuple[Reason, ...]


class Difference(BaseModel):
    """One option that differs. `reason` is empty when none is written down."""

    option: str
    debian: str
    ours: str
    reason: str


class Comparison(BaseModel):
    """What came out: all differences in scope, and reasons that no difference needs any more."""

    flavour: Flavour
    compared: int
    built_in: int
    differences: tuple[Difference, ...]
    stale: tuple[str, ...]

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """The differences without a reason."""
        return tuple(row for row in self.differences if not row.reason)

    @property
    def clean(self) -> bool:
        """Whether every difference has its reason, and every reason its difference."""
        return not self.unexplained and not self.stale

    def summary(self) -> str:
        """Say the outcome in a few lines."""
        lines = [
            f"{self.flavour}: {self.compared} path-relevant options; "
            f"{self.built_in} modules of Debian are built in here; "
            f"{len(self.differences)} options differ, {len(self.unexplained)} without a reason"
        ]
        lines += [f"stale reason, no difference matches: {pattern}" for pattern in self.stale]
        return "\n".join(lines)


def compare(
    flavour: Flavour, labroot: LabRoot, reporter: Reporter, line: Line = DEFAULT
) -> Comparison:
    """Compare the unpatched kernel's configuration of `flavour` with Debian's."""
    theirs = debian(flavour, debian_packages.ensure(line, labroot, reporter))
    request = Request(flavour=flavour, patches=False, line=line)
    origin = source.find(None, labroot, line, reporter)
    with (
        source.tree(origin, None, labroot, reporter) as tree,
        tempfile.TemporaryDirectory(prefix="skblab-config-") as folder,
    ):
        output = Path(folder)
        log = paths.cache() / "logs" / f"config-diff-{line}-{flavour}.log"
        config.merge(request.fragments, tree, output, labroot, log)
        ours = config.parse((output / ".config").read_text())
    return contrast(flavour, theirs, ours, reasons(), line)


def require_compared(flavour: Flavour) -> None:
    """Raise UsageError if Debian has no such kernel to compare with."""
    if flavour not in _CONFIGS:
        raise UsageError(
            f"Debian has no {flavour} kernel to compare with; compared are: {', '.join(_CONFIGS)}"
        )


def debian(flavour: Flavour, packages: Unpacked) -> dict[str, str]:
    """Return Debian's configuration that `flavour` is compared with."""
    require_compared(flavour)
    files = [packages.configs / name for name in _CONFIGS[flavour]]
    there = next((file for file in files if file.is_file()), None)
    if there is None:
        raise UsageError(
            f"{packages.line.config_package} has no configuration of {flavour}: "
            f"expected {files[-1]}"
        )
    return config.parse(lzma.decompress(there.read_bytes()).decode())


def reasons(file: Path | None = None) -> Reasons:
    """Read the reasons; UsageError when the file is not as `Reasons` describes."""
    path = file or paths.tree() / "kconfig" / "debian-differences.toml"
    return tomlfile.read(Reasons, path, "the reasons")


def contrast(
    flavour: Flavour,
    theirs: Mapping[str, str],
    ours: Mapping[str, str],
    known: Reasons,
    line: Line = DEFAULT,
) -> Comparison:
    """Return every difference in scope with its reason, and the stale reasons."""
    options = sorted(name for name in theirs.keys() | ours.keys() if matches(name, known.scope))
    rows = [
        reason
        for reason in known.difference
        if flavour in reason.flavours and line.name in reason.kernels
    ]
    used: set[tuple[int, str]] = set()
    found: list[Difference] = []
    built_in = 0
    for option in options:
        values = (theirs.get(option, "n"), ours.get(option, "n"))
        if values == ("m", "y"):
            built_in += 1
        elif values[0] != values[1]:
            why = ""
            for index, row in enumerate(rows):
                hits = [pattern for pattern in row.options if fnmatch.fnmatchcase(option, pattern)]
                if hits and row.ours == values[1]:
                    why = why or row.reason
                    used |= {(index, hit) for hit in hits}
            found.append(Difference(option=option, debian=values[0], ours=values[1], reason=why))
    stale = [
        pattern
        for index, row in enumerate(rows)
        for pattern in row.options
        if (index, pattern) not in used
    ]
    return Comparison(
        flavour=flavour,
        compared=len(options),
        built_in=built_in,
        differences=tuple(found),
        stale=tuple(stale),
    )


def matches(option: str, patterns: Sequence[str]) -> bool:
    """Whether `option` matches one of the shell patterns."""
    return any(fnmatch.fnmatchcase(option, pattern) for pattern in patterns)
