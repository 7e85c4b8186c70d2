# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel source trees: Debian's tarball, a user's folder or git revision, copied, then patched.

The cache has one entry for each origin: `plain/` is the source as it was when it was asked for
last, and beside it is a folder for each series that was applied to it. So an edit of a user's tree
costs no other copy: only the files that changed are copied. Builds only read trees. While a build
reads one, nobody brings its origin to another content.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from skblab.lab import paths, store, uses
from skblab.lab.kernel import debian_packages, git, lines
from skblab.lab.kernel import series as quilt
from skblab.lab.kernel.lines import Line
from skblab.lab.kernel.model import CHANGES, COMMIT, Request
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import disk
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError, UsageError

KIND = "sources"
# Raise when the way a tree is made here changes its content.
RECIPE = "1"
TARBALL_END = ".tar.xz"
# In an entry: the source itself, and what it is. The rest are trees with a series applied.
PLAIN, STATE = "plain", "origin.json"
# And for a user's git repository one of ours, which knows the files in `plain`, or in their folder.
OURS = "git"
# A patched tree is links to the plain one, and its folders: some 25 MB. So many stay of an origin.
KEPT_PATCHED = 4
# What a user's tree may hold beside sources; a private copy is made without it.
NOT_SOURCE = (".git", ".svn", "*.o", "*.ko", "*.a", "*.cmd", "*.o.d", "*.rej", "*.orig")
_NOT_SOURCE_ENDS = tuple(pattern[1:] for pattern in NOT_SOURCE if pattern.startswith("*"))


@dataclass(frozen=True)
class Source:
    """A kernel source: `place` is a tarball or a folder; `digest` names its content cheaply.

    With a `revision`, a commit in full, it is that of the git repository `place`.
    """

    place: Path
    version: str
    digest: str
    revision: str | None = None

    @property
    def line(self) -> str:
        """The stable line it belongs to, e.g. 6.12."""
        return lines.of_version(self.version)

    @property
    def is_folder(self) -> bool:
        """Whether it is a user's folder with its files as they are."""
        return self.revision is None and not self.place.is_file()

    @property
    def origin(self) -> str:
        """The key of where it comes from, which stays the same when its content changes."""
        debian = self.place.is_file()
        package = self.place.name.removesuffix(TARBALL_END)
        kind = () if self.revision is None else ("git",)
        return store.digest(["origin", RECIPE, *kind, package if debian else str(self.place)])


class State(Closed):
    """`origin.json`: whose copy `plain/` is. It is there only while that copy is whole."""

    place: Path
    version: str
    digest: str


def find(
    wanted: Path | None,
    labroot: LabRoot,
    line: Line = lines.DEFAULT,
    reporter: Reporter | None = None,
) -> Source:
    """Return the source to build from: `wanted`, or Debian's of a line when it is None.

    Debian's tarball is known by its package version, a folder by the names, sizes and times
    of its files, so that neither is read through to see that nothing changed. A tarball that the
    lab root does not have is fetched, once.
    """
    if wanted is not None:
        return _folder(wanted)
    there = debian_packages.ensure(line, labroot, reporter or Reporter(quiet=True))
    # 6.12.117-1 or 1:6.12.117-1~bpo: the upstream part in between.
    upstream = there.version.split(":")[-1].split("-")[0]
    return Source(there.tarball, upstream, there.digest)


def asked_for(request: Request, labroot: LabRoot, reporter: Reporter | None = None) -> Source:
    """Return the source of a kernel that is asked for; see find() and of_revision().

    UsageError for one that is packaged.
    """
    if request.packaged is not None:
        raise UsageError(
            f"{request.packaged} is a finished kernel, and this needs a source; name one: "
            "6.12, 7.3, tree:DIR or git:DIR@REVISION"
        )
    if request.source is not None and request.revision is not None:
        return of_revision(request.source, request.revision)
    return find(request.source, labroot, request.line, reporter)


def of_revision(repository: Path, revision: str) -> Source:
    """Return a revision of a git repository as a source, known by its commit."""
    folder = repository.expanduser().resolve()
    commit = git.commit(folder, revision)
    version = version_of(git.makefile(folder, commit), f"{folder} at {revision}")
    return Source(folder, version, store.digest(["git", commit]), commit)


def _folder(wanted: Path) -> Source:
    folder = wanted.expanduser().resolve()
    version = read_version(folder)
    stamps = (f"{name} {stamp(stat)}" for name, stat in walk(folder))
    return Source(folder, version, store.digest(["folder", *sorted(stamps)]))


def read_version(folder: Path) -> str:
    """Return the version that the tree's Makefile states, e.g. 6.12.117 or 7.2.0-rc1."""
    makefile = folder / "Makefile"
    whole = makefile.is_file() and (folder / "Kconfig").is_file()
    return version_of(makefile.read_text(errors="replace") if whole else "", str(folder))


