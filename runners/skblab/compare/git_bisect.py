# SPDX-License-Identifier: GPL-2.0-or-later
"""What `git bisect run` is told of a commit: it is good or bad, it is to be skipped, or nothing.

git takes every status from 1 to 127 but SKIP for a bad commit, also that of a full disk. So all
that is not the commit's own doing ends with ABORT, which ends git's search as well.
"""

from __future__ import annotations

from skblab_analysis.base.errors import (
    EXIT_ABORT,
    EXIT_GUEST,
    EXIT_NO,
    EXIT_NO_VERDICT,
    GIT_BISECT,
)
from skblab_analysis.formats import compare
from skblab_analysis.formats.compare import CompareDocument

OPTION = GIT_BISECT
# The side that is the commit.
COMMIT = 1
SKIP, ABORT = EXIT_GUEST, EXIT_ABORT


def status(document: CompareDocument, boots: bool) -> int:
    """Return git's status for the second side of a comparison; `boots`: its kernel comes up.

    A kernel that comes up and dies under a workload is bad, since A's kernel lives through it. One
    that never comes up, or cannot do what the workload needs, may be good or bad.
    """
    if not boots:
        return SKIP
    found = compare.status(document)
    if found != EXIT_NO_VERDICT:
        return EXIT_NO if found == EXIT_NO else 0
    unsaid = [one for one in document.verdicts if one.judged in ("unstable", "failed", "lacking")]
    lacks = all(one.judged == "lacking" and one.a is not None for one in unsaid)
    return SKIP if unsaid and lacks else ABORT
