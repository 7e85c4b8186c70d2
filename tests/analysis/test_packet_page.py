# SPDX-License-Identifier: GPL-2.0-or-later
"""What single packets did, as a page: tables, pictures over time, sentences, figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import page_checks
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_analyze import a_document
from test_report import fake_gnuplot

from mutated import examples, json_texts, value_or_line
from skblab.lab.drawing import gnuplot
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.checked import RecordError
from skblab_analysis.formats.analyze import FILE, FileFigures, Times
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import Run, load
from skblab_analysis.packets import curves, timeline
from skblab_analysis.packets.view import VIEW
from skblab_analysis.report import pictures
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

Json = dict[str, Any]
SECOND = 10**9
HOUR = 3600 * SECOND


def bins(rows: Sequence[tuple[int, int, int | None, float | None, int | None]], width: int) -> Json:
    """Return bins of begin, packets and latency."""
    names = ("begin_ns", "packets", "min_ns", "mean_ns", "max_ns")
    return {
        "width_ns": width,
        "origin_ns": 5,
        "rows": [dict(zip(names, row, strict=True)) for row in rows],
    }


def late(rows: Sequence[tuple[int, int, int, int, float, int, int]], width: int, ns: int) -> Json:
    """Return anomalies of bins: begin, how many, packets, latency, how long the longest lasts."""
    names = ("begin_ns", "anomalies", "packets", "min_ns", "mean_ns", "max_ns", "longest_ns")
    one: Json = a_document()["late"][0]
    durations = [row[-1] for row in rows]
    return one | {
        **{"late_ns": ns, "of_median": None, "count": sum(row[1] for row in rows)},
        **{"packets": sum(row[2] for row in rows), "open_begin": False, "open_end": False},
        "duration_ns": {
            **{"total": sum(durations), "min": min(durations, default=None)},
            **{"mean": None, "max": max(durations, default=None)},
        },
        "over_time": {
            "width_ns": width,
            "origin_ns": 5,
            "rows": [dict(zip(names, row, strict=True)) for row in rows],
        },
    }


def a_day(file: str = "day.rec", **changes: Any) -> Json:  # noqa: ANN401 (any field)
    """Return a file of 24 hours, a bin an hour; in two of them packets are late."""
    hours = [(at * HOUR, 3_600_000, 10_000, 20_000.0, 90_000) for at in range(24)]
    hours[3] = (3 * HOUR, 3_600_000, 10_000, 30_000.0, 5_000_000)
    found = late([(3 * HOUR, 2, 9, 300_000, 1e6, 5_000_000, 4_000_000)], HOUR, 250_000)
    more = late([(3 * HOUR, 1, 4, 800_000, 2e6, 5_000_000, 3_000_000)], HOUR, 750_000)
    return a_document() | {
        **{"file": f"/data/{file}", "seconds": 24 * 3600.0, "packets": 24 * 3_600_000},
        **{"received": 24 * 3_600_000 + 1, "rate": 1000.0, "lost": 0, "lost_share": 0.0},
        **{"first_ns": 5, "latest_ns": 5 + 24 * HOUR},
        **{"over_time": bins(hours, HOUR), "late": [found, more], **changes},
    }


def kept(tmp_path: Path, *files: Json) -> Run:
    """Return the run that `analyze --report` leaves of files."""
    plan = Plan(experiment="packets", seed=0, again="./skblab analyze it", parameters={"on": 1})
    folder = RunFolder.create(tmp_path, "packets", plan)
    document = {"schema_name": "skblab.analyze/2", "files": list(files)}
    (folder.path / FILE).write_text(json.dumps(document))
    folder.finish(None, {})
    return load(folder.path)


def plain(text: str | None) -> str:
    """Return a text with usual spaces alone."""
    return (text or "").replace("\u202f", " ").replace("\xa0", " ")


def figures(document: Json) -> FileFigures:
    return FileFigures.model_validate(document)


def test_a_day_on_a_page(tmp_path: Path) -> None:
    run = kept(tmp_path, a_day())
    page = build_report(run.folder, fake_gnuplot)
    text = plain(page_checks.check(page).text)
    assert plain(VIEW.headline(run)) == (
        "86 400 000 packets, none lost, median latency 10.0 µs, max 11.0 µs and "
        "2 anomalies (≥ 2 packets of ≥ 250 µs)"
    )
    assert "Anomalies (≥ 2 packets of ≥ 250 µs) by file" in text and "Over time: day.rec" in text
    assert "Dashed: 250 µs and 750 µs" not in text, "latency ends at 11 µs there"
    drawn = {path.stem for path in page.parent.glob("*.gp")}
    assert drawn == {
        *("packets-latency", "packets-inter-arrival", "packets-jitter", "packets-over-time"),
        *("packets-anomalies-1", "packets-anomalies-2"),
    }
    [section] = VIEW.sections(run)
    assert not any(one.name == "packets-anomalies" for one in section.pictures), "one file"


def test_files_are_compared_by_their_anomalies_a_day(tmp_path: Path) -> None:
    short = a_day("short.rec", seconds=3600.0)
    run = kept(tmp_path, a_day(), short, a_day("none.rec", late=[late([], HOUR, 250_000)]))
    assert plain(VIEW.headline(run)) == (
        "Of 3 files short.rec has the most anomalies a day (≥ 2 packets of ≥ 250 µs): "
        "2 in 1 h 00 min"
    )
    [section] = VIEW.sections(run)
    by_file = next(one for one in section.pictures if one.name == "packets-anomalies")
    assert "day.rec: 2, 4.00 ms; short.rec: 48, 4.00 ms; none.rec: 0, –." in plain(
        by_file.description
    )
    # Without anomalies there is no picture of them, and no kind is taken for another.
    assert {one.name for one in section.pictures if one.name.endswith("-3")} == {
        "packets-over-time-3"
    }
    page_checks.check(build_report(run.folder, fake_gnuplot))
    alike = kept(tmp_path / "alike", a_day(), a_day() | {"file": "/other/day.rec"})
    assert "/other/day.rec" in " ".join(VIEW.sentences(alike))


def test_without_latency_there_is_the_rate(tmp_path: Path) -> None:
    hours = [(at * HOUR, 100, None, None, None) for at in range(3)]
    one = a_day() | {
        **{"latency_ns": None, "latency_of": None, "late": None, "seconds": 3 * 3600.0},
        **{"over_time": bins(hours, HOUR), "unknown": {"latency_ns": "two clocks"}},
    }
    run = kept(tmp_path, one)
    assert "inter-arrival time 10.5 µs in the mean" in plain(VIEW.headline(run))
    [section] = VIEW.sections(run)
    picture = next(one for one in section.pictures if one.name == "packets-over-time")
    assert picture.variables["latency"] == 0 and picture.title == "Rate over time, day.rec"
    assert "day.rec: not known: latency: two clocks." in VIEW.unseen(run)
    page_checks.check(build_report(run.folder, fake_gnuplot))


def test_figures_are_those_of_the_document(tmp_path: Path) -> None:
    found = VIEW.figures(kept(tmp_path, a_day()))
    by_name = {(one.figure, one.part): (one.value, one.unit) for one in found}
    assert by_name["packets", ""] == (86_400_000.0, "packets")
    assert by_name["p50", "latency"] == (10_016.0, "ns")
    assert by_name["anomalies", "≥ 2 packets of ≥ 250 µs"] == (2 / 86_400, "count/s")
    assert len({one.key for one in found}) == len(found)


def lines(data: str) -> list[list[float]]:
    """Return the lines of a picture's data; what is not there is no number."""
    rows = [line.split() for line in data.splitlines() if not line.startswith("#")]
    return [[float("nan") if cell == "?" else float(cell) for cell in row] for row in rows]


