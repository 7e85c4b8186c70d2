# SPDX-License-Identifier: GPL-2.0-or-later
"""How a person names a kernel, the same in every command: Debian's of a line, or a tree's.

6.12                  Debian's source of that line, as it is
tree:DIR              a source tree, as its files are
git:DIR@REVISION      a revision in a git repository, whatever its files are
…+config:FILE         any of these, with options of the user's own
…+skblab              any of these, with our series
debian:VERSION        Debian's package of a kernel, as it is: nothing is compiled
deb:FILE              the kernel in a package of the user's own
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from skblab.lab.kernel import config, lines, packaged, source
from skblab.lab.kernel.lines import DEFAULT, PATCHED, Line
from skblab.lab.kernel.model import Own, Packaged, Request, flavour
from skblab.lab.kernel.ownconfig import FILES
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base import textfile
from skblab_analysis.base.errors import UsageError

TREE, GIT, DEBIAN, DEB = "tree:", "git:", "debian:", "deb:"
CONFIG = "+config:"
SOURCES = (*lines.NAMES, f"{TREE}DIR", f"{GIT}DIR@REVISION")
# Of Debian's names of kernels: what uname -r prints, or the begin of it.
RELEASE = re.compile(r"[0-9]+\.[0-9]+[A-Za-z0-9.+~-]*")
FORMS = (*SOURCES, f"{DEBIAN}VERSION", f"{DEB}FILE")


@dataclass(frozen=True)
class Name:
    """A kernel by its name. `folder` and `revision` are None where the source is Debian's.

    `revision` is the commit that was named, in full.
    """

    line: Line = DEFAULT
    folder: Path | None = None
    revision: str | None = None
    patches: bool = True
    packaged: Packaged | None = None
    own: Own | None = None

    @property
    def base(self) -> str:
        """The name without that of our series."""
        own = "" if self.own is None else f"{CONFIG}{self.own.file}"
        return f"{self._source}{own}"

    @property
    def _source(self) -> str:
        if self.packaged is not None:
            return str(self.packaged)
        if self.folder is None:
            return self.line.name
        if self.revision is None:
            # A folder's own name may end as that of a kernel with our series does.
            end = "/" if self.folder.name.endswith(PATCHED) else ""
            return f"{TREE}{self.folder}{end}"
        return f"{GIT}{self.folder}@{self.revision}"

    def __str__(self) -> str:
        """Return the name, as parse() understands it."""
        return f"{self.base}{PATCHED if self.patches else ''}"

    def settled(self, labroot: LabRoot, reporter: Reporter) -> Name:
        """Return the same kernel by a name that stands for nothing else later, for records."""
        if self.packaged is None:
            return self
        return replace(self, packaged=packaged.settled(self.packaged, labroot, reporter))

    @property
    def words(self) -> tuple[str, ...]:
        """What a command that is to have it says; nothing for the default."""
        return () if self == Name() else (f"--kernel {shlex.quote(str(self))}",)

    def request(
        self, of: str = "stock", *, patches: bool | None = None, jobs: int | None = None
    ) -> Request:
        """Return what to build: this kernel of a flavour, or the same with or without `patches`.

        So many `jobs` compile at once, or one for each CPU.
        """
        request = Request(
            flavour=flavour(of),
            source=self.folder,
            revision=self.revision,
            patches=self.patches if patches is None else patches,
            line=self.line,
            packaged=self.packaged,
            own=self.own,
        )
        return request if jobs is None else replace(request, jobs=jobs)


def parse(text: str, option: str = "--kernel") -> Name:
    """Return the kernel of that name; UsageError if there is none, before anything is made.

    `option` is the one that named it. A tree of no line of ours is configured as the line that
    fits it best (lines.fitting()).
    """
    base = text.removesuffix(PATCHED)
    patches, own = base != text, None
    if CONFIG in base:
        # Our series may be named in front of it, too.
        base, _, file = base.rpartition(CONFIG)
        if patches and _file(file + PATCHED) is not None:
            raise UsageError(
                f"{option} {text}: there is a file {file}{PATCHED}, and {PATCHED} at the end means "
                f"our series; give the file another name"
            )
        own = _own(file, f"{option} {text}")
        patches = patches or base.endswith(PATCHED)
        base = base.removesuffix(PATCHED)
    return replace(_of_source(base, patches, f"{option} {text}"), own=own)


def _of_source(base: str, patches: bool, named: str) -> Name:
    if base.startswith(TREE):
        folder = _folder(base.removeprefix(TREE), named)
        return Name(lines.fitting(source.read_version(folder)), folder, None, patches)
    if base.startswith(GIT):
        folder, revision = _revision(base.removeprefix(GIT), named)
        found = source.of_revision(folder, revision)
        return Name(lines.fitting(found.version), folder, found.revision, patches)
    if base.startswith((DEBIAN, DEB)):
        chosen = _packaged(base, named)
        line = lines.fitting(chosen.wanted or DEFAULT.name)
        return Name(line, patches=patches, packaged=chosen)
    if base not in lines.NAMES:
        raise UsageError(
            f"{named}: no such kernel; expected {', '.join(FORMS)}, and {PATCHED} behind a source "
            f"for our series, {CONFIG}FILE for options of your own"
        )
    return Name(lines.line(base), patches=patches)


def of_packaged(text: str) -> Name:
    """Return a packaged kernel by its whole name, whether the package is still there or not."""
    kind, _, what = text.partition(":")
    chosen = Packaged(what) if f"{kind}:" == DEBIAN else Packaged(file=Path(what))
    return Name(patches=False, packaged=chosen)


def _packaged(text: str, named: str) -> Packaged:
    kind, _, what = text.partition(":")
    if kind + ":" == DEBIAN:
        if not RELEASE.fullmatch(what):
            raise UsageError(
                f"{named}: expected a version or what uname -r prints: debian:6.12, "
                "debian:6.12.118, debian:6.12.118+deb13-amd64"
            )
        return Packaged(what)
    # Not what a link leads to: its companions are beside the link.
    file = _file(what)
    if file is None or file.suffix != ".deb":
        raise UsageError(f"{named}: no such package; expected a file that ends in .deb")
    _require_utf8(file, named)
    return Packaged(file=file)


def _own(text: str, named: str) -> Own:
    """Return the fragment in a file; UsageError if it asks for nothing that can be understood."""
    file = _file(text)
    if file is None:
        raise UsageError(
            f"{named}: no such file; expected a fragment of a kernel configuration behind {CONFIG}"
        )
    _require_utf8(file, named)
    own = Own(file, textfile.read(file, "the configuration"))
    asked = config.asks(own.text, str(file))
    if not asked:
        raise UsageError(f"{named}: asks for no option; expected lines such as CONFIG_PSI=n")
    for ask in asked:
        if ask.value == "m":
            raise UsageError(
                f"{ask.where}: CONFIG_{ask.option}=m: a guest loads no modules of a kernel that is "
                "built here; write =y"
            )
        if ask.option in FILES and ask.value not in ("n", '""', FILES[ask.option]):
            raise UsageError(
                f"{ask.where}: CONFIG_{ask.option} names a file of this machine, which the build "
                "does not have; leave it out"
            )
    return own


def _revision(text: str, named: str) -> tuple[Path, str]:
    """Return folder and revision, both of which may have an @: the longest name of a folder counts.

    HEAD@{1} is a revision, too.
    """
    marks = [at for at, letter in enumerate(text) if letter == "@" and 0 < at < len(text) - 1]
    if not marks:
        raise UsageError(f"{named}: expected {GIT}DIR@REVISION, such as {GIT}~/linux@HEAD")
    there = [at for at in marks if _is_folder(text[:at])]
    at = there[-1] if there else marks[-1]
    return _folder(text[:at], named), text[at + 1 :]


def _folder(text: str, named: str) -> Path:
    if not text or not _is_folder(text):
        raise UsageError(f"{named}: no such folder; expected a Linux source tree")
    folder = Path(text).expanduser().resolve()
    _require_utf8(folder, named)
    return folder


def _require_utf8(place: Path, named: str) -> None:
    """Raise UsageError for a path that no record can hold."""
    try:
        str(place).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{named}: its path is not in UTF-8; rename it") from None


def _file(text: str) -> Path | None:
    """Return the file of that name, as it is named; None if there is none."""
    try:
        file = Path(text).expanduser().absolute()
        return file if text and file.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _is_folder(text: str) -> bool:
    try:
        return Path(text).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):
        # Too long, or the home of nobody.
        return False
