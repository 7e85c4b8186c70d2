# SPDX-License-Identifier: GPL-2.0-or-later
"""The bpftrace scripts: their heads, and that they hook what the catalogue says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from script_hooks import wanted

from skblab_analysis.formats.catalogue import Hook, load

FOLDER = Path(__file__).resolve().parents[2] / "probes" / "bpftrace"
SCRIPTS = sorted(FOLDER.glob("*.bt"))
PLACES = {"entry": "fentry", "return": "fexit"}


def probe(hook: Hook) -> str:
    return hook.at if hook.kind == "tracepoint" else f"{PLACES[hook.kind]}:{hook.target}"


def hooked(script: str) -> set[str]:
    text = (FOLDER / f"{script}.bt").read_text()
    return set(re.findall(r"^((?:fentry|fexit|tracepoint):[\w:]+)", text, re.MULTILINE))


@pytest.mark.parametrize("path", ["receive", "forward"])
def test_the_scripts_hook_what_the_catalogue_says(path: str) -> None:
    # The exchange of memory is seen from both sides.
    assert hooked(f"{path}-hooks") == wanted(path, probe) | {"fexit:pskb_expand_head"}


def test_napi_hooks_are_the_catalogues() -> None:
    catalogue = load()
    path = next(path for path in catalogue.paths if path.name == "poll")
    points = {probe(hook) for name in path.points for hook in catalogue.point(name).hooks}
    assert hooked("napi-hooks") == points


@pytest.mark.parametrize("path", ["receive", "forward"])
def test_layers_are_printed_in_the_order_of_the_path(path: str) -> None:
    points = next(found for found in load().paths if found.name == path).points[1:]
    text = (FOLDER / f"{path}-hooks.bt").read_text()
    printed = re.findall(r"^\tprint\(@(\w+)\);", text, re.MULTILINE)
    layers = [*points, "total"]
    assert printed[: 2 * len(layers)] == [f"{name}_ns" for name in layers] + layers


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_head_says_all_that_one_needs(script: Path) -> None:
    head = script.read_text().split("\n\n", 1)[0]
    assert head.startswith("#!/usr/bin/env bpftrace\n// SPDX-License-Identifier: GPL-2.0\n// ")
    words = head + head.replace("\n// ", " ")
    for part in ("?\n", "as root", f"bpftrace {script.name}", "Real output", "How to read it: "):
        assert part in words
    assert "Caveats: " in head
    assert re.search(r"count 2003|: 2003", head), "no output of a real run"
    assert script.stat().st_mode & 0o111


def test_there_is_one_for_any_kernel_of_each_kind_and_one_for_the_polls_of_ours() -> None:
    names = {path.stem for path in SCRIPTS}
    assert names == {"receive-hooks", "forward-hooks", "napi-hooks", "napi"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_histogram_mean_and_maximum_are_of_the_same_time(script: Path) -> None:
    # Each reading of the clock is later than the one before.
    assert not re.findall(r"(?:hist|stats|max)\(.*nsecs", script.read_text())
