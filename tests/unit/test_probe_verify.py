# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab probe verify` complains of, from counts made up."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console
from synthetic_run import histograms

from retries import verified_at_once
from skblab.lab.guest.console import Console as Kernel
from skblab.lab.kernel import names
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport
from skblab.probe.loads import Load, Sent
from skblab.probe.request import Request
from skblab.probe.targets import Target
from skblab.probe.verify import counts
from skblab.probe.verify.counts import Counters, Verdict, complaints
from skblab.probe.verify.plan import BACKENDS, Backend, Case, cases, cases_of, kernels, rounds
from skblab.probe.verify.tables import counts_table
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import SkblabError, SkblabWarning, UsageError
from skblab_analysis.formats.pathlat import PathlatDocument

POINTS = {
    "receive": ["driver", "stack", "ip", "route", "local", "transport", "socket", "wake", "user"],
    "forward": ["driver", "stack", "ip", "route", "forward", "output", "queue", "dequeue", "xmit"],
    "send": ["send", "transport"],
}
USUAL = {"receive": "delivered", "forward": "transmitted", "send": "transmitted"}


HOOKED = {backend.name for backend in BACKENDS if not backend.patched}


def path(name: str, count: int, **ends: int) -> dict[str, Any]:
    empty = {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}
    whole = empty | {"from": POINTS[name][0], "to": POINTS[name][-1]}
    if count:
        whole |= {"count": count, "sum": 10 * count, "min": 10, "max": 10, "buckets": [[10, count]]}
    return {
        "path": name,
        "usual_end": USUAL[name],
        "ends": {"delivered": 0, "dropped": 0, "transmitted": 0, "consumed": 0}
        | {USUAL[name]: count}
        | ends,
        "seen": {point: 0 if point == "dequeue" else count for point in POINTS[name]},
        "seen_dropped": {},
        "drop_reasons": {},
        "negative": 0,
        "overflow": 0,
        "reentered": 0,
        "layers": [],
        "path_time": whole,
        "since_entry": whole,
    }


def document(receive: int = 100, forward: int = 0, **more: object) -> dict[str, Any]:
    return {
        "schema": "skblab.pathlat/3",
        "kernel": "6.12",
        "clock_unit": "ns",
        "sub_buckets": 16,
        "samples": {"filtered": 0, "unknown": 0, "missed": 0},
        "merged": 0,
        "paths": [path("receive", receive), path("forward", forward), path("send", 0)],
    } | more


def said(
    made: dict[str, Any],
    load: str = "udp",
    received: int = 100,
    forwarded: int = 0,
) -> list[str]:
    return complaints(
        Case(Load.parse(load), threaded=False),
        100,
        Sent(100, 100),
        Counters(received, forwarded),
        parse(PathlatDocument, json.dumps(made), "it"),
    )


def test_what_agrees_is_not_complained_of() -> None:
    assert said(document()) == []
    assert said(document(100, 100), "udp-forward", 200, 100) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (document(99), "paths delivered: 99, expected 100"),
        (document(merged=1), "paths of packets that devices received: 101, expected 100"),
        (document(100, 1), "paths forwarded: 1, expected 0"),
        (document(samples={"filtered": 0, "unknown": 0, "missed": 2}), "missed: 2, expected 0"),
    ],
)
def test_what_does_not_is(made: dict[str, Any], words: str) -> None:
    assert words in said(made)


def test_a_point_that_was_missed_is_named() -> None:
    made = document()
    made["paths"][0]["seen"]["ip"] = 98
    assert said(made) == ["receive: 98 of 100 were seen at ip"]


def counted(**counts: int) -> dict[str, Any]:
    """What the kernel's histograms tell of 100 packets that were forwarded and then received."""
    made = histograms(100, **{"entered": 200, "sent": 100} | counts)
    made["in"]["seen"] = dict.fromkeys(made["in"]["seen"], 200)
    receive, forward, _ = made["paths"]
    whole = receive["path_time"]
    forward |= {"path_time": whole, "since_entry": whole, "layers": []}
    forward["ends"] = forward["ends"] | {"transmitted": 100}
    points = ("route", "forward", "output", "queue", "xmit", "done")
    forward["seen"] = dict.fromkeys(points, 100)
    return made


def test_passes_that_agree_are_not_complained_of() -> None:
    assert said(counted(), "udp-forward", 200, 100) == []


@pytest.mark.parametrize(
    ("path", "point", "words"),
    [
        ("in", "driver", "packets at driver: 199, expected 200"),
        ("in", "stack", "in: stack: 199, expected 200"),
        ("in", "route", "in: route: 199, expected 200 to 200"),
        ("receive", "wake", "receive: wake: 99, expected 100"),
        ("send", "queue", "send: queue: 99, expected 100"),
        ("forward", "output", "forward: output: 99, expected 100"),
        ("forward", "forward", "packets forwarded: 99, expected 100"),
        ("forward", "xmit", "packets at xmit: 199, expected 200"),
    ],
)
def test_passes_that_were_missed_are(path: str, point: str, words: str) -> None:
    made = counted()
    paths = {timed["path"]: timed for timed in made["paths"]} | {"in": made["in"]}
    paths[path]["seen"][point] -= 1
    assert words in said(made, "udp-forward", 200, 100)


