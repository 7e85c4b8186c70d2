# SPDX-License-Identifier: GPL-2.0-or-later
"""Text files that users write."""

from __future__ import annotations

from pathlib import Path

from skblab_analysis.base.errors import UsageError


def read(file: Path, what: str) -> str:
    """Return the text of a file; UsageError if it cannot be read, or is no text in some line.

    `what` names it in the message, such as "the experiment".
    """
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"cannot read {what} {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{file}:{line}: {what} is no text: {error.reason}, in UTF-8") from error
