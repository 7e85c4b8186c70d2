# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps one labgrid place for one job, as a process of its own; see place.py, which starts it.

A lock of labgrid's outlives who took it. So this process takes it, and gives it back as soon as
its standard input ends: the kernel closes that pipe however the job dies. It talks to the
coordinator itself: each call of labgrid-client takes most of a second of a CPU.

It is run by the Python that has labgrid, which may have nothing of skblab. It prints a line of JSON
whenever something happens: `is` says what (see `_say`), and `why` or `place` the rest.
"""

from __future__ import annotations

import contextlib
import json
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

# What labgrid's coordinator listens on, unless told otherwise.
PORT = 20408
# Of one call, in seconds.
ANSWER_SECONDS = 10.0
# A reservation lapses 60 s after it was asked for last.
POLL_SECONDS = 1.0
LOOK_SECONDS = 2.0
# Without an answer for so long, somebody else may have the place by now.
BLIND_SECONDS = 300.0
# How long the place is tried to be given back.
RELEASE_SECONDS = 30.0
WAITING, ALLOCATED, ACQUIRED = range(3)


class RefusedError(Exception):
    """The place cannot be had."""


class _Ended(BaseException):
    """A signal asked this process to end."""


def _say(what: str, **words: object) -> None:
    """Say what happens: waiting, held, blind, lost, refused or left."""
    # A job that was killed reads nothing any more, and the place has to be given back all the same.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"is": what, **words}) + "\n")
        sys.stdout.flush()


def _job_ended(seconds: float) -> bool:
    """Wait so long, or until the job ends; tell which."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


class Coordinator:
    """A session with labgrid's coordinator, under a name `HOST/USER`."""

    def __init__(self, address: str, name: str) -> None:
        import grpc
        from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
        from labgrid.remote.generated import labgrid_coordinator_pb2_grpc as calls

        self.address = address if address.rpartition(":")[2].isdigit() else f"{address}:{PORT}"
        self.name, self.messages, self.trouble = name, messages, grpc.RpcError
        self._channel = grpc.insecure_channel(self.address)
        self.stub = calls.CoordinatorStub(self._channel)
        self._out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._met = threading.Event()

    def meet(self) -> None:
        """Have the coordinator know our name; RefusedError if it does not answer."""
        from importlib.metadata import version

        startup = self.messages.ClientInMessage()
        startup.startup.name = self.name
        startup.startup.version = version("labgrid")
        sync = self.messages.ClientInMessage()
        sync.sync.id = 1
        self._out.put(startup)
        self._out.put(sync)
        # Its answers are in the order of what was asked.
        threading.Thread(target=self._listen, daemon=True).start()
        if not self._met.wait(ANSWER_SECONDS):
            raise RefusedError(f"no labgrid coordinator answers at {self.address}")

    def _asked(self) -> Iterator[Any]:
        while True:
            yield self._out.get()

    def _listen(self) -> None:
        try:
            for said in self.stub.ClientStream(self._asked(), wait_for_ready=True):
                if said.HasField("sync"):
                    self._met.set()
        except self.trouble:
            # Whoever asks for something next is told.
            return

    def call(self, what: str, **words: object) -> Any:  # noqa: ANN401 (labgrid has no types)
        """Ask for something, such as AcquirePlace; `trouble` if it is not to be had."""
        request = getattr(self.messages, f"{what}Request")(**words)
        return getattr(self.stub, what)(request, timeout=ANSWER_SECONDS)

    def places(self) -> dict[str, Any]:
        """Return all places by name."""
        return {place.name: place for place in self.call("GetPlaces").places}


def chosen(places: dict[str, Any], name: str | None, tags: dict[str, str]) -> str:
    """Return the place that a hosts file means; RefusedError if it is not exactly one."""
    if name is not None:
        if name not in places:
            there = ", ".join(sorted(places)) or "none"
            raise RefusedError(f"there is no place {name}: expected one of labgrid's ({there})")
        return name
    found = [
        place.name
        for place in places.values()
        if all(place.tags.get(key) == value for key, value in tags.items())
    ]
    if len(found) != 1:
        words = " ".join(f"{key}={value}" for key, value in tags.items())
        raise RefusedError(
            f"{len(found)} places have the tags {words}"
            f"{': ' if found else ''}{', '.join(sorted(found))}; expected tags of one place, as "
            "the hosts file says how to reach the machines of one"
        )
    return str(found[0])


