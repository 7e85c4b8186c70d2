# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of a run folder when its run breaks off."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from skblab.errors import Stopped
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
        with contextlib.suppress(OSError):
            folder.fail(reason, environment(), reporter.timings)
        reporter.say(f"what was recorded until then: {folder.path}")
        raise
