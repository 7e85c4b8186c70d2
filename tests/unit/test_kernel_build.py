# SPDX-License-Identifier: GPL-2.0-or-later
"""Building kernels: requests, keys, what is kept; failures, full disks and Ctrl-C.

The lab root's tests build a fake kernel: a source tree whose Makefile knows the targets that
the builder uses and compiles one C file.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conftest import Skblab
from repositories import run_git
from skblab.lab import kernel
from skblab.lab.kernel import build, incremental, registry
from skblab.lab.kernel.model import Own, Record
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import keep_changes, origin
from skblab_analysis.base import disk
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.run import Plan
from skblab_analysis.runfolder import RunFolder
from waiting import until

QUIET = Reporter(quiet=True)

MAKEFILE = """
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 5
EXTRAVERSION =
mrproper:
alldefconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
kernelrelease:
	@echo 6.12.5$(LOCALVERSION)
all:
	@echo '  CC      net/dev.o'
	@$(CC) -Wno-error -c -o $(O)/dev.o /skblab/src/net/dev.c
	@mkdir -p $(O)/arch/x86/boot
	@echo '  LD      vmlinux'
	@cp $(O)/dev.o $(O)/vmlinux
	@sha256sum < $(O)/dev.o > $(O)/arch/x86/boot/bzImage
	@echo "$$KBUILD_BUILD_TIMESTAMP $$KBUILD_BUILD_USER" >> $(O)/arch/x86/boot/bzImage
	@touch $(O)/System.map
run-command:
	$(KBUILD_RUN_COMMAND)
"""
MERGE = '#!/bin/sh\nshift 3\ncat "$@" > /tmp/.config\n'
EXTMOD = '#!/bin/sh\nmkdir -p "$1"\necho symbols > "$1/Module.symvers"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a fake series and fragments, and a cache of its own."""
    top = tmp_path / "project"
    series = top / "patches" / "v6.12" / "net_path"
    series.mkdir(parents=True)
    (series / "series").write_text("1.patch\n")
    (series / "1.patch").write_text(
        "--- a/net/dev.c\n+++ b/net/dev.c\n@@ -1,1 +1,1 @@\n-int x;\n+int patched;\n"
    )
    (top / "kconfig").mkdir()
    for name in ("base", "rt", "checking", "debug", "skblab"):
        (top / "kconfig" / f"{name}.config").write_text(f"CONFIG_{name.upper()}=y\n")
    monkeypatch.setenv("SKBLAB_TREE", str(top))
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    return top


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The fake kernel's source."""
    top = tmp_path / "linux"
    for folder in ("net", "scripts/kconfig", "scripts/package"):
        (top / folder).mkdir(parents=True)
    (top / "Makefile").write_text(MAKEFILE)
    (top / "Kconfig").write_text("")
    (top / "net" / "dev.c").write_text("int x;\n")
    (top / "scripts" / "kconfig" / "merge_config.sh").write_text(MERGE)
    (top / "scripts" / "package" / "install-extmod-build").write_text(EXTMOD)
    return top


def test_flavours() -> None:
    assert [kernel.flavour(name) for name in kernel.FLAVOURS] == [
        *("stock", "rt", "debug", "kcsan", "kmsan")
    ]
    with pytest.raises(UsageError, match="unknown kernel flavour 'real'; known are: stock, rt"):
        kernel.flavour("real")


def test_requests_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        kernel.Request(source=tmp_path / "gone")
    with pytest.raises(UsageError, match="--jobs 0"):
        kernel.Request(jobs=0)


@pytest.mark.parametrize(
    ("request_", "local", "fragments"),
    [
        (kernel.Request(), "-skblab", ("base", "skblab")),
        (kernel.Request(flavour="rt"), "-skblab-rt", ("base", "rt", "skblab")),
        (kernel.Request(trace=False), "-skblab-off", ("base",)),
        (kernel.Request(patches=False), "-plain", ("base",)),
        (
            kernel.Request(flavour="debug", patches=False),
            "-plain-debug",
            ("base", "checking", "debug"),
        ),
        (kernel.Request(flavour="kmsan"), "-skblab-kmsan", ("base", "checking", "kmsan", "skblab")),
    ],
)
def test_names_and_fragments(
    request_: kernel.Request, local: str, fragments: tuple[str, ...]
) -> None:
    assert request_.local_version == local
    assert request_.fragments == fragments


