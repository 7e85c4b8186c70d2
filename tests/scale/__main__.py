# SPDX-License-Identifier: GPL-2.0-or-later
"""Print what 10 000 revisions of 30 workloads take, by number of nodes and by plan.

python -m scale [--revisions N] [--costs FILE]      (make bench-scale)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.table import Table

from scale.costs import FILE, Costs, load
from scale.model import Found, Plan, run
from skblab.lab.reporter import Reporter, printer
from skblab_analysis.base import words
from skblab_analysis.base.errors import SkblabError

HOUR, GIGA, TERA = 3600.0, 1e9, 1e12
NODES = (1, 10, 100, 1000, 10_000)
MANY = 1000
OUTSTANDING = 10_000
# Costs that are halved and doubled together.
PARTS = {
    "a boot": ("tasks",),
    "a kernel's build": ("build_hit", "build_miss"),
    "packing a kernel": ("pack_kernel",),
    "bytes of a kernel": ("kernel_bytes",),
    "unpacking": ("unpack_kernel", "unpack_root"),
    "begin of an element": ("begin",),
    "slurmctld": ("sbatch", "sbatch_element", "squeue", "squeue_element", "element"),
    "writing to the store": ("put", "put_share"),
    "listing and reading": ("list_name", "get"),
    "rows of the compactor": ("pack_row",),
}


def plans(base: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield what may be done, each beside all that comes before it."""
    yield "as it is", base
    yield "kernels of the next command meanwhile", (base := replace(base, ahead=1))
    base = replace(base, ahead=0, build_on_nodes=True)
    yield "nodes build kernels", base
    base = replace(base, appends=True)
    yield "the compactor appends", base
    base = replace(base, sides=base.revisions)
    yield "one command for all", base
    base = replace(base, bounds=replace(base.bounds, outstanding=OUTSTANDING))
    yield "10 000 elements outstanding", base


