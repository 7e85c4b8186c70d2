# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin that counts, probes/functions/count.c: compiled in the lab root, and cached."""

from __future__ import annotations

from pathlib import Path

from skblab.bench.functions.caches import Chosen
from skblab.lab import paths, store
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, one_line

FOLDER = "probes/functions"
NAME = "count.so"
# Of the guest's programs, the one that prints where its kernel has what.
LAYOUT = "layout"
COMPILE = (
    *("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-o", f"/skblab/out/{NAME}", f"/skblab/tree/{FOLDER}/count.c"),
)
# Ends at once: the plugin says that it was loaded, and refuses to go on.
CHECK = (
    f"exec qemu-system-x86_64 -M none -nodefaults -display none -plugin /skblab/out/{NAME},check=on"
)
LOADED = "count: loaded"


def ensure(labroot: LabRoot, reporter: Reporter) -> Path:
    """Return a folder with the plugin, NAME."""

    def build(folder: Path) -> None:
        reporter.say("compiling the plugin that counts instructions")
        with reporter.step("functions: plugin"):
            labroot.run(
                COMPILE,
                binds=[Bind(paths.tree(), "tree"), Bind(folder, "out", writable=True)],
                log=paths.cache() / "logs" / "functions-plugin.log",
                what="compiling the plugin",
            )
        _check(folder, labroot)

    # QEMU is the lab root's.
    sources = [file.read_bytes() for file in sorted((paths.tree() / FOLDER).glob("*.[ch]"))]
    key = store.digest(["functions", labroot.key, *COMPILE, *sources])
    return store.ensure("functions", key, reporter, build)


def _check(folder: Path, labroot: LabRoot) -> None:
    """Raise SkblabError if the lab root's QEMU is one that the plugin was not tested with."""
    said = labroot.run(
        ["sh", "-c", f"({CHECK}) 2>&1 || :"],
        binds=[Bind(folder, "out")],
        what="loading the plugin",
    )
    if LOADED not in said:
        version = labroot.versions.get("qemu-system-x86", "of an unknown version")
        raise SkblabError(
            f"QEMU {version} of the lab root cannot count by function: {one_line(said)}; "
            f"{FOLDER}/count.c declares the interface of QEMU 10.0; test it with this one"
        )


def argument(
    plugin: str, counts: str, caches: Chosen | None = None, layout: str = "", node: int = 0
) -> str:
    """Return QEMU's -plugin that writes to the file `counts`; paths are the sandbox's.

    With `caches` it simulates these, too; with a file for the kernel's `layout`, which LAYOUT
    prints in the guest, it tells of which types what it accesses is. With `node` there are two CPUs
    on nodes that have so many bytes of memory each.
    """
    more = [f"caches={caches.words}", *([f"layout={layout}"] if layout else [])] if caches else []
    more += [f"node={node}"] if caches and node else []
    return ",".join([plugin, f"out={counts}", *more])
