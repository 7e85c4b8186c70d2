# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of kernels: Debian's, a tree's, a git revision's; and what a revision is built from."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from conftest import Skblab
from repositories import run_git
from skblab.lab.kernel import config, git, names, source
from skblab.lab.kernel.lines import DEFAULT, LINES
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError

QUIET = Reporter(quiet=True)
NO_ROOT = LabRoot(Path("/nonexistent"), "key")
MAKEFILE = "VERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = 3\nEXTRAVERSION =\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a kernel of 7.3 with two commits, and files that were changed since."""
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path / "cache"))
    top = tmp_path / "linux"
    (top / "net").mkdir(parents=True)
    run_git(top, "init", "-q", "-b", "main")
    (top / "Makefile").write_text(MAKEFILE.format(7, 3))
    for number in (1, 2):
        (top / "net" / "dev.c").write_text(f"int commit_{number};\n")
        (top / "net" / "same.c").write_text("int same;\n")
        if number == 2:
            (top / "net" / "new.c").write_text("int new;\n")
        run_git(top, "add", "-A")
        run_git(top, "commit", "-q", "-m", f"commit {number}")
    (top / "net" / "dev.c").write_text("int not_committed;\n")
    return top


@pytest.mark.parametrize("patches", [True, False])
@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_name_is_read_as_it_is_written(line: object, patches: bool) -> None:
    text = f"{line}{'+skblab' if patches else ''}"
    name = names.parse(text)
    assert (str(name), name.patches, str(name.line)) == (text, patches, str(line))
    assert name.request("rt").patches == patches
    assert name.request("rt", patches=not patches).patches != patches
    assert name.words == (() if text == f"{DEFAULT}+skblab" else (f"--kernel {text}",))


def test_a_revision_is_named_by_its_commit(repository: Path) -> None:
    commit = run_git(repository, "rev-parse", "HEAD~1")
    name = names.parse(f"git:{repository}@HEAD~1+skblab")
    assert (name.folder, name.revision, name.patches) == (repository, commit, True)
    assert str(name.line) == "7.3"
    assert names.parse(str(name)) == name
    # A place inside, and one with a blank in its name.
    assert names.parse(f"git:{repository / 'net'}@main").revision != commit
    blank = repository.rename(repository.parent / "my linux")
    assert names.parse(f"git:{blank}@HEAD").words == (
        f"--kernel 'git:{blank}@{run_git(blank, 'rev-parse', 'HEAD')}'",
    )


def test_options_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "no psi.config"
    file.write_text("# Ours has it.\n# CONFIG_PSI is not set\nCONFIG_SLUB_STATS=y\n")
    name = names.parse(f"6.12+config:{file}+skblab")
    assert (name.base, name.patches) == (f"6.12+config:{file}", True)
    assert names.parse(f"6.12+skblab+config:{file}") == name == names.parse(str(name))
    assert name != names.parse("6.12+skblab")
    request = name.request(patches=False)
    assert (request.local_version, name.request().local_version) == (
        "-plain-no-psi",
        "-skblab-no-psi",
    )
    assert names.parse(f"7.3+config:{file}").patches is False
    # From the folder that the command is called in, and later from any other.
    monkeypatch.chdir(tmp_path)
    assert names.parse("6.12+skblab+config:no psi.config") == name
    # What is in the file is what counts, not its name.
    file.write_text("CONFIG_PSI=n\n")
    assert names.parse(str(name)) != name


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("CONFIG_WIREGUARD=m", "my:2: CONFIG_WIREGUARD=m: a guest loads no modules"),
        ('CONFIG_EXTRA_FIRMWARE="x.bin"', "my:2: CONFIG_EXTRA_FIRMWARE names a file of this"),
    ],
)
def test_options_that_a_guest_cannot_have(line: str, told: str, tmp_path: Path) -> None:
    (file := tmp_path / "my").write_text(f'CONFIG_INITRAMFS_SOURCE=""\n{line}\n')
    with pytest.raises(UsageError, match=re.escape(told)):
        names.parse(f"6.12+config:{file}")


