# SPDX-License-Identifier: GPL-2.0-or-later
"""Man pages, completion, and `make install`: made from the commands, and good for a user."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from conftest import TREE, Skblab
from skblab import cli
from skblab.manual import pages
from skblab.manual.__main__ import made
from skblab.manual.walk import Described, commands
from skblab.pages import commands as command_pages
from skblab_analysis.base.errors import EXIT_STATUSES

EVERYTHING = list(commands())
Make = Callable[..., subprocess.CompletedProcess[str]]


def page(one: Described) -> str:
    """A command's page as a reader sees it, unfolded: escapes and fonts resolved."""
    text = pages.page(one, EVERYTHING, "2026-01-01")
    text = re.sub(r"\\f[BIR]|\\&", "", text)
    return text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")


def test_every_command_is_walked() -> None:
    tops = {command.words[0] for command in EVERYTHING if command.words}
    assert tops == set(cli.COMMANDS) - cli.HIDDEN
    assert ("probe", "layers") in [command.words for command in EVERYTHING]
    assert len({command.words for command in EVERYTHING}) == len(EVERYTHING)


@pytest.mark.parametrize("one", EVERYTHING, ids=lambda one: one.name)
def test_every_option_is_in_its_page(one: Described) -> None:
    text = page(one)
    assert f"\n.SH NAME\n{pages.file_name(one).removesuffix('.1')} - " in text
    lines = text.splitlines()
    for parameter in one.command.get_params(one.context):
        for name in (*parameter.opts, *parameter.secondary_opts):
            head = name if name.startswith("-") else (parameter.metavar or "?")
            assert any(
                before == ".TP" and re.search(rf"(^|, ){re.escape(head)}($|[ ,])", line)
                for before, line in pairwise(lines)
            ), name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("resume",), "skblab resume [OPTION]... RUN"),
        (("sweep",), "skblab sweep [OPTION]... [FILE]"),
        (("report",), "skblab report [OPTION]... RUNS ..."),
        (("probe",), "skblab probe [OPTION]... COMMAND ..."),
        (("bench", "functions"), "skblab bench functions [OPTION]... --row ROW --against AGAINST"),
    ],
)
def test_the_synopsis_has_all_arguments(words: tuple[str, ...], said: str) -> None:
    [one] = [command for command in EVERYTHING if command.words == words]
    assert f"\n.SH SYNOPSIS\n{said}\n" in page(one)


