# SPDX-License-Identifier: GPL-2.0-or-later
"""Several runs on one page: what is compared, what is not and why, and that the page stands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import page_checks
import pytest
import searches
import synthetic_run
import test_cpu
from test_report import fake_gnuplot

from skblab.sweep.experiment import Repeats
from skblab.sweep.measures import PARTS
from skblab_analysis.base.errors import UsageError
from skblab_analysis.base.sampled import Sampled, difference
from skblab_analysis.exact import summary as exact
from skblab_analysis.load import load
from skblab_analysis.report import asked, history, places, runs, together
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.settings.rows import ReadBack

TRAFFIC = searches.TRAFFIC
RATES = {name: searches.RATES[name] for name in ("baseline", "NAPI threads")}


def sweep(results: Path, rates: Mapping[str, Sequence[float]] = RATES) -> Path:
    return searches.finished_run(results, list(searches.searches(rates)))


def scaled(by: float) -> dict[str, list[float]]:
    return {name: [by * rate for rate in rates] for name, rates in RATES.items()}


def changed(run: Path, **more: object) -> Path:
    """Give a run's environment and parameters other values, by a path of names."""
    document = json.loads((run / "run.json").read_text())
    for path, value in more.items():
        at = document
        *names, last = path.split("__")
        for name in names:
            at = at[name]
        at[last] = value
    (run / "run.json").write_text(json.dumps(document))
    return run


def compared(*folders: Path) -> runs.Several:
    return runs.of([load(folder) for folder in folders])


def test_a_shared_setting_has_the_figures_of_each_run(tmp_path: Path) -> None:
    found = compared(sweep(tmp_path / "a"), sweep(tmp_path / "b", scaled(1.5)))
    strict, *others = found.tables
    assert strict.title == f"throughput, strict (packets/s): {searches.TRAFFIC}"
    assert len(others) == 2
    assert [shared.setting for shared in strict.settings] == list(RATES)
    first, second = strict.settings[0].lines
    narrow = "\u202f"
    # Mean and median of 80 000, 80 900 and 81 500; the interval is Student’s.
    assert (first.run, first.mean, first.median) == ("run 1", f"80{narrow}800", f"80{narrow}900")
    assert first.half == f"±1{narrow}875"
    assert (first.from_baseline.share, first.from_first.text) == ("baseline", "")
    assert second.from_first.share == "+50.0\u00a0%"
    assert found.apart == ()


def test_two_runs_differ_by_the_rule_of_settings() -> None:
    def sample(*figures: float) -> Sampled:
        return Sampled(
            measure="instructions",
            figure="path",
            unit="instructions/packet",
            setting="baseline",
            blocks=dict(enumerate(figures)),
            resolution=exact.RESOLUTION * 1000.0,
        )

    one, other = sample(1000.0, 1001.0, 1002.0), sample(1010.0, 1011.0)
    assert difference(one, other) == exact.compare(one.blocks, other.blocks, 1000.0)
    # Without a figure in some block of either run it is not known, however great it is.
    far = sample(2000.0, 2001.0)
    for first, second, known in (
        (one, far, True),
        (replace(one, partial=True), far, None),
        (one, replace(far, partial=True), None),
    ):
        found = difference(first, second)
        assert found is not None and found.significant is known


def test_blocks_of_two_runs_are_no_pairs(tmp_path: Path) -> None:
    # By pairs each is 1 % more, surely; as samples they scatter by far more than that.
    base = {"baseline": (60_000, 80_000, 100_000)}
    more = {"baseline": tuple(1.01 * rate for rate in base["baseline"])}
    found = compared(sweep(tmp_path / "a", base), sweep(tmp_path / "b", more))
    assert found.tables[0].settings[0].lines[1].from_first.share == "(+1.0\u00a0%)"


