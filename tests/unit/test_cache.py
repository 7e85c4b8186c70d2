# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache as a whole: what is listed, what goes, what never does, and the bound."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TREE, Skblab
from skblab import cli
from skblab.lab import store, tools, uses
from skblab.lab.cache import choice, keep, mounts, sizes
from skblab.lab.cache.entries import Entry, entries, taken, total
from skblab.lab.cache.kinds import KINDS
from skblab.lab.cache.needed import needed, requests
from skblab.lab.kernel import build as kernel_build
from skblab.lab.kernel import source
from skblab.lab.kernel.lines import DEFAULT
from skblab.lab.kernel.model import Record
from skblab.lab.labroot import root as labroot
from skblab.lab.labroot.root import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabWarning, UsageError

NOW = 1_800_000_000.0
DAY = choice.DAY_SECONDS
MIB = 2**20
# What building a kernel takes, as far as it matters here.
PLAN = SimpleNamespace(key="kernel", source=SimpleNamespace(origin="origin"))


class Home:
    """A cache: old entries are put there, and one may be needed by this checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.needed: set[tuple[str, str]] = set()

    def put(self, kind: str, key: str, *, days: float = 30, size: int = MIB) -> Path:
        path = self.folder / kind / key
        path.mkdir(parents=True)
        (path / "content").write_bytes(b"x" * size)
        self.age(path, days)
        return path

    def age(self, path: Path, days: float) -> None:
        when = time.time() - days * DAY
        os.utime(path, (when, when))

    def left(self) -> set[str]:
        skip = {"uses", "locks"}
        return {
            f"{path.parent.name}/{path.name}"
            for path in self.folder.glob("*/*")
            if path.parent.name not in skip
        }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path / "cache")
    made.folder.mkdir()
    monkeypatch.setenv("SKBLAB_CACHE", str(made.folder))
    monkeypatch.delenv(sizes.VARIABLE, raising=False)
    monkeypatch.setattr(keep, "needed", lambda: frozenset(made.needed))
    # Another test's entries are not of this cache.
    monkeypatch.setattr(store, "added", set())
    return made


def record(**changes: object) -> str:
    whole = {
        "key": "k",
        "release": "6.12.5-skblab",
        "flavour": "stock",
        "patched": True,
        "series": "v6.12",
        "patches": (),
        "source": "/home/me/linux",
        "source_version": "6.12.5",
        "source_digest": "d",
        "toolchain": {},
        "fragments": (),
        "config_sha256": "c",
        "image_sha256": "i",
        "made": "2026-11-24T10:00:00+00:00",
        "seconds": 1.0,
        "output_lines": 1,
    }
    return Record.model_validate(whole | changes).model_dump_json()


def listing(skblab_here: Skblab) -> dict[str, dict[str, object]]:
    done = skblab_here("cache", "list", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rows = {f"{row['kind']}/{row['key']}": row for row in document["entries"]}
    assert document["bytes"] == sum(row["bytes"] for row in rows.values())
    return rows


def test_each_entry_is_named_as_a_user_knows_it(home: Home, skblab_here: Skblab) -> None:
    (home.put("kernels", "aaaa") / "kernel.json").write_text(record())
    debian = f"/cache/roots/x/{DEFAULT.tarball}"
    text = record(release="6.12.5-plain-rt", flavour="rt", patched=False, source=debian)
    (home.put("kernels", "bbbb") / "kernel.json").write_text(text)
    home.put("kernels", "broken")
    state = source.State(place=Path("/home/me/linux"), version="6.12.5", digest="d")
    (home.put("sources", "cccc") / source.STATE).write_text(state.model_dump_json())
    (home.put("roots", "dddd") / "skblab").mkdir()
    (home.folder / "roots/dddd/skblab/versions.json").write_text('{"gcc": "14", "make": "4"}')
    home.put("hosts", "router")
    home.put("mine", "file")
    home.needed = {("kernels", "aaaa"), ("roots", "eeee")}
    rows = listing(skblab_here)
    assert {key: row["name"] for key, row in rows.items() if not key.startswith("uses")} == {
        "roots/dddd": "lab root, 2 Debian packages",
        "kernels/aaaa": "6.12.5-skblab, stock, with our series, of /home/me/linux",
        "kernels/bbbb": "6.12.5-plain-rt, rt, without our series, of Debian's source",
        "kernels/broken": "kernel",
        "sources/cccc": "Linux 6.12.5, of /home/me/linux",
        "hosts/": "what puts settings back on hosts",
        "mine/": "not skblab's",
    }
    known = {key: row["needed"] for key, row in rows.items()}
    assert (known["kernels/aaaa"], known["kernels/bbbb"]) == (True, False)
    assert (known["roots/dddd"], known["sources/cccc"]) == (False, None)
    table = skblab_here("cache", "list").stdout
    assert "6.12.5-skblab, stock" in table
    assert "of at most 20.0 GiB (SKBLAB_CACHE_GIB)" in table
    assert re.search(r"^hosts .* always kept +what puts settings back", table, re.M)


def test_sizes_and_last_uses(home: Home, skblab_here: Skblab) -> None:
    home.put("kernels", "old", days=3, size=3 * MIB)
    home.put("tools", "used", days=3)
    uses.hold("tools", "used")
    rows = listing(skblab_here)
    assert 3 * MIB <= int(str(rows["kernels/old"]["bytes"])) < 3.1 * MIB
    # To look is no use.
    assert listing(skblab_here)["kernels/old"]["used"] == rows["kernels/old"]["used"]
    assert str(rows["kernels/old"]["used"]) < str(rows["tools/used"]["used"])
    assert (rows["kernels/old"]["in_use"], rows["tools/used"]["in_use"]) == (False, True)
    assert taken() >= 4 * MIB


def test_nothing_there(home: Home, skblab_here: Skblab) -> None:
    assert listing(skblab_here) == {}
    done = skblab_here("cache", "prune")
    assert done.returncode == 0
    assert done.stdout.startswith("nothing to remove")


def test_prune_removes_what_is_not_needed(home: Home, skblab_here: Skblab) -> None:
    for key in ("needed", "used", "new", "old"):
        home.put("kernels", key)
    home.needed = {("kernels", "needed")}
    uses.hold("kernels", "used")
    home.age(home.folder / "kernels" / "new", 0)
    for kind in ("hosts", "guests", "kvm", "logs", "checks", "portable", "mine"):
        home.put(kind, "x")
    before = home.left()
    dry = skblab_here("cache", "prune", "--dry-run")
    assert home.left() == before
    assert [line.split()[0] for line in dry.stdout.splitlines()[:-1]] == ["kernels/old"]
    assert dry.stdout.splitlines()[-1] == "would remove: 1 of kernels; 1.0 MiB"
    done = skblab_here("cache", "prune", "--json")
    assert [row["key"] for row in json.loads(done.stdout)["removed"]] == ["old"]
    assert before - home.left() == {"kernels/old"}


def test_prune_by_age(home: Home, skblab_here: Skblab) -> None:
    for kind in KINDS:
        for key, days in (("old", 40), ("young", 20)):
            if kind not in ("uses", "locks"):
                home.put(kind, key, days=days)
    home.put("develop", "out", days=40)
    home.needed = {("roots", "old")}
    before = home.left()
    assert skblab_here("cache", "prune", "--older-than", "30").returncode == 0
    never = {name for name, kind in KINDS.items() if kind.goes == "never"} | {"develop"}
    assert before - home.left() == {
        *(f"{kind}/old" for kind in KINDS.keys() - never - {"roots"}),
        "develop/out",
    }


@pytest.mark.parametrize("word", ["kernels", "bbbb", "6.12.5-skblab"])
def test_prune_keeps(home: Home, skblab_here: Skblab, word: str) -> None:
    (home.put("kernels", "bbbb") / "kernel.json").write_text(record())
    home.put("sources", "cccc")
    home.age(home.folder / "kernels" / "bbbb", 30)
    done = skblab_here("cache", "prune", "--older-than", "1", "--keep", word)
    assert done.returncode == 0
    assert home.left() == {"kernels/bbbb"}


def test_prune_keeps_no_empty_word(home: Home, skblab_here: Skblab) -> None:
    home.put("kernels", "bbbb")
    done = skblab_here("cache", "prune", "--keep", " ")
    assert (done.returncode, "expected a kind" in done.stderr) == (2, True)


def test_what_is_mounted_anywhere_is_in_use(
    home: Home, skblab_here: Skblab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a guest has it whose skblab knew nothing of `uses/`, or was killed."""
    for key in ("mounted", "other"):
        home.put("kernels", key)
    proc = tmp_path / "proc"
    (proc / "12" / "ns").mkdir(parents=True)
    (proc / "12" / "ns" / "mnt").symlink_to("mnt:[1]")
    (proc / "13").mkdir()
    (proc / "12" / "mountinfo").write_text(
        "1 0 254:0 / / rw - ext4 /dev/vda rw\n"
        "2 1 254:0 /root/.cache/skblab/kernels/mounted /skblab/kernel ro - ext4 /dev/vda rw\n"
    )
    monkeypatch.setattr(mounts, "PROC", proc)
    assert listing(skblab_here)["kernels/mounted"]["in_use"]
    skblab_here("cache", "prune", "--older-than", "1")
    assert home.left() == {"kernels/mounted"}


