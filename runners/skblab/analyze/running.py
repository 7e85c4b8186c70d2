# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the program on files, and reads what it prints."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from skblab_analysis.base.disk import explained
from skblab_analysis.base.errors import SkblabError, UsageError, one_line
from skblab_analysis.formats.analyze import FileFigures

_LONGEST = 400
_BAD_USAGE = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of each file, as the program takes it."""

    form: str | None = None
    late: tuple[str, ...] = ()
    packets: str | None = None
    seconds: str | None = None
    flow: int | None = None
    by_flow: bool = False
    same_clock: bool = False
    bins: int | None = None
    threads: int | None = None

    def words(self) -> Iterator[str]:
        """Yield options of the program."""
        given = {
            "format": self.form,
            "packets": self.packets,
            "seconds": self.seconds,
            "flow": self.flow,
            "bins": self.bins,
            "threads": self.threads,
        }
        yield from (f"--{name}={value}" for name, value in given.items() if value is not None)
        yield from (f"--late={late}" for late in self.late)
        if self.by_flow:
            yield "--by-flow"
        if self.same_clock:
            yield "--same-clock"


def figures(program: Path, file: Path, asked: Asked, listed: Path | None = None) -> FileFigures:
    """Return the figures of a file; with `listed`, all anomalies are written to it, as CSV."""
    words = [str(program), *asked.words()]
    if listed is not None:
        words.append(f"--anomalies={listed}")
    done = subprocess.run([*words, "--", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise _refused(done)
    try:
        return FileFigures.model_validate_json(done.stdout)
    except ValidationError as error:
        why = one_line(str(error), _LONGEST)
        raise SkblabError(f"{program.name} printed no figures of {file}: {why}") from None


def _refused(done: subprocess.CompletedProcess[str]) -> SkblabError:
    said = next((line for line in done.stderr.splitlines() if line.strip()), "it said nothing")
    for begin in ("skblab-pktstat: ", "error: "):
        said = said.removeprefix(begin)
    if done.returncode == _BAD_USAGE:
        return UsageError(said)
    if done.returncode < 0:
        return SkblabError(f"the program was ended by signal {-done.returncode}: {said}")
    return SkblabError(said)


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Give a folder beside a file that is to be made; it goes, whatever happens."""
    with (
        explained(target),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder,
    ):
        yield Path(folder)


def analyse(
    program: Path, files: Sequence[Path], asked: Asked, listed: Path | None
) -> tuple[FileFigures, ...]:
    """Return the figures of each file; a list of all anomalies is of one file only."""
    if listed is None:
        return tuple(figures(program, file, asked) for file in files)
    if len(files) != 1:
        raise UsageError("--anomalies is for one file: name one, or use --parquet, which has all")
    if not listed.parent.is_dir():
        raise UsageError(f"--anomalies: there is no folder {listed.parent}")
    with beside(listed) as folder:
        found = figures(program, files[0], asked, folder / "anomalies.csv")
        shutil.move(folder / "anomalies.csv", listed)
    return (found,)
