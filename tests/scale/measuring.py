# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure on this machine what one of each thing costs: `make scale-costs`.

    python -m scale.measuring [--workload NAME]… [--into FILE]

It needs root, Slurm (make setup-tests), the lab root, and a kernel that was built here (make
kernel). It boots guests, and builds nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import large_store
import psutil

from scale import boots
from scale.boots import Boots, cpu_seconds
from scale.costs import FILE, Costs, Made
from skblab import __version__
from skblab.jobs import artefacts
from skblab.jobs.model import Artefact, Record
from skblab.jobs.store import Store
from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab.lab.store import entry
from skblab_analysis.base.disk import now
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.warehouse import store as warehouse
from slurm_cluster import PROGRAMS, Cluster, cluster

# Packets forwarded, sockets, a stream of TCP, XDP: others of the thirty take as long or longer.
WORKLOADS = ("forward4", "udp-receive4", "tcp-stream4", "xdp-redirect")
LISTED, READ, WRITERS, WRITTEN = 10_000, 500, 8, 100
ARRAY, ARRAYS, EMPTY = 1000, 3, 200
RUNS = 100
# Processor time of a kernel of which few C files have changed, on two CPUs for a minute:
# docs/howto/find-the-slow-commit.md says so. No build is started here.
BUILD_HIT = 120.0


def timed(work: Callable[[], object]) -> float:
    """Return seconds by the clock."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def worked(work: Callable[[], object]) -> float:
    """Return seconds of processors."""
    used = cpu_seconds()
    work()
    return cpu_seconds() - used


def record(number: int, found: Boots) -> Record:
    """Return a record as a boot made one."""
    return Record(
        key=f"{number:064x}"[::-1],
        kind="compare",
        versions={"skblab": __version__, "python": platform.python_version()},
        host="here",
        job="1_0",
        attempt=1,
        made=now().isoformat(),
        seconds=1.0,
        result=found.result,
    )


def write_many(folder: Path, found: Boots, first: int) -> None:
    """Write records, as one of some writers."""
    store = Store.open(folder)
    for number in range(first, first + WRITTEN):
        store.put(record(number, found))


def of_store(folder: Path, found: Boots) -> dict[str, float]:
    """Return what the store's calls cost, on an empty one in a folder."""
    store = Store.open(folder, make=True)
    alone = [timed(lambda n=n: store.put(record(n, found))) for n in range(WRITTEN)]  # type: ignore[misc]
    with ProcessPoolExecutor(WRITERS, mp_context=get_context("spawn")) as pool:
        firsts = [WRITTEN * (1 + number) for number in range(WRITERS)]
        # Interpreters start before the clock.
        list(pool.map(abs, range(4 * WRITERS)))
        many = timed(
            lambda: list(pool.map(write_many, [folder] * WRITERS, [found] * WRITERS, firsts))
        )
    text = record(0, found).model_dump_json()
    for number in range(WRITTEN * (WRITERS + 1), LISTED):
        file = store.record_file(record(number, found).key)
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    assert len(store.recorded()) == LISTED
    listed = median(worked(store.recorded) for _ in range(5))
    keys = [record(number, found).key for number in range(READ)]
    return {
        "put": median(alone),
        "put_share": many / WRITERS / WRITTEN,
        "record_bytes": len(text),
        "list_name": listed / LISTED,
        "get": worked(lambda: [store.get(key) for key in keys]) / READ,
    }


def of_artefact(folder: Path, one: Artefact, reporter: Reporter) -> tuple[float, float, int]:
    """Return CPU seconds of packing and unpacking an entry of the cache, and bytes between."""
    store = Store.open(folder, make=True)
    pack = worked(lambda: artefacts.pack(store, [one], reporter))
    file = artefacts.found(store, one)
    assert file is not None
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        unpack = worked(lambda: artefacts.unpacked(store, one, reporter)(Path(place)))
    return pack, unpack, file.stat().st_size