def test_what_checks_compile_stays_while_one_runs(home: Home, skblab_here: Skblab) -> None:
    home.put("develop", "out")
    with store.locked("develop", Reporter(quiet=True)):
        assert listing(skblab_here)["develop/out"]["in_use"]
        skblab_here("cache", "prune", "--older-than", "0")
        assert home.left() == {"develop/out"}
    # And a moment later it was just used.
    skblab_here("cache", "prune", "--older-than", "0")
    assert home.left() == {"develop/out"}


def test_another_caches_entries_stay(home: Home, skblab_here: Skblab, tmp_path: Path) -> None:
    """Whoever uses them holds locks that are not in this cache."""
    home.put("kernels", "old").parent.rename(tmp_path / "kernels")
    (tmp_path / "kernels" / "built.part").mkdir()
    (home.folder / "kernels").symlink_to(tmp_path / "kernels")
    skblab_here("cache", "prune", "--older-than", "1")
    assert home.left() == {"kernels/old", "kernels/built.part"}


def test_what_is_behind_a_link_does_not_count(
    home: Home,
    skblab_here: Skblab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another cache's kernels, its compiler cache, and an entry, must not drive our own out."""
    for kind, key in (("kernels", "theirs"), ("ccache", "x"), ("tools", "theirs")):
        home.put(kind, key, size=4 * MIB)
        entry = Path(kind) if kind != "tools" else Path(kind, key)
        target = tmp_path / "other" / entry
        target.parent.mkdir(parents=True, exist_ok=True)
        (home.folder / entry).rename(target)
        (home.folder / entry).symlink_to(target)
    home.put("sources", "ours")
    rows = listing(skblab_here)
    assert rows["kernels/"]["name"] == f"in {tmp_path}/other/kernels, not counted: a link"
    assert [rows[key]["bytes"] for key in ("kernels/", "ccache/", "tools/theirs")] == [0, 0, 0]
    assert int(str(rows["sources/ours"]["bytes"])) >= MIB
    monkeypatch.setenv(sizes.VARIABLE, str(2 / 1024))
    keep.keep_bound(Reporter())
    assert capsys.readouterr().err == ""
    assert home.left() >= {"sources/ours", "kernels/theirs"}
    # A link goes, and what it leads to does not.
    assert skblab_here("cache", "prune", "--older-than", "1").returncode == 0
    assert home.left() == {"kernels/theirs", "ccache/x"}
    assert (tmp_path / "other" / "tools" / "theirs" / "content").exists()


def test_a_mount_is_seen_in_a_cache_behind_a_link(home: Home, tmp_path: Path) -> None:
    """What is mounted is somebody else's: nothing may be deleted there."""
    (tmp_path / "link").symlink_to(home.folder)
    place = home.put("kernels", "aaaa") / "mnt"
    place.mkdir()
    fine = 'mount -t tmpfs none "$1" && exec "$2" -c "$3" "$4"'
    said = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-ec", fine, "sh", str(place), sys.executable),
            "import pathlib, sys; from skblab.lab import store; "
            "print(store.delete(pathlib.Path(sys.argv[1])))",
            str(tmp_path / "link" / "kernels" / "aaaa"),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"{place} is still mounted" in said
    assert (home.folder / "kernels" / "aaaa" / "content").exists()


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file of the name "stubborn" be deleted, as one that is immutable (chattr +i)."""
    unlink = os.unlink

    def refuse(path: str | Path, *, dir_fd: int | None = None) -> None:
        if Path(path).name == "stubborn":
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    monkeypatch.setattr(store, "DYING_SECONDS", 0.1)


@pytest.mark.usefixtures("stubborn")
def test_what_cannot_be_deleted_is_said(home: Home, skblab_here: Skblab) -> None:
    home.put("kernels", "aaaa")
    (home.put("kernels", "bbbb") / "stubborn").touch()
    home.age(home.folder / "kernels" / "bbbb", 30)
    home.needed = {("kernels", "cccc")}
    done = skblab_here("cache", "prune")
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["kernels/aaaa", "removed:"]
    gone = f"{home.folder}/kernels/bbbb.{os.getpid()}.gone"
    said = f"cannot delete {gone}: stubborn: Operation not permitted"
    assert done.stderr == f"{said}\n"
    # All that could go of it has gone, and the rest is not forgotten.
    assert {path.name for path in Path(gone).iterdir()} == {"stubborn"}
    with pytest.warns(SkblabWarning, match=re.escape(said)):
        again = skblab_here("cache", "prune", "--json")
    assert (again.returncode, json.loads(again.stdout)["removed"]) == (0, [])


def test_what_cannot_be_renamed_is_said(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a file system that is read-only by now."""
    home.put("kernels", "aaaa", size=3 * MIB)
    home.put("logs", "bbbb")
    home.needed = {("kernels", "cccc")}

    def refuse(path: Path, _: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    removed = keep.remove(keep.look())
    assert removed.gone == ()
    assert {
        f"cannot delete {home.folder}/kernels/aaaa: Read-only file system",
        f"cannot delete {home.folder}/logs/bbbb: Read-only file system",
    } <= set(removed.failed)
    monkeypatch.setenv(sizes.VARIABLE, str(1 / 1024))
    keep.keep_bound(Reporter())
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == f"cannot delete {home.folder}/kernels/aaaa: Read-only file system"
    assert last.startswith("the cache takes 4.")


def test_what_somebody_began_to_use_is_kept(home: Home) -> None:
    home.put("kernels", "aaaa")
    found = keep.look()
    uses.hold("kernels", "aaaa")
    removed = keep.remove([entry for entry in found if entry.kind == "kernels"])
    assert removed == keep.Removed((), ("kept kernels/aaaa: it is in use now",), ())
    assert home.left() == {"kernels/aaaa"}


def test_what_killed_builds_left_goes(home: Home, skblab_here: Skblab) -> None:
    for name in ("key.part", "key.12.gone"):
        home.put("kernels", name)
    with store.locked("kernels-made", Reporter(quiet=True)):
        home.put("kernels", "made.part")
        assert listing(skblab_here).keys() == {"locks/"}
        assert home.left() == {"kernels/made.part"}


# The bound.


def entry(number: int, kind: str, size: int, used: float, busy: bool, needed: bool | None) -> Entry:
    goes = KINDS[kind].goes
    return Entry(kind, str(number), kind, Path(kind), size, used, goes, busy, needed)


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.integers(0, 50),
        st.integers(0, 100).map(lambda ago: NOW - ago * 30),
        st.booleans(),
        st.sampled_from([True, False, None]),
    ),
    max_size=25,
).map(lambda rows: [entry(number, *row) for number, row in enumerate(rows)])


