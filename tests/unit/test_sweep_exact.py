# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact sweeps: what is recorded of a setting, and what of one that was not there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from skblab.cli import app
from skblab.knobs.applying import Applied, Applier
from skblab.knobs.base import Unable
from skblab.knobs.values import Value
from skblab.lab import paths
from skblab.lab.guest.errors import GuestError
from skblab.lab.reporter import Reporter
from skblab.machine.counters import Values
from skblab.machine.watch import Watch
from skblab.sweep import plan
from skblab.sweep.experiment import BASELINE, Experiment, faults, read
from skblab.sweep.measure.exact import Counting
from skblab.sweep.measure.throughput.section import Throughput
from skblab.sweep.planned import TESTER, Boot, Measurement, SettingMeasurements
from skblab.sweep.progress import Key, Progress
from skblab.sweep.request import SHIPPED, unable
from skblab.sweep.running import Running
from skblab.testbeds import KINDS, NETNS, Offered, Sending, netns
from skblab.testbeds.asked import Stream
from skblab.testbeds.netns import Netns
from skblab.testbeds.processes import Others
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import UsageError
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.formats.run import Plan
from skblab_analysis.load import Run, load
from skblab_analysis.runfolder import RunFolder

STREAM = Stream(family=4, frame=64, flows=1)
COUNT = Measurement(0, "instructions", STREAM)
TESTER_COUNT = Measurement(0, "instructions", STREAM, tester=True)
SETTINGS: dict[str, dict[str, Value]] = {TESTER: {}, BASELINE: {}, "strict": {"rp_filter": 1}}
# How many are counted, and microseconds of them, by setting.
PACKETS, TESTER_US, ROUTED_US = 1000, 3000, 8000


@dataclass
class Made:
    """A made-up testbed and its knobs: `after` is what rp_filter is found to be."""

    after: str = "1"
    lost: int = 0
    refused: int = 0
    able: bool = True
    sends: bool = True
    # Of each offer in turn: microseconds that others had the CPU, which it took longer.
    others: list[int] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)

    def offer(self, sending: Sending) -> Offered:
        packets = sending.packets if self.sends else 0
        took = packets * (TESTER_US if sending.tester else ROUTED_US) // 1000
        counted = sending.packets == PACKETS
        others = Others(self.others.pop(0) if counted and self.others else 0, "sshd 3.5 ms")
        took += others.microseconds
        return Offered(packets, packets, packets - self.lost, took, self.refused, others)

    def counters(self) -> Values:
        return {}

    def apply(self, settings: Mapping[str, Value]) -> list[Applied]:
        if not self.able:
            raise Unable("rp_filter: no such file")
        return [Applied(name, value, "0", "1", "1") for name, value in settings.items()]

    def look(self, found: Sequence[Applied]) -> list[Applied]:
        return [replace(row, after=self.after) for row in found]

    def forget(self) -> None:
        pass


def counting(folder: RunFolder) -> Running:
    made = plan.make(shipped("router-settings"), exact=True)
    method = Counting(folder, Reporter(quiet=True), PACKETS)
    return Running(made, method, folder, Reporter(quiet=True), Progress.read(folder.path))


def recorded(tmp_path: Path, made: Made) -> Run:
    folder = RunFolder.create(tmp_path, "it", Plan(experiment="it", seed=1, baseline=BASELINE))
    run = counting(folder)
    for setting, knobs in SETTINGS.items():
        measured = SettingMeasurements(
            setting, knobs, (TESTER_COUNT if setting == TESTER else COUNT,)
        )
        part = made if setting == "strict" else Made()
        run._setting(Boot(0, {}, (measured,)), measured, cast(Netns, part), cast(Applier, part))
    return load(folder.path)


