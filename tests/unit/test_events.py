# SPDX-License-Identifier: GPL-2.0-or-later
"""Events of perf and PCM in a sweep: collectors by stand-ins that replay output, tables, gaps."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import searches
from hypothesis import given
from pydantic import ValidationError
from rich.console import Console
from typer.testing import CliRunner

from mutated import examples, texts, value_or_line
from skblab.cli import app
from skblab.machine.collectors import GROUPS, Pcm, Perf, Tool, collecting
from skblab.machine.collectors.base import line
from skblab.machine.collectors.perf import refusals
from skblab.machine.transport import LocalTransport
from skblab.sweep.hostmachines import require
from skblab.sweep.measure.base import Attempt
from skblab.sweep.measure.events import Events as Section
from skblab.sweep.measure.events import EventsMeasure
from skblab.sweep.progress import Key
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.events.rows import Collected, Event, EventRow, Window
from skblab_analysis.events.summary import of
from skblab_analysis.events.view import VIEW, tables
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder

FIXTURES = Path(__file__).resolve().parents[1] / "analysis" / "pcm"

# Counts 1000 of each event on two CPUs while its command runs; knows no event named odd, and this
# processor has none named LLC-loads.
PERF = r"""#!/bin/sh
echo "$*" >>"$(dirname "$0")/called"
while [ "$1" != -e ]; do shift; done
events=$2
shift 3
case $events in topdown-*) echo 'slots has to be there' >&2; exit 129 ;; esac
case $events in *odd*) echo "event syntax error: 'odd'" >&2; exit 129 ;; esac
"$@" || exit
for event in $(echo "$events" | tr -d '{}' | tr , ' '); do
	for cpu in 0 1; do
		value=1000.000000
		[ "$event" != LLC-loads ] || value='<not supported>'
		case $events$event in {*,big*big) value='<not counted>' ;; esac
		printf '{"cpu" : "%s", "counter-value" : "%s", "unit" : "%s", "event" : "%s", ' \
			"$cpu" "$value" "$UNIT" "$event$SUFFIX"
		printf '"event-runtime" : 5, "pcnt-running" : %s}\n' "${RUNNING:-100.00}"
	done
done
"""
PCM = """#!/bin/sh
[ ! -e "$(dirname "$0")/broken" ] || { echo 'PMU is busy' >&2; exit 1; }
while [ "$1" != -- ]; do shift; done
shift
"$@"
cat "$(dirname "$0")/pcm.csv"
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that go before the machine's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("perf", PERF), ("pcm", PCM)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "pcm.csv").write_text((FIXTURES / "pcm-202604.csv").read_text())
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_perf_counts_while_something_goes_on(there: Path) -> None:
    perf = Perf("mine", ("cycles", "instructions"))
    with collecting(perf, LocalTransport()) as counted:
        assert counted.found is None
    assert [(event.name, event.scope, event.number, event.value) for event in counted.result] == [
        ("cycles", "core", 0, 1000),
        ("cycles", "core", 1, 1000),
        ("instructions", "core", 0, 1000),
        ("instructions", "core", 1, 1000),
    ]
    assert {event.running for event in counted.result} == {1.0}
    [called] = (there / "called").read_text().splitlines()
    assert called.startswith("stat -j -a -A --log-fd 1 -e {cycles,instructions} -- sh -c ")


