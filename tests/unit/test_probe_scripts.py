# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts as back ends: what they print becomes a document, an account, and a verdict."""

from __future__ import annotations

import json

import pytest

from skblab.errors import SkblabError, UsageError
from skblab.probe import request
from skblab.probe.request import Request
from skblab.probe.scripts import bpftrace, systemtap
from skblab.probe.scripts.figures import Figures, context_of
from skblab.probe.verify import agreement
from skblab_analysis.scripts import ScriptDocument, ScriptsDocument, account, series

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
    return [json.dumps(one) + "\n" for one in said]


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


HOOKED = {"begun": 10, "again": 0, "merged": 0, "freed": 0, "under_way": 0}


def of_both(script: str, names: tuple[str, ...]) -> tuple[ScriptDocument, ScriptDocument]:
    counts = [f"{name}: {value}" for name, value in HOOKED.items()]
    one = bpftrace.read(traced(names, **HOOKED), "")
    other = systemtap.read(tapped(names, 10, *counts, "dropped: 0"), "")
    return (
        one.document("bpftrace", script, "hooks", "6.12"),  # type: ignore[arg-type]
        other.document("stap", script, "hooks", "6.12"),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("script", "names"), [("receive", LAYERS), ("forward", FORWARD)])
def test_both_tools_say_the_same(script: str, names: tuple[str, ...]) -> None:
    one, other = of_both(script, names)
    assert one.model_copy(update={"backend": "stap"}) == other
    assert [layer.to_point for layer in one.layers] == list(names[:-1])
    assert [layer.from_point for layer in one.layers] == ["driver", *names[:-2]]
    assert one.leg is not None and one.leg.count == 10
    assert account(0, "ns", one).missing == 0
    assert [found.kind for found in series(0, "ns", one)] == ["layer"] * (len(names) - 1) + [
        "total"
    ]


def test_an_end_that_nobody_saw_is_unaccounted_for() -> None:
    lost = bpftrace.read(traced(**{**HOOKED, "begun": 13, "freed": 1}), "")
    found = account(0, "ns", lost.document("bpftrace", "receive", "hooks", "6.12"))
    assert found.unaccounted == {"missed": 0, "unbalanced": 2}
    assert found.begun == 13 and found.ended == 11


def test_what_a_tool_had_to_skip_is_counted() -> None:
    lines = [*traced(**HOOKED), json.dumps({"type": "lost_events", "data": {"events": 4}})]
    assert bpftrace.read(lines, "").missed == 4
    said = "WARNING: Number of errors: 1, skipped probes: 2\n"
    assert systemtap.read(tapped(), said).missed == 3


def test_samples_that_are_in_no_layer_are_named() -> None:
    left_out = {"1,0": 2, "0,4": 1, "3,0": 5}
    figures = bpftrace.read(traced(left_out=left_out, merged=7), "")
    document = figures.document("bpftrace", "receive", "samples", "6.12")
    assert document.left_out == {"dropped": 2, "copy": 1, "consumed": 5}
    found = account(0, "ns", document)
    assert (found.ended, found.merged, found.copies, found.missing) == (18, 7, 1, 0)
    lines = tapped(LAYERS, 10, "merged: 7", "left_out 1 0: 2", "left_out 0 4: 1", "left_out 3 0: 5")
    other = systemtap.read(lines, "").document("stap", "receive", "samples", "6.12")
    assert (other.left_out, other.merged) == (document.left_out, 7)


def test_polls_of_several_devices_are_joined_by_context() -> None:
    figure = "count 3, average 100, total 300, shortest 100, longest 100 ns"
    lines = [f"{name} {device} softirq: {figure}" for name in ("delay", "time") for device in "ab"]
    lines += ["bucket delay-softirq 100: 6", "bucket time-softirq 100: 6"]
    lines += ["packets a softirq: 4", "packets b softirq: 5"]
    napi = systemtap.read(lines, "").document("stap", "napi", "samples", "6.12").napi
    assert [(one.name, one.context, one.count, one.work) for one in napi] == [
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


@pytest.mark.parametrize(
    ("wanted", "backend", "word"),
    [
        (Request(port=53), "bpftrace", "--port: the scripts of bpftrace time all packets"),
        (Request(late="250us"), "stap", "--late"),
        (Request(path="send"), "stap", "--path send"),
        (Request(), "perf", "--backend perf: expected bpf, bpftrace, stap"),
    ],
)
def test_what_scripts_cannot_do_is_refused(wanted: Request, backend: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        request.check(wanted, backend, ["bpftrace", "stap"])
    request.check(Request(port=53), request.BPF, [])
