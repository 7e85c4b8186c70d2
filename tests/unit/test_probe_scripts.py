# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts as back ends: what they print becomes a document, a ledger, and a verdict."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from test_probe_verify import document as seen_by_pathlat

from skblab.probe import request
from skblab.probe.request import Request
from skblab.probe.scripts import bpftrace, systemtap
from skblab.probe.scripts.figures import Figures, context_of
from skblab.probe.verify import agreement
from skblab.probe.verify.plan import BACKENDS, boots, rounds
from skblab_analysis.base.checked import RefusedError, parse
from skblab_analysis.base.errors import SkblabError, UsageError
from skblab_analysis.formats.ledger import refuse
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.formats.run import Plan
from skblab_analysis.formats.scripts import ScriptDocument, ScriptsDocument, ledger, series
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


SAMPLED: dict[str, Any] = {"merged": 0, "copies": 0}
HOOKED: dict[str, Any] = {"begun": 10, "again": 0, "merged": 0, "freed": 0, "under_way": 0}


def of_both(script: str, names: tuple[str, ...]) -> tuple[ScriptDocument, ScriptDocument]:
    counts = [f"{name}: {value}" for name, value in HOOKED.items()]
    one = bpftrace.read(traced(names, **HOOKED), "")
    other = systemtap.read(tapped(names, 10, *counts, "dropped: 0"), "")
    return (
        one.document("bpftrace", script, "hooks", "6.12"),  # type: ignore[arg-type]
        other.document("stap", script, "hooks", "6.12"),  # type: ignore[arg-type]
    )


def sampled(
    script: str = "receive", names: tuple[str, ...] = LAYERS, count: int = 10, **maps: object
) -> ScriptDocument:
    """What one of bpftrace saw of a kernel's samples."""
    figures = bpftrace.read(traced(names, count, **{**SAMPLED, **maps}), "")
    return figures.document("bpftrace", script, "samples", "6.12")  # type: ignore[arg-type]


def polls(missed: int = 0) -> ScriptDocument:
    """What one of NAPI saw, which is nothing."""
    return Figures(missed=missed).document("bpftrace", "napi", "samples", "6.12")


@pytest.mark.parametrize(("script", "names"), [("receive", LAYERS), ("forward", FORWARD)])
def test_both_tools_say_the_same(script: str, names: tuple[str, ...]) -> None:
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
    said = "WARNING: Number of errors: 1, skipped probes: 2\n"
    assert systemtap.read(tapped(), said).missed == 3


def test_samples_that_are_in_no_layer_are_named() -> None:
    # By end, with flags or without; those that were delivered by flag.
    left_out = {"1,0": 2, "1,1": 1, "3,0": 5}
    document = sampled(left_out=left_out, merged=7, copies=4)
    assert document.left_out == {"dropped": 3, "consumed": 5}
    found = ledger(0, "ns", document)
    assert (found.ended, found.merged, found.copies, found.missing) == (18, 7, 4, 0)
    more = ("merged: 7", "copies: 4", "left_out 1 0: 2", "left_out 1 1: 1", "left_out 3 0: 5")
    lines = tapped(LAYERS, 10, *more)
    other = systemtap.read(lines, "").document("stap", "receive", "samples", "6.12")
    assert other == document.model_copy(update={"backend": "stap"})


@pytest.mark.parametrize(("flags", "cause"), [(1, "negative"), (2, "overflow"), (3, "negative")])
def test_times_that_cannot_be_are_unaccounted_for(flags: int, cause: str) -> None:
    document = sampled(names=(), left_out={f"0,{flags}": 200})
    found = ledger(0, "ns", document)
    assert (found.ended, found.missing, found.unaccounted[cause]) == (200, 200, 200)
    with pytest.raises(RefusedError, match=f"200 packets are unaccounted for \\(200 {cause}\\)"):
        refuse(found, 0.1)
    # Transmitted is how a forwarded one ends, and delivered another end.
    document = sampled("forward", FORWARD, left_out={f"2,{flags}": 2, f"0,{flags}": 1})
    assert document.left_out == {cause: 2, "delivered": 1}


def test_all_documents_are_kept_when_one_is_refused(tmp_path: Path) -> None:
    plan = Plan(experiment="layers", question="?", seed=0, packets=None, again="skblab")
    folder = RunFolder.create(tmp_path, "layers", plan)
    documents = [sampled(left_out={"0,1": 10}), sampled("forward", FORWARD), polls()]
    with pytest.raises(RefusedError, match="10 negative"):
        folder.record_scripts(documents, 0.1)
    names = ["bpftrace-forward-1.json", "bpftrace-napi-2.json", "bpftrace-receive-0.json"]
    assert sorted(path.name for path in folder.logs.iterdir()) == names


def test_polls_that_were_missed_are_in_the_first_ledger(tmp_path: Path) -> None:
    plan = Plan(experiment="layers", question="?", seed=0, packets=None, again="skblab")
    documents = [sampled(), sampled("forward", FORWARD), polls(missed=3)]
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
    with pytest.raises(SkblabError, match="receive by samples did not print copies"):
        bpftrace.read(traced(merged=0), "").document("bpftrace", "receive", "samples", "6.12")
    with pytest.raises(SkblabError, match="other buckets"):
        systemtap.read([line for line in tapped() if not line.startswith("bucket ip")], "")
    with pytest.raises(SkblabError, match="a bucket begins at 65, expected 64"):
        Figures().layer("ip", {65: 1}, 65, 65)


