# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts as back ends: what they print becomes a document, a ledger, and a verdict."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from skblab.lab import paths
from skblab.lab.reporter import Reporter
from skblab.machine.transport.base import Done
from skblab.probe import request
from skblab.probe.request import Request
from skblab.probe.scripts import bpftrace, session, systemtap
from skblab.probe.scripts.figures import Figures, context_of
from skblab.probe.targets import Target
from skblab.probe.verify import agreement
from skblab.probe.verify.plan import BACKENDS, boots, rounds
from skblab_analysis.base.checked import RefusedError, parse
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.ledger import refuse
from skblab_analysis.formats.run import Plan
from skblab_analysis.formats.scripts import (
    ScriptDocument,
    ScriptName,
    ScriptsDocument,
    Source,
    ledger,
    series,
)
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder

# Options of pathlat alone that are numbers.
NUMBERS = ("family", "port", "run", "late_max", "room")
LAYERS = ("stack", "ip", "route", "local", "transport", "socket", "wake", "user", "total")
FORWARD = ("stack", "ip", "route", "forward", "output", "queue", "xmit", "done", "total")


def traced(names: tuple[str, ...] = LAYERS, count: int = 10, **maps: object) -> list[str]:
    """What bpftrace prints of `count` packets that took 100 ns in each layer."""
    said = [{"type": "attached_probes", "data": {"probes": 38}}]
    for name in names:
        bucket = [{"min": 100, "max": 103, "count": count}]
        stats = {"count": count, "average": 100, "total": 100 * count}
        said.append({"type": "hist", "data": {f"@{name}_ns": bucket}})
        said.append({"type": "stats", "data": {f"@{name}": stats}})
        said.append({"type": "map", "data": {f"@{name}_max": 100}})
    said += [{"type": "map", "data": {f"@{name}": value}} for name, value in maps.items()]
    return [json.dumps(row) + "\n" for row in said]


def tapped(names: tuple[str, ...] = LAYERS, count: int = 10, *more: str) -> list[str]:
    """What SystemTap prints of the same."""
    lines = ["ready"]
    for name in names:
        lines.append(
            f"{name}: count {count}, average 100, total {100 * count}, shortest 100, longest 100 ns"
        )
        lines.append("value |------------------------------------------------ count")
        lines.append(f"   64 |@@@@@@@@@@@@@@                                  {count}")
    lines += [f"bucket {name} 100: {count}" for name in names]
    return [f"{line}\n" for line in [*lines, *more]]


HOOKED: dict[str, Any] = {"begun": 10, "again": 0, "merged": 0, "freed": 0, "under_way": 0}


def of_both(script: ScriptName, names: tuple[str, ...]) -> tuple[ScriptDocument, ScriptDocument]:
    counts = [f"{name}: {value}" for name, value in HOOKED.items()]
    one = bpftrace.read(traced(names, **HOOKED), "")
    other = systemtap.read(tapped(names, 10, *counts, "dropped: 0"), "")
    return (
        one.document("bpftrace", script, "hooks", "6.12"),
        other.document("stap", script, "hooks", "6.12"),
    )


def hooked(
    script: ScriptName = "receive", names: tuple[str, ...] = LAYERS, **counts: int
) -> ScriptDocument:
    """What one of bpftrace saw of ten packets."""
    figures = bpftrace.read(traced(names, **{**HOOKED, **counts}), "")
    return figures.document("bpftrace", script, "hooks", "6.12")


def stored(left_out: dict[str, int], script: str = "receive", **fields: object) -> ScriptDocument:
    """What an earlier version wrote of a kernel's samples: ten packets that came to the end."""
    times = {"from": "driver", "to": "user", "count": 10, "sum": 1000, "min": 100, "max": 100}
    made = {
        **{"schema": "skblab.script/2", "backend": "bpftrace", "script": script},
        **{"source": "samples", "kernel": "6.12", "sub_buckets": 16, "missed": 0},
        **{"left_out": left_out, "layers": [], "path_time": times | {"buckets": [[57, 10]]}},
    }
    return parse(ScriptDocument, json.dumps(made | fields), "an earlier run's document")


def polls(missed: int = 0) -> ScriptDocument:
    """What one of NAPI saw, which is nothing."""
    return Figures(missed=missed).document("bpftrace", "napi", "samples", "6.12")


