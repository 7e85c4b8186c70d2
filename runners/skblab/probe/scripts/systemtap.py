# SPDX-License-Identifier: GPL-2.0-or-later
"""SystemTap as a back end: scripts become modules in the lab root, or on the host that has stap."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from skblab.lab import kernel, paths, store, uses
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import Transport
from skblab.probe.scripts.figures import COUNTS, Figures
from skblab_analysis.base.errors import SkblabError, understood
from skblab_analysis.base.whole import MOST_COUNTED, whole

NAME = "stap"
FOLDER = "probes/systemtap"
PACKAGE = "systemtap"
READY = "ready"
# As the heads of the scripts say, and why.
OPTIONS = (
    *("-B", "KCFLAGS=-w", "-D", "STP_NO_OVERLOAD"),
    *("-D", "MAXTRYLOCK=100000", "-D", "INTERRUPTIBLE=0", "-D", "MAXACTION=1000000"),
    *("-D", "MINSTACKSPACE=0"),
)
# Of two modules that find none both make it, and the kernel warns (`_stp_mkdir_proc_module` of
# SystemTap's runtime).
HAS_FOLDER = "test -d /proc/systemtap"
# SystemTap's own, with what it asked the compiler about a kernel's tracepoints.
CACHE = "systemtap"

FIGURE = r"count (\d+), average -?\d+, total (\d+), shortest (\d+), longest (\d+) ns"
LAYER = re.compile(rf"(\w+): {FIGURE}")
POLLS = re.compile(rf"(delay|again|time) (\S+) (\S+): {FIGURE}")
BUCKET = re.compile(r"bucket (\S+) (\d+): (\d+)")
COUNT = re.compile(rf"({'|'.join(COUNTS)}): (\d+)")
DROPPED = re.compile(r"dropped: (\d+)")
PACKETS = re.compile(r"packets (\S+) (\S+): (\d+)")
SKIPPED = re.compile(r"Number of errors: (\d+), skipped probes: (\d+)")


def cache(built: kernel.Kernel) -> Path:
    """Return SystemTap's own folder for a kernel, which is there once it has compiled for it."""
    return paths.cache() / CACHE / built.key


def ensure(labroot: LabRoot, built: kernel.Kernel, name: str, reporter: Reporter) -> Path:
    """Return the module of a script, such as napi or study/end-to-end, compiled once."""
    built.require_built("SystemTap")
    plain = name.replace("/", "-")
    module = f"skblab_{plain.replace('-', '_')}.ko"
    sources = paths.tree() / FOLDER
    tapset = sorted((sources / "tapset").iterdir())
    uses.hold(CACHE, built.key)
    asked = cache(built)
    asked.mkdir(parents=True, exist_ok=True)

    inside = f"/skblab/tree/{FOLDER}"

    def build(folder: Path) -> None:
        reporter.say(f"compiling {name}.stp for {built.release}")
        with reporter.step(f"SystemTap: {name}"):
            labroot.run(
                [
                    *("stap", "-p4", "-r", "/skblab/kernel/build"),
                    *("-I", f"{inside}/tapset", *OPTIONS),
                    *("-m", module.removesuffix(".ko"), f"{inside}/{name}.stp"),
                ],
                binds=[
                    Bind(paths.tree(), "tree"),
                    Bind(folder, "out", writable=True),
                    Bind(asked, "build", writable=True),
                    Bind(built.path, "kernel"),
                ],
                # SystemTap leaves the module where it stands.
                workdir="/skblab/out",
                env={"SYSTEMTAP_DIR": "/skblab/build"},
                log=paths.cache() / "logs" / f"systemtap-{plain}.log",
                what=f"compiling {name}.stp",
            )

    texts = [file.read_bytes() for file in [sources / f"{name}.stp", *tapset]]
    key = store.digest([NAME, labroot.key, built.key, module, " ".join(OPTIONS), *texts])
    return store.ensure(CACHE + "-modules", key, reporter, build) / module