def test_what_gro_made_one_is_not_missed() -> None:
    made = counted()
    for path in made["paths"][:2]:
        whole = path["path_time"] | {"count": 5, "buckets": [[0, 5]], "edges": [[9, 9]]}
        whole |= {"sum": 45, "min": 9, "max": 9}
        path |= {"path_time": whole, "since_entry": whole}
        path["ends"] = path["ends"] | {path["usual_end"]: 5}
    made["paths"][1]["seen"]["xmit"] = 5
    words = "paths delivered: 5, expected at least 69, or merged ones"
    assert words in said(made, "tcp-forward", 200, 100)
    made["in"]["seen"]["stack"] = 100
    assert said(made, "tcp-forward", 200, 100) == []


@pytest.mark.parametrize(
    ("path", "point", "words"),
    [
        (0, "transport", "receive: transport: 99, expected 100"),
        (0, "socket", "receive: socket: 99, expected 100 or more"),
        (0, "wake", "receive: wake: 99, expected 100"),
        (1, "output", "forward: output: 99, expected 100"),
        (1, "queue", "forward: queue: 99, expected 100"),
    ],
)
def test_a_connections_packets_are_the_same_until_some_may_be_dropped(
    path: int, point: str, words: str
) -> None:
    for load in ("tcp-forward", "sctp6-forward"):
        made = counted()
        made["paths"][path]["seen"][point] -= 1
        assert said(made, load, 200, 100) == [words]


def test_what_no_socket_sent_is_complained_of() -> None:
    assert "sent by a socket: 99, expected 100" in said(counted(sent=99), "udp-forward", 200, 100)


def test_packets_of_an_earlier_switching_are_complained_of() -> None:
    assert said(counted(stale=2), "udp-forward", 200, 100) == ["stale: 2, expected 0"]


@pytest.mark.parametrize(
    ("load", "end", "words"),
    [
        ("tcp", "consumed", "paths delivered: 0, expected at least 69, or merged ones"),
        ("sctp6", "dropped", "paths delivered: 0, expected at least 100, or merged ones"),
    ],
)
def test_messages_without_a_delivered_packet_are_complained_of(
    load: str, end: str, words: str
) -> None:
    made = document(100)
    made["paths"][0] = path("receive", 0, **{end: 100})
    assert said(made, load) == [words]


def test_forwarded_messages_have_to_be_transmitted() -> None:
    made = document(100, 100)
    made["paths"][1] = path("forward", 0, dropped=100)
    assert said(made, "sctp-forward", 200, 100) == [
        "paths transmitted: 0, expected at least 100, or merged ones"
    ]


# One whose kernel nobody hears.
TARGET = Target("guest", cast(Transport, None), "", "")


@pytest.mark.parametrize(
    ("tries", "before", "rate", "words"),
    [
        ([(100, 0)], (), 8000, "all counted"),
        ([(100, 133), (100, 0)], (133,), 4000, "all counted (again: 133 missed, as it said)"),
        ([(99, 0), (100, 0)], (0,), 4000, "all counted (again: slower)"),
        # As often as it is tried.
        (
            [(100, 5), (100, 4), (100, 3), (100, 2), (100, 1)],
            *((5, 4, 3, 2), 500, "missed: 1, expected 0"),
        ),
    ],
)
def test_what_a_back_end_says_that_it_missed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    tries: list[tuple[int, int]],
    before: tuple[int, ...],
    rate: int,
    words: str,
) -> None:
    case, left, rates = Case(Load(), threaded=False), iter(tries), []

    def run(count: counts.Count, _: object) -> tuple[Sent, list[Verdict]]:
        rates.append(count.rate)
        received, missed = next(left)
        said = (f"missed: {missed}, expected 0",) if missed else ()
        return Sent(100, received), [Verdict(case, "hooks by fentry", 100, said, missed)]

    monkeypatch.setattr(counts, "_run", run)
    count = counts.Count(case, (), 100, 8000, cast(tuple[LabRoot, Reporter], None))
    [found] = count.run(TARGET)
    assert found.before == before
    assert rates[-1] == rate
    console = Console(width=120, file=StringIO(), record=True)
    console.print(counts_table([found]))
    text = console.export_text()
    assert words in text
    if before and words.startswith("all counted"):
        with pytest.raises(AssertionError):
            verified_at_once(text)
    else:
        verified_at_once(text)


def test_a_back_end_that_fails_is_a_complaint_and_the_next_case_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(count: counts.Count, _: Target) -> None:
        raise SkblabError("bpftrace ended before it said ready")

    monkeypatch.setattr(counts, "_counted", fail)
    monkeypatch.setattr(counts, "_set_threaded", lambda *_: None)
    backend = Backend("bpftrace hooks", False, Request(source="hooks"), "bpftrace")
    case = Case(Load(), threaded=False)
    count = counts.Count(case, (backend,), 100, 10, cast(tuple[LabRoot, Reporter], None))
    [found] = count.run(TARGET)
    assert found.complaints == ("bpftrace ended before it said ready",)


