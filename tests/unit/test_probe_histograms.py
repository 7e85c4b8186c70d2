# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own histograms as the probe's source: what goes with them, and who switches them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from skblab.machine.transport import LocalTransport
from skblab.probe import targets
from skblab.probe.request import HISTOGRAMS, Request, check
from skblab.probe.targets import Target
from skblab.probe.verify.agreement import same_counts
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.pathlat import PathlatDocument


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"device": "eth0"}, "--device: the kernel's histograms count all packets; leave it out"),
        ({"netns": "a"}, "--netns: "),
        ({"path": "send"}, "--path: "),
        ({"family": 6}, "--family: "),
        ({"protocol": "udp"}, "--protocol: "),
        ({"port": 53}, "--port: "),
        ({"address": "::1"}, "--address: "),
        ({"by": "cpu"}, "--by: "),
        ({"late": "1ms"}, "--late: "),
        ({"run": 2}, "--run: "),
        ({"late_max": 2}, "--late-max: "),
        ({"stop": True}, "--stop: "),
        ({"kprobes": True}, "--kprobes: "),
        ({"room": 9}, "--room: "),
    ],
)
def test_what_counts_all_packets_takes_no_filters(more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check(Request(source=HISTOGRAMS, **more), "bpf", ["stap"])
    assert str(refusal.value).startswith(words)


def test_scripts_do_not_read_them() -> None:
    with pytest.raises(UsageError, match="--source histograms: no script of stap reads them"):
        check(Request(source=HISTOGRAMS), "stap", ["stap"])
    check(Request(source=HISTOGRAMS, seconds=1, interval=1), "bpf", ["stap"])


class Switches:
    """Files in the place of the kernel's switches, and probes that use them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stamps, self.polls = folder / "path_trace", folder / "napi"
        (folder / "histograms").touch()
        self.put("0", "0")
        for name in ("STAMP", "UNSTAMP", "COUNT", "UNCOUNT", "STAMPS", "NET_PATH"):
            text: str = getattr(targets, name)
            for real, ours in (
                (targets.STAMPS, str(self.stamps)),
                (targets.NET_PATH, str(folder)),
                ("/proc/sys/net/core", str(folder)),
            ):
                text = text.replace(real, ours)
            monkeypatch.setattr(targets, f"_{name}", text, raising=False)
        for name in ("STAMP", "UNSTAMP", "COUNT", "UNCOUNT", "STAMPS", "NET_PATH"):
            monkeypatch.setattr(targets, name, getattr(targets, f"_{name}"))
        self.target = Target("it", LocalTransport(), "", "")

    def put(self, stamps: str, polls: str) -> None:
        self.stamps.write_text(f"{stamps}\n")
        self.polls.write_text(f"{polls}\n")

    @property
    def state(self) -> str:
        return f"{self.stamps.read_text().strip()}{self.polls.read_text().strip()}"

    def probe(self, source: str) -> contextlib.ExitStack:
        on = contextlib.ExitStack()
        on.enter_context(targets.stamps_for(self.target, source))
        return on


@pytest.fixture
def switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Switches:
    return Switches(tmp_path, monkeypatch)


# What was switched on, then after the first, after the second, without the one, without both:
# net.core.path_trace and net_path/napi. Both go in the order they came in, or in the other.
ORDERS = [
    ("00", "samples", "samples", ["10", "10", "10", "00"]),
    ("00", HISTOGRAMS, HISTOGRAMS, ["21", "21", "21", "00"]),
    ("00", "hooks", HISTOGRAMS, ["00", "21", None, "00"]),
    # Whoever reads samples loses none when the other goes.
    ("00", "samples", HISTOGRAMS, ["10", "21", None, "00"]),
    ("00", HISTOGRAMS, "samples", ["21", "21", None, "00"]),
    # Somebody else wants stamps, or all.
    ("10", "samples", HISTOGRAMS, ["10", "21", None, "10"]),
    ("10", HISTOGRAMS, HISTOGRAMS, ["21", "21", "21", "10"]),
    ("11", HISTOGRAMS, "samples", ["21", "21", None, "11"]),
    ("20", HISTOGRAMS, "samples", ["21", "21", None, "20"]),
    ("21", HISTOGRAMS, HISTOGRAMS, ["21", "21", "21", "21"]),
]


@pytest.mark.parametrize("first_goes_first", [True, False])
@pytest.mark.parametrize(("before", "first", "second", "after"), ORDERS)
def test_the_last_of_several_switches_back(
    switches: Switches,
    before: str,
    first: str,
    second: str,
    after: list[str | None],
    first_goes_first: bool,
) -> None:
    switches.put(*before)
    probes = [switches.probe(first)]
    seen: list[str | None] = [switches.state]
    probes.append(switches.probe(second))
    seen.append(switches.state)
    probes.pop(0 if first_goes_first else 1).close()
    remains = second if first_goes_first else first
    assert int(switches.state[0]) >= {"hooks": 0, "samples": 1, HISTOGRAMS: 2}[remains]
    if remains == HISTOGRAMS:
        assert switches.state == "21"
    seen.append(switches.state if after[2] else None)
    probes.pop().close()
    assert [*seen, switches.state] == after


def test_a_third_probe_finds_what_the_second_left(switches: Switches) -> None:
    samples = switches.probe("samples")
    switches.probe(HISTOGRAMS).close()
    # Left on for the one that reads samples, and no longer for anybody else.
    assert switches.state == "20"
    again = switches.probe(HISTOGRAMS)
    samples.close()
    assert switches.state == "21"
    again.close()
    assert switches.state == "00"


def test_a_kernel_without_them_is_left_alone(switches: Switches) -> None:
    (switches.stamps.parent / "histograms").unlink()
    with switches.probe(HISTOGRAMS):
        assert switches.state == "00"


def of(source: str, **layer: object) -> PathlatDocument:
    kernel = source == HISTOGRAMS
    empty = {"from": "driver", "to": "user", "count": 0, "sum": 0, "min": 0, "max": 0}
    empty |= {"buckets": []}
    full = empty | {"count": 3, "sum": 590, "min": 192, "max": 199, "buckets": [[72, 3]]} | layer
    known = {"unsettled": 0} if kernel else {"negative": 0, "overflow": 0, "reentered": 0}
    ends = {"delivered": 0, "dropped": 0, "transmitted": 0, "consumed": 0}
    paths = [
        {"path": name, "usual_end": "delivered" if name == "receive" else "transmitted"}
        | {"ends": ends | ({"delivered": full["count"]} if name == "receive" else {})}
        | {"seen": {"driver": full["count"], "user": full["count"]} if name == "receive" else {}}
        | known
        | {"layers": [], "path_time": empty, "since_entry": empty}
        | ({"layers": [full], "path_time": full, "since_entry": full} if name == "receive" else {})
        | ({} if name == "receive" else {"seen": {"driver": 0, "user": 0}})
        for name in ("receive", "forward", "send")
    ]
    made: dict[str, object] = {"schema": "skblab.pathlat/3", "source": source}
    made |= {"kernel": "6.12", "clock_unit": "ns"}
    made |= {"sub_buckets": 16, "merged": 0, "paths": paths, "samples": None if kernel else {}}
    made |= {"flags": {"copy": 0, "negative": 0, "overflow": 0}} if kernel else {}
    counts = {"entered": 3, "sent": 0, "reentered": 0}
    return parse(
        PathlatDocument, json.dumps(made | ({"histograms": counts} if kernel else {})), "it"
    )


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({}, []),
        # Of a clock with other buckets: they can hold the same times.
        ({"buckets": [[0, 3]], "edges": [[197, 210]], "min": 197, "max": 210}, []),
        ({"sum": 593}, []),
        ({"count": 2, "buckets": [[72, 2]], "sum": 400}, ["receive: "]),
        ({"sum": 600}, ["receive user: other times"]),
        ({"sum": 700}, ["receive user: other times", "receive user: other times"]),
        (
            {"buckets": [[0, 3]], "edges": [[202, 210]], "min": 202, "max": 210},
            ["receive user: other times"],
        ),
        (
            {"buckets": [[80, 3]], "min": 256, "max": 271},
            ["receive user: other times", "receive user: other times"],
        ),
    ],
)
def test_they_are_what_the_samples_say(layer: dict[str, Any], words: list[str]) -> None:
    said = list(same_counts(of(HISTOGRAMS, bounded=True, **layer), of("samples")))
    assert len(said) == len(words), said
    assert all(sentence.startswith(start) for sentence, start in zip(said, words, strict=True)), (
        said
    )
