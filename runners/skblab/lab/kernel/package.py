# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages of the patched kernel, for real machines: the kernel's own `make bindeb-pkg`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from skblab.lab import paths, store
from skblab.lab.kernel import build, config, source
from skblab.lab.kernel.model import Flavour, PatchRecord, Request
from skblab.lab.kernel.ownconfig import Change, OwnConfig
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

KIND = "packages"
RECORD = "package.json"
HOWTO = "INSTALL.txt"
SCHEMA: Literal["skblab.packages/1"] = "skblab.packages/1"
# Raise when the steps below make other packages from the same input.
RECIPE = "2"

# Debian packages of the lab root that bindeb-pkg runs.
NEEDS = ("dpkg-dev", "debhelper", "rsync", "kmod", "cpio", "libelf-dev", "libssl-dev")
# An object with debug information is about ten times as large as one without.
FREE_GIB = 4.0
FREE_GIB_PER_1000 = 1.0
FREE_GIB_PER_1000_DEBUG = 4.0
# What a build prints per option that is on; only the progress bar depends on it.
LINES_PER_OPTION = 2.0

# dpkg-buildpackage puts its packages beside the build folder, which must be at the same path as
# in every other build (the compiler cache knows it): show all of /skblab in a folder that is
# writable, and enter that one instead.
_BESIDE = """
for point in src build ccache; do
	mkdir -p "/skblab/out/$point"
	mount --rbind "/skblab/$point" "/skblab/out/$point"
done
mount --rbind /skblab/out /skblab
exec "$@"
"""


class PackageFile(Closed):
    """One package: its file name, size in bytes and sha256."""

    name: str
    size_bytes: int
    sha256: str


class Record(Closed):
    """`package.json`: how the packages came about. `seconds` is wall time."""

    schema_name: Literal["skblab.packages/1"] = SCHEMA
    key: str
    release: str
    version: str
    flavour: Flavour
    source: str
    source_version: str
    series: str | None
    patches: tuple[PatchRecord, ...]
    fragments: tuple[str, ...]
    # The user's configuration, and what became of it.
    config: str | None
    cleared: tuple[Change, ...]
    changed: tuple[Change, ...]
    otherwise: tuple[Change, ...]
    files: tuple[PackageFile, ...]
    seconds: float


@dataclass(frozen=True)
class PackageRequest:
    """The packages somebody wants: of which kernel, from which configuration (None: ours)."""

    kernel: Request
    config: OwnConfig | None = None
    debug_symbols: bool = False

    @property
    def fragments(self) -> tuple[str, ...]:
        """The fragments to merge; `base` is a whole configuration, and so is the user's."""
        names = self.kernel.fragments
        if self.config is None:
            return names
        base = self.kernel.line.fragments(["base"])
        return tuple(name for name in names if name not in base)