def test_an_alternative_is_a_patch_more(tmp_path: Path) -> None:
    patch = tmp_path / "table.patch"
    with pytest.raises(UsageError, match=r"table\.patch: expected a patch to apply after"):
        kernel.Request(alternative=patch)
    patch.write_text("")
    assert kernel.Request(alternative=patch).local_version == "-skblab-table"
    with pytest.raises(UsageError, match="after our series"):
        kernel.Request(alternative=patch, patches=False)


def fake_lab(folder: Path) -> LabRoot:
    (folder / "skblab").mkdir(parents=True, exist_ok=True)
    versions = {"gcc-14": "14.2.0-19", "gnuplot-nox": "6.0"}
    (folder / "skblab" / "versions.json").write_text(json.dumps(versions))
    return LabRoot(folder, "key")


def test_key_depends_on_everything_that_matters(tmp_path: Path, project: Path, tree: Path) -> None:
    lab = fake_lab(tmp_path / "lab")

    def key(**more: object) -> str:
        return build.plan(kernel.Request(source=tree, **more), lab).key  # type: ignore[arg-type]

    first = key()
    assert key(jobs=7) == first
    keys = [first, key(flavour="rt"), key(trace=False), key(patches=False)]
    (project / "kconfig" / "base.config").write_text("CONFIG_BASE=y\nCONFIG_MORE=y\n")
    keys.append(key())
    (project / "patches" / "v6.12" / "net_path" / "1.patch").write_text("another")
    keys.append(key())
    (tree / "net" / "dev.c").write_text("int other;\n")
    keys.append(key())
    (lab.path / "skblab" / "versions.json").write_text('{"gcc-14": "14.3.0-1"}')
    more = project / "patches" / "v6.12" / "net_path" / "table.patch"
    more.write_text("more")
    keys.append(key(alternative=more))
    # What a file of options says and its short name, not where it is.
    own, other = Own(tmp_path / "a.config", "CONFIG_A=y\n"), Own(tmp_path / "a", "CONFIG_A=y\n")
    keys += [key(own=own), key(own=Own(own.file, "CONFIG_B=y\n"))]
    assert key(own=other) == key(own=own)
    keys.append(key())
    assert len(set(keys)) == len(keys)
    (lab.path / "skblab" / "versions.json").write_text('{"gcc-14": "14.3.0-1", "less": "6"}')
    assert key() == keys[-1]


def test_progress_weighs_the_slow_steps() -> None:
    assert build.weight("  CC      net/core/dev.o\n") == 1
    assert build.weight("  LD      vmlinux.o\n") > 1
    assert build.weight("  BTF     .tmp_vmlinux1\n") > 1
    assert build.weight("net/core/dev.c:1:1: warning: x\n") == 0


def test_no_kernel_yet(project: Path) -> None:
    assert project.is_dir()
    assert registry.kernels() == []
    assert registry.last_build("stock") is None


def test_damaged_record_is_named(project: Path, tmp_path: Path) -> None:
    assert project.is_dir()
    broken = tmp_path / "cache" / "kernels" / "abc"
    broken.mkdir(parents=True)
    (broken / "kernel.json").write_text("{")
    with pytest.raises(SkblabError, match=r"abc/kernel\.json is missing or damaged"):
        registry.kernels()
    # Nobody who needs another one has to know.
    assert registry.last_build("stock") is None
    assert registry.readable() == []


def test_who_shares_objects() -> None:
    assert build.can_share(kernel.Request())
    assert build.can_share(kernel.Request(patches=False))
    assert not build.can_share(kernel.Request(trace=False))


def test_options_that_are_shared() -> None:
    ours = "# What ours adds.\nCONFIG_OURS=y\n"
    text = "CONFIG_BASE=y\nCONFIG_OURS=y\n# CONFIG_MORE is not set\n"
    shared = "CONFIG_BASE=y\n# CONFIG_MORE is not set\n"
    assert build.shared_options(text, ours) == shared
    other = text.replace("CONFIG_OURS=y", "# CONFIG_OURS is not set")
    assert build.shared_options(other, ours) == other


