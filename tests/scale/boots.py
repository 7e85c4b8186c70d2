# SPDX-License-Identifier: GPL-2.0-or-later
"""What boots cost on a node: the same code that an element of a comparison runs."""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from skblab.compare import remote, sides, workload
from skblab.compare.asked import Asked
from skblab.jobs.model import Artefact
from skblab.lab import labroot, paths
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.registry import KIND as KERNELS
from skblab.lab.reporter import Reporter
from skblab.lab.store import entry
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError


@dataclass(frozen=True)
class Boots:
    """CPU seconds of an element's begin and of each boot, the last result, and rows of a result."""

    begin: float
    tasks: dict[str, float]
    result: dict[str, JsonValue]
    rows: float
    root: Artefact
    kernel: Artefact


def cpu_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def cached_kernel() -> str:
    """Return the key of a kernel that was built here from source and kept; none is built."""
    built = sorted((paths.cache() / KERNELS).glob("*/vmlinux"))
    stock = [
        file.parent.name
        for file in built
        if '"flavour": "stock"' in (file.parent / "kernel.json").read_text()
    ]
    if not stock:
        raise SkblabError(
            f"{paths.cache()} has no kernel that was built from source; mend with: make kernel"
        )
    return stock[-1]


def measure(names: Sequence[str], reporter: Reporter) -> Boots:
    """Boot each workload once; all that are shipped, if none is named."""
    used = cpu_seconds()
    # What an element loads before it begins, and the shell that calls it.
    subprocess.run(
        [str(paths.tree() / "skblab"), "compare", "--list"], stdout=subprocess.DEVNULL, check=True
    )
    root = labroot.ensure(reporter)
    chosen = workload.choose(list(names), quick=False)
    asked = Asked(sides.parse_all(["6.12"], "6.12", {}, "stock"), chosen)
    counts = remote.counting_with(root, reporter)
    campaign = remote.campaign(asked, counts, root)
    key = cached_kernel()
    kernels = {0: Kernel(entry(KERNELS, key), key)}
    spent: dict[str, float] = {}
    result: dict[str, JsonValue] = {}
    rows = 0.0
    with remote.begin(campaign, reporter) as run:
        begin = cpu_seconds() - used
        for (name, _, boot), task in remote.tasks(asked, counts, kernels).items():
            if boot:
                continue
            used, began = cpu_seconds(), time.monotonic()
            with tempfile.TemporaryDirectory() as scratch:
                result = run(task, Path(scratch))
            figure = parse(remote.Counted, result, name).figure
            if figure is None:
                raise SkblabError(f"{name}: the boot gave no figure: {result.get('why')}")
            spent[name] = cpu_seconds() - used
            wall = time.monotonic() - began
            reporter.say(f"{name}: {spent[name]:.1f} s of CPU, {wall:.1f} s")
            rows += 2 + len(figure.functions)
    return Boots(
        begin,
        spent,
        result,
        rows / len(spent),
        Artefact(kind="roots", key=root.key),
        Artefact(kind=KERNELS, key=key),
    )
