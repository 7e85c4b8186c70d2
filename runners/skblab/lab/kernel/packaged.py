# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that somebody else built: Debian's packages, or a file; a guest boots them as they are.

Their drivers are modules, also those that a guest needs to find its root: an initrd loads these,
and the guest has all others in /lib/modules. What Debian's name stands for is looked up once and
kept, so a kernel is the same tomorrow.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.kernel import config, debian_packages, lines, registry
from skblab.lab.kernel.debian_packages import Package
from skblab.lab.kernel.model import RECORD, Kernel, Packaged, Record
from skblab.lab.labroot import Bind, LabRoot, extra
from skblab.lab.labroot.root import SUITE
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError, UsageError

# Raise when the steps below make another kernel of the same packages.
RECIPE = "1"
# Debian's release before that of the lab root, whose kernels are still in use.
OLDER = "bookworm"
# What a guest needs before it has a root, and what nothing asks for by itself.
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "virtio_net")
TYPICAL_MB = 110
IMAGE = "linux-image-"
# Parts of a kernel that newer packages have in packages of their own.
_PARTS = re.compile(r"linux-(?:base|binary|modules)-")
GONE = re.compile(r"Unable to locate package|Version '.*' for '.*' was not found|404 +Not Found")
# The usual kernel of an architecture: -cloud-, -rt- and others are named in full.
_USUAL = re.compile(r"linux-image-[^-]+(?:-\d+)?-amd64$")


class GoneError(SkblabError):
    """What was to be fetched is no longer in the archive."""


@dataclass(frozen=True)
class Offer:
    """A package that Debian has, and the names of those it depends on."""

    name: str
    package: Package
    depends: tuple[str, ...]

    @property
    def upstream(self) -> str:
        """The version of Linux: 6.12.118 of 6.12.118-1~bpo12+1."""
        return self.package.version.split(":")[-1].split("-")[0]


def ensure(wanted: Packaged, labroot: LabRoot, reporter: Reporter) -> Kernel:
    """Return the kernel, fetched if it is Debian's and not in the cache.

    UsageError if there is no such package, or if no guest can boot what it holds.
    """
    if wanted.file is not None:
        return _of_file(wanted, wanted.file, labroot, reporter)
    packages = _resolved(wanted, labroot, reporter)
    try:
        return _of_debian(wanted, packages, labroot, reporter)
    except GoneError:
        # Debian has a newer one since the name was looked up, and the cache lost what it had.
        reporter.say(f"Debian's archive has {next(iter(packages))} no longer")
        store.remove(store.entry(debian_packages.KIND, _resolution(wanted, labroot)))
        packages = _resolved(wanted, labroot, reporter)
        return _of_debian(wanted, packages, labroot, reporter)


def _of_file(wanted: Packaged, file: Path, labroot: LabRoot, reporter: Reporter) -> Kernel:
    there = files(file, labroot)
    packages = {of.name: of.package for of in there.values()}
    return _kernel(wanted, packages, labroot, reporter, lambda folder: _copied(there, folder))


def _of_debian(
    wanted: Packaged, packages: Mapping[str, Package], labroot: LabRoot, reporter: Reporter
) -> Kernel:
    def bring(folder: Path) -> None:
        _fetch(wanted, packages, folder, labroot, reporter)

    return _kernel(wanted, packages, labroot, reporter, bring)


def settled(wanted: Packaged, labroot: LabRoot, reporter: Reporter) -> Packaged:
    """Return the package by its release: what debian:6.12 stands for is another one next month."""
    if wanted.file is not None:
        return wanted
    packages = _resolved(wanted, labroot, reporter)
    released = Packaged(next(iter(packages)).removeprefix(IMAGE))
    # To ask the archive once more takes seconds.
    key = _resolution(released, labroot)
    store.ensure(
        debian_packages.KIND, key, reporter, lambda folder: _write_record(folder, packages)
    )
    return released


def _kernel(
    wanted: Packaged,
    packages: Mapping[str, Package],
    labroot: LabRoot,
    reporter: Reporter,
    bring: Callable[[Path], None],
) -> Kernel:
    """Return the kernel in packages, which `bring` puts into a folder if they are needed."""
    digests = [f"{name} {of.sha256}" for name, of in packages.items()]
    key = store.digest([RECIPE, *_recipe(), *digests])

    def fill(part: Path) -> None:
        fetched = part / "fetched"
        fetched.mkdir()
        bring(fetched)
        _require_same(wanted, packages, fetched)
        _unpack(wanted, packages, fetched, part, key, labroot, reporter)

    return Kernel(store.ensure(registry.KIND, key, reporter, fill), key)


def _require_same(wanted: Packaged, packages: Mapping[str, Package], folder: Path) -> None:
    """Raise SkblabError if the packages in a folder are not those that were announced."""
    got = {_sha256(file) for file in folder.glob("*.deb")}
    if missing := [name for name, package in packages.items() if package.sha256 not in got]:
        raise SkblabError(
            f"{wanted}: {', '.join(missing)} is another file than a moment ago; run the command "
            "again when nothing writes there"
        )


