# SPDX-License-Identifier: GPL-2.0-or-later
"""Source trees: finding them, their versions, the series that fits, private copies."""

from __future__ import annotations

import fnmatch
import multiprocessing
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from skblab.lab import store, uses
from skblab.lab.kernel import source
from skblab.lab.kernel.series import Series
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError
from waiting import until_at_lock

MAKEFILE = "# SPDX\nVERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = {}\nEXTRAVERSION ={}\n"
NO_ROOT = LabRoot(Path("/nonexistent"), "key")


QUIET = Reporter(quiet=True)


class CopyingRoot(LabRoot):
    """A lab root that copies as rsync does, and cleans nothing; `copied` counts the files."""

    copied = 0
    # What the user does while files are copied.
    meanwhile = staticmethod(lambda: None)

    def run(self, argv: Sequence[str], *, binds: Sequence[Bind] = (), **_: object) -> str:
        places = {bind.inside: bind.source for bind in binds}
        if argv[0] != "rsync":
            assert argv[0] == "make"
            return ""
        assert {"--archive", "--delete", "--delete-excluded", "--modify-window=-1"} <= {*argv}
        skip = [word.partition("=")[2] for word in argv if word.startswith("--exclude=")]
        self._copy(places["/skblab/src"], places["/skblab/out"], skip)
        type(self).meanwhile()
        return ""

    def _copy(self, origin: Path, target: Path, skip: Sequence[str]) -> None:
        target.mkdir(exist_ok=True)
        wanted = {
            path.name
            for path in origin.iterdir()
            if not any(fnmatch.fnmatch(path.name, pattern) for pattern in skip)
        }
        for old in list(target.iterdir()):
            if old.name not in wanted:
                store.remove(old)
        for name in wanted:
            if (origin / name).is_dir():
                self._copy(origin / name, target / name, skip)
                continue
            new, there = (origin / name).stat(), target / name
            if there.exists() and (there.stat().st_size, there.stat().st_mtime_ns) == (
                new.st_size,
                new.st_mtime_ns,
            ):
                continue
            part = target / f".{name}.a1b2c3"
            shutil.copy2(origin / name, part)
            part.rename(there)
            CopyingRoot.copied += 1


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
    (top / "patches" / "v6.12" / "net_path").mkdir(parents=True)
    (top / "patches" / "v6.12" / "net_path" / "series").write_text("1.patch\n")
    (top / "patches" / "v6.12" / "net_path" / "1.patch").write_text("x")
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
    assert "leave +skblab out" in told


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


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CopyingRoot:
    """A lab root and a cache of its own; a series changes net/dev.c to what its patch's name is."""

    def apply(series: Series, folder: Path, *_: object) -> None:
        new = folder / "net" / "dev.c.new"
        new.write_text(f"int {series.patches[0].read_text()};\n")
        new.rename(folder / "net" / "dev.c")

    monkeypatch.setattr("skblab.lab.kernel.series.apply", apply)
    monkeypatch.setattr(CopyingRoot, "copied", 0)
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    return CopyingRoot(tmp_path, "key")


def edited(tree: Path, text: str) -> source.Source:
    (tree / "net" / "dev.c").write_text(text)
    return source.find(tree, NO_ROOT)


def trees(found: source.Source) -> set[str]:
    return {path.name for path in store.entry(source.KIND, found.origin).iterdir()}


def test_an_edit_costs_no_second_copy(tmp_path: Path, root: CopyingRoot) -> None:
    tree = fake_tree(tmp_path / "linux")
    first = source.find(tree, NO_ROOT)
    with source.tree(first, None, root, QUIET) as made:
        assert (made / "net" / "dev.c").read_text() == "int x;\n"
    assert CopyingRoot.copied == 3
    kept = (made / "Makefile").stat().st_ino
    # Of the same size, and so soon after the first that only nanoseconds differ.
    (tree / "gone.c").touch()
    second = edited(tree, "int y;\n")
    (tree / "gone.c").unlink()
    second = source.find(tree, NO_ROOT)
    with source.tree(second, None, root, QUIET) as again:
        assert again == made
        assert (again / "net" / "dev.c").read_text() == "int y;\n"
    assert CopyingRoot.copied == 4
    assert (again / "Makefile").stat().st_ino == kept
    assert len(store.entries(source.KIND)) == 1
    assert first.origin == second.origin
    assert source.tree_key(first, None) != source.tree_key(second, None)
    # What is there is what was asked for: nothing is copied.
    with source.tree(second, None, root, QUIET):
        assert CopyingRoot.copied == 4


