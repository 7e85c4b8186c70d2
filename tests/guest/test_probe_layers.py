# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe layers` as a user runs it, with a guest's own traffic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import retries
from conftest import Skblab
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.probe import cost
from skblab.probe.cost import exact, wall
from skblab.probe.loads import Load
from skblab.probe.verify.plan import BACKENDS
from skblab_analysis.cost.summary import load as load_cost
from skblab_analysis.cost.summary import sentence
from skblab_analysis.load import load

RECEIVE = ["driver", "stack", "ip", "route", "local", "transport", "socket", "wake", "user"]


def probe(run_skblab: Skblab, tmp_path: Path, *options: str) -> dict[str, Any]:
    done = run_skblab(
        *("probe", "layers", "--on", "guest", "--packets", "3001", "--rate", "5000", "--json"),
        *("--no-cost", *options),
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["paths"] = {path["path"]: path for path in found["paths"]}
    return found


@pytest.mark.guest
@pytest.mark.slow
def test_udp_by_the_kernels_histograms(run_skblab: Skblab, tmp_path: Path) -> None:
    found = probe(run_skblab, tmp_path)
    assert found["source"] == "histograms"
    received = found["paths"]["receive"]
    assert received["ends"]["delivered"] == found["paths"]["send"]["ends"]["transmitted"] == 3001
    assert set(received["seen"].values()) == {3001}
    # Neighbours find each other as well.
    assert 3001 <= found["in"]["seen"]["route"] <= found["in"]["seen"]["stack"] < 3101
    runs = list(tmp_path.glob("layers-*/run.json"))
    assert len(runs) == 1
    assert json.loads(runs[0].read_text())["ledgers"][0]["ended"] >= 2 * 3001


@pytest.mark.guest
@pytest.mark.slow
def test_layers_in_instructions_repeat(run_skblab: Skblab, tmp_path: Path) -> None:
    """Where no packet waits, two boots agree, but for an interrupt that falls into a layer.

    In one of 3 001 packets that is some thousands of instructions, a few of the mean.
    """
    means = []
    for number in range(2):
        place = tmp_path / str(number)
        received = probe(run_skblab, place, "--exact")["paths"]["receive"]
        assert received["ends"]["delivered"] == 3001
        run = load(next(place.glob("layers-*")))
        [trial] = run.trials
        assert trial.clock == "exact"
        layers = {
            (one.from_point, one.to_point): one.histogram.mean or 0.0
            for one in run.series
            if one.path == "receive" and one.kind == "layer"
        }
        means.append(layers)
        assert {one.unit for one in run.series} == {"instructions"}
    same = [where for where, mean in means[0].items() if abs(mean - means[1][where]) <= 10]
    assert ("local", "transport") in same and ("wake", "user") in same
    assert len(same) >= len(means[0]) / 2
    # What `rdtsc` of nanoseconds would not be: a few hundred instructions for a header's checks.
    assert 50 < means[0]["local", "transport"] < 400


@pytest.mark.guest
@pytest.mark.slow
def test_what_they_do_not_tell_is_hooked(run_skblab: Skblab, tmp_path: Path) -> None:
    found = probe(run_skblab, tmp_path, "--protocol", "udp", "--port", "5001", "--path", "receive")
    assert found["source"] == "hooks"
    received = found["paths"]["receive"]
    assert received["ends"]["delivered"] == 3001
    assert set(received["seen"].values()) == {3001}
    assert not any(found["paths"]["send"]["ends"].values())
    # What only other paths need is not attached.
    assert found["hooks"]["began"] == 0


@dataclass(frozen=True)
class Asked:
    """What is asked of hooks: a load, the path that its packets take, and points of that."""

    load: str
    path: str
    points: str
    more: tuple[str, ...] = ()
    beside: str = ""

    @property
    def seen(self) -> set[str]:
        """The points, and those that are always among them."""
        known = {"receive": "driver,user", "forward": "driver,xmit,done", "send": "send,xmit,done"}
        all_ = f"{self.points},{known[self.path]},{self.beside}"
        return {*all_.split(",")} - {""}


ASKED = {
    "received": Asked("udp", "receive", "ip,socket"),
    # Two points tell there what was merged, and what was read.
    "received by kprobes": Asked("udp6", "receive", "transport", ("--kprobes",), "stack,wake"),
    "received by TCP": Asked("tcp", "receive", "socket"),
    "received by TCP and kprobes": Asked("tcp", "receive", "ip", ("--kprobes",), "stack,wake"),
    "forwarded": Asked("udp-forward", "forward", "route"),
    "sent": Asked("udp", "send", "queue"),
}


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_only_the_points_that_are_asked_for(name: str, run_skblab: Skblab, tmp_path: Path) -> None:
    asked = ASKED[name]
    words = ("--load", asked.load, "--path", asked.path, "--points", asked.points, *asked.more)
    found = probe(run_skblab, tmp_path, "--kernel", "6.12", *words)
    paths, hooks = found["paths"], found["hooks"]
    of = paths.pop(asked.path)
    assert of["ends"][of["usual_end"]] + found["merged"] >= Load.parse(asked.load).least(3001)
    assert set(of["seen"]) == asked.seen
    assert set(of["seen"].values()) == {of["ends"][of["usual_end"]]}
    assert {layer["to"] for layer in of["layers"]} == asked.seen - {"driver", "send"}
    # Nothing is made of what was not asked for.
    assert not any(any(other["ends"].values()) for other in paths.values())
    assert not hooks["replaced"] and not hooks["refused"] and hooks["absent"] == []
    assert hooks["attached"] < 45
    assert found["napi"] == []


@pytest.mark.guest
@pytest.mark.slow
def test_forwarded_tcp_by_hooks_on_an_unpatched_kernel(run_skblab: Skblab, tmp_path: Path) -> None:
    options = ("--kernel", "6.12", "--load", "tcp6-forward", "--late", "1us", "--late-max", "5")
    found = probe(run_skblab, tmp_path, *options)
    hooks, late = found["hooks"], found["late"]
    assert hooks["absent"] == []
    assert not hooks["replaced"] and not hooks["refused"]
    # All that was sent must come; on a busy machine TCP puts several messages in a segment.
    least = Load.parse("tcp6-forward").least(3001)
    assert found["paths"]["forward"]["ends"]["transmitted"] + found["merged"] >= least
    assert found["paths"]["receive"]["ends"]["delivered"] + found["merged"] >= least
    # Every packet takes a microsecond here; five were asked for.
    assert late["recorded"] == len(late["packets"]) == 5
    assert late["limited"] == late["packets_late"] - 5 > 0
    for packet in late["packets"]:
        assert sum(packet["times"].values()) <= packet["since_entry_ns"]
        assert packet["protocol"] in (6, 58)
        assert packet["cpu_did"]


@pytest.mark.guest
@pytest.mark.slow
def test_a_filter_that_matches_nothing_is_said(run_skblab: Skblab, tmp_path: Path) -> None:
    done = run_skblab(
        *("probe", "layers", "--on", "guest", "--packets", "100", "--port", "9", "--no-cost"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "No packet came to its end; " in done.stdout
    assert "were none of those asked for" in done.stdout
    assert "costs" not in done.stdout
    assert not list(tmp_path.glob("layers-*/cost.json"))


@pytest.mark.guest
@pytest.mark.slow
def test_its_cost_is_counted_once_for_a_kernel(
    run_skblab: Skblab,
    lab: LabRoot,
    unpatched: Kernel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = run_skblab(
        *("probe", "layers", "--on", "guest", "--kernel", "6.12", "--packets", "1000"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        timeout=2100,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("layers-*")
    found = load_cost(folder)
    assert found is not None
    assert sentence(found) in " ".join(done.stdout.split())
    assert found.own
    assert found.exact is not None
    # The benchmark's row hooks has 2 155 and 3 554 (docs/explain/cost-of-tools.md).
    assert 1000 < found.exact.forward < 6000
    assert 1500 < found.exact.receive < 10_000
    assert found.wall is not None
    assert len(found.wall.pairs) >= 5

    def again(*_: object) -> None:
        raise AssertionError("measured a second time")

    monkeypatch.setattr(exact, "count", again)
    monkeypatch.setattr(wall, "measure", again)
    assert cost.calibrated(unpatched, found.probe, Load(), lab, Reporter()) == found


@pytest.mark.guest
@pytest.mark.timeout(3900)
def test_known_packets_are_counted_by_every_back_end(run_skblab: Skblab) -> None:
    """On one kernel, the patched one, which is there: bpftrace cannot attach its hooks to it."""
    said = _verified(run_skblab, (), "udp6-forward, softirq", kernel="6.12+skblab")
    assert said.count("all counted") == len(BACKENDS) - 1 == 4
    assert "bpftrace hooks" not in said


@pytest.mark.guest
@pytest.mark.slow
def test_hooks_are_verified_on_a_kernel_as_debian_ships_it(run_skblab: Skblab) -> None:
    backends = ["hooks by fentry"]
    said = _verified(run_skblab, backends, "udp6-forward, softirq", kernel="debian:7.3")
    assert said.count("all counted") == 1


# Fewer packets than the ring of a veth device has room for: a CPU that the host stops loses none.
ROOM = "251"


def _verified(run_skblab: Skblab, backends: Sequence[str], *only: str, kernel: str = "6.12") -> str:
    """Return what `probe verify` printed of small cases, after it was good at the first try."""
    done = run_skblab(
        *("probe", "verify", "--packets", ROOM, "--rate", "2000", "--no-medians"),
        *("--kernel", kernel),
        *(word for backend in backends for word in ("--backend", backend)),
        *(word for case in only for word in ("--only", case)),
        # As long as the test has: a machine may do other work.
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    retries.verified_at_once(done.stdout)
    return done.stdout


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.timeout(3900)
def test_known_packets_are_counted_where_they_wait(run_skblab: Skblab) -> None:
    """TCP puts messages together and comes out of order; NAPI threads poll beside the load."""
    said = _verified(run_skblab, ("histograms", "hooks by fentry"), "udp6-forward", "tcp-forward")
    assert said.count("all counted") == 8


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.timeout(3900)
def test_known_packets_are_counted_by_every_script(run_skblab: Skblab) -> None:
    said = _verified(run_skblab, ["bpftrace hooks", "stap hooks"], "udp6-forward")
    assert said.count("all counted") == 4


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.parametrize("version", ["6.1", "7.3"])
def test_hooks_see_every_packet_of_a_kernel_as_debian_ships_it(
    version: str, run_skblab: Skblab, tmp_path: Path
) -> None:
    """What a verifier allows is another matter in each kernel."""
    found = probe(run_skblab, tmp_path, "--kernel", f"debian:{version}", "--source", "hooks")
    assert found["kernel"].startswith(f"{version}.")
    assert found["hooks"]["by"] == "fentry"
    received = found["paths"]["receive"]
    assert received["ends"]["delivered"] == 3001
    assert set(received["seen"].values()) == {3001}