def test_wall_and_exact_are_in_no_common_table(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "exact", synthetic_run.plan(), synthetic=True)
    synthetic_run.record_all(folder, synthetic_run.exact_trials())
    counted = folder.finish(synthetic_run.environment(), {})
    found = compared(sweep(tmp_path / "a"), counted)
    assert found.tables == ()
    assert any(
        "run 1 measured on the wall clock, run 2 counted instructions" in said
        for said in found.apart
    )


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("plan__parameters__testbed", "virtio", "testbed: virtio, not netns"),
        ("environment__host__cpu", "Other CPU", "processor: Other CPU, 2 CPUs, not Synthetic CPU"),
        ("synthetic", False, "numbers: measured, not made up"),
        ("environment__guests__wall__accel", "kvm", "accelerator: kvm, not tcg"),
        (
            "environment__guests__wall__machine",
            "-cpu Broadwell",
            "emulated processor: Broadwell, not the emulator's own",
        ),
    ],
)
def test_another_place_is_in_no_common_table(
    tmp_path: Path, path: str, value: object, said: str
) -> None:
    other = changed(sweep(tmp_path / "b"), **{path: value})
    found = compared(sweep(tmp_path / "a"), other)
    assert found.tables == ()
    assert any(said in sentence for sentence in found.apart)


def test_instructions_are_of_no_host(tmp_path: Path) -> None:
    document = load(sweep(tmp_path / "a")).document
    other = load(changed(sweep(tmp_path / "b"), environment__host__cpu="Other CPU")).document
    assert places.place(document, "exact") == places.place(other, "exact")
    assert places.place(document, "wall") != places.place(other, "wall")


def test_what_else_differs_is_said(tmp_path: Path) -> None:
    other = changed(
        sweep(tmp_path / "b"),
        environment__kernel__release="7.3.0-skblab",
        plan__parameters__packets=100,
    )
    found = compared(sweep(tmp_path / "a"), other)
    assert len(found.tables) == 3
    [said] = found.differ
    assert "kernel: 7.3.0-skblab (stock, configuration 9f2c11d07a3b), not 6.12.48-skblab" in said
    assert "packets: 100, not none" in said


def test_one_name_of_two_settings_is_not_compared(tmp_path: Path) -> None:
    folders = []
    for place, value in (("a", "1"), ("b", "2"), ("c", "2")):
        folder = RunFolder.create(tmp_path / place, "it", searches.plan(), synthetic=True)
        for search in searches.searches(RATES):
            back = ReadBack(knob="threaded", value=value, before="0", wanted=value, after=value)
            if search.setting == "NAPI threads":
                folder.known([back])
            folder.record(search)
        folders.append(folder.finish(synthetic_run.environment(), {}))
    found = compared(*folders)
    lines = {
        shared.setting: [line.run for line in shared.lines] for shared in found.tables[0].settings
    }
    assert lines == {"baseline": ["run 1", "run 2", "run 3"], "NAPI threads": ["run 2", "run 3"]}
    [said] = found.apart
    assert said == (
        "in run 1 and in run 2 and run 3, NAPI threads is not the same: "
        "threaded: 1 in run 1, 2 in run 2."
    )


def setting_runs(tmp_path: Path, *readings: ReadBack) -> list[Path]:
    """Return runs of the same settings, of which one is read back to be this."""
    folders = []
    for number, reading in enumerate(readings):
        folder = RunFolder.create(tmp_path / f"{number}", "it", searches.plan(), synthetic=True)
        for search in searches.searches(RATES):
            if search.setting == "NAPI threads":
                folder.known([reading])
            folder.record(search)
        folders.append(folder.finish(synthetic_run.environment(), {}))
    return folders


def read_back(knob: str, value: str, wanted: str | None = None) -> ReadBack:
    there = value if wanted is None else wanted
    return ReadBack(knob=knob, value=value, before="", wanted=there, after=there)


def settings_of(found: runs.Several) -> dict[str, list[str]]:
    return {
        shared.setting: [line.run for line in shared.lines] for shared in found.tables[0].settings
    }


def test_one_name_of_two_files_of_rules_is_not_compared(tmp_path: Path) -> None:
    texts = [read_back("netfilter", "my.nft", f"my.nft {key}") for key in ("aaaa", "bbbb", "aaaa")]
    found = compared(*setting_runs(tmp_path, *texts))
    assert settings_of(found)["NAPI threads"] == ["run 1", "run 3"]
    assert found.apart == (
        "in run 1 and in run 2, NAPI threads is not the same: "
        "netfilter: my.nft aaaa in run 1, my.nft bbbb in run 2.",
    )


def test_what_was_found_and_kept_of_a_value_is_no_other_setting(tmp_path: Path) -> None:
    """Only a file has what it asks for in what was wanted; of others that has each device."""
    found = compared(
        *setting_runs(tmp_path, read_back("gro", "on", "r0 on"), read_back("gro", "on", "e0 on"))
    )
    assert settings_of(found)["NAPI threads"] == ["run 1", "run 2"]
    assert found.apart == ()


