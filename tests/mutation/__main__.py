# SPDX-License-Identifier: GPL-2.0-or-later
"""Break N lines of each module and count what no test notices: `make mutants`.

It runs on a copy of the tree, in namespaces of its own where the host can only be read. mutmut and
cosmic-ray were looked at: the one leaves out decorated functions and what stands outside of them,
the other starts all of pytest anew for each mutant.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import coverage
import pytest

from mutation import plugins
from mutation.selection import Selection
from mutation.sites import Mutant, chosen

TREE = Path(__file__).resolve().parents[2]
PACKAGES = {"skblab": TREE / "runners", "skblab_analysis": TREE / "analysis"}
# Whatever pyproject.toml says of workers: one process knows all.
ADDOPTS = "addopts=-q --strict-markers --import-mode=importlib"
SELECTED = [
    "-o",
    ADDOPTS,
    "-m",
    "not guest and not labroot",
    "-p",
    "no:cacheprovider",
    "--timeout=300",
]
COLUMNS = ["module", "line", "change", "result", "by"]
WORK = Path("/tmp/mutation")
SUBPROCESS = """[run]
parallel = true
sigterm = true
data_file = {data}
source_pkgs = skblab,skblab_analysis
context = ${{MUTATION_TEST-}}
disable_warnings = no-data-collected,module-not-imported
"""


def main() -> int:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="parts of modules' names; all, if none is given")
    parser.add_argument("-n", type=int, default=10, help="mutants of each module (10)")
    parser.add_argument("--seed", default="1", help="another seed breaks other lines")
    parser.add_argument("--table", type=Path, default=Path("mutants.csv"), help="where to write")
    parser.add_argument("--again", type=Path, help="only what survived in this table")
    parser.add_argument("--map", type=Path, help="a folder that keeps the map of lines to tests")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is None:
        return isolated(options)
    plugins.steady()
    if options.inside == "map":
        return drawn(options.map)
    return tried(options)


def isolated(options: argparse.Namespace) -> int:
    """Start the stages, each in namespaces of its own, on a copy of the tree."""
    options.table = options.table.resolve()
    if options.again:
        options.again = options.again.resolve()
    with tempfile.TemporaryDirectory(prefix="mutation-") as made:
        folder = Path(made)
        # Tests of what users without rights may do become one.
        folder.chmod(0o755)
        results = folder / "out"
        results.mkdir()
        copied(folder / "tree")
        kept = options.map.resolve() if options.map else results
        kept.mkdir(exist_ok=True)
        if options.again:
            shutil.copy(options.again, results / "again.csv")
        call = ["-n", str(options.n), "--seed", options.seed, *options.modules, "--map", str(kept)]
        call += ["--table", str(results / "table.csv")]
        call += ["--again", str(results / "again.csv")] if options.again else []
        if not (kept / "notes.json").exists():
            enclosed(folder, [results, kept], [*call, "--inside", "map"])
        for stage in ("warm", "fresh"):
            enclosed(folder, [results, kept], [*call, "--inside", stage])
            rows = read(results / "table.csv")
            write(options.table, rows)
    summary(rows)
    return 0


def copied(tree: Path) -> None:
    """Make a copy of the tree as it is now, without what git does not know, as a repository."""
    listed = ["git", "-C", str(TREE), "ls-files", "-zco", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and (TREE / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, tree / name, follow_symlinks=False)
    # Tests of pages ask git which there are.
    author = ["-c", "user.name=mutation", "-c", "user.email=mutation@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "copy"]):
        subprocess.run(["git", "-C", str(tree), *words], check=True)
    (tree / ".venv").mkdir()


def enclosed(folder: Path, writable: list[Path], call: list[str]) -> None:
    """Run a stage where it sees nothing of the host's network and processes and cannot write."""
    venv = Path(sys.prefix)
    binds = "".join(f"mount --bind {path} {path}\n" for path in [*writable, folder])
    script = f"""set -e
mount --make-rprivate /
{binds}mount --bind {venv} {folder}/tree/.venv
mount -o remount,bind,ro {folder}/tree/.venv
mount --rbind {folder}/tree {TREE}
for at in / /root /home /var; do
    ! mountpoint -q $at || mount -o remount,bind,ro $at
done
mkdir {folder}/tmp
ip link set lo up
exec "$@"
"""
    options = ["--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child"]
    options += [] if os.geteuid() == 0 else ["--map-root-user"]
    temporary = folder / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(TREE / "tests"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temporary),
        # Locks of runs are there.
        "SKBLAB_CACHE": str(temporary / "cache"),
    }
    python = f"{TREE}/.venv/bin/python"
    inner = [python, "-c", REAPER, python, "-m", "mutation", *call]
    subprocess.run(
        ["unshare", *options, "sh", "-c", script, "sh", *inner],
        check=True,
        env=environment,
        cwd=TREE,
    )


# Process 1 of the namespace: it outlives what ends everything else.
REAPER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


