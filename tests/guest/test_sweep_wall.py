# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab sweep` as a user runs it, on the wall clock: rates are found, and hold together."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Skblab
from skblab_analysis.records import load

pytestmark = pytest.mark.guest

FILE = """
name = "few-rates"
question = "Does a search end, and is what it finds true?"
[traffic]
family = [4, 6]
frame = [128]
[baseline]
rp_filter = 0
[[setting]]
name = "strict"
knobs = { rp_filter = 1 }
[measure.throughput]
goals = ["ndr"]
seconds = 0.5
trials = 1
width = 0.1
[repeats]
least = 1
most = 1
"""


def test_rates_are_found_and_add_up(skblab: Skblab, tmp_path: Path) -> None:
    file = tmp_path / "few-rates.toml"
    file.write_text(FILE)
    results = tmp_path / "results"
    done = skblab("sweep", str(file), env={"SKBLAB_RESULTS": str(results)}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = results.iterdir()
    run = load(folder)
    assert run.document.state == "finished"
    assert {row["state"] for row in run.trials} == {"good"}
    assert [one.traffic for one in run.throughput()] == [
        "IPv4, 128 bytes, 1 flow",
        "IPv6, 128 bytes, 1 flow",
    ]
    for summary in run.throughput():
        goal = summary.main
        [tester] = goal.testers
        assert tester.interval is not None
        for rate in goal.rates:
            # Emulated and busy, it is thousands; the tester has less to do.
            assert rate.interval is not None
            assert 500 < rate.interval.mean < 1.5 * tester.interval.mean
    for row in run.loads:
        assert row["received"] <= row["forwarded"] <= row["sent"]
        # The most that can be asked for: it is stopped soon after its time.
        assert row["took"] < row["seconds"] + 5
        if row["limit"] == "none":
            assert row["offered_rate"] == pytest.approx(row["load"], rel=0.06)
    assert "Throughput, NDR" in done.stdout
    assert (folder / "report" / "throughput-2.svg").exists()
    assert not (folder / "undo.jsonl").exists()
