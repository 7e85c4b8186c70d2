# SPDX-License-Identifier: GPL-2.0-or-later
"""Source trees: finding them, their versions, the series that fits, private copies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skblab.lab.kernel import source
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError

MAKEFILE = "# SPDX\nVERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = {}\nEXTRAVERSION ={}\n"
NO_ROOT = LabRoot(Path("/nonexistent"), "key")


def fake_tree(folder: Path, version: tuple[str, str, str, str] = ("6", "12", "5", "")) -> Path:
    (folder / "net").mkdir(parents=True)
    (folder / "Makefile").write_text(MAKEFILE.format(*version))
    (folder / "Kconfig").write_text("config NET\n")
    (folder / "net" / "dev.c").write_text("int x;\n")
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "project"
    (top / "kconfig").mkdir(parents=True)
    (top / "patches" / "v6.12").mkdir(parents=True)
    (top / "patches" / "v6.12" / "series").write_text("1.patch\n")
    (top / "patches" / "v6.12" / "1.patch").write_text("x")
    monkeypatch.setenv("SKBLAB_TREE", str(top))
    return top


def test_version(tmp_path: Path) -> None:
    assert source.read_version(fake_tree(tmp_path / "a")) == "6.12.5"
    new = fake_tree(tmp_path / "b", ("7", "2", "0", " -rc1"))
    assert source.read_version(new) == "7.2.0-rc1"


def test_no_kernel_tree(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(UsageError, match="is not a Linux source tree"):
        source.find(tmp_path, NO_ROOT)


def test_series_fits(tmp_path: Path, project: Path) -> None:
    found = source.find(fake_tree(tmp_path / "linux"), NO_ROOT)
    assert source.series_for(found).folder == project / "patches" / "v6.12"


@pytest.mark.usefixtures("project")
def test_wrong_version_names_both(tmp_path: Path) -> None:
    found = source.find(fake_tree(tmp_path / "linux", ("6", "1", "99", "")), NO_ROOT)
    with pytest.raises(UsageError) as caught:
        source.series_for(found)
    told = str(caught.value)
    assert "6.1.99" in told
    assert "patches/v6.12 (for Linux 6.12.x)" in told
    assert "--no-patches" in told


def test_digest_sees_every_change(tmp_path: Path) -> None:
    tree = fake_tree(tmp_path / "linux")
    before = source.find(tree, NO_ROOT).digest
    assert source.find(tree, NO_ROOT).digest == before
    # What a build in the tree or git leaves there is no source.
    (tree / ".git").mkdir()
    (tree / ".git" / "index").write_text("x")
    (tree / "net" / "dev.o").write_text("x")
    assert source.find(tree, NO_ROOT).digest == before
    (tree / "net" / "dev.c").write_text("int y;\n")
    os.utime(tree / "net" / "dev.c", ns=(1, 1))
    changed = source.find(tree, NO_ROOT).digest
    assert changed != before
    (tree / "net" / "new.c").write_text("int z;\n")
    assert source.find(tree, NO_ROOT).digest not in (before, changed)


def test_lab_root_without_source(tmp_path: Path) -> None:
    (tmp_path / "skblab").mkdir()
    (tmp_path / "skblab" / "versions.json").write_text("{}")
    with pytest.raises(UsageError, match=r"has no linux-source-6\.12"):
        source.find(None, LabRoot(tmp_path, "key"))


def test_link_copy_leaves_the_plain_tree_alone(tmp_path: Path) -> None:
    plain = fake_tree(tmp_path / "plain")
    copy = tmp_path / "copy"
    copy.mkdir()
    source.link_copy(plain, copy)
    new = copy / "net" / "dev.c.new"
    new.write_text("int patched;\n")
    new.rename(copy / "net" / "dev.c")
    assert (plain / "net" / "dev.c").read_text() == "int x;\n"
    assert (plain / "Makefile").samefile(copy / "Makefile")


@pytest.mark.labroot
def test_private_copy_of_a_users_tree(
    tmp_path: Path, project: Path, lab: LabRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    tree = fake_tree(tmp_path / "linux")
    (tree / "Makefile").open("a").write("mrproper:\n\trm -f .config\n")
    (tree / ".config").write_text("CONFIG_X=y\n")
    (tree / "net" / "dev.o").write_text("x")
    (tree / ".git").mkdir()
    (project / "patches" / "v6.12" / "1.patch").write_text(
        "--- a/net/dev.c\n+++ b/net/dev.c\n@@ -1,1 +1,1 @@\n-int x;\n+int patched;\n"
    )
    found = source.find(tree, lab)
    made = source.ensure_tree(found, source.series_for(found), lab, Reporter(quiet=True))
    assert (made / "net" / "dev.c").read_text() == "int patched;\n"
    assert sorted(p.name for p in made.iterdir()) == ["Kconfig", "Makefile", "net"]
    # The user's own tree is as it was.
    assert (tree / "net" / "dev.c").read_text() == "int x;\n"
    assert (tree / ".config").exists()
