# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of kernels: what belongs to each, where Debian's source comes from, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from conftest import TREE, Skblab
from skblab.bench import asked, plan
from skblab.lab import kernel, paths, tools
from skblab.lab.cache import needed as needing
from skblab.lab.cache.entries import entries
from skblab.lab.kernel import build, config, debian_packages, lines, names, series, source
from skblab.lab.kernel.lines import DEFAULT, LINES, Line
from skblab.lab.kernel.names import Name
from skblab.lab.kernel.ownconfig import OwnConfig
from skblab.lab.kernel.package import PackageRequest
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.labroot import root as labroot
from skblab.lab.reporter import Reporter
from skblab.sweep.request import Parameters, Request
from skblab_analysis.base.errors import SkblabError, UsageError

QUIET = Reporter(quiet=True)
NEW = lines.line("7.3")
PATCH = "--- a/net/dev.c\n+++ b/net/dev.c\n@@ -1,1 +1,1 @@\n-int x;\n+int patched;\n"
DIGEST = "0123456789abcdef" * 4
# Keys of this project with 6.12 as they were before somebody changed something else: every one of
# these kernels is in somebody's cache, and building it again takes an hour.
KEYS: dict[str, dict[str, object]] = {
    "25bede0706047188": {},
    "3404f588820dbc8e": {"flavour": "rt"},
    "7ce3f0993b206970": {"flavour": "debug"},
    "e6574e86953797c0": {"trace": False},
    "8de8221047c132ba": {"patches": False},
}


class FetchingRoot(LabRoot):
    """A lab root in which apt has packages of any suite; it says what it was asked for."""

    asked: ClassVar[list[tuple[str, ...]]] = []
    version = "7.3.4-1~bpo13+1"
    config = True

    def run(self, argv: Sequence[str], *, binds: Sequence[Bind] = (), **_: object) -> str:
        type(self).asked.append(tuple(argv[4:]))
        names = argv[6:]
        folder = next(bind.source for bind in binds if bind.point == "out") / "usr" / "src"
        folder.mkdir(parents=True)
        (folder / f"{names[0]}.tar.xz").write_text("packed")
        (folder / names[1]).mkdir()
        said = [f"unpacked {names[0]} {self.version} {DIGEST}"]
        said += [f"unpacked {names[1]} {self.version} {DIGEST}"] if self.config else []
        return "\n".join(["Get:1 something", *said, ""])


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabRoot:
    """A lab root that has the source of 6.12 and fetches others, and a project with patches."""
    top = tmp_path / "project"
    write_series(top / "patches" / "v6.12" / "net_path")
    (top / "kconfig").mkdir()
    for name in ("base", "rt", "checking", "debug", "kcsan", "kmsan", "skblab"):
        (top / "kconfig" / f"{name}.config").write_text(f"CONFIG_{name.upper()}=y\n")
    for name in NEW.differing:
        (top / "kconfig" / f"{name}-7.3.config").write_text(f"CONFIG_{name.upper()}_NEW=y\n")
    monkeypatch.setenv("SKBLAB_TREE", str(top))
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "lab"
    (root / "skblab").mkdir(parents=True)
    versions = {"gcc-14": "14.2.0-19", DEFAULT.source_package: "6.12.118-1"}
    (root / "skblab" / "versions.json").write_text(json.dumps(versions))
    tarball = root / DEFAULT.tarball
    tarball.parent.mkdir(parents=True)
    tarball.write_text("")
    monkeypatch.setattr(FetchingRoot, "asked", [])
    return FetchingRoot(root, "key")


def write_series(folder: Path, *names: str) -> None:
    """Write a series of patches of these names."""
    folder.mkdir(parents=True)
    chosen = names or ("1.patch",)
    (folder / "series").write_text("".join(f"{name}\n" for name in chosen))
    for name in chosen:
        (folder / name).write_text(PATCH)


def write_parts(*parts: str) -> None:
    """Write a patch for 7.3 in each of these parts; they all have the same name."""
    for part in parts:
        write_series(NEW.patches / part)


@pytest.mark.parametrize(("key", "asked"), KEYS.items())
def test_keys_of_the_default_line_stay(lab: LabRoot, key: str, asked: dict[str, object]) -> None:
    planned = build.plan(kernel.Request(**asked), lab)  # type: ignore[arg-type]
    assert planned.key == key
    assert planned.source.origin == "bb6cd08e95a9234a"
    assert FetchingRoot.asked == []


