# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts at work on a target: brought there, attached, ended, and everything taken back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport import Running, Transport
from skblab.machine.transport.base import Done
from skblab.machine.transport.host import temporary
from skblab.probe.scripts import bpftrace, systemtap
from skblab.probe.scripts.figures import Figures
from skblab.probe.targets import Target
from skblab_analysis.base.errors import SkblabError, UsageError, one_line
from skblab_analysis.formats.scripts import (
    ScriptDocument,
    ScriptName,
    ScriptsDocument,
    Source,
    Tool,
)

# Compiling on the host itself, and asking about all tracepoints, takes its time.
ATTACH_SECONDS = 600
END_SECONDS = 120
LOOK_SECONDS = 0.05
# Ends the script with the end of the input: when asked, or with us, or with the connection. What
# the kernel knows of its programs goes with them: that is said before.
GUARD = """exec 3<&0 4>&2
"$@" </dev/null 4>&- & script=$!
{ cat <&3 >/dev/null 4>&-
grep -hs ^recursion_misses: /proc/$script/fdinfo/* >&4
kill -INT $script; } >/dev/null 2>&1 & guard=$!
wait $script
status=$?
kill $guard 2>/dev/null
exit $status"""
# Our kernel's tracepoint, wherever tracefs is mounted.
NAPI_SAMPLES = "grep -q ' __traceiter_napi_poll_sample$' /proc/kallsyms"
NAPI: ScriptName = "napi"
PATHS: tuple[ScriptName, ...] = ("receive", "forward")


class _Tool(Protocol):
    NAME: str
    FOLDER: str
    PACKAGE: str
    READY: str
    bring: Callable[[Transport, str, str], list[str]]
    read: Callable[[list[str], str], Figures]


BACKENDS: dict[str, _Tool] = {
    tool.NAME: tool for tool in (cast("_Tool", bpftrace), cast("_Tool", systemtap))
}


class Script:
    """One script that runs."""

    def __init__(self, tool: _Tool, name: str, running: Running, source: Source = "hooks") -> None:
        self.tool = tool
        self.name = name
        self.running = running
        self.source: Source = source
        self.lines: list[str] = []

    def goes_on(self) -> bool:
        """Take what it has printed; False once it has ended."""
        alive = self.running.running()
        self.lines += self.running.take_lines()
        return alive

    def end(self) -> str:
        """Have it end, and take the rest; return what it said on standard error."""
        self.running.end_input()
        done = self.running.wait(END_SECONDS)
        self.goes_on()
        if done.status != 0:
            raise SkblabError(f"{self.tool.NAME}, {self.name}: {_complaint(done)}")
        return done.stderr


class Scripts:
    """All scripts of a back end, attached at the same time."""

    def __init__(self, tool: _Tool, target: Target, scripts: list[Script]) -> None:
        self._tool, self._target, self._scripts = tool, target, scripts

    def look(self) -> bool:
        """Tell whether all still run."""
        alive = [script.goes_on() for script in self._scripts]
        return all(alive)

    def end(self) -> str:
        """Have them end, and return what they saw: a ScriptsDocument."""
        # All at once, before any is waited for.
        for script in self._scripts:
            script.running.end_input()
        found = ScriptsDocument(scripts=tuple(self._document(script) for script in self._scripts))
        return found.model_dump_json(by_alias=True)

    def _document(self, script: Script) -> ScriptDocument:
        figures = self._tool.read(script.lines, script.end())
        backend, name = cast("Tool", self._tool.NAME), cast("ScriptName", script.name)
        return figures.document(backend, name, script.source, self._target.release)


def names(path: str | None, polls: Source) -> list[tuple[ScriptName, Source, str]]:
    """Return the scripts of a path, or of both, and of NAPI: what each is of, and its full name.

    Times of packets come from hooks on every kernel, those of NAPI polls from `polls`.
    """
    some: list[ScriptName] = [name for name in PATHS if path in (None, name)]
    hooked: list[tuple[ScriptName, Source, str]] = [
        (name, "hooks", f"{name}-hooks") for name in some
    ]
    return [*hooked, (NAPI, polls, NAPI if polls == "samples" else f"{NAPI}-hooks")]