@pytest.mark.parametrize(("script", "names"), [("receive", LAYERS), ("forward", FORWARD)])
def test_both_tools_say_the_same(script: ScriptName, names: tuple[str, ...]) -> None:
    one, other = of_both(script, names)
    assert one.model_copy(update={"backend": "stap"}) == other
    assert [layer.to_point for layer in one.layers] == list(names[:-1])
    assert [layer.from_point for layer in one.layers] == ["driver", *names[:-2]]
    assert one.path_time is not None and one.path_time.count == 10
    assert ledger(0, "ns", one).missing == 0
    assert [found.kind for found in series(0, "ns", one)] == ["layer"] * (len(names) - 1) + ["path"]


def test_polls_that_are_not_in_all_maps_are_missed() -> None:
    keys = {"r0, python3": 2, "r1, ksoftirqd/1": 1}
    said = traced(
        (),
        poll_ns={key: [{"min": 100, "max": 103, "count": count}] for key, count in keys.items()},
        poll={key: {"count": n, "average": 100, "total": 100 * n} for key, n in keys.items()},
        poll_max={"r1, ksoftirqd/1": 100},
        work=keys,
    )
    found = bpftrace.read(said, "")
    assert found.missed == 2
    [(key, (times, work))] = found.polls.items()
    assert (key, times.count, work) == (("time", "ksoftirqd"), 1, 1)


def test_a_time_less_than_zero_is_missed() -> None:
    rows = [{"max": -1, "count": 3}, {"min": 100, "max": 103, "count": 1}]
    good = [{"min": 100, "max": 103, "count": 1}]
    keys = {"r0, ksoftirqd/1": rows, "r0, python3": good}
    said = traced(
        (),
        poll={key: {"count": 1, "average": 100, "total": 100} for key in keys},
        # What bpftrace makes of -1.
        poll_max={"r0, ksoftirqd/1": 2**64 - 1, "r0, python3": 100},
        work=dict.fromkeys(keys, 1),
    )
    said.append(json.dumps({"type": "hist", "data": {"@poll_ns": keys, "@wake_ns": rows}}))
    found = bpftrace.read(said, "")
    assert found.missed == 8
    assert found.layers == {}
    assert list(found.polls) == [("time", "softirq")]


def test_an_end_that_nobody_saw_is_unaccounted_for() -> None:
    lost = bpftrace.read(traced(**{**HOOKED, "begun": 13, "freed": 1}), "")
    found = ledger(0, "ns", lost.document("bpftrace", "receive", "hooks", "6.12"))
    assert found.unaccounted == {"missed": 0, "unbalanced": 2}
    assert found.begun == 13 and found.ended == 11


def test_what_a_tool_had_to_skip_is_counted() -> None:
    lines = [*traced(**HOOKED), json.dumps({"type": "lost_events", "data": {"events": 4}})]
    assert bpftrace.read(lines, "").missed == 4
    # What the kernel says of each program, from /proc/PID/fdinfo/.
    misses = "recursion_misses:\t0\nrecursion_misses:\t3\nrecursion_misses:\t15\n"
    assert bpftrace.read(lines, misses).missed == 22
    said = "WARNING: Number of errors: 1, skipped probes: 2\n"
    assert systemtap.read(tapped(), said).missed == 3


def test_what_earlier_versions_left_out_of_samples_is_read() -> None:
    document = stored({"dropped": 3, "consumed": 5}, merged=7, copies=4)
    found = ledger(0, "ns", document)
    assert (found.ended, found.merged, found.copies, found.missing) == (18, 7, 4, 0)
    assert (found.source, found.begun) == ("samples", None)
    assert [one.kind for one in series(0, "ns", document)] == ["path"]


@pytest.mark.parametrize("cause", ["negative", "overflow"])
def test_times_of_earlier_versions_that_cannot_be_are_unaccounted_for(cause: str) -> None:
    found = ledger(0, "ns", stored({cause: 200}))
    assert (found.ended, found.missing, found.unaccounted[cause]) == (210, 200, 200)
    with pytest.raises(RefusedError, match=f"200 packets are unaccounted for \\(200 {cause}\\)"):
        refuse(found, 0.1)