def alone(base: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield what may be done about nodes that fetch kernels that one machine built."""
    base = replace(base, sides=base.revisions, appends=True, ahead=0)
    base = replace(base, bounds=replace(base.bounds, outstanding=OUTSTANDING))
    yield "kernels are there, one server", base
    yield "four servers", replace(base, servers=4)
    yield "nodes fetch a quarter of a kernel", replace(base, fetched=0.25)
    yield "results of an element in one file", replace(base, together=True)
    yield "elements of 5 minutes", replace(base, bounds=replace(base.bounds, least=300.0))
    yield "elements of 30 minutes", replace(base, bounds=replace(base.bounds, least=1800.0))


def built(costs: Costs) -> Costs:
    """Return the costs where all kernels are in the store already."""
    return scaled(costs, ("build_hit", "build_miss", "pack_kernel"), 1e-9)


def scaled(costs: Costs, names: Sequence[str], factor: float) -> Costs:
    """Return costs with some of them multiplied."""
    found: dict[str, object] = {}
    for name in names:
        value = getattr(costs, name)
        if isinstance(value, dict):
            found[name] = {key: factor * one for key, one in value.items()}
        else:
            found[name] = (
                max(1, round(factor * value)) if isinstance(value, int) else factor * value
            )
    return costs.model_copy(update=found)


def titled(*names: str) -> Table:
    """Return an empty table; its first column is at the left."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(names):
        shown.add_column(name, justify="right" if number else "left", no_wrap=True)
    return shown


def totals(plan: Plan, costs: Costs, found: Found) -> Table:
    """Return what all of it costs, by what is spent."""
    tasks = plan.revisions * plan.workloads
    misses = round(plan.misses * plan.revisions)
    builds = misses * costs.build_miss + (plan.revisions - misses) * costs.build_hit
    shown = titled("what", "each", "unit", "number", "total", "unit")

    def row(what: str, each: float, unit: str, number: float, total: float, of: str) -> None:
        shown.add_row(
            what,
            f"{each:.3g}",
            unit,
            words.number(number),
            words.number(total),
            of,
        )

    row("boots", costs.task, "s", tasks, tasks * costs.task / HOUR, "core h")
    row("kernels built", builds / plan.revisions, "s", plan.revisions, builds / HOUR, "core h")
    packing = plan.revisions * costs.pack_kernel
    row("kernels packed", costs.pack_kernel, "s", plan.revisions, packing / HOUR, "core h")
    row(
        "begin, unpacking",
        found.beside / plan.revisions,
        "s",
        plan.revisions,
        found.beside / HOUR,
        "core h",
    )
    kernels = plan.revisions * costs.kernel_bytes
    row(
        "kernels in the store", costs.kernel_bytes / 1e6, "MB", plan.revisions, kernels / GIGA, "GB"
    )
    row("records", costs.record_bytes / 1e3, "kB", tasks, tasks * costs.record_bytes / GIGA, "GB")
    rows = tasks * costs.rows
    row("rows of Parquet", costs.row_bytes, "bytes", rows, rows * costs.row_bytes / GIGA, "GB")
    row(
        "network",
        found.moved / 1e6 / plan.revisions,
        "MB",
        plan.revisions,
        found.moved / GIGA,
        "GB",
    )
    return shown


def units(costs: Costs) -> Table:
    """Return what one of each thing costs, in milliseconds."""
    shown = titled("unit cost", "ms")
    for name, seconds in (
        ("a boot, least", min(costs.tasks.values())),
        ("a boot, most", max(costs.tasks.values())),
        ("a kernel is built, few C files changed", costs.build_hit),
        ("a kernel is built, all files", costs.build_miss),
        ("a kernel is packed", costs.pack_kernel),
        ("a kernel is unpacked", costs.unpack_kernel),
        ("the lab root is unpacked", costs.unpack_root),
        ("an element begins", costs.begin),
        ("a record is written, one writer", costs.put),
        ("a record is written, eight writers", costs.put_share),
        ("a record is read", costs.get),
        ("10 000 records are listed", 10_000 * costs.list_name),
        ("sbatch, 1000 elements", costs.sbatch + 999 * costs.sbatch_element),
        ("squeue, 5000 elements", costs.squeue + 5000 * costs.squeue_element),
        ("slurmctld, an element", costs.element),
        ("a million rows are packed", 1e6 * costs.pack_row),
    ):
        shown.add_row(name, words.number(1000 * seconds, 1))
    return shown


def hours(found: Found) -> str:
    """Return hours."""
    return f"{found.seconds / HOUR:.1f}"


def row_of(name: str, found: Found) -> list[str]:
    """Return a row: hours, and how busy each part was, in percent."""
    busy = [f"{100 * share:.1f}" for share in found.shares.values()]
    return [name, hours(found), *busy, str(found.at_once), found.limit]


def busy_table(first: str) -> Table:
    """Return the table whose rows `row_of` makes."""
    parts = ("CPUs", "client", "slurmctld", "link", "store", "compactor")
    return titled(first, "hours", *parts, "at once", "limit")


def sensitivity(plan: Plan, costs: Costs) -> Table:
    """Return by how much the time changes when a cost is half or double."""
    shown = titled("cost", "half, %", "double, %")
    base = run(plan, costs).seconds
    for name, of in PARTS.items():
        changed = [run(plan, scaled(costs, of, factor)).seconds for factor in (0.5, 2)]
        shown.add_row(name, *(f"{100 * (one / base - 1):+.1f}" for one in changed))
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--costs", type=Path, default=FILE)
    parser.add_argument("--revisions", type=int, default=Plan().revisions)
    asked = parser.parse_args(arguments)
    costs = load(asked.costs)
    base = Plan(revisions=asked.revisions)
    console = printer()
    console.print(units(costs))
    console.print(totals(base, costs, run(base, costs)))
    shown = busy_table("nodes, as it is")
    for nodes in NODES:
        shown.add_row(*row_of(str(nodes), run(replace(base, nodes=nodes), costs)))
    console.print(shown)
    shown = busy_table(f"plan, {MANY} nodes")
    last = base
    for name, plan in plans(replace(base, nodes=MANY)):
        shown.add_row(*row_of(name, run(plan, costs)))
        last = plan
    console.print(shown)
    shown = busy_table("nodes, with all of these")
    for nodes in NODES:
        shown.add_row(*row_of(str(nodes), run(replace(last, nodes=nodes), costs)))
    console.print(shown)
    shown = busy_table(f"kernels built before, {MANY} nodes")
    for name, plan in alone(replace(base, nodes=MANY)):
        shown.add_row(*row_of(name, run(plan, built(costs))))
    console.print(shown)
    for name, plan in (("as it is", replace(base, nodes=MANY)), ("with all of these", last)):
        console.print(f"sensitivity, {name}")
        # A tenth of the revisions: twenty runs each.
        fewer = replace(plan, revisions=max(1, plan.revisions // 10))
        console.print(sensitivity(fewer, costs))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SkblabError as error:
        Reporter().say(f"skblab: {error}")
        sys.exit(error.exit_code)
