# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets per second as bits on the line, and what the picture of rates has of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import searches

from skblab_analysis.base.pictures import MISSING
from skblab_analysis.load import Run, load
from skblab_analysis.throughput import line
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.picture import picture
from skblab_analysis.throughput.view import VIEW, Shown


def on_hosts(path: Path, **more: str) -> Run:
    document = json.loads((path / "run.json").read_text())
    document["plan"]["parameters"]["testbed"] = "hosts"
    document["environment"]["more"] |= more
    (path / "run.json").write_text(json.dumps(document))
    return load(path)


@pytest.mark.parametrize(
    ("frame", "most"),
    # The well-known rates of a line of 10 Gbit/s.
    [(64, 14_880_952), (128, 8_445_945), (512, 2_349_624), (1518, 812_743)],
)
def test_the_rate_that_fills_a_line(frame: int, most: int) -> None:
    assert int(line.rate_of(10e9, frame)) == most
    assert line.bits(line.rate_of(10e9, frame), frame) == pytest.approx(10e9)


@pytest.mark.parametrize(
    ("traffic", "frame", "rest"),
    [
        ("IPv4, 64 bytes, 1 flow", 64, "IPv4, 1 flow"),
        (
            "IPv6, 1518 bytes, 32 flows, random destinations",
            1518,
            "IPv6, 32 flows, random destinations",
        ),
        ("IPv4, ams-ix, 1 flow", None, "IPv4, ams-ix, 1 flow"),
        ("64 bytes", 64, ""),
        ("", None, ""),
    ],
)
def test_the_size_of_frames_by_the_name_of_traffic(
    traffic: str, frame: int | None, rest: str
) -> None:
    assert line.frame_bytes(traffic) == frame
    assert line.without_size(traffic) == rest


def test_the_line_is_the_slowest_link_of_hosts(tmp_path: Path) -> None:
    path = searches.finished_run(tmp_path)
    # A guest's device says a speed that nobody holds it to.
    assert line.bits_of_line(load(path)) is None
    fast, slow = "Speed: 10000Mb/s; Duplex: Full;", "Speed: 1000Mb/s; Duplex: Full;"
    run = on_hosts(path, **{"router eth0 link": fast, "router eth1 link": slow})
    assert line.bits_of_line(run) == 1e9


def test_an_unknown_speed_is_no_line(tmp_path: Path) -> None:
    run = on_hosts(searches.finished_run(tmp_path), **{"router r0 link": "Speed: Unknown!;"})
    assert line.bits_of_line(run) is None


def test_rates_have_bits_below_them(tmp_path: Path) -> None:
    [found] = throughput_summary.of(load(searches.finished_run(tmp_path)))
    drawn = picture(found).variables
    # 84 bytes of 8 bits for each packet.
    assert drawn["rate_ticks"] == ('"0\\n0" 0, "50 000\\n33.6" 50000')
    assert drawn["rates"] == "Packets/s, Mbit/s"
    assert drawn["full"] == 0


def test_the_axis_of_differences_goes_from_the_least_to_the_most(tmp_path: Path) -> None:
    [found] = throughput_summary.of(load(searches.finished_run(tmp_path)))
    drawn = picture(found)
    rows = [shlex.split(row) for row in drawn.data.splitlines() if not row.startswith("#")]
    # Name, three figures a goal, then the difference with both of its ends, where there is one.
    first = 1 + 3 * len(found.goals)
    ends = [float(cell) for row in rows for cell in row[first : first + 3] if cell != MISSING]
    assert min(ends) < -30 and max(ends) > 3
    low, high = (float(str(drawn.variables[f"diff_{end}"])) for end in ("min", "max"))
    beyond = 0.05 * (max(ends) - min(ends))
    assert (low, high) == pytest.approx((min(ends) - beyond, max(ends) + beyond), abs=1e-2)


@pytest.mark.parametrize(("bits", "shown"), [(100e6, True), (1e9, False)])
def test_the_line_is_drawn_where_it_is_near(tmp_path: Path, bits: float, shown: bool) -> None:
    [found] = throughput_summary.of(load(searches.finished_run(tmp_path)))
    drawn = picture(found, "", bits).variables
    assert bool(drawn["full"]) is shown
    if shown:
        assert drawn["full"] == pytest.approx(148_809.5, abs=0.1)
        assert float(str(drawn["rate_max"])) > float(str(drawn["full"]))


def test_the_page_says_when_the_line_is_full(tmp_path: Path) -> None:
    path = searches.finished_run(tmp_path)
    run = on_hosts(path, **{"router eth0 link": "Speed: 10000Mb/s; Duplex: Full;"})
    [section, *_] = VIEW.sections(run)
    assert isinstance(section.data, Shown)
    narrow = "\u202f"
    assert f"line of 10 Gbit/s is full at 14{narrow}880{narrow}952 packets/s" in section.data.line
