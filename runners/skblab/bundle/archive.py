# SPDX-License-Identifier: GPL-2.0-or-later
"""The archive: the run's folder as it is, and beside it checksums and what it is cited by.

The same run makes the same bytes: names are in order, and times and owners are the run's.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from skblab_analysis.base.errors import UsageError

SUMS = "SHA256SUMS"
SUFFIX = ".tar.xz"
# What the folder around a run's is named after it.
AROUND = "-bundle"


def files(run: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a run folder by their names in it, in order; no links."""
    for folder, folders, names in os.walk(run):
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(run).as_posix(), path


def write(run: Path, to: Path, texts: Mapping[str, str], when: datetime) -> int:
    """Write the archive of a run folder, and `texts` by their names; return how many files.

    `when` is the time that all of it has. UsageError for a file that is there, or cannot be
    written; nothing is left of an archive that was broken off.
    """
    if to.exists():
        raise UsageError(f"{to} is there already; expected a name of no file")
    part = to.with_name(f"{to.name}.part")
    try:
        count = _write(run, part, texts, when)
        part.replace(to)
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    return count


def _write(run: Path, to: Path, texts: Mapping[str, str], when: datetime) -> int:
    sums: dict[str, str] = {}
    own = run.resolve().name
    around = f"{own}{AROUND}"
    with tarfile.open(to, "w:xz", format=tarfile.PAX_FORMAT) as archive:

        def add(name: str, data: bytes) -> None:
            sums[name] = hashlib.sha256(data).hexdigest()
            member = tarfile.TarInfo(f"{around}/{name}")
            member.size, member.mtime, member.mode = len(data), int(when.timestamp()), 0o644
            archive.addfile(member, io.BytesIO(data))

        for name, path in files(run):
            add(f"{own}/{name}", path.read_bytes())
        for name, text in texts.items():
            add(name, text.encode())
        lines = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
        add(SUMS, lines.encode())
    return len(sums)