def test_an_event_has_the_name_that_it_was_asked_for_by(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUFFIX", " [software]")
    with collecting(Perf("it", ("page-faults", "cpu-migrations")), LocalTransport()) as counted:
        pass
    names = [event.name for event in counted.result]
    assert names == ["page-faults"] * 2 + ["cpu-migrations"] * 2


def test_pcm_counts_while_something_goes_on(there: Path) -> None:
    with collecting(Pcm("pcm"), LocalTransport()) as counted:
        pass
    [misses] = [one for one in counted.result if (one.name, one.scope) == ("L3MISS", "system")]
    assert (misses.unit, misses.value) == ("count", 39.77e6)
    links = [one for one in counted.result if one.scope == "link" and one.name == "dataIn"]
    assert {one.socket for one in links} == {0, 1}


def test_what_goes_wrong_meanwhile_ends_the_collector(there: Path) -> None:
    with pytest.raises(KeyError), collecting(Perf("it", ("cycles",)), LocalTransport()):
        raise KeyError


def test_a_collector_that_fails_is_told(there: Path) -> None:
    (there / "broken").touch()
    with pytest.raises(SkblabError, match="PMU is busy"), collecting(Pcm("pcm"), LocalTransport()):
        pass


def test_what_a_machine_counts_is_asked_before(there: Path) -> None:
    perf = Perf("llc", ("cycles", "LLC-loads", "odd"))
    able, gaps = perf.able(LocalTransport())
    assert able == Perf("llc", ("cycles",))
    assert [(gap.name, gap.why) for gap in gaps] == [
        ("LLC-loads", "not supported"),
        ("odd", "event syntax error: 'odd'"),
    ]
    assert Perf("none", ("LLC-loads",)).able(LocalTransport())[0] is None
    # One that counts alone, and has no counter beside the others.
    able, [gap] = Perf("full", ("cycles", "big")).able(LocalTransport())
    assert able == Perf("full", ("cycles",))
    assert gap.name == "big" and "the counters are too few" in gap.why
    assert Pcm("pcm").able(LocalTransport()) == (Pcm("pcm"), ())
    (there / "broken").touch()
    able_pcm, [gap] = Pcm("pcm").able(LocalTransport())
    assert able_pcm is None
    assert gap.why == "PMU is busy"
    (there / "broken").unlink()
    (there / "pcm.csv").write_text("")
    assert Pcm("pcm").able(LocalTransport())[1][0].why


@examples
@given(texts('== cycles\n== odd\nevent syntax error: \'odd\'\n== failed\n== x\n{"event" : "x"}\n'))
def test_whatever_perf_says_is_a_reason(text: str) -> None:
    value_or_line(lambda: list(refusals(text)))


def test_a_host_without_a_tool_is_refused(there: Path) -> None:
    require([Tool("perf", "linux-perf")], LocalTransport(), "root@box")
    with pytest.raises(UsageError) as refused:
        require([Tool("pcm-numa", "pcm on Debian")], LocalTransport(), "root@box")
    assert str(refused.value) == (
        "root@box has no pcm-numa, which a measure of the experiment needs: install it there (pcm "
        "on Debian), or leave it out of the experiment"
    )


def test_a_section_says_what_counts() -> None:
    asked = Section(rates=(10,), perf=("l1", ("a", "b", "pmu/c=1,d=2/")), pcm=("pcm-memory",))
    assert [collector.name for collector in asked.collectors] == [
        *("perf: l1", "perf: a, b, pmu/c=1,d=2/", "pcm-memory")
    ]
    assert [collector.name for collector in Section(rates=(10,)).collectors] == [
        f"perf: {name}" for name in GROUPS
    ]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"perf": ("cache",)}, "perf: there is no group 'cache'; expected cycles, "),
        ({"perf": ("l1", "l1")}, "one is there twice"),
        ({"perf": ("cycles", ("cycles",))}, "one is there twice"),
        ({"perf": (("a", "a"),)}, "an event is twice in a group"),
        ({"perf": (("topdown-retiring",),)}, "has to begin with slots"),
        ({"perf": ()}, "nothing counts"),
        ({"perf": ((),)}, "at least 1 item"),
        ({"perf": (("cycles; reboot",),)}, "should match pattern"),
        ({"pcm": ("pcm-pcie",)}, "'pcm', 'pcm-memory' or 'pcm-numa'"),
    ],
)
def test_a_section_that_is_none(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=r"\d validation error") as refused:
        Section(rates=(10,), **more)
    assert told in str(refused.value)


class Bed:
    """Forwards 500 of 500 packets while collectors of this machine count."""

    def __init__(self, forwarded: int = 500) -> None:
        self.transport, self.forwarded = LocalTransport(), forwarded

    def offer(self, sending: object) -> SimpleNamespace:
        return SimpleNamespace(tried=500, forwarded=self.forwarded, microseconds=1e6)


