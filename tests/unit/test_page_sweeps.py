# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader saves from a page, and the sweeps that it is for: each plans, as the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from test_docs import pages

from conftest import Skblab
from doc_commands import CommandLine, command_lines
from skblab.lab import paths

TREE = paths.tree()
_FENCED = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_HERE = re.compile(
    r"^(?P<by> *)cat >\s*(?P<name>[\w-]+\.toml) <<'END'\n(?P<text>.*?)^ *END$",
    re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(r"`([\w-]+\.toml)`")
_PLAN = re.compile(r"^plan [0-9a-f]{16}: ", re.MULTILINE)
_ABOUT = re.compile(r"about \d+ \w+")


def saved(page: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file that a page has its reader save.

    The text before a block says its name.
    """
    text, seen = page.read_text(), 0
    for block in _FENCED.finditer(text):
        before, seen = text[seen : block.start()], block.end()
        if block["kind"] == "toml":
            names = _NAME.findall(before)
            assert names, f"{page}: by which name is this saved?\n{block['text']}"
            yield names[-1], block["text"]
    for here in _HERE.finditer(text):
        yield here["name"], re.sub(f"^{here['by']}", "", here["text"], flags=re.MULTILINE)


@cache
def everywhere() -> Mapping[str, str]:
    """Return the files of all pages: one page may use what another has its reader save."""
    return {name: text for page in pages() for name, text in saved(page)}


def sweeps() -> Iterator[CommandLine]:
    """Yield the sweeps of an experiment file, or on hosts."""
    for page in pages():
        for line in command_lines(page, TREE):
            named = any(word.endswith(".toml") for word in line.words)
            if line.whole and line.program == "skblab" and line.words[:1] == ("sweep",) and named:
                yield line


def plans() -> Iterator[tuple[Path, str, str]]:
    """Yield each plan that a page prints, and the dry run above it."""
    for page in pages():
        dry = ""
        for block in _FENCED.finditer(page.read_text()):
            if block["kind"] == "sh" and "--dry-run" in block["text"]:
                dry = block["text"].strip()
            elif not block["kind"] and _PLAN.search(block["text"]):
                yield page, dry, block["text"]


def planned(line: list[str], files: Mapping[str, str], skblab: Skblab) -> str:
    """Return what the dry run of a sweep prints, where these files are."""
    for name, text in files.items():
        Path(name).write_text(text)
    words = line if "--dry-run" in line else [*line, "--dry-run"]
    done = skblab(*words)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
    return done.stdout


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # What the tree itself has, by its path there.
    (tmp_path / "runners").mkdir()
    (tmp_path / "runners" / "studies").symlink_to(TREE / "runners" / "studies")


@pytest.mark.parametrize("line", list(sweeps()), ids=lambda line: f"{line.page}: {line}")
def test_a_sweep_of_a_page_has_a_plan_by_the_page_alone(
    line: CommandLine, skblab_here: Skblab
) -> None:
    files = {**everywhere(), **dict(saved(TREE / line.page))}
    said = planned(list(line.words), files, skblab_here)
    assert _PLAN.search(said)


@pytest.mark.parametrize(
    ("page", "dry", "shown"), list(plans()), ids=lambda value: getattr(value, "stem", "")
)
def test_a_plan_on_a_page_is_that_of_now(
    page: Path, dry: str, shown: str, skblab_here: Skblab
) -> None:
    _, *words = shlex.split(dry)
    said = planned(words, {**everywhere(), **dict(saved(page))}, skblab_here)
    # How long it takes depends on how many processors there are.
    now, then = (_ABOUT.sub("about a while", text) for text in (said, shown))
    assert now.startswith(then)


def test_there_are_sweeps_and_plans() -> None:
    assert len(list(sweeps())) > 8
    assert {page.stem for page, _, _ in plans()} >= {"tutorial", "run-on-two-machines"}