@pytest.mark.usefixtures("project")
def test_patched_trees_go_with_the_content_they_are_of(tmp_path: Path, root: CopyingRoot) -> None:
    tree = fake_tree(tmp_path / "linux")
    found = source.find(tree, NO_ROOT)
    series = source.series_for(found)
    with source.tree(found, series, root, QUIET) as made:
        assert (made / "net" / "dev.c").read_text() == "int x;\n"
        assert not (made / "net" / "dev.c").samefile(made.parent / source.PLAIN / "net" / "dev.c")
        assert (made / "Makefile").samefile(made.parent / source.PLAIN / "Makefile")
    assert trees(found) == {source.PLAIN, source.STATE, source.tree_key(found, series)}
    changed = edited(tree, "int other;\n")
    with source.tree(changed, None, root, QUIET) as plain:
        assert (plain / "net" / "dev.c").read_text() == "int other;\n"
    assert trees(changed) == {source.PLAIN, source.STATE}


def test_only_some_patched_trees_stay(tmp_path: Path, root: CopyingRoot, project: Path) -> None:
    found = source.find(fake_tree(tmp_path / "linux"), NO_ROOT)
    keys = []
    for number in range(source.KEPT_PATCHED + 3):
        (project / "patches" / "v6.12" / "net_path" / "1.patch").write_text(f"x{number}")
        series = source.series_for(found)
        keys.append(source.tree_key(found, series))
        with source.tree(found, series, root, QUIET) as made:
            assert (made / "net" / "dev.c").read_text() == f"int x{number};\n"
            os.utime(made, (number, number))
    with source.tree(found, None, root, QUIET):
        pass
    assert trees(found) == {source.PLAIN, source.STATE, *keys[-source.KEPT_PATCHED :]}


def test_a_tree_that_changes_while_it_is_copied(
    tmp_path: Path, root: CopyingRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = fake_tree(tmp_path / "linux")
    found = source.find(tree, NO_ROOT)
    late = staticmethod(lambda: (tree / "net" / "dev.c").write_text("int late;\n"))
    monkeypatch.setattr(CopyingRoot, "meanwhile", late)
    with (
        pytest.raises(UsageError, match="was changed before its copy was whole"),
        source.tree(found, None, root, QUIET),
    ):
        pass
    assert not store.entry(source.KIND, found.origin).exists()


def test_an_edit_after_it_was_asked_for_leaves_the_copy(tmp_path: Path, root: CopyingRoot) -> None:
    tree = fake_tree(tmp_path / "linux")
    first = source.find(tree, NO_ROOT)
    with source.tree(first, None, root, QUIET):
        pass
    second = edited(tree, "int second;\n")
    edited(tree, "int third;\n")
    with (
        pytest.raises(UsageError, match="was changed before"),
        source.tree(second, None, root, QUIET),
    ):
        pass
    assert source.state(store.entry(source.KIND, first.origin)) is not None


def test_half_a_copy_is_none(tmp_path: Path, root: CopyingRoot) -> None:
    """As a kill -9 while copying leaves it."""
    found = source.find(fake_tree(tmp_path / "linux"), NO_ROOT)
    place = store.entry(source.KIND, found.origin)
    (place / source.PLAIN / "net").mkdir(parents=True)
    (place / source.PLAIN / "net" / "dev.c").write_text("int ha")
    (place / "0123.part").mkdir()
    assert source.state(place) is None
    with source.tree(found, None, root, QUIET) as made:
        assert (made / "net" / "dev.c").read_text() == "int x;\n"
    assert trees(found) == {source.PLAIN, source.STATE}


def test_no_build_changes_the_tree_of_another(tmp_path: Path, root: CopyingRoot) -> None:
    tree = fake_tree(tmp_path / "linux")
    first = source.find(tree, NO_ROOT)

    def build(found: source.Source) -> None:
        with source.tree(found, None, root, QUIET) as made:
            (tmp_path / "seen").write_text((made / "net" / "dev.c").read_text())

    with source.tree(first, None, root, QUIET) as made:
        second = edited(tree, "int y;\n")
        other = multiprocessing.get_context("fork").Process(target=build, args=(second,))
        other.start()
        # Another build of the same content need not wait.
        build(first)
        assert (tmp_path / "seen").read_text() == "int x;\n"
        until_at_lock(other)
        assert (made / "net" / "dev.c").read_text() == "int x;\n"
        assert store.discard(source.KIND, first.origin) == store.IN_USE
    other.join()
    assert other.exitcode == 0
    assert (tmp_path / "seen").read_text() == "int y;\n"
    with uses.nobody(source.KIND, first.origin) as free:
        assert free


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
    (project / "patches" / "v6.12" / "net_path" / "1.patch").write_text(
        "--- a/net/dev.c\n+++ b/net/dev.c\n@@ -1,1 +1,1 @@\n-int x;\n+int patched;\n"
    )
    found = source.find(tree, lab)
    with source.tree(found, source.series_for(found), lab, Reporter(quiet=True)) as made:
        assert (made / "net" / "dev.c").read_text() == "int patched;\n"
        assert sorted(p.name for p in made.iterdir()) == ["Kconfig", "Makefile", "net"]
    # The user's own tree is as it was.
    assert (tree / "net" / "dev.c").read_text() == "int x;\n"
    assert (tree / ".config").exists()