def of_slurm(made: Cluster) -> dict[str, float]:
    """Return what calls and elements cost of a cluster; it is idle, and is in the end."""
    control = psutil.Process(made.running["slurmctld"].pid)

    def busy() -> float:
        times = control.cpu_times()
        return float(times.user + times.system)

    call = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--wrap=true", "--mem=1")
    squeue = ("squeue", "--me", "--noheader", "--array", "--format=%F|%K|%T|%r|%j")
    idle = median(timed(lambda: made.run(*squeue)) for _ in range(5))
    one = median(timed(lambda: made.run(*call, "--hold", "--array=0-0")) for _ in range(5))
    many = median(
        timed(lambda: made.run(*call, "--hold", f"--array=0-{ARRAY - 1}")) for _ in range(ARRAYS)
    )
    listed = len(made.run(*squeue).splitlines())
    assert listed == 5 + ARRAY * ARRAYS
    full = median(timed(lambda: made.run(*squeue)) for _ in range(5))
    made.run("scancel", "--me")
    while made.run(*squeue):
        time.sleep(0.2)
    used = busy()
    made.run(*call, f"--array=0-{EMPTY - 1}")
    while made.run(*squeue):
        time.sleep(2)
    return {
        "sbatch": one,
        "sbatch_element": max(1e-9, (many - one) / (ARRAY - 1)),
        "squeue": idle,
        "squeue_element": max(1e-9, (full - idle) / listed),
        "element": max(1e-9, (busy() - used) / EMPTY),
    }


def of_compactor(folder: Path) -> dict[str, float]:
    """Return what a row costs that is packed, as those of many runs are."""
    tables = large_store.made_up(RUNS)
    work = worked(lambda: warehouse.write(folder, tables))
    with warehouse.opened(folder) as pack:
        files = pack.document.files
    rows, size = sum(one.rows for one in files), sum(one.bytes for one in files)
    return {"pack_row": work / rows, "row_bytes": size / rows}


def build_miss(kernel: Artefact) -> float:
    """Return CPU seconds that a kernel took at most: by the clock, times the processors."""
    document = json.loads((entry(kernel.kind, kernel.key) / "kernel.json").read_text())
    return float(document["seconds"]) * (os.cpu_count() or 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", action="append", help="boot this one; may be repeated")
    parser.add_argument("--into", type=Path, default=FILE)
    asked = parser.parse_args(arguments)
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        raise SkblabError(f"this machine lacks {', '.join(missing)}; mend with: make setup-tests")
    reporter = Reporter()
    load = os.getloadavg()[0]
    paths.results().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scale-", dir=paths.results()) as place:
        folder = Path(place)
        reporter.say("Slurm")
        with cluster() as made:
            slurm = of_slurm(made)
            version = made.run("sbatch", "--version").split()[-1]
        reporter.say("the compactor")
        compactor = of_compactor(folder / "warehouse")
        reporter.say("boots")
        found = boots.measure(asked.workload or WORKLOADS, reporter)
        reporter.say("the store")
        store = of_store(folder / "records", found)
        pack_kernel, unpack_kernel, kernel_bytes = of_artefact(
            folder / "kernel", found.kernel, reporter
        )
        _, unpack_root, root_bytes = of_artefact(folder / "root", found.root, reporter)
        disk = subprocess.run(
            ["findmnt", "--noheadings", "--output=FSTYPE", "--target", place],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    costs = Costs.model_validate(
        {
            "made": Made(
                command=shlex.join(["make", "scale-costs", *_given(asked.workload or ())]),
                at=now().isoformat(timespec="seconds"),
                processors=os.cpu_count() or 1,
                load=load,
                disk=disk,
                slurm=version,
            ),
            "begin": found.begin,
            "tasks": found.tasks,
            "rows": found.rows,
            "unpack_root": unpack_root,
            "root_bytes": root_bytes,
            "pack_kernel": pack_kernel,
            "unpack_kernel": unpack_kernel,
            "kernel_bytes": kernel_bytes,
            "build_hit": BUILD_HIT,
            "build_miss": build_miss(found.kernel),
            **store,
            **slurm,
            **compactor,
        }
    )
    asked.into.write_text(costs.model_dump_json(indent=1) + "\n")
    return 0


def _given(names: Sequence[str]) -> list[str]:
    words = " ".join(f"--workload {name}" for name in names)
    return [f"COSTS_ARGS={words}"] if words else []


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SkblabError as error:
        Reporter().say(f"skblab: {error}")
        sys.exit(error.exit_code)
