# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab` command: its subcommands, and how errors reach the user."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_group

if TYPE_CHECKING:
    from typer._click import Command, Context

from skblab import __version__
from skblab.lab import paths, store
from skblab_analysis.base.errors import (
    EXIT_ABORT,
    EXIT_NO,
    EXIT_SIGNAL,
    EXIT_STATUSES,
    GIT_BISECT,
    LONGEST,
    SkblabError,
    SkblabWarning,
    Stopped,
    one_line,
    os_trouble,
)

# A shell that completes a command line sets it, see skblab/manual/completion.py.
COMPLETE = "_SKBLAB_COMPLETE"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Where each command is, in the order of `skblab --help`: what a user begins with comes first.
COMMANDS = {
    "doctor": "skblab.commands.doctor:doctor",
    "demo": "skblab.commands.demo:demo",
    "probe": "skblab.commands.probe_functions:probe",
    "sweep": "skblab.commands.sweep:sweep",
    "tune": "skblab.commands.tune:tune",
    "resume": "skblab.commands.sweep:resume",
    "report": "skblab.commands.report:report",
    "runs": "skblab.commands.runs:runs",
    "bundle": "skblab.commands.bundle:bundle",
    "cleanup": "skblab.commands.sweep:cleanup",
    "profile": "skblab.commands.profile:profile",
    "compare": "skblab.commands.compare:compare",
    "bisect": "skblab.commands.bisect:bisect",
    "bench": "skblab.commands.bench_functions:bench",
    "traffic": "skblab.commands.traffic:traffic",
    "analyze": "skblab.commands.analyze:analyze",
    "boot": "skblab.commands.boot:boot",
    "ssh": "skblab.commands.ssh:ssh",
    "kernel": "skblab.commands.kernel:kernel",
    "kselftest": "skblab.commands.kselftest:kselftest",
    "soak": "skblab.commands.soak:soak",
    "jobs": "skblab.commands.jobs:jobs",
    "cache": "skblab.commands.cache:cache",
    "lab-root": "skblab.commands.lab_root:lab_root",
    "lint": "skblab.commands.develop:lint",
    "format": "skblab.commands.develop:format_",
    "native-tests": "skblab.commands.develop:native_tests",
    "fuzz": "skblab.commands.fuzz:fuzz",
    "element": "skblab.commands.element:element",
}
HELP = ["-h", "--help"]
HIDDEN = {"lint", "format", "native-tests", "fuzz", "element"}


