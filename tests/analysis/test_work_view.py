# SPDX-License-Identifier: GPL-2.0-or-later
"""What the report says of the kernel's counters: drops and errors, and what was not counted."""

from __future__ import annotations

from pathlib import Path

import page_checks
import pytest
import searches
import synthetic_run
from test_report import fake_gnuplot

from skblab_analysis.base.words import FIXED_SPACE
from skblab_analysis.load import load
from skblab_analysis.report.findings import unseen
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.work import summary
from skblab_analysis.work.rows import Counter, Kind
from skblab_analysis.work.view import MOST_SHOWN, _by_cpu

SLAB = "not counted: CONFIG_SLUB_STATS is off"


def recorded(results: Path, *rises: tuple[Kind, str, int], **facts: str) -> Path:
    """Return a finished run of two trials, in each of which these counters rose."""
    folder = RunFolder.create(results, "work", searches.plan(), synthetic=True)
    for block in range(2):
        folder.known(Counter(kind=kind, name=name, cpu=None, value=by) for kind, name, by in rises)
        folder.record(searches.search("baseline", block, 1000.0))
    known = synthetic_run.environment()
    more = {f"router {name.replace('_', ' ')}": value for name, value in facts.items()}
    folder.finish(known.model_copy(update={"more": more}), {"searching": 1.0})
    return folder.path


def page(run: Path) -> str:
    """Return the words of a run's report."""
    return page_checks.check(build_report(run, fake_gnuplot)).text


def test_drops_and_errors_are_told_from_all_else(tmp_path: Path) -> None:
    lost: list[tuple[Kind, str, int]] = [
        ("qdisc", "r0 fq_codel root drops", 5),
        ("device", "r0 rx_missed_errors", 4),
        ("protocol", "UdpInErrors", 3),
        ("protocol", "TcpInErrs", 2),
        ("driver", "r0 rx_no_buffer_drop[3]", 1),
    ]
    others: list[tuple[Kind, str, int]] = [
        ("driver", "r0 tx_interrupts", 9),
        ("numa", "node0 numa_miss", 9),
        ("protocol", "IpExtInOctets", 9),
        ("qdisc", "r0 fq_codel root requeues", 9),
        # Its kind has a word in it that a drop's name may have.
        ("qdisc", "r1 pfifo_fast root packets", 900),
    ]
    [work] = summary.of(load(recorded(tmp_path, *others, *lost)))
    assert list(work.lost.items()) == [(name, 2 * value) for _, name, value in lost]


def test_the_report_has_those_that_rose_most(tmp_path: Path) -> None:
    many: list[tuple[Kind, str, int]] = [
        ("driver", f"r0 rx_queue_{queue}_drops", 1000 - queue) for queue in range(MOST_SHOWN + 2)
    ]
    told = page(recorded(tmp_path, *many))
    assert "r0 rx_queue_0_drops: 2 000; r0 rx_queue_1_drops: 1 998; " in told
    assert f"r0 rx_queue_{MOST_SHOWN}_drops" not in told
    assert "; and 2 other counters" in told


def test_without_any_there_is_no_table_of_them(tmp_path: Path) -> None:
    told = page(recorded(tmp_path, ("softnet", "processed", 7)))
    assert "Where the work was done" in told
    assert "Drops and errors" not in told


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({0: 7_200, 1: 4_800}, "12 000 (CPU 0: 60, 1: 40 %)"),
        ({3: 12_000}, "12 000 (CPU 3)"),
        ({0: 0, 1: 0}, "0"),
    ],
)
def test_a_sum_tells_what_part_each_cpu_has(counts: dict[int, int], said: str) -> None:
    assert _by_cpu(counts).replace(FIXED_SPACE, " ").replace("\u202f", " ") == said


def test_what_was_not_counted_is_no_zero(tmp_path: Path) -> None:
    more = {"slab allocations, with kernel=rt": "not counted: there is no /sys/kernel/slab"}
    path = recorded(tmp_path, slab_allocations=SLAB, NUMA_allocations="counted", **more)
    said = [sentence for sentence in unseen(load(path)) if "did not count" in sentence]
    assert said == [
        "The router’s kernel did not count slab allocations: CONFIG_SLUB_STATS is off.",
        "The router’s kernel did not count slab allocations, with kernel=rt: there is no "
        "/sys/kernel/slab.",
    ]
    # Of a run before that nobody knows.
    older = recorded(tmp_path)
    assert not any("did not count" in sentence for sentence in unseen(load(older)))
