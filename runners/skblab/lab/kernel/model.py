# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of the kernel builder, and what it hands back."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from pydantic import ConfigDict, ValidationError

from skblab.lab.kernel.lines import DEFAULT, Line
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

Flavour = Literal["stock", "rt", "debug", "kcsan", "kmsan"]
FLAVOURS: tuple[Flavour, ...] = get_args(Flavour)
# Those that look for faults: slow, and nothing is measured on them.
CHECKING: frozenset[Flavour] = frozenset({"debug", "kcsan", "kmsan"})

# Of a release, 64 letters are all that the kernel keeps.
LONGEST_WORD = 24

RECORD = "kernel.json"
# Beside it, what an Own says.
OWN_FRAGMENT = "own.config"
# Of a user's folder: its commit, with -dirty behind it if it was changed since; and those changes.
COMMIT, CHANGES = "commit", "changes.diff"
SCHEMA: Literal["skblab.kernel/1"] = "skblab.kernel/1"


def flavour(name: str) -> Flavour:
    """Return `name` as a flavour; UsageError with the known ones when it is none."""
    for known in FLAVOURS:
        if name == known:
            return known
    raise UsageError(f"unknown kernel flavour {name!r}; known are: {', '.join(FLAVOURS)}")


@dataclass(frozen=True)
class Packaged:
    """A kernel that somebody else built: Debian's package of it, or that in `file`.

    `wanted` is its release, such as 6.12.118+deb13-amd64, or the begin of its version: the newest.
    """

    wanted: str = ""
    file: Path | None = None

    def __str__(self) -> str:
        """Return its name, as names.parse() understands it."""
        return f"debian:{self.wanted}" if self.file is None else f"deb:{self.file}"


@dataclass(frozen=True)
class Own:
    """A fragment of the user's own, merged after ours: the file, and what it says."""

    file: Path
    text: str

    @property
    def word(self) -> str:
        """Its name as a kernel's release has it: letters, digits, points and dashes."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.file.stem).strip("-.")[:LONGEST_WORD] or "own"


@dataclass(frozen=True)
class Request:
    """The kernel somebody wants. `source` None means Debian's of that line.

    With a `revision`, `source` is a git repository. What is `packaged` is not built at all.
    `trace` False: with the series, but its option off in the configuration.
    `alternative`: one more patch after the series, another way of doing a thing. `own`: options of
    the user's, merged after `fragments`.
    `jobs` compilers run at once; it has no influence on the result.
    """

    flavour: Flavour = "stock"
    source: Path | None = None
    patches: bool = True
    line: Line = DEFAULT
    trace: bool = True
    alternative: Path | None = None
    revision: str | None = None
    packaged: Packaged | None = None
    own: Own | None = None
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        if self.flavour not in FLAVOURS:
            flavour(self.flavour)
        if self.source is not None and not self.source.expanduser().is_dir():
            raise UsageError(f"{self.source}: no such folder; expected a Linux source tree")
        if self.packaged is not None:
            self._require_as_it_is()
        elif self.patches and self.source is None and not self.line.patched:
            raise UsageError(
                f"there are no patches for Linux {self.line} yet (patches/v{self.line}); "
                f"leave +skblab out to have the kernel as Debian has it: --kernel {self.line}"
            )
        if self.alternative is not None and not (self.patches and self.alternative.is_file()):
            raise UsageError(f"{self.alternative}: expected a patch to apply after our series")
        if self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs}: at least 1 is needed")

    def _require_as_it_is(self) -> None:
        if self.own is not None:
            raise UsageError(
                f"{self.packaged}+config:{self.own.file}: a package is a finished kernel, and has "
                "its configuration; name a source: 6.12, 7.3, tree:DIR or git:DIR@REVISION"
            )
        if self.patches:
            raise UsageError(
                f"{self.packaged}+skblab: a package is a finished kernel, and no patch can be "
                "applied to it; name a source: 6.12, 7.3, tree:DIR or git:DIR@REVISION"
            )
        if self.flavour != "stock":
            raise UsageError(
                f"{self.packaged}: a package is a finished kernel, and has no flavour "
                f"{self.flavour}; leave --flavour out, or name another package, such as "
                "debian:6.12.118+deb13-rt-amd64"
            )

    @property
    def local_version(self) -> str:
        """What `uname -r` adds: -skblab, -skblab-rt, -skblab-off, -plain, -plain-MINE-debug …"""
        base = ("-skblab" if self.trace else "-skblab-off") if self.patches else "-plain"
        if self.alternative is not None:
            base += f"-{self.alternative.stem}"
        if self.own is not None:
            base += f"-{self.own.word}"
        return base if self.flavour == "stock" else f"{base}-{self.flavour}"

    @property
    def compiler(self) -> str:
        """The C compiler that builds it: only clang has KMSAN."""
        return "clang" if self.flavour == "kmsan" else "gcc"

    @property
    def fragments(self) -> tuple[str, ...]:
        """The names of the `kconfig/` fragments, in the order they are merged."""
        names = ["base"]
        if self.flavour in CHECKING:
            names.append("checking")
        if self.flavour != "stock":
            names.append(self.flavour)
        if self.patches and self.trace and self.line.has_options:
            names.append("skblab")
        return self.line.fragments(names)


class PatchRecord(Closed):
    """One applied patch: its file name and the sha256 of its text."""

    name: str
    sha256: str


class Record(Closed):
    """`kernel.json`: how a cached kernel came about. `seconds` is wall time of its build."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: Literal["skblab.kernel/1"] = SCHEMA
    key: str
    release: str
    flavour: Flavour
    patched: bool
    series: str | None
    patches: tuple[PatchRecord, ...]
    source: str
    source_version: str
    source_digest: str
    # Of a git repository: the commit, in full.
    revision: str | None = None
    # Of a kernel that is packaged: the SHA-256 of each package's file.
    packages: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    # What the fragments ask for and this kernel does not have.
    lacking: tuple[str, ...] = ()
    toolchain: dict[str, str]
    fragments: tuple[str, ...]
    config_sha256: str
    image_sha256: str
    made: str
    seconds: float
    output_lines: int


