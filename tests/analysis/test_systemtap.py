# SPDX-License-Identifier: GPL-2.0-or-later
"""The SystemTap scripts: their heads and .meta, and that they hook what the catalogue says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from script_hooks import KERNEL, wanted

from skblab_analysis.formats.catalogue import Hook, load

FOLDER = Path(__file__).resolve().parents[2] / "probes" / "systemtap"
SCRIPTS = sorted(FOLDER.glob("*.stp"))
STUDY = sorted((FOLDER / "study").glob("*.stp"))
# Lines that SystemTap's own examples have.
META = [
    "title",
    "name",
    "keywords",
    "subsystem",
    "status",
    "exit",
    "output",
    "scope",
    "description",
]


def probe(hook: Hook) -> str:
    if hook.kind == "tracepoint":
        return f'kernel.trace("{hook.at.removeprefix("tracepoint:")}")'
    place = {"entry": "call", "return": "return"}[hook.kind]
    return f'kernel.function("{hook.target}").{place}'


def hooked(script: str) -> set[str]:
    text = (FOLDER / f"{script}.stp").read_text()
    return set(
        re.findall(r'^(?:probe(?: [\w.]+ =)?)?\s+(kernel\.\w+\("[\w:]+"\)(?:\.\w+)?)', text, re.M)
    )


@pytest.mark.parametrize("path", ["receive", "forward"])
def test_the_scripts_hook_what_the_catalogue_says(path: str) -> None:
    # The exchange of memory is seen from both sides.
    both_sides = {'kernel.function("pskb_expand_head").return'}
    assert hooked(f"{path}-hooks") == wanted(path, probe) | both_sides


def test_napi_hooks_are_the_catalogues() -> None:
    assert hooked("napi-hooks") == wanted("poll", probe) - wanted_ends()


def test_the_studys_points_and_ends_are_the_catalogues() -> None:
    catalogue = load()
    found = hooked("tapset/study")
    begin = {probe(hook) for hook in catalogue.point("driver").hooks if hook.fits(KERNEL)}
    both_sides = {'kernel.function("pskb_expand_head").return'}
    assert begin | (wanted_ends() & wanted("receive", probe)) <= found
    assert found <= wanted("receive", probe) | both_sides


def wanted_ends() -> set[str]:
    return {probe(hook) for end in load().ends for hook in end.hooks}


@pytest.mark.parametrize("path", ["receive", "forward"])
def test_layers_are_printed_in_the_order_of_the_path(path: str) -> None:
    points = next(found for found in load().paths if found.name == path).points[1:]
    text = (FOLDER / f"{path}-hooks.stp").read_text()
    assert re.findall(r'@report\(at_(\w+), "\1"\)', text) == [*points, "total"]


@pytest.mark.parametrize("script", [*SCRIPTS, *STUDY], ids=lambda path: path.stem)
def test_a_head_says_all_that_one_needs(script: Path) -> None:
    head = script.read_text().split("\n\n", 1)[0]
    assert head.startswith("#!/usr/bin/env stap\n// SPDX-License-Identifier: GPL-2.0\n// ")
    words = head + head.replace("\n// ", " ")
    for part in ("as root", f" {script.name}", "eal output", "How to read it: ", "Caveats: "):
        assert part in words
    real = "ended: 10000" if script in STUDY else "count 2003"
    assert real in head, "no output of a real run"
    assert script.stat().st_mode & 0o111


@pytest.mark.parametrize("script", [*SCRIPTS, *STUDY], ids=lambda path: path.stem)
def test_each_has_a_description_for_programs(script: Path) -> None:
    lines = script.with_suffix(".meta").read_text().splitlines()[1:]
    said = dict(line.split(": ", 1) for line in lines)
    assert set(META) <= set(said)
    assert said["name"] == script.name
    assert said["test_check"].startswith("stap -p4 ") and said["test_check"].endswith(script.name)
    # The head's own command is the one that is said to work.
    command = said["test_check"].replace("stap -p4 ", "stap ")
    assert command in script.read_text().replace(" \\\n//         ", " ")


def test_there_is_one_for_any_kernel_of_each_kind_and_one_for_the_polls_of_ours() -> None:
    names = {path.stem for path in SCRIPTS}
    assert names == {"receive-hooks", "forward-hooks", "napi-hooks", "napi"}


def test_the_study_has_its_three_intervals() -> None:
    assert [path.stem for path in STUDY] == ["end-to-end", "network-layer", "transport-layer"]