def test_bins_over_time_are_drawn_as_they_are() -> None:
    picture = timeline.over_time("it", "a day", figures(a_day()))
    assert picture is not None
    rows = lines(picture.data)
    assert [row[0] for row in rows] == [at + 0.5 for at in range(24)]
    assert {row[1] for row in rows} == {0.5}
    assert all(row[2] == pytest.approx(1000) for row in rows)
    assert rows[3][3:] == [10_000, 30_000, 5_000_000]
    assert picture.variables["x_label"] == "hours after the first packet"
    assert (picture.variables["from"], picture.variables["to"]) == (0.0, 24.0)


def test_a_bin_that_the_data_fill_in_part_has_no_false_rate() -> None:
    rows = [(0, 100, 1, 1.0, 1), (SECOND, 60, 1, 1.0, 1), (2 * SECOND, 1, 1, 1.0, 1)]
    for seconds, last in ((2.01, None), (2.8, 1.25)):
        latest_ns = 5 + round(seconds * SECOND)
        document = a_document(latest_ns=latest_ns, over_time=bins(rows, SECOND))
        picture = timeline.over_time("it", "it", figures(document))
        assert picture is not None
        rates = [row[2] for row in lines(picture.data)]
        assert rates[:2] == [100, 60]
        assert rates[2] == pytest.approx(last) if last else rates[2] != rates[2]


