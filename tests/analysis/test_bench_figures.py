# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark's figures: differences, refusals, the throughput ratio and its interval."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from skblab.bench import plan
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.cost import bench, editions
from skblab_analysis.cost.view import of_bench
from skblab_analysis.formats.bench import (
    FAMILIES,
    PARTS,
    BenchDocument,
    Proof,
    Row,
    Trial,
    WallPair,
    faults,
)

COST = {"tester": 3000, "forward": 6000, "queue": 5000, "read": 1500}
# What a row adds to each part: its tester's packets are traced, too.
ADDED = {"tester": 500, "forward": 1400, "queue": 1000, "read": 200}


def trials(row: str, added: dict[str, int], noise: int = 0) -> list[Trial]:
    return [
        Trial(
            row=row,
            boot=repeat - 1,
            repeat=1,
            part=part,
            family=family,
            packets=1000,
            delivered=1000,
            instructions=1000 * (COST[part] + added.get(part, 0)) + repeat * noise,
        )
        for repeat in (1, 2)
        for part in PARTS
        for family in FAMILIES
    ]


def row(name: str, **more: object) -> Row:
    made = {"name": name, "title": name, "group": "patch", "kernel": "6.12", **more}
    return Row.model_validate(made)


def document(**more: object) -> BenchDocument:
    return BenchDocument.model_validate(
        {
            "again": "x",
            "baseline": "unpatched",
            "packets": 1000,
            "repeats": 2,
            "rows": (row("on", points={"forward": 9, "receive": 9}), row("unpatched")),
            "trials": (*trials("unpatched", {}, 100), *trials("on", ADDED, 200)),
            **more,
        }
    )


def test_what_a_row_adds_to_the_tester_cancels() -> None:
    first, on = bench.forwarding(document(), 4)
    assert (first.row.name, first.difference) == ("unpatched", None)
    assert first.path == pytest.approx(3000)
    assert on.whole == pytest.approx(7400.3)
    assert on.difference == pytest.approx(900)
    assert on.per_point == pytest.approx(100)
    assert on.share == pytest.approx(900 / 3000)
    # Forward less tester is the same in both boots, and two boots are no more than that.
    assert on.certainty is not None and on.certainty.significant
    assert on.certainty.effect == on.difference
    assert on.certainty.margin == pytest.approx(0.0003 * first.whole)


def test_receive_is_the_queue_and_the_read() -> None:
    first, on = bench.receive(document(), 6)
    assert first.queue == pytest.approx(2000)
    assert first.read == pytest.approx(1500.15)
    assert first.path == pytest.approx(2000 + 1500.15)
    # No packet for the socket comes to the sink, whose cost must not be taken off.
    assert on.difference == pytest.approx(1200, abs=1)
    assert on.share == pytest.approx(1200 / 3500, rel=1e-3)


def test_refused_rows_have_no_figures() -> None:
    refused = row("on", refused="ip: saw 999 of 1000 packets")
    figures = bench.forwarding(document(rows=(row("unpatched"), refused)), 4)
    assert [figure.row.name for figure in figures] == ["unpatched"]
    with pytest.raises(RefusedError, match="no row 'unpatched'"):
        bench.forwarding(document(rows=(row("on"),)), 4)


def test_a_pause_in_one_trial_of_a_boot_moves_nothing_and_in_all_widens_the_interval() -> None:
    slow = trials("on", ADDED)
    slow[2] = slow[2].model_copy(update={"instructions": slow[2].instructions + 4_000_000})
    assert (slow[2].part, slow[2].family) == ("forward", 4)
    every = (*trials("unpatched", {}), *slow)
    on = bench.forwarding(document(trials=(*every, *trials("on", ADDED))), 4)[1]
    assert on.difference == pytest.approx(900)
    assert on.certainty is not None and on.certainty.significant
    on = bench.forwarding(document(trials=every), 4)[1]
    # 4000 instructions a packet in one of two boots.
    assert on.difference == pytest.approx(900 + 2000)
    assert on.certainty is not None and on.certainty.significant is False
    # The variance is 4000² / 2 / 2, in one of two samples of two boots: t of one degree.
    assert on.certainty.margin == pytest.approx(12.706 * 2000, rel=1e-3)