def test_all_documents_are_kept_when_one_is_refused(tmp_path: Path) -> None:
    plan = Plan(experiment="layers", question="?", seed=0, packets=None, again="skblab")
    folder = RunFolder.create(tmp_path, "layers", plan)
    documents = [hooked(begun=20), hooked("forward", FORWARD), polls()]
    with pytest.raises(RefusedError, match="10 unbalanced"):
        folder.record_scripts(documents, 0.1)
    names = ["bpftrace-forward-1.json", "bpftrace-napi-2.json", "bpftrace-receive-0.json"]
    assert sorted(path.name for path in folder.logs.iterdir()) == names


def test_polls_that_were_missed_are_in_the_first_ledger(tmp_path: Path) -> None:
    plan = Plan(experiment="layers", question="?", seed=0, packets=None, again="skblab")
    documents = [hooked(), hooked("forward", FORWARD), polls(missed=3)]
    folder = RunFolder.create(tmp_path, "layers", plan)
    folder.record_scripts(documents, 100)
    first, second = load(folder.path).ledgers()
    assert first.unaccounted["polls_missed"] == first.missing == 3
    assert "polls_missed" not in second.unaccounted
    with pytest.raises(RefusedError, match="3 polls_missed"):
        RunFolder.create(tmp_path, "layers", plan).record_scripts(documents, 0.1)


def test_polls_of_several_devices_are_joined_by_context() -> None:
    figure = "count 3, average 100, total 300, shortest 100, longest 100 ns"
    lines = [f"{name} {device} softirq: {figure}" for name in ("delay", "time") for device in "ab"]
    lines += ["bucket delay-softirq 100: 6", "bucket time-softirq 100: 6"]
    lines += ["packets a softirq: 4", "packets b softirq: 5"]
    napi = systemtap.read(lines, "").document("stap", "napi", "samples", "6.12").napi
    assert [(times.name, times.context, times.count, times.work) for times in napi] == [
        ("delay", "softirq", 6, None),
        ("time", "softirq", 6, 9),
    ]


@pytest.mark.parametrize(
    ("who", "context"),
    [
        ("softirq", "softirq"),
        ("thread", "kthread"),
        ("napi/r0-8", "kthread"),
        ("ksoftirqd/1", "ksoftirqd"),
        ("skblab-traffic", "softirq"),
        (" busy_poll", "busy_poll"),
    ],
)
def test_who_polled(who: str, context: str) -> None:
    assert context_of(who) == context


def test_what_is_no_output_of_the_tool_is_refused() -> None:
    with pytest.raises(SkblabError, match="expected JSON"):
        bpftrace.read(["Attaching 38 probes...\n"], "")
    with pytest.raises(SkblabError, match="did not print begun"):
        Figures().document("bpftrace", "receive", "hooks", "6.12")
    with pytest.raises(SkblabError, match="receive did not print begun, again, freed, under_way"):
        bpftrace.read(traced(merged=0), "").document("bpftrace", "receive", "hooks", "6.12")
    with pytest.raises(SkblabError, match="other buckets"):
        systemtap.read([line for line in tapped() if not line.startswith("bucket ip")], "")
    with pytest.raises(SkblabError, match="a bucket begins at 65, expected 64"):
        Figures().layer("ip", {65: 1}, 65, 65)


def test_known_packets_of_hooks() -> None:
    receive, forward = of_both("receive", LAYERS)[0], of_both("forward", FORWARD)[0]
    both = ScriptsDocument(scripts=(receive, forward))
    said = list(agreement.complaints(both, True, 10, 10, 10))
    assert said == []
    said = list(agreement.complaints(both, True, 11, 10, 10))
    assert "receive: socket: 10, expected 11" in said
    said = list(agreement.complaints(both, False, 10, 12, 9))
    assert "receive: begun: 10, expected 12" in said
    assert "forward: whole paths: 10, expected 9" in said


def test_what_a_device_had_no_room_for_was_forwarded_and_not_transmitted() -> None:
    """Of 12 forwarded packets 2 were not transmitted; a thirteenth would be missing."""
    for forwarded, wrong in ((12, []), (13, ["forward: whole paths: 10, expected 11"])):
        lines = traced(FORWARD, dropped={"2": 2}, **{**HOOKED, "begun": 12})
        forward = bpftrace.read(lines, "").document("bpftrace", "forward", "hooks", "6.12")
        receive = bpftrace.read(traced(**{**HOOKED, "begun": 12, "freed": 2}), "")
        scripts = (receive.document("bpftrace", "receive", "hooks", "6.12"), forward)
        both = ScriptsDocument(scripts=scripts)
        found = list(agreement.complaints(both, True, 10, 12, forwarded, refused=2))
        # Here as many were at `done` as at `forward`, and not all at `stack`.
        told = [row for row in found if "whole" in row]
        assert told == wrong
        assert "forward: done: 10, expected 8" in found
        # Of TCP a piece may have been refused that has no path of its own.
        for refused in (2, 3):
            found = list(agreement.complaints(both, False, 10, 12, forwarded, refused))
            assert found == [text_of.replace("11", "11 to 13") for text_of in wrong]