def _recipe() -> list[str]:
    """Return what decides how packages become a kernel here."""
    return [*MODULES, _script("unpack-binary.sh"), _script("initrd.sh")]


def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text()


def _resolved(wanted: Packaged, labroot: LabRoot, reporter: Reporter) -> Mapping[str, Package]:
    """Return the packages that a name stands for; looked up in Debian's archive once."""

    def look_up(folder: Path) -> None:
        reporter.say(f"looking for {wanted} in Debian's archive")
        lists = folder / "archive"
        lists.mkdir()
        with reporter.step("kernel packages"):
            offers = parse(_apt(lists, ["list"], labroot, wanted))
            chosen = choose(wanted, offers)
            parts = [name for name in chosen.depends if _PARTS.match(name)]
            needs = parse(_apt(lists, ["needs", *parts], labroot, wanted)) if parts else []
        store.remove(lists)
        _write_record(folder, {offer.name: offer.package for offer in (chosen, *needs)})

    key = _resolution(wanted, labroot)
    folder = store.ensure(debian_packages.KIND, key, reporter, look_up)
    return debian_packages.record(folder).packages


def _write_record(folder: Path, packages: Mapping[str, Package]) -> None:
    found = debian_packages.Record(suite=f"{SUITE}, {OLDER}", packages=dict(packages))
    disk.write_whole(folder / debian_packages.RECORD, found.model_dump_json(indent=1) + "\n")


def _resolution(wanted: Packaged, labroot: LabRoot) -> str:
    """Return the key of what a name stands for."""
    return store.digest(["binary", RECIPE, labroot.key, wanted.wanted])


def _apt(folder: Path, words: Sequence[str], labroot: LabRoot, wanted: Packaged) -> str:
    """Run fetch-binary.sh, with apt's lists and what it fetches in `folder`."""
    log = _log()
    try:
        return labroot.run(
            ["sh", "-ec", _script("fetch-binary.sh"), "fetch", SUITE, OLDER, *words],
            binds=[Bind(folder, "out", writable=True)],
            network=True,
            log=log,
            what=f"fetching {wanted}",
        )
    except SkblabError as error:
        text = log.read_text(errors="replace") if log.exists() else ""
        if GONE.search(text):
            raise GoneError(f"Debian's archive has no longer what {wanted} stood for") from error
        raise debian_packages.unreachable(error, str(wanted), log) or error from error


def parse(text: str) -> list[Offer]:
    """Return the packages that fetch-binary.sh tells of, the oldest version first."""
    found = []
    # apt may have something to say, too.
    for version, name, digest, depends in re.findall(
        r"^offer\t(.+)\t(.+)\t([0-9a-f]+)\t(.*)$", text, re.MULTILINE
    ):
        package = Package(version=version, sha256=digest)
        found.append(Offer(name, package, _names(depends)))
    return found


def _log() -> Path:
    return paths.cache() / "logs" / "kernel-binary.log"


def _names(depends: str) -> tuple[str, ...]:
    """Return the packages of a field Depends."""
    return tuple(entry.split()[0] for entry in re.split(r"[,|]", depends) if entry.strip())


def choose(wanted: Packaged, offers: Sequence[Offer]) -> Offer:
    """Return the package of that release, or the newest of that version; UsageError if none.

    `offers` has the oldest version first.
    """
    if exact := [offer for offer in offers if offer.name == f"{IMAGE}{wanted.wanted}"]:
        return exact[-1]
    if not offers:
        raise UsageError(
            f"--kernel {wanted}: Debian's archive told of no kernel at all: no network, or its "
            f"mirror does not answer; check with: apt-get update; whole output: {_log()}"
        )
    usual = [offer for offer in offers if _USUAL.match(offer.name)]
    fitting = [offer for offer in usual if f"{offer.upstream}.".startswith(f"{wanted.wanted}.")]
    if not fitting:
        newest = {lines.of_version(offer.upstream): offer for offer in usual}
        have = ", ".join(offer.name.removeprefix(IMAGE) for offer in newest.values())
        raise UsageError(
            f"--kernel {wanted}: Debian's archive has no such kernel; of each version the newest "
            f"that it has: {have}"
        )
    return fitting[-1]


def _fetch(
    wanted: Packaged,
    packages: Mapping[str, Package],
    folder: Path,
    labroot: LabRoot,
    reporter: Reporter,
) -> None:
    """Fetch packages into a folder; UsageError if the archive has these versions no longer."""
    reporter.say(f"fetching {next(iter(packages))} from Debian's archive: {TYPICAL_MB} MB")
    exact = [f"{name}={package.version}" for name, package in packages.items()]
    with reporter.step("kernel packages"):
        _apt(folder, ["get", *exact], labroot, wanted)
    store.remove(folder / "lists")


