# SPDX-License-Identifier: GPL-2.0-or-later
"""A log of guests that start and end, for whoever watches several commands at once.

`SKBLAB_GUEST_LOG` names a file. Each guest of any command that has the variable adds a line of
JSON when QEMU starts and one when it has ended, so that tests count guests and see what their
kernels complained of, also where the command itself was killed or says nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from skblab.lab.guest.console import Finding
from skblab_analysis.base.checked import Closed
from skblab_analysis.base.errors import SkblabError

VARIABLE = "SKBLAB_GUEST_LOG"
STARTED, AGAIN, ENDED = "started", "QEMU failed and was started again", "ended"


class Event(Closed):
    """One line of the log: a kernel by its key, `findings` of the console of one that ended."""

    event: str
    kernel: str
    findings: tuple[str, ...] = ()


def note(event: str, kernel: str, findings: Sequence[Finding] = ()) -> None:
    """Add a line to the log, if there is one. Lines of several commands do not mix."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    one = Event(event=event, kernel=kernel, findings=tuple(finding.text for finding in findings))
    line = (one.model_dump_json() + "\n").encode()
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def read(file: Path) -> list[Event]:
    """Return the lines of a log, none if nobody has written one. Raises SkblabError."""
    if not file.exists():
        return []
    lines = file.read_text(errors="replace").splitlines()
    try:
        return [Event.model_validate(json.loads(line)) for line in lines]
    except (ValueError, RecursionError, ValidationError) as error:
        raise SkblabError(f"{file}: not a log of guests: {str(error).splitlines()[0]}") from error