def test_what_the_kernel_complains_of_is_a_complaint_of_its_case(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "console.log"
    line = "WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 f+0x1/0x2"
    case = Case(Load(), threaded=False)
    # It boots, warns in the first try of the first case, and is well after that.
    log.write_text(f"[    1.0] {line}:boot\n")
    tries = iter([(99, f"[    2.0] {line}\n"), (100, ""), (100, "")])

    def run(count: counts.Count, _: object) -> tuple[Sent, list[Verdict]]:
        received, text = next(tries)
        with log.open("a") as more:
            more.write(text)
        return Sent(100, received), [Verdict(case, "hooks by fentry", 100, ())]

    monkeypatch.setattr(counts, "_run", run)
    guest = cast(Guest, SimpleNamespace(console=Kernel(log)))
    target = replace(TARGET, guest=guest)
    count = counts.Count(case, (), 100, 8000, cast(tuple[LabRoot, Reporter], None))
    [first], [second] = count.run(target), count.run(target)
    assert first.complaints == (f"kernel warning (guest): {line}",)
    assert second.complaints == ()


def test_counters_of_all_namespaces_add_up() -> None:
    one = (
        "Inter-|   Receive\n face |bytes    packets errs\n"
        f"    lo:    9000     70{' 0' * 14}\n    s0:  500  7{' 0' * 14}\n"
        f"    r1: 600   8{' 0' * 9} 3{' 0' * 4}\n"
        "Ip: Forwarding DefaultTTL InReceives ForwDatagrams InDiscards\n"
        "Ip: 1 64 15 5 0\n"
        "Ip6OutForwDatagrams             \t4\n"
    )
    counted = Counters.parse(one + one)
    assert counted == Counters(received=30, forwarded=18, refused=6)
    assert counted.since(Counters.parse(one)) == Counters(15, 9, 3)


def test_cases_are_chosen_by_load_or_by_name() -> None:
    assert cases_of([]) == list(cases())
    assert [str(case) for case in cases_of(["udp", "tcp6-forward, NAPI threads"])] == [
        *("udp, softirq", "udp, NAPI threads", "tcp6-forward, NAPI threads"),
    ]
    with pytest.raises(UsageError, match="--only udp7: expected a load, such as udp, or a case"):
        cases_of(["udp7"])


def test_every_protocol_family_path_and_context_is_a_case() -> None:
    found = list(cases())
    assert len(found) == len(set(found)) == 24


def test_every_back_end_is_in_one_round() -> None:
    names = [backend.name for together in rounds(BACKENDS) for backend in together]
    assert sorted(names) == sorted(backend.name for backend in BACKENDS)


@pytest.mark.parametrize(
    ("backend", "again", "good"),
    [
        ("stap hooks", "302 missed, as it said", True),
        ("hooks by kprobe", "1 missed, as it said", True),
        ("bpftrace hooks", "15 missed, as it said", True),
        ("hooks by fentry", "1 missed, as it said", False),
        ("stap hooks", "slower", False),
        ("stap hooks", "3 missed, as it said; 2 missed, as it said", False),
    ],
)
def test_kprobes_may_miss_once_where_a_machine_is_busy(
    backend: str, again: str, good: bool
) -> None:
    row = "udp, softirq  9  all counted"
    said = f"histograms  {row}\n{backend}  {row} (again: {again})"
    if good:
        with pytest.warns(SkblabWarning, match=again):
            verified_at_once(said)
    else:
        with pytest.raises(AssertionError):
            verified_at_once(said)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("6.12", {True: {"histograms"}, False: HOOKED}),
        ("6.12+skblab", {True: {"histograms", *HOOKED} - {"bpftrace hooks"}}),
        ("debian:7.2", {False: HOOKED - {"stap hooks", "bpftrace hooks"}}),
    ],
)
def test_each_back_end_has_a_kernel_that_it_can_run_on(
    kernel: str, expected: dict[bool, set[str]]
) -> None:
    found = kernels(names.parse(kernel), "stock", BACKENDS, named=False)
    said = {request.patches: {backend.name for backend in some} for request, some in found}
    assert said == expected


@pytest.mark.parametrize(
    ("kernel", "backend", "why"),
    [
        ("debian:7.2", "histograms", "histograms are of our series"),
        ("6.12+skblab", "bpftrace hooks", "cannot attach to __napi_poll"),
        ("debian:7.2", "stap hooks", "SystemTap needs a kernel that was built here"),
    ],
)
def test_a_back_end_that_cannot_run_there_is_refused(kernel: str, backend: str, why: str) -> None:
    chosen = [known for known in BACKENDS if known.name == backend]
    with pytest.raises(UsageError, match=why):
        kernels(names.parse(kernel), "stock", chosen, named=True)