def test_a_setting_is_counted_against_the_baseline_and_the_tester(tmp_path: Path) -> None:
    run = recorded(tmp_path, Made())
    [summary] = exact_summary.of(run)
    assert summary.traffic == "IPv4, 64 bytes, 1 flow"
    [tester] = summary.testers
    assert tester.mean == 3000
    assert [(cost.setting, cost.mean) for cost in summary.costs] == [
        (BASELINE, 8000),
        ("strict", 8000),
    ]
    [read_back] = run.settings
    assert run.trials[read_back.trial].setting == "strict"
    assert read_back.model_dump(exclude={"trial"}) == {
        **{"knob": "rp_filter", "value": "1", "before": "0", "wanted": "1", "after": "1"}
    }


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (Made(after="0"), "rp_filter: is 0, expected 1"),
        (Made(able=False), "rp_filter: no such file"),
        (
            Made(sends=False),
            "what was counted is not as expected: packets: Input should be greater than 0; "
            "instructions: Input should be greater than 0",
        ),
        (
            Made(lost=1),
            "strict, whole, block 0, repeat 0: the sink counted 999 packets of 1000 offered",
        ),
    ],
)
def test_a_setting_that_was_not_there_is_void(tmp_path: Path, made: Made, reason: str) -> None:
    run = recorded(tmp_path, made)
    [invalid] = [row for row in run.trials if row.state == "invalid"]
    assert invalid.setting == "strict"
    assert invalid.reason.endswith(reason)
    # What was found instead is there, where anything was.
    found = [(setting.trial, setting.wanted, setting.after) for setting in run.settings]
    assert found == ([(invalid.trial, "1", made.after)] if made.able and made.sends else [])
    # What was counted before stays.
    [summary] = exact_summary.of(run)
    assert [cost.setting for cost in summary.costs] == [BASELINE]


def test_what_others_disturbed_is_counted_again(tmp_path: Path) -> None:
    run = recorded(tmp_path, Made(others=[17, 340, 16]))
    [summary] = exact_summary.of(run)
    # 16 of 8 016 microseconds are no more than 0.2 %.
    assert [cost.mean for cost in summary.costs] == [8000, 8016]
    events = [event for event in run.journal if event.event == "disturbed"]
    assert [event.model_extra["setting"] for event in events if event.model_extra] == ["strict"] * 2
    whole = "others than packets had the CPU for 0.3 ms of 8.3 ms; most ran sshd 3.5 ms"
    assert events[1].model_extra and events[1].model_extra["reason"] == whole


def test_what_others_always_disturb_is_void(tmp_path: Path) -> None:
    run = recorded(tmp_path, Made(others=[340, 340, 340]))
    [invalid] = [row for row in run.trials if row.state == "invalid"]
    assert invalid.setting == "strict"
    assert invalid.reason.startswith("others than packets had the CPU for 0.3 ms of 8.3 ms")


def test_what_killed_its_guest_twice_is_not_tried_again(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "it", Plan(experiment="it", seed=1, baseline=BASELINE))
    key = Key("strict", 0, str(STREAM), "instructions")
    measured = SettingMeasurements("strict", SETTINGS["strict"], (COUNT,))
    boot = Boot(0, {}, (measured,))
    death = GuestError("guest panicked: Oops; console: log")
    for attempt in (1, 2):
        # As the next one to resume finds it.
        run = counting(folder)
        assert run.progress.left(boot) == [measured]
        run._begin(key, measured)
        assert run._blamed(boot, death) == (attempt == 2)
    assert counting(folder).progress.left(boot) == []
    [invalid] = load(folder.path).trials
    assert invalid.reason == "its testbed was lost 2 times: guest panicked: Oops; console: log"


def test_a_run_that_broke_off_lacks_the_rest(tmp_path: Path) -> None:
    recorded(tmp_path, Made())
    [path] = tmp_path.iterdir()
    folder = RunFolder.open(path)
    folder.fail("killed")
    folder.resume()
    assert folder.document.state == "running"
    progress = Progress.read(path)
    settings = (
        SettingMeasurements(TESTER, {}, (TESTER_COUNT,)),
        *(SettingMeasurements(name, {}, (COUNT,)) for name in (BASELINE, "strict", "more")),
    )
    assert [measured.setting for measured in progress.left(Boot(0, {}, settings))] == ["more"]
    assert len(progress.left(Boot(1, {}, settings))) == 4


def shipped(name: str) -> Experiment:
    return read(SHIPPED / f"{name}.toml")