def test_back_ends_by_kprobes_are_verified_alone() -> None:
    names = [[row.name for row in some] for some in rounds(BACKENDS)]
    assert names == [
        ["histograms"],
        ["hooks by fentry", "bpftrace hooks"],
        ["hooks by kprobe"],
        ["stap hooks"],
    ]
    # An interrupt runs no softirq in a guest of theirs, and the others have a guest as it is.
    assert {
        words: [together[0].name for together in some] for words, some in boots(BACKENDS).items()
    } == {(): ["histograms", "hooks by fentry"], ("threadirqs",): ["hooks by kprobe", "stap hooks"]}


def test_polls_that_a_script_missed_are_named() -> None:
    """A kernel of ours has samples of polls, whatever the times of packets come from."""
    some = (hooked(), hooked("forward", FORWARD), polls(missed=3))
    said = list(agreement.complaints(ScriptsDocument(scripts=some), True, 10, 10, 10))
    assert said == ["napi: 3 missed"]


class Kernel:
    """A target whose kernel has the tracepoint of NAPI polls, or has not."""

    def __init__(self, symbols: str) -> None:
        self.symbols = symbols
        self.asked = 0

    def script(self, text: str) -> Done:
        self.asked += 1
        # As the target's own shell would, but on symbols that are not this machine's.
        here = text.replace("/proc/kallsyms", "/dev/stdin")
        done = subprocess.run(["sh", "-c", here], input=self.symbols, text=True, check=False)
        return Done(done.returncode, "", "")


OURS = "0000000000000000 T __traceiter_napi_poll\n0000000000000000 T __traceiter_napi_poll_sample\n"
OTHER = "0000000000000000 T __traceiter_napi_poll\n0000000000000000 t napi_poll_sample_reg\n"


@pytest.mark.parametrize(
    ("symbols", "wanted", "polled"),
    [
        (OURS, "auto", "samples"),
        (OURS, "hooks", "hooks"),
        (OTHER, "auto", "hooks"),
        (OTHER, "hooks", "hooks"),
    ],
)
def test_polls_are_sampled_where_the_kernel_can(symbols: str, wanted: str, polled: Source) -> None:
    machine = Kernel(symbols)
    target = Target("router", cast("Any", machine), "pathlat", "6.12")
    assert session.polls_from(target, wanted) == polled
    assert machine.asked == (wanted == "auto")


def test_packets_are_hooked_on_every_kernel() -> None:
    packets = [("receive", "hooks", "receive-hooks"), ("forward", "hooks", "forward-hooks")]
    assert session.names(None, "samples") == [*packets, ("napi", "samples", "napi")]
    assert session.names(None, "hooks") == [*packets, ("napi", "hooks", "napi-hooks")]
    assert session.names("forward", "samples") == [packets[1], ("napi", "samples", "napi")]


class Loading:
    """A machine where scripts start, and the first is ready when it is asked a second time."""

    def __init__(self, *, folder: bool) -> None:
        self.folder = folder
        self.did: list[str] = []

    def script(self, text: str) -> Done:
        if text == systemtap.HAS_FOLDER:
            self.did.append("looked")
            return Done(int(not self.folder), "", "")
        return Done(0, "", "")

    def run(self, argv: list[str]) -> Done:
        return Done(0, "", "")

    def put(self, file: Path, place: str) -> None:
        pass

    def start(self, argv: list[str]) -> Loading:
        if session.GUARD in argv:
            self.did.append("started")
        return self

    def running(self) -> bool:
        return True

    def take_lines(self) -> list[str]:
        if not self.did:
            return ["/tmp/skblab.x"]
        if "ready" in self.did:
            return [systemtap.READY, bpftrace.READY]
        self.did.append("ready" if "asked" in self.did else "asked")
        return []

    def end_input(self) -> None:
        pass

    def wait(self, seconds: float) -> Done:
        return Done(0, "", "")


