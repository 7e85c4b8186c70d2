# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger of a probe alone: what adds up, what is refused, what is kept of it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from synthetic_run import pathlat

from skblab_analysis.base.checked import RecordError, RefusedError, parse
from skblab_analysis.formats.ledger import Ledger, of_probe, refuse
from skblab_analysis.formats.pathlat import (
    COUNTING,
    Doer,
    LateDocument,
    LatePacket,
    PathlatDocument,
)
from skblab_analysis.formats.run import Plan
from skblab_analysis.layers import late as late_packets
from skblab_analysis.layers import series, tables
from skblab_analysis.load import load
from skblab_analysis.report import terminal
from skblab_analysis.runfolder import RunFolder

HOOKS: dict[str, Any] = {
    "by": "fentry",
    "attached": 54,
    "absent": ["entry:sctp_rcv"],
    "entered": 0,
    "began": 0,
    "continued": 0,
    "filtered_late": 0,
    "in_flight": 0,
    "replaced": 0,
    "refused": 0,
    "sends_refused": 0,
    "napis_refused": 0,
    "bulk_cut": 0,
    "kprobes_missed": 0,
}


def hooked(**counts: int) -> dict[str, Any]:
    """A document by hooks, whose packets all began unless `counts` says otherwise."""
    document = copy.deepcopy(dict(pathlat()))
    ends = sum(sum(path["ends"].values()) for path in document["paths"])
    begun = ends + document["merged"]
    document["source"] = "hooks"
    document["hooks"] = HOOKS | {"entered": begun} | counts
    return document


def of(document: dict[str, Any]) -> Ledger:
    return of_probe(0, "ns", parse(PathlatDocument, json.dumps(document), "it"))


@pytest.mark.parametrize("cause", ["kprobes_missed", "sends_refused", "bulk_cut"])
def test_what_hooks_did_not_see_is_unaccounted_for(cause: str) -> None:
    plain = of(hooked())
    found = of(hooked(**{cause: 7}))
    assert found.missing == plain.missing + 7
    assert found.unaccounted[cause] == 7


def test_what_was_sent_here_began_as_well() -> None:
    document = hooked(began=4)
    document["hooks"]["entered"] -= 4
    found = of(document)
    assert found.begun == found.ended + found.merged
    assert found.unaccounted["unbalanced"] == 0


def test_samples_tell_only_ends() -> None:
    found = of(dict(pathlat()))
    assert found.begun is None
    assert found.ended > 0
    assert "unbalanced" not in found.unaccounted


def test_what_began_ended() -> None:
    found = of(hooked())
    assert found.begun == found.ended + found.merged
    assert found.unaccounted["unbalanced"] == 0


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"replaced": 7}, "replaced"),
        ({"refused": 7}, "refused"),
    ],
)
def test_what_hooks_lose_is_counted_once(more: dict[str, int], cause: str) -> None:
    plain = of(hooked()).missing
    document = hooked(**more)
    document["hooks"]["entered"] += 7
    found = of(document)
    assert found.missing == plain + 7
    assert found.unaccounted[cause] == 7


@pytest.mark.parametrize("key", ["in_flight", "continued", "filtered_late"])
def test_what_did_not_end_but_is_known_is_accounted_for(key: str) -> None:
    document = hooked(**{key: 5})
    document["hooks"]["entered"] += 5
    assert of(document).unaccounted["unbalanced"] == 0


def test_an_end_that_nobody_saw_begin_is_unaccounted_for() -> None:
    document = hooked()
    document["hooks"]["entered"] -= 3
    assert of(document).unaccounted["unbalanced"] == 3


def test_more_than_allowed_is_refused_in_words() -> None:
    document = hooked()
    document["hooks"]["entered"] += 1000
    found = of(document)
    with pytest.raises(RefusedError, match=r"unaccounted for \(.*1000 unbalanced\), more than 0.1"):
        refuse(found, 0.1)
    refuse(found, 100)


