# SPDX-License-Identifier: GPL-2.0-or-later
"""Patch series: reading quilt's file, applying without fuzz, and failures that name the hunk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from skblab.lab import labroot
from skblab.lab.kernel import series
from skblab.lab.labroot import Bind, LabRoot
from skblab_analysis.base.errors import SkblabError, UsageError

OLD = "".join(f"line {n}\n" for n in range(1, 21))


def diff(name: str, hunks: Sequence[tuple[int, str]]) -> str:
    """A patch for `name` in which each hunk puts `new` after line n of OLD."""
    text = f"Subject: change\n\n--- a/{name}\n+++ b/{name}\n"
    for added, (line, new) in enumerate(hunks):
        text += f"@@ -{line - 1},4 +{line - 1 + added},5 @@\n"
        text += f" line {line - 1}\n line {line}\n+{new}\n line {line + 1}\n line {line + 2}\n"
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "v6.12"
    made.mkdir()
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "linux"
    (made / "net").mkdir(parents=True)
    (made / "net" / "dev.c").write_text(OLD)
    return made


def host_patch(patch: Path, tree: Path) -> tuple[int, str]:
    """The same GNU patch command as in a build: the host's program, or else the lab root's."""
    if shutil.which("patch"):
        return series.run_merged([*series.PATCH, "-d", str(tree), "-i", str(patch)])
    lab = labroot.existing()
    if lab is None or os.geteuid() != 0:
        pytest.fail("no GNU patch here, and no lab root that has one: install patch")
    binds = [Bind(tree, "src", writable=True), Bind(patch.parent, "run")]
    call = [*series.PATCH, "-d", binds[0].inside, "-i", f"{binds[1].inside}/{patch.name}"]
    return series.run_merged(lab.command(call, binds=binds))


def make(folder: Path, patches: dict[str, str]) -> series.Series:
    for name, text in patches.items():
        (folder / name).write_text(text)
    (folder / "series").write_text("".join(f"{name}\n" for name in patches))
    return series.read(folder)


def test_reads_quilts_format(folder: Path) -> None:
    for name in ("0001-a.patch", "0002-b.patch"):
        (folder / name).write_text(diff("net/dev.c", [(5, "x")]))
    text = "# first\n\n0001-a.patch\n  0002-b.patch -p1 # why\n#0003.patch\n"
    (folder / "series").write_text(text)
    read = series.read(folder)
    assert [patch.name for patch in read.patches] == ["0001-a.patch", "0002-b.patch"]
    assert read.name == "v6.12"
    assert [record.name for record in read.records()] == ["0001-a.patch", "0002-b.patch"]
    assert len({record.sha256 for record in read.records()}) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a.patch\nmissing.patch\n", "series:2: missing.patch does not exist"),
        ("a.patch -p0\n", "series:1: '-p0' is not understood"),
        ("a.patch\na.patch\n", "series:2: a.patch is in the series twice"),
        ("../a.patch\n", "series:1: ../a.patch must be a path below"),
        ("# nothing\n", "names no patch"),
    ],
)
def test_wrong_series_names_the_line(folder: Path, text: str, told: str) -> None:
    (folder / "a.patch").write_text("x")
    (folder / "series").write_text(text)
    with pytest.raises(UsageError, match="series") as caught:
        series.read(folder)
    assert told in str(caught.value)


def test_missing_series_file(folder: Path) -> None:
    with pytest.raises(UsageError, match="expected a quilt series"):
        series.read(folder)


def test_applies_in_order(folder: Path, tree: Path) -> None:
    both = make(
        folder,
        {
            "1.patch": diff("net/dev.c", [(5, "five")]),
            "2.patch": "--- a/net/dev.c\n+++ b/net/dev.c\n"
            "@@ -5,4 +5,5 @@\n line 5\n five\n+more\n line 6\n line 7\n",
        },
    )
    series.apply(both, tree, host_patch, "6.12.1")
    assert "line 5\nfive\nmore\nline 6\n" in (tree / "net" / "dev.c").read_text()
    assert [file.name for file in tree.rglob("*") if file.is_file()] == ["dev.c"]


def test_second_hunk_fails(folder: Path, tree: Path) -> None:
    broken = diff("net/dev.c", [(3, "a"), (12, "b")]).replace(" line 12\n", " line twelve\n")
    one = make(folder, {"0001-net.patch": broken})
    with pytest.raises(SkblabError) as caught:
        series.apply(one, tree, host_patch, "6.12.1")
    told = str(caught.value)
    assert told.startswith("v6.12/0001-net.patch does not apply to Linux 6.12.1: ")
    assert told.endswith("net/dev.c: hunk 2 does not match at line 12")


def test_no_fuzz(folder: Path, tree: Path) -> None:
    # GNU patch would accept this by default: only the outermost context line is wrong.
    context = "".join(f" line {n}\n" for n in (4, 5))
    text = (
        "--- a/net/dev.c\n+++ b/net/dev.c\n@@ -3,6 +3,7 @@\n line three\n"
        f"{context}+new\n line 6\n line 7\n line 8\n"
    )
    one = make(folder, {"1.patch": text})
    with pytest.raises(SkblabError, match="hunk 1 does not match at line 3"):
        series.apply(one, tree, host_patch, "6.12.1")
    assert (tree / "net" / "dev.c").read_text() == OLD


def test_applied_already(folder: Path, tree: Path) -> None:
    text = diff("net/dev.c", [(5, "five")])
    twice = make(folder, {"1.patch": text, "2.patch": text})
    with pytest.raises(SkblabError, match=r"2\.patch does not apply.*dev\.c: hunk 1"):
        series.apply(twice, tree, host_patch, "6.12.1")


def test_no_such_file(folder: Path, tree: Path) -> None:
    one = make(folder, {"1.patch": diff("net/gone.c", [(5, "five")])})
    with pytest.raises(SkblabError, match=r"net/gone\.c: there is no such file to patch"):
        series.apply(one, tree, host_patch, "6.12.1")


def test_file_to_create_exists(folder: Path, tree: Path) -> None:
    text = "--- /dev/null\n+++ b/net/dev.c\n@@ -0,0 +1,1 @@\n+new\n"
    one = make(folder, {"1.patch": text})
    with pytest.raises(SkblabError, match=r"net/dev\.c"):
        series.apply(one, tree, host_patch, "6.12.1")


def test_malformed(folder: Path, tree: Path) -> None:
    text = "--- a/net/dev.c\n+++ b/net/dev.c\n@@ -1,9 +1,10 @@\n line 1\n"
    one = make(folder, {"1.patch": text})
    with pytest.raises(SkblabError, match=r"1\.patch does not apply.*(malformed|unexpected)"):
        series.apply(one, tree, host_patch, "6.12.1")


@pytest.mark.labroot
def test_in_the_lab_root(folder: Path, tree: Path, lab: LabRoot) -> None:
    good = make(folder, {"1.patch": diff("net/dev.c", [(5, "five")])})
    series.apply(good, tree, series.patch_in(lab), "6.12.1")
    assert "five" in (tree / "net" / "dev.c").read_text()
    with pytest.raises(SkblabError, match=r"dev\.c: hunk 1"):
        series.apply(good, tree, series.patch_in(lab), "6.12.1")


def git(*names: str, new: str = "changed") -> str:
    """A patch as git writes it, that changes these files."""
    changed = (diff(name, [(2, new)]).partition("\n\n")[2] for name in names)
    return "Subject: change\n\n---\n" + "".join(
        f"diff --git a/{name} b/{name}\n{text}" for name, text in zip(names, changed, strict=True)
    )


def test_a_kernel_is_built_from_what_changes_it(folder: Path) -> None:
    aside = ("MAINTAINERS", "Documentation/net.rst", "tools/testing/selftests/net/a.py")
    first = make(folder, {"1.patch": git("net/dev.c", *aside), "2.patch": git(*aside)})
    [told] = first.built_from()
    assert told.startswith("1.patch ")
    for patches, same in (
        ({"1.patch": git("net/dev.c", *aside[1:]), "2.patch": git(*aside[:1])}, True),
        ({"1.patch": git("net/dev.c", *aside, new="otherwise"), "2.patch": git(*aside)}, False),
        ({"1.patch": git("net/dev.c", *aside), "2.patch": git("tools/objtool/check.c")}, False),
        ({"1.patch": diff("Documentation/net.rst", [(2, "changed")])}, False),
    ):
        assert (make(folder, patches).built_from() == (told,)) is same
