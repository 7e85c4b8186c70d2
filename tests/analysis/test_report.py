# SPDX-License-Identifier: GPL-2.0-or-later
"""The report page and its pictures: what is on it, and that it stands alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import golden_files
import page_checks
import pytest
import synthetic_run

from skblab.lab.drawing import gnuplot
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.checked import RecordError, RefusedError
from skblab_analysis.base.histogram import Histogram
from skblab_analysis.base.pictures import COLOURS, MUTED, Curve, distribution
from skblab_analysis.exact.picture import picture as exact_picture
from skblab_analysis.exact.rows import ExactTrial
from skblab_analysis.exact.summary import summarise
from skblab_analysis.exact.view import sentences
from skblab_analysis.report import pictures, svg
from skblab_analysis.report.page import build_report
from skblab_analysis.report.pictures import GnuplotRunner
from skblab_analysis.report.svg import VARIABLES
from skblab_analysis.runfolder import RunFolder

# What gnuplot 6 writes, in small: colours in its three spellings, shared symbols, its own title.
DRAWN = """<?xml version="1.0" encoding="utf-8"  standalone="no"?>
<svg width="880" height="340" viewBox="0 0 880 340"
 xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
<title>Gnuplot</title>
<desc>Produced by GNUPLOT 6.0 patchlevel 2 </desc>
<g id="gnuplot_canvas">
<rect x="0" y="0" width="880" height="340" fill="#ffffff"/>
<defs><circle id='gpDot' r='0.5' stroke-width='0.5' stroke='currentColor'/></defs>
<g fill="none" color="black" stroke="currentColor">
<path stroke='rgb(223, 227, 232)' d='M50.05,261.00 L59.80,261.00'/>
<g fill="rgb(27,31,36)" font-family="sans-serif"><text>driver &#8594; stack</text></g>
<use xlink:href='#gpDot' color='#FFFFFF'/>
<use xlink:href='#gpDot' color='rgb( 11, 110, 153)'/>
</g></g></svg>
"""


def fake_gnuplot(arguments: Sequence[str], folder: Path) -> None:
    """Leave what gnuplot would leave, for tests of all that is not the drawing itself."""
    stem = Path(arguments[0]).stem
    for suffix in ("", "-narrow"):
        (folder / f"{stem}{suffix}.svg").write_text(DRAWN)
    (folder / f"{stem}.png").write_bytes(b"\x89PNG")


@pytest.fixture
def real_gnuplot(lab: LabRoot) -> GnuplotRunner:
    return gnuplot(lab)


def normalised(page: str) -> str:
    """Without style, drawings and times: what the template and the numbers made."""
    page = re.sub(r"<style>.*?</style>", "<style></style>", page, flags=re.S)
    page = re.sub(r"(<desc[^>]*>.*?</desc>).*?</svg>", r"\1</svg>", page, flags=re.S)
    page = re.sub(r'<time datetime="[^"]+">[^<]+</time>', "<time></time>", page)
    return page


def test_golden_page(tmp_path: Path) -> None:
    page = build_report(synthetic_run.finished_run(tmp_path), fake_gnuplot)
    golden_files.check("report.html", normalised(page.read_text()))
    page_checks.check(page)


@pytest.mark.labroot
def test_page_with_real_pictures_stands_alone(tmp_path: Path, real_gnuplot: GnuplotRunner) -> None:
    path = build_report(synthetic_run.finished_run(tmp_path), real_gnuplot)
    page = page_checks.check(path)
    made = {file.name for file in path.parent.iterdir()}
    for name in ("share", "others", "share-send", "distribution", "napi", "exact"):
        assert {
            f"{name}.gp",
            f"{name}.dat",
            f"{name}.svg",
            f"{name}-narrow.svg",
            f"{name}.png",
        } <= made
    assert len(page.all("svg")) == 12
    body = re.sub(r"<style>.*?</style>", "", path.read_text(), flags=re.S)
    left = set(re.findall(r"""(?:fill|stroke|color)=["'](?:rgb|#|black)[^"']*""", body))
    assert left == set(), "a colour of gnuplot is not the page's: it would not follow the scheme"
    for text in ("socket → wake", "whole path", "Median ●", "99.9 %", "rp_filter=1", "+350"):
        assert text in body


@pytest.mark.labroot
def test_picture_is_drawn_again_by_hand(tmp_path: Path, real_gnuplot: GnuplotRunner) -> None:
    path = build_report(synthetic_run.finished_run(tmp_path, 2_000), real_gnuplot)
    elsewhere = tmp_path / "copy"
    elsewhere.mkdir()
    for name in ("share", "others", "distribution", "napi", "exact"):
        for suffix in (".gp", ".dat"):
            shutil.copy(path.parent / f"{name}{suffix}", elsewhere)
        real_gnuplot([f"{name}.gp"], elsewhere)
        for suffix in (".svg", "-narrow.svg"):
            again = (elsewhere / f"{name}{suffix}").read_text()
            assert again == (path.parent / f"{name}{suffix}").read_text()


@pytest.mark.labroot
@pytest.mark.parametrize("packets", [1, 15, 80])
@pytest.mark.parametrize("median", [0, 1_000, 3_000_000_000])
def test_pictures_of_few_packets_and_of_extreme_times(
    tmp_path: Path, real_gnuplot: GnuplotRunner, packets: int, median: int
) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(packets), synthetic=True)
    folder.record_probe(
        synthetic_run.pathlat(packets, shapes=[(median, 0.2)] * 8) | {"napi": []},
        said=(synthetic_run.sender(packets), synthetic_run.receiver(packets)),
    )
    page_checks.check(build_report(folder.path, real_gnuplot))


