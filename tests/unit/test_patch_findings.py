# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading what compilers and checkers say, comparing it, and choosing the objects to compile."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from skblab.lab.kernel import build, findings, objects, patchcheck
from skblab.lab.kernel.patchcheck import CheckRequest, Outcome, PatchResult
from skblab_analysis.base.errors import UsageError

GCC = """\
  CC      net/core/dev.o
/skblab/src/net/core/dev.c: In function 'f':
/skblab/src/net/core/dev.c:12:6: warning: variable 'x' set but not used [-Wunused-but-set-variable]
   12 |  int x;
      |      ^
In file included from /skblab/src/net/core/gro.c:3:
/skblab/src/include/linux/skbuff.h:9:1: warning: no previous prototype for 'g' [-Wmissing]
/skblab/src/include/linux/skbuff.h:9:1: warning: no previous prototype for 'g' [-Wmissing]
"""
SPARSE = """\
  CHECK   /skblab/src/net/core/dev.c
/skblab/src/net/core/dev.c:99:9: warning: incorrect type in assignment (different base types)
/skblab/src/net/core/dev.c:99:9:    expected restricted __be16
/skblab/src/net/core/dev.c:99:9:    got int
/skblab/src/net/core/dev.c:104:9: warning: incorrect type in assignment (different base types)
../net/core/gro.c:5:1: error: undefined identifier 'h'
"""
UNUSED = "net/core/dev.c: warning: variable 'x' set but not used [-Wunused-but-set-variable]"
TYPES = "net/core/dev.c: warning: incorrect type in assignment (different base types)"


def test_a_headers_complaint_counts_once() -> None:
    said = findings.read(GCC)
    assert said == {
        UNUSED: 1,
        "include/linux/skbuff.h: warning: no previous prototype for 'g' [-Wmissing]": 1,
    }


def test_the_same_words_at_two_places_count_twice() -> None:
    assert findings.read(SPARSE) == {
        TYPES: 2,
        "net/core/gro.c: error: undefined identifier 'h'": 1,
    }


def test_moved_lines_are_no_finding_and_one_more_is() -> None:
    before = findings.read(SPARSE)
    moved = findings.read(SPARSE.replace("99:9", "120:9").replace("104:9", "125:1"))
    assert findings.added(before, moved) == []
    one_more = SPARSE + SPARSE.replace("99:9", "300:1")
    assert findings.added(before, findings.read(one_more)) == [TYPES]
    assert findings.added(findings.read(one_more), before) == []


@pytest.mark.parametrize(
    "line",
    [
        "net/core/dev.o: warning: objtool: f.constprop.0+0x12: unreachable instruction",
        "WARNING: modpost: missing MODULE_DESCRIPTION() in lib/x.o",
        "net/core/dev.c:7: warning: Function parameter 'a' not described in 'f'",
    ],
)
def test_what_other_tools_say(line: str) -> None:
    assert sum(findings.read(f"  LD      vmlinux.o\n{line}\n").values()) == 1


def test_clones_and_offsets_are_no_change() -> None:
    first = "net/a.o: warning: objtool: f.constprop.0+0x12: unreachable instruction"
    second = "net/a.o: warning: objtool: f.constprop.3+0x40: unreachable instruction"
    assert findings.read(first) == findings.read(second)


def test_checkpatch() -> None:
    output = (
        "/skblab/out/0001-a.patch:12: WARNING:LONG_LINE: line length of 104 exceeds 100 columns\n"
        "/skblab/out/0001-a.patch:20: CHECK:SPACING: No space is necessary after a cast\n"
        "/skblab/out/0001-a.patch:31: ERROR:CODE_INDENT: code indent should use tabs\n"
        "total: 1 errors, 1 warnings, 1 checks, 40 lines checked\n"
    )
    said = findings.checkpatch(output, "", "")
    assert [text.split(":")[0] for text in said.serious] == ["line 12", "line 31"]
    assert said.checks == ("line 20: CHECK:SPACING: No space is necessary after a cast",)


BACKPORT = f"""\
From: somebody

[ Upstream commit {"ab" * 20} ]
see commit abcdef
--- /dev/null
+++ b/tools/testing/selftests/net/new.py
"""
COMMIT = "ERROR:GIT_COMMIT_ID: Please use git commit description style"
FILES = (
    "WARNING:FILE_PATH_CHANGES: added, moved or deleted file(s), does MAINTAINERS need updating?"
)