def test_tree_and_lab_root_of_the_default_line_stay(lab: LabRoot) -> None:
    planned = build.plan(kernel.Request(), lab)
    assert source.tree_key(planned.source, planned.series) == "66387341e835478c"
    assert source.tree_key(planned.source, None) == "6a98cd6d1ff2cb8d"
    assert not any("7.3" in name for name in labroot.packages())


def test_lines_have_names_that_are_lines() -> None:
    assert lines.NAMES == ("6.12", "7.3")
    assert LINES[0] is DEFAULT and kernel.Request().line is DEFAULT
    for line in LINES:
        assert lines.line(line.name) is line
        assert lines.of_version(f"{line}.7") == line.name
        assert (line.suite is None) == (line is DEFAULT)
    assert lines.of_version("7.3-rc1") == "7.3-rc1"
    assert lines.known("5.4") is None
    with pytest.raises(UsageError, match=r"--kernel 5\.4: no such line; known are: 6\.12, 7\.3"):
        lines.line("5.4")


def test_every_fragment_that_differs_is_there() -> None:
    """And no other one: a file that is never merged would mislead."""
    known = {"base", "rt", "checking", "debug", "kcsan", "kmsan", "skblab"}
    known |= {"architectures", "drivers"}
    wanted = {f"{name}-{line}" for line in LINES for name in line.differing}
    found = {file.stem for file in (TREE / "kconfig").glob("*.config")}
    assert found == known | wanted
    for name in sorted(wanted):
        asks = config.read_fragment(TREE / "kconfig" / f"{name}.config")
        before = config.wanted([TREE / "kconfig" / f"{name.partition('-')[0]}.config"])
        same = [ask.where for ask in asks if ask.option in before and _same(ask, before)]
        assert same == [], "they change nothing"


def _same(ask: config.Ask, before: dict[str, config.Ask]) -> bool:
    return before[ask.option].value == ask.value


@pytest.mark.parametrize(
    ("asked", "local", "fragments"),
    [
        ({}, "-plain", ("base", "base-7.3")),
        ({"flavour": "rt"}, "-plain-rt", ("base", "base-7.3", "rt", "rt-7.3")),
        ({"flavour": "debug"}, "-plain-debug", ("base", "base-7.3", "checking", "debug")),
    ],
)
def test_fragments_of_a_line(asked: dict[str, str], local: str, fragments: tuple[str, ...]) -> None:
    request = kernel.Request(line=NEW, patches=False, **asked)  # type: ignore[arg-type]
    assert request.local_version == local
    assert request.fragments == fragments


def test_a_user_s_configuration_stands_for_all_of_base(tmp_path: Path) -> None:
    own = OwnConfig(tmp_path / "config", "", {})
    request = kernel.Request(line=NEW, patches=False, flavour="rt")
    assert PackageRequest(request, own).fragments == ("rt", "rt-7.3")
    assert PackageRequest(kernel.Request(patches=False), own).fragments == ()


def test_a_line_without_patches_says_how_to_go_on(lab: LabRoot) -> None:
    told = r"no patches for Linux 7\.3 yet \(patches/v7\.3\); leave \+skblab out to have the kernel"
    with pytest.raises(UsageError, match=told):
        kernel.Request(line=NEW)
    # A folder that nobody has put a series in is none.
    (NEW.patches / "napi").mkdir(parents=True)
    with pytest.raises(UsageError, match=told):
        kernel.Request(line=NEW)
    assert FetchingRoot.asked == []
    assert build.plan(kernel.Request(line=NEW, patches=False), lab).series is None


def test_parts_are_applied_in_their_order(lab: LabRoot) -> None:
    write_parts("net_path", "pktgen")
    planned = build.plan(kernel.Request(line=NEW), lab)
    assert planned.series is not None
    assert planned.series.name == "v7.3"
    names = [record.name for record in planned.series.records()]
    assert names == ["pktgen/1.patch", "net_path/1.patch"]
    assert [text.split()[0] for text in planned.series.built_from()] == names
    only = planned.series.part("net_path")
    assert [record.name for record in only.records()] == ["net_path/1.patch"]
    with pytest.raises(UsageError, match=r"--series napi: patches/v7\.3 has no such part; it has"):
        planned.series.part("napi")
    older = build.plan(kernel.Request(), lab).series
    assert older is not None
    with pytest.raises(UsageError, match="no such part; it has net_path"):
        older.part("pktgen")
    with pytest.raises(UsageError, match="it has none, it is one series"):
        series.read(older.folder / "net_path").part("napi")


def test_an_alternative_keeps_its_name(lab: LabRoot, tmp_path: Path) -> None:
    assert lab.path.is_dir()
    write_parts("net_path")
    more = tmp_path / "table.patch"
    more.write_text(PATCH)
    read = series.read(NEW.patches, NEW.parts).followed_by(more)
    names = [record.name for record in read.records()]
    assert names == ["net_path/1.patch", f"{tmp_path.name}/table.patch"]