def trial(
    folder: RunFolder, asked: Section, *, setting: str = "baseline", forwarded: int = 500
) -> Callable[[], None]:
    """Have a trial measured; what is returned records it."""
    measurement = SimpleNamespace(rate=500, stream=SimpleNamespace(), tester=False)
    attempt = SimpleNamespace(
        asked={Section: asked},
        key=Key(setting, 0, "IPv4", "events", 500),
        measurement=measurement,
        testbed=Bed(forwarded),
        folder=folder,
        reporter=SimpleNamespace(say=lambda text: None),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skblab.sweep.measure.events._sending", lambda asked, measurement: None)
        found: Callable[[], None] = EventsMeasure().measure(attempt)  # type: ignore[arg-type]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "events", searches.plan(), synthetic=True)


def test_a_trial_has_a_window_for_each_collector(there: Path, folder: RunFolder) -> None:
    asked = Section(rates=(500,), perf=("cycles", "llc", ("odd",)), pcm=("pcm",))
    trial(folder, asked)()
    run = load(folder.path)
    [row] = run.trials
    # Nothing is sent for a collector that cannot count.
    assert (row.measure, row.state, row.tried, row.forwarded) == ("events", "good", 1500, 1500)
    rows = run.rows(EventRow)
    [odd] = [one for one in rows if one.collector == "perf: odd"]
    assert (odd.value, odd.counted, odd.why) == (None, 0, "event syntax error: 'odd'")
    assert {one.counted for one in rows} == {0, 500}
    [summary] = of(run)
    [counts] = summary.settings
    cycles = counts.of("perf: cycles", "cycles")
    assert cycles is not None
    # Two CPUs, 500 packets.
    assert cycles.value == 2 * 1000 / 500
    assert counts.ratio("perf: cycles", "instructions", "cycles") == 1.0
    unseen = findings.unseen(run)
    assert "perf: llc: LLC-loads could not be counted (not supported)." in unseen
    assert "perf: odd: odd could not be counted (event syntax error: 'odd')." in unseen


def test_scripts_are_given_what_is_counted(
    there: Path, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    trial(folder, Section(rates=(500,), perf=("cycles",), pcm=("pcm",)))()
    figures = {
        (figure.part, figure.figure): (figure.value, figure.unit)
        for figure in VIEW.figures(load(folder.path))
    }
    assert figures["perf: cycles", "cycles"] == (4.0, "count/packet")
    assert figures["pcm", "L3MISS"] == (39.77e6 / 500, "count/packet")
    assert figures["pcm", "L3HIT"][1] == "1"


def test_what_waits_is_asked_for_beside_the_slots(there: Path, folder: RunFolder) -> None:
    trial(folder, Section(rates=(500,), perf=("topdown",)))()
    run = load(folder.path)
    [summary] = of(run)
    [counts] = summary.settings
    assert {figure.why for figure in counts.figures.values()} == {""}
    assert counts.ratio("perf: topdown", "topdown-be-bound", "slots") == 1.0
    assert "waits for data or units" in " ".join(shown(run).split())


def test_units_of_perf_are_made_ours(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIT", "MiB")
    with collecting(Perf("it", ("uncore_imc/cas_count_read/",)), LocalTransport()) as counted:
        pass
    assert {(one.unit, one.value) for one in counted.result} == {("bytes", 1000 * 2**20)}


def test_a_link_that_says_nothing_makes_no_sum(folder: RunFolder) -> None:
    def link(number: int, value: float | None) -> Event:
        why = "" if value is not None else "N/A"
        return Event(
            collector="pcm",
            scope="link",
            number=number,
            name="dataIn",
            unit="bytes",
            value=value,
            why=why,
        )

    other = Event(collector="pcm-memory", name="Read", unit="bytes/s", value=1.0)
    folder.record(collected(0, link(0, 10.0), link(1, None), other))
    text = shown(load(folder.path))
    assert ["baseline", "–", "–", "–", "–"] in [line_.split() for line_ in text.splitlines()]
    assert "pcm-memory, links" not in text
    assert "pcm: dataIn could not be counted (N/A)." in findings.unseen(load(folder.path))


def test_what_counted_in_some_blocks_is_told(folder: RunFolder) -> None:
    counts = Event(collector="pcm", name="L3MISS", unit="count", value=20.0)
    refused = Event(collector="pcm", name="pcm", why="PMU is busy")
    folder.record(collected(0, counts))
    folder.record(collected(1, refused, packets=0))
    unseen = findings.unseen(load(folder.path))
    assert "pcm: with baseline it counted in 1 of 2 blocks only." in unseen
    # Nothing was sent for it.
    assert not any("generator" in sentence and "less" in sentence for sentence in unseen)


def test_a_trial_in_which_nothing_was_forwarded_is_invalid(there: Path, folder: RunFolder) -> None:
    with pytest.raises(SkblabError, match="of 500 packets none was forwarded"):
        trial(folder, Section(rates=(500,), perf=("cycles",)), forwarded=0)()
    assert [row.state for row in load(folder.path).trials] == ["invalid"]


def shown(run: Run) -> str:
    file = io.StringIO()
    Console(file=file, width=160, color_system=None).print(
        *(table for summary in of(run) for table in tables(summary))
    )
    return file.getvalue()


def test_tables_and_page(there: Path, folder: RunFolder) -> None:
    asked = Section(rates=(500,), perf=("cycles",), pcm=("pcm",))
    for setting in ("baseline", "strict"):
        trial(folder, asked, setting=setting)()
    text = shown(load(folder.path))
    assert "perf, cycles, per packet (IPv4, 500 packets/s)" in text
    assert ["baseline", "4.00", "4.00", "4.00", "4.00", "1.00", "100.0", "%"] in [
        line_.split() for line_ in text.splitlines()
    ]
    # 39.77 million misses and 500 packets.
    assert "79 540.0" in text
    assert "pcm, what waits: top-down, level 1, of all slots" in text
    assert "pcm, links between sockets" in text
    page = build_report(folder.path, None).read_text()
    assert "Events of processor and kernel" in page
    assert "busiest" in page
    said = "with baseline a packet takes 4 cycles and 1.00 instructions per cycle"
    assert any(said in sentence for sentence in findings.sentences(load(folder.path)))


def test_what_was_counted_for_a_part_of_the_time_is_an_estimate(
    there: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNING", "40.00")
    trial(folder, Section(rates=(500,), perf=("cycles",)))()
    run = load(folder.path)
    assert of(run)[0].settings[0].ratio("perf: cycles", "instructions", "cycles") is None
    text = shown(run)
    assert "~4.00" in text
    assert "ratio is made of it" in text


def collected(block: int, *events: Event, packets: int = 10) -> Collected:
    windows = (Window(packets, packets, events),)
    return Collected(
        setting="baseline",
        block=block,
        traffic="IPv4",
        rate=500,
        offered_rate=500.0 if packets else 0.0,
        windows=windows,
    )


def test_a_cpu_that_counted_nothing_makes_no_sum(folder: RunFolder) -> None:
    events = (
        Event(collector="perf: cycles", name="cycles", scope="core", number=0, value=7.0),
        Event(collector="perf: cycles", name="cycles", scope="core", number=1, why="not counted"),
        Event(collector="pcm-memory", name="Read", unit="bytes/s", value=3e6),
    )
    folder.record(collected(0, *events))
    folder.record(collected(1, events[2].model_copy(update={"value": 5e6})))
    run = load(folder.path)
    [counts] = of(run)[0].settings
    cycles, read = counts.of("perf: cycles", "cycles"), counts.of("pcm-memory", "Read")
    assert cycles is not None and cycles.value is None and cycles.why == "not counted"
    # A rate is no sum, and is divided by no packets.
    assert read is not None and (read.value, read.each) == (4e6, False)
    assert "4.0 Mbytes/s" in shown(run)


def test_a_dry_run_says_what_counts(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text(
        'name = "few"\nquestion = "what?"\n[measure.events]\nrates = [100]\nperf = ["software"]\n'
    )
    done = CliRunner().invoke(app, ["sweep", str(file), "--dry-run", "--scripts"])
    assert done.exit_code == 0, done.exception
    assert line(Perf("software", GROUPS["software"])) in done.stdout


def test_an_attempt_is_what_these_tests_take_it_for() -> None:
    # The stand-in above has the parts that a measure uses.
    assert {"asked", "key", "measurement", "testbed", "folder", "reporter"} <= {
        *Attempt.__dataclass_fields__
    }