@dataclass(frozen=True)
class Kernel:
    """A finished kernel: `path` is its folder in the cache, `key` names its content."""

    path: Path
    key: str

    @property
    def image(self) -> Path:
        """The bootable bzImage."""
        return self.path / "bzImage"

    @property
    def vmlinux(self) -> Path:
        """The ELF image with DWARF and BTF; a packaged kernel has none."""
        return self.path / "vmlinux"

    @property
    def symbols(self) -> Path | None:
        """The list of its symbols, System.map, if it has one."""
        file = self.path / "System.map"
        return file if file.is_file() else None

    @property
    def initrd(self) -> Path | None:
        """What has to be loaded before its guest finds a root; None if nothing has to be."""
        file = self.path / "initrd"
        return file if file.is_file() else None

    @property
    def config(self) -> Path:
        """The complete configuration, as in `.config`."""
        return self.path / "config"

    @property
    def build_dir(self) -> Path:
        """What modules are compiled against; a packaged kernel has none.

        Makefiles, headers, scripts, Module.symvers.
        """
        return self.path / "build"

    @property
    def commit(self) -> str | None:
        """The commit that it is of, if it is of one; that of a changed folder ends in -dirty."""
        file = self.path / COMMIT
        return file.read_text() if file.is_file() else self.record.revision

    @property
    def changes(self) -> Path | None:
        """What the user's folder that it is of had changed since its commit, if it had."""
        file = self.path / CHANGES
        return file if file.is_file() else None

    def require_built(self, what: str) -> None:
        """Raise UsageError for a kernel that came as a package: `what` needs more of it."""
        if self.record.packages:
            raise UsageError(
                f"{self.record.source}: {what} needs a kernel that is built from source, with its "
                "symbols and headers; name one: 6.12, 7.3, tree:DIR or git:DIR@REVISION"
            )

    @cached_property
    def record(self) -> Record:
        """How this kernel came about; SkblabError when its record cannot be read."""
        file = self.path / RECORD
        try:
            return Record.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            raise SkblabError(
                f"{file} is missing or damaged ({one_line(str(error), 120)}); "
                f"remove {self.path} and build that kernel again"
            ) from error

    @property
    def own(self) -> Own | None:
        """The options of the user's that it was built with, if there were any."""
        file = self.path / OWN_FRAGMENT
        if not file.is_file():
            return None
        return Own(Path(self.record.fragments[-1]), file.read_text())

    @property
    def release(self) -> str:
        """What `uname -r` prints in a guest with this kernel."""
        return self.record.release