@pytest.mark.labroot
@pytest.mark.parametrize(
    "per_packet",
    [
        {"only": (1000,)},
        {"base": (1000, 1001), "less": (900, 901), "same": (1000, 1001)},
        {f"setting-{n}": (7000 + n, 7000 + n) for n in range(24)},
        {"base": (7, 7), "tiny": (7, 8)},
    ],
    ids=["one", "less", "many", "tiny"],
)
def test_exact_picture_of_any_shape(
    tmp_path: Path, real_gnuplot: GnuplotRunner, per_packet: dict[str, tuple[int, ...]]
) -> None:
    trials = [
        ExactTrial(setting=name, block=boot, packets=10, delivered=10, instructions=10 * cost)
        for name, costs in per_packet.items()
        for boot, cost in enumerate(costs)
    ]
    pictures.draw(exact_picture(summarise(trials)), tmp_path, real_gnuplot)
    drawn = (tmp_path / "exact.svg").read_text()
    assert all(name in drawn for name in per_packet)


def test_the_exact_picture_has_what_was_counted() -> None:
    costs = {"tester": 4, "baseline": 10, "more": 13}
    trials = [
        ExactTrial(
            setting=name,
            part="tester" if name == "tester" else "whole",
            block=boot,
            packets=10,
            delivered=10,
            instructions=10 * cost,
        )
        for name, cost in costs.items()
        for boot in range(2)
    ]
    _, first, second = exact_picture(summarise(trials)).data.splitlines()
    # Tester, whole, what it differs from the first, and the colour of that.
    assert first == f'"baseline" 4.000 10.000 0.000 {MUTED} "10.0" "baseline" "baseline"'
    assert second == f'"more" 4.000 13.000 3.000 {COLOURS[1]} "13.0" "+3.0 (+50.0\u00a0%)" "more"'


def test_the_exact_picture_tells_which_differences_are_not_significant() -> None:
    costs = {
        "baseline": (100, 101),
        "less": (60, 61),
        "noisy": (100, 120),
        "once": (130,),
    }
    trials = [
        ExactTrial(setting=name, block=boot, packets=10, delivered=10, instructions=10 * cost)
        for name, boots in costs.items()
        for boot, cost in enumerate(boots)
    ]
    drawn = exact_picture(summarise(trials))
    found = {}
    for line in drawn.data.splitlines()[1:]:
        setting, _, _, difference, colour, rest = line.split(" ", 5)
        found[setting] = difference, int(colour), rest.split('" "')[1].replace("\u00a0", " ")
    assert found['"less"'] == ("-40.000", COLOURS[2], "−40.0 (−39.8 %)")
    assert found['"noisy"'] == ("9.500", MUTED, "(+9.5, +9.5 %)")
    assert found['"once"'] == ("29.500", MUTED, "(+29.5, +29.4 %)")
    assert drawn.description.endswith(
        "less differs from baseline by −40.0; "
        "noisy differs from baseline by +9.5 (not significant); "
        "once differs from baseline by +29.5 (of one boot: not known whether it differs)."
    )


def test_a_setting_costs_or_saves_instructions() -> None:
    costs = {"baseline": (100, 101), "less": (60, 61), "more": (130, 131)}
    trials = [
        ExactTrial(setting=name, block=boot, packets=10, delivered=10, instructions=10 * cost)
        for name, boots in costs.items()
        for boot, cost in enumerate(boots)
    ]
    found = replace(summarise(trials), traffic="IPv4, 1 flow")
    saves, more, *_ = (text.replace("\u00a0", " ") for text in sentences([found]))
    assert saves == (
        "IPv4, 1 flow: less saves 40.0 instructions a packet, compared with baseline: "
        "−39.8 % of path and tester together."
    )
    assert more == (
        "IPv4, 1 flow: more costs 30.0 instructions a packet more than baseline: "
        "+29.9 % of path and tester together."
    )