# As the kernel's build does: with a list of what is included, among it all options.
COMPILES = """
	@mkdir -p $(O)/include/generated
	@sed 's/^/#define /; s/=y/ 1/' $(O)/.config > $(O)/include/generated/autoconf.h
	@cp $(O)/.config $(O)/options
	@for f in net/dev lib/other lib/taken; do \\
		mkdir -p $(O)/$$(dirname $$f); \\
		(cd $(O) && $(CC) -nostdinc -Wp,-MMD,$$f.d -I./include -include /skblab/src/kconfig.h \\
			-c -o $$f.o /skblab/src/$$f.c); done
	@cat $(O)/lib/taken.o >> $(O)/arch/x86/boot/bzImage
"""
# As the kernel has its own configuration in it.
TAKES_IN = 'asm(".incbin \\"options\\"");\n'


def _cached(lab: LabRoot, cache: Path) -> dict[str, int]:
    """Return the compiler cache's own counts."""
    command = ["ccache", "--print-stats"]
    said = lab.run(
        command,
        binds=[Bind(cache / "ccache", "ccache", writable=True)],
        env={"CCACHE_DIR": "/skblab/ccache"},
        what="asking the compiler cache",
    )
    return {words[0]: int(words[1]) for line in said.splitlines() if (words := line.split())}


@pytest.mark.labroot
def test_kernels_share_what_the_series_does_not_touch(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path
) -> None:
    assert project.is_dir()
    (tree / "lib").mkdir()
    (tree / "lib" / "other.c").write_text("int other;\n")
    (tree / "lib" / "taken.c").write_text(TAKES_IN)
    (tree / "kconfig.h").write_text("#include <generated/autoconf.h>\n")
    makefile = tree / "Makefile"
    makefile.write_text(makefile.read_text().replace("\nrun-command:", COMPILES + "run-command:"))
    # What was touched a moment ago is not taken from the cache.
    before = time.time() - 60
    for file in tree.rglob("*"):
        os.utime(file, (before, before))

    def hits(**what: object) -> int:
        wanted = kernel.Request(source=tree, jobs=1, **what)  # type: ignore[arg-type]
        made = kernel.ensure(wanted, lab, QUIET)
        assert made.config.read_bytes() in made.image.read_bytes()
        return _cached(lab, tmp_path / "cache")["direct_cache_hit"]

    assert hits() == 0
    # One of the two files; the other one is patched.
    assert hits(patches=False) == 1
    # Its options are others: nothing is the same.
    assert hits(flavour="rt") == 1
    # Both are the source's, and yet not those of a kernel without them.
    assert hits(trace=False) == 1


@pytest.mark.labroot
def test_builds_lists_and_builds_no_second_time(project: Path, tree: Path, lab: LabRoot) -> None:
    assert project.is_dir()
    request = kernel.Request(source=tree, jobs=1)
    made = kernel.ensure(request, lab, QUIET)
    assert made.release == "6.12.5-skblab"
    assert made.image.is_file()
    assert made.vmlinux.is_file()
    assert (made.build_dir / "Module.symvers").read_text() == "symbols\n"
    assert (made.build_dir / "vmlinux").resolve() == made.vmlinux
    assert made.config.read_text() == "CONFIG_BASE=y\nCONFIG_SKBLAB=y\n"
    assert made.record.patches[0].name == "net_path/1.patch"
    assert sorted(child.name for child in made.path.iterdir()) == [
        *("System.map", "build", "bzImage", "config", "kernel.json", "vmlinux")
    ]
    stamp = made.image.stat().st_mtime_ns
    again = kernel.ensure(kernel.Request(source=tree, jobs=3), lab, QUIET)
    assert again == made
    assert again.image.stat().st_mtime_ns == stamp
    assert [built.key for built in registry.kernels()] == [made.key]
    assert Record.model_validate_json((made.path / "kernel.json").read_text()) == made.record


@pytest.mark.labroot
def test_a_build_that_makes_no_kernel(project: Path, tree: Path, lab: LabRoot) -> None:
    assert project.is_dir()
    (tree / "Makefile").write_text(MAKEFILE.replace("\t@touch $(O)/System.map\n", ""))
    with pytest.raises(SkblabError, match=r"made no System\.map: is it a kernel for x86-64\? "):
        kernel.ensure(kernel.Request(source=tree, jobs=1), lab, QUIET)
    assert registry.kernels() == []


