# SPDX-License-Identifier: GPL-2.0-or-later
"""Native tools of this tree, compiled in the lab root and cached by their content."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from skblab.lab import kernel, paths, store
from skblab.lab.kernel import config
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

# What the Rust workspace is made of, from the top of the tree.
RUST = ("Cargo.toml", "Cargo.lock", "runners/traffic", "analysis/pktstat")
TRAFFIC = "skblab-traffic"
PKTSTAT = "skblab-pktstat"
RUST_PROGRAMS = (TRAFFIC, PKTSTAT)
# One file that runs wherever there is a kernel.
RUST_FLAGS = "-C target-feature=+crt-static"
TRIPLE = f"{platform.machine()}-unknown-linux-gnu"
BPF = ("probes/bpf",)
BPF_PROGRAMS = ("pathlat", "pktsink", "funclat")


def ensure(labroot: LabRoot, built: kernel.Kernel, reporter: Reporter) -> Path:
    """Return a folder with `bin/` holding every native tool, the probes checked against `built`.

    Not against one that was packaged, or has no types: the probe says so when it is started.
    """

    def gather(folder: Path) -> None:
        _gather(folder, labroot, reporter)
        types = config.parse(built.config.read_text()).get("DEBUG_INFO_BTF")
        # A packaged one has its BTF in its image only.
        if built.record.packages or types != "y":
            return
        labroot.run(
            ["/skblab/tools/pathlat", "--check", "--btf", "/skblab/kernel/vmlinux"],
            binds=[Bind(folder / "bin", "tools"), Bind(built.path, "kernel")],
            what="checking the probe against the kernel",
        )

    return store.ensure("tools", key(labroot, built.key), reporter, gather)


def programs(labroot: LabRoot, reporter: Reporter) -> Path:
    """Return a folder with `bin/` holding every native tool, for whatever kernel."""
    key = programs_key(labroot)
    return store.ensure("tools", key, reporter, lambda folder: _gather(folder, labroot, reporter))


def _gather(folder: Path, labroot: LabRoot, reporter: Reporter) -> None:
    (folder / "bin").mkdir()
    for name in RUST_PROGRAMS:
        shutil.copy2(ensure_traffic(labroot, reporter) / name, folder / "bin" / name)
    for name in BPF_PROGRAMS:
        shutil.copy2(ensure_probe(labroot, reporter) / name, folder / "bin" / name)


def key(labroot: LabRoot, kernel_key: str) -> str:
    """Return the key of the tools for a kernel."""
    return store.digest([rust_key(labroot), bpf_key(labroot), kernel_key])


def programs_key(labroot: LabRoot) -> str:
    """Return the key of the tools for whatever kernel."""
    return store.digest([rust_key(labroot), bpf_key(labroot)])


def rust_key(labroot: LabRoot) -> str:
    """Return the key of the traffic tools."""
    return store.digest(["rust", RUST_FLAGS, labroot.key, *contents(RUST)])


def bpf_key(labroot: LabRoot) -> str:
    """Return the key of the probes."""
    return store.digest(["bpf", labroot.key, *contents(BPF)])


def contents(sources: Sequence[str]) -> Iterator[str | bytes]:
    """Yield name and content of every source file, in a fixed order."""
    tree = paths.tree()
    for source in sources:
        top = tree / source
        files = (
            [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        )
        for file in files:
            yield str(file.relative_to(tree))
            yield file.read_bytes()


def ensure_traffic(labroot: LabRoot, reporter: Reporter) -> Path:
    """Return a folder with the traffic tools, for whatever kernel."""
    key = rust_key(labroot)

    def build(folder: Path) -> None:
        reporter.say("compiling the traffic tools")
        registry = paths.cache() / "develop" / "cargo"
        registry.mkdir(parents=True, exist_ok=True)
        with reporter.step("traffic tools"):
            labroot.run(
                [
                    *("cargo", "build", "--release", "--locked"),
                    # Named, or the flags would be those of macros as well, which are libraries.
                    *("--target", TRIPLE, "--target-dir", "/skblab/out/target"),
                ],
                binds=[
                    Bind(paths.tree(), "tree"),
                    Bind(folder, "out", writable=True),
                    Bind(registry, "cargo", writable=True),
                ],
                workdir="/skblab/tree",
                env={
                    "CARGO_HOME": "/skblab/cargo",
                    "CARGO_TERM_COLOR": "never",
                    "RUSTFLAGS": RUST_FLAGS,
                },
                network=True,
                log=paths.cache() / "logs" / f"rust-{key}.log",
                what="cargo build",
            )
        for name in RUST_PROGRAMS:
            shutil.move(folder / "target" / TRIPLE / "release" / name, folder / name)
        shutil.rmtree(folder / "target")

    return store.ensure("rust", key, reporter, build)


def ensure_probe(labroot: LabRoot, reporter: Reporter) -> Path:
    """Return a folder with the probe, for whatever kernel."""
    key = bpf_key(labroot)

    def build(folder: Path) -> None:
        reporter.say("compiling the probes")
        with reporter.step("probes"):
            labroot.run(
                ["make", "-C", "/skblab/tree/probes/bpf", "OUT=/skblab/out"],
                binds=[Bind(paths.tree(), "tree"), Bind(folder, "out", writable=True)],
                log=paths.cache() / "logs" / f"bpf-{key}.log",
                what="compiling the probes",
            )

    return store.ensure("bpf", key, reporter, build)