def test_page_comes_from_the_folder_alone(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path / "here", 2_000)
    first = build_report(path, fake_gnuplot).read_text()
    moved = tmp_path / "there" / "other-name"
    shutil.copytree(path, moved, ignore=shutil.ignore_patterns("report"))
    assert build_report(moved, fake_gnuplot).read_text() == first
    assert str(tmp_path) not in first


def test_synthetic_run_says_so(tmp_path: Path) -> None:
    page = page_checks.read(build_report(synthetic_run.finished_run(tmp_path, 2_000), fake_gnuplot))
    assert "Synthetic. These numbers are made up" in page.text


def test_failed_run_has_a_page(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan())
    folder.fail("the guest panicked: VFS could not mount root")
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    assert "This run failed. the guest panicked: VFS could not mount root." in page.text
    assert "This run holds no result" in page.text


def test_refused_trial_is_on_the_page_with_its_reason(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(), synthetic=True)
    with pytest.raises(RefusedError):
        folder.record_probe(
            synthetic_run.pathlat(200),
            said=(synthetic_run.sender(300), synthetic_run.receiver(200)),
        )
    synthetic_run.record_all(folder, synthetic_run.exact_trials())
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    assert "Trial 0 is invalid and in no figure: the ledger does not close" in page.text
    assert "Biggest cost: rp_filter=1, +350" in page.text
    assert "This run has not ended" in page.text


def test_what_is_left_out_is_told_by_its_setting(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "it", synthetic_run.plan(), synthetic=True)
    for block in range(2):
        why = "not possible here: rss: r0 has no rss-indirection-table"
        folder.record_invalid("wall", "RSS: one queue", why, block=block, measure="throughput")
    folder.record_invalid("wall", "tester", "its counts <contradict>", measure="tester")
    for block in range(5):
        folder.record_invalid("wall", "mtu=9000", "mtu: is 1500", block=block)
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    for sentence in (
        "RSS: one queue was skipped (trials 0 and 1): not possible here: rss: r0 has no rss-",
        "Trial 2 (tester) is invalid and in no figure: its counts <contradict>",
        "5 trials (mtu=9000) are invalid and in no figure: mtu: is 1500",
    ):
        assert page.text.count(sentence) == 1
    assert "is invalid and in no figure: not possible here" not in page.text


def test_wall_run_without_polls_and_with_few_packets(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(15), synthetic=True)
    pathlat = synthetic_run.pathlat(15) | {"napi": []}
    folder.record_probe(pathlat, said=(synthetic_run.sender(15), synthetic_run.receiver(15)))
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    assert "No NAPI poll was seen" in page.text
    assert "half took" not in page.text


def test_few_polls_make_a_table_but_no_curve(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(80), synthetic=True)
    folder.record_probe(
        synthetic_run.pathlat(80), said=(synthetic_run.sender(80), synthetic_run.receiver(80))
    )
    path = build_report(folder.path, fake_gnuplot)
    page = page_checks.check(path)
    assert "delay, softirq" in page.text
    assert not (path.parent / "napi.svg").exists()


def test_words_of_a_run_are_escaped(tmp_path: Path) -> None:
    plan = synthetic_run.plan().model_copy(update={"question": "<script>alert(1)</script> & so?"})
    folder = RunFolder.create(tmp_path, "demo", plan)
    folder.fail('"><img src=x>')
    path = build_report(folder.path, fake_gnuplot)
    page_checks.check(path)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; so?" in path.read_text()


def test_tail_in_another_layer_is_said(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(2_000), synthetic=True)
    shapes = ((900, 2.5), *synthetic_run.SHAPES[1:6], (31_000, 0.1), (1_200, 0.3))
    folder.record_probe(
        synthetic_run.pathlat(2_000, shapes=shapes),
        said=(synthetic_run.sender(2_000), synthetic_run.receiver(2_000)),
    )
    page = page_checks.read(build_report(folder.path, fake_gnuplot))
    assert "At the median the longest layer is socket → wake" in page.text
    assert "In the tail it is another one, driver → stack" in page.text