def test_a_source_that_does_not_fit_its_counts_is_no_document() -> None:
    document = hooked()
    document["source"] = "samples"
    with pytest.raises(RecordError, match="expected hooks with it"):
        parse(PathlatDocument, json.dumps(document), "it")


def test_a_run_of_the_probe_is_kept(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "layers", Plan(experiment="layers", seed=0))
    found = folder.record_probe(hooked(), 0.1)
    run = load(folder.path)
    assert run.document.ledgers == (found,)
    assert run.of_trial(0)
    last = terminal.of_run(folder.path)[-1]
    assert isinstance(last, Table)
    assert last.title == "Ledger (paths of packets)"


def test_a_refused_run_is_void_and_keeps_the_document(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "layers", Plan(experiment="layers", seed=0))
    document = hooked()
    document["hooks"]["entered"] += 1000
    with pytest.raises(RefusedError):
        folder.record_probe(document, 0.1)
    run = load(folder.path)
    assert [row.state for row in run.trials] == ["invalid"]
    assert run.document.ledgers == ()
    assert (folder.logs / "pathlat-0.json").exists()


def test_a_damaged_document_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "layers", Plan(experiment="layers", seed=0))
    with pytest.raises(RecordError):
        folder.record_probe("{", 0.1)


def test_a_document_written_while_the_probe_counts_can_be_looked_at() -> None:
    document = hooked()
    path = document["paths"][0]
    path["seen"]["ip"] = path["ends"][path["usual_end"]] + 1
    path["layers"][0]["count"] += 2
    path["path_time"] |= {"sum": 1, "min": 0, "max": 2**31}
    path["since_entry"]["buckets"] = []
    with pytest.raises(RecordError):
        parse(PathlatDocument, json.dumps(document), "it")
    found = parse(PathlatDocument, json.dumps(document), "it", context=COUNTING)
    assert tables.of_series(series.from_document(0, "ns", found))


def late_packet(**more: object) -> dict[str, Any]:
    return {
        "end_ns": 10_000_000,
        "since_entry_ns": 400_000,
        "before_ns": 10_000,
        "times": {"stack": 5_000, "wake": 300_000, "user": 85_000},
        "path": "receive",
        "end": "delivered",
        "run": 1,
        "cpu": 1,
        "comm": "reader",
        "pid": 7,
        "ifindex": 2,
        "bytes": 64,
        "merged": 0,
        "backlog": 0,
        "cpu_did": [
            {"before_end_ns": 900_000, "kind": "task", "comm": "hog", "id": 9},
            {"before_end_ns": 90_000, "kind": "softirq", "name": "net_rx", "id": 3},
            {"before_end_ns": 80_000, "kind": "softirq_end", "name": "net_rx", "id": 3},
        ],
    } | more


def test_a_late_packet_names_its_layer_and_what_ran_meanwhile() -> None:
    packet = parse(LatePacket, json.dumps(late_packet()), "it")
    assert packet.slowest == ("wake", 300_000)
    # The hog began before the packet entered; only what was since counts, and it went on later.
    assert packet.longest == (("hog", 9), 310_000 + 80_000)
    before = parse(LatePacket, json.dumps(late_packet(before_ns=350_000, cpu_did=[])), "it")
    assert before.slowest == ("before", 350_000)
    assert before.longest is None


def deed(before_end_ns: int, kind: str, comm: str = "", name: str = "") -> dict[str, Any]:
    return {"before_end_ns": before_end_ns, "kind": kind, "id": 1, "comm": comm, "name": name}