COMMANDS = """
[commands.queue]
set = "{set}"
get = "cat /sys/class/net/{{port}}/tx_queue_len"
restore = "ip link set dev {{port}} txqueuelen {{value}}"
"""
SET = "ip link set dev {port} txqueuelen {value}"


def with_commands(folder: Path, command: str) -> Path:
    (folder / "experiment.toml").write_text(COMMANDS.format(set=command))
    return folder


def test_one_name_of_other_commands_is_not_compared(tmp_path: Path) -> None:
    first, second, third = setting_runs(tmp_path, *[read_back("queue", "10")] * 3)
    for folder, command in ((first, SET), (second, "tc {port} {value}"), (third, SET)):
        with_commands(folder, command)
    found = compared(first, second, third)
    assert settings_of(found)["NAPI threads"] == ["run 1", "run 3"]
    # The baseline does not set it: whatever the commands are, it is the same.
    assert settings_of(found)["baseline"] == ["run 1", "run 2", "run 3"]
    assert found.apart == (
        "in run 1 and in run 2, NAPI threads is not the same: queue, command `set`: "
        "ip link set dev {port} txqueuelen {value} in run 1, tc {port} {value} in run 2.",
    )


def test_commands_that_are_not_known_may_be_others(tmp_path: Path) -> None:
    first, second = setting_runs(tmp_path, *[read_back("queue", "10")] * 2)
    with_commands(first, SET)
    (second / "experiment.toml").touch()
    found = compared(first, second)
    assert list(settings_of(found)) == ["baseline"]
    [said] = found.apart
    assert "NAPI threads may not be the same: queue, command `set`: ip link set dev " in said
    assert said.endswith("not known in run 2.")


def test_of_commands_that_one_run_does_not_use_nothing_is_said(tmp_path: Path) -> None:
    first, second = setting_runs(tmp_path, read_back("queue", "10"), read_back("gro", "off"))
    with_commands(first, SET)
    (second / "experiment.toml").touch()
    found = compared(first, second)
    assert found.apart == (
        "in run 1 and in run 2, NAPI threads may not be the same: queue: 10 in run 1, not set in "
        "run 2; gro: not set in run 1, off in run 2.",
    )


def test_a_broken_experiment_file_is_named(tmp_path: Path) -> None:
    folders = setting_runs(tmp_path, *[read_back("queue", "10")] * 2)
    (folders[1] / "experiment.toml").write_text("[commands]\nqueue = 5\n")
    with pytest.raises(UsageError, match=r"experiment\.toml:2: commands\.queue"):
        compared(*folders)


def asking(folder: Path, text: str) -> Path:
    (folder / "experiment.toml").write_text(text)
    return folder


def test_figures_of_longer_trials_are_in_no_common_table(tmp_path: Path) -> None:
    found = compared(
        asking(sweep(tmp_path / "a"), "[measure.throughput]\nseconds = 0.5\ntrials = 3\n"),
        asking(sweep(tmp_path / "b"), "[measure.throughput]\nseconds = 10\n"),
        asking(sweep(tmp_path / "c"), "[measure.throughput]\nseconds = 0.50\ntrials = 3\n"),
    )
    assert [settings_of(found)[name] for name in RATES] == [["run 1", "run 3"]] * 2
    [said] = found.apart
    assert said == (
        "run 2 measured differently from run 1 (measure.throughput.seconds: 10, not 0.5; "
        f"measure.throughput.trials: 21, not 3): throughput, strict (packets/s): {TRAFFIC}; "
        f"throughput, NDR (packets/s): {TRAFFIC}; throughput, PDR (packets/s): {TRAFFIC}."
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ("[repeats]\nwarm_up_seconds = 5", "", "repeats.warm_up_seconds: 2, not 5"),
        ("[measure.throughput]\ntrials = 7", "", "measure.throughput.trials: 21, not 7"),
        ("", None, "measure.throughput.seconds: not known, not 1"),
    ],
)
def test_what_is_measured_in_another_way_is_said(
    tmp_path: Path, ours: str, theirs: str | None, said: str
) -> None:
    first, second = asking(sweep(tmp_path / "a"), ours), sweep(tmp_path / "b")
    if theirs is not None:
        asking(second, theirs)
    for folders in ((first, second), (first, second, second)):
        found = compared(*folders)
        assert len(found.tables) == (0 if len(folders) == 2 else 3)
        assert all(
            {line.run for line in shared.lines} == {"run 2", "run 3"}
            for table in found.tables
            for shared in table.settings
        )
        [sentence] = found.apart
        assert said in sentence


