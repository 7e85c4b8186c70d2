# SPDX-License-Identifier: GPL-2.0-or-later
"""skblab bundle: a run as one file, which is checked, cited, and made the page of elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import searches
from test_report import fake_gnuplot
from typer.testing import CliRunner, Result

from skblab.bundle import archive, words
from skblab.cli import app
from skblab.lab import paths
from skblab_analysis.base.errors import UsageError
from skblab_analysis.load import load
from skblab_analysis.report.page import build_report


def bundled(*given: str | Path) -> Result:
    return CliRunner().invoke(app, ["bundle", *map(str, given)])


def unpacked(file: Path, to: Path) -> Path:
    to.mkdir()
    subprocess.run(["tar", "--extract", "--file", file, "--directory", to], check=True)
    [folder] = to.iterdir()
    return folder


def test_its_page_is_made_again_elsewhere(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path)
    page = build_report(run, fake_gnuplot).read_text()
    file = tmp_path / "run.tar.xz"
    done = bundled(run, "-o", file, "--author", "A. Researcher", "--author", 'B. "Bee" Ä')
    assert done.exit_code == 0, done.exception
    assert re.fullmatch(rf"{file}: \d+ files, {file.stat().st_size} bytes\n", done.stdout)
    around = unpacked(file, tmp_path / "elsewhere")
    there = around / run.name
    assert around.name == f"{run.name}-bundle"
    # Its name and place are in no page.
    assert (there / "report/index.html").read_text() == page
    shutil.rmtree(there / "report")
    assert build_report(there, fake_gnuplot).read_text() == page
    assert load(there).trials == load(run).trials
    cited = (around / words.CITATION).read_text()
    assert "cff-version: 1.2.0\\n" not in cited and "cff-version: 1.2.0\n" in cited
    assert '  - name: "A. Researcher"\n  - name: "B. \\"Bee\\" Ä"\n' in cited
    assert f"./skblab report {run.name}" in (around / words.README).read_text()


def test_checksums_are_of_all_files_and_notice_a_change(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path)
    build_report(run, fake_gnuplot)
    file = tmp_path / "run.tar.xz"
    assert bundled(run, "-o", file).exit_code == 0
    there = unpacked(file, tmp_path / "elsewhere")
    lines = (there / archive.SUMS).read_text().splitlines()
    named = {line.split("  ", 1)[1]: line.split("  ", 1)[0] for line in lines}
    assert named.keys() == {name for name, _ in archive.files(there)} - {archive.SUMS}
    assert (
        named[f"{run.name}/run.json"] == hashlib.sha256((run / "run.json").read_bytes()).hexdigest()
    )

    def check() -> int:
        call = ["sha256sum", "--check", "--quiet", archive.SUMS]
        return subprocess.run(call, cwd=there, check=False, capture_output=True).returncode

    assert check() == 0
    with (there / run.name / "trials.parquet").open("ab") as table:
        table.write(b"x")
    assert check() == 1


def test_the_commit_of_skblab_is_told_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = searches.finished_run(tmp_path)
    (source := tmp_path / "source").mkdir()
    monkeypatch.setattr(paths, "tree", lambda: source)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))

    def packed_by(place: str) -> list[str]:
        file = tmp_path / f"{place}.tar.xz"
        assert bundled(run, "-o", file).exit_code == 0
        lines = (unpacked(file, tmp_path / place) / words.README).read_text().splitlines()
        return [line for line in lines if "packed by" in line]

    assert packed_by("without") == []
    git = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for call in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *call], check=True)
    [line] = packed_by("with")
    assert re.fullmatch(r"- packed by: skblab at commit [0-9a-f]{12}", line)


def test_who_measured_it_where_is_told(tmp_path: Path) -> None:
    run = load(searches.finished_run(tmp_path)).document
    assert run.environment is not None
    told = words.readme(run, "it", "").splitlines()
    assert f"- kernel: {run.environment.kernel.release}" in told
    assert f"- host: {run.environment.host.cpu}" in told
    told = words.readme(run.model_copy(update={"environment": None}), "it", "").splitlines()
    assert not [line for line in told if line.startswith(("- kernel", "- host"))]


def test_files_are_in_order_whatever_the_disk_has_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c/a", "c/d/a", "c/e/a", "f/a"]
    for name in names:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    scandir = os.scandir

    class Backwards(contextlib.nullcontext[None], Iterator[os.DirEntry[str]]):
        def __init__(self, folder: str) -> None:
            super().__init__(None)
            with scandir(folder) as found:
                self.left = sorted(found, key=lambda entry: entry.name)

        def __next__(self) -> os.DirEntry[str]:
            if not self.left:
                raise StopIteration
            return self.left.pop()

    monkeypatch.setattr(os, "scandir", Backwards)
    assert [name for name, _ in archive.files(tmp_path)] == names


def test_the_same_run_makes_the_same_bytes(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path)
    first, second, third = (tmp_path / f"{name}.tar.xz" for name in "abc")
    assert bundled(run, "-o", first).exit_code == 0
    for path in run.rglob("*"):
        os.utime(path, (0, 0))
    assert bundled(run, "-o", second).exit_code == 0
    assert first.read_bytes() == second.read_bytes()
    # Also one that was unpacked.
    again = unpacked(first, tmp_path / "elsewhere") / run.name
    assert bundled(again, "-o", third).exit_code == 0
    assert first.read_bytes() == third.read_bytes()


def test_a_run_that_still_goes_is_packed_as_it_is(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path)
    file = run / "run.json"
    file.write_text(file.read_text().replace('"state": "finished"', '"state": "running"'))
    assert bundled(run, "-o", tmp_path / "run.tar.xz").exit_code == 0
    there = unpacked(tmp_path / "run.tar.xz", tmp_path / "elsewhere")
    assert "- state: running\n" in (there / words.README).read_text()


def test_links_are_not_followed(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("of this machine")
    (run / "logs").mkdir(exist_ok=True)
    (run / "logs/link").symlink_to(secret)
    assert "logs/link" not in {name for name, _ in archive.files(run)}


def test_trouble_is_one_line(tmp_path: Path) -> None:
    run = searches.finished_run(tmp_path)
    there = tmp_path / "there.tar.xz"
    there.write_text("mine")
    for given, said in (
        ((run, "-o", there), f"{there} is there already; expected a name of no file"),
        ((run, "-o", tmp_path / "no/such.tar.xz"), "No such file or directory"),
        ((tmp_path / "none",), "cannot read the run document"),
    ):
        done = bundled(*given)
        assert done.exception is not None and said in str(done.exception)
    assert there.read_text() == "mine"
    with pytest.raises(UsageError):
        archive.write(run, tmp_path / "no/such.tar.xz", {}, load(run).document.started)
    assert list(tmp_path.glob("*.part")) == []
