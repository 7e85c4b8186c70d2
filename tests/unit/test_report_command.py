# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab report`: which pages it writes where, and what it prints."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import searches
import synthetic_run

from conftest import Skblab
from skblab.lab.drawing import NoGnuplotError


@pytest.fixture(autouse=True)
def _no_gnuplot(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise NoGnuplotError("no gnuplot")

    monkeypatch.setattr("skblab.commands.report.find_gnuplot", none)


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return [
        str(searches.finished_run(tmp_path)),
        str(synthetic_run.finished_run(tmp_path, 200)),
    ]


def test_one_run_has_its_page_in_its_folder(skblab_here: Skblab, folders: list[str]) -> None:
    # The same run twice is one.
    done = skblab_here("report", folders[0], f"{folders[0]}/")
    assert done.stdout == f"{folders[0]}/report/index.html\n"
    assert "report of" not in Path(done.stdout.strip()).read_text()


def test_several_runs_have_one_page(skblab_here: Skblab, folders: list[str]) -> None:
    done = skblab_here("report", *folders)
    page = Path(done.stdout.strip())
    assert page.parent.parent == Path(folders[0]).parent
    assert re.fullmatch(
        rf"report-{re.escape(Path(folders[0]).name)}-and-1-more-[0-9a-f]{{8}}", page.parent.name
    )
    assert "report of 2 runs" in page.read_text()
    assert all((Path(folder) / "report" / "index.html").is_file() for folder in folders)


def test_several_runs_have_their_page_where_asked(
    skblab_here: Skblab, folders: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "here" / "it"
    done = skblab_here("report", *folders, "--output", str(out), "--json")
    assert (out / "index.html").is_file()
    assert [one["folder"] for one in json.loads(done.stdout)] == folders
    assert f"one page of all: {out / 'index.html'}" in done.stderr


def test_other_runs_have_another_page(
    skblab_here: Skblab, folders: list[str], tmp_path: Path
) -> None:
    first, second = folders
    third = str(shutil.copytree(second, tmp_path / "third"))
    # Of the same name, elsewhere.
    elsewhere = str(shutil.copytree(second, tmp_path / "elsewhere" / Path(second).name))
    pages = [
        skblab_here("report", first, *others).stdout
        for others in ((second,), (third,), (elsewhere,), (second, third), (third, second))
    ]
    assert len(set(pages)) == len(pages)
    assert skblab_here("report", first, f"{second}/").stdout == pages[0]
    assert all(Path(page.strip()).is_file() for page in pages)


@pytest.mark.parametrize("where", ["", "report", "report/deeper"])
@pytest.mark.parametrize("of_run", [0, 1])
def test_no_run_loses_its_page_to_that_of_several(
    skblab_here: Skblab, folders: list[str], tmp_path: Path, where: str, of_run: int
) -> None:
    for folder in folders:
        skblab_here("report", folder)
    before = [(Path(folder) / "report" / "index.html").read_bytes() for folder in folders]
    # By another name of the same folder.
    (tmp_path / "link").symlink_to(folders[of_run])
    for output in (f"{folders[of_run]}/{where}", f"{tmp_path}/link/{where}"):
        done = skblab_here("report", *folders, "--output", output)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert f"cannot put the page of several runs into {Path(output)}: that is in" in line
        assert line.endswith("expected a folder outside of the runs")
    for folder, page in zip(folders, before, strict=True):
        assert (Path(folder) / "report" / "index.html").read_bytes() == page
        assert not (Path(folder) / "index.html").exists()
        assert not (Path(folder) / "report" / "deeper").exists()


@pytest.mark.parametrize("where", ["", "report", "report/deeper"])
def test_a_run_that_is_not_named_keeps_its_page(
    skblab_here: Skblab, folders: list[str], tmp_path: Path, where: str
) -> None:
    third = shutil.copytree(folders[0], tmp_path / "third")
    skblab_here("report", str(third))
    before = {path: path.read_bytes() for path in third.rglob("*") if path.is_file()}
    done = skblab_here("report", *folders, "--output", str(third / where))
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"cannot put the page of several runs into {third / where}: that is in the run" in line
    assert {path: path.read_bytes() for path in third.rglob("*") if path.is_file()} == before


def test_a_file_is_no_folder_for_a_page(
    skblab_here: Skblab, folders: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text("mine")
    done = skblab_here("report", *folders, "-o", str(file))
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert str(file) in line and "expected a folder" in line
    assert file.read_text() == "mine"


def test_one_run_goes_nowhere_else(skblab_here: Skblab, folders: list[str], tmp_path: Path) -> None:
    done = skblab_here("report", folders[0], "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "name a second run, or leave --output out" in done.stderr


def test_a_folder_that_is_no_run_is_named(skblab_here: Skblab, folders: list[str]) -> None:
    done = skblab_here("report", *folders, str(Path(folders[0]).parent))
    assert done.returncode == 2
    assert "cannot read the run document" in done.stderr