def test_trials_that_were_made_shorter_are_in_no_common_table(tmp_path: Path) -> None:
    other = changed(sweep(tmp_path / "b"), plan__parameters__scale=0.1)
    found = compared(sweep(tmp_path / "a"), other)
    assert found.tables == ()
    assert "run 2 measured differently from run 1 (--scale: 0.1, not 1): " in found.apart[0]


def shorter(run: Path, by: float, experiment: str = "") -> Path:
    """Give a run an experiment file, and trials that `--scale` made so many times as long."""
    return changed(asking(run, experiment), plan__parameters__scale=by)


def test_a_scale_that_changed_no_length_is_no_other_way(tmp_path: Path) -> None:
    # A trial of one second, the default of a search, is made no shorter.
    found = compared(asking(sweep(tmp_path / "a"), ""), shorter(sweep(tmp_path / "b"), 0.1))
    assert len(found.tables) == 3
    assert (found.differ, found.apart) == ((), ())


def test_trials_of_one_length_are_alike_whether_a_scale_or_the_file_says_it(tmp_path: Path) -> None:
    found = compared(
        asking(sweep(tmp_path / "a"), "[measure.throughput]\nseconds = 2"),
        shorter(sweep(tmp_path / "b"), 0.2, "[measure.throughput]\nseconds = 10"),
    )
    assert len(found.tables) == 3
    assert (found.differ, found.apart) == ((), ())


def test_a_search_with_shorter_trials_finds_another_rate(tmp_path: Path) -> None:
    written = "[measure.throughput]\nseconds = 10"
    found = compared(
        asking(sweep(tmp_path / "a"), written), shorter(sweep(tmp_path / "b"), 0.5, written)
    )
    assert found.tables == ()
    assert "run 1 (measure.throughput.seconds: 5, not 10): throughput" in found.apart[0]


def test_means_per_packet_are_compared_whatever_the_length_which_is_said(tmp_path: Path) -> None:
    written = "[measure.cpu]\nrates = [1000]\n"
    folders = [
        shorter(test_cpu.sweep(tmp_path / place).folder, by, written)
        for place, by in (("a", 1), ("b", 0.1))
    ]
    found = compared(*folders)
    assert found.tables and found.apart == ()
    assert found.differ == ("run 2 differs from run 1 in: measure.cpu.seconds: 1, not 10.",)


def test_a_default_that_one_file_writes_out_is_no_other_way(tmp_path: Path) -> None:
    written = "[measure.throughput]\nseconds = 1\ntrials = 21\n[repeats]\nwarm_up_seconds = 2.0\n"
    found = compared(
        asking(sweep(tmp_path / "a"), "[measure.throughput]\n"),
        asking(sweep(tmp_path / "b"), written),
    )
    assert len(found.tables) == 3
    assert (found.differ, found.apart) == ((), ())


def test_what_a_figure_does_not_depend_on_is_said_and_compared(tmp_path: Path) -> None:
    first = '[measure.throughput]\ngoals = ["ndr"]\n[measure.latency]\nrates = [1000000]\n'
    second = "[measure.throughput]\n[measure.latency]\nrates = [1000001]\nseconds = 20\n"
    found = compared(asking(sweep(tmp_path / "a"), first), asking(sweep(tmp_path / "b"), second))
    assert len(found.tables) == 3 and found.apart == ()
    assert found.differ == (
        "run 2 differs from run 1 in: measure.latency.seconds: 20, not 10; "
        'measure.throughput.goals: not given, not ["ndr"]; '
        "measure.latency.rates: [1000001], not [1000000].",
    )


def test_long_lists_differ_by_their_ends_as_well(tmp_path: Path) -> None:
    rates = list(range(1, 100))
    folders = [
        asking(sweep(tmp_path / f"{last}"), f"[measure.cpu]\nrates = {[*rates, last]}\n")
        for last in (100, 101)
    ]
    [said] = compared(*folders).differ
    assert said.count("[1, 2, 3, ") == 2 and len(said) < 250