def test_router_settings_are_many_and_all_known() -> None:
    found = shipped("router-settings")
    assert list(faults(found)) == []
    assert NETNS.unable(found) == []
    assert len(found.settings()) >= 14
    made = plan.make(found, exact=True)
    assert list(plan.make(found).boots[0].settings[0].measurements) == [
        replace(TESTER_COUNT, measure="throughput")
    ]
    for boot in made.boots:
        assert boot.settings[0].setting == TESTER
        names = [of_setting.setting for of_setting in boot.settings]
        assert sorted(names[1:]) == sorted(
            [BASELINE, AGAIN, *(setting.name for setting in found.settings())]
        )
    assert made.digest == plan.make(found, exact=True).digest
    assert made.digest != plan.make(found).digest
    numbers = [measurement.number for *_, measurement in made.measurements()]
    assert numbers == list(range(len(numbers)))


FILE = """
name = "wrong"
question = "?"
[baseline]
rp_filtre = 0
[[setting]]
name = "third"
knobs = { rp_filter = 3 }
[measure.throughput]
"""


def test_a_knob_that_there_is_not_and_a_value_that_is_wrong_have_their_lines(
    tmp_path: Path,
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["sweep", str(file), "--exact", "--dry-run"])
    assert isinstance(done.exception, UsageError)
    said = str(done.exception)
    assert said.startswith(
        f"{file}:5: baseline.rp_filtre: no such knob; the nearest is `rp_filter`"
    )
    assert "line 8: setting.0.knobs.rp_filter: 3: expected 0 or 1 or 2" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["router-settings", "--packets", "5000"], "--packets 5000 needs --exact"),
        (
            ["no-such", "--exact"],
            "no such file, and no experiment of this name comes with skblab; ",
        ),
        (["no/such.toml", "--exact"], "cannot read the experiment no/such.toml"),
    ],
)
def test_bad_usage_is_one_line(options: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["sweep", *options])
    assert isinstance(done.exception, UsageError)
    assert words in str(done.exception)


def test_a_dry_run_prints_plan_and_commands_and_does_nothing() -> None:
    udp = "family=4 size=60 flows=1"
    done = CliRunner().invoke(
        app, ["sweep", "router-settings", "--exact", "--dry-run", "--scripts"]
    )
    assert done.exit_code == 0
    for words in (
        "15 settings beside the baseline, 2 boots, 36 measurements, about ",
        "ip netns exec router sh -ec 'echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter; ",
        "ip netns exec router sh -ec 'echo 1 >/sys/class/net/r0/queues/rx-0/rps_cpus'",
        f"offer tester {udp} count=2000 cpu=0  # fills the caches\n"
        f"offer tester {udp} count=20000 cpu=0\n",
    ):
        assert words in done.stdout
    # Each trial fills the caches for itself.
    assert "# warming up" not in done.stdout
    again = CliRunner().invoke(
        app, ["sweep", "router-settings", "--exact", "--dry-run", "--scripts"]
    )
    assert again.stdout == done.stdout


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[needs]\nqueues = 4\n", "needs.queues = 4: veth has no RSS"),
        ("[needs]\nnuma = 2\n", "needs.numa = 2"),
        ("[traffic]\nfamily = [4, 6]\nframe = [70]\n", "frames of at least 82 bytes"),
        ("[traffic]\nframe = [9000]\n", "room for 1518 bytes"),
        ("[baseline]\nring_rx = 512\n", "baseline.ring_rx = 512: veth is no network card"),
    ],
)
def test_what_the_testbed_cannot_do_is_said(tmp_path: Path, more: str, words: str) -> None:
    file = tmp_path / "it.toml"
    file.write_text(f'name = "it"\nquestion = "?"\n{more}[measure.throughput]\n')
    [said] = NETNS.unable(read(file))
    assert words in said


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_every_experiment_file_is_good(file: Path, exact: bool) -> None:
    found = read(file)
    assert found.name == file.stem
    assert list(faults(found)) == []
    argv = ["sweep", file.stem, "--dry-run", *(["--exact"] if exact else [])]
    done = CliRunner().invoke(app, argv)
    assert done.exit_code == 0
    for wrong in NETNS.unable(found):
        assert f"in namespaces of one guest it cannot run: {wrong}" in done.stdout