@contextlib.contextmanager
def attached(
    backend: str,
    target: Target,
    path: str | None,
    source: str,
    labroot: LabRoot,
    reporter: Reporter,
) -> Iterator[Scripts]:
    """Have the scripts of a path, or of both, and of NAPI attached; UsageError if they refuse."""
    tool = BACKENDS[backend]
    polls = polls_from(target, source)
    transport = target.transport
    some: list[Script] = []
    with (
        temporary(transport) as folder,
        _ended_in_trouble(some),
    ):
        for name, by, full in names(path, polls):
            if target.built is not None and tool.NAME == systemtap.NAME:
                module = systemtap.ensure(labroot, target.built, full, reporter)
                argv = systemtap.bring_module(transport, folder, module)
            else:
                _installed(target, tool)
                argv = tool.bring(transport, folder, full)
            some.append(_start(tool, target, name, argv, by))
            if len(some) == 1 and tool.NAME == systemtap.NAME and _never_ran(transport):
                _until_ready(target, some[0])
        for script in some:
            _until_ready(target, script)
        yield Scripts(tool, target, some)


@contextlib.contextmanager
def running(tool: _Tool, target: Target, name: str, argv: Sequence[str]) -> Iterator[Script]:
    """Have one script at work, by a command; UsageError if it refuses. `Script.end` ends it."""
    script = _start(tool, target, name, argv)
    with _ended_in_trouble([script]):
        _until_ready(target, script)
        yield script


def _start(
    tool: _Tool, target: Target, name: str, argv: Sequence[str], source: Source = "hooks"
) -> Script:
    return Script(tool, name, target.transport.start(["sh", "-c", GUARD, "sh", *argv]), source)


@contextlib.contextmanager
def _ended_in_trouble(scripts: list[Script]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # The first trouble is the one to tell of.
        with contextlib.suppress(SkblabError):
            _end_all(scripts)
        raise


def _end_all(scripts: list[Script]) -> None:
    for script in scripts:
        script.running.end_input()
    for script in scripts:
        script.running.wait(END_SECONDS)


def polls_from(target: Target, wanted: str) -> Source:
    """Choose samples of NAPI polls where the kernel has them, unless the user wants hooks."""
    if wanted == "hooks":
        return "hooks"
    return "samples" if target.transport.script(NAPI_SAMPLES).status == 0 else "hooks"


def _installed(target: Target, tool: _Tool) -> None:
    if target.transport.script(f"command -v {tool.NAME}").status != 0:
        raise UsageError(
            f"--backend {tool.NAME}: {target.name} has no {tool.NAME}; there, run "
            f"apt-get install {tool.PACKAGE}"
        )


def _complaint(done: Done) -> str:
    """Return the line that says why: the first error, else the last line."""
    said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
    return one_line(next((line for line in said if "ERROR" in line or "error:" in line), said[-1]))


def _never_ran(transport: Transport) -> bool:
    """Tell whether no script of SystemTap has run since the machine booted."""
    return transport.script(systemtap.HAS_FOLDER).status != 0


def _until_ready(target: Target, script: Script) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS
    while not any(script.tool.READY in line for line in script.lines):
        if not script.goes_on():
            done = script.running.wait(END_SECONDS)
            raise UsageError(
                f"{script.tool.NAME} could not attach {script.name} on {target.name}, kernel "
                f"{target.release}: {_complaint(done)}"
            )
        if time.monotonic() > deadline:
            raise SkblabError(
                f"{script.tool.NAME} did not attach {script.name} in {ATTACH_SECONDS} s"
            )
        time.sleep(LOOK_SECONDS)
