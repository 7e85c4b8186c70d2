# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab kernel patches-check` on a series with one fault of each kind: each is found, once."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TREE
from skblab.lab.kernel import series, source
from skblab.lab.kernel.lines import DEFAULT
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter

pytestmark = [pytest.mark.labroot, pytest.mark.timeout(3600)]

# A small file whose folder compiles in seconds.
FILE = "net/core/dst_cache.c"
OF_IT = "include/net/dst_cache.h"
HEADER = """\
From: A Developer <developer@example.org>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: [PATCH] net: {subject}

The checks have to see what this patch does, and nothing else of it.

Signed-off-by: A Developer <developer@example.org>
---
 {file} | 9 +++++++++

"""
HEADER_ONLY = "count on a time stamp counter in a header"
# What each patch adds at the end of the file, and the checks that it fails.
PATCHES: dict[str, tuple[str, set[str]]] = {
    "say where the file ends": ("/* The end. */\n", set()),
    "indent by blanks": (
        "static int __maybe_unused dst_cache_blank(int a)\n{\n        return a;\n}\n",
        {"checkpatch"},
    ),
    "set what is not used": (
        "static int __maybe_unused dst_cache_set(int a)\n{\n\tint b;\n\n\tb = a;\n\treturn a;\n}\n",
        {"W=1 off"},
    ),
    "mix up the byte order": (
        "static __be16 __maybe_unused dst_cache_order(u16 a)\n{\n\treturn a;\n}\n",
        {"sparse off"},
    ),
    "describe half of it": (
        "/**\n * dst_cache_half() - says nothing of its argument\n *\n * Return: it\n */\n"
        "static int __maybe_unused dst_cache_half(int a)\n{\n\treturn a;\n}\n",
        {"kernel-doc", "W=1 off"},
    ),
    "count on a time stamp counter": (
        "#ifdef CONFIG_X86_TSC\n#include <asm/tsc.h>\n"
        "static u32 __maybe_unused dst_cache_khz(void)\n{\n\treturn tsc_khz;\n}\n#endif\n",
        {"um"},
    ),
    "divide 64 bits": (
        "static u64 __used dst_cache_divide(u64 a, u64 b)\n{\n\treturn a / b;\n}\n",
        {"i386"},
    ),
    "speak x86": (
        'static void __used dst_cache_pause(void)\n{\n\tasm volatile("pause");\n}\n',
        {"arm64"},
    ),
    # Where the file does not compile already, nobody else is to blame.
    "say where the file ends, again": ("/* That was the end. */\n", set()),
    # It is the only one of a header.
    HEADER_ONLY: ("#ifdef CONFIG_X86_TSC\n#include <asm/tsc.h>\n#endif\n", {"um"}),
    "use what is not there": (
        "static int __maybe_unused dst_cache_typo(int a)\n{\n\treturn b;\n}\n",
        {"build off", "um", "i386", "arm64"},
    ),
}
LAST = f"{len(PATCHES) + 1}.patch"


@pytest.fixture
def project(tmp_path: Path, lab: LabRoot) -> Path:
    """A tree of ours whose series is the one above, and a last patch that does not apply."""
    top = tmp_path / "project"
    folder = top / "patches" / "v6.12" / "net_path"
    folder.mkdir(parents=True)
    shutil.copytree(TREE / "kconfig", top / "kconfig")
    reporter = Reporter(quiet=True)
    with source.tree(source.find(None, lab), None, lab, reporter) as plain:
        texts = {name: (plain / name).read_text() for name in (FILE, OF_IT)}
    for number, (subject, (added, _)) in enumerate(PATCHES.items(), 1):
        file = OF_IT if subject == HEADER_ONLY else FILE
        after = f"{texts[file]}\n{added}"
        lines = (texts[file].splitlines(keepends=True), after.splitlines(keepends=True))
        diff = "".join(difflib.unified_diff(*lines, f"a/{file}", f"b/{file}"))
        header = HEADER.format(subject=subject, file=file)
        (folder / f"{number}.patch").write_text(header + diff)
        texts[file] = after
    (folder / LAST).write_text((folder / "3.patch").read_text())
    (folder / "series").write_text("".join(f"{n}.patch\n" for n in range(1, len(PATCHES) + 2)))
    return top


