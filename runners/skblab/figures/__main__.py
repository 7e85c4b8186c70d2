# SPDX-License-Identifier: GPL-2.0-or-later
"""`make figures`: run the commands of the documents' figures, and say which differ."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from rich.table import Table

from skblab.figures.comparing import Compared, compare
from skblab.figures.listing import Command, Figure, Listing, read
from skblab.lab import paths
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base.errors import SkblabError, UsageError

# With everything in the cache.
SHORT_SECONDS = 60
# Emulation on a loaded machine is slow and not dead; and there may be something to build.
LONGER, BUILD_SECONDS = 20, 3600


def chosen(listing: Listing, words: list[str]) -> list[str]:
    """Return the names of the commands to run: the short ones, all, or those that are named."""
    runnable = {name: command for name, command in listing.command.items() if not command.needs}
    if words == ["all"]:
        return list(runnable)
    if unknown := [word for word in words if word not in listing.command]:
        raise UsageError(
            f"FIGURES={unknown[0]}: no such command; expected all, or of: "
            f"{', '.join(listing.command)}"
        )
    return words or [name for name, command in runnable.items() if command.seconds <= SHORT_SECONDS]


def run(command: Command) -> str:
    """Return what a command prints; its results are not kept. SkblabError if it fails."""
    with tempfile.TemporaryDirectory(prefix="skblab-figures-") as results:
        try:
            done = subprocess.run(
                ["sh", "-c", command.run],
                cwd=paths.tree(),
                env={**os.environ, "SKBLAB_RESULTS": results},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=command.seconds * LONGER + BUILD_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise SkblabError(f"{command.run}: not done after {error.timeout:.0f} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SkblabError(f"{command.run}: exit status {done.returncode}: {last}")
    # As documents have it: spaces that do not break are typed as others.
    return done.stdout.replace("\u00a0", " ").replace("\u202f", " ")


def cpu_seconds() -> float:
    """Return the CPU time of all that ran so far: it does not depend on what runs beside."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shown(figures: list[Compared]) -> Table:
    """Return the table of what is compared."""
    table = Table("figure", "document", title="Figures of the documents", box=None, pad_edge=False)
    for column in ("then", "now", "difference", "may differ by", ""):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for figure in figures:
        now, difference = ("missing", "")
        if figure.now is not None:
            now, difference = f"{figure.now:g}", f"{figure.now - figure.then:+.4g}"
        said = "" if figure.holds else "differs"
        table.add_row(
            figure.name,
            figure.document,
            f"{figure.then:g}",
            now,
            difference,
            str(figure.within),
            said,
        )
    return table


def not_run(listing: Listing, names: list[str]) -> Iterator[str]:
    """Yield a line for each command that takes too long, and for what has to be read by hand."""
    for name, command in listing.command.items():
        if name not in names and command.needs:
            yield f"not run (it needs {command.needs}): {command.run}"
        elif name not in names:
            yield f"not run ({command.seconds} s): {command.run}    # FIGURES={name}"
    for figure in listing.figure:
        if figure.command in names and figure.by_hand:
            yield f"to be read by hand: {figure.document}: {figure.text}: {figure.by_hand}"


def main(words: list[str]) -> int:
    """Run, compare and print; 1 if a figure differs by more than it may."""
    reporter, console = Reporter(), printer()
    listing = read()
    names = chosen(listing, words)
    found: list[Compared] = []
    failed = 0
    for name in names:
        own: list[Figure] = [figure for figure in listing.figure if figure.command == name]
        begun, used = time.monotonic(), cpu_seconds()
        reporter.say(f"{name}: {listing.command[name].run}")
        try:
            output = run(listing.command[name])
        except SkblabError as error:
            reporter.say(f"skblab: {error}")
            failed += 1
            continue
        took = time.monotonic() - begun
        reporter.say(f"{name}: {took:.0f} s, {cpu_seconds() - used:.0f} s of CPU")
        found += [compared for figure in own for compared in compare(figure, output)]
    console.print(shown(found))
    for line in not_run(listing, names):
        console.print(line, soft_wrap=True)
    differing = sum(not figure.holds for figure in found)
    console.print(f"{len(found)} figures compared, {differing} differ; {failed} commands failed")
    return 1 if differing or failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UsageError as error:
        Reporter().say(f"skblab: {error}")
        sys.exit(2)
