# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan of a test run, as hooks of pytest: order, workers, slices, and the table in the end.

`conftest.py` imports the hooks by name. With pytest-xdist each worker collects and chooses by
itself, all alike; the controller tells the expected time and writes what the tests took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from skblab.lab.guest import eventlog
from tiers import outcomes, schedule

# A busy machine takes longer than the one that durations are from.
SPARE = 1.5

# Of all tests that were collected, those that are slow.
SLOW = pytest.StashKey[frozenset[str]]()
_begun = pytest.StashKey[float]()
_results = pytest.StashKey[outcomes.Outcomes]()
_logs = pytest.StashKey[Path]()
_announced = pytest.StashKey[bool]()
_spent = pytest.StashKey[float]()
_durations = pytest.StashKey[Mapping[str, schedule.Duration]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the tiers."""
    group = parser.getgroup("tiers", "which tests of the slow tier run")
    group.addoption(
        "--slice-of", type=int, metavar="N", help="of the slow tests, those of commit number N"
    )
    group.addoption(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="how long the tests may take; no slow test begins that would end later",
    )
    group.addoption(
        "--outcomes",
        type=Path,
        metavar="FILE",
        help="keep each test's outcome there; those that passed according to it do not run again",
    )
    group.addoption(
        "--full", action="store_true", help="slow tests at full scale: all packets, kills and cases"
    )
    group.addoption(
        "--since",
        type=int,
        metavar="N",
        help="no slow test that passed at full scale in commit number N or later, as stored",
    )
    group.addoption("--table", type=Path, metavar="FILE", help="write what each test took there")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the run's clock and outcomes; ask xdist not to sort groups itself."""
    config.addinivalue_line(
        "markers", "console(pattern): guests may complain of this on their consoles"
    )
    config.stash[_begun] = time.time()
    if _is_controller(config):
        config.stash[_results] = outcomes.Outcomes(config.getoption("--outcomes"))
        config.option.loadscopereorder = False


def _is_controller(config: pytest.Config) -> bool:
    """Tell whether this process is not a worker of another one."""
    return not hasattr(config, "workerinput")


def _workers(config: pytest.Config) -> int:
    if hasattr(config, "workerinput"):
        return int(config.workerinput["workercount"])
    return int(getattr(config.option, "numprocesses", None) or 1)


def _side_by_side(config: pytest.Config) -> int:
    """Return how many tests get on at a time: slow ones keep a processor busy each."""
    if config.getoption("--slice-of") is None:
        return _workers(config)
    return min(_workers(config), os.cpu_count() or 1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what runs the command as a program of its own."""
    if "run_skblab" in getattr(item, "fixturenames", ()):
        item.add_marker("process")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Choose the slice and leave out what passed before; put the longest groups first."""
    # Before `-m` leaves out any.
    config.stash[SLOW] = frozenset(item.nodeid for item in items if "slow" in item.keywords)
    yield
    durations = schedule.read()
    keep = {item.nodeid for item in items}
    if (commit := config.getoption("--slice-of")) is not None:
        chosen = schedule.choose(keep, durations, commit=commit, workers=_side_by_side(config))
        keep = set(chosen.tests)
    if (file := config.getoption("--outcomes")) is not None:
        keep -= outcomes.passed(file)
    if (since := config.getoption("--since")) is not None:
        keep -= schedule.passed_since(since, durations)
    left_out = [item for item in items if item.nodeid not in keep]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    kept = {item.nodeid: item for item in items if item.nodeid in keep}
    full = config.getoption("--full")
    turn = (commit or 0) // schedule.SLICES
    items[:] = [kept[name] for name in schedule.ordered(kept, durations, full=full, turn=turn)]
    config.stash[_durations] = durations


class Grouped(LoadScopeScheduling):  # type: ignore[misc]
    """A scheduler of xdist that keeps the tests of a group on one worker, in order."""

    def _split_scope(self, nodeid: str) -> str:
        return schedule.group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Grouped:
    """Have xdist hand out groups."""
    return Grouped(config, log)


def pytest_xdist_node_collection_finished(node: object, ids: list[str]) -> None:
    """Say before the first test how long the run will take, once."""
    config = node.config  # type: ignore[attr-defined]
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if config.stash.get(_announced, False) or reporter is None:
        return
    config.stash[_announced] = True
    durations = schedule.read()
    for line in outcomes.announcement(
        *(ids, durations, _side_by_side(config), config.getoption("--slice-of")),
        full=config.getoption("--full"),
    ):
        reporter.write_line(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the processor time before a test; give each with guests a log of those it boots."""
    item.stash[_spent] = outcomes.processor_seconds()
    if item.get_closest_marker("guest") is None:
        return (yield)
    folder = item.config.stash.get(_logs, None)
    if folder is None:
        factory = item.session.config._tmp_path_factory  # type: ignore[attr-defined]
        folder = item.config.stash[_logs] = factory.mktemp("guests")
    log = folder / f"{len(list(folder.iterdir()))}.jsonl"
    log.touch()
    os.environ[eventlog.VARIABLE] = str(log)
    try:
        return (yield)
    finally:
        del os.environ[eventlog.VARIABLE]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test that would end after the budget; what was left is skipped, and says why."""
    budget = item.config.getoption("--budget")
    if budget is None:
        return
    spent = time.time() - item.config.stash[_begun]
    takes = schedule.seconds(item.nodeid, item.config.stash[_durations])
    if spent + SPARE * takes > 60 * budget:
        pytest.skip(
            f"{spent / 60:.0f} of {budget:g} minutes are spent, and it takes {takes:.0f} s: "
            f"the slice of {schedule.SLICES} commits on has it, and begins with others"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a test's scale, processor time and guests; a complaint of a kernel fails it."""
    report = yield
    if call.when == "teardown":
        spent = outcomes.processor_seconds() - item.stash[_spent]
        scaled = item.config.getoption("--full") and "full" in getattr(item, "fixturenames", ())
        report.user_properties += [(outcomes.SCALED, scaled), (outcomes.PROCESSOR, spent)]
    if call.when != "teardown" or eventlog.VARIABLE not in os.environ:
        return report
    events = eventlog.read(Path(os.environ[eventlog.VARIABLE]))
    starts = sum(event.event == eventlog.STARTED for event in events)
    again = sum(event.event == eventlog.AGAIN for event in events)
    report.user_properties += [(outcomes.BOOTS, starts), (outcomes.AGAIN, again)]
    allowed = [str(mark.args[0]) for mark in item.iter_markers("console")]
    complaints = outcomes.complaints(events, allowed)
    if complaints and report.outcome == "passed":
        report.outcome = "failed"
        report.longrepr = "a guest's kernel complained:\n" + "\n".join(complaints)
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a phase of a test took."""
    if _collected is not None:
        _collected.add(report)


# logreport has no config; the controller's own outcomes, while its session lasts.
_collected: outcomes.Outcomes | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to collect outcomes, in the controller only."""
    global _collected
    if _is_controller(session.config):
        _collected = session.config.stash[_results]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the table, say what was started again, and what the slice left to others."""
    results = config.stash.get(_results, None)
    if results is None:
        return
    for line in results.summary():
        terminalreporter.write_line(line)
    if (file := config.getoption("--table")) is not None:
        results.write_table(file)
        terminalreporter.write_line(f"what each test took: {file}")
