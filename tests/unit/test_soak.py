# SPDX-License-Identifier: GPL-2.0-or-later
"""A soak's plan is pure and whole; its verdict overlooks nothing."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skblab.soak import plan, verdict
from skblab.soak.guest import topology
from skblab.soak.guest.loads import Load, all_loads, stop
from skblab.soak.guest.soak import passed
from skblab.soak.guest.stir import LIMITS, NET_PATH, Stirrer
from skblab_analysis.base.errors import SkblabError


def test_the_same_seed_makes_the_same_plan() -> None:
    assert plan.make(7, 60) == plan.make(7, 60)
    assert plan.make(7, 60) != plan.make(8, 60)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(10, 300))
def test_phases_follow_each_other_and_steps_keep_to_the_time(seed: int, seconds: int) -> None:
    made = plan.make(seed, seconds)
    assert made.phases[0].begin == 0
    assert made.phases[-1].end == pytest.approx(seconds)
    for phase, following in zip(made.phases, made.phases[1:], strict=False):
        assert phase.end == following.begin
    times = [step.at for step in made.steps]
    assert times == sorted(times)
    assert times[-1] < seconds


def test_every_action_is_done_early_and_known_to_the_guest() -> None:
    made = plan.make(1, 30)
    first = {step.action for step in made.steps[: len(plan.ACTIONS)]}
    assert first == set(plan.ACTIONS)
    for action in plan.ACTIONS:
        assert callable(getattr(Stirrer, f"_{action}"))


def test_what_is_stirred_is_known_to_the_guest() -> None:
    assert {NET_PATH / name for name in plan.LIMITS} == set(LIMITS)
    names = {name for name in plan.NAMESPACES if name not in ("any", "none")}
    assert names == set(topology.NAMESPACES)


def test_no_real_time_thread_polls_for_ever() -> None:
    steps = [step for step in plan.make(3, 600).steps if step.action == "napi"]
    priorities = {int(step.words[2]) for step in steps if step.words[1] == "fifo"}
    assert priorities and priorities <= set(range(1, 11))


def test_a_plan_goes_through_json() -> None:
    made = plan.make(1, 20)
    read = json.loads(made.json())
    assert len(read["steps"]) == len(made.steps)
    assert [phase["name"] for phase in read["phases"]] == [name for name, _ in plan.PHASES]
    assert read["longest_rest"] == plan.LONGEST_REST


@pytest.mark.parametrize(("longest", "rests"), [(4.0, 4.0), (60.0, 40.0)])
def test_a_load_rests_as_long_as_its_kernel_needs(
    longest: float, rests: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "process_time", lambda: 2.0)
    monkeypatch.setattr(time, "sleep", slept.append)
    for load in all_loads(longest):
        load.rest()
    assert slept == [rests] * len(slept) and len(slept) > 20


def test_packets_are_read_from_the_kernels_histograms() -> None:
    text = "count sent 4\nsum in stack 12 3.500\nbucket in stack 1.0 2.0 12\nsum napi poll 3 9.1\n"
    assert passed(text) == {"in stack": 12, "napi poll": 3}


PASSED = {"in stack": 1003, "send total": 500, "forward total": 500, "receive total": 500}


def _calm(received: int = 500, **passed: int) -> dict[str, Any]:
    """The count in peace, with other numbers of packets in total on some paths."""
    changed = {f"{path} total": count for path, count in passed.items()}
    return {"sent": 500, "received": received, "passed": PASSED | changed}


def _report(**changes: object) -> dict[str, Any]:
    counts = {"sent": 100, "received": 90, "errors": 1}
    phase = {"name": "stir", "seconds": 30.0, "faults": "", "steps": 5, "left_out": 0}
    report: dict[str, Any] = {
        "phases": [{**phase, "loads": {"udp4": counts, "tcp4": {**counts}}}],
        "done": {"path_trace": 3},
        "refused": {},
        "absent": {},
        "examples": {},
        "stuck": [],
        "calm": _calm(),
        "left_devices": [],
        "leaks": "",
        "taint": ["0", "0"],
    }
    return {**report, **changes}


def _wrong(*kernel: str, patched: bool = True, **changes: object) -> list[str]:
    result = verdict.parse("progress\n" + json.dumps(_report(**changes)))
    return verdict.complaints(result, list(kernel), patched, [])


def test_a_good_soak_has_no_complaint() -> None:
    assert _wrong() == []
    assert _wrong(leaks=None) == []
    assert _wrong(calm=_calm() | {"passed": None}, patched=False) == []


def test_a_soak_of_the_first_edition_is_read() -> None:
    calm = {"sent": 500, "received": 500, "samples": {"path 0 end 0": 1500}}
    result = verdict.parse(json.dumps(_report(calm=calm)))
    assert (result.calm.samples, result.calm.passed) == ({"path 0 end 0": 1500}, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"taint": ["0", "512"]}, "taint went from 0 to 512"),
        ({"leaks": "unreferenced object 0x1\nunreferenced object 0x2\n"}, "kmemleak: 2 objects"),
        ({"left_devices": ["x3"]}, "devices left: x3"),
        ({"stuck": ["sctp4"]}, "loads that hang: sctp4"),
        ({"calm": _calm(received=499)}, "499 received"),
        ({"calm": _calm(forward=499)}, "499 packets in 'forward total', not 500"),
        ({"calm": _calm() | {"passed": PASSED | {"in stack": 999}}}, "999 packets in 'in stack'"),
        ({"calm": _calm() | {"passed": None}}, "no path stamps"),
    ],
)
def test_each_trouble_is_told(changes: dict[str, Any], words: str) -> None:
    assert any(words in text for text in _wrong(**changes)), _wrong(**changes)


def test_the_taint_of_a_report_that_is_not_ours_is_none_of_ours() -> None:
    def wrong(others: list[str], after: str) -> list[str]:
        result = verdict.parse(json.dumps(_report(taint=["0", after])))
        return verdict.complaints(result, [], True, others)

    assert wrong(["KMSAN: uninit-value in x+0x1/0x2"], "32") == []
    assert wrong(["KCSAN: data-race in x / y"], "32") != []
    assert wrong(["KMSAN: uninit-value in x+0x1/0x2"], "544") != []


def _phases(*seconds: float, silent: int) -> list[dict[str, Any]]:
    """Phases of these lengths; in that with the number `silent` no packet of udp4 arrives."""
    phases = []
    for number, length in enumerate(seconds):
        phase = json.loads(json.dumps(_report()["phases"][0]))
        phase |= {"name": f"phase {number}", "seconds": length}
        if number == silent:
            phase["loads"]["udp4"]["received"] = 0
        phases.append(phase)
    return phases


def test_a_kind_that_does_not_flow_is_told_with_its_phase() -> None:
    told = _wrong(phases=_phases(30, 30, silent=1))
    assert told == ["in the phase 'phase 1' nothing arrived by: udp4"]


@pytest.mark.parametrize(
    ("sent", "errors", "trouble"),
    [(0, 0, True), (50, 0, False), (100, 0, True), (0, 6, False), (0, 100, True)],
)
def test_a_kind_that_hardly_tried_is_not_judged(sent: int, errors: int, *, trouble: bool) -> None:
    phases = _phases(30, 30, silent=1)
    phases[1]["loads"]["udp4"] |= {"sent": sent, "errors": errors}
    assert bool(_wrong(phases=phases)) is trouble


def test_a_short_phase_is_not_judged_but_the_whole_is() -> None:
    assert _wrong(phases=_phases(30, 2, silent=1)) == []
    assert _wrong(phases=_phases(2, silent=0)) == []
    assert _wrong(phases=_phases(50, silent=0)) == ["nothing ever arrived by: udp4"]


def test_what_the_kernel_said_comes_first() -> None:
    assert _wrong("WARNING: CPU: 1")[0] == "the kernel said: WARNING: CPU: 1"


def test_loads_that_do_not_end_are_named_and_ended() -> None:
    def deaf(load: Load) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        load.sent()
        time.sleep(60)

    def idle(load: Load) -> None:
        load.sent()
        time.sleep(60)

    idles, deafs = [Load("idle", idle, 1), Load("idle as well", idle, 1)], [Load("deaf", deaf, 1)]
    for load in (*idles, *deafs):
        load.start()
    while not all(load.counts()[0] for load in (*idles, *deafs)):
        time.sleep(0.01)
    assert stop([*idles, Load("never started", idle, 1)]) == []
    assert stop(deafs, seconds=0.5) == ["deaf"]
    while deafs[0].alive():
        time.sleep(0.01)
    assert stop([*idles, *deafs]) == []


def test_a_damaged_report_is_an_error() -> None:
    with pytest.raises(SkblabError, match="damaged"):
        verdict.parse("Traceback\nKeyError: 1\n")


def test_kcsan_has_to_watch() -> None:
    assert _wrong(watched=5) == []
    assert _wrong(watched=0) == ["KCSAN watched nothing"]


def test_a_kernel_whose_cpus_run_at_once_does_not_rewrite_itself() -> None:
    actions = {step.action for step in plan.make(1, 60, plan.REWRITING).steps}
    assert actions == set(plan.ACTIONS) - plan.REWRITING