def files(file: Path, labroot: LabRoot) -> dict[Path, Offer]:
    """Return the package in a file, and those beside it that have other parts of its kernel.

    UsageError if it is no package, or if one of them is not there.
    """
    image = _control(file, labroot)
    if not image.name.startswith(IMAGE):
        raise UsageError(
            f"deb:{file}: expected a package {IMAGE}RELEASE with a kernel, found "
            f"{image.name or 'none'}"
        )
    release = image.name.removeprefix(IMAGE).removesuffix("-unsigned")
    found = {file: image}
    for name in image.depends:
        if not (_PARTS.match(name) and name.endswith(release)):
            continue
        beside = {other: _control(other, labroot) for other in file.parent.glob(f"{name}_*.deb")}
        fitting = [
            (other, of)
            for other, of in sorted(beside.items())
            if (of.name, of.package.version) == (name, image.package.version)
        ]
        if not fitting:
            raise UsageError(
                f"deb:{file}: the kernel in it needs {name} {image.package.version}, too; put that "
                "package into the same folder"
            )
        found |= dict(fitting[:1])
    return found


def _control(file: Path, labroot: LabRoot) -> Offer:
    """Return what a package says of itself."""
    # By its folder: a link's own folder, and the file that it leads to.
    shown = Bind(file.resolve().parent, "src")
    wanted = ("Package", "Version", "Depends")
    ask = ["dpkg-deb", "-f", f"{shown.inside}/{file.resolve().name}", *wanted]
    try:
        told = labroot.run(ask, binds=[shown], what=f"reading {file.name}")
    except SkblabError as error:
        raise UsageError(f"deb:{file}: expected a Debian package; {error}") from error
    fields = dict(line.split(": ", 1) for line in told.splitlines() if ": " in line)
    package = Package(version=fields.get("Version", ""), sha256=_sha256(file))
    return Offer(fields.get("Package", ""), package, _names(fields.get("Depends", "")))


def _copied(there: Iterable[Path], folder: Path) -> None:
    for number, file in enumerate(there):
        shutil.copyfile(file, folder / f"{number}.deb")


def _unpack(
    wanted: Packaged,
    packages: Mapping[str, Package],
    fetched: Path,
    part: Path,
    key: str,
    labroot: LabRoot,
    reporter: Reporter,
) -> None:
    """Make the kernel of the packages in `fetched`, which goes."""
    begin = time.monotonic()
    tools = extra.unpacked("initrd-packages", ["busybox-static"], "busybox", labroot, reporter)
    made = part / "made"
    made.mkdir()
    run = part / "run"
    run.mkdir()
    (run / "initrd.sh").write_text(_script("initrd.sh"))
    reporter.say(f"unpacking {next(iter(packages))}")
    with reporter.step("kernel unpack"):
        told = labroot.run(
            ["sh", "-ec", _script("unpack-binary.sh"), "unpack", *MODULES],
            binds=[
                Bind(fetched, "src"),
                Bind(made, "out", writable=True),
                Bind(tools, "tools"),
                Bind(run, "run"),
            ],
            log=paths.cache() / "logs" / f"kernel-{key}.log",
            what=f"unpacking {wanted}",
        )
    if lacking := re.findall(r"^lacking (.*)$", told, re.MULTILINE):
        raise UsageError(
            f"--kernel {wanted}: a guest cannot boot it: {next(iter(packages))} has not "
            f"{lacking[0]}; a guest has its root on 9p over virtio, loaded by an initrd, and "
            "Debian's cloud kernels have no 9p"
        )
    (release,) = re.findall(r"^release (\S+)$", told, re.MULTILINE)
    for file in made.iterdir():
        file.rename(part / file.name)
    for folder in (fetched, made, run):
        store.remove(folder)
    _record(wanted, packages, part, key, release, time.monotonic() - begin)


def _record(
    wanted: Packaged,
    packages: Mapping[str, Package],
    part: Path,
    key: str,
    release: str,
    seconds: float,
) -> None:
    values = config.parse((part / "config").read_text())
    name, package = next(iter(packages.items()))
    version = re.match(r"[0-9.]+", release)
    record = Record(
        key=key,
        release=release,
        flavour="rt" if values.get("PREEMPT_RT") == "y" else "stock",
        # As the packages of ours are.
        patched="NET_PATH_TRACE" in values,
        series=None,
        patches=(),
        source=str(wanted if wanted.file else Packaged(name.removeprefix(IMAGE))),
        source_version=package.version or (version[0] if version else release),
        source_digest=store.digest([of.sha256 for of in packages.values()]),
        packages={name: of.sha256 for name, of in packages.items()},
        toolchain={"compiler": values.get("CC_VERSION_TEXT", "unknown").strip('"')},
        fragments=("skblab",) if values.get("NET_PATH_TRACE") == "y" else (),
        config_sha256=_sha256(part / "config"),
        image_sha256=_sha256(part / "bzImage"),
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        output_lines=0,
    )
    disk.write_whole(part / RECORD, record.model_dump_json(indent=1) + "\n")


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