@dataclass(frozen=True)
class Packages:
    """Finished packages: `path` is their folder in the cache."""

    path: Path
    record: Record

    def export(self, folder: Path) -> list[Path]:
        """Put packages, configuration and INSTALL.txt into `folder`; return where they are."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return [_place(file, folder) for file in sorted(self.path.iterdir())]
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise UsageError(
                f"--output {folder}: {error.strerror}; expected a folder that can be written"
            ) from error


def ensure(request: PackageRequest, labroot: LabRoot, reporter: Reporter) -> Packages:
    """Return the packages that `request` asks for, building them if they are not in the cache.

    Raises UsageError for wrong input, and SkblabError, in one line and with the log's path,
    when an option is refused, the build fails or the disk is full.
    """
    if missing := [name for name in NEEDS if name not in labroot.versions]:
        raise UsageError(
            f"the lab root has no {', '.join(missing)}, which packages are made with; "
            f"remove {labroot.path} and run the command again"
        )
    if request.kernel.own is not None:
        raise UsageError(
            f"+config:{request.kernel.own.file}: packages take a whole configuration; put these "
            "options into one, and give it by --config"
        )
    wanted = build.plan(request.kernel, labroot, reporter)
    key = store.digest(
        [
            RECIPE,
            wanted.key,
            *request.fragments,
            request.config.text if request.config else "",
            str(request.debug_symbols),
            *(f"{name} {labroot.versions[name]}" for name in NEEDS),
        ]
    )
    path = store.ensure(
        KIND, key, reporter, lambda part: _build(request, wanted, key, part, labroot, reporter)
    )
    return Packages(path, _read(path / RECORD))


def _read(file: Path) -> Record:
    try:
        return Record.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise SkblabError(
            f"{file} is missing or damaged ({one_line(str(error), 120)}); "
            f"remove {file.parent} and make the packages again"
        ) from error


def free_gib(values: Mapping[str, str]) -> float:
    """Return the GiB of disk that a build with these options may take, generously."""
    options = sum(value in ("y", "m") for value in values.values())
    debug = values.get("DEBUG_INFO_NONE", "n") != "y" and values.get("DEBUG_INFO") == "y"
    each = FREE_GIB_PER_1000_DEBUG if debug else FREE_GIB_PER_1000
    return FREE_GIB + each * options / 1000


def _build(
    request: PackageRequest,
    wanted: build.Plan,
    key: str,
    part: Path,
    labroot: LabRoot,
    reporter: Reporter,
) -> None:
    start = time.monotonic()
    _require_space(part, FREE_GIB)
    with source.tree(wanted.source, wanted.series, labroot, reporter) as tree:
        _make_packages(request, wanted, key, tree, part, labroot, reporter, start)


def _make_packages(
    request: PackageRequest,
    wanted: build.Plan,
    key: str,
    tree: Path,
    part: Path,
    labroot: LabRoot,
    reporter: Reporter,
    start: float,
) -> None:
    """Make the packages of a tree in `part`; the build began at `start` (monotonic seconds)."""
    output, beside = part / "output", part / "beside"
    output.mkdir()
    beside.mkdir()
    logs = paths.cache() / "logs"
    own = request.config
    text, cleared = own.buildable(tree, labroot.versions) if own else (None, [])
    with reporter.step("package config"):
        log = logs / f"package-config-{key}.log"
        lacking = config.merge(
            request.fragments,
            tree,
            output,
            labroot,
            log,
            own=text,
            compiler=request.kernel.compiler,
            foreign=wanted.foreign,
        )
    if lacking:
        reporter.say(config.told([ask.option for ask in lacking], wanted.source.version))
    result = config.parse((output / ".config").read_text())
    asked = config.wanted(config.fragment(name) for name in request.fragments)
    changed, otherwise = own.contrast(result, asked, cleared) if own else ([], [])
    _require_space(part, free_gib(result))

    make = _make(request, wanted, key, labroot, tree, output, beside)
    release = make.run(["-s", "kernelrelease"], "asking for the release").strip()
    what = f"packages of kernel {release}"
    reporter.say(f"making {what} with {wanted.request.jobs} jobs")
    options = sum(value in ("y", "m") for value in result.values())
    total = LINES_PER_OPTION * options if own else 0
    with reporter.step("packages"):
        build.compile_all(make, what, reporter, target="bindeb-pkg", total=total)
    for file in beside.glob("*.deb"):
        file.rename(part / file.name)
    shutil.copy2(output / ".config", part / f"config-{release}")
    store.remove(output)
    store.remove(beside)
    files = tuple(_file(file) for file in sorted(part.glob("*.deb")))
    record = Record(
        key=key,
        release=release,
        version=make.env["KDEB_PKGVERSION"],
        flavour=wanted.request.flavour,
        source=str(wanted.source.place),
        source_version=wanted.source.version,
        series=wanted.series.name if wanted.series else None,
        patches=wanted.series.records() if wanted.series else (),
        fragments=request.fragments,
        config=str(own.file) if own else None,
        cleared=tuple(cleared),
        changed=tuple(changed),
        otherwise=tuple(otherwise),
        files=files,
        seconds=round(time.monotonic() - start, 1),
    )
    disk.write_whole(part / HOWTO, howto(record))
    disk.write_whole(part / RECORD, record.model_dump_json(indent=1) + "\n")


def _make(
    request: PackageRequest,
    wanted: build.Plan,
    key: str,
    labroot: LabRoot,
    tree: Path,
    output: Path,
    beside: Path,
) -> build.Make:
    # After the last hyphen is Debian's revision, from which the kernel takes its build number:
    # the 1 that every kernel of ours has.
    version = f"{wanted.source.version.replace('-', '~')}+skblab.{key[:8]}-1"
    profiles = [] if request.debug_symbols else ["pkg.linux-upstream.nokerneldbg"]
    return build.Make(
        wanted,
        labroot,
        tree,
        output,
        paths.cache() / "logs" / f"package-{key}.log",
        prefix=("sh", "-ec", _BESIDE, "beside"),
        binds=(Bind(beside, "out", writable=True),),
        env={
            "KDEB_PKGVERSION": version,
            "KDEB_CHANGELOG_DIST": "unstable",
            # Several times as fast as xz, and known to dpkg since Debian 12.
            "KDEB_COMPRESS": "zstd",
            "DEBFULLNAME": "skblab",
            "DEB_BUILD_PROFILES": " ".join(profiles),
        },
        shares=build.can_share(wanted.request),
    )


def _require_space(folder: Path, needed: float) -> None:
    free = shutil.disk_usage(folder).free / 2**30
    if free < needed:
        raise SkblabError(
            f"{free:.1f} GiB free at {folder.parent}, making packages with this configuration "
            f"may need {needed:.0f} GiB; free some space, set SKBLAB_CACHE to a larger disk, or "
            "turn the debug information off (CONFIG_DEBUG_INFO_NONE=y)"
        )


def _file(file: Path) -> PackageFile:
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return PackageFile(name=file.name, size_bytes=file.stat().st_size, sha256=digest)


def _place(file: Path, folder: Path) -> Path:
    """Put a link to `file`, or a copy, into `folder` in one step; return where it is."""
    target = folder / file.name
    with tempfile.TemporaryDirectory(prefix=".skblab-", dir=folder) as scratch:
        part = Path(scratch) / file.name
        try:
            os.link(file, part)
        except OSError:
            # Another file system, or one without links.
            shutil.copy2(file, part)
        part.replace(target)
    with contextlib.suppress(OSError):
        target.chmod(0o644)
    return target


def howto(record: Record) -> str:
    """Return INSTALL.txt for these packages."""
    template = resources.files(__package__).joinpath("package-howto.txt").read_text()
    names = [file.name for file in record.files]
    image = next(name for name in names if name.startswith("linux-image-") and "-dbg_" not in name)
    headers = next((name for name in names if name.startswith("linux-headers-")), "")
    wanted = " ".join(f"./{name}" for name in (image, headers) if name)
    return template.replace("@RELEASE@", record.release).replace("@FILES@", wanted)