def test_known_packets_of_hooks() -> None:
    receive, forward = of_both("receive", LAYERS)[0], of_both("forward", FORWARD)[0]
    both = ScriptsDocument(scripts=(receive, forward))
    said = list(agreement.complaints(both, True, 10, True, 10, 10))
    assert said == []
    said = list(agreement.complaints(both, True, 11, True, 10, 10))
    assert "receive: socket: 10, expected 11" in said
    said = list(agreement.complaints(both, False, 10, True, 12, 9))
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
        found = list(agreement.complaints(both, True, 10, True, 12, forwarded, refused=2))
        # Here as many were at `done` as at `forward`, and not all at `stack`.
        told = [row for row in found if "whole" in row]
        assert told == wrong
        assert "forward: done: 10, expected 8" in found
        # Of TCP a piece may have been refused that has no path of its own.
        for refused in (2, 3):
            found = list(agreement.complaints(both, False, 10, True, 12, forwarded, 0, refused))
            assert found == [text_of.replace("11", "11 to 13") for text_of in wrong]


def test_back_ends_by_kprobes_are_verified_alone() -> None:
    names = [[row.name for row in some] for some in rounds(BACKENDS)]
    assert names == [
        ["samples", "histograms", "bpftrace samples", "stap samples"],
        ["hooks by fentry", "bpftrace hooks"],
        ["hooks by kprobe"],
        ["stap hooks"],
    ]
    # An interrupt runs no softirq in a guest of theirs, and the others have a guest as it is.
    assert {
        words: [together[0].name for together in some] for words, some in boots(BACKENDS).items()
    } == {(): ["samples", "hooks by fentry"], ("threadirqs",): ["hooks by kprobe", "stap hooks"]}


def of_samples(*more: ScriptDocument, **forward: object) -> ScriptsDocument:
    """Ten packets received, and ten forwarded unless something else is said."""
    made = sampled("forward", **({"names": FORWARD} | forward))  # type: ignore[arg-type]
    return ScriptsDocument(scripts=(sampled(), made, *more))


def test_known_packets_of_samples() -> None:
    assert list(agreement.complaints(of_samples(), True, 10, True, 20, 10)) == []
    said = list(agreement.complaints(of_samples(), True, 11, True, 20, 10))
    assert said == ["receive: 10, expected 11", "forward: 10, expected 11"]
    # What is sent again is one more for IP, and what is cut is not.
    copied = of_samples(copies=2)
    for forwarded, fits in ((7, False), (8, True), (10, True), (11, False)):
        said = list(agreement.complaints(copied, False, 10, True, 20, forwarded))
        assert (said == []) == fits, said
    said = list(agreement.complaints(of_samples(polls(missed=3)), True, 10, True, 20, 10))
    assert said == ["napi: 3 missed"]
    wrong = of_samples(left_out={"2,1": 1})
    assert list(agreement.complaints(wrong, True, 10, True, 21, 11)) == ["forward: 1 negative"]


def test_a_point_that_samples_lack_is_named() -> None:
    lacking = of_samples(names=tuple(name for name in FORWARD if name != "route"))
    said = list(agreement.complaints(lacking, True, 10, True, 20, 10))
    assert said == ["forward: route: 0, expected 10"]


def pathlat_of(scripts: ScriptsDocument) -> PathlatDocument:
    """What pathlat says if it saw what the scripts saw."""
    made = seen_by_pathlat()
    for script, path in zip(scripts.scripts[:2], made["paths"], strict=False):
        assert script.path_time is not None
        leg = script.path_time.model_dump(mode="json", by_alias=True)
        path["ends"][path["usual_end"]] = script.path_time.count
        path["seen"] = dict.fromkeys(("driver", *LAYERS, *FORWARD), script.path_time.count)
        layers = [layer.model_dump(mode="json", by_alias=True) for layer in script.layers]
        path |= {"path_time": leg, "since_entry": leg, "layers": layers, "copies": script.copies}
    return parse(PathlatDocument, json.dumps(made), "it")


def test_the_same_samples_are_the_same() -> None:
    empty = of_samples(names=())
    for scripts in (of_samples(), of_samples(copies=3), empty):
        assert list(agreement.same_samples(scripts, pathlat_of(scripts))) == []
    said = list(agreement.same_samples(of_samples(copies=3), pathlat_of(of_samples())))
    assert said == ["forward: copies: 3, expected 0"]


def test_one_side_alone_is_not_the_same() -> None:
    both, none = of_samples(), of_samples(names=())
    points = ", ".join(FORWARD[:-1])
    said = list(agreement.same_samples(none, pathlat_of(both)))
    assert said == [f"forward: layers none; pathlat has {points}"]
    said = list(agreement.same_samples(both, pathlat_of(none)))
    assert said == [f"forward: layers {points}; pathlat has none"]
    said = list(agreement.same_samples(both, pathlat_of(of_samples(count=9))))
    assert "forward xmit: other times than pathlat's" in said


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
        (
            Request(source="nonsense"),
            "--source nonsense: expected auto, samples, hooks or histograms",
        ),
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
@pytest.mark.parametrize("source", [None, "auto", "samples", "hooks"])
def test_what_every_back_end_knows_is_not(source: str | None, backend: str) -> None:
    wanted = Request(source=source, path="forward", seconds=0.25)
    request.check(wanted, backend, ["bpftrace", "stap"])
