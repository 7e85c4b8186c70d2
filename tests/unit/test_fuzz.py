# SPDX-License-Identifier: GPL-2.0-or-later
"""The fuzz targets are complete, and bad usage of `skblab fuzz` is said in a line."""

from __future__ import annotations

import re

from conftest import TREE, Skblab
from skblab.commands import fuzz


def test_every_target_is_built_and_has_seeds() -> None:
    found = fuzz.targets()
    known = {"analyze", "graph", "header", "record", "sequence", "snapshot", "names", "stream"}
    assert known <= set(found)
    seeds = {folder.name for folder in (TREE / fuzz.SEEDS).iterdir() if any(folder.iterdir())}
    assert seeds == set(found)
    makefile = (TREE / "probes/bpf/Makefile").read_text()
    listed = re.search(r"^FUZZ := \$\(addprefix \$\(OUT\)/fuzz_,(.*)\)$", makefile, re.M)
    assert listed
    crate = (TREE / "runners/traffic/fuzz/Cargo.toml").read_text()
    built = {*listed[1].split(), *re.findall(r'^path = "fuzz_targets/(\w+)\.rs"', crate, re.M)}
    assert built == set(found)


def test_an_unknown_target_is_bad_usage(skblab_here: Skblab) -> None:
    done = skblab_here("fuzz", "headers")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no fuzz target headers: expected one of analyze, graph, header, names," in done.stderr


def test_an_input_is_for_one_target(skblab_here: Skblab) -> None:
    done = skblab_here("fuzz", "--input", str(TREE / "README.md"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "skblab fuzz TARGET --input FILE" in done.stderr
