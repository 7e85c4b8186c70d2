# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own histograms as the probe's source: what goes with them, and who switches them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from skblab.machine.transport import LocalTransport
from skblab.probe import switches as of_kernel
from skblab.probe import targets
from skblab.probe.request import HISTOGRAMS, HOOKS, Request, check
from skblab.probe.targets import Target
from skblab_analysis.base.errors import UsageError


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


@pytest.mark.parametrize(
    ("request_", "counts", "source"),
    [
        (Request(), True, HISTOGRAMS),
        (Request(source="auto", seconds=1, interval=1, verbose=True), True, HISTOGRAMS),
        (Request(), False, HOOKS),
        (Request(path="forward"), True, HOOKS),
        (Request(port=0), True, HOOKS),
        (Request(stop=False), True, HISTOGRAMS),
        (Request(source=HOOKS), True, HOOKS),
        (Request(source=HISTOGRAMS), False, HISTOGRAMS),
    ],
)
def test_the_kernel_counts_where_no_more_is_asked(
    request_: Request, counts: bool, source: str
) -> None:
    assert request_.of_source(counts=counts).source == source


class Switches:
    """Files in the place of the kernel's switches, and probes that use them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stamps, self.polls = folder / "path_trace", folder / "napi"
        (folder / "histograms").touch()
        self.put("0", "0")
        for name in ("COUNT", "UNCOUNT", "NET_PATH"):
            text: str = getattr(targets, name)
            for real, ours in (
                (of_kernel.STAMPS, str(self.stamps)),
                (of_kernel.NET_PATH, str(folder)),
                ("/proc/sys/net/core", str(folder)),
            ):
                text = text.replace(real, ours)
            monkeypatch.setattr(targets, f"_{name}", text, raising=False)
        for name in ("COUNT", "UNCOUNT", "NET_PATH"):
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
    ("00", HISTOGRAMS, HISTOGRAMS, ["11", "11", "11", "00"]),
    ("00", HOOKS, HISTOGRAMS, ["00", "11", None, "00"]),
    # Somebody else counts.
    ("10", HISTOGRAMS, HISTOGRAMS, ["11", "11", "11", "10"]),
    ("01", HISTOGRAMS, HOOKS, ["11", "11", None, "01"]),
    ("11", HISTOGRAMS, HISTOGRAMS, ["11", "11", "11", "11"]),
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
    if remains == HISTOGRAMS:
        assert switches.state == "11"
    seen.append(switches.state if after[2] else None)
    probes.pop().close()
    assert [*seen, switches.state] == after


def test_a_third_probe_finds_what_the_second_left(switches: Switches) -> None:
    first = switches.probe(HISTOGRAMS)
    switches.probe(HISTOGRAMS).close()
    again = switches.probe(HISTOGRAMS)
    first.close()
    assert switches.state == "11"
    again.close()
    assert switches.state == "00"


def test_a_kernel_without_them_is_left_alone(switches: Switches) -> None:
    (switches.stamps.parent / "histograms").unlink()
    with switches.probe(HISTOGRAMS):
        assert switches.state == "00"
