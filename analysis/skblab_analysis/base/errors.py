# SPDX-License-Identifier: GPL-2.0-or-later
"""The errors a user can meet. Each is one clear line and carries its exit code.

EXIT_STATUSES says what each code means; `--help`, man pages and docs/reference/ are made of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

EXIT_NO = 1
EXIT_USAGE = 2
EXIT_NO_VERDICT = 3
EXIT_GUEST = 125
EXIT_SIGNAL = 128
EXIT_ABORT = 255
# With this option `git bisect run` is told of a commit: bad usage says nothing of one.
GIT_BISECT = "--git-bisect"
# Each exit status, and what it means.
EXIT_STATUSES = (
    ("0", "All went well."),
    (
        f"{EXIT_NO}",
        "The answer is no: a check failed, a result is invalid, a build or a guest failed.",
    ),
    (f"{EXIT_USAGE}", "Bad usage, bad input, or a machine that lacks what the command needs."),
    (f"{EXIT_NO_VERDICT}", "There is no verdict: a comparison could not be made, or says nothing."),
    (
        f"{EXIT_GUEST}",
        "The guest died. With compare --git-bisect: no kernel to judge, skip it.",
    ),
    (f"{EXIT_SIGNAL}+N", "Signal N stopped the command; what was finished is kept."),
    (f"{EXIT_ABORT}", "With compare --git-bisect: skblab cannot tell."),
)
# Characters of a message, which stands in records as well.
LONGEST = 1000


class SkblabError(Exception):
    """The run says no: something that was asked for properly did not work."""

    exit_code = EXIT_NO

    def __str__(self) -> str:
        """Return it in one line, whatever a tool or a file that it quotes has said."""
        return one_line(super().__str__(), LONGEST)


class UsageError(SkblabError):
    """Bad usage, bad input, or a machine that lacks what the command needs."""

    exit_code = EXIT_USAGE


class SkblabWarning(UserWarning):
    """What the user should know and need not act on: something was done a second time."""


class Stopped(BaseException):
    """A signal asked us to stop. No Exception: nothing but clean-up may hold it up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = EXIT_SIGNAL + number


def os_trouble(error: OSError) -> str:
    """Return what the system said, and of which file."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def one_line(text: str, limit: int = 300) -> str:
    """Fold `text` into one line of at most `limit` characters, for use inside a message."""
    folded = " ".join(text.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


# What Python says where a text or a document is not what the code that takes it apart expects.
# An AssertionError is none of them: it is a fault of ours.
_NOT_AS_EXPECTED = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
)


@contextlib.contextmanager
def understood(
    what: str, text: str, kind: type[SkblabError] = SkblabError, *, expected: str = ""
) -> Iterator[None]:
    """Have whatever cannot be taken apart of a text from outside be one line; `what` begins it.

    What the body itself says as a SkblabError is clearer, and goes first.
    """
    try:
        yield
    except _NOT_AS_EXPECTED as error:
        why = one_line(str(error), 80) or "it is cut short"
        begins = f", in {one_line(text, 80)!r}" if text.strip() else ": there is nothing"
        hint = f"; expected {expected}" if expected else ""
        raise kind(
            f"{what} is not as expected{begins} ({type(error).__name__}: {why}){hint}"
        ) from error