class Commands(TyperGroup):
    """The commands: each is loaded when it is asked for, since all of them take a second."""

    def list_commands(self, _: Context) -> list[str]:
        """Return all that there are, also those that are not loaded."""
        return [*COMMANDS]

    def get_command(self, ctx: Context, name: str) -> Command | None:
        """Load the command of that name; None if there is none."""
        if name not in COMMANDS:
            # What looks like it is looked for among those that are loaded.
            for command in COMMANDS:
                self.get_command(ctx, command)
        elif name not in self.commands:
            module, _, attribute = COMMANDS[name].partition(":")
            found = getattr(importlib.import_module(module), attribute)
            one = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
            if isinstance(found, typer.Typer):
                one.add_typer(found, name=name)
            else:
                one.command(name, hidden=name in HIDDEN)(found)
            self.commands[name] = _named(get_group(one).commands[name])
        return self.commands.get(name)

    def get_help_option(self, ctx: Context) -> TyperOption | None:
        """Return the switch that prints help: one without a value."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option


def _named(command: Command) -> Command:
    """Return a command whose help names values as man pages do: FILE, N; switches have none."""
    # It is made once, by whoever asks first, and is none of the parameters.
    helps = command.get_help_option(command.context_class(command, help_option_names=HELP))
    if helps is not None:
        helps.metavar = ""
    for parameter in command.params:
        if not isinstance(parameter, TyperArgument | TyperOption) or parameter.metavar is not None:
            continue
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif parameter.type_descriptor.annotation in (int, float):
            parameter.metavar = "N"
        else:
            parameter.metavar = parameter.name.upper().strip("_").replace("_", "-")
    for below in command.commands.values() if isinstance(command, TyperGroup) else ():
        _named(below)
    return command


app = typer.Typer(
    name="skblab",
    cls=Commands,
    # Or lines of a paragraph stay as long as they are in its docstring.
    rich_markup_mode="markdown",
    help="A laboratory for the Linux network stack: patch, build, boot, send, time, report.\n\n"
    "Start with `skblab doctor`, then `skblab demo`. Each command has a page, such as "
    "skblab-sweep(1), and `--help`.\n\n"
    "Example: `skblab demo`",
    epilog="Exit status:\n\n"
    + "\n\n".join(f"{status}: {means}" for status, means in EXIT_STATUSES),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skblab {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            # A switch has no value.
            metavar="",
            help="Print the version and end.",
        ),
    ] = False,
) -> None:
    pass


def _stop(number: int, _: FrameType | None) -> None:
    # A second Ctrl-C must not break into the clean-up that the first began.
    for stopping in STOPPING:
        signal.signal(stopping, signal.SIG_IGN)
    raise Stopped(number)


def main() -> None:
    """Run the command; every expected trouble becomes one line and an exit code."""
    for stopping in STOPPING:
        # What nohup or a shell's background job ignores stays ignored.
        if signal.getsignal(stopping) is not signal.SIG_IGN:
            signal.signal(stopping, _stop)
    warnings.simplefilter("always", SkblabWarning)
    warnings.showwarning = _warn
    if GIT_BISECT in sys.argv:
        _tell_git()
    sys.exit(_run())


def _run() -> int:
    """Run the command, have the cache within its bound and the output out; return the status."""
    status = guarded()
    if store.added and status < EXIT_SIGNAL:
        status = _bounded(status)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    return status


def _tell_git() -> NoReturn:
    """Run the command; whatever goes wrong, also with what it prints, ends `git bisect run`.

    Python itself ends with 1 or 120 there, and git would take the commit for a bad one.
    """
    try:
        status = _run()
        sys.stdout.flush()
        sys.stderr.flush()
    except Stopped as stopped:
        status = stopped.exit_code
    except BaseException:  # SystemExit, too: of a library that cannot print.
        status = EXIT_ABORT
        with contextlib.suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
    os._exit(status)


def _bounded(status: int) -> int:
    """Keep the bound of the cache, to which the command has added; return the command's status.

    Only now: a command that measures has its results, and all that it uses is known.
    """
    from skblab.lab.cache import keep
    from skblab.lab.reporter import Reporter

    try:
        keep.keep_bound(Reporter())
    except SkblabError as error:
        _complain(f"the cache's bound: {error}", error.exit_code)
    except OSError as error:
        _complain(f"the cache's bound: {os_trouble(error)}", EXIT_NO)
    except Stopped as stopped:
        return _complain("stopped; what was finished is kept", stopped.exit_code)
    return status


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning: one of ours in a line, and others as Python does."""
    if issubclass(category, SkblabWarning):
        _complain(str(message), 0)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def guarded() -> int:
    """Run the command; return its status, with what went wrong said in one line."""
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        return int(app(prog_name="skblab", standalone_mode=False) or 0)
    except typer.Exit as stop:
        return stop.exit_code
    except SkblabError as error:
        return _complain(str(error), error.exit_code)
    except Stopped as stopped:
        return _complain("stopped; what was finished is kept", stopped.exit_code)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _complain(f"the disk is full: {error.filename or paths.cache()}", EXIT_NO)
        raise
    except Exception as error:
        # The CLI library's own usage errors carry their exit code (2) and a clear line.
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):
            said = error.format_message().rstrip(".")
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "skblab"
            status = EXIT_ABORT if GIT_BISECT in sys.argv else error.exit_code
            return _complain(f"{said}; see: {command} --help", status)
        raise


def _complain(text: str, status: int) -> int:
    Console(stderr=True, highlight=False).print(
        f"[red]skblab:[/] {escape(one_line(text, LONGEST))}", soft_wrap=True
    )
    return status
