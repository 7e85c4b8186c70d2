# SPDX-License-Identifier: GPL-2.0-or-later
"""A whole kernel configuration of the user's: read, made buildable, held against the result."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from skblab.lab.kernel import config
from skblab.lab.kernel.config import Ask
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import UsageError, one_line

# The option that a configuration for the machines of this lab has.
OURS = "X86_64"
OTHERS = {
    "ARM64": "arm64",
    "ARM": "arm",
    "X86_32": "32-bit x86",
    "RISCV": "riscv",
    "PPC": "powerpc",
    "S390": "s390",
    "MIPS": "mips",
    "LOONGARCH": "loongarch",
    "SPARC": "sparc",
}

# Options that name files of the machine where the configuration was made, and what they get here.
# A kernel that signs its modules makes a key of its own for them at certs/signing_key.pem.
_MADE_HERE = '"certs/signing_key.pem"'
FILES = {
    "SYSTEM_TRUSTED_KEYS": '""',
    "SYSTEM_REVOCATION_KEYS": '""',
    "SYSTEM_BLACKLIST_HASH_LIST": '""',
    "MODULE_SIG_KEY": _MADE_HERE,
    "INITRAMFS_SOURCE": '""',
    "EXTRA_FIRMWARE": '""',
}
# How an image may be compressed, where that takes a program, and the package it is in.
COMPRESSORS = {"KERNEL_LZ4": "lz4", "KERNEL_LZO": "lzop"}

# What the compiler and the architecture say of themselves: nobody sets these.
_HIDDEN = re.compile(r"(CC|GCC|CLANG|AS|LD|LLD|RUSTC|PAHOLE|BINDGEN|HAVE|ARCH|GENERIC)_")


class Change(Closed):
    """An option that did not stay as the user's configuration has it, and why; 'n' is unset."""

    option: str
    before: str
    after: str
    why: str

    def __str__(self) -> str:
        return f"CONFIG_{self.option}: {self.before} -> {self.after} ({self.why})"


@dataclass(frozen=True)
class OwnConfig:
    """The user's configuration: the file, its text, its options ('n' for unset)."""

    file: Path
    text: str
    values: Mapping[str, str]

    def buildable(self, tree: Path, packages: Collection[str]) -> tuple[str, list[Change]]:
        """Return a text that can be built from `tree` here, and what was changed for that."""
        changes: list[Change] = []
        for option, instead in FILES.items():
            value = self.values.get(option, "n")
            if value not in ("n", '""', _MADE_HERE) and not _exist(value, tree):
                why = "no such file where the kernel is built"
                changes.append(Change(option=option, before=value, after=instead, why=why))
        for option, package in COMPRESSORS.items():
            if self.values.get(option) == "y" and package not in packages:
                why = f"the lab root has no {package}"
                changes.append(Change(option=option, before="y", after="n", why=why))
                changes.append(Change(option="KERNEL_ZSTD", before="n", after="y", why=why))
        said = {change.option for change in changes}
        kept = [line for line in self.text.splitlines() if _option(line) not in said]
        added = [f"CONFIG_{change.option}={change.after}" for change in changes]
        return "\n".join([*kept, *added]) + "\n", changes

    def contrast(
        self,
        result: Mapping[str, str],
        asked: Mapping[str, Ask],
        made: Collection[Change],
    ) -> tuple[list[Change], list[Change]]:
        """Return what our fragments changed, and what Linux decided otherwise than the file."""
        ours, theirs = [], []
        cleared = {change.option for change in made}
        for option in [*asked, *(name for name in self.values if name not in asked)]:
            before, after = self.values.get(option, "n"), result.get(option, "n")
            if before == after or option in cleared:
                continue
            if ask := asked.get(option):
                ours.append(Change(option=option, before=before, after=after, why=ask.where))
            elif not _HIDDEN.match(option):
                why = "set by Linux" if option in result else "not available in this Linux"
                theirs.append(Change(option=option, before=before, after=after, why=why))
        return ours, theirs


def read(file: Path) -> OwnConfig:
    """Read `file`, plain or as /proc/config.gz; UsageError when it is no kernel config for us."""
    try:
        raw = file.expanduser().read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"--config {file} is no text; {_EXPECTED}") from error
    except OSError as error:
        raise UsageError(
            f"--config {file}: {error.strerror or error}; expected a kernel configuration, "
            "as /boot/config-$(uname -r)"
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#") and _option(line) is None:
            raise UsageError(
                f"--config {file}:{number}: {one_line(line, 60)!r} is no line of a "
                f"kernel configuration; {_EXPECTED}"
            )
    values = config.parse(text)
    if not values:
        raise UsageError(f"--config {file} is empty of options; {_EXPECTED}")
    if values.get(OURS) != "y":
        other = next((name for option, name in OTHERS.items() if values.get(option) == "y"), None)
        what = f"is a configuration for {other}" if other else "names no architecture"
        raise UsageError(
            f"--config {file} {what}: expected CONFIG_{OURS}=y, as in a whole configuration "
            "of an x86_64 kernel (/boot/config-$(uname -r))"
        )
    return OwnConfig(file, text, values)


_EXPECTED = "expected lines CONFIG_NAME=value, as in /boot/config-$(uname -r)"


def _option(line: str) -> str | None:
    found = re.match(r"CONFIG_(\w+)=.|# CONFIG_(\w+) is not set$", line)
    return (found[1] or found[2]) if found else None


def _exist(value: str, tree: Path) -> bool:
    """Whether every file that an option names is in the source tree itself."""
    names = value.strip('"').split()
    return all(not Path(name).is_absolute() and (tree / name).is_file() for name in names)
