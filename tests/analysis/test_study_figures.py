# SPDX-License-Identifier: GPL-2.0-or-later
"""A study's figures: what its scripts print, the statistics, the ledger, the published table."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.formats import study
from skblab_analysis.formats.ledger import refuse
from skblab_analysis.formats.study import Figures, Printed
from skblab_analysis.report.study import table

PUBLISHED = Path(__file__).resolve().parents[2] / "runners/studies/published/murshed-2016.csv"
HEADER = "experiment,average_us,median_us,mode_us,stddev_us,average_without_outliers_us,samples\n"


def printed(lines: list[str], stderr: str = "", **counts: int) -> Printed:
    """What a script printed, all of it ended unless `counts` say otherwise."""
    known = {"begun": len(lines), "ended": len(lines)} | counts
    names = study.Counts.model_fields
    ends = [f"{name}: {known.get(name, 0)}" for name in names]
    return study.read_printed(["ready\n", *lines, *ends], stderr)


def missing(found: Printed, protocol: str, *, resent: bool = False) -> dict[str, int]:
    ledger = study.ledger(0, found, protocol, 3, 100, resent=resent)
    return {name: count for name, count in ledger.unaccounted.items() if count}


def test_lines_are_packets() -> None:
    found = printed(["udp 1200 100\n", "tcp 34 1000\n"])
    assert [(packet.protocol, packet.ns, packet.bytes) for packet in found.packets] == [
        ("udp", 1200, 100),
        ("tcp", 34, 1000),
    ]
    assert (found.counts.begun, found.counts.ended, found.skipped) == (2, 2, 0)
    assert found.said.startswith("ready\nbegun: 2\nended: 2\n")


def test_a_script_without_its_counts_is_no_result() -> None:
    with pytest.raises(RecordError, match=r"no ended, again, .*under_way"):
        study.read_printed(["ready", "udp 1 100", "begun: 1"], "")


def test_a_closed_ledger_of_udp() -> None:
    assert missing(printed(["udp 1 100"] * 3), "udp") == {}
    assert missing(printed(["udp 1 100"] * 3, begun=5, unwanted=1, freed=1), "udp") == {}


def test_a_closed_ledger_of_tcp_counts_bytes() -> None:
    two_in_one = printed(["tcp 1 100"] * 2, begun=3, merged=1, merged_bytes=100)
    assert missing(two_in_one, "tcp") == {}
    assert missing(printed(["tcp 1 300"]), "tcp") == {}


@pytest.mark.parametrize(
    ("found", "protocol", "complaint"),
    [
        (printed(["udp 1 100"] * 2), "udp", {"uncounted": 1}),
        (printed(["udp 1 100"] * 4), "udp", {"uncounted": 1}),
        (printed(["udp 1 100"] * 3, ended=4, begun=4), "udp", {"lost_lines": 1}),
        (printed(["udp 1 100"] * 3, begun=5), "udp", {"unbalanced": 2}),
        (printed(["udp 1 100"] * 2 + ["udp -7 100"]), "udp", {"negative": 1}),
        (printed(["udp 1 100"] * 2 + ["tcp 1 100"]), "udp", {"other_protocol": 1}),
        (printed(["tcp 1 100"] * 2), "tcp", {"uncounted": 1}),
        (printed(["tcp 1 100"] * 2 + ["tcp 1 99"]), "tcp", {"uncounted": 1}),
        (printed(["tcp 1 100"] * 5), "tcp", {"uncounted": 2}),
        (
            printed(["udp 1 100"] * 3, "WARNING: Number of errors: 1, skipped probes: 4\n"),
            "udp",
            {"missed": 5},
        ),
    ],
)
def test_what_is_missing_has_a_name_and_is_refused(
    found: Printed, protocol: str, complaint: dict[str, int]
) -> None:
    assert missing(found, protocol) == complaint
    with pytest.raises(RefusedError, match=next(iter(complaint))):
        refuse(study.ledger(0, found, protocol, 3, 100, resent=False), 0.1)


def test_segments_that_came_twice_are_not_missing_where_both_pass() -> None:
    assert missing(printed(["tcp 1 100"] * 4), "tcp", resent=True) == {}
    assert missing(printed(["tcp 1 100"] * 2), "tcp", resent=True) == {"uncounted": 1}


def test_figures_in_microseconds() -> None:
    # Eight around 11 µs, and one that is far out.
    ns = [10_100, 10_900, 11_000, 11_500, 11_999, 12_000, 12_001, 13_000, 1_000_000]
    found = study.figures("udp_end_to_end", ns)
    assert found.samples == 9
    assert found.average_us == pytest.approx(sum(ns) / 9000)
    assert found.median_us == 11.999
    assert found.mode_us == 11  # 11 and 12 are as frequent: the shorter
    assert found.stddev_us == pytest.approx(329.4, abs=0.1)
    assert found.average_without_outliers_us == pytest.approx(sum(ns[:-1]) / 8000)


def test_statistics_need_packets() -> None:
    with pytest.raises(RecordError, match="tcp_end_to_end: 1 packets are too few"):
        study.figures("tcp_end_to_end", [1])


def test_the_published_figures() -> None:
    found = study.read_published(PUBLISHED)
    assert len(found) == 5
    assert found["udp_end_to_end"].average_us == 183.813
    assert found["tcp_end_to_end"].average_without_outliers_us == 258.345
    assert found["udp_network_layer"].average_without_outliers_us is None
    # The study left that out.
    assert "tcp_transport_layer" not in found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("experiment,average_us\na,1\n", "expected the columns experiment, average_us, median_us"),
        (HEADER + "# a comment\na,1,2,3,4,5,6\nb,1,x,3,4,5,6\n", "line 4: median_us: .*number"),
        (HEADER + "a,1,2,3,4\n", "line 2: samples: "),
        (HEADER + "a,1,2,3,4,,6,7\n", "line 2: more values than columns"),
        (HEADER + "a,1,2,3,4,,6\na,1,2,3,4,,6\n", "line 3: a stands there twice"),
    ],
)
def test_published_figures_that_cannot_be_read(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "study.csv"
    file.write_text(text)
    with pytest.raises(RecordError, match=complaint) as caught:
        study.read_published(file)
    assert str(file) in str(caught.value)


def test_no_published_figures(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot read the published figures .*absent.csv"):
        study.read_published(tmp_path / "absent.csv")


def test_the_table_has_ours_beside_the_published() -> None:
    theirs = Figures(
        experiment="udp_end_to_end",
        average_us=100,
        median_us=50,
        mode_us=40,
        stddev_us=9.5,
        samples=10_000,
    )
    ours = [
        study.figures("udp_end_to_end", [200_000, 210_000, 220_000]),
        study.figures("tcp_transport_layer", [1_000, 2_000]),
    ]
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(table("both, µs", ours, {theirs.experiment: theirs}))
    assert isinstance(console.file, io.StringIO)
    shown = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    at = shown.index("udp end to end 3 210 210 200 10 210 4.2×")
    assert shown[at + 1] == "published 10 000 100 50 40 9.5 –"
    assert "tcp transport 2 1.5 1.5 1 0.7 1.5 –" in shown


def test_large_figures_are_not_cut() -> None:
    ours = [study.figures("tcp_transport_layer", [1, 999_999_999, 999_999_998])]
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(table("both, µs", ours, {}))
    assert isinstance(console.file, io.StringIO)
    assert "…" not in console.file.getvalue()
