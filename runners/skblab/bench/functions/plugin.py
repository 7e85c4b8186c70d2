# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin that counts, probes/functions/count.c: compiled in the lab root, and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

SOURCE = "probes/functions/count.c"
NAME = "count.so"
COMPILE = (
    *("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-o", f"/skblab/out/{NAME}", f"/skblab/tree/{SOURCE}"),
)


@dataclass(frozen=True)
class Mark:
    """Where a section begins and where it ends: addresses of instructions, or one for both."""

    on: int
    off: int


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

    source = (paths.tree() / SOURCE).read_bytes()
    key = store.digest(["functions", labroot.key, *COMPILE, source])
    return store.ensure("functions", key, reporter, build)


def argument(plugin: str, counts: str, marks: Sequence[Mark]) -> str:
    """Return QEMU's -plugin for section n between marks n; paths are the sandbox's."""
    sections = (f"section={mark.on:x}:{mark.off:x}" for mark in marks)
    return ",".join([plugin, f"out={counts}", *sections])