@pytest.mark.parametrize(
    ("cpu_did", "deeds"),
    [
        # The task has the CPU all the time but for one interrupt.
        (
            [deed(9_000, "task", "hog"), deed(2_000, "irq", "hog"), deed(1_970, "irq_end", "hog")],
            {"hog": 2_970, "irq 1": 30},
        ),
        # It began too long ago to be in the ring.
        ([deed(2_000, "irq", "hog"), deed(1_970, "irq_end", "hog")], {"irq 1": 30, "hog": 1_970}),
        # An interrupt in a softirq, which began before.
        (
            [
                deed(5_000, "softirq", "hog", "net_rx"),
                deed(4_000, "irq_end", "hog"),
                deed(1_000, "irq", "hog"),
                deed(900, "irq_end", "hog"),
                deed(500, "softirq_end", "hog", "net_rx"),
            ],
            {"softirq net_rx": 2_000 + 400, "irq 1": 100, "hog": 500},
        ),
        # Each turn counts.
        (
            [deed(9_000, "task", "a"), deed(2_000, "task", "b"), deed(800, "task", "a")],
            {"a": 1_000 + 800, "b": 1_200},
        ),
        # As older documents have it, without who was interrupted.
        ([deed(2_000, "softirq", name="rcu"), deed(1_000, "softirq_end")], {"softirq rcu": 1_000}),
        ([], {}),
    ],
)
def test_what_is_interrupted_goes_on(cpu_did: list[dict[str, Any]], deeds: dict[str, int]) -> None:
    text = json.dumps(late_packet(since_entry_ns=3_000, cpu_did=cpu_did))
    packet = parse(LatePacket, text, "it")
    assert {doer.name: ns for doer, ns in packet.doings.items()} == deeds
    longest = max(deeds.values(), default=0)
    assert ((packet.longest or (None, 0))[1]) == longest


def test_a_task_is_known_by_its_process_id() -> None:
    def doings(cpu_did: list[dict[str, Any]], **more: object) -> dict[Doer, int]:
        text = json.dumps(late_packet(since_entry_ns=3_000, cpu_did=cpu_did, **more))
        return parse(LatePacket, text, "it").doings

    # Two of one name, one after the other.
    two = [deed(3_000, "task", "reader"), deed(1_000, "task", "reader") | {"id": 7}]
    assert doings(two) == {("reader", 1): 2_000, ("reader", 7): 1_000}
    # No task came, so the one that is interrupted is the one at the end.
    interrupted = [deed(2_000, "irq", "reader"), deed(1_900, "irq_end", "reader")]
    assert doings(interrupted) == {("irq 1", None): 100, ("reader", 7): 1_900}
    assert ("reader", None) in doings(interrupted, deeds_lost=True)
    assert ("hog", None) in doings([deed(2_000, "irq_end", "hog")])


@pytest.mark.parametrize(
    ("doer", "words"),
    [
        (Doer("swapper/3", 0), "idle"),
        (Doer("swapper/3"), "idle"),
        (Doer("swapper/3", 9), "swapper/3"),
        (Doer("hog", 9), "hog"),
        (Doer("irq 1"), "irq 1"),
    ],
)
def test_an_idle_task_is_called_idle(doer: Doer, words: str) -> None:
    assert doer.words == words


def test_late_packets_in_a_table() -> None:
    late = {
        "threshold_ns": 250_000,
        "in_a_row": 2,
        "packets_late": 9,
        "runs": 1,
        "recorded": 1,
        "limited": 5,
        "lost": 2,
        "tracing_stopped": False,
        "packets": [late_packet()],
    }
    table = late_packets.table(parse(LateDocument, json.dumps(late), "it"))
    assert table.title == "Late packets (250 µs or more, 2 in a row)"
    assert table.row_count == 1
    assert table.caption == (
        "9 late, 1 run of 2 or more in a row: 1 recorded, 5 not recorded (beyond 100 a second), "
        "2 not recorded (no room), 1 before a run was long enough"
    )
    assert "end, s" not in [column.header for column in table.columns]
    late |= {"packets_late": 1, "limited": 0, "lost": 0, "tracing_stopped": True}
    table = late_packets.table(parse(LateDocument, json.dumps(late), "it"))
    assert table.caption == (
        "1 late, 1 run of 2 or more in a row: 1 recorded, tracing stopped at the first"
    )


