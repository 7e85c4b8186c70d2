# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe study` as a user runs it, with few packets: every experiment's ledger closes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import TREE, Skblab

FILE = TREE / "runners" / "studies" / "murshed-2016.toml"
PACKETS = 503
BYTES = 100
PROTOCOLS = ("udp", "tcp")
INTERVALS = ("end_to_end", "network_layer", "transport_layer")


@pytest.mark.guest
@pytest.mark.slow
def test_the_study_of_2016(run_skblab: Skblab, tmp_path: Path) -> None:
    (tmp_path / "published").symlink_to(FILE.parent / "published")
    file = tmp_path / "few.toml"
    text = FILE.read_text()
    assert f"bytes = {BYTES}\n" in text
    for was, few in (("packets = 10_000\n", f"packets = {PACKETS}\n"),):
        assert was in text
        text = text.replace(was, few)
    file.write_text(text)

    # Of so few packets one probe that was skipped, of an acknowledgement even, is more than 0.1 %.
    done = run_skblab(
        *("probe", "study", str(file), "--max-unaccounted", "2"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=2100,
    )
    assert done.returncode == 0, done.stderr
    last = f"{PROTOCOLS[-1]} {INTERVALS[-1].split('_')[0]} "
    assert last in done.stdout and "What differs: " in done.stdout

    (folder,) = tmp_path.glob("study-*")
    run = json.loads((folder / "run.json").read_text())
    assert run["state"] == "finished"
    ledgers = run["ledgers"]
    names = [f"{protocol}_{interval}" for protocol in PROTOCOLS for interval in INTERVALS]
    for name, ledger in zip(names, ledgers, strict=True):
        rows = (folder / "logs" / f"{name}.txt").read_text().splitlines()
        times = [[int(cell) for cell in row.split("\t")] for row in rows]
        assert {reason for reason, count in ledger["unaccounted"].items() if count} <= {"missed"}, (
            name
        )
        known = ("ended", "merged", "in_flight", "continued", "filtered")
        assert ledger["begun"] == sum(ledger[reason] for reason in known), name
        assert all(ns > 0 for ns, _ in times), name
        if name.startswith("udp"):
            assert [size for _, size in times] == [BYTES] * PACKETS, name
        elif name == "tcp_network_layer":
            assert sum(size for _, size in times) >= BYTES * PACKETS, name
        else:
            said = (folder / "logs" / f"{name}-said.txt").read_text()
            merged = int(said.split("merged_bytes: ")[1].split()[0])
            assert sum(size for _, size in times) + merged == BYTES * PACKETS, name
    figures = [json.loads(line) for line in (folder / "figures.jsonl").read_text().splitlines()]
    assert [figure["experiment"] for figure in figures] == names
    # A layer is a part of the whole.
    median = {figure["experiment"]: figure["median_us"] for figure in figures}
    assert median["udp_network_layer"] < median["udp_end_to_end"]