def version_of(makefile: str, place: str) -> str:
    """Return the version that the text of a tree's Makefile states; `place` is named if none."""
    parts: dict[str, str] = dict(
        re.findall(
            r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(\S*)$", makefile, re.M
        )
    )
    if not {"VERSION", "PATCHLEVEL"} <= parts.keys():
        raise UsageError(
            f"{place} is not a Linux source tree: expected a Kconfig and a Makefile "
            "with VERSION and PATCHLEVEL there"
        )
    numbers = (parts["VERSION"], parts["PATCHLEVEL"], parts.get("SUBLEVEL") or "0")
    return ".".join(numbers) + parts.get("EXTRAVERSION", "")


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and stat of each source file; plain strings, for there are 90 000 of them."""
    top = f"{folder}/"
    for where, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in NOT_SOURCE]
        for name in files:
            if not name.endswith(_NOT_SOURCE_ENDS):
                path = f"{where}/{name}"
                yield path.removeprefix(top), os.lstat(path)


def stamp(stat: os.stat_result) -> str:
    """Return what a file is known by, so that it need not be read: its size and time."""
    return f"{stat.st_size} {stat.st_mtime_ns}"


def series_for(source: Source, alternative: Path | None = None) -> Series:
    """Return our patch series for this source; UsageError naming both when none fits.

    An `alternative` is one more patch, applied last.
    """
    folder = paths.tree() / "patches" / f"v{source.line}"
    line = lines.known(source.line)
    parts = line.parts if line else ()
    if folder.is_dir() if line is None else line.patched:
        series = quilt.read(folder, parts)
        return series if alternative is None else series.followed_by(alternative)
    have = sorted(entry.name for entry in folder.parent.glob("v*") if entry.is_dir())
    named = ", ".join(f"patches/{name} (for Linux {name[1:]}.x)" for name in have)
    raise UsageError(
        f"{source.place} is Linux {source.version}, and no patch series fits it; there is "
        f"{named or 'none at all'}; give a fitting tree, or leave +skblab out to build it as it is"
    )


def tree_key(source: Source, series: Series | None) -> str:
    """Return what names the content of a tree: its source, and the patches applied to it."""
    records = series.records() if series else ()
    return store.digest(
        [RECIPE, source.digest, *(f"{record.name} {record.sha256}" for record in records)]
    )


@contextlib.contextmanager
def tree(
    source: Source, series: Series | None, labroot: LabRoot, reporter: Reporter
) -> Iterator[Path]:
    """Have the tree of `source`, with `series` applied, for the length of a `with` block.

    It is made or brought up to date first if needed; nobody changes it within the block. Raises
    UsageError when the source changes while it is copied.
    """
    place = store.entry(KIND, source.origin)
    _drop_old(place, source)
    while True:
        with uses.using(KIND, source.origin):
            if state(place) == _state(source):
                yield _patched(place, source, series, labroot, reporter)
                return
        doing = f"that builds another version of {source.place}"
        with uses.alone(KIND, source.origin, reporter, doing):
            if state(place) != _state(source):
                _bring(place, source, labroot, reporter)


def state(place: Path) -> State | None:
    """Return what the plain tree in an entry is; None if there is none, or not a whole one."""
    with contextlib.suppress(OSError, ValidationError):
        return State.model_validate_json((place / STATE).read_bytes())
    return None


def _state(source: Source) -> State:
    return State(place=source.place, version=source.version, digest=source.digest)


def _bring(place: Path, source: Source, labroot: LabRoot, reporter: Reporter) -> None:
    """Make the plain tree that of `source`; nobody may use the entry meanwhile."""
    _require_unchanged(source)
    with store.filling(place):
        # What a killed git has left, it does not know: nothing would remove that again.
        whole = (place / STATE).exists() or source.revision is None
        kept = whole and not source.place.is_file()
        (place / STATE).unlink(missing_ok=True)
        plain = place / PLAIN
        for other in place.glob("*"):
            # A tarball is unpacked anew; of a user's tree, what did not change stays.
            if other not in (plain, place / OURS) or not kept:
                store.remove(other)
        plain.mkdir(parents=True, exist_ok=True)
        _unpack(source, plain, labroot, reporter)
        _note_changes(place, source, reporter)
        _require_unchanged(source)
        disk.write_whole(place / STATE, _state(source).model_dump_json(indent=1) + "\n")
        store.note_added(KIND, source.origin)


def _note_changes(place: Path, source: Source, reporter: Reporter) -> None:
    """Keep beside the copy of a user's folder at which commit it is, and what it has changed."""
    if not source.is_folder:
        return
    try:
        found = git.changes(source.place, place / OURS)
    except SkblabError as error:
        store.remove(place / OURS)
        reporter.say(f"what {source.place} has changed since its commit cannot be told: {error}")
        return
    if found is None:
        return
    disk.write_whole(place / COMMIT, found.state)
    if found.diff:
        disk.write_whole(place / CHANGES, found.diff)