@pytest.mark.parametrize("one", EVERYTHING, ids=lambda one: one.name)
def test_every_page_is_good_man(one: Described, tmp_path: Path) -> None:
    """By whichever checker is here; by hand: each line is text or a request that man(7) has."""
    text = pages.page(one, EVERYTHING, "2026-01-01")
    requests = {line.split(" ")[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {'.\\"', ".TH", ".nh", ".ad", ".SH", ".TP", ".PP"}
    file = tmp_path / pages.file_name(one)
    file.write_text(text)
    calls = {
        "mandoc": ["mandoc", "-T", "lint", "-W", "warning", str(file)],
        "groff": ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z", str(file)],
    }
    for tool in filter(shutil.which, calls):
        done = subprocess.run(calls[tool], capture_output=True, text=True, check=True)
        assert done.stdout + done.stderr == ""


def test_a_page_quotes_what_roff_would_take() -> None:
    assert pages._line(".so it's `a-b\\c`") == r"\&.so it\(aqs \fBa\-b\ec\fR"


def test_an_example_in_each_page_has_its_heading() -> None:
    with_one = [command for command in EVERYTHING if "Example: " in (command.command.help or "")]
    assert with_one
    for command in with_one:
        assert f"\n.SH EXAMPLE\n{command.name}" in page(command)


def test_the_environment_is_in_each_page() -> None:
    """Each variable that a user may set, as skblab reads it."""
    call = re.compile(r'environ\.get\("(SKBLAB_\w+)"|^VARIABLE = "(SKBLAB_\w+)"', re.M)
    found = {
        name
        for file in (TREE / "runners" / "skblab").rglob("*.py")
        for pair in call.findall(file.read_text())
        for name in pair
        if name
    }
    # The wrapper sets SKBLAB_TREE, and reads SKBLAB_VENV; SKBLAB_GUEST_LOG is for tests.
    wanted = found - {"SKBLAB_TREE", "SKBLAB_GUEST_LOG"} | {"SKBLAB_VENV"}
    assert wanted == {name for name, _ in pages.ENVIRONMENT}
    assert {"SKBLAB_CACHE_GIB", "SKBLAB_BOOT_SECONDS"} <= found


def test_exit_statuses_are_the_same_everywhere(skblab_here: Skblab) -> None:
    helped = " ".join(skblab_here("--help").stdout.split())
    index = command_pages.pages()[command_pages.INDEX]
    for status, means in EXIT_STATUSES:
        assert f"{status}: {means}" in helped
        assert f"| {status} | {means} |" in index
        assert f".TP\n{status}\n{means}\n" in page(EVERYTHING[0])


@pytest.mark.parametrize("words", [(), ("boot",), ("probe",), ("probe", "layers")])
def test_a_switch_takes_no_value(skblab_here: Skblab, words: tuple[str, ...]) -> None:
    helped = skblab_here(*words, "--help").stdout
    assert re.search(r"--help +-h +Show this message", helped)
    assert words or re.search(r"--version +Print the version", helped)
    assert "<bool>" not in helped


def complete(skblab_here: Skblab, shell: str, line: str) -> str:
    words = line.split(" ")
    env = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    with pytest.raises(SystemExit) as ended:
        skblab_here(env={**env, cli.COMPLETE: f"complete_{shell}"})
    assert not ended.value.code
    return ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected", "others"),
    [
        ("skblab pro", ["probe", "profile"], ["sweep"]),
        ("skblab probe ", ["layers", "study", "verify"], ["probe"]),
        ("skblab probe layers --late", ["--late", "--late-max", "--late-rate"], ["--json"]),
        ("skblab ", ["sweep", "doctor"], sorted(cli.HIDDEN)),
    ],
)
def test_it_completes(
    shell: str,
    line: str,
    expected: list[str],
    others: list[str],
    skblab_here: Skblab,
    capsys: pytest.CaptureFixture[str],
) -> None:
    complete(skblab_here, shell, line)
    found = re.findall(r"^(?:_arguments .*\(\()?\"?([\w-]+)", capsys.readouterr().out, re.M)
    assert set(expected) <= set(found)
    assert not set(others) & set(found)


@pytest.mark.process
def test_bash_takes_its_script(tmp_path: Path) -> None:
    """In a real bash: Tab after `skblab prob` asks skblab, and gives `probe`."""
    script = made()["bash-completion/completions/skblab"]
    (tmp_path / "script").write_text(script)
    call = f"""
        . {tmp_path}/script
        COMP_WORDS=(skblab prob) COMP_CWORD=1
        "$(complete -p skblab | sed 's/.*-F //; s/ .*//')" skblab
        echo "${{COMPREPLY[@]}}"
    """
    starter = tmp_path / "skblab"
    starter.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m skblab "$@"\n')
    starter.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", call],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **in_tree(), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stdout == "probe\n" and done.stderr == ""


def in_tree() -> dict[str, str]:
    """What has Python take the modules of this tree."""
    return {"PYTHONPATH": f"{TREE / 'runners'}:{TREE / 'analysis'}"}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make` in this tree with a Python environment that is there already: nothing is fetched."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    lock = hashlib.sha256((TREE / "requirements.lock").read_bytes()).hexdigest()
    (venv / ".skblab-key").write_text(f"{lock}\n")

    def run(
        *words: str, program: str = "make", cwd: Path = TREE
    ) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            # An outer make is none of this one's business.
            if not name.startswith(("MAKE", "SKBLAB")) and name not in ("MFLAGS", "DESTDIR")
        }
        return subprocess.run(
            [program, *words],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            env={**kept, **in_tree(), "SKBLAB_VENV": str(venv)},
        )

    return run


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.process
def test_install_and_uninstall(make: Make, tmp_path: Path) -> None:
    prefix, elsewhere = tmp_path / "it's a prefix", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (prefix / "share/man/man1").mkdir(parents=True)
    (prefix / "share/man/man1/other.1").write_text("another's")
    (prefix / "share/man/man1/skblab-no-more.1").write_text("of an older skblab")
    quoted = str(prefix).replace("'", "'\\''")
    done = make("install", f"PREFIX={quoted}")
    assert done.returncode == 0, done.stderr
    assert f"{prefix}/bin is not in your PATH" in done.stdout
    there = {"bin/skblab", "share/man/man1/other.1", *(f"share/{name}" for name in made())}
    assert files(prefix) == there
    assert stat.S_IMODE((prefix / "bin/skblab").stat().st_mode) == 0o755
    starter = str(prefix / "bin/skblab")
    assert make("--version", program=starter, cwd=elsewhere).stdout.startswith("skblab ")
    again = make("install", f"PREFIX={quoted}")
    assert again.returncode == 0 and files(prefix) == there
    done = make("uninstall", f"PREFIX={quoted}")
    assert done.returncode == 0, done.stderr
    assert files(prefix) == {"share/man/man1/other.1"}


@pytest.mark.process
def test_install_for_a_package(make: Make, tmp_path: Path) -> None:
    done = make("install", "PREFIX=/usr", f"DESTDIR={tmp_path}/stage")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "stage/usr") == {"bin/skblab", *(f"share/{name}" for name in made())}
    # Where it is now says nothing of where it will be.
    assert str(tmp_path) not in (tmp_path / "stage/usr/bin/skblab").read_text()


@pytest.mark.process
def test_install_takes_nothing_from_others(make: Make, tmp_path: Path) -> None:
    starter = tmp_path / "bin/skblab"
    starter.parent.mkdir()
    starter.write_text("#!/bin/sh\n# another's\n")
    for target in ("install", "uninstall"):
        done = make(target, f"PREFIX={tmp_path}")
        assert done.returncode != 0 and "is not ours and stays" in done.stderr
    assert starter.read_text() == "#!/bin/sh\n# another's\n"
    assert not (tmp_path / "share").exists()


@pytest.mark.process
def test_install_wants_an_absolute_prefix(make: Make) -> None:
    done = make("install", "PREFIX=local")
    assert done.returncode != 0 and "PREFIX=local is no absolute path" in done.stderr


@pytest.mark.parametrize("given", [None, "/somewhere"])
@pytest.mark.process
def test_results_are_where_an_installed_skblab_is_called(
    make: Make, tmp_path: Path, given: str | None
) -> None:
    """A starter of a made-up clone, whose skblab says what it was called with."""
    clone, here = tmp_path / "clone", tmp_path / "here"
    (clone / "runners").mkdir(parents=True)
    here.mkdir()
    shutil.copy(TREE / "runners/install.sh", clone / "runners")
    (clone / "skblab").write_text('#!/bin/sh\necho "$SKBLAB_RESULTS" "$@"\n')
    (clone / "skblab").chmod(0o755)
    # Its man pages are none of this test's business.
    venv = tmp_path / "empty"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").write_text("#!/bin/sh\n")
    (venv / "bin/python").chmod(0o755)
    script = str(clone / "runners/install.sh")
    prefix = tmp_path / "prefix"
    done = make(f"PREFIX={prefix}", "sh", script, "install", str(venv), program="env")
    assert done.returncode == 0, done.stderr
    starter = str(prefix / "bin/skblab")
    own = [f"SKBLAB_RESULTS={given}"] if given else []
    done = make(*own, starter, "sweep", "a b", program="env", cwd=here)
    assert done.stdout == f"{given or here / 'results'} sweep a b\n"
    shutil.rmtree(clone)
    done = make(program=starter, cwd=here)
    assert done.returncode == 2
    assert done.stderr == f"skblab: the clone {clone} is gone; run make install in another one\n"


@pytest.mark.process
def test_a_tab_makes_no_environment(make: Make, tmp_path: Path) -> None:
    key = tmp_path / "venv/.skblab-key"
    key.write_text("of an older lock\n")
    done = make("_SKBLAB_COMPLETE=complete_bash", str(TREE / "skblab"), program="env")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert key.read_text() == "of an older lock\n"


# A Python that makes environments whose packages are none: one line in a file for each.
MAKER = """\
#!/bin/sh
case "$1 $2" in
"-m venv")
	echo made >>{made}
	sleep 0.3
	mkdir -p "$3/bin"
	printf '#!/bin/sh\\ncase "$2" in import*) echo {site} ;; skblab) echo started ;; esac\\n' \\
		>"$3/bin/python"
	chmod +x "$3/bin/python"
	;;
esac
"""


@pytest.mark.process
def test_two_that_start_at_once_make_one_environment(tmp_path: Path) -> None:
    maker, made, site = tmp_path / "maker", tmp_path / "made", tmp_path / "site"
    site.mkdir()
    maker.write_text(MAKER.format(made=made, site=site))
    maker.chmod(0o755)
    env = {**os.environ, "PYTHON": str(maker), "SKBLAB_VENV": str(tmp_path / "venv")}
    both = [
        subprocess.Popen([TREE / "skblab"], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [one.communicate(timeout=60)[0] for one in both] == ["started\n"] * 2
    assert made.read_text() == "made\n"