def bring_module(transport: Transport, folder: str, module: Path) -> list[str]:
    """Bring a module to a machine with that kernel; return the command that runs it."""
    transport.put(module, f"{folder}/{module.name}")
    return command(f"{folder}/{module.name}")


def command(module: str) -> list[str]:
    """Return the command that runs a module, given its path."""
    return ["staprun", module, "buckets=1"]


def bring(transport: Transport, folder: str, name: str) -> list[str]:
    """Bring a script to `folder` on a machine that has stap; return the command that runs it."""
    sources = paths.tree() / FOLDER
    transport.run(["mkdir", "-p", f"{folder}/tapset"]).check("making a folder there")
    for file in [sources / f"{name}.stp", *sorted((sources / "tapset").iterdir())]:
        transport.put(file, f"{folder}/{file.relative_to(sources)}")
    options = ("-I", f"{folder}/tapset", *OPTIONS, "-G", "buckets=1")
    return ["stap", *options, f"{folder}/{name}.stp"]


def read(lines: Iterable[str], stderr: str) -> Figures:
    """Read what a script printed; SkblabError if it is not whole."""
    kept = list(lines)
    with understood("what SystemTap printed", "".join(kept)):
        return _read(kept, stderr)


def _read(lines: Iterable[str], stderr: str) -> Figures:
    figures = Figures()
    layers: dict[str, tuple[int, int, int, int]] = {}
    polls: list[tuple[str, str, tuple[int, int, int, int]]] = []
    buckets: dict[str, dict[int, int]] = defaultdict(dict)
    work: dict[str, int] = defaultdict(int)
    for line in map(str.strip, lines):
        if found := POLLS.fullmatch(line):
            figure = (whole(found[4]), whole(found[5]), whole(found[6]), whole(found[7]))
            polls.append((found[1], found[3], figure))
        elif found := LAYER.fullmatch(line):
            layers[found[1]] = (whole(found[2]), whole(found[3]), whole(found[4]), whole(found[5]))
        elif found := BUCKET.fullmatch(line):
            buckets[found[1]][whole(found[2])] = whole(found[3], MOST_COUNTED)
        elif found := COUNT.fullmatch(line):
            figures.counts[found[1]] = whole(found[2], MOST_COUNTED)
        elif found := DROPPED.fullmatch(line):
            figures.dropped = whole(found[1], MOST_COUNTED)
        elif found := PACKETS.fullmatch(line):
            work[found[2]] += whole(found[3], MOST_COUNTED)
    for name, (count, total, shortest, longest) in layers.items():
        if sum(buckets[name].values()) != count:
            raise SkblabError(f"SystemTap counts {count} in {name}, but other buckets")
        figures.layer(name, buckets[name], total, longest, minimum=shortest)
    _add_polls(figures, polls, buckets, work)
    for match in SKIPPED.finditer(stderr):
        figures.missed += whole(match[1]) + whole(match[2])
    return figures


def _add_polls(
    figures: Figures,
    polls: list[tuple[str, str, tuple[int, int, int, int]]],
    buckets: dict[str, dict[int, int]],
    work: dict[str, int],
) -> None:
    """Add polls by context; the script has exact figures by device and context."""
    for ours in ("delay", "time"):
        names = ("delay", "again") if ours == "delay" else (ours,)
        for context in dict.fromkeys(context for name, context, _ in polls if name in names):
            some = [figure for name, where, figure in polls if name in names and where == context]
            held: dict[int, int] = defaultdict(int)
            for name in names:
                for lower, count in buckets[f"{name}-{context}"].items():
                    held[lower] += count
            figures.poll(
                ours,
                context,
                held,
                total=sum(total for _, total, _, _ in some),
                maximum=max(longest for _, _, _, longest in some),
                minimum=min(shortest for _, _, shortest, _ in some),
                work=work[context] if ours == "time" else None,
            )
