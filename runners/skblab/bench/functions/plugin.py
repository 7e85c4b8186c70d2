# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin that counts, probes/functions/count.c: compiled in the lab root, and cached."""

from __future__ import annotations

from pathlib import Path

from skblab.lab import paths, store
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

FOLDER = "probes/functions"
NAME = "count.so"
COMPILE = (
    *("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-o", f"/skblab/out/{NAME}", f"/skblab/tree/{FOLDER}/count.c"),
)


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

    sources = [file.read_bytes() for file in sorted((paths.tree() / FOLDER).glob("*.[ch]"))]
    key = store.digest(["functions", labroot.key, *COMPILE, *sources])
    return store.ensure("functions", key, reporter, build)


def argument(plugin: str, counts: str) -> str:
    """Return QEMU's -plugin that writes to the file `counts`; paths are the sandbox's."""
    return f"{plugin},out={counts}"
