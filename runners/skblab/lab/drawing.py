# SPDX-License-Identifier: GPL-2.0-or-later
"""gnuplot: this machine's, or the lab root's, with root rights or without."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from skblab.lab import labroot
from skblab.lab.labroot import Bind, LabRoot, run_logged
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

# Runs gnuplot with arguments in a folder; SkblabError when it fails.
Gnuplot = Callable[[Sequence[str], Path], None]

# Without the user's own settings, and able to make what a report has.
GNUPLOT = ("gnuplot", "--default-settings")
# Older ones load no datablock, which is how a script draws one picture in three sizes.
OLDEST = 6
TRIAL = (
    "-e",
    f"if (GPVAL_VERSION < {OLDEST}) "
    f"{{ exit error sprintf('it is %.1f; {OLDEST}.0 or later draws', GPVAL_VERSION) }}; "
    "set terminal svg; set terminal pngcairo",
)
MEND = f"mend with: apt-get install gnuplot-nox, {OLDEST}.0 or later, as Debian 13 has it"


class NoGnuplotError(UsageError):
    """No gnuplot that draws can be used here."""


def gnuplot(root: LabRoot, *, rootless: bool = False) -> Gnuplot:
    """Return the lab root's; `rootless` in a user's own namespaces, without root rights."""

    def run(arguments: Sequence[str], folder: Path) -> None:
        out = Bind(folder.resolve(), "out", writable=True)
        call = [*GNUPLOT, *arguments]
        root.run(call, binds=[out], workdir=out.inside, what="gnuplot", rootless=rootless)

    return run


def hosts(arguments: Sequence[str], folder: Path) -> None:
    """Run this machine's."""
    run_logged(["env", f"--chdir={folder}", "LC_ALL=C.UTF-8", *GNUPLOT, *arguments], "gnuplot")


def find_gnuplot() -> Gnuplot:
    """Return the first gnuplot that draws: this machine's, else the lab root's.

    No root rights are needed. Raises NoGnuplotError, which says why none can be used.
    """
    reasons = []
    for whose, found in _candidates():
        try:
            with tempfile.TemporaryDirectory(prefix="skblab-") as folder:
                found(TRIAL, Path(folder))
        except SkblabError as error:
            reasons.append(f"{whose}: {one_line(str(error))}")
        else:
            return found
    why = "; ".join(reasons) or "this machine has none, and no lab root that you may read"
    raise NoGnuplotError(f"no gnuplot can be used: {why}; {MEND}")


def _candidates() -> Iterator[tuple[str, Gnuplot]]:
    if shutil.which(GNUPLOT[0]):
        yield "this machine's", hosts
    root = labroot.existing()
    if root is None:
        return
    # Root uses the sandboxed one: without root rights the lab root is not read-only.
    if os.geteuid() == 0:
        yield "the lab root's, as root", gnuplot(root)
    yield "the lab root's", gnuplot(root, rootless=True)