def check(
    project: Path, *arguments: str, seconds: float = 1500
) -> subprocess.CompletedProcess[str]:
    """Run the command on that tree; the wrapper at the top of a clone would name its own."""
    return subprocess.run(
        [sys.executable, "-m", "skblab", "kernel", "patches-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, "SKBLAB_TREE": str(project)},
    )


def test_our_series_reads_clean(lab: LabRoot) -> None:
    done = check(TREE, "--text")
    assert done.returncode == 0, done.stdout
    assert "patches checked, 0 not fit" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(15000)
def test_our_series_builds_at_every_patch(lab: LabRoot, full: bool) -> None:
    """In the folders that each patch changes; at less than full scale the last patch of C alone.

    What a header does to the rest of the kernel: the next test, after all patches. By
    `make patches-check` after each of them, for hours.
    """
    chosen = () if full else ("--patch", str(_last_of_c()))
    done = check(TREE, "--quick", *chosen, seconds=14400)
    assert done.returncode == 0, done.stdout
    assert "patches checked, 0 not fit" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(9000)
def test_the_whole_kernel_builds_after_our_series(lab: LabRoot, full: bool) -> None:
    if not full:
        pytest.skip("builds three kernels anew: make test-all")
    count = len(_patches())
    done = check(TREE, *("--patch", str(_last_of_c())), *("--patch", str(count)), seconds=9000)
    assert done.returncode == 0, done.stdout
    assert "2 patches checked, 0 not fit" in done.stdout


def _patches() -> tuple[Path, ...]:
    return series.read(DEFAULT.patches, DEFAULT.parts).patches


def _last_of_c() -> int:
    """Return the number of the series' last patch of the kernel's C; after it come selftests."""
    of_c = [
        number
        for number, patch in enumerate(_patches(), 1)
        if re.search(r"^\+\+\+ b/net/.*\.c$", patch.read_text(), re.MULTILINE)
    ]
    return of_c[-1]


@pytest.mark.slow
def test_each_fault_is_found_once(project: Path) -> None:
    done = check(project, "--quick", "--json")
    assert done.returncode == 1, done.stderr
    results = json.loads(done.stdout)
    failed = [
        {name for name, outcome in result["outcomes"].items() if outcome["verdict"] == "failed"}
        for result in results
    ]
    assert failed == [*(expected for _, expected in PATCHES.values()), {"applies"}]
    # Nothing of our options is in this series: there is no other configuration to compile.
    assert results[0]["outcomes"]["build on"]["verdict"] == "as off"
    # What did not compile before either is nobody's fault, and is told.
    later = results[list(PATCHES).index("say where the file ends, again")]["outcomes"]["um"]
    assert later["verdict"] == "ok"
    assert later["notes"] == ["net/core/dst_cache.o does not compile for um"]
    assert "dst_cache.c: hunk 1 does not match" in results[-1]["outcomes"]["applies"]["found"][0]
    log = Path(results[-2]["outcomes"]["build off"]["log"])
    assert "error:" in log.read_text()

    # What was checked is not checked again; the table names each patch and each fault.
    again = check(project, "--quick")
    assert again.returncode == 1
    assert "building" not in again.stderr
    bad = sum(bool(expected) for _, expected in PATCHES.values()) + 1
    assert f"{len(PATCHES) + 1} patches checked, {bad} not fit" in again.stdout
    assert f"whole output: {log}" in again.stdout
    one = check(project, "--quick", "--patch", "1")
    assert (one.returncode, one.stderr) == (0, "")
