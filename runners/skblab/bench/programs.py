# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmark's rows run in the guest, compiled in the lab root and cached by content."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from skblab.lab import kernel, paths, store, tools
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

FOLDERS = ("probes/bench", "probes/bpf", "probes/functions")
MODULE = "skblab_path"

COMPILE = """
cd /skblab/tree/probes/bench
for program in drain exchange marked; do
	gcc -O2 -Wall -Wextra -Werror -o "/skblab/out/$program" "$program.c"
done
gcc -O2 -Wall -Wextra -Werror -o /skblab/out/layout ../functions/layout.c -lbpf
for source in *.bpf.c; do
	clang -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter \\
		-idirafter "/usr/include/$(gcc -print-multiarch)" -c "$source" \\
		-o "/skblab/out/${source%.c}.o"
done
"""


def ensure(labroot: LabRoot, reporter: Reporter) -> Path:
    """Return a folder with the BPF objects and the reading program; they fit every kernel."""
    sources = [file for folder in FOLDERS for file in _files(paths.tree() / folder, "*.[ch]")]

    def build(folder: Path) -> None:
        reporter.say("compiling the benchmark's programs")
        with reporter.step("bench: programs"):
            labroot.run(
                ["sh", "-euc", COMPILE],
                binds=[Bind(paths.tree(), "tree"), Bind(folder, "out", writable=True)],
                log=paths.cache() / "logs" / "bench-programs.log",
                what="compiling the benchmark's programs",
            )

    key = store.digest(["bench", labroot.key, COMPILE, *(file.read_bytes() for file in sources)])
    return store.ensure("bench", key, reporter, build)


def ensure_module(labroot: LabRoot, built: kernel.Kernel, reporter: Reporter) -> Path:
    """Return the folder of the SystemTap module for that kernel."""
    built.require_built("SystemTap")
    script = paths.tree() / "probes" / "bench" / "path.stp"

    def build(folder: Path) -> None:
        reporter.say(f"compiling the SystemTap module for {built.release}")
        with reporter.step("bench: SystemTap module"):
            labroot.run(
                [
                    *("stap", "-p4", "-r", "/skblab/kernel/build", "-m", MODULE),
                    f"/skblab/tree/probes/bench/{script.name}",
                ],
                binds=[
                    Bind(paths.tree(), "tree"),
                    Bind(folder, "out", writable=True),
                    Bind(built.path, "kernel"),
                ],
                # SystemTap leaves the module where it stands.
                workdir="/skblab/out",
                log=paths.cache() / "logs" / "bench-systemtap.log",
                what="compiling the SystemTap module",
            )

    key = store.digest(["systemtap", labroot.key, built.key, script.read_bytes()])
    return store.ensure("bench", key, reporter, build)


@contextlib.contextmanager
def shares(
    kinds: Set[str],
    built: kernel.Kernel,
    labroot: LabRoot,
    reporter: Reporter,
    logs: Path,
    more: Sequence[Path] = (),
) -> Iterator[list[Bind]]:
    """What a guest sees that runs rows of these tools; with the programs in folders of `more`."""
    made = [ensure(labroot, reporter), *more]
    if "systemtap" in kinds:
        made.append(ensure_module(labroot, built, reporter))
    with tempfile.TemporaryDirectory(prefix="skblab-") as scratch:
        binds = [
            Bind(paths.tree(), "tree"),
            Bind(gather(made, Path(scratch) / "programs"), "build"),
            Bind(logs, "out", writable=True),
        ]
        if "pathlat" in kinds:
            binds.append(Bind(tools.ensure(labroot, built, reporter), "tools"))
        yield binds


def gather(folders: list[Path], into: Path) -> Path:
    """Copy the files of `folders` to one that a guest can be given; return it."""
    into.mkdir()
    for folder in folders:
        for file in folder.iterdir():
            shutil.copy2(file, into / file.name)
    return into


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))
