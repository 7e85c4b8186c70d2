# SPDX-License-Identifier: GPL-2.0-or-later
"""The `skblab` command: its subcommands, and how errors reach the user."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
import warnings
from types import FrameType
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.markup import escape

from skblab import __version__, develop, labroot, paths
from skblab.bench.cli import bench
from skblab.bench.functions import functions
from skblab.boot import boot
from skblab.demo.cli import demo
from skblab.doctor.cli import doctor
from skblab.errors import EXIT_NO, SkblabError, SkblabWarning, Stopped, one_line
from skblab.kernel.cli import kernel
from skblab.probe.cli import probe
from skblab.report import report
from skblab.reporter import Reporter
from skblab.selftests.cli import kselftest
from skblab.soak.cli import soak
from skblab.sweep.cli import cleanup, resume, sweep

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

app = typer.Typer(
    name="skblab",
    # Or lines of a paragraph stay as long as they are in its docstring.
    rich_markup_mode="markdown",
    help="A laboratory for the Linux network stack: patch, build, boot, send, time, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skblab {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command("lab-root")
def lab_root() -> None:
    """Make the lab root if it is not there, and print its path."""
    typer.echo(labroot.ensure(Reporter()).path)


app.command()(doctor)
app.add_typer(kernel, name="kernel")
bench.command("functions")(functions)
app.add_typer(bench, name="bench")
app.add_typer(probe, name="probe")
app.command()(boot)
app.command()(demo)
app.command()(report)
app.command()(kselftest)
app.command()(soak)
app.command()(sweep)
app.command()(resume)
app.command()(cleanup)
app.command("lint", hidden=True)(develop.lint)
app.command("format", hidden=True)(develop.format_)
app.command("native-tests", hidden=True)(develop.native_tests)


def _stop(number: int, _: FrameType | None) -> None:
    # A second Ctrl-C must not break into the clean-up that the first began.
    for each in STOPPING:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)


def main() -> None:
    """Run the command; every expected trouble becomes one line and an exit code."""
    for each in STOPPING:
        # What nohup or a shell's background job ignores stays ignored.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, _stop)
    warnings.simplefilter("always", SkblabWarning)
    warnings.showwarning = _warn
    status = guarded()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.exit(status)


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
            return _complain(f"{said}; see: skblab --help", error.exit_code)
        raise


def _complain(text: str, status: int) -> int:
    Console(stderr=True, highlight=False).print(
        f"[red]skblab:[/] {escape(one_line(text, 1000))}", soft_wrap=True
    )
    return status
