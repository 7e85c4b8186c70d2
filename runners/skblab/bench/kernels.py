# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels of a benchmark: finished ones that a user has, and those that are built for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skblab.bench import plan
from skblab.lab import kernel
from skblab.lab.kernel.lines import Line
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.functions import Identity

# Kernels of the user's own: finished ones, or a patch after the series.
Others = dict[str, kernel.Kernel | Path]


def patches(line: Line) -> dict[str, Path]:
    """Return the alternatives that are patches in the folder of a line, by name."""
    return {patch.stem: patch for patch in line.alternatives}


def already(others: Others) -> list[str]:
    """Return the names of those that are kernels already."""
    return [name for name, other in others.items() if isinstance(other, kernel.Kernel)]


def alternatives(given: list[str]) -> dict[str, kernel.Kernel]:
    """Return the kernels of --alternative by name."""
    found = {}
    for text in given:
        name, equals, place = text.partition("=")
        if not equals or not name.isidentifier() or not name.islower():
            raise UsageError(
                f"--alternative {text}: expected NAME=FOLDER with a lower-case word as NAME"
            )
        found[name] = finished(place, f"--alternative {text}")
    return found


def finished(place: str, option: str) -> kernel.Kernel:
    """Return the finished kernel in a folder; UsageError that begins with `option` if none is."""
    folder = Path(place).expanduser().resolve()
    if not (folder / "bzImage").is_file() or not (folder / "kernel.json").is_file():
        raise UsageError(
            f"{option}: {folder} holds no finished kernel; "
            "expected a folder that `skblab kernel build` printed"
        )
    return kernel.Kernel(folder, folder.name)


def ensure_kernel(
    name: str,
    others: Others,
    root: LabRoot,
    reporter: Reporter,
    line: Line,
    jobs: int | None = None,
) -> kernel.Kernel:
    """Return the kernel of that name: a finished one that was given, or one built with `jobs`."""
    other = others.get(name)
    if isinstance(other, kernel.Kernel):
        return other
    request = plan.request(name, other, line)
    if jobs is not None:
        request = replace(request, jobs=jobs)
    return kernel.ensure(request, root, reporter)


def identity(named: Name, built: kernel.Kernel) -> Identity:
    """Return how a kernel was named, and what it was built from."""
    record = built.record
    return Identity(
        name=str(named),
        release=built.release,
        key=built.key,
        source=record.source_version,
        revision=built.commit,
        source_digest=record.source_digest,
        config_sha256=record.config_sha256,
        patches=tuple(patch.name for patch in record.patches),
        lacking=record.lacking,
    )