def test_instructions_are_counted_whatever_a_file_measures(tmp_path: Path) -> None:
    folders = []
    for place, text in (("a", ""), ("b", "[measure.throughput]\nseconds = 9\n")):
        folder = RunFolder.create(tmp_path / place, "it", synthetic_run.plan(), synthetic=True)
        synthetic_run.record_all(folder, synthetic_run.exact_trials())
        folders.append(asking(folder.finish(synthetic_run.environment(), {}), text))
    found = compared(*folders)
    assert found.tables
    assert (found.differ, found.apart) == ((), ())


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("loss_ratio", 0.01, "loss ratio: 0.01, not 0.005"),
        ("exceed_ratio", 0.25, "share of bad trials: 0.25, not 0.5"),
        ("width", 0.1, "width of the search: 0.1, not 0.01"),
    ],
)
def test_a_goal_of_one_name_may_be_another_one(
    tmp_path: Path, field: str, value: float, said: str
) -> None:
    folder = RunFolder.create(tmp_path / "b", "settings", searches.plan(), synthetic=True)
    for one in searches.searches(RATES):
        goals = tuple(
            goal.model_copy(update={field: value}) if goal.goal == "PDR" else goal
            for goal in one.goals
        )
        folder.record(one.model_copy(update={"goals": goals}))
    other = folder.finish(synthetic_run.environment(), {})
    found = compared(sweep(tmp_path / "a"), other)
    assert [table.title.partition(" (")[0] for table in found.tables] == [
        "throughput, strict",
        "throughput, NDR",
    ]
    assert found.apart == (
        f"run 2 measured differently from run 1 ({said}): throughput, PDR (packets/s): {TRAFFIC}.",
    )


def test_of_each_key_of_a_measure_it_is_known_whether_figures_depend_on_it() -> None:
    """Of those that they do depend on, the default is that of an experiment file."""
    # Others tell figures apart by themselves, or what comes behind them, or are in the rows.
    others = {
        "throughput": {"goals", "width", "confirm_seconds"},
        "latency": {"rates", "late_us", "run"},
        "cpu": {"rates"},
        "layers": {"rates", "late_run"},
        "events": {"rates", "perf", "pcm"},
        "samples": {"rates", "event"},
    }
    fields = {
        f"{part.name}.{name}": field.default
        for part in PARTS
        if part.name in others
        for name, field in part.section.model_fields.items()
        if name not in others[part.name]
    }
    assert fields == asked.DEPENDS | asked.LENGTHS
    assert not asked.DEPENDS.keys() & asked.LENGTHS.keys()
    assert Repeats().warm_up_seconds == asked.WARM_UP_SECONDS


def test_what_one_run_sets_and_another_leaves_alone_may_be_the_same(tmp_path: Path) -> None:
    folders = []
    for place in ("a", "b"):
        folder = RunFolder.create(tmp_path / place, "it", searches.plan(), synthetic=True)
        for search in searches.searches(RATES):
            if place == "b" and search.part == "whole":
                folder.known([ReadBack(knob="gro", value="on", before="1", wanted="1", after="1")])
            folder.record(search)
        folders.append(folder.finish(synthetic_run.environment(), {}))
    found = compared(*folders)
    assert found.tables == ()
    assert "in run 1 and in run 2, baseline may not be the same: " in found.apart[0]
    assert found.apart[0].endswith("gro: not set in run 1, on in run 2.")


def test_what_only_one_run_has_is_named(tmp_path: Path) -> None:
    more = RATES | {"rp_filter=1": (70_000, 70_100, 70_200)}
    found = compared(sweep(tmp_path / "a"), sweep(tmp_path / "b", more))
    assert found.tables[0].only == ("Only run 2 has rp_filter=1.",)
    alone = compared(sweep(tmp_path / "c"), sweep(tmp_path / "d", {"other": (1.0, 2.0)}))
    assert alone.tables == ()
    assert any("run 2: no other run here has the same figure" in said for said in alone.apart)


