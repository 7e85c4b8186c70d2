# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands of the pages that take less than a minute, run as they stand there.

What is built first is in the cache: a fixture has seen to that.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import TREE
from doc_commands import command_lines
from skblab.lab.kernel import Kernel

pytestmark = [pytest.mark.guest, pytest.mark.slow]

# With the kernel in the cache; by a busy machine they take longer.
COMMANDS = (
    "./skblab --help",
    "./skblab doctor",
    "./skblab boot -- uname -r",
    "./skblab boot --exact -- date +%N",
    "./skblab sweep demo --dry-run",
    "./skblab sweep quick --dry-run",
    "./skblab sweep quick --testbed virtio --dry-run",
    "./skblab probe layers --on guest --packets 20000 --no-cost",
    "./skblab bench functions --row on --against off --least 2",
    "make help",
)
SECONDS = 600
# It says no where something is missing that not every machine has.
MAY_SAY_NO = ("./skblab doctor",)


def _run(command: str, folder: Path, results: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["env", f"SKBLAB_RESULTS={results}", "sh", "-ec", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_it_runs_as_it_stands(command: str, stock: Kernel, tmp_path: Path) -> None:
    on_pages = {
        str(line)
        for page in (TREE / "README.md", *TREE.glob("docs/**/*.md"))
        for line in command_lines(page, TREE)
        if line.whole
    }
    assert command in on_pages
    done = _run(command, TREE, tmp_path)
    assert done.returncode in ((0, 1) if command in MAY_SAY_NO else (0,)), done.stderr
    assert done.stdout.strip()


def test_the_first_experiment_file_runs_as_it_stands(stock: Kernel, tmp_path: Path) -> None:
    page = (TREE / "docs" / "reference" / "experiment.md").read_text()
    begin = page.index("    cat > my-settings.toml")
    block = page[begin:].partition("\n\nskblab checks")[0].replace("\n    ", "\n").strip()
    *first, last = block.splitlines()
    assert last == "./skblab sweep my-settings.toml --exact --packets 5000"
    assert first[-1] == f"{last} --dry-run"
    (tmp_path / "skblab").symlink_to(TREE / "skblab")
    done = _run("\n".join(first), tmp_path, tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert "a hundred rules" in done.stdout