def test_a_part_that_nobody_knows_is_not_left_out(lab: LabRoot) -> None:
    write_parts("napi", "other")
    with pytest.raises(UsageError, match=r"v7\.3/other is no part of this series: expected only"):
        build.plan(kernel.Request(line=NEW), lab)


def test_options_come_with_the_part_that_brings_them(lab: LabRoot) -> None:
    assert lab.path.is_dir()
    write_parts("napi")
    assert kernel.Request(line=NEW).fragments == ("base", "base-7.3")
    assert kernel.Request(line=NEW).local_version == "-skblab"
    write_parts("net_path")
    assert kernel.Request(line=NEW).fragments == ("base", "base-7.3", "skblab")
    assert kernel.Request(line=NEW, trace=False).fragments == ("base", "base-7.3")


def test_a_source_is_fetched_once(lab: LabRoot) -> None:
    request = kernel.Request(line=NEW, patches=False)
    first = build.plan(request, lab, QUIET)
    assert FetchingRoot.asked == [
        ("trixie", "trixie-backports", "linux-source-7.3", "linux-config-7.3")
    ]
    assert first.source.version == "7.3.4"
    assert first.source.line == "7.3"
    assert first.source.place.read_text() == "packed"
    assert first.source.place.is_relative_to(paths.cache() / debian_packages.KIND)
    assert build.plan(request, lab, QUIET) == first
    assert len(FetchingRoot.asked) == 1
    older = build.plan(kernel.Request(patches=False), lab)
    assert older.key != first.key
    assert older.source.origin != first.source.origin


@pytest.mark.parametrize("changed", ["version", "digest"])
def test_another_package_is_another_kernel(
    lab: LabRoot, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    request = kernel.Request(line=NEW, patches=False)
    first = build.plan(request, lab, QUIET)
    if changed == "version":
        monkeypatch.setattr(FetchingRoot, "version", "7.3.5-1~bpo13+1")
    else:
        monkeypatch.setitem(globals(), "DIGEST", "f" * 64)
    # A new lab root takes what Debian has then.
    renewed = FetchingRoot(lab.path, "another")
    second = build.plan(request, renewed, QUIET)
    assert first.key != second.key
    assert first.source.origin == second.source.origin


def test_a_package_that_does_not_come_is_named(
    lab: LabRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FetchingRoot, "config", False)
    with pytest.raises(SkblabError, match=r"linux-config-7\.3 was not fetched"):
        debian_packages.ensure(NEW, lab, QUIET)
    assert not debian_packages.fetched(NEW, lab)


def test_a_damaged_record_is_named(lab: LabRoot) -> None:
    folder = debian_packages.ensure(NEW, lab, QUIET).folder
    (folder / debian_packages.RECORD).write_text("{")
    with pytest.raises(UsageError, match=r"packages\.json; remove .*fetches it anew"):
        debian_packages.ensure(NEW, lab, QUIET)


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("E: Unable to locate package linux-source-7.3\n", "trixie-backports has no linux-source"),
        ("E: Failed to fetch http://x: Temporary failure resolving\n", "cannot be fetched: no net"),
        ("mkdir: no such folder\n", "^something$"),
        ("E: Failed to fetch http://x: write (28: No space left on device)\n", "^something$"),
    ],
)
def test_why_nothing_was_fetched(tmp_path: Path, output: str, told: str) -> None:
    log = tmp_path / "log"
    log.write_text(output)
    error = debian_packages.explain(SkblabError("something"), NEW, log)
    with pytest.raises(SkblabError, match=told):
        raise error


def test_a_lab_root_without_its_source_is_named(tmp_path: Path) -> None:
    (tmp_path / "skblab").mkdir()
    (tmp_path / "skblab" / "versions.json").write_text("{}")
    with pytest.raises(UsageError, match=r"the lab root has no linux-source-6\.12: expected"):
        source.find(None, LabRoot(tmp_path, "key"))


