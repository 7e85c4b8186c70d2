# SPDX-License-Identifier: GPL-2.0-or-later
"""What `perf stat -j` prints, by version. Where the files of perf_stat/ are from:

`recorded-VERSION-…` was printed by that version. 6.1.187 is Debian's linux-perf, in a virtual
machine with two CPUs and no hardware counters: hardware events are "not supported". Options besides
`-j`, with EVENTS for `-e cpu-clock,context-switches,page-faults,cycles,instructions`:

    cpus                `-a -A EVENTS -- sleep 0.1`; sockets, cores, nodes, dies: `--per-socket` …
    interval            `-a -I 50 EVENTS -- sleep 0.12`
    runs                `-r 3 -- true`
    no-metric           `-e duration_time,user_time,L1-dcache-loads -- true`
    thread              `--per-thread -p PID EVENTS -- sleep 0.05`, of a task that sleeps
    cgroup              `-a -e cpu-clock,page-faults -G /,/ -- sleep 0.05`, without the comment
    metric-only         `-a --metric-only -I 50 EVENTS -- sleep 0.06`
    metric-only-cpus    `-a -A --metric-only EVENTS -- sleep 0.03`; it is no JSON, and is refused

`made-VERSION-…` was made by hand after the source that prints it: no perf printed it here. Values
are invented, or from the commit messages named.

    6.0-percore             `aggr_printout` of 6.0-rc2 (917bda9ab155): no comma behind `core`
    6.0-metric-only         message of "perf stat: Fix --metric-only --json output", Nov. 2022
    6.1-decimal-comma       `%f` after `setlocale(LC_ALL, "")` of `cmd_stat`, in a German locale
    6.12.118-…              stat-display.c of Debian's Linux 6.12.118
    6.13.0-trailing-comma   message of 967364894e61, which mended it, and `print_metric_json`
    6.17-counters           aa497357c125 "perf stat: Fix uncore aggregation number"
    2026                    stat-print-json.c of a series under test (lkp 3cf36324a9c2)
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutated import examples, json_texts, texts, value_or_line
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats.perfstat import PLACES, Count, parse

FOLDER = Path(__file__).parent / "perf_stat"
TEXTS = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.jsonl"))}
REFUSED = "recorded-6.1.187-metric-only-cpus"
READ = sorted(TEXTS.keys() - {REFUSED})
LINE: dict[str, object] = {
    "interval": 1.5,
    "cpu": "0",
    "counter-value": "16.000000",
    "unit": "msec",
    "event": "cpu-clock",
    "cgroup": "a/b",
    "variance": 0.5,
    "event-runtime": 125985687,
    "pcnt-running": 50.0,
    "metric-value": "126.998483",
    "metric-unit": "/sec",
    "metric-threshold": "good",
}


def line(**changed: object) -> str:
    """A line with some fields of another value, or gone with None."""
    fields = LINE | {key.replace("_", "-"): value for key, value in changed.items()}
    return json.dumps({key: value for key, value in fields.items() if value is not None})


def check(counts: list[Count]) -> None:
    """Every figure is one, in its unit."""
    for count in counts:
        assert bool(count.event) == (count.value is not None or bool(count.why))
        assert count.event or count.metrics
        assert count.value is None or 0 <= count.value < math.inf
        assert count.running is None or 0 <= count.running <= 1
        assert count.interval is None or 0 <= count.interval < math.inf
        assert count.runtime is None or 0 <= count.runtime < 2**64
        assert count.where.keys() <= set(PLACES) and all(count.where.values())
        assert all(value is None or math.isfinite(value) for value, _ in count.metrics)
        hash(count)


@pytest.mark.parametrize("name", READ)
def test_every_version_is_read(name: str) -> None:
    counts = parse(TEXTS[name])
    check(counts)
    assert counts or name == "recorded-6.1.187-metric-only"


def test_counts_by_cpu() -> None:
    counts = parse(TEXTS["recorded-6.1.187-cpus"])
    assert [dict(count.where) for count in counts] == [{"cpu": "0"}, {"cpu": "1"}] * 5
    assert [count.event for count in counts][::2] == [
        *("cpu-clock", "context-switches", "page-faults", "cycles", "instructions"),
    ]
    clock, cycles = counts[0], counts[6]
    assert clock.unit == "msec" and clock.why == "" and clock.interval is None
    assert clock.value is not None and 50 < clock.value < 500
    assert clock.runtime is not None and clock.runtime / 1e6 == pytest.approx(clock.value, rel=0.01)
    assert clock.running == 1 and [unit for _, unit in clock.metrics] == ["CPUs utilized"]
    assert (cycles.value, cycles.why, cycles.runtime) == (None, "not supported", 0)
    assert cycles.running == 1 and cycles.metrics == ()


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("recorded-6.1.187-sockets", {"socket": "S0"}),
        ("recorded-6.1.187-cores", {"core": "S0-D0-C0"}),
        ("recorded-6.1.187-nodes", {"node": "N0"}),
        ("recorded-6.1.187-dies", {"die": "S0-D0"}),
        ("recorded-6.1.187-cgroup", {"cgroup": "/"}),
        ("recorded-6.1.187-thread", {"thread": "sleep-14307"}),
        ("recorded-6.1.187-runs", {}),
        ("made-6.0-percore", {"core": "S0-D0-C0"}),
        ("made-6.12.118-caches", {"cache": "S0-D0-L3-ID0"}),
        ("made-6.17-counters", {"socket": "S0"}),
        ("made-2026", {"core": "S0-D0-C0"}),
    ],
)
def test_where_it_was_counted(name: str, where: dict[str, str]) -> None:
    assert parse(TEXTS[name])[0].where == where


def test_intervals() -> None:
    counts = parse(TEXTS["recorded-6.1.187-interval"])
    moments = sorted({count.interval for count in counts if count.interval is not None})
    assert len(moments) == 3 and len(counts) == 15
    assert moments[0] == pytest.approx(0.05, abs=0.01)


def test_why_there_is_no_value() -> None:
    thread = parse(TEXTS["recorded-6.1.187-thread"])
    assert [count.why for count in thread] == ["not counted"] * 3 + ["not supported"] * 2
    assert {count.value for count in thread} == {None}
    assert [count.why for count in parse(TEXTS["made-6.12.118-caches"])] == ["", "", "not counted"]


def test_an_event_without_a_metric_has_none() -> None:
    counts = parse(TEXTS["recorded-6.1.187-no-metric"])
    assert [count.metrics for count in counts] == [(), (), ()]
    assert (counts[0].event, counts[0].unit) == ("duration_time", "ns")


def test_metrics_on_lines_of_their_own() -> None:
    counts = parse(TEXTS["made-6.12.118-metricgroup"])
    assert [(count.event, count.value, count.metrics) for count in counts] == [
        ("IDQ.MITE_UOPS", 85715898, ()),
        ("", None, ((22.036686, "%  tma_backend_bound"),)),
        ("", None, ((None, "%  tma_retiring"),)),
    ]
    alone = parse(TEXTS["made-2026"])[2]
    assert (alone.event, alone.where, alone.running) == ("", {"cpu": "3"}, 1)
    assert alone.metrics == ((1.62833, "insn_per_cycle"),)


def test_lines_of_metric_only() -> None:
    [count] = parse(TEXTS["made-6.12.118-metric-only"])
    assert count.metrics == (
        *((4.166, "GHz"), (0.73, "insn per cycle"), (2.96, "branch-misses of all branches")),
    )
    assert (count.where, count.interval, count.event) == ({"socket": "S0"}, 1.000512345, "")
    assert parse(TEXTS["made-2026"])[-1].metrics == (
        *((33.6, "%  tma_retiring"), (None, "insn_per_cycle")),
    )
    # Up to 6.1 the units stand on another line.
    assert [count.metrics for count in parse(TEXTS["made-6.0-metric-only"])] == [
        *(((3.861, ""),), ((0.79, ""),), ((3.04, ""),)),
    ]
    assert parse(TEXTS["recorded-6.1.187-metric-only"]) == []


def test_a_decimal_comma() -> None:
    clock, cycles, other = parse(TEXTS["made-6.1-decimal-comma"])
    assert (clock.value, clock.running, clock.runtime) == (125.985757, 1, 125986619)
    assert clock.metrics == ((1.00021, "CPUs utilized"),)
    assert (cycles.value, cycles.running) == (1419380, 0.11)
    assert cycles.event == "cpu/event=0x3c,umask=0x1/"
    assert other.metrics == ()


def test_what_is_mended_is_no_text() -> None:
    name = 'a : 1,5, : nan,""'
    printed = line(event="EVENT").replace("50.0", "50,0").replace("EVENT", name[:-2])
    assert parse(printed)[0].event == name[:-2]
    with pytest.raises(SkblabError, match="line 1 "):
        parse(line(event="EVENT").replace("EVENT", 'a"b'))


def test_a_comma_behind_the_last_field() -> None:
    first, second = parse(TEXTS["made-6.13.0-trailing-comma"])
    assert (first.value, first.metrics) == (3112, ())
    assert second.metrics == ((1.009559, "of all branches"),)


def test_a_number_that_is_none() -> None:
    assert parse(TEXTS["made-6.0-percore"])[1].metrics == ((None, "GHz"),)


def test_comments_and_blank_lines() -> None:
    printed = f"# started on Sun Nov 29 06:56:06 2026\n\n{line()}\r\n  \n"
    assert parse(printed) == parse(line()) != []
    assert parse("") == []


def test_order_and_other_keys_do_not_matter() -> None:
    turned = json.dumps(dict(reversed(LINE.items())) | {"new": {"a": [1]}, "newer": "5"})
    assert parse(turned) == parse(line())


def test_numbers_may_be_texts() -> None:
    texts_of_all = line(
        interval="1.5", counter_value=16, event_runtime="125985687", pcnt_running="50.00", cpu=0
    )
    assert parse(texts_of_all) == parse(line())


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("Performance counter stats", "'Performance counter stats'"),
        ("[1]", "no object"),
        ("1", "no object"),
        ('{"other" : "words"}', "neither an event nor a metric"),
        ('{"other" : 5}', "neither an event nor a metric"),
        (line(event=None), "`event`"),
        (line(event=" "), "`event`"),
        (line(counter_value=None), "`counter-value` is None"),
        (line(counter_value="<lost>"), "`counter-value` is '<lost>', not a number of 0 or more"),
        (line(counter_value="1,000,000"), "`counter-value`"),
        (line(counter_value="nan"), "`counter-value`"),
        (line(counter_value=-1), "`counter-value`"),
        (line(counter_value=True), "`counter-value`"),
        (line(counter_value="9" * 5000), "`counter-value`"),
        (line(pcnt_running=100.5), "`pcnt-running` is 100.5, not a number of 0 to 100"),
        (line(event_runtime=-5), "expected a whole number"),
        (line(metric_value="much"), "`metric-value`"),
        (line(metric_unit=5), "`metric-unit`"),
        (line(cpu=[0]), "`cpu`"),
        (line()[:-1] + ', "event" : "other"}', "a key is there twice"),
        (line()[:40], "line 1 "),
        (f"{line()} x", "line 1 "),
        ('{"a":' * 20_000, "recursion"),
        (TEXTS[REFUSED], "line 2 "),
    ],
)
def test_what_is_no_such_line_is_said(printed: str, said: str) -> None:
    with pytest.raises(SkblabError) as caught:
        parse(printed)
    assert said in str(caught.value) and "expected an object of `perf stat -j`" in str(caught.value)


def test_the_line_is_named() -> None:
    with pytest.raises(SkblabError, match="line 3 of what perf stat printed, 'x',"):
        parse(f"{line()}\n\nx\n")


def read(printed: str) -> None:
    counts = parse(printed)
    check(counts)


@examples
@given(
    texts(*TEXTS.values())
    | json_texts(LINE, {"interval": 1.5, "socket": "S0", "GHz": "1.5", "insn per cycle": "none"})
    | st.text()
)
def test_whatever_is_printed_gives_counts_or_one_line(printed: str) -> None:
    value_or_line(lambda: read(printed))


@pytest.mark.parametrize(
    "printed",
    [
        *('"' + '\\"' * 100_000, "{" + '"' * 100_000, "{}" * 100_000, "," * 100_000),
        *(": 1" * 100_000, ": " + "1" * 200_000 + ",", ", " * 100_000, "{\n" * 2),
        *('{"a" : ' + "9" * 200_000 + "}", "{" + " " * 200_000, "[" * 200_000),
    ],
)
def test_long_lines_take_no_time(printed: str) -> None:
    value_or_line(lambda: read(printed))