@pytest.mark.labroot
def test_what_a_tree_has_that_no_commit_has_is_kept(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    run_git(tree, "init", "-q")
    run_git(tree, "add", "-A")
    run_git(tree, "commit", "-q", "-m", "all")
    commit = run_git(tree, "rev-parse", "HEAD")
    made = kernel.ensure(kernel.Request(source=tree, jobs=1), lab, Reporter())
    assert (made.commit, made.changes) == (commit, None)
    (tree / "mine.c").write_text("int mine;\n")
    made = kernel.ensure(kernel.Request(source=tree, jobs=1), lab, Reporter())
    said = capsys.readouterr().err
    assert f"{tree} has changes that are not in its commit {commit[:12]}" in said
    assert made.commit == f"{commit}-dirty"
    assert origin(made)["kernel's commit"] == f"{commit}-dirty"
    assert made.changes is not None
    folder = RunFolder.create(tmp_path / "results", "p", Plan(experiment="p", seed=1, again="x"))
    keep_changes(folder, made)
    assert "+int mine;" in (folder.path / f"changes-{made.key}.diff").read_text()


def _outputs(tmp_path: Path) -> list[Path]:
    """Return the output folders that are kept."""
    return sorted((tmp_path / "cache" / "builds").glob("*/output"))


# As kbuild does: by the files' times.
BY_TIMES = MAKEFILE.replace("all:\n", "all: $(O)/dev.o\n$(O)/dev.o: net/dev.c\n").replace(
    "\t@mkdir -p", "\t@echo once >>$(O)/compiled\nall:\n\t@mkdir -p"
)


@pytest.mark.labroot
def test_the_next_build_of_a_users_tree_compiles_what_changed(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the change has an old time, as of a file that was unpacked."""
    assert project.is_dir()
    (tree / "Makefile").write_text(BY_TIMES)

    def compiled(*, patches: bool = False) -> int:
        made = kernel.ensure(
            kernel.Request(source=tree, jobs=1, patches=patches, trace=patches), lab, Reporter()
        )
        assert made.image.is_file()
        assert not (made.path / "output").exists()
        (output,) = _outputs(tmp_path)
        return len((output / "compiled").read_text().splitlines())

    def compiled_anew() -> int:
        """Compile with a change that make does not see."""
        (tree / "net" / "blob").write_text("others take this in")
        return compiled()

    assert compiled() == 1
    assert "only what changed" not in capsys.readouterr().err
    # Nothing that is compiled depends on it.
    (tree / "net" / "other.c").write_text("int z;\n")
    assert compiled() == 1
    assert "with 1 jobs: only what changed since its last build" in capsys.readouterr().err
    (tree / "net" / "dev.c").write_text("int y;\n")
    assert compiled() == 2
    (tree / "net" / "dev.c").write_text("int z;\n")
    os.utime(tree / "net" / "dev.c", (1, 1))
    assert compiled() == 3
    # Its copy has the old time again, and what is compiled is of it.
    (tree / "net" / "other.c").write_text("int z, y;\n")
    assert compiled() == 3
    assert compiled_anew() == 1
    # With a series it is another tree, whose folder is not kept.
    (tree / "net" / "dev.c").write_text("int x;\n")
    assert compiled(patches=True) == 1
    made = {built.record.output_lines for built in registry.kernels() if not built.record.patched}
    # That of a build of everything: the next one's progress goes by it.
    assert made == {1}


def test_what_make_sees_of_a_change(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    names = ("a/x.h", "a/x.c", "b.c", "Kconfig.debug", "blob")
    for name in names:
        (tree / name).write_text(name)
    (tree / "link").symlink_to("b.c")
    ended = 2 * 10**18

    def known() -> incremental.State:
        for name in names:
            os.utime(tree / name, ns=(ended - 5, ended - 5))
        return incremental.State(ended=ended, lines=1, stamps=incremental.stamps_of(tree))

    def renewed(before: incremental.State) -> set[str] | None:
        return incremental.renew(tree, incremental.stamps_of(tree), before)

    before = known()
    assert renewed(before) == set()
    # Newer than the build: make sees it. Older: it gets a newer time, though the clock is behind.
    os.utime(tree / "b.c", ns=(ended + 1, ended + 1))
    os.utime(tree / "a" / "x.c", ns=(ended - 9, ended - 9))
    (tree / "Kconfig.debug").unlink()
    assert renewed(before) == {"a/x.c"}
    assert (tree / "a" / "x.c").stat().st_mtime_ns == ended + 1
    (tree / "Kconfig.debug").write_text("")
    for name in ("new.h", "c.c"):
        (tree / name).write_text(name)
        os.utime(tree / name, ns=(1, 1))
    assert renewed(before) == {"Kconfig.debug", "new.h", "c.c"}
    before = known()
    for name, what in (("x.h", "a header"), ("data.bin", "of no known kind"), ("link2", "b.c")):
        if name == "link2":
            (tree / name).symlink_to(what)
        else:
            (tree / name).write_text(what)
        assert renewed(before) is None, name
        (tree / name).unlink()
    (tree / "link").unlink()
    (tree / "link").symlink_to("a/x.c")
    assert renewed(before) is None


@pytest.mark.labroot
@pytest.mark.parametrize("killed", ["", "gcc: fatal error: Killed signal terminated program cc1"])
def test_what_a_failed_build_leaves(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, killed: str
) -> None:
    assert project.is_dir()
    said = f"\t@echo '{killed}'\n" if killed else ""
    rule = "$(O)/dev.o: net/dev.c\n"
    (tree / "Makefile").write_text(BY_TIMES.replace(rule, f"{rule}{said}"))
    request = kernel.Request(source=tree, jobs=1, patches=False)

    def fails() -> bool:
        (tree / "net" / "dev.c").write_text("int x\n")
        with pytest.raises(SkblabError, match=r"expected|Killed"):
            kernel.ensure(request, lab, QUIET)
        return not _outputs(tmp_path)

    # Of the first build little is there; of a further one all that did not fail.
    assert fails()
    (tree / "net" / "dev.c").write_text("int x;\n")
    first = kernel.ensure(request, lab, QUIET)
    assert fails() == bool(killed)
    (tree / "net" / "dev.c").write_text("int x;\n// the same\n")
    second = kernel.ensure(request, lab, QUIET)
    assert second.key != first.key
    assert second.record.image_sha256 == first.record.image_sha256


@pytest.mark.labroot
def test_an_output_folder_that_cannot_be_used(
    project: Path,
    tree: Path,
    lab: LabRoot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert project.is_dir()
    request = kernel.Request(source=tree, jobs=1, patches=False)
    kernel.ensure(request, lab, QUIET)
    (output,) = _outputs(tmp_path)
    # Nobody knows of which tree it is.
    (output.parent / incremental.STATE).write_text("{")
    (output / "left").touch()
    (tree / "net" / "dev.c").write_text("int y;\n")
    kernel.ensure(request, lab, QUIET)
    (output,) = _outputs(tmp_path)
    assert not (output / "left").exists()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "write_whole", full)
    with (
        pytest.raises(KeyboardInterrupt),
        incremental.output(output.parent.name, tree, tmp_path, QUIET) as made,
    ):
        # One that is killed is not kept: what it was writing may be half there.
        assert made.resumed
        raise KeyboardInterrupt
    assert _outputs(tmp_path) == []
    with incremental.output("0" * 16, tree, tmp_path / "project", Reporter()) as made:
        assert not made.resumed
    assert "is not kept: [Errno 28] No space left" in capsys.readouterr().err
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


@pytest.mark.labroot
def test_options_of_the_users_own_come_last(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    (tree / "Kconfig").write_text("config BASE\n")
    said = "CONFIG_BASE=n\nCONFIG_MINE=y\n"
    request = kernel.Request(source=tree, jobs=1, own=Own(tmp_path / "mine.config", said))
    made = kernel.ensure(request, lab, Reporter())
    assert made.release == "6.12.5-skblab-mine"
    assert made.config.read_text() == f"CONFIG_BASE=y\nCONFIG_SKBLAB=y\n{said}"
    assert (made.path / "own.config").read_text() == said
    assert made.record.fragments == ("base", "skblab", str(tmp_path / "mine.config"))
    assert made.record.lacking == ()
    assert "it is built without" not in capsys.readouterr().err


@pytest.mark.labroot
def test_same_input_same_image(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.is_dir()
    digests = set()
    for name in ("cache-a", "cache-b"):
        monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / name))
        digests.add(kernel.ensure(kernel.Request(source=tree), lab, QUIET).record.image_sha256)
    assert len(digests) == 1


@pytest.mark.labroot
def test_failed_compile_names_the_error_and_the_log(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path
) -> None:
    patch = project / "patches" / "v6.12" / "net_path" / "1.patch"
    patch.write_text(patch.read_text().replace("int patched;", "int patched"))
    with pytest.raises(SkblabError) as caught:
        kernel.ensure(kernel.Request(source=tree), lab, QUIET)
    told = str(caught.value)
    assert told.startswith("compiling kernel 6.12.5-skblab failed: net/dev.c:1:")
    assert "error: expected" in told
    log = Path(told.rsplit("whole output: ", 1)[1])
    assert "error: expected" in log.read_text()
    assert list((tmp_path / "cache" / "kernels").iterdir()) == []


@pytest.mark.labroot
def test_failing_patch_leaves_nothing_behind(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path
) -> None:
    (tree / "net" / "dev.c").write_text("int y;\n")
    with pytest.raises(
        SkblabError, match=r"v6\.12/net_path/1\.patch does not apply.*dev\.c: hunk 1"
    ):
        kernel.ensure(kernel.Request(source=tree), lab, QUIET)
    assert project.is_dir()
    assert list((tmp_path / "cache" / "kernels").iterdir()) == []
    assert list((tmp_path / "cache" / "sources").glob("*/*.part")) == []
    # Unpatched it builds: the plain copy is there already.
    plain = kernel.ensure(kernel.Request(source=tree, patches=False), lab, QUIET)
    assert plain.release == "6.12.5-plain"


# Runs the builder in a process of its own, on a disk or with a signal of the test's choice.
CHILD = """
import sys
from pathlib import Path
from skblab.lab import kernel
from skblab_analysis.base.errors import SkblabError
from skblab.lab.kernel import build
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter

build.MIN_FREE_GIB = float(sys.argv[3])
lab = LabRoot(Path(sys.argv[1]), "key")
try:
    kernel.ensure(kernel.Request(source=Path(sys.argv[2])), lab, Reporter(quiet=True))
except SkblabError as error:
    sys.exit(f"{error}")
except KeyboardInterrupt:
    sys.exit("stopped")
"""


def child(lab: LabRoot, tree: Path, free: float, *prefix: str) -> list[str]:
    return [*prefix, sys.executable, "-c", CHILD, str(lab.path), str(tree), str(free)]


@pytest.mark.labroot
@pytest.mark.parametrize(("free", "told"), [(0.0, "the disk is full"), (4.0, "GiB free at")])
def test_full_disk(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, free: float, told: str
) -> None:
    assert project.is_dir()
    cache = tmp_path / "cache"
    cache.mkdir()
    makefile = MAKEFILE.replace(
        "all:\n", "all:\n\tdd if=/dev/zero of=$(O)/vmlinux bs=1M count=99\n"
    )
    (tree / "Makefile").write_text(makefile)
    small = f'mount -t tmpfs -o size=16m tmpfs {cache} && "$@"; s=$?; ls {cache}/kernels; exit $s'
    done = subprocess.run(
        child(lab, tree, free, "unshare", "--mount", "sh", "-c", small, "sh"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert "SKBLAB_CACHE" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout.strip() == ""


@pytest.mark.labroot
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_while_compiling(
    project: Path, tree: Path, lab: LabRoot, tmp_path: Path, number: signal.Signals
) -> None:
    assert project.is_dir()
    # A length that no other process sleeps for.
    length = f"300.{os.getpid()}{number:d}"
    makefile = MAKEFILE.replace("all:\n", f"all:\n\tsleep {length}\n")
    (tree / "Makefile").write_text(makefile)

    def running() -> bool:
        found = psutil.process_iter(["cmdline"])
        return any(process.info["cmdline"] == ["sleep", length] for process in found)

    process = subprocess.Popen(child(lab, tree, 0.0), stderr=subprocess.PIPE, text=True)
    until("it runs", 120, running)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    until("it has ended", 120, lambda: not running())
    if number == signal.SIGINT:
        assert told.strip() == "stopped"
        assert list((tmp_path / "cache" / "kernels").iterdir()) == []
    # The cache is usable next time, whatever happened.
    (tree / "Makefile").write_text(MAKEFILE)
    assert kernel.ensure(kernel.Request(source=tree), lab, QUIET).image.is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--flavour", "real"), "unknown kernel flavour 'real'; known are: stock, rt, debug"),
        (("--kernel", "tree:/nonexistent"), "--kernel tree:/nonexistent: no such folder"),
        (("--jobs", "0"), "Invalid value for '--jobs'"),
    ],
)
def test_command_with_bad_input(skblab_here: Skblab, arguments: tuple[str, ...], told: str) -> None:
    done = skblab_here("kernel", "build", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_command_lists_as_json(skblab_here: Skblab, tmp_path: Path) -> None:
    done = skblab_here("kernel", "list", "--json", env={"SKBLAB_CACHE": str(tmp_path)})
    assert done.returncode == 0
    assert json.loads(done.stdout) == []