@given(found=ENTRIES, bound=st.integers(0, 600))
def test_the_bound_is_kept_by_what_nobody_misses(found: list[Entry], bound: int) -> None:
    gone = choice.beyond(found, bound, NOW)
    left = [listed for listed in found if listed not in gone]
    may_go = [
        listed
        for listed in found
        if listed.goes == "always"
        and not listed.busy
        and listed.needed is not True
        and NOW - listed.used >= choice.JUST_SECONDS
    ]
    assert set(map(id, gone)) <= set(map(id, may_go))
    # Within the bound, if that is possible at all.
    assert total(left) <= max(bound, total(found) - total(may_go))
    # And no more than that: each one had to go, of which something comes back.
    assert all(total(left) + listed.size > bound for listed in gone)


def test_what_was_used_least_lately_goes_first() -> None:
    found = [entry(days, "kernels", 10, NOW - days * DAY, False, False) for days in (2, 9, 1, 5)]
    assert [listed.key for listed in choice.beyond(found, 25, NOW)] == ["9", "5"]


def test_a_small_one_stays_where_a_large_one_makes_the_room() -> None:
    found = [
        entry(days, kind, size, NOW - days * DAY, False, False)
        for days, kind, size in ((9, "logs", 1), (8, "kernels", 50), (7, "kernels", 50))
    ]
    assert [listed.key for listed in choice.beyond(found, 60, NOW)] == ["8"]