def test_the_cache_knows_what_was_fetched(lab: LabRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labroot, "existing", lambda: lab)
    monkeypatch.setattr(tools, "programs_key", lambda _: "programs")
    monkeypatch.setattr(tools, "rust_key", lambda _: "rust")
    monkeypatch.setattr(tools, "bpf_key", lambda _: "bpf")
    monkeypatch.setattr(tools, "key", lambda *_: "tools")
    plain = kernel.Request(line=NEW, patches=False)
    before = needing.needed()
    assert debian_packages.KIND not in {kind for kind, _ in before}
    planned = build.plan(plain, lab, QUIET)
    now = needing.needed()
    assert before < now
    kept = (debian_packages.KIND, debian_packages.key(NEW, lab))
    assert {kept, ("kernels", planned.key), ("sources", planned.source.origin)} <= now - before
    found = next(entry for entry in entries(now) if entry.kind == debian_packages.KIND)
    assert found.needed
    version = FetchingRoot.version
    assert found.name == f"linux-config-7.3 {version}, linux-source-7.3 {version}"
    write_parts("napi")
    assert ("kernels", build.plan(kernel.Request(line=NEW), lab).key) in needing.needed()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of the user's, of Linux 7.3.1."""
    return write_tree(tmp_path / "linux", "7", "3", "1")


def write_tree(folder: Path, *version: str) -> Path:
    """Write what tells a tree's version."""
    folder.mkdir()
    names = ("VERSION", "PATCHLEVEL", "SUBLEVEL")
    pairs = zip(names, version, strict=True)
    (folder / "Makefile").write_text("".join(f"{name} = {value}\n" for name, value in pairs))
    (folder / "Kconfig").write_text("")
    return folder


def test_which_line_a_tree_is_of(tree: Path, tmp_path: Path) -> None:
    assert names.parse(f"tree:{tree}") == Name(NEW, tree, None, patches=False)
    older = write_tree(tmp_path / "older", "6", "1", "0")
    assert names.parse(f"tree:{older}+skblab") == Name(DEFAULT, older)
    assert lines.fitting("6.18.3") is DEFAULT
    assert lines.fitting("7.3.0-rc1") is lines.fitting("7.12.0") is NEW
    assert NEW.suits("7.3.4") and DEFAULT.suits("6.12.118")
    # A release candidate may lack what the release has.
    for other in ("7.3.0-rc1", "7.4.0", "7.30.0", "6.120.1", "6.12.1"):
        assert not NEW.suits(other)


def test_a_tree_of_the_line_has_its_patches(lab: LabRoot, tree: Path) -> None:
    request = kernel.Request(source=tree, line=NEW)
    with pytest.raises(UsageError, match=r"is Linux 7\.3\.1, and no patch series fits it"):
        build.plan(request, lab)
    write_parts("pktgen")
    planned = build.plan(request, lab)
    assert planned.series is not None and planned.series.parts == ("pktgen",)
    assert FetchingRoot.asked == []


def test_a_sweep_keeps_its_kernel(tree: Path) -> None:
    asked = Request("first", exact=True, kernel=names.parse("7.3"))
    assert asked.typed == "./skblab sweep first --exact --kernel 7.3"
    record = asked.record(asked.plan())
    assert "--kernel 7.3 " in f"{record.again} "
    assert (record.parameters["kernel"], record.parameters["patches"]) == ("7.3", False)
    older = Request("first", exact=True)
    assert "kernel" not in older.record(older.plan()).parameters
    assert "--kernel" not in older.typed
    own = Request("first", exact=True, kernel=Name(NEW, tree))
    for one in (asked, older, own):
        kept = Parameters.model_validate(dict(one.record(one.plan()).parameters))
        assert (kept.name, kept.cpus) == (one.kernel, 1)


def test_a_sweep_keeps_its_cpus() -> None:
    asked = Request("first", exact=True, cpus=2)
    assert asked.typed == "./skblab sweep first --exact --cpus 2"
    record = asked.record(asked.plan())
    assert "--cpus 2" in record.again
    assert Parameters.model_validate(dict(record.parameters)).cpus == 2
    scripts = list(asked.dry_run(scripts=True))
    # The last CPU has the generator, and RPS can choose among two.
    assert any("cpu=1" in line for line in scripts)
    with pytest.raises(UsageError, match="--cpus 2 needs --exact"):
        Request("first", cpus=2)
    # Its settings would be of one CPU, under names that say another.
    needs = Request("another-cpu", exact=True)
    assert needs.record(needs.plan()).parameters["cpus"] == 2
    assert "CPUs of each guest: 2" in list(needs.dry_run())
    with pytest.raises(UsageError, match=r"needs\.cpus = 2: with --exact a guest has 1 here"):
        Request("another-cpu", exact=True, cpus=1).begin()


def test_a_sweep_on_hosts_chooses_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--flavour and --kernel choose the kernel of guests"):
        Request("first", testbed="hosts", hosts=tmp_path / "hosts.toml", kernel=Name(NEW))


