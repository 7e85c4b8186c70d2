# SPDX-License-Identifier: GPL-2.0-or-later
"""pktsink as a testbed starts it: what it is asked for, what it says, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence

import made_up_arrivals
import pytest

from skblab.machine.transport import LocalTransport, Running
from skblab.machine.transport.base import Done
from skblab.testbeds import sink
from skblab.testbeds.sink import Place, Sink, counting
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import SkblabError, UsageError

PROGRAM = "/tools/pktsink"
DOCUMENT = json.dumps(made_up_arrivals.document([20_000, 30_000])) + "\n"


class FakeRunning:
    """A command that is ready, and prints `text` when it is interrupted."""

    def __init__(self, text: str, done: Done | None = None) -> None:
        self.text = text
        self.done = done
        self.interrupted = 0

    def wait_for(self, text: str, seconds: float) -> None:
        raise AssertionError("nobody waits so")

    def send(self, text: str) -> None:
        raise AssertionError("nobody sends it anything")

    def take_errors(self) -> str:
        raise AssertionError("nobody asks for its errors")

    def said(self, text: str) -> bool:
        return text == "ready"

    def running(self) -> bool:
        return self.done is None

    def take_lines(self) -> list[str]:
        if self.done is None or self.done.status:
            return []
        text, self.text = self.text, ""
        return text.splitlines(keepends=True)

    def interrupt(self) -> None:
        self.interrupted += 1
        self.done = self.done or Done(0, self.text, "ready\n")

    def end_input(self) -> None:
        raise AssertionError("it is asked to end")

    def wait(self, seconds: float) -> Done:
        assert self.done is not None
        return self.done


class FakeTransport(LocalTransport):
    """Gives one command that was made before."""

    def __init__(self, running: FakeRunning) -> None:
        self.running = running
        self.argv: list[str] = []

    def start(self, argv: Sequence[str]) -> Running:
        self.argv = [*argv]
        return self.running


S0 = Place("s0", "sink")


def test_options_are_those_of_the_program() -> None:
    assert Sink(Place("eth1")).options() == ["--device", "eth1"]
    whole = Sink(
        S0, Place("g0", "generator"), late_us=(250.0, 0.5), run=2, first=9, last=25, passes=True
    )
    assert whole.options() == [
        *("--device", "s0", "--netns", "sink", "--stamp", "g0", "--stamp-netns", "generator"),
        *("--late", "250us", "--late", "0.5us", "--run", "2", "--first", "9", "--last", "25"),
        "--pass",
    ]


def test_it_is_started_asked_to_end_and_read() -> None:
    transport = FakeTransport(FakeRunning(DOCUMENT))
    with counting(transport, PROGRAM, Sink(S0)) as counted:
        assert transport.argv == [PROGRAM, "--device", "s0", "--netns", "sink"]
        assert transport.running.interrupted == 0
        found = counted.end()
        assert counted.end() is found
    assert found.packets.distinct == 2
    assert transport.running.interrupted == 1


def test_it_ends_with_its_block() -> None:
    transport = FakeTransport(FakeRunning(DOCUMENT))
    with counting(transport, PROGRAM, Sink(S0)) as counted:
        pass
    assert transport.running.interrupted == 1
    assert counted.end().packets.lost == 0
    transport = FakeTransport(FakeRunning(DOCUMENT))
    with pytest.raises(KeyError), counting(transport, PROGRAM, Sink(S0)):
        raise KeyError
    assert transport.running.interrupted == 1


def test_what_it_refuses_is_said_in_its_words() -> None:
    refused = Done(2, "", "pktsink: --device s9: no such device in namespace sink\n")
    transport = FakeTransport(FakeRunning("", refused))
    with (
        pytest.raises(UsageError, match=r"^--device s9: no such device in namespace sink$"),
        counting(transport, PROGRAM, Sink(Place("s9", "sink"))),
    ):
        raise AssertionError


def test_an_end_without_a_document_is_said() -> None:
    running = FakeRunning("")
    with (
        pytest.raises(
            SkblabError, match=r"pktsink ended without a document \(exit 2\): .* has gone"
        ),
        counting(FakeTransport(running), PROGRAM, Sink(S0)) as counted,
    ):
        running.done = Done(2, "", "ready\npktsink: --device s0: the device has gone\n")
        counted.end()


def test_a_document_that_contradicts_itself_is_refused() -> None:
    made = made_up_arrivals.document([20_000])
    made["packets"]["lost"] = 1
    transport = FakeTransport(FakeRunning(json.dumps(made) + "\n"))
    with (
        pytest.raises(RecordError, match="the document of pktsink is not as expected: packets"),
        counting(transport, PROGRAM, Sink(S0)),
    ):
        pass


def test_one_that_is_never_ready_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FakeRunning):
        def said(self, text: str) -> bool:
            return False

    monkeypatch.setattr("skblab.machine.reading.ATTACH_SECONDS", 0)
    running = Silent(DOCUMENT)
    with (
        pytest.raises(UsageError, match="pktsink was not attached in 0 s"),
        sink.counting(FakeTransport(running), PROGRAM, Sink(S0)),
    ):
        raise AssertionError
    assert running.interrupted == 1
