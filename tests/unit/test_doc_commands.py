# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command line of every page parses: options there are, values that they take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from test_docs import pages

if TYPE_CHECKING:
    from typer._click import Command, Context
from typer.core import TyperGroup
from typer.main import get_command

from doc_commands import CommandLine, command_lines, recipes
from skblab.bench import plan
from skblab.cli import app
from skblab.compare.workload import SUFFIX, choose
from skblab.lab import paths
from skblab.lab.kernel import config, names
from skblab.lab.kernel.model import FLAVOURS
from skblab.probe import scripts
from skblab.probe.loads import Load
from skblab.probe.request import BPF, SOURCES
from skblab.probe.verify.plan import BACKENDS
from skblab.sweep.request import SHIPPED
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.bylayer import BEGIN

TREE = paths.tree()
MAKEFILE = (TREE / "Makefile").read_text()
# What pages call one of the reader's own.
ALTERNATIVES = ["mine"]


def _rows(text: str) -> None:
    plan.choose([name.strip() for name in text.split(",") if name.strip()], ALTERNATIVES)


def _one_of(*names: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text not in names:
            raise UsageError(f"{text}: expected one of {', '.join(names)}")

    return check


def _experiment(text: str) -> None:
    if not text.endswith(".toml") and not (SHIPPED / f"{text}.toml").is_file():
        raise UsageError(f"{text}: no such experiment")


def _workload(text: str) -> None:
    if text != "NAME" and not text.endswith(SUFFIX):
        choose([text])


def _kernel(text: str) -> None:
    """Refuse a name of a kernel that is none; a reader's tree, repository or file is not here."""
    for file in re.findall(r"[+]config:([^+]+)", text):
        # A reader's own is not here.
        if file.startswith("kconfig/"):
            assert config.read_fragment(TREE / file)
    text = re.sub(r"[+]config:[^+]+", "", text)
    if not re.fullmatch(r"tree:.+|git:.+@.+", text):
        names.parse(text)


# What a command itself looks at, by command and parameter: the parser takes any text.
VALUES: Mapping[tuple[str, str], Callable[[str], object]] = {
    ("sweep", "file"): _experiment,
    ("bench patch", "rows"): _rows,
    ("bench functions", "row"): _rows,
    ("bench functions", "against"): _rows,
    ("probe layers", "load"): Load.parse,
    ("probe layers", "source"): _one_of(*SOURCES),
    ("probe layers", "backend"): _one_of(BPF, *scripts.BACKENDS),
    ("probe functions", "load"): Load.parse,
    ("probe functions", "layer"): _one_of(*BEGIN),
    ("bisect", "wanted"): _workload,
    ("compare", "workloads"): _workload,
    ("probe verify", "backend"): _one_of(*(backend.name for backend in BACKENDS)),
}


def parse(words: tuple[str, ...], *, whole: bool = True) -> None:
    """Parse a command line as `skblab` does, and run nothing; UsageError if it is none.

    One that is not whole may lack arguments and subcommands.
    """
    command: Command = get_command(app)
    context = _made(command, "skblab", list(words), None, whole=whole)
    path: list[str] = []
    while isinstance(command, TyperGroup):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        path.append(str(name))
        context = _made(command, str(name), rest, context, whole=whole)
    for parameter, value in context.params.items():
        check = VALUES.get((" ".join(path), parameter))
        if check is not None:
            for given in value if isinstance(value, (list, tuple)) else [value]:
                if given is not None:
                    check(given)
    for parameter in ("name", *(("against",) if path == ["profile"] else ())):
        if text := context.params.get(parameter):
            _kernel(text)
    if path[0] != "probe" and "flavour" in context.params:
        _one_of(*FLAVOURS)(context.params["flavour"])


def _made(
    command: Command, name: str, words: list[str], parent: Context | None, *, whole: bool
) -> Context:
    if isinstance(command, TyperGroup) and not words:
        # It would print its help.
        return command.make_context(name, [], parent=parent, resilient_parsing=True)
    try:
        return command.make_context(name, list(words), parent=parent)
    except typer.Exit:
        # --help, --version: they end the command.
        return command.make_context(name, [], parent=parent, resilient_parsing=True)
    except Exception as error:
        if not whole and type(error).__name__ == "MissingParameter":
            return command.make_context(name, list(words), parent=parent, resilient_parsing=True)
        raise


def make(line: CommandLine) -> None:
    """Look whether the Makefile has the targets and variables; parse the `skblab` that it runs."""
    known = recipes(MAKEFILE)
    for target in line.words:
        if target not in known:
            raise UsageError(f"make {target}: no such target")
        recipe = known[target]
        for name, value in line.variables:
            if f"$({name})" not in MAKEFILE:
                raise UsageError(f"make {target}: {name} means nothing")
            recipe = recipe.replace(f"$({name})", value)
        for command in recipe.splitlines():
            program, _, rest = command.partition(" ")
            if program == "$(SKBLAB)" and "$" not in rest.replace("_ARGS)", ""):
                words = shlex.split(rest.partition(">")[0])
                parse(tuple(word for word in words if not word.startswith("$(")))


@cache
def lines() -> tuple[CommandLine, ...]:
    """Return the command lines of all pages."""
    return tuple(line for page in pages() for line in command_lines(page, TREE))


def wrong(line: CommandLine) -> str | None:
    """Return what is wrong with a command line, in words; None if nothing is."""
    try:
        if line.program == "make":
            # Of another folder's Makefile, or of the kernel's.
            if "-C" not in line.words and "localmodconfig" not in line.words:
                make(line)
        else:
            parse(line.words, whole=line.whole)
    except Exception as error:
        message = getattr(error, "format_message", None)
        said = message() if message else str(error)
        return f"{line.page}: {line}: {said}"
    return None


def test_every_command_line_of_every_page_parses() -> None:
    assert len(lines()) > 100
    assert [said for line in lines() if (said := wrong(line))] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("./skblab swep quick", "No such command"),
        ("./skblab sweep quick --exactly", "No such option"),
        ("./skblab resume", "Missing argument"),
        ("./skblab sweep quikc --dry-run", "no such experiment"),
        ("./skblab sweep quick --packets 10", "greater than or equal to 1000"),
        ("./skblab sweep quick --flavour rtt", "expected one of"),
        ("./skblab bench patch --rows of", "no such row"),
        ("./skblab probe layers --load upd", "upd"),
        ("true && ./skblab probe verify --backend nobody", "expected one of"),
        ("make tset", "no such target"),
        ("FLAVUOR=rt make kselftest", "means nothing"),
        ('BENCH_ARGS="--rows of" make bench-patch', "no such row"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, text: str, said: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nType:\n\n    {text}    # and see\n")
    [line] = command_lines(page, tmp_path)
    assert said in (wrong(line) or "")


def test_command_lines_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Say `skblab boot -- uname\n-r`, `make`, or `it's`.\n\n```sh\n./skblab doctor --json \\\n"
        "  --again; echo no\n```\n\n    A=1 make figures FIGURES=all | tee x\n    make it good?\n"
    )
    found = [(str(line), line.whole) for line in command_lines(page, tmp_path)]
    assert found == [
        ("./skblab doctor --json --again", True),
        ("A=1 FIGURES=all make figures", True),
        ("make it 'good?'", True),
        ("./skblab boot -- uname -r", False),
    ]