def test_no_layer_is_left_out_where_none_hides_the_rest(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "demo", synthetic_run.plan(2_000), synthetic=True)
    folder.record_probe(
        synthetic_run.pathlat(2_000, shapes=[(20_000, 0.1)] * 8),
        said=(synthetic_run.sender(2_000), synthetic_run.receiver(2_000)),
    )
    page = page_checks.check(build_report(folder.path, fake_gnuplot))
    assert len(page.all("svg")) == 8
    assert "hides the rest" not in page.text


def test_late_sender_is_said(tmp_path: Path) -> None:
    page = page_checks.read(build_report(synthetic_run.finished_run(tmp_path, 2_000), fake_gnuplot))
    assert "40 packets left more than 100 µs late (mean 4.21 µs, worst 1.25 ms)" in page.text


def test_folder_that_is_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot read the run document .*run\.json") as caught:
        build_report(tmp_path, fake_gnuplot)
    assert caught.value.exit_code == 2


def test_silent_gnuplot_is_refused(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, 2_000)
    build_report(path, fake_gnuplot)
    with pytest.raises(RefusedError, match=r"gnuplot made no share\.svg"):
        build_report(path, lambda arguments, folder: None)


def test_newer_format_is_refused(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, 2_000)
    document = json.loads((path / "run.json").read_text()) | {"schema": "skblab.run/6"}
    (path / "run.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match=r"schema: Input should be .* or 'skblab\.run/5'"):
        build_report(path, fake_gnuplot)


def test_svg_takes_the_pages_colours_and_unique_names(tmp_path: Path) -> None:
    (tmp_path / "share.svg").write_text(DRAWN)
    text = str(svg.inline(tmp_path / "share.svg", "one", "A <title>", "About & all", "wide"))
    assert "A &lt;title&gt;" in text
    assert "GNUPLOT" not in text
    assert 'id="one-gpDot"' in text
    assert 'href="#one-gpDot"' in text
    assert "xlink" not in text
    assert 'viewBox="0 0 880 340"' in text
    for style in (
        "stroke:var(--rule)",
        "fill:var(--ink)",
        "color:var(--series-0)",
        "color:var(--paper)",
    ):
        assert style in text
    assert "font-family" not in text
    assert "rgb(" not in text
    assert 'color="none"' not in text


def test_broken_svg_is_refused(tmp_path: Path) -> None:
    (tmp_path / "share.svg").write_text("<svg>")
    with pytest.raises(RecordError, match="no readable SVG"):
        svg.inline(tmp_path / "share.svg", "one", "", "", "wide")


def test_page_defines_every_colour_of_the_pictures_in_both_schemes() -> None:
    css = (Path(svg.__file__).parent / "templates" / "report.css").read_text()
    light, dark = css.split("@media (prefers-color-scheme: dark)", 1)
    for variable in set(VARIABLES.values()):
        assert f"{variable}:" in light
        assert f"{variable}:" in dark.split("* {", 1)[0]


@pytest.mark.parametrize("name", ['a" ; system "x', "a `touch x`"])
def test_gnuplot_text_that_could_break_out_is_refused(name: str) -> None:
    trials = [ExactTrial(setting="a", block=0, packets=1, delivered=1, instructions=9)]
    trials = [trial.model_copy(update={"setting": name}) for trial in trials]
    with pytest.raises(RecordError, match="cannot stand in a gnuplot script"):
        exact_picture(summarise(trials))


def test_names_in_arrays_stand_in_single_quotes(tmp_path: Path) -> None:
    curves = [Curve(name, Histogram.of([1, 2])) for name in ("it's `touch x`", '" . x . "')]
    made = distribution("one", "Packets", "title", "ns", curves)
    pictures.write(made, tmp_path)
    script = (tmp_path / "one.gp").read_text()
    assert """array titles[2] = ['it''s `touch x`', '" . x . "']""" in script


def test_pictures_stay_where_no_gnuplot_could_draw_them_again(tmp_path: Path) -> None:
    made = distribution("one", "Packets", "title", "ns", [Curve("a", Histogram.of([1, 2]))])
    other = distribution("one", "Packets", "title", "ns", [Curve("a", Histogram.of([1, 3]))])
    outputs = [tmp_path / f"one{suffix}" for suffix in pictures.OUTPUTS]
    assert not pictures.write(made, tmp_path)
    for output in outputs:
        output.write_text(DRAWN)
    assert pictures.write(made, tmp_path)
    assert all(output.exists() for output in outputs)
    # A drawing that was cut off is none.
    outputs[0].write_text("")
    assert not pictures.write(made, tmp_path)
    assert not any(output.exists() for output in outputs)
    for output in outputs:
        output.write_text(DRAWN)
    assert not pictures.write(other, tmp_path)
    assert not any(output.exists() for output in outputs)