def kept_changes(source: Source) -> tuple[str | None, bytes]:
    """Return at which commit a folder was when it was copied (git.Changes.state), and its diff."""
    place = store.entry(KIND, source.origin)
    try:
        commit = (place / COMMIT).read_text()
    except FileNotFoundError:
        return None, b""
    changed = place / CHANGES
    return commit, changed.read_bytes() if changed.exists() else b""


def _require_unchanged(source: Source) -> None:
    """Raise UsageError if a folder is not what it was: its copy would have the name of another."""
    if not source.is_folder:
        return
    if _folder(source.place).digest != source.digest:
        raise UsageError(
            f"{source.place} was changed before its copy was whole; run the command again when "
            "nothing writes there"
        )


def _patched(
    place: Path, source: Source, series: Series | None, labroot: LabRoot, reporter: Reporter
) -> Path:
    """Return the plain tree, or that with `series` applied, which is made if it is not there."""
    plain = place / PLAIN
    if series is None:
        return plain
    key = tree_key(source, series)
    made = place / key
    with store.locked(f"{KIND}-{source.origin}-{key}", reporter):
        if not made.is_dir():
            part = place / f"{key}{store.PART}"
            with store.filling(part), reporter.step("patching"):
                store.remove(part)
                part.mkdir()
                link_copy(plain, part)
                quilt.apply(series, part, quilt.patch_in(labroot), source.version)
                part.rename(made)
                store.note_added(KIND, source.origin)
    os.utime(made)
    return made


def _drop_old(place: Path, source: Source) -> None:
    """Keep the KEPT_PATCHED patched trees that were used last, unless somebody builds."""
    with uses.nobody(KIND, source.origin) as free:
        if not free:
            return
        patched = [
            path for path in place.glob("*") if path.is_dir() and path.name not in (PLAIN, OURS)
        ]
        whole = [path for path in patched if path.suffix not in (store.PART, store.GONE)]
        whole.sort(key=lambda path: path.stat().st_mtime)
        old = [store.put_away(path) for path in whole[:-KEPT_PATCHED]]
        # What was killed has left the others.
        left = [path for path in patched if path not in whole]
        for gone in (*old, *left):
            store.remove(gone)
        if old or left:
            uses.note_size(KIND, source.origin, store.disk_bytes(place))


def link_copy(plain: Path, folder: Path) -> None:
    """Fill `folder` with hard links to the files of `plain`.

    GNU patch writes a new file and renames it, so a patched file is never written through
    its link: the plain tree stays as it is, and a patched one costs a few MB.
    """
    subprocess.run(
        ["cp", "-al", f"{plain}/.", str(folder)], check=True, capture_output=True, text=True
    )


def _unpack(source: Source, folder: Path, labroot: LabRoot, reporter: Reporter) -> None:
    out = Bind(folder, "out", writable=True)
    log = paths.cache() / "logs" / f"source-{source.digest}.log"
    with reporter.step("kernel source"):
        if source.place.is_file():
            reporter.say(f"unpacking Linux {source.version} from {source.place}")
            packed = Bind(source.place.parent, "src")
            tarball = f"{packed.inside}/{source.place.name}"
            labroot.run(
                ["tar", "-C", out.inside, "--strip-components=1", "-xf", tarball],
                binds=[out, packed],
                what=f"unpacking {source.place.name}",
                log=log,
            )
            return
        if source.revision is not None:
            reporter.say(
                f"checking out Linux {source.version} from {source.place}: {source.revision[:12]}"
            )
            git.check_out(source.place, source.revision, folder, folder.parent / OURS)
            return
        reporter.say(f"copying Linux {source.version} from {source.place}")
        skip = [f"--exclude={pattern}" for pattern in NOT_SOURCE]
        # What rsync takes for unchanged is what the digest does: size and time to the nanosecond.
        # It writes a new file and renames it, so no tree with links to the old one sees that.
        same = ("--archive", "--delete", "--delete-excluded", "--modify-window=-1")
        labroot.run(
            ["rsync", *same, *skip, "/skblab/src/", f"{out.inside}/"],
            binds=[out, Bind(source.place, "src")],
            what=f"copying {source.place}",
            log=log,
        )
        # A tree that was built in place cannot be built from elsewhere until it is cleaned.
        labroot.run(
            ["make", "-s", "mrproper"],
            binds=[Bind(folder, "build", writable=True)],
            workdir="/skblab/build",
            what="cleaning the copy (make mrproper)",
            log=log,
        )
