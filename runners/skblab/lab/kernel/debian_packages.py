# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's source and configurations of a line: those of the lab root, or fetched into the cache.

What is fetched stays as it is until its entry of the cache goes, or the lab root is another one:
so a kernel is the same tomorrow, also when Debian has a newer one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.kernel.lines import Line
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.labroot.root import FULL_DISK, NO_MIRROR, SUITE
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed, parse
from skblab_analysis.base.errors import SkblabError, UsageError

KIND = "kernel-packages"
RECORD = "packages.json"
# Raise when the steps below make another folder of the same packages.
RECIPE = "1"
# A mebibyte of configurations; the source is nearly all of it.
TYPICAL_MB = 170


class Package(Closed):
    """A package that was fetched: its version, and the SHA-256 of its file."""

    version: str
    sha256: str


class Record(Closed):
    """`packages.json`: the packages of an entry by name, and the suite that had them."""

    suite: str
    packages: dict[str, Package]


@dataclass(frozen=True)
class Unpacked:
    """Where a line's packages are unpacked; `version` and `digest` are those of the source's."""

    line: Line
    folder: Path
    version: str
    digest: str

    @property
    def tarball(self) -> Path:
        """The source."""
        return self.folder / self.line.tarball

    @property
    def configs(self) -> Path:
        """The folder of Debian's configurations."""
        return self.folder / "usr" / "src" / self.line.config_package


def ensure(line: Line, labroot: LabRoot, reporter: Reporter) -> Unpacked:
    """Return a line's packages, fetched if need be.

    UsageError if the lab root lacks them, or they cannot be fetched.
    """
    if line.suite is None:
        return _of_root(line, labroot)
    folder = store.ensure(
        KIND, key(line, labroot), reporter, lambda part: _fetch(line, part, labroot, reporter)
    )
    return _fetched(line, folder)


def fetched(line: Line, labroot: LabRoot) -> bool:
    """Whether nothing has to be fetched for a line."""
    return line.suite is None or (paths.cache_place() / KIND / key(line, labroot)).is_dir()


def key(line: Line, labroot: LabRoot) -> str:
    """Return the key of what is fetched: a new lab root takes what Debian has then."""
    return store.digest([RECIPE, labroot.key, str(line.suite), *_names(line)])


def record(folder: Path) -> Record:
    """Return what was fetched into an entry; RecordError if its record is damaged."""
    text = (folder / RECORD).read_text(errors="replace")
    where = f"{folder / RECORD}; remove {folder}, and the next command fetches it anew: it"
    return parse(Record, text, where)


def _names(line: Line) -> tuple[str, str]:
    return line.source_package, line.config_package


def _of_root(line: Line, labroot: LabRoot) -> Unpacked:
    version = labroot.versions.get(line.source_package)
    tarball = labroot.path / line.tarball
    if version is None or not tarball.is_file():
        raise UsageError(
            f"the lab root has no {line.source_package}: expected {tarball}; "
            f"remove {labroot.path} and run the command again, or give --kernel tree:DIR"
        )
    digest = store.digest(["debian", line.source_package, version])
    return Unpacked(line, labroot.path, version, digest)


def _fetched(line: Line, folder: Path) -> Unpacked:
    package = record(folder).packages[line.source_package]
    digest = store.digest(["debian", line.source_package, package.version, package.sha256])
    return Unpacked(line, folder, package.version, digest)


def _fetch(line: Line, folder: Path, labroot: LabRoot, reporter: Reporter) -> None:
    assert line.suite is not None
    log = paths.cache() / "logs" / f"{KIND}-{line}.log"
    reporter.say(f"fetching Debian's source of Linux {line} from {line.suite}: {TYPICAL_MB} MB")
    script = resources.files(__package__).joinpath("fetch-packages.sh").read_text()
    words = ["sh", "-ec", script, "fetch", SUITE, line.suite, *_names(line)]
    try:
        with reporter.step("kernel packages"):
            output = labroot.run(
                words,
                binds=[Bind(folder, "out", writable=True)],
                network=True,
                log=log,
                what=f"fetching Debian's packages of Linux {line}",
            )
    except SkblabError as error:
        raise explain(error, line, log) from error
    found = Record(suite=line.suite, packages=packages(output, _names(line)))
    if not (folder / line.tarball).is_file():
        raise SkblabError(f"{line.source_package} of {line.suite} has no /{line.tarball}")
    disk.write_whole(folder / RECORD, found.model_dump_json(indent=1) + "\n")


def packages(output: str, names: Sequence[str]) -> dict[str, Package]:
    """Return the packages that fetch-packages.sh says it has unpacked."""
    lines = re.findall(r"^unpacked (\S+) (\S+) ([0-9a-f]{64})$", output, re.M)
    found = {name: Package(version=version, sha256=digest) for name, version, digest in lines}
    if missing := [name for name in names if name not in found]:
        raise SkblabError(f"{', '.join(missing)} was not fetched: expected it in what apt brought")
    return found


def explain(error: SkblabError, line: Line, log: Path) -> SkblabError:
    """Return the error of a fetch in words, where its output tells why it failed."""
    text = log.read_text(errors="replace") if log.exists() else ""
    # The error says it already.
    if FULL_DISK.search(text):
        return error
    whole = f"whole output: {log}"
    if re.search(r"Unable to locate package|has no installation candidate", text):
        return UsageError(
            f"Debian's {line.suite} has no {line.source_package}: give a tree of your own with "
            f"--kernel tree:DIR, or another line; {whole}"
        )
    return unreachable(error, line.source_package, log) or error


def unreachable(error: SkblabError, what: str, log: Path) -> SkblabError | None:
    """Return that no mirror gave `what`, if the output of a fetch says so."""
    text = log.read_text(errors="replace") if log.exists() else ""
    if FULL_DISK.search(text) or not NO_MIRROR.search(text):
        return None
    return UsageError(
        f"{what} cannot be fetched: no network, or Debian's mirror does not answer; check with: "
        f"apt-get update; whole output: {log}"
    )