def test_options_that_name_no_file_of_this_machine(tmp_path: Path) -> None:
    (file := tmp_path / "my").write_text(
        '# CONFIG_EXTRA_FIRMWARE is not set\nCONFIG_MODULE_SIG_KEY="certs/signing_key.pem"\n'
    )
    assert str(names.parse(f"6.12+config:{file}")) == f"6.12+config:{file}"


def test_patches_are_checked_with_no_options_of_the_users_own(
    tmp_path: Path, skblab_here: Skblab
) -> None:
    (file := tmp_path / "my").write_text("CONFIG_PSI=n\n")
    done = skblab_here("kernel", "patches-check", "--kernel", f"6.12+config:{file}")
    assert done.returncode == 2
    assert "are checked with the configurations of kconfig/" in done.stderr


def test_a_file_that_is_named_as_our_series_is(tmp_path: Path) -> None:
    for name in ("my", "my+skblab"):
        (tmp_path / name).write_text("CONFIG_PSI=n\n")
    with pytest.raises(UsageError, match=r"there is a file .*/my\+skblab, and \+skblab at the end"):
        names.parse(f"6.12+config:{tmp_path}/my+skblab")
    (tmp_path / "my+skblab").unlink()
    assert names.parse(f"6.12+config:{tmp_path}/my+skblab").patches


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("6.12+config:", "no such file; expected a fragment"),
        ("6.12+config:{here}", "no such file; expected a fragment"),
        ("6.12+config:{linux}/nothing", "no such file; expected a fragment"),
        ("6.12+config:{linux}/net/dev.c", "net/dev.c:1: 'int not_committed;' is not understood"),
        ("5.4+config:{linux}/psi", "no such kernel; expected 6.12, 7.3"),
        ("debian:6.12+config:{linux}/psi", "a package is a finished kernel, and has its config"),
        ("6.12+config:{linux}/empty", "asks for no option; expected lines such as CONFIG_PSI=n"),
        ("6.12+config:{linux}/two", "two:2: CONFIG_PSI is in {linux}/two:1 already"),
        ("5.4", "no such kernel; expected 6.12, 7.3, tree:DIR, git:DIR@REVISION, debian:VERSION"),
        ("", "no such kernel"),
        ("+skblab", "no such kernel"),
        ("tree:", "no such folder"),
        ("tree:/nonexistent", "no such folder; expected a Linux source tree"),
        ("tree:{here}", "is not a Linux source tree"),
        ("git:{here}", "expected git:DIR@REVISION"),
        ("git:@HEAD", "expected git:DIR@REVISION"),
        ("git:/nonexistent@HEAD", "no such folder"),
        ("git:{here}@HEAD", "no git repository is there; give one, or tree:"),
        ("git:{linux}@gone", "no such revision there; git -C "),
        ("git:{linux}@--help", "no such revision there"),
        ("git:{linux}@HEAD:Makefile", "no such revision there"),
        ("git:{linux}@HEAD@{{9}}", "no such revision there"),
        ("tree:~nobody-of-that-name/x", "no such folder"),
        ("tree:" + "a" * 300, "no such folder"),
        ("git:" + "a" * 300 + "@HEAD", "no such folder"),
    ],
)
def test_a_name_of_nothing_is_one_line(
    text: str, told: str, repository: Path, skblab_here: Skblab
) -> None:
    name = text.format(here=repository.parent / "cache", linux=repository)
    told = told.format(linux=repository)
    (repository.parent / "cache").mkdir(exist_ok=True)
    for file, content in (("psi", "=n\n"), ("empty", ""), ("two", "=n\nCONFIG_PSI=y\n")):
        (repository / file).write_text(content and f"CONFIG_PSI{content}")
    done = skblab_here("kernel", "build", "--kernel", name)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_revision_that_is_no_kernel(repository: Path) -> None:
    run_git(repository, "rm", "-q", "--cached", "Makefile")
    run_git(repository, "commit", "-q", "-m", "nothing")
    with pytest.raises(UsageError, match=r"linux at HEAD is not a Linux source tree"):
        names.parse(f"git:{repository}@HEAD")


