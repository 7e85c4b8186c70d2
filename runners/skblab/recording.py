# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of a run folder when its run breaks off."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from skblab.errors import SkblabError, Stopped
from skblab.reporter import Reporter
from skblab_analysis.records import RunFolder
from skblab_analysis.run import Environment


@contextlib.contextmanager
def recording(
    folder: RunFolder, environment: Callable[[], Environment | None], reporter: Reporter
) -> Iterator[None]:
    """Run the body; whatever stops it, what was recorded stays readable and says why it ends here.

    `environment` is called only then, and returns what is known of it by that time.
    """
    try:
        yield
    except BaseException as error:
        reason = "stopped by a signal" if isinstance(error, Stopped) else str(error)
        known = None
        # What is torn by now hides nothing of what went wrong.
        with contextlib.suppress(OSError, SkblabError):
            known = environment()
        with contextlib.suppress(OSError):
            folder.fail(reason, known, reporter.timings)
        reporter.say(f"what was recorded until then: {folder.path}")
        raise