@pytest.mark.parametrize(
    ("most", "rate", "beyond"),
    [
        (None, None, "beyond 100 a second"),
        (2, None, "beyond 2 in all or 100 a second"),
        (2, 0, "beyond 2 in all"),
        (3, 7, "beyond 7 a second"),
    ],
)
def test_which_limit_kept_late_packets_from_being_recorded(
    most: int | None, rate: int | None, beyond: str
) -> None:
    late = late_document(late_packet(), late_packet()).model_copy(update={"limited": 4000})
    caption = late_packets.table(late, most=most, rate=rate).caption
    assert isinstance(caption, str)
    assert f": 2 recorded, 4 000 not recorded ({beyond}), " in caption


def test_the_usual_limits_are_those_of_pathlat() -> None:
    loader = (Path(__file__).parents[2] / "probes/bpf/pathlat.c").read_text()
    assert f"late_max ?: {late_packets.MOST_RECORDED};" in loader
    assert f"a->late_rate : {late_packets.RATE};" in loader


def test_where_tracing_was_stopped_each_packet_has_the_time_of_its_end_as_ftrace_prints_it() -> (
    None
):
    late = late_document(late_packet(end_ns=4_567_012_345_999))
    table = late_packets.table(late.model_copy(update={"tracing_stopped": True}))
    assert table.columns[-1].header == "end, s"
    assert list(table.columns[-1].cells) == ["4567.012345"]


def late_document(*packets: dict[str, Any]) -> LateDocument:
    late = {"threshold_ns": 250_000, "in_a_row": 1, "packets_late": 9_000, "runs": 1, "lost": 0}
    late |= {"recorded": len(packets), "limited": 0, "tracing_stopped": False}
    return parse(LateDocument, json.dumps(late | {"packets": packets}), "it")


def test_what_made_all_late_packets_late_is_said_first() -> None:
    hog = late_packet()
    reader = late_packet(cpu_did=[{"before_end_ns": 390_000, "kind": "task", "comm": "t", "id": 7}])
    sender = late_packet(cpu_did=[{"before_end_ns": 390_000, "kind": "task", "comm": "t", "id": 5}])
    early = late_packet(before_ns=390_000, cpu_did=[])
    late = late_document(*[hog] * 1200, *[reader] * 300, *[sender] * 20, early)
    assert late_packets.sentences(late, {5: "sender"}) == [
        "1 520 of 1 521 recorded packets were late in wake, 1 in an earlier path.",
        "What their CPU ran longest meanwhile: hog (PID 9) for 1 200 packets, "
        "t (PID 7, reader) for 300 packets, t (PID 5, sender) for 20 packets, "
        "what is not known for 1 packet.",
    ]
    table = late_packets.table(late)
    assert (table.title, table.row_count) == ("The 20 slowest (250 µs or more)", 20)
    # Without the load of ours nobody knows who sent.
    assert "t (PID 5) for 20" in late_packets.sentences(late)[1]


def test_what_made_packets_late_is_said_path_by_path_and_not_at_all_without_any() -> None:
    sent = late_packet(path="send", end="transmitted", context="softirq", pid=0, comm="swapper/1")
    sent["cpu_did"] = [{"before_end_ns": 900_000, "kind": "task", "comm": "swapper/1", "id": 0}]
    many = [late_packet(times={f"l{n}": 300_000}, path="receive") for n in range(5)]
    layers, ran = late_packets.sentences(late_document(sent, sent, *many))
    assert layers == (
        "2 of 7 recorded packets were late in send's wake, 1 in receive's l0, 1 in receive's l1, "
        "1 in receive's l2, 2 in others."
    )
    assert "idle for 2" in ran
    assert late_packets.sentences(late_document()) == []
    assert len(late_packets.sentences(late_document(late_packet(cpu_did=[])))) == 1
    assert late_packets.sentences(late_document(late_packet())) == [
        "The one recorded packet was late in wake.",
        "What its CPU ran longest meanwhile: hog (PID 9).",
    ]
    two = [late_packet(times={f"l{n}": 50_000}) for n in range(2)]
    assert late_packets.sentences(late_document(*two))[0].startswith(
        "1 of 2 recorded packets was late in "
    )