def made(repository: Path, revision: str) -> dict[str, str]:
    """Return the files of a revision as they would be built."""
    found = source.of_revision(repository, git.commit(repository, revision))
    with source.tree(found, None, NO_ROOT, QUIET) as tree:
        files = [file for file in tree.rglob("*") if file.is_file()]
        return {str(file.relative_to(tree)): file.read_text() for file in files}


def test_what_is_built_is_the_revision_and_the_repository_stays(repository: Path) -> None:
    before = {
        str(file): (file.stat().st_mtime_ns, file.read_bytes())
        for file in repository.rglob("*")
        if file.is_file()
    }
    first = made(repository, "HEAD~1")
    assert first == {
        "Makefile": MAKEFILE.format(7, 3),
        "net/dev.c": "int commit_1;\n",
        "net/same.c": "int same;\n",
    }
    [place] = (repository.parent / "cache" / "sources").iterdir()
    same, changed = (place / source.PLAIN / "net" / name for name in ("same.c", "dev.c"))
    stayed = same.stat()
    linked = repository.parent / "linked"
    os.link(changed, linked)
    second = made(repository, "HEAD")
    assert second["net/dev.c"] == "int commit_2;\n" and "net/new.c" in second
    # What did not change is not written, and what did is another file: a link keeps the old one.
    assert same.stat().st_mtime_ns == stayed.st_mtime_ns
    assert (linked.read_text(), changed.read_text()) == ("int commit_1;\n", "int commit_2;\n")
    assert made(repository, "HEAD~1") == first
    after = {
        str(file): (file.stat().st_mtime_ns, file.read_bytes())
        for file in repository.rglob("*")
        if file.is_file()
    }
    assert after == before


def test_what_a_folder_has_that_its_commit_has_not(repository: Path) -> None:
    own = repository.parent / "own"
    head = run_git(repository, "rev-parse", "HEAD")
    ran = repository.parent / "ran"
    run_git(repository, "config", "filter.own.clean", f"touch {ran}; cat")
    run_git(repository, "config", "diff.external", f"touch {ran}; false")
    (repository / ".gitattributes").write_text("*.c filter=own\n")
    (repository / ".gitignore").write_text("*.o\n")
    (repository / "net" / "dev.o").write_text("ignored\n")
    (repository / "net" / "mine.c").write_text("int mine;\n")
    before = {file: file.stat().st_mtime_ns for file in repository.rglob("*")}
    found = git.changes(repository, own)
    assert found is not None
    assert found.state == f"{head}-dirty"
    lines = found.diff.decode().splitlines()
    assert {"-int commit_2;", "+int not_committed;", "+int mine;"} <= set(lines)
    assert "+ignored" not in lines
    assert not ran.exists()
    assert {file: file.stat().st_mtime_ns for file in repository.rglob("*")} == before
    # And again, by what is known of the files that stayed.
    (own / "index.lock").touch()
    assert git.changes(repository, own) == found
    (repository / "net" / "mine.c").unlink()
    (repository / "net" / "new.c").unlink()
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("build/\n")
    (repository / "build").mkdir()
    (repository / "build" / "big.c").write_text("int built;\n")
    (repository / "core.img").write_bytes(bytes(git.MOST_BYTES + 1))
    (repository / "net" / "same.c").write_text("int SAME;\n")
    again = git.changes(repository, own)
    assert again is not None
    lines = again.diff.decode().splitlines()
    assert {"+int not_committed;", "+int SAME;", "-int new;"} <= set(lines)
    assert not {"+int mine;", "+int built;"} & set(lines)
    assert lines[0] == "# new, and too large to be here: core.img"
    assert len(again.diff) < 2000
    (repository / "core.img").unlink()
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "clean")
    head = run_git(repository, "rev-parse", "HEAD")
    assert git.changes(repository, repository.parent / "other") == git.Changes(head, b"")
    assert git.changes(repository, own) == git.Changes(head, b"")
    assert git.changes(repository / "net", repository.parent / "part") is None
    assert git.changes(repository.parent / "own", repository.parent / "none") is None