def test_the_bound_after_a_command_that_added(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for days in range(1, 7):
        home.put("kernels", f"k{days}", days=days, size=2 * MIB)
    home.needed = {("kernels", "k6")}
    uses.hold("kernels", "k5")
    monkeypatch.setenv(sizes.VARIABLE, str(9 / 1024))
    made = store.ensure("kernels", "made", Reporter(quiet=True), lambda part: _fill(part, MIB))
    assert cli._bounded(0) == 0
    assert made.is_dir()
    left = {name.partition("/")[2] for name in home.left()}
    assert left == {"made", "k6", "k5", "k1"}
    assert total(entries(())) <= 9 * MIB
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("removed from the cache to keep its bound of 9.0 MiB: 3 of kernels; 6.0")


def test_a_bound_that_cannot_be_kept_is_said(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.put("kernels", "needed", size=2 * MIB)
    home.needed = {("kernels", "needed")}
    monkeypatch.setenv(sizes.VARIABLE, str(1 / 1024))
    assert cli._bounded(0) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("the cache takes 2.0 MiB, more than its bound of 1.0 MiB")
    assert home.left() == {"kernels/needed"}


def _fill(folder: Path, size: int) -> None:
    (folder / "content").write_bytes(b"x" * size)


@pytest.mark.parametrize("text", ["0", "-1", "many", "nan", "inf"])
def test_a_bound_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(sizes.VARIABLE, text)
    with pytest.raises(UsageError, match=f"{sizes.VARIABLE}={text}: expected a number of GiB"):
        sizes.bound()


def test_the_compiler_caches_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sizes.VARIABLE, "8")
    assert sizes.ccache_limit() == "2048Mi"


def test_what_is_needed_without_a_lab_root(home: Home) -> None:
    assert needed() == {("roots", labroot.key())}
    assert home.left() == set()


def test_every_kernel_of_the_commands_is_needed() -> None:
    wanted = {request.local_version for request in requests()}
    assert {"-skblab", "-plain", "-skblab-off", "-skblab-rt", "-plain-debug"} <= wanted


def test_what_boot_has_in_a_guest_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tools that fit each kernel are not built again after every `cache prune`."""
    made = LabRoot(tmp_path, "key")
    asked: list[tuple[str, str]] = []

    def ensure(kind: str, key: str, *_: object) -> Path:
        asked.append((kind, key))
        return tmp_path

    monkeypatch.setattr(labroot, "existing", lambda: made)
    monkeypatch.setattr(kernel_build, "plan", lambda *_: PLAN)
    monkeypatch.setattr(store, "ensure", ensure)
    tools.programs(made, Reporter(quiet=True))
    assert asked and set(asked) <= needed()


def kinds_in_the_code() -> Iterator[str]:
    """Yield each kind that some code names when it adds an entry."""
    call = re.compile(
        r'(?:store\.ensure|extra\.unpacked)\(\s*"([a-z-]+)"|^KIND = "([a-z-]+)"', re.M
    )
    for file in (TREE / "runners" / "skblab").rglob("*.py"):
        for found in call.finditer(file.read_text()):
            yield found[1] or found[2]


def test_every_kind_is_known() -> None:
    found = set(kinds_in_the_code())
    assert {"kernels", "sources", "tools", "selftest-packages"} <= found
    assert found <= KINDS.keys()


@pytest.mark.parametrize("page", ["README.md", "docs/reference/files.md"])
def test_pages_say_the_same_figures(page: str) -> None:
    text = (TREE / page).read_text()
    assert f"{sizes.NEED_GIB} GiB of disk" in text
    assert set(re.findall(r"(\d+) GiB of disk", text)) == {str(sizes.NEED_GIB)}
    assert f"{sizes.BOUND_GIB:.0f} GiB" in text


def test_killed_while_pruning(home: Home) -> None:
    """What a removal leaves that is killed is no entry, and the next command clears it away."""
    home.put("kernels", "old")
    gone = store.put_away(home.folder / "kernels" / "old")
    assert gone.is_dir()
    assert "kernels" not in {listed.kind for listed in keep.look()}
    assert not gone.exists()