def test_faults() -> None:
    short = trials("on", {})[0].model_copy(update={"delivered": 998})
    proof = Proof(row="on", boot=0, repeat=1, expected={"ip": 5}, seen={"ip": 4, "x": 1}, how="")
    assert faults("on", [short], [proof]) == [
        "tester, IPv4: 998 of 1000 packets arrived",
        "ip: saw 4 of 5 packets",
        "x: saw 1 of 0 packets",
    ]
    assert faults("off", [short], [proof]) == []


def test_polls() -> None:
    more: dict[str, Any] = {
        "rows": (row("unpatched"), row("napi", group="napi")),
        "trials": (*trials("unpatched", {}), *trials("napi", {"tester": 90})),
        "polls": {"napi": 1.5},
        "against": {"napi": "unpatched"},
    }
    (one,) = bench.polls(document(**more))
    assert (one.row.name, one.baseline) == ("napi", "unpatched")
    assert one.certainty is not None and one.certainty.significant
    # 3 a packet more in one boot and family: 1.5 of both families' mean, in 1.5 polls each.
    for at, trial in enumerate(more["trials"]):
        if (trial.row, trial.part, trial.family, trial.boot) == ("napi", "tester", 6, 1):
            worse = trial.model_copy(update={"instructions": trial.instructions + 3000})
            more["trials"] = (*more["trials"][:at], worse, *more["trials"][at + 1 :])
    (one,) = bench.polls(document(**more))
    assert one.certainty is not None
    assert one.certainty.margin == pytest.approx(12.706 * 0.5, rel=1e-3)
    assert one.per_poll == pytest.approx(60.5)


def pairs(*ratios: float) -> list[WallPair]:
    return [
        WallPair(family=4, pair=n, first="off", off_kpps=100, on_kpps=100 * ratio)
        for n, ratio in enumerate(ratios)
    ]


def test_the_interval_of_a_ratio_is_of_its_pairs() -> None:
    found = bench.ratio(pairs(0.90, 0.92, 0.94, 0.96, 0.98, 1.0, 1.02, 1.04))
    assert found is not None
    one = found.difference
    assert (one.blocks, one.significant) == (8, False)
    assert 1 + one.effect == pytest.approx(0.9689, abs=0.0001)
    # t(7; 97.5 %) is 2.365, the logarithms' standard deviation 0.0505.
    assert one.margin == pytest.approx(2.365 * 0.0505 / 8**0.5, rel=1e-2)


def test_few_pairs_say_how_little_they_are_worth() -> None:
    assert bench.ratio([]) is None
    found = bench.ratio(pairs(0.9, 1.0))
    assert found is not None
    assert found.difference.low is not None and found.difference.high is not None
    assert found.difference.low < -0.45 and found.difference.high > 0.8
    [single] = [bench.ratio(pairs(0.9))]
    assert single is not None and single.difference.why == "one block"


def test_tables_show_every_row_and_never_cut_a_number() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    for table in of_bench(document(wall=tuple(pairs(0.9, 1.0)))):
        console.print(table)
    text = out.getvalue()
    words = ("Forwarding", "UDP receive", "IPv6", "+900", "+100.0", "baseline", "0.486 to 1.853")
    for word in words:
        assert word in text
    assert "…" not in text


def test_the_first_edition_stands_beside_rows_that_it_had() -> None:
    known = editions.stored()
    assert known["forwarding", "4", "on"] == 375
    measured = (*trials("unpatched", {}), *trials("on", ADDED), *trials("new", ADDED))
    rows = tuple(row(name) for name in ("unpatched", "on", "new"))
    found = editions.beside(document(rows=rows, trials=measured))
    # A router's packets, and those that are read, of both families; `new` is no row of it.
    assert [(one.what, one.family, one.row, one.first) for one in found] == [
        ("forwarding", "4", "on", 375),
        ("forwarding", "6", "on", 364),
        ("UDP receive", "4", "on", 518),
        ("UDP receive", "6", "on", 517),
    ]
    assert {one.now for one in found[:2]} == {ADDED["forward"] - ADDED["tester"]}
    # A row of another name now would never be beside it.
    assert {row for _, _, row in known} <= {row.name for row in plan.ROWS}