def test_packets_before_the_first_are_drawn_too() -> None:
    """A clock that was set back, or a file of two threads."""
    rows = [(-SECOND, 5, 1, 1.0, 1), (0, 5, 2, 3.0, 4)]
    picture = timeline.over_time("it", "it", figures(a_document(over_time=bins(rows, SECOND))))
    assert picture is not None
    assert picture.variables["from"] == -1.0 and picture.variables["to"] == 1.0


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 9), st.integers(0, 10**6)), min_size=1),
    st.integers(1, 10**12),
)
def test_groups_lose_no_packet_and_no_extreme(
    found: list[tuple[int, int, int]], width: int
) -> None:
    placed = sorted({at: (at, count, ns) for at, count, ns in found}.values())
    rows = [(at * width, count, ns, float(ns), ns) for at, count, ns in placed]
    over_time = figures(a_document(over_time=bins(rows, width))).over_time
    made = timeline.groups(over_time.rows, width)
    assert len(made) <= timeline.MOST + 1
    assert sum(row.packets for group in made for row in group.rows) == sum(row[1] for row in rows)
    for group in made:
        assert all(
            group.begin_ns <= row.begin_ns < group.begin_ns + group.width_ns for row in group.rows
        )
        least, mean, most = group.latency()
        values = [row.min_ns or 0 for row in group.rows]
        assert (least, most) == (max(min(values), 1), max(*values, 1))
        assert mean is not None and least is not None and most is not None
        assert least * (1 - 1e-9) <= mean <= most * (1 + 1e-9)


def test_an_anomaly_lies_in_the_axes_of_its_picture() -> None:
    [first, _] = figures(a_day()).late or ()
    picture = timeline.anomalies("it", "it", first, figures(a_day()))
    assert picture is not None
    assert lines(picture.data) == [[3.5, 300_000, 1e6, 5_000_000, 4_000_000, 2]]
    found = picture.variables
    assert found["several"] == 1 and found["limit"] == 250_000
    assert (found["low"], found["high"]) == (1e5, 1e7)
    assert isinstance(found["shortest"], float) and found["shortest"] < 4_000_000
    assert found["longest"] == 1e7
    [none] = figures(a_document(late=[late([], 1, 9)])).late or ()
    assert timeline.anomalies("it", "it", none, figures(a_day())) is None


def test_times_are_a_histogram_whose_sum_can_be() -> None:
    times = {
        **{"count": 3, "negative": 0, "min": 1000, "mean": 9e18, "sd": 1.0, "max": 2047},
        **{"percentiles": {}, "histogram": [[1000, 1007, 2], [2040, 2047, 1]]},
    }
    made = curves.histogram(Times.model_validate(times))
    assert (made.count, made.minimum, made.maximum) == (3, 1000, 2047)
    assert made.total == 2 * 1007 + 2047
    assert curves.histogram(Times.model_validate(times | {"mean": 1350.0})).total == 4050


@examples
@given(json_texts({"schema_name": "skblab.analyze/2", "files": [a_day()]}))
def test_any_document(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    run = _any_run(tmp_path_factory)

    def turn() -> None:
        (run.folder / FILE).write_text(text)
        again = replace(run)
        assert VIEW.headline(again) is None or VIEW.sections(again)
        for part in (VIEW.sentences, VIEW.unseen, VIEW.figures, VIEW.tables):
            part(again)

    value_or_line(turn)


_RUNS: list[Run] = []


def _any_run(factory: pytest.TempPathFactory) -> Run:
    if not _RUNS:
        _RUNS.append(kept(factory.mktemp("any"), a_day()))
    return _RUNS[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"latency_ns": {"min": 3}}, "is not in the bucket of 9984"),
        ({"latency_ns": {"count": 3}}, "the buckets hold 2 of 3 values"),
        ({"latency_ns": {"histogram": [[5, 6, 1], [4, 9, 1]]}}, "follows one that ends at 6"),
        ({"latency_ns": {"histogram": [], "count": 0}}, "no value, and a smallest"),
        (
            {"over_time": {"rows": bins([(9, 0, 1, 1.0, 1)], 1)["rows"]}},
            "a latency of no packet",
        ),
        ({"over_time": {"origin_ns": 10**400}}, "origin_ns"),
        ({"over_time": bins([(HOUR, 1, 1, 1.0, 1), (0, 1, 1, 1.0, 1)], HOUR)}, "the next one at 0"),
    ],
)
def test_what_does_not_agree_is_one_line(tmp_path: Path, change: Json, words: str) -> None:
    one = a_day()
    for name, more in change.items():
        one[name] = one[name] | more
    with pytest.raises(RecordError, match=words) as refused:
        VIEW.headline(kept(tmp_path, one))
    assert "\n" not in str(refused.value)


