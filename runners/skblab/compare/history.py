# SPDX-License-Identifier: GPL-2.0-or-later
"""How far apart boots of one kernel were, by workload: what `runners/workloads/history.json` has.

`make workload-history` measures it anew. What was measured of a workload's file as it was before
says nothing of it now. The scripts that it goes on from may have changed: how far boots are apart
is no matter of a line of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from skblab.compare.workload import Workload, folder, shipped
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.checked import read as read_document
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.compare import CompareDocument

FILE = "history.json"
# Of `make workload-history`: 45 differences.
BOOTS = 10


class Boots(Closed):
    """The figures of one workload in boots of one kernel."""

    digest: str = Field(description="SHA-256 of the workload's file")
    instructions: tuple[float, ...] = Field(description="instructions per unit, one for each boot")


class History(Closed):
    """The whole of the file."""

    kernel: str = Field(default="", description="the kernel, as --kernel names it")
    packets: int = Field(default=0, description="units of the longer run")
    workloads: dict[str, Boots] = Field(default_factory=dict)
    lacking: tuple[str, ...] = Field(default=(), description="workloads that the kernel cannot do")

    def of(self, workload: Workload, packets: int) -> list[float]:
        """Return what any two boots differ by, in instructions per unit; nothing if unknown.

        Of shorter runs than were measured nothing is known: they differ more.
        """
        boots = self.workloads.get(workload.name)
        if boots is None or boots.digest != workload.digest or packets < self.packets:
            return []
        return [abs(a - b) for a, b in itertools.combinations(boots.instructions, 2)]


def path() -> Path:
    """Return the file that comes with skblab."""
    return folder() / FILE


def read(file: Path | None = None) -> History:
    """Return what is known; nothing where there is no file."""
    file = path() if file is None else file
    return read_document(History, file, "the history") if file.is_file() else History()


def of_run(document: CompareDocument, workloads: Sequence[Workload]) -> History:
    """Return what a run says whose sides are all the same kernel."""
    known = {one.name for one in document.workloads}
    lacking = {one.workload: None for one in document.measured if one.cause == "lacking"}
    # Of these nothing is known, whether the kernel lacks something or a boot went wrong.
    failed = {one.workload for one in document.measured if one.figure is None}
    return History(
        kernel=document.sides[0].kernel.name,
        packets=document.packets,
        workloads={
            workload.name: Boots(
                digest=workload.digest,
                instructions=tuple(
                    round(one.figure.instructions, 2)
                    for one in document.measured
                    if one.workload == workload.name and one.figure is not None
                ),
            )
            for workload in workloads
            if workload.name in known and workload.name not in failed
        },
        lacking=tuple(lacking),
    )


def merged(known: History, made: History, names: Collection[str]) -> History:
    """Return what is known with what a run says of its own workloads; `names` are all there are.

    What was measured on another kernel, or with another number of packets, is not kept.
    """
    if (known.kernel, known.packets) != (made.kernel, made.packets):
        return made
    lacking = {one for one in known.lacking if one not in made.workloads} | set(made.lacking)
    workloads = {
        name: boots
        for name, boots in {**known.workloads, **made.workloads}.items()
        if name not in made.lacking and name in names
    }
    return made.model_copy(
        update={"workloads": dict(sorted(workloads.items())), "lacking": tuple(sorted(lacking))}
    )


def main(
    run: Annotated[Path, typer.Argument(metavar="FILE", help="compare.json of a run")],
) -> None:
    """Keep what a run says whose sides are one kernel, in place of what was known of it."""
    document = read_document(CompareDocument, run, "the document of a comparison")
    kernels = {(side.kernel.name, *sorted(side.settings.items())) for side in document.sides}
    if len(kernels) > 1:
        names = ", ".join(side.name for side in document.sides)
        raise UsageError(f"{run}: expected boots of one kernel, and it has {names}")
    there = shipped()
    made = merged(read(), of_run(document, there), [one.name for one in there])
    write_whole(path(), made.model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
