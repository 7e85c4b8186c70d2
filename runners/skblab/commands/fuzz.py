# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab fuzz`: libFuzzer feeds what reads packets and the kernel's files with inputs of its own.

A target is a file of `runners/traffic/fuzz/fuzz_targets` (Rust) or `probes/bpf/tests/fuzz_*.c`.
It begins with the seeds in `tests/fuzz/TARGET` and with what earlier runs found worth keeping.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from skblab.lab import labroot, paths, store, tools
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

RUST_TARGETS = "runners/traffic/fuzz/fuzz_targets"
C_TARGETS = "probes/bpf/tests"
SEEDS = "tests/fuzz"
# What cargo-fuzz passes to the compiler, but for a sanitizer: Debian has none for Rust.
COVERAGE = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
)
# An abort is what libFuzzer keeps the input of.
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1",
    "UBSAN_OPTIONS": "abort_on_error=1:print_stacktrace=1",
}
# By the clock, and a busy machine may not run it for some of them.
LONGEST_INPUT_SECONDS = 60
MEMORY_MIB = 2048
# Of the compiler's folder, what other sources made goes: it looks at times, not at contents.
BUILD = """
cargo clean --quiet --profile fuzz --target {triple} -p skblab-traffic -p skblab-pktstat \\
	-p skblab-traffic-fuzz
cargo build --locked --profile fuzz --target {triple} -p skblab-traffic-fuzz
built=$CARGO_TARGET_DIR/{triple}/fuzz
make -C probes/bpf fuzz OUT=/skblab/out \\
	LIBFUZZER="$(ls -t "$built"/build/libfuzzer-sys-*/out/libfuzzer.a | head -n 1)"
rm -r /skblab/out/fuzzed
for target in {rust}; do cp "$built/$target" "/skblab/out/fuzz_$target"; done
"""


def targets() -> dict[str, Path]:
    """Return every target by its name."""
    tree = paths.tree()
    c_files = (tree / C_TARGETS).glob("fuzz_*.c")
    found = {file.stem.removeprefix("fuzz_"): file for file in c_files}
    found |= {file.stem: file for file in (tree / RUST_TARGETS).glob("*.rs")}
    return dict(sorted(found.items()))


def fuzz(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET", help="Which; all if none.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, help="Of each target.")] = 20,
    again: Annotated[
        Path | None,
        typer.Option("--input", exists=True, dir_okay=False, help="Run this input only."),
    ] = None,
) -> None:
    """Feed targets with made-up inputs. Exit status 1 names the input that one failed on."""
    known = targets()
    for name in names or []:
        if name not in known:
            raise UsageError(f"no fuzz target {name}: expected one of {', '.join(known)}")
    if again and len(names or []) != 1:
        raise UsageError("--input is for one target: skblab fuzz TARGET --input FILE")
    reporter = Reporter()
    root = labroot.ensure(reporter)
    programs = build(root, reporter)
    failed = []
    for name in names or known:
        try:
            typer.echo(f"{name}: {run(root, programs, name, seconds, again)}")
        except SkblabError as error:
            failed.append(str(error))
    if failed:
        raise SkblabError("; ".join(failed))


def build(root: LabRoot, reporter: Reporter) -> Path:
    """Return the folder of the compiled targets, `fuzz_TARGET`."""
    sources = tools.contents((*tools.RUST, *tools.BPF))
    key = store.digest(["fuzz", root.key, BUILD, *COVERAGE, *sources])

    def compile_all(folder: Path) -> None:
        shared = {"cargo": "cargo", "build": "fuzz-target"}
        folders = {point: paths.cache() / "develop" / name for point, name in shared.items()}
        for place in folders.values():
            place.mkdir(parents=True, exist_ok=True)
        rust = [name for name, file in targets().items() if file.suffix == ".rs"]
        reporter.say("compiling the fuzz targets")
        with store.locked("develop-fuzz", reporter), reporter.step("fuzz targets"):
            root.run(
                ["sh", "-ec", BUILD.format(triple=tools.TRIPLE, rust=" ".join(rust))],
                binds=[
                    Bind(paths.tree(), "tree"),
                    Bind(folder, "out", writable=True),
                    *(Bind(source, point, writable=True) for point, source in folders.items()),
                ],
                workdir="/skblab/tree",
                env={
                    "CARGO_HOME": "/skblab/cargo",
                    "CARGO_TARGET_DIR": "/skblab/build",
                    "CARGO_TERM_COLOR": "never",
                    "RUSTFLAGS": " ".join(COVERAGE),
                },
                network=True,
                log=paths.cache() / "logs" / f"fuzz-{key}.log",
                what="compiling the fuzz targets",
            )

    return store.ensure("fuzz", key, reporter, compile_all)


def run(root: LabRoot, programs: Path, name: str, seconds: int, again: Path | None = None) -> str:
    """Fuzz a target for so long, or run one input; return what libFuzzer says of it in the end."""
    work = paths.cache() / "develop" / "fuzz" / name
    (work / "corpus").mkdir(parents=True, exist_ok=True)
    limits = [f"-timeout={LONGEST_INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}"]
    if again:
        shutil.copyfile(again, work / "input")
        what = [*limits, "/skblab/run/input"]
    else:
        kept = [
            "-artifact_prefix=/skblab/run/",
            "/skblab/run/corpus",
            f"/skblab/tree/{SEEDS}/{name}",
        ]
        what = [f"-max_total_time={seconds}", *limits, *kept]
    log = paths.cache() / "logs" / f"fuzz-{name}.log"
    try:
        said = root.run(
            [f"/skblab/tools/fuzz_{name}", *what],
            binds=[
                Bind(programs, "tools"),
                Bind(paths.tree(), "tree"),
                Bind(work, "run", writable=True),
            ],
            env=SANITIZERS,
            log=log,
        )
    except SkblabError as error:
        raise _finding(name, work, log, again) or error from error
    done = re.findall(r"^Done (\d+) runs in (\d+) second", said, re.M)
    covered = re.findall(r"\bcov: (\d+) ft: (\d+)", said)
    if again:
        return f"no failure on {again}"
    if not done or not covered:
        raise SkblabError(f"fuzz {name}: libFuzzer did not say what it did; whole output: {log}")
    runs, took = done[-1]
    edges, features = covered[-1]
    return f"{runs} inputs in {took} s, {edges} edges, {features} features, no failure"


def _finding(name: str, work: Path, log: Path, again: Path | None) -> SkblabError | None:
    """Return what is wrong with the code that is fuzzed, if that is why the target ended."""
    said = log.read_text()
    kept = re.findall(r"Test unit written to /skblab/run/(\S+)", said)
    if not (again or kept):
        return None
    file = again or work / kept[-1]
    telling = re.search(
        r"not true: .*|runtime error: .*|ERROR: AddressSanitizer: .*|panicked at .*(\n.*)?"
        r"|ERROR: libFuzzer: .*",
        said,
    )
    why = one_line(telling.group(0), 200) if telling else "it died"
    return SkblabError(
        f"fuzz {name}: {why}; the input: {file}; whole output: {log}; "
        f"again by: skblab fuzz {name} --input {file}"
    )
