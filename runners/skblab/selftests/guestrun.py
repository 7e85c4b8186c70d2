# SPDX-License-Identifier: GPL-2.0-or-later
"""Running selftests in guests, one after the other, and judging each by all that can be seen."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from skblab.lab.guest.chosen import make_spec
from skblab.lab.guest.errors import GuestError
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.machine.guest import Guest
from skblab.machine.watch import Watch
from skblab.selftests import tree
from skblab.selftests.ktap import Case, Result, parse
from skblab_analysis.base.errors import SkblabError, one_line
from skblab_analysis.formats.heard import reason

Verdict = Literal["pass", "fail", "skip"]
Boot = Callable[[Path], AbstractContextManager[Guest]]


def booter(built: Kernel, root: LabRoot, folder: tree.Tree, *more: Bind) -> Boot:
    """Return what boots a guest that has the selftests at /skblab/src."""

    def boot(log: Path) -> AbstractContextManager[Guest]:
        shares = [Bind(folder.path, "src"), *more]
        spec = make_spec(flavour=built.record.flavour, one_thread=True)
        return Guest.boot(spec, built, root, shares=shares, log=log)

    return boot


# The selftests' library calls it after making a netdevsim. The lab root has no udev, so that names
# stay as they are, and there is nothing to wait for.
WITHOUT_UDEV = """
printf '#!/bin/sh\\n' >/usr/local/bin/udevadm
chmod 755 /usr/local/bin/udevadm
"""

# Statuses of kselftest and of timeout(1).
STATUS_SKIP = 4
STATUS_TIMEOUT = (124, 137)
KILL_SECONDS = 10

# What a test must leave as it was; run after each, it prints a line for what is not.
CLEAN = """
ip netns list | sed 's/ .*//; s/^/namespace /'
ls /sys/kernel/tracing/instances | sed 's/^/tracefs instance /'
for name in /proc/sys/net/core/path_trace; do
    [ ! -e "$name" ] || [ "$(cat "$name")" = 0 ] || echo "$name is $(cat "$name")"
done
for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
    [ "$(cat "$cpu")" = 1 ] || echo "$cpu is 0"
done
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one test. `seconds` is wall time; `log` has all that it printed."""

    test: str
    verdict: Verdict
    why: str
    cases: tuple[Case, ...]
    seconds: float
    log: Path
    text: str = ""
    status: int | None = None

    def count(self, result: Result) -> int:
        """Return how many cases have this result."""
        return sum(case.result is result for case in self.cases)

    def failed(self, why: str) -> Outcome:
        """Return the same outcome as a failure, for one more reason."""
        return replace(self, verdict="fail", why=f"{self.why}; {why}" if self.why else why)


@dataclass(frozen=True)
class Said:
    """A finished test: exit status, output, and kernel warnings meanwhile."""

    status: int
    text: str
    warnings: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def judge(test: str, said: Said, seconds: float, limit: float, log: Path) -> Outcome:
    """Judge a test of KTAP: its cases, its plan, its status and its kernel must all agree."""
    report = parse(said.text)
    failed = report.count(Result.FAIL)
    why: list[str] = []
    skipped = report.skipped
    if said.status in STATUS_TIMEOUT:
        why.append(f"it did not end within {limit:.0f} s")
    elif said.status == STATUS_SKIP and not report.cases:
        skipped = skipped or _last_line(said.text) or "no reason given"
    elif said.status not in (0, 1, STATUS_SKIP):
        why.append(f"it ended with status {said.status}")
    elif said.status == 1 and not failed:
        why.append("it ended with status 1, but no case failed")
    elif said.status == 0 and failed:
        why.append("it ended with status 0, but cases failed")
    if failed:
        why.append(f"{failed} of {len(report.cases)} cases failed")
    if skipped is None:
        why += report.faults
        if not report.cases and not report.faults:
            why.append("it reported no case")
    why += [f"the kernel warned: {text}" for text in said.warnings[:1]]
    why += [f"left behind: {', '.join(said.left[:3])}"] if said.left else []
    verdict: Verdict = "fail" if why else "pass"
    if not why and (
        skipped is not None or all(case.result is Result.SKIP for case in report.cases)
    ):
        verdict = "skip"
        why = [skipped or report.cases[0].comment]
    reason = "; ".join(why)
    return Outcome(test, verdict, reason, report.cases, seconds, log, said.text, said.status)


def _last_line(text: str) -> str:
    lines = [line.strip("# \t") for line in text.splitlines() if line.strip("# \t")]
    return lines[-1] if lines else ""


def run_all(
    tests: Sequence[str],
    boot: Boot,
    logs: Path,
    folder: str,
    limits: Callable[[str], float],
    prepare: str = "",
    after: str = CLEAN,
) -> Iterator[Outcome]:
    """Run tests of `folder` in a guest, in order, and yield each outcome as it comes.

    A test whose guest dies has failed; the rest go on in a new guest. Raises GuestError if a
    guest dies before its first test. `prepare` is a script run in each new guest, `after` one run
    after each test, whose lines name what the test left behind.
    """
    logs.mkdir(parents=True, exist_ok=True)
    left = list(tests)
    held: Outcome | None = None
    while left:
        begun = False
        console = logs / f"console-{len(tests) - len(left)}.log"
        try:
            with boot(console) as guest:
                watch = Watch({"guest": guest.console})
                guest.transport.script(WITHOUT_UDEV + prepare).check("preparing the guest")
                while left:
                    begun = True
                    outcome = _run(guest, watch, left[0], logs, folder, limits(left[0]), after)
                    if held is not None:
                        yield held
                    # The last outcome of a guest is known only when the guest has ended well.
                    held = outcome
                    del left[0]
            if held is not None and (said := watch.look()):
                held = held.failed(f"afterwards: {reason(said)}")
        except GuestError as error:
            if not begun:
                raise
            if left:
                if held is not None:
                    yield held
                held = _dead(left.pop(0), error, logs)
            elif held is not None:
                held = held.failed(f"afterwards: {one_line(str(error))}")
        if held is not None:
            yield held
            held = None


def _run(
    guest: Guest, watch: Watch, test: str, logs: Path, folder: str, limit: float, after: str
) -> Outcome:
    start = time.monotonic()
    # What a test said before it was stopped must not be lost in a buffer of Python's.
    words = [
        "env",
        "PYTHONUNBUFFERED=1",
        "timeout",
        "-k",
        str(KILL_SECONDS),
        str(int(limit)),
        f"./{test}",
    ]
    script = f"cd {shlex.quote(folder)} && exec {shlex.join(words)} 2>&1 </dev/null"
    log = logs / f"{test.replace('/', '-')}.log"
    try:
        done = guest.transport.run(["sh", "-c", script], seconds=limit + 6 * KILL_SECONDS)
        clean = guest.transport.script(after)
    except GuestError:
        raise
    except SkblabError as error:
        # What hangs so that not even SIGKILL ends it may hang the next test as well.
        raise GuestError(f"{test}: {error}") from error
    seconds = time.monotonic() - start
    text = done.stdout + done.stderr
    log.write_text(text)
    warned = tuple(heard.line for heard in watch.look())
    said = Said(done.status, text, warned, tuple(clean.stdout.splitlines()))
    return judge(test, said, seconds, limit, log)


def _dead(test: str, error: GuestError, logs: Path) -> Outcome:
    log = logs / f"{test.replace('/', '-')}.log"
    log.write_text(f"{error}\n")
    return Outcome(test, "fail", one_line(str(error)), (), 0.0, log)