def drawn(folder: Path) -> int:
    """Run all tests once and keep which line is executed by which."""
    settings = folder / "coveragerc"
    settings.write_text(SUBPROCESS.format(data=folder / "map"))
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text("import coverage\ncoverage.process_startup()\n")
    os.environ["MUTATION_TEST"] = ""
    os.environ["PYTHONPATH"] = f"{hook}:{os.environ['PYTHONPATH']}"
    os.environ["COVERAGE_PROCESS_START"] = str(settings)
    cover = coverage.Coverage(config_file=str(settings), context=None)
    cover.set_option("run:context", "")
    cover.start()
    mapper = plugins.Mapper(cover, folder / "notes.json")
    status = pytest.main([*SELECTED], plugins=[mapper])
    cover.stop()
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return 1
    mapper.keep()
    cover.save()
    cover.combine([str(folder)], strict=True)
    cover.save()
    Path(cover.get_data().data_filename()).rename(folder / "map")
    return 0


def mutants(options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that are asked for."""
    again = {
        (row["module"], int(row["line"]), row["change"])
        for row in (read(options.again) if options.again else [])
        if row["result"] == "survived"
    }
    found = []
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            module = ".".join(part for part in parts if part != "__init__")
            if options.modules and not any(word in module for word in options.modules):
                continue
            tree = ast.parse(path.read_text())
            found += chosen(tree, module, str(path), options.n, options.seed)
    return [mutant for mutant in found if not options.again or mutant.key() in again]


def tried(options: argparse.Namespace) -> int:
    """Try the mutants of a stage; those that need a fresh import are left to the second."""
    sources = {
        str(path): path.read_text()
        for folder in (*PACKAGES.values(), TREE / "tests")
        for path in folder.rglob("*.py")
        if "mutation" not in path.parts
    }
    selection = Selection(options.map / "map", options.map / "notes.json", sources)
    every = mutants(options)
    rows = read(options.table) if options.table.exists() else []
    known = {(row["module"], int(row["line"]), row["change"]): row["result"] for row in rows}
    rows = [row for row in rows if row["result"] != "fresh"]
    jobs = []
    for number, mutant in enumerate(every):
        before = known.get(mutant.key())
        if before not in (None, "fresh"):
            continue
        tests, fresh = selection.tests(mutant)
        if not tests or (fresh and before is None):
            rows.append(row_of(mutant, "fresh" if tests else "not executed"))
            continue
        seconds = sum(selection.seconds.get(test, 0.1) for test in tests)
        code = compile(mutant.source, mutant.path, "exec", dont_inherit=True)
        jobs.append(
            plugins.Job(
                number,
                mutant.path,
                ast.unparse(mutant.source),
                code,
                mutant.function,
                mutant.first_line,
                tests,
                seconds,
            )
        )
    begin = time.monotonic()
    tried_now = 0

    def done(number: int, result: str) -> None:
        nonlocal tried_now
        word, _, by = result.partition(" by ")
        if word.startswith("killed:"):
            word, by = "killed", word.removeprefix("killed: ")
        rows.append(row_of(every[number], word, by))
        write(options.table, rows)
        tried_now += 1
        seconds = time.monotonic() - begin
        left = seconds / tried_now * (len(jobs) - tried_now)
        print(  # noqa: T201
            f"{tried_now}/{len(jobs)} {seconds:.0f} s, {left:.0f} s left; "
            f"{every[number].module}:{every[number].line} {result}",
            file=sys.stderr,
            flush=True,
        )

    write(options.table, rows)
    if options.inside == "warm":
        pytest.main([*SELECTED], plugins=[plugins.Trier(jobs, done)])
        return 0
    preload()
    for job in jobs:
        with plugins.Broken(job):
            done(job.number, plugins.forked(job, partial(fresh_run, job)))
    return 0


def preload() -> None:
    """Import what takes long and is not ours, once for all processes."""
    for name in THIRD:
        __import__(name)


THIRD = [
    "pyarrow.parquet",
    "scipy.stats",
    "pydantic",
    "typer",
    "rich.console",
    "rich.table",
    "rich.progress",
    "jinja2",
    "psutil",
    "hypothesis.strategies",
    "pandas",
    "polars",
    "duckdb",
    "jsonschema",
    "pytest_timeout",
    "MLRsearch",
]


def fresh_run(job: plugins.Job, pipe: int) -> int:
    """Run a mutant's tests from the beginning of everything."""
    files = list(dict.fromkeys(test.split("::")[0] for test in job.tests))
    picked = plugins.Picked(job.tests, pipe)
    return int(pytest.main(["-x", *SELECTED, *files], plugins=[picked]))


def row_of(mutant: Mutant, result: str, by: str = "") -> dict[str, str]:
    """Return a mutant's row of the table."""
    return {
        "module": mutant.module,
        "line": str(mutant.line),
        "change": mutant.change,
        "result": result,
        "by": by,
    }


def read(path: Path) -> list[dict[str, str]]:
    """Return a table's rows."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Iterable[dict[str, str]]) -> None:
    """Write a table, by module and line."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["module"], int(row["line"]))))


def summary(rows: list[dict[str, str]]) -> None:
    """Say how many there were of what, by package."""
    for package in (*PACKAGES, ""):
        of = Counter(
            row["result"] for row in rows if not package or row["module"].split(".")[0] == package
        )
        told = ", ".join(f"{count} {what}" for what, count in sorted(of.items()))
        print(  # noqa: T201
            f"{package or 'all':16} {sum(of.values())} mutants: {told}"
        )


if __name__ == "__main__":
    sys.exit(main())
