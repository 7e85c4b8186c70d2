# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures over an axis: rate by frame size, rate and loss by load, latency and loss by rate."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import page_checks
import pytest
import searches
import synthetic_run
import test_latency
from hypothesis import given
from hypothesis import strategies as st
from test_labels import boxes, overlapping
from test_report import fake_gnuplot, real_gnuplot

from skblab_analysis.base import labels, lines
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.pictures import Curve, Picture, distribution
from skblab_analysis.latency import rates as by_rate
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.latency.rows import Arrivals
from skblab_analysis.load import load
from skblab_analysis.report import pictures
from skblab_analysis.report.page import build_report
from skblab_analysis.report.pictures import GnuplotRunner
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.throughput import loads, sizes
from skblab_analysis.throughput import summary as throughput_summary
from skblab_analysis.throughput.rows import LoadRow, Search

__all__ = ["real_gnuplot"]

SIZES = (64, 512, 1518)


def named(count: int) -> list[str]:
    """Return names of settings, some as long as they may be."""
    more = [
        f"netfilter: {place} rules in FORWARD, and all offloads off on both devices"[:80]
        if place % 2
        else f"rss={place}"
        for place in range(count - 1)
    ]
    return ["baseline", *more]


def by_size(names: Sequence[str], of: Sequence[int] = SIZES) -> Iterator[Search]:
    for block in range(2):
        for size in of:
            for place, name in enumerate(names):
                rate = (800_000 - 5_000 * place) * (1 + block / 100) / (1 + size / 3_000)
                traffic = f"IPv4, {size} bytes, 1 flow"
                yield searches.search(name, block, rate, traffic=traffic)


def of_sizes(tmp_path: Path, names: Sequence[str], of: Sequence[int] = SIZES) -> list[sizes.Sizes]:
    folder = searches.finished_run(tmp_path, list(by_size(names, of)))
    return sizes.of(throughput_summary.of(load(folder)))


def data_of(picture: Picture) -> list[list[list[str]]]:
    """Return the columns of each line of each block of its data."""
    return [
        [line.split() for line in block.splitlines() if line and line[0] != "#"]
        for block in picture.data.split("\n\n")
    ]