def test_the_page_of_several_stands(tmp_path: Path) -> None:
    folders = [
        sweep(tmp_path / "one"),
        sweep(tmp_path / "two", scaled(0.5)),
        synthetic_run.finished_run(tmp_path / "three", 2_000),
    ]
    out = tmp_path / "together"
    made = together.build(folders, out, fake_gnuplot)
    page = page_checks.check(made.page)
    assert made.page == out / "index.html"
    for one in made.made:
        page_checks.check(one.page)
        assert one.run.document.name in page.text
    assert "3 runs: settings and demo" in page.text
    assert page.text.count("How it was measured") == 3
    # The contents lead to each run's part, and each section is one level lower there.
    assert {"run-1", "run-2", "run-3"} <= {attrs.get("id", "") for _, attrs in page.tags}
    assert len(page.all("h2")) == 3 + len(folders)
    assert page.all("h3") and page.text.count("Run it again") == 3


def test_the_page_of_several_comes_from_the_folders_alone(tmp_path: Path) -> None:
    here = tmp_path / "here"
    folders = [sweep(here), sweep(here, scaled(1.1))]
    first = together.build(folders, here / "both", fake_gnuplot).page.read_text()
    there = tmp_path / "there"
    shutil.copytree(here, there, ignore=shutil.ignore_patterns("report", "both"))
    moved = [there / folder.name for folder in folders]
    again = together.build(moved, there / "both", fake_gnuplot).page.read_text()
    assert again == first
    assert str(tmp_path) not in first


def test_parts_are_placed() -> None:
    body = (
        '<h1>id="x"</h1><section aria-labelledby="a b"><h2 id="a">A &gt; id=&#34;b&#34;</h2>'
        '<a href="#a">up</a><a href="../run.json">raw</a><a href="share.svg">S</a></section>'
    )
    assert together.placed(body, "run-2", "../it/report") == (
        '<h2>id="x"</h2><section aria-labelledby="run-2-a run-2-b"><h3 id="run-2-a">'
        'A &gt; id=&#34;b&#34;</h3><a href="#run-2-a">up</a>'
        '<a href="../it/report/../run.json">raw</a><a href="../it/report/share.svg">S</a></section>'
    )


def begun(folder: Path, day: int) -> Path:
    """Return a run that was made on another day."""
    return changed(folder, started=f"2026-03-{day:02d}T08:00:00Z")


def test_three_runs_have_a_history(tmp_path: Path) -> None:
    """By when they were made, however they are named on the command line."""
    folders = [
        begun(sweep(tmp_path / str(day), scaled(by)), day)
        for day, by in ((3, 1.0), (1, 0.5), (2, 0.9))
    ]
    found = compared(*folders)
    [(place, picture), *others] = history.pictures(found.tables)
    assert place == 0 and len(others) == len(found.tables) - 1
    baseline, threads = picture.data.split("\n\n\n")
    rows = [line.split() for line in baseline.splitlines()[1:]]
    strict = found.tables[0].settings[0].lines
    means = {line.number: line.interval.mean for line in strict}
    assert [float(row[1]) for row in rows] == pytest.approx([means[2], means[3], means[1]])
    # Against the first that was named, which is no line of its own.
    assert [float(row[4]) for row in rows] == pytest.approx([-50, -10, 0], abs=0.01)
    assert float(rows[0][5]) < -50 < float(rows[0][6]) and rows[2][5:7] == ["0", "0"]
    assert picture.variables["x_ticks"] == '"2" 1, "3" 2, "1" 3'
    assert threads.startswith("# NAPI threads")
    # From -50 % up to 0, with ticks that are apart.
    assert picture.variables["y2_ticks"] == '"−40 %%" -40, "−20 %%" -20, "0 %%" 0'
    made = together.build(folders, tmp_path / "page", fake_gnuplot)
    page_checks.check(made.page)
    assert (tmp_path / "page" / "history-1.svg").exists()
    assert "its difference from the first run of the table" in made.page.read_text()


def test_one_name_of_two_states_is_two_curves(tmp_path: Path) -> None:
    [table, *_] = compared(
        *(sweep(tmp_path / str(at), scaled(1 + at / 9)) for at in range(3))
    ).tables
    baseline, _ = table.settings
    twice = replace(table, settings=(baseline,) * 9)
    [(_, picture)] = history.pictures([twice])
    assert picture.variables["series"] == 8
    assert list(cast(Sequence[str], picture.variables["titles"]))[:2] == [
        "baseline (1)",
        "baseline (2)",
    ]


def test_two_runs_have_none(tmp_path: Path) -> None:
    found = compared(sweep(tmp_path / "a"), sweep(tmp_path / "b", scaled(1.5)))
    assert found.tables and not list(history.pictures(found.tables))