def test_rows_that_need_stamps(lab: LabRoot) -> None:
    """`lab` has no patches for 7.3."""
    assert lab.path.is_dir()
    plain = [row for row in plan.ROWS if row.kernel == plan.PLAIN]
    plan.require_stamps(plain, NEW, ())
    plan.require_stamps(plan.ROWS, DEFAULT, ())
    with pytest.raises(UsageError, match=r"--kernel 7\.3: there are no path stamps.*: unpatched, "):
        plan.require_stamps(plan.ROWS, NEW, ())
    # Whoever has built such kernels may compare them.
    plan.require_stamps(plan.ROWS, NEW, (plan.OFF, plan.PATCHED))
    with pytest.raises(UsageError, match="and on cannot run without"):
        asked.benchmark("on", "unpatched", "forward", 4, 1000, 1, {}, NEW)
    found = asked.benchmark("hooks", "unpatched", "forward", 4, 1000, 1, {}, NEW)
    assert found.again.endswith(" --kernel 7.3")


def test_an_older_name_of_an_option_is_gone(skblab_here: Skblab) -> None:
    words = ("--row", "on", "--against", "off", "--built", "mine=/nowhere")
    done = skblab_here("bench", "functions", *words)
    assert done.returncode == 2
    assert "--built mine=/nowhere: expected NAME=FOLDER, NAME one of plain, off" in done.stderr


COMMANDS = (
    ("boot",),
    ("demo",),
    ("kernel", "build"),
    ("kernel", "package"),
    ("kernel", "patches-check"),
    ("kernel", "config-diff"),
    ("kselftest", "--list"),
    ("soak",),
    ("bench", "patch"),
    ("bench", "functions", "--row", "on", "--against", "off"),
    ("sweep", "first", "--exact"),
    ("probe", "layers", "--on", "guest"),
    ("probe", "verify"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_an_unknown_line(
    skblab_here: Skblab, command: tuple[str, ...]
) -> None:
    done = skblab_here(*command, "--kernel", "5.4")
    assert done.returncode == 2
    assert done.stderr.strip() in (
        "skblab: --kernel 5.4: no such line; known are: 6.12, 7.3",
        "skblab: --kernel 5.4: no such kernel; expected 6.12, 7.3, tree:DIR, git:DIR@REVISION, "
        "debian:VERSION, deb:FILE, and +skblab behind a source for our series, +config:FILE for "
        "options of your own",
    )


@pytest.mark.parametrize(
    "command", [words for words in COMMANDS if words[:2] != ("kernel", "config-diff")], ids=" ".join
)
def test_what_needs_patches_says_so_in_a_line(
    skblab_here: Skblab, lab: LabRoot, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it makes, fetches or boots anything."""
    assert lab.path.is_dir()

    def nothing(*_: object) -> LabRoot:
        raise AssertionError("there was nothing to make")

    monkeypatch.setattr(labroot, "ensure", nothing)
    monkeypatch.setattr("skblab.lab.labroot.ensure", nothing)
    if command == ("probe", "verify"):
        command = (*command, "--backend", "histograms")
    done = skblab_here(*command, "--kernel", "7.3+skblab")
    assert done.returncode == 2
    told = done.stderr.strip().splitlines()
    assert len(told) == 1
    assert "for Linux 7.3 yet" in told[0]


def test_a_flavour_that_is_not_compared_makes_and_fetches_nothing(
    skblab_here: Skblab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> LabRoot:
        raise AssertionError("there was nothing to make")

    monkeypatch.setattr("skblab.lab.labroot.ensure", nothing)
    done = skblab_here("kernel", "config-diff", "--kernel", "7.3", "--flavour", "debug")
    assert done.returncode == 2
    assert "Debian has no debug kernel to compare with" in done.stderr


def test_a_line_of_hosts_is_refused(skblab_here: Skblab) -> None:
    done = skblab_here("probe", "layers", "--kernel", "7.3")
    assert done.returncode == 2
    assert "--kernel is of a guest's own traffic" in done.stderr


def test_nothing_else_names_a_line() -> None:
    """A line that is taken up or dropped is so at one place."""
    found = [
        f"{file.relative_to(TREE)}: {name}"
        for file in sorted((TREE / "runners" / "skblab").rglob("*.py"))
        for name in lines.NAMES
        if f'"{name}"' in file.read_text() or f'"v{name}"' in file.read_text()
    ]
    assert found == [f"runners/skblab/lab/kernel/lines.py: {name}" for name in lines.NAMES]


def test_a_line_is_its_name() -> None:
    assert str(NEW) == "7.3"
    assert Line("8.0").tarball == "usr/src/linux-source-8.0.tar.xz"