def test_a_part_of_a_file_has_its_rates_and_its_axis() -> None:
    """An hour into a file: what was before has nothing to show."""
    rows = [(HOUR + at * SECOND, 50, 1, 1.0, 1) for at in range(10)]
    cut = {"first_ns": 5 + HOUR, "latest_ns": 5 + HOUR + 10 * SECOND, "seconds": 10.0}
    found = figures(a_document(**cut, over_time=bins(rows, SECOND)))
    picture = timeline.over_time("it", "it", found)
    assert picture is not None
    assert [row[2] for row in lines(picture.data)] == [50] * 10
    assert (picture.variables["from"], picture.variables["to"]) == (3600.0, 3610.0)


def test_kinds_that_differ_by_little_are_two(tmp_path: Path) -> None:
    kinds = [late([(0, 1, 2, ns, float(ns), ns, 5)], HOUR, ns) for ns in (1_000_000, 1_001_000)]
    medians = late([(0, 1, 2, 9, 9.0, 9, 5)], HOUR, 9) | {"of_median": 5.0}
    run = kept(tmp_path, a_day(late=[*kinds, kinds[0], medians]), a_day())
    names = {one.part for one in VIEW.figures(run) if one.figure == "anomalies"}
    assert {"≥ 2 packets of ≥ 1000 µs", "≥ 2 packets of ≥ 1001 µs"} < names
    assert "≥ 2 packets of ≥ 5 medians" in names
    keys = [one.key for one in VIEW.figures(run)]
    assert len(set(keys)) == len(keys)
    assert {name.split(":")[0] for name in VIEW.sentences(run)} == {
        "/data/day.rec (1)",
        "/data/day.rec (2)",
    }


def test_any_name_of_a_file_has_its_picture(tmp_path: Path) -> None:
    run = kept(tmp_path, *(a_day(f'a"b`c\\d\n\x01{at}.rec') for at in range(2)))
    page = build_report(run.folder, fake_gnuplot)
    page_checks.check(page)
    assert "a?b?c?d??0.rec" in (page.parent / "packets-anomalies.dat").read_text()


def test_a_page_has_bars_of_some_files(tmp_path: Path) -> None:
    many = [a_day(f"{at}.rec", seconds=86_400.0 / (at + 1)) for at in range(60)]
    [section] = VIEW.sections(kept(tmp_path, *many))
    by_file = next(one for one in section.pictures if one.name == "packets-anomalies")
    assert by_file.variables["rows"] == 40
    assert "59.rec: 120" in plain(by_file.description) and " 19.rec" not in by_file.description
    assert len([one for one in section.pictures if "over-time" in one.name]) == 8


def test_a_broken_document_is_said(tmp_path: Path) -> None:
    run = kept(tmp_path, a_day())
    (run.folder / FILE).write_text("{}")
    with pytest.raises(RecordError, match=FILE):
        VIEW.headline(run)


@pytest.mark.parametrize(
    ("hours", "places"),
    [
        (24, [0, 6, 12, 18, 24]),
        (9, [0, 3, 6, 9]),
        (100, [0, 48, 96]),
        (2.5, [0, 1, 2]),
        (300, [0, 100, 200, 300]),
    ],
)
def test_hours_have_ticks_that_divide_a_day(hours: float, places: list[float]) -> None:
    assert timeline.TimeAxis(3600e9, 0, hours, "hours").places() == places


@pytest.mark.labroot
def test_gnuplot_draws_them(lab: LabRoot, tmp_path: Path) -> None:
    """All forms: braces and long macros together are more than gnuplot takes."""
    before = [(-SECOND, 5, 1, 1.0, 1), (0, 5, 2, 3.0, 9_000_000)]
    alone = a_document(over_time=bins([(0, 1, 7, 7.0, 7)], 1), seconds=0.0, late=[])
    unknown = a_document(over_time=bins([(0, 9, None, None, None)], SECOND), latency_ns=None)
    inside = a_day()
    inside["latency_ns"] = inside["latency_ns"] | {
        **{"max": 5_000_000, "histogram": [[9984, 10_047, 1], [4_980_736, 5_013_503, 1]]}
    }
    assert len(timeline.limits(figures(inside))) == 2
    forms = (inside, a_day(), a_document(over_time=bins(before, SECOND)), alone, unknown)
    for place, one in enumerate(forms):
        found = figures(one)
        made = [timeline.over_time(f"time-{place}", "it", found)]
        made += [
            timeline.anomalies(f"late-{place}-{number}", "it", kind, found)
            for number, kind in enumerate(found.late or ())
        ]
        for picture in filter(None, made):
            pictures.draw(picture, tmp_path, gnuplot(lab))
