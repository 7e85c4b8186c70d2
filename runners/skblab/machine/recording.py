# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of a run folder when its run breaks off, and of a trial whose kernel complains."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator

from skblab.lab.guest.errors import GuestError
from skblab.lab.reporter import Reporter
from skblab.machine.watch import Source, Watch, heard_of
from skblab_analysis.base.errors import SkblabError, Stopped, one_line
from skblab_analysis.formats.run import Environment
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.trials.rows import Clock


@contextlib.contextmanager
def recording(
    folder: RunFolder,
    environment: Callable[[], Environment | None],
    reporter: Reporter,
    *,
    resumes: bool = False,
    go_on: bool = True,
) -> Iterator[None]:
    """Run the body; whatever stops it, what was recorded stays readable and says why it ends here.

    `environment` is called only then, and returns what is known of it by that time. `resumes`: the
    command `resume` goes on with such a run; one that never began, with nothing to look at, goes.
    Without `go_on` whoever called says how.
    """
    try:
        yield
    except BaseException as error:
        if resumes and _never_began(folder, error):
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        reason = "stopped by a signal" if isinstance(error, Stopped) else str(error)
        known = None
        # What is torn by now hides nothing of what went wrong.
        with contextlib.suppress(OSError, SkblabError):
            known = environment()
        with contextlib.suppress(OSError, SkblabError):
            folder.fail(reason, known, reporter.timings)
        reporter.say(f"what was recorded until then: {folder.path}")
        if resumes and go_on:
            reporter.say(f"go on with: ./skblab resume {folder.path}")
        raise


def _never_began(folder: RunFolder, error: BaseException) -> bool:
    """Whether an error that is no guest's, and names no file of the run, came before any trial.

    Somebody who resumes a run wants that one: it stays, and can be tried again.
    """
    return (
        folder.empty
        and not folder.events("resumed")
        and isinstance(error, SkblabError)
        and not isinstance(error, GuestError)
        and str(folder.path) not in str(error)
    )


def begins(folder: RunFolder, watch: Watch, **kernels: Source) -> None:
    """Watch these kernels, by what their machines are; all that was before belongs to no trial."""
    watch.sources |= kernels
    folder.heard_apart(watch.look(), "before the trial")


@contextlib.contextmanager
def watched(
    folder: RunFolder, watch: Watch, clock: Clock, setting: str = "default"
) -> Iterator[None]:
    """Run what is one trial; what kernels complain of since `begins` is the next record's.

    A trial that breaks off has no record of its own, and gets one if they did.
    """
    try:
        yield
    except SkblabError as error:
        found = watch.look()
        if isinstance(error, GuestError) and not watch.sources:
            found = heard_of(error)
        if found:
            folder.heard(found)
            folder.record_invalid(clock, setting, one_line(str(error)))
        raise
    folder.heard(watch.look())