@pytest.mark.parametrize(
    ("line", "said", "patch", "serious"),
    [
        (3, COMMIT, BACKPORT, False),
        (4, COMMIT, BACKPORT, True),
        (99, COMMIT, BACKPORT, True),
        (5, FILES, BACKPORT, False),
        (5, FILES, BACKPORT.replace("tools/testing", "tools/other"), True),
        (5, FILES, BACKPORT + "deleted file mode 100644\n", True),
        (5, FILES, "", True),
    ],
)
def test_what_checkpatch_cannot_know(line: int, said: str, patch: str, serious: bool) -> None:
    maintainers = "F:\ttools/testing/selftests/net/\nF:\t*\nF:\t*/\n"
    found = findings.checkpatch(f"/skblab/out/1.patch:{line}: {said}\n", patch, maintainers)
    assert (len(found.serious), len(found.checks)) == ((1, 0) if serious else (0, 1))


def test_undefined_symbols() -> None:
    assert findings.undefined("                 U __start___ex_table\n   U lost\n") == {
        "undefined symbol: __start___ex_table": 1,
        "undefined symbol: lost": 1,
    }


PATCH = """\
Subject: [PATCH] net: x

--- a/net/core/dev.c
+++ b/net/core/dev.c
@@ -1 +1 @@
--- /dev/null
+++ b/include/net/new.h
@@ -0,0 +1 @@
--- a/net/old.c
+++ /dev/null
@@ -1 +0,0 @@
"""


def test_touched_files_are_those_that_are_left() -> None:
    assert objects.touched(PATCH) == ("net/core/dev.c", "include/net/new.h")


def test_choice_of_objects() -> None:
    users = {
        "net/core/dev.c": ["net/core/dev.o"],
        "include/linux/seen.h": ["kernel/a.o", "net/core/dev.o"],
        "include/linux/other.h": ["fs/b.o", "net/z.o", "net/a.o"],
        "include/linux/far.h": ["mm/c.o", "fs/b.o"],
    }
    files = [*users, "drivers/net/off.c", "include/net/lost.h", "tools/testing/x.c", "a.rst"]
    choice = objects.choose(files, users)
    assert choice.objects == ("fs/b.o", "net/a.o", "net/core/dev.o")
    assert choice.unseen == ("drivers/net/off.c", "include/net/lost.h")


def test_users_are_read_from_a_finished_build(tmp_path: Path) -> None:
    def built(name: str, *sources: str, finished: bool = True) -> None:
        obj = tmp_path / name
        obj.parent.mkdir(parents=True, exist_ok=True)
        listed = "".join(f"  /skblab/src/{source} \\\n" for source in sources[1:])
        text = f"source_{name} := /skblab/src/{sources[0]}\n\ndeps_{name} := \\\n{listed}\n"
        obj.with_name(f".{obj.name}.cmd").write_text(text)
        if finished:
            obj.touch()

    built("net/core/dev.o", "net/core/dev.c", "include/linux/skbuff.h")
    built("net/core/gro.o", "net/core/gro.c", "include/linux/skbuff.h.x")
    built("tools/bpf/x.o", "tools/bpf/x.c", "include/linux/skbuff.h")
    built("net/gone.o", "net/gone.c", "include/linux/skbuff.h", finished=False)
    files = ["net/core/dev.c", "include/linux/skbuff.h", "net/core/none.c"]
    assert objects.users(tmp_path, files) == {
        "net/core/dev.c": ["net/core/dev.o"],
        "include/linux/skbuff.h": ["net/core/dev.o"],
        "net/core/none.c": [],
    }
    assert objects.users(tmp_path, []) == {}


def test_selection_of_patches() -> None:
    assert CheckRequest().selected(3) == [1, 2, 3]
    assert CheckRequest(first=2).selected(3) == [2, 3]
    assert CheckRequest(only=(3, 1)).selected(3) == [1, 3]


@pytest.mark.parametrize("wrong", [CheckRequest(only=(4,)), CheckRequest(first=0)])
def test_selection_of_a_patch_that_is_not_there(wrong: CheckRequest) -> None:
    with pytest.raises(UsageError, match=r"there is no patch \d: the series has 1 to 3"):
        wrong.selected(3)


def test_what_was_not_reached_is_not_good() -> None:
    def result(**outcomes: Outcome) -> PatchResult:
        return PatchResult(patch="1", key="k", outcomes=outcomes, seconds=0)

    assert result(a=Outcome(verdict="ok"), b=Outcome(verdict="as off")).good
    assert not result(a=Outcome(verdict="ok"), b=Outcome(verdict="not reached")).good
    assert not result(a=Outcome(verdict="failed", found=("x",))).good


def test_no_object_is_not_the_whole_kernel() -> None:
    """Make without a target compiles all there is."""
    make = Mock(spec=build.Make)
    assert patchcheck._complaints(make, ["W=1"], []) == findings.Findings()
    make.run.assert_not_called()
