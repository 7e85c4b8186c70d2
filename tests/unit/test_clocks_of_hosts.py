# SPDX-License-Identifier: GPL-2.0-or-later
"""The clocks of several machines: compared before and after each trial of a traffic file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from made_up_clocks import SAID
from test_traffic_run import HEAD, Machine, Program, flow, tcp

from skblab.machine.transport import Running, Transport
from skblab.machine.transport.base import Done
from skblab.traffic import running
from skblab.traffic.clock_lines import NANOSECONDS, Line
from skblab.traffic.clocks import SET, Clocks
from skblab.traffic.ends import ends
from skblab.traffic.hosts import Host, Hosts
from skblab_analysis.traffic.rows import Exchanged

SECOND = NANOSECONDS


def told(at: int, ahead: int) -> Done:
    """Return what the program prints whose bounds are 10 ns around what it found."""
    bounds = {
        "most": {"at_ns": at, "ahead_ns": ahead + 10},
        "least": {"at_ns": at, "ahead_ns": ahead - 10},
    }
    found = {"ahead": {"ahead_ns": ahead, "off_ns": 10, "at_ns": at, "there_ns": at}}
    return Done(0, json.dumps(SAID | bounds | found), "")


UNKNOWN = {"ahead": None, "unknown": "no probe came back", "most": None, "least": None, "far": None}


@dataclass
class Probed(Machine):
    """A machine whose probes print these documents one after the other."""

    clocks: list[Done] = field(default_factory=list)
    echo: Done = field(default_factory=lambda: Done(0, "{}", ""))

    def start(self, argv: Sequence[str]) -> Running:
        if argv[1] not in ("clock", "echo"):
            return super().start(argv)
        # An echo goes on until it is told to end.
        made = (
            Program(argv, self.clocks.pop(0))
            if argv[1] == "clock"
            else Program(argv, self.echo, goes_on=True)
        )
        self.started.append(made)
        return cast(Running, made)


def apart(machine: Machine) -> Hosts:
    found = {
        name: Host(name, cast(Transport, machine), "skblab-traffic", {4: f"192.0.2.{number}"})
        for number, name in enumerate(("a", "b"), 1)
    }
    return Hosts(found, one_clock=False, where="machines", environment=lambda: pytest.fail())


def test_a_receiver_is_told_by_how_much_its_clock_is_ahead() -> None:
    machine = Probed(clocks=[told(SECOND, 500), told(2 * SECOND, 530)])
    clocks = Clocks(apart(machine))
    lines = clocks.lines([flow()])
    assert lines == {("a", "b"): Line(500, SECOND, 0)}
    [(commands, _, _)] = running.exchange([flow()], apart(machine), lines)
    words = " ".join(commands.receiver)
    assert "--clock-ahead 500 --clock-drift 0 --clock-at 1000000500" in words
    assert "--same-clock" not in words
    # At the end it is ahead by 540 at most, where it was told 500.
    assert clocks.off([flow()], lines) == {("a", "b"): 40}
    # The next one is told of the drift that was seen.
    machine.clocks = [told(3 * SECOND, 560)]
    assert clocks.lines([flow()]) == {("a", "b"): Line(560, 3 * SECOND, 30)}


def test_an_echo_is_ready_before_probes_are_sent_and_told_to_end_after_them() -> None:
    machine = Probed(clocks=[told(SECOND, 0)])
    Clocks(apart(machine)).lines([flow()])
    echo, clock = machine.started
    assert echo.argv[1:4] == ["echo", "--bind", "192.0.2.2:5000"] and echo.interrupted
    assert clock.argv[1:4] == ["clock", "--to", "192.0.2.2:5000"]


def test_each_pair_is_compared_once_and_tcp_needs_none() -> None:
    machine = Probed(clocks=[told(SECOND, 5), told(SECOND, -5)])
    back = flow(**{"name": "back", "from": "b", "to": "a"})
    twice = flow(name="again", port=5001)
    lines = Clocks(apart(machine)).lines([flow(), back, twice, tcp()])
    assert lines == {("a", "b"): Line(5, SECOND, 0), ("b", "a"): Line(-5, SECOND, 0)}
    assert not Clocks(apart(machine)).lines([tcp()])


def test_where_clocks_cannot_be_compared_no_delay_is_asked_for() -> None:
    nothing = Done(1, json.dumps(SAID | UNKNOWN | {"unknown": SET}), "a clock was set")
    machine = Probed(clocks=[nothing, told(2 * SECOND, 0)])
    clocks = Clocks(apart(machine))
    lines = clocks.lines([flow()])
    assert lines == {("a", "b"): SET}
    [(commands, _, _)] = running.exchange([flow()], apart(machine), lines)
    assert not {"--clock-ahead", "--same-clock"} & set(commands.receiver)
    assert clocks.off([flow()], lines) == lines


def test_a_probe_that_fails_after_the_trial_takes_its_delays_away() -> None:
    machine = Probed(clocks=[told(SECOND, 0), Done(2, "", "skblab-traffic: no such option")])
    clocks = Clocks(apart(machine))
    off = clocks.off([flow()], clocks.lines([flow()]))
    why = off["a", "b"]
    assert isinstance(why, str) and "no such option" in why and "\n" not in why
    # The echo does not outlive it.
    assert all(one.interrupted for one in machine.started if one.argv[1] == "echo")


def test_a_clock_that_was_set_takes_delays_away_and_is_begun_anew() -> None:
    machine = Probed(clocks=[told(SECOND, 0), told(2 * SECOND, SECOND), told(3 * SECOND, SECOND)])
    clocks = Clocks(apart(machine))
    assert clocks.off([flow()], clocks.lines([flow()])) == {("a", "b"): SET}
    # Otherwise it would be told a drift of a second each second.
    assert clocks.lines([flow()]) == {("a", "b"): Line(SECOND, 3 * SECOND, 0)}


def test_an_echo_that_fails_is_said() -> None:
    machine = Probed(clocks=[told(SECOND, 0)], echo=Done(2, "", "the port is taken"))
    [why] = Clocks(apart(machine)).lines([flow()]).values()
    assert isinstance(why, str) and "the port is taken" in why


def test_what_a_trial_stores_is_by_these_clocks() -> None:
    hosts = apart(Machine())
    command = ends(flow(), hosts.by_name["a"], hosts.by_name["b"], Line(0, 0, 0))
    [(_, sent, came)] = running.exchange([flow()], hosts)
    trial = command.measured(HEAD, sent, came)
    assert isinstance(trial, Exchanged)
    assert trial.by_clocks(7).clock_off == 7
    without = trial.by_clocks("nobody knows").receiver
    assert (without.delay, without.delay_unknown) == (None, "nobody knows")


def test_a_garbled_document_is_one_line() -> None:
    machine = Probed(clocks=[Done(0, "{", "")])
    [why] = Clocks(apart(machine)).lines([flow()]).values()
    assert isinstance(why, str) and "the document of compared clocks" in why


def test_a_clock_that_was_set_between_trials_tells_no_drift() -> None:
    seconds = (told(SECOND, 0), told(2 * SECOND, 10), told(3 * SECOND, 50_000_000))
    machine = Probed(clocks=list(seconds))
    clocks = Clocks(apart(machine))
    assert clocks.off([flow()], clocks.lines([flow()])) == {("a", "b"): 20}
    assert clocks.lines([flow()]) == {("a", "b"): Line(50_000_000, 3 * SECOND, 0)}


def test_who_answers_no_probe_is_not_asked_again() -> None:
    silent = Done(1, json.dumps(SAID | UNKNOWN | {"answered": 0}), "nothing came back")
    machine = Probed(clocks=[silent])
    clocks = Clocks(apart(machine))
    for _ in range(3):
        assert clocks.lines([flow()]) == {("a", "b"): "no probe came back"}
    assert [one.argv[1] for one in machine.started] == ["echo", "clock"]
