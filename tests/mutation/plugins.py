# SPDX-License-Identifier: GPL-2.0-or-later
"""What sits in pytest: one that draws the map of lines to tests, one that tries mutants.

The second collects once, then forks for each mutant. The child puts the broken code into the
functions that are there already, which takes a tenth of a second instead of two.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import resource
import shutil
import signal
import tempfile
import time
import types
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import pytest

from mutation.selection import FIXTURE

# A broken program may ask for any amount of memory, and compute for ever.
MEMORY = 8 << 30
# The slowest test sleeps for ten seconds.
ASLEEP = 60.0
LEFT_OVER = -1


def steady() -> None:
    """Let property tests give the same answer each time, however slow the machine is."""
    hypothesis.settings.register_profile(
        "mutation", deadline=None, derandomize=True, database=None, print_blob=False
    )
    hypothesis.settings.load_profile("mutation")


class Mapper:
    """Notes which test executes which line, and how long it takes."""

    def __init__(self, cover: coverage.Coverage, notes: Path) -> None:
        self.cover = cover
        self.notes = notes
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.fixtures: dict[str, list[str]] = {}
        self.caches: list[Any] = []

    def switch(self, name: str) -> None:
        """Say whose lines come now, here and in the processes that are started."""
        self.cover.switch_context(name)
        os.environ["MUTATION_TEST"] = name

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Find what remembers results: the second test to ask would execute nothing."""
        kind = functools._lru_cache_wrapper
        self.caches = [
            thing
            for thing in gc.get_objects()
            if isinstance(thing, kind) and str(thing.__module__).startswith(("skblab", "test_"))
        ]
        for item in session.items:
            for name in getattr(item, "fixturenames", ()):
                self.fixtures.setdefault(FIXTURE + name, []).append(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        for cache in self.caches:
            cache.cache_clear()
        self.switch(item.nodeid)
        begin = time.process_time() + children()
        try:
            return (yield)
        finally:
            self.switch("")
            self.seconds[item.nodeid] = time.process_time() + children() - begin

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Take what several tests share for all that have it."""
        if fixturedef.scope == "function":
            return (yield)
        before = os.environ.get("MUTATION_TEST", "")
        self.switch(FIXTURE + fixturedef.argname)
        try:
            return (yield)
        finally:
            self.switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def keep(self) -> None:
        """Write the notes."""
        self.notes.write_text(
            json.dumps({"seconds": self.seconds, "failed": self.failed, "fixtures": self.fixtures})
        )


def children() -> float:
    """Return the seconds of CPU of all processes that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


@dataclass
class Job:
    """A mutant to be tried."""

    number: int
    path: str
    source: str
    code: types.CodeType
    function: str
    first_line: int
    tests: list[str]
    seconds: float


Done = Callable[[int, str], None]


class Trier:
    """Instead of running all tests, runs for each mutant those that can notice it."""

    def __init__(self, jobs: list[Job], done: Done) -> None:
        self.jobs = jobs
        self.done = done
        self.pipe = LEFT_OVER

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self.functions = functions()
        for job in self.jobs:
            with Broken(job):
                self.done(job.number, forked(job, partial(self.run, items, job)))
        return True

    def run(self, items: dict[str, pytest.Item], job: Job, pipe: int) -> int:
        """Run a mutant's tests in a process of its own."""
        held = self.functions.get((job.path, job.function, job.first_line), [])
        if not replaced(job, held):
            return 3
        self.pipe = pipe
        chosen = [items[test] for test in job.tests if test in items]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tell(self.pipe, report)


class Picked:
    """In a fresh process: only the tests that are asked for, and the first failure ends it."""

    def __init__(self, tests: list[str], pipe: int) -> None:
        self.tests = tests
        self.pipe = pipe

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: number for number, name in enumerate(self.tests)}
        # What is called otherwise by a mutant is run, too: the names come from the program.
        files = {item.path for item in items if item.nodeid in order}
        items[:] = [item for item in items if item.nodeid in order or item.path not in files]
        items.sort(key=lambda item: order.get(item.nodeid, len(order)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tell(self.pipe, report)


def tell(pipe: int, report: pytest.TestReport) -> None:
    """End this process at the first failure, and say which it was."""
    if report.failed and pipe != LEFT_OVER:
        os.write(pipe, report.nodeid.encode()[:4000])
        os._exit(1)


class Broken:
    """Has the broken source in the (copied) tree, for the processes that tests start."""

    def __init__(self, job: Job) -> None:
        self.path, self.text = Path(job.path), job.source

    def __enter__(self) -> None:
        self.kept = self.path.read_bytes()
        self.times = self.path.stat()
        self.path.write_text(self.text)

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.kept)
        # Python takes compiled code for current by size and time.
        os.utime(self.path, ns=(self.times.st_atime_ns, self.times.st_mtime_ns))


Place = tuple[str, str, int]


def functions() -> dict[Place, list[types.FunctionType]]:
    """Return all functions that there are, by where they are written."""
    found: dict[Place, list[types.FunctionType]] = {}
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType):
            code = thing.__code__
            place = (code.co_filename, code.co_qualname, code.co_firstlineno)
            found.setdefault(place, []).append(thing)
    return found


def replaced(job: Job, held: list[types.FunctionType]) -> bool:
    """Put the broken code into the function wherever it is held; say whether that was possible."""

    def inside(code: types.CodeType) -> types.CodeType | None:
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                if (constant.co_qualname, constant.co_firstlineno) == (
                    job.function,
                    job.first_line,
                ):
                    return constant
                if found := inside(constant):
                    return found
        return None

    code = inside(job.code)
    if code is None or not held:
        return False
    try:
        for function in held:
            function.__code__ = code
    except ValueError:
        # It closes over other names now.
        return False
    return True


def forked(job: Job, work: Callable[[int], int]) -> str:
    """Return what came of a mutant: the test that noticed it, or how it ended."""
    folder = tempfile.mkdtemp(prefix="mutant-")
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        status = 4
        try:
            os.close(reading)
            os.setsid()
            quiet = os.open("/dev/null", os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            os.environ["TMPDIR"] = folder
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            tempfile.tempdir = folder
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            limit = int(20 + 4 * job.seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            status = work(writing)
        finally:
            os._exit(status)
    os.close(writing)
    ended = waited(pid, ASLEEP)
    # In a process namespace of our own: whatever the tests have left.
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    said = os.read(reading, 4096).decode()
    os.close(reading)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    shutil.rmtree(folder, ignore_errors=True)
    if said:
        return f"killed by {said}"
    return {"0": "survived", "3": "fresh"}.get(ended, f"killed: ended with {ended}")


def waited(pid: int, seconds: float) -> str:
    """Return how a process ended, which is killed when it has slept for `seconds`.

    What waits for a CPU is not counted: how much it computes has a limit of its own.
    """
    slept, pause = 0.0, 0.005
    while slept < seconds:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(pause)
        if Path("/proc", str(pid), "stat").read_text().rpartition(") ")[2][0] != "R":
            slept += pause
        pause = min(pause * 1.3, 0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "asleep"