def test_experiments_are_as_large_as_their_studies() -> None:
    # 24 configurations, one of them the baseline; two kernels need two boots.
    realtime = shipped("realtime")
    assert len(realtime.settings()) == 23
    made = plan.make(realtime, ["kernel"])
    assert len(made.boots) == 2 * 15
    assert {str(boot.knobs) for boot in made.boots} == {"{'kernel': 'rt'}", "{'kernel': 'stock'}"}
    quick = shipped("quick")
    assert NETNS.unable(quick) == []
    # The tester, the baseline twice and five settings, searched once each, by trials of half a
    # second: what that takes is measured by test_sweep_quick.py.
    assert len(list(plan.make(quick).measurements())) == 3 + 5
    throughput = quick.measure[Throughput]
    assert throughput.seconds * throughput.trials == 1.5
    assert max(setting.knobs["routes"] for setting in shipped("routes").settings()) == 1_000_000
    assert {stream.family for stream in shipped("ipv6").traffic.each()} == {4, 6}


def test_random_destinations_have_a_way_and_a_name() -> None:
    streams = list(shipped("routes").traffic.each())
    assert [str(stream) for stream in streams] == [
        "IPv4, 64 bytes, 1 flow",
        "IPv4, 64 bytes, 1 flow, random destinations",
    ]
    fixed, random = (NETNS.offering(Sending(stream, 10), 1) for stream in streams)
    assert random == f"{fixed} destinations=random"
    assert netns.laying_out(shipped("quick").traffic) == "lay_out"
    assert netns.laying_out(shipped("routes").traffic).endswith("\nlead_all_to_the_sink")


def test_packets_that_a_device_refused_make_a_trial_void(tmp_path: Path) -> None:
    run = recorded(tmp_path, Made(refused=1))
    [invalid] = [row for row in run.trials if row.state == "invalid"]
    # A packet that is dropped at once costs less than one that is forwarded.
    assert invalid.reason.endswith("the sink counted 1000 packets of 1001 offered")


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"load": 40}, "load = 40: with --exact its own work would be counted"),
        ({"napi_threaded": "busy-poll"}, "napi_threaded = busy-poll: with --exact its own"),
        ({"napi_threaded": ("on", "busy-poll")}, "napi_threaded = on,busy-poll: with --exact"),
        ({"load": 0, "napi_threaded": "on", "rp_filter": 1}, None),
    ],
)
def test_what_never_leaves_the_cpu_idle_is_not_counted(
    tmp_path: Path, knobs: dict[str, Value], said: str | None
) -> None:
    folder = RunFolder.create(tmp_path, "it", Plan(experiment="it", seed=1, baseline=BASELINE))
    run, made = counting(folder), Made()
    measured = SettingMeasurements("busy", knobs, (COUNT,))
    run._setting(Boot(0, {}, (measured,)), measured, cast(Netns, made), cast(Applier, made))
    [row] = load(folder.path).trials
    if said is None:
        assert row.state == "good"
    else:
        assert row.reason.startswith(f"not possible here: {said}")
    # Of a baseline there would be nothing to compare with.
    baseline = shipped("quick").model_copy(update={"baseline": knobs})
    found = unable(baseline, NETNS, exact=True)
    assert [sentence.startswith(f"baseline.{said}") for sentence in found] == (
        [True] if said else []
    )
    assert not any("--exact" in sentence for sentence in unable(baseline, NETNS, exact=False))


def test_the_documentation_says_which_testbed_an_experiment_takes() -> None:
    page = (paths.tree() / "docs" / "reference" / "experiments.md").read_text()
    page = page.partition("| experiment |")[2].partition("\n\n")[0]
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| [`")}
    files = {file.stem: read(file) for file in SHIPPED.glob("*.toml")}
    assert set(rows) == set(files)
    for name, found in files.items():
        able = [kind.name for kind in KINDS.values() if kind.unable(found) == []]
        assert able, name
        shown = re.findall(r"`([a-z-]+)`", rows[name].rsplit("|", 2)[1])
        assert shown == able
