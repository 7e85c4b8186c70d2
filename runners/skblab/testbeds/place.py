# SPDX-License-Identifier: GPL-2.0-or-later
"""A place of labgrid's: router and tester together, which others cannot have at the same time.

A process of its own has the place for us (keeper.py) and gives it back when we end, however we do.
Each job has a name of its own in labgrid: two sweeps of one user are two users there.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import json
import os
import queue
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from skblab.lab.reporter import Reporter
from skblab.testbeds.hostsfile import Labgrid
from skblab_analysis.base.errors import SkblabError, UsageError, one_line

KEEPER = Path(__file__).with_name("keeper.py")
# Where labgrid's own programs look for it, without LG_COORDINATOR.
COORDINATOR = "127.0.0.1:20408"
# More than the keeper takes to give a place back.
END_SECONDS = 60.0


class LostError(SkblabError):
    """The place is not ours any more."""


class Booked:
    """A place that is ours; `name` is who has it, as labgrid says it."""

    def __init__(self, keeper: subprocess.Popen[str], name: str, reporter: Reporter) -> None:
        self.name, self.place = name, ""
        self._keeper, self._reporter = keeper, reporter
        self._heard: queue.SimpleQueue[dict[str, str] | None] = queue.SimpleQueue()
        self._lost = ""
        assert keeper.stdout is not None
        self._ear = threading.Thread(target=self._listen, args=(keeper.stdout,), daemon=True)
        self._ear.start()

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:
                # What Python says of a fault, or a library of its troubles.
                said = {"is": "noise", "why": line}
            self._heard.put(said)
        self._heard.put(None)

    def wait(self) -> None:
        """Wait until the place is ours; UsageError if that cannot be."""
        noise = ""
        while (said := self._heard.get()) is not None:
            match said["is"]:
                case "held":
                    self.place = said["place"]
                    return
                case "waiting":
                    self._reporter.say(
                        f"waiting for the labgrid place {said['place']}: {said['why']}"
                    )
                case "refused":
                    raise UsageError(
                        f"[labgrid] in the hosts file: {said['why']}; see labgrid-client places"
                    )
                case _:
                    noise = said["why"]
        raise SkblabError(f"what keeps the labgrid place ended: {one_line(noise)}")

    def lost(self) -> str:
        """Return why the place is not ours any more; empty while it is."""
        while not self._lost:
            try:
                said = self._heard.get_nowait()
            except queue.Empty:
                break
            if said is None:
                self._lost = "the process that keeps it ended"
            elif said["is"] == "lost":
                self._lost = said["why"]
            elif said["is"] == "blind":
                self._reporter.say(
                    f"labgrid does not answer ({one_line(said['why'])}): whether the place "
                    f"{self.place} is still ours is not known until it does"
                )
        return self._lost

    def check(self) -> None:
        """Raise LostError if the place is not ours any more."""
        if why := self.lost():
            raise LostError(f"the labgrid place {self.place} is not ours any more: {why}")

    def end(self) -> None:
        """Have the place given back, and say so if that failed."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        try:
            self._keeper.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._ear.join(1.0)
        left = self._keeper.returncode != 0
        while not self._heard.empty():
            said = self._heard.get()
            left = left or (said is not None and said["is"] == "left")
        if left:
            self._reporter.say(
                f"the labgrid place {self.place} may still be locked; to free it: labgrid-client "
                f"-p {self.place or 'PLACE'} release-from {self.name}"
            )


def _python() -> str:
    """Return the Python that has labgrid: ours, or that of labgrid-client; UsageError if none."""
    if importlib.util.find_spec("labgrid") is not None:
        return sys.executable
    if program := shutil.which("labgrid-client"):
        # In an environment of its own, where a link may lead to it (pipx).
        file = Path(program).resolve()
        beside = file.with_name("python3")
        if beside.exists():
            return str(beside)
        first = file.read_bytes().partition(b"\n")[0].decode(errors="replace")
        if first.startswith("#!") and Path(first[2:].strip()).exists():
            return first[2:].strip()
    raise UsageError(
        "the hosts file names a labgrid place, and labgrid is not here: install it, for example "
        "with pipx install labgrid (25 or later), so that labgrid-client is in your PATH"
    )


def owner(job: str) -> str:
    """Return who a job is in labgrid, HOST/USER: a name that no other job has."""
    host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
    user = os.environ.get("LG_USERNAME") or getpass.getuser()
    # labgrid takes one apart at each `/`.
    plain = re.sub(r"[^\w.:-]", "-", f"{user}-skblab-{job}-{secrets.token_hex(2)}")
    return f"{host.replace('/', '-')}/{plain}"


# What this process has by now, by what was asked for.
_ours: dict[str, Booked] = {}


@contextlib.contextmanager
def held(asked: Labgrid | None, job: str, reporter: Reporter) -> Iterator[Booked | None]:
    """Have the place that a hosts file names, if it names one, and give it back at the end.

    `job` is part of the name by which others see who has it. What has a place of its own accord,
    such as a tune of several sweeps, has it for all that is within. UsageError if it cannot be had.
    """
    if asked is None:
        yield None
        return
    key = asked.model_dump_json()
    if key in _ours:
        yield _ours[key]
        return
    name = owner(job)
    words = {
        "coordinator": asked.coordinator or COORDINATOR,
        "name": name,
        "place": asked.place,
        "tags": asked.filter or {},
    }
    keeper = subprocess.Popen(
        [_python(), str(KEEPER), json.dumps(words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # What interrupts us, such as Ctrl-C, must not end it before the place is given back.
        start_new_session=True,
        # gRPC's own lines would be many while a coordinator is away.
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )
    booked = Booked(keeper, name, reporter)
    try:
        booked.wait()
        reporter.say(f"the labgrid place {booked.place} is ours, as {name}")
        _ours[key] = booked
        yield booked
    finally:
        _ours.pop(key, None)
        booked.end()