class Keeping:
    """One place and what we have of it: a reservation until it is ours, then the lock."""

    def __init__(self, there: Coordinator, place: str) -> None:
        self.there, self.place = there, place
        self.token = ""

    def take(self) -> bool:
        """Wait for the place and lock it; False if the job ended meanwhile."""
        told = None
        while True:
            if not self.token:
                self._reserve()
            asked = self.there.call("PollReservation", token=self.token).reservation
            if asked.state == ALLOCATED:
                self.there.call("AcquirePlace", placename=self.place)
                # The lock is enough, and what was released with its reservation is nobody's until
                # the coordinator looks through all of them, each 15 s.
                self._cancel()
                return True
            if asked.state != WAITING:
                # It lapsed, as this machine slept for example.
                self.token = ""
                continue
            if (who := self._who()) and who != told:
                told = who
                _say("waiting", why=f"{who[0]} since {_clock(who[1])}", place=self.place)
            if _job_ended(POLL_SECONDS):
                return False

    def _reserve(self) -> None:
        wanted = {"main": self.there.messages.Reservation.Filter(filter={"name": self.place})}
        made = self.there.call("CreateReservation", filters=wanted, prio=0.0)
        self.token = made.reservation.token

    def _who(self) -> tuple[str, float] | None:
        """Return who has the place or is the next, and since when in seconds since 1970."""
        place = self.there.places().get(self.place)
        if place is None:
            raise RefusedError(f"the place {self.place} is gone from labgrid")
        if place.acquired:
            return f"{place.acquired} has it", place.changed
        for other in self.there.call("GetReservations").reservations:
            if other.token == place.reservation:
                return f"it is reserved for {other.owner}", other.created
        return None

    def watch(self) -> None:
        """Return when the job has ended, or the lock is lost, which is said."""
        seen, blind = time.monotonic(), False
        while not _job_ended(LOOK_SECONDS):
            try:
                place = self.there.places().get(self.place)
            except self.there.trouble as trouble:
                if not blind:
                    _say("blind", why=_details(trouble))
                blind = True
                if time.monotonic() - seen > BLIND_SECONDS:
                    _say("lost", why=f"labgrid did not answer for {BLIND_SECONDS:.0f} s")
                    return
                continue
            seen, blind = time.monotonic(), False
            if place is None:
                _say("lost", why="it is gone from labgrid")
                return
            if place.acquired != self.there.name:
                when = _clock(place.changed)
                _say(
                    "lost",
                    why=f"{place.acquired} has it since {when}"
                    if place.acquired
                    else f"somebody released it at {when}, or labgrid's coordinator was restarted",
                )
                return

    def leave(self) -> None:
        """Give the place back if it is ours; it is said if that cannot be done."""
        deadline = time.monotonic() + RELEASE_SECONDS
        while True:
            try:
                # Only if it is ours, whatever happened: the coordinator compares.
                self.there.call("ReleasePlace", placename=self.place, fromuser=self.there.name)
                break
            except self.there.trouble as trouble:
                if trouble.code().name == "INVALID_ARGUMENT":
                    # The place is gone, and our lock with it.
                    break
                if time.monotonic() > deadline:
                    _say("left", why=_details(trouble), place=self.place)
                    return
                time.sleep(POLL_SECONDS)
        self._cancel()

    def _cancel(self) -> None:
        """Have no reservation any more."""
        if not self.token:
            return
        # If it cannot be, it is gone already, or lapses within a minute.
        with contextlib.suppress(self.there.trouble):
            self.there.call("CancelReservation", token=self.token)
        self.token = ""


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _details(trouble: Exception) -> str:
    details = getattr(trouble, "details", None)
    return str(details() if callable(details) else trouble)


def keep(coordinator: str, name: str, place: str | None, tags: dict[str, str]) -> None:
    """Have a place from when it is free until the job ends, and say what happens."""
    there = Coordinator(coordinator, name)
    keeping = None
    try:
        there.meet()
        keeping = Keeping(there, chosen(there.places(), place, tags))
        if keeping.take():
            _say("held", place=keeping.place)
            keeping.watch()
    except RefusedError as refused:
        _say("refused", why=str(refused))
    except there.trouble as trouble:
        _say("refused", why=_details(trouble))
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if keeping is not None:
            keeping.leave()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise _Ended


def main() -> None:
    """Keep the place that the first argument asks for, in JSON."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        keep(**json.loads(sys.argv[1]))
    except _Ended:
        sys.exit(1)


if __name__ == "__main__":
    # Modules beside this one are no libraries.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    main()