@pytest.mark.parametrize(
    ("tool", "folder", "did"),
    [
        ("stap", False, ["started", "looked", "asked", "ready", "started", "started"]),
        ("stap", True, ["started", "looked", "started", "started", "asked", "ready"]),
        ("bpftrace", False, ["started", "started", "started", "asked", "ready"]),
    ],
)
def test_the_first_module_of_systemtap_is_loaded_alone(
    tool: str, folder: bool, did: list[str]
) -> None:
    """Two that find no /proc/systemtap both make it, and the kernel warns."""
    machine = Loading(folder=folder)
    target = Target("router", cast("Any", machine), "pathlat", "6.12")
    with session.attached(tool, target, None, "auto", cast("Any", None), Reporter()):
        pass
    assert machine.did == did


@pytest.mark.parametrize(
    ("tool", "end"), [(bpftrace, "bt"), (systemtap, "stp")], ids=["bpftrace", "stap"]
)
@pytest.mark.parametrize("polled", ["samples", "hooks"])
def test_the_scripts_are_there(tool: ModuleType, end: str, polled: Source) -> None:
    folder = paths.tree() / tool.FOLDER
    assert all((folder / f"{full}.{end}").is_file() for _, _, full in session.names(None, polled))


@pytest.mark.parametrize(
    ("wanted", "backend", "word"),
    [
        (Request(port=53), "bpftrace", "--port: the scripts of bpftrace time all packets"),
        (Request(late="250us"), "stap", "--late"),
        (Request(path="send"), "stap", "--path send"),
        # 0 was asked for, too.
        *(
            (Request(**dict[str, Any]({name: 0})), "stap", f"--{name.replace('_', '-')}: ")
            for name in NUMBERS
        ),
        (Request(), "perf", "--backend perf: expected bpf, bpftrace, stap"),
    ],
)
def test_what_scripts_cannot_do_is_refused(wanted: Request, backend: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        request.check(wanted, backend, ["bpftrace", "stap"])
    request.check(Request(port=53), request.BPF, [])


@pytest.mark.parametrize("backend", ["bpf", "bpftrace", "stap"])
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Request(path="foo"), "--path foo: expected receive, forward or send"),
        (Request(source="nonsense"), "--source nonsense: expected auto, histograms or hooks"),
        (Request(source="samples"), "--source samples: expected auto, histograms or hooks"),
        *(
            (Request(seconds=seconds), f"--seconds {text}: expected a number above 0")
            for seconds, text in (
                (-5, "-5"),
                (0, "0"),
                (math.nan, "nan"),
                (math.inf, "inf"),
                (2e9, "2e.09"),
            )
        ),
    ],
)
def test_what_no_back_end_knows_is_refused(wanted: Request, words: str, backend: str) -> None:
    with pytest.raises(UsageError, match=words):
        request.check(wanted, backend, ["bpftrace", "stap"])


@pytest.mark.parametrize("backend", ["bpf", "bpftrace", "stap"])
@pytest.mark.parametrize("source", [None, "auto", "hooks"])
def test_what_every_back_end_knows_is_not(source: str | None, backend: str) -> None:
    wanted = Request(source=source, path="forward", seconds=0.25)
    request.check(wanted, backend, ["bpftrace", "stap"])


def test_the_guard_says_what_the_kernel_knows_and_ends_the_script(tmp_path: Path) -> None:
    """A script that is asked to end has been looked at before, and whatever it says is taken."""
    grep = tmp_path / "grep"
    grep.write_text('#!/bin/sh\n[ "$1 $2" = "-hs ^recursion_misses:" ] && echo "looked at $3"\n')
    grep.chmod(0o755)
    # A shell cannot trap what was ignored when it started, as in the background of another one.
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        # It may be asked to end as soon as this is read.
        "try:\n    print(os.getpid(), flush=True)\n    time.sleep(20)\n"
        "except KeyboardInterrupt:\n    print('ended')\n"
    )
    with subprocess.Popen(
        ["sh", "-c", session.GUARD, "sh", sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    ) as running:
        assert running.stdout is not None
        process = int(running.stdout.readline())
        said, errors = running.communicate(timeout=20)
    assert (running.returncode, said) == (0, "ended\n")
    assert errors.startswith(f"looked at /proc/{process}/fdinfo/")