def delays(results: Path, names: Sequence[str], rates: Sequence[int]) -> Path:
    folder = RunFolder.create(results, "latency", searches.plan(), synthetic=True)
    for block in range(2):
        for rate in rates:
            for place, name in enumerate(names):
                values = [20_000 + 500 * place + rate // 10 + number for number in range(2_000)]
                lost = place if rate == max(rates) else 0
                folder.record(
                    Arrivals(
                        setting=name,
                        part="whole",
                        block=block,
                        traffic=searches.TRAFFIC,
                        rate=rate,
                        tried=len(values) + lost,
                        seconds=len(values) / rate,
                        took=len(values) / rate,
                        document=test_latency.document(values),
                    )
                )
    return folder.finish(synthetic_run.environment(), {})


def of_rates(tmp_path: Path, names: Sequence[str], rates: Sequence[int]) -> list[by_rate.Rates]:
    return by_rate.of(latency_summary.of(load(delays(tmp_path, names, rates))))


def test_rates_by_frame_size(tmp_path: Path) -> None:
    [found] = of_sizes(tmp_path, ["baseline", AGAIN, "other"])
    assert (found.traffic, found.goal) == ("IPv4, 1 flow", "strict")
    # The baseline under another name is no setting to see.
    assert found.shown == ["baseline", "other"]
    drawn = sizes.picture(found, "", 10e9)
    first, _, limit = data_of(drawn)
    assert [line[0] for line in first] == ["64", "512", "1518"]
    rate, low, high = (float(cell) for cell in first[0][1:4])
    assert low < rate < high
    # 84 bytes of 8 bits on the line for each packet, here in Mbit/s or Gbit/s.
    assert float(first[0][4]) == pytest.approx(rate * 84 * 8 / 1e9)
    assert float(limit[2][1]) == pytest.approx(10e9 / (1538 * 8))
    assert "64 bytes" in drawn.description


def test_one_size_and_mixes_are_no_curve(tmp_path: Path) -> None:
    assert of_sizes(tmp_path / "one", ["baseline"], [64]) == []
    mixed = [searches.search("baseline", 0, 9.0, traffic=f"IPv4, {name}, 1 flow") for name in "ab"]
    folder = searches.finished_run(tmp_path / "mixed", mixed)
    assert sizes.of(throughput_summary.of(load(folder))) == []


def test_of_many_settings_those_are_drawn_that_differ_most(tmp_path: Path) -> None:
    names = named(12)
    [found] = of_sizes(tmp_path, names)
    assert len(found.settings) == 12
    assert found.shown == ["baseline", *names[-7:]]


def test_each_load_of_a_search_is_drawn(tmp_path: Path) -> None:
    run = load(searches.finished_run(tmp_path))
    [found] = throughput_summary.of(run)
    drawn = loads.picture(found, run.rows(LoadRow))
    assert drawn is not None
    *blocks, limit = data_of(drawn)
    assert len(blocks) == len(searches.RATES) - 1
    assert all(len(block) == 6 for block in blocks)
    # The first search of the baseline: one packet of 88 000 lost, and none of 80 000.
    bad, good = blocks[0][:2]
    assert [float(cell) for cell in (bad[0], bad[1])] == [88_000, 87_999]
    assert float(bad[4]) == pytest.approx(1 / 88_000)
    assert float(good[4]) < 1 / 88_000
    assert limit[0][0] == limit[0][1]


def test_a_search_without_loads_has_no_such_picture(tmp_path: Path) -> None:
    run = load(searches.finished_run(tmp_path))
    [found] = throughput_summary.of(run)
    assert loads.picture(found, []) is None


def test_latency_and_loss_by_rate(tmp_path: Path) -> None:
    [found] = of_rates(tmp_path, ["baseline", "other"], [1_000, 10_000])
    drawn = by_rate.picture(found)
    baseline, other = data_of(drawn)
    assert [line[0] for line in baseline] == ["1000", "10000"]
    _, p99, least, most, lost, *_, middle = (float(cell) for cell in other[1])
    assert least <= p99 <= most
    assert middle < p99
    assert lost == pytest.approx(1 / 2_001, rel=1e-3)
    # Nothing lost is at the lower end of the axis, which says so.
    assert float(baseline[0][4]) == pytest.approx(float(str(drawn.variables["y2_from"])) * 1.25)
    assert str(drawn.variables["y2_ticks"]).startswith('"none" ')


def test_one_rate_is_no_curve(tmp_path: Path) -> None:
    assert of_rates(tmp_path, ["baseline", "other"], [1_000]) == []


def test_the_page_has_them(tmp_path: Path) -> None:
    many = searches.finished_run(tmp_path, list(by_size(named(12))))
    page = page_checks.check(build_report(many, fake_gnuplot))
    assert "Rate by frame size: IPv4, 1 flow" in page.text
    assert "8 of 12 settings: the baseline, and those that differ most from it." in page.text
    assert "Each load that the searches tried" in page.text
    slow = delays(tmp_path, named(10), [1_000, 5_000])
    page = page_checks.check(build_report(slow, fake_gnuplot))
    assert f"Latency by offered rate: {searches.TRAFFIC}" in page.text
    assert "8 of 10 settings" in page.text


@given(
    st.lists(st.floats(1e-9, 1.0) | st.just(0.0), max_size=20),
)
def test_every_share_is_on_its_axis(shares: list[float]) -> None:
    axis = lines.share_axis(shares, "lost")
    for share in shares:
        assert axis.low < lines.drawn(share, axis) < axis.high
    assert len(axis.ticks.split(", ")) <= lines.MOST_POWERS + 2


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=30))
def test_labels_of_a_logarithmic_axis_do_not_touch(values: list[float]) -> None:
    axis = lines.Axis.by_factors(values, "packets/s")
    found = [
        (text.strip('"'), float(place))
        for text, place in re.findall(r'("[^"]*") ([\d.e+-]+)', axis.ticks)
    ]
    assert found
    scale = lines.PANEL / math.log(axis.high / axis.low)
    for (before, left), (after, right) in pairwise(found):
        half = (labels.width(before, 12) + labels.width(after, 12)) / 2
        assert scale * math.log(right / left) > half


def test_a_percentile_axis_goes_as_far_as_the_count() -> None:
    few = distribution("few", "Packets", "t", "ns", [Curve("a", Histogram.of([5] * 50 + [9]))])
    assert few.variables["rare_ticks"] == '"0 %%" 1, "50 %%" 0.5, "90 %%" 0.1, "99 %%" 0.01'
    many = Histogram({5: 9_999_999, 9: 1}, total=50_000_004, minimum=5, maximum=9)
    drawn = distribution("many", "Packets", "t", "ns", [Curve("a", many)])
    ticks = str(drawn.variables["rare_ticks"])
    assert ticks.endswith('"99.999 %%" 1e-05, "99.9999 %%" 1e-06, "99.99999 %%" 1e-07')
    # Of so many steps 0 % and 50 % would touch.
    assert ticks.startswith('"50 %%" 0.5, "90 %%"')
    assert drawn.data.splitlines()[-2].split()[3] == "1"


@pytest.mark.labroot
@pytest.mark.parametrize("count", [1, 2, 40])
def test_drawn_with_any_number_of_settings(
    tmp_path: Path, real_gnuplot: GnuplotRunner, count: int
) -> None:
    names = named(count)
    [by] = of_sizes(tmp_path / "sizes", names)
    pictures.draw(sizes.picture(by, "", 1e9), tmp_path, real_gnuplot)
    run = load(searches.finished_run(tmp_path / "loads", list(by_size(names, [64]))))
    [found] = throughput_summary.of(run)
    drawn = loads.picture(found, run.rows(LoadRow))
    assert drawn is not None
    pictures.draw(drawn, tmp_path, real_gnuplot)
    [rates] = of_rates(tmp_path / "rates", names, [1_000, 20_000])
    pictures.draw(by_rate.picture(rates), tmp_path, real_gnuplot)
    for name in ("sizes", "loads", "by-rate"):
        for suffix in ("", "-narrow"):
            found_texts = list(boxes(tmp_path / f"{name}{suffix}.svg"))
            assert [words for *_, words in found_texts].count("baseline") == 1
            assert list(overlapping(found_texts)) == []