def test_settings_of_a_repository_neither_run_nor_change_files(repository: Path) -> None:
    """Hooks, monitors, filters, sparse checkouts, line ends: what is built is the commit's."""
    ran = repository.parent / "ran"
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    for setting, value in (
        ("core.fsmonitor", str(hook)),
        ("core.splitIndex", "true"),
        ("core.autocrlf", "true"),
        ("core.sparseCheckout", "true"),
        ("filter.own.smudge", f"touch {ran}; tr a-z A-Z"),
    ):
        run_git(repository, "config", setting, value)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("*.c filter=own\n")
    (repository / ".git" / "info" / "sparse-checkout").write_text("/Makefile\n")
    before = {file for file in (repository / ".git").rglob("*") if "objects" not in file.parts}
    found = made(repository, "HEAD")
    assert found["net/dev.c"] == "int commit_2;\n"
    assert found["Makefile"] == MAKEFILE.format(7, 3)
    assert not ran.exists()
    after = {file for file in (repository / ".git").rglob("*") if "objects" not in file.parts}
    assert after == before


def test_what_a_killed_checkout_left_is_in_no_tree(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(repository, "HEAD~1")
    check_out = git.check_out

    def killed(place: Path, revision: str, folder: Path, own: Path) -> None:
        (folder / "net" / "left.c").write_text("int of_another;\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(git, "check_out", killed)
    with pytest.raises(KeyboardInterrupt):
        made(repository, "HEAD")
    monkeypatch.setattr(git, "check_out", check_out)
    assert made(repository, "HEAD~1") == first


def test_a_revision_may_have_an_at(repository: Path) -> None:
    commit = run_git(repository, "rev-parse", "HEAD~1")
    assert names.parse(f"git:{repository}@HEAD@{{1}}").revision == commit
    odd = repository.rename(repository.parent / "my@linux")
    assert names.parse(f"git:{odd}@HEAD~1").folder == odd


def test_a_folder_that_is_named_as_a_patched_kernel(repository: Path) -> None:
    (repository / "Kconfig").touch()
    odd = repository.rename(repository.parent / "linux+skblab")
    name = names.parse(f"tree:{odd}/")
    assert (name.folder, name.patches) == (odd, False)
    assert names.parse(str(name)) == name
    patched = names.parse(f"tree:{odd}/+skblab")
    assert (patched.folder, patched.patches) == (odd, True)
    assert names.parse(str(patched)) == patched


def test_git_of_a_hook_does_not_mislead(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = run_git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert git.commit(repository, "HEAD") == commit


def test_without_git_a_line_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match=r"^git:DIR@REVISION needs git, and there is none here"):
        git.commit(repository, "HEAD")


def test_a_revision_has_the_key_of_its_commit(repository: Path) -> None:
    def key(revision: str) -> str:
        commit = git.commit(repository, revision)
        found = source.of_revision(repository, commit)
        assert found.revision == commit
        return found.digest

    before = key("main")
    assert before == key("HEAD") != key("HEAD~1")
    (repository / "net" / "dev.c").write_text("int changed_again;\n")
    assert key("HEAD") == before
    own = source.of_revision(repository / "net", git.commit(repository, "HEAD"))
    assert own.origin != source.Source(repository / "net", "7.3.3", "").origin


def test_what_a_foreign_kernel_lacks_is_said() -> None:
    asked = {name: config.Ask(name, "y", f"base.config:{name}") for name in "ABCDEFG"}
    lacking = config.refused(asked, {"A": "y", "B": "m"})
    assert [ask.option for ask in lacking] == list("BCDEFG")
    told = config.told([ask.option for ask in lacking], "6.1.99")
    begin = "Linux 6.1.99 does not have, or not as kconfig/ asks, 6 options: CONFIG_B, "
    assert told.startswith(begin)
    assert told.endswith("CONFIG_F …; it is built without")
    assert "CONFIG_G" not in told
