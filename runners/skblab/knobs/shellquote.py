# SPDX-License-Identifier: GPL-2.0-or-later
"""Where in a command a shell takes a word as it is: outside of all quotes.

Shells differ in what they make of some things, such as `$'…'` and quotes within `${…}`. What
follows such a thing counts as quoted: whoever asks can be told to write it in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SINGLE, DOUBLE, WITHIN = "'", '"', "("
# A # after these begins a comment. After others that may be, too: `(a)#` and `$(a)#` differ.
_BEFORE_COMMENT, _BEFORE_EITHER = " \t\n;&|(", ")"
# Of a variable, if nothing is within it that a shell may take for a quote or a substitution.
_VARIABLE = re.compile(r"\$\{[^}'\"`\\${]*\}")
# Quotes of some shells, here-documents, and arithmetic, in which bash runs what a text has.
_UNSURE = re.compile(r"\$'|\$\{|\$\(\(|\$\[|<<|\(\(|\[\[")
# Of these, what is as it is in double quotes.
_PLAIN_IN_QUOTES = ("$'", "<<", "((", "[[")
_CASE = re.compile(r"\bcase\b")


def plain(command: str) -> Iterator[int]:
    """Yield where in a command characters are that no quote, backslash or comment is around."""
    # What is open, the innermost last: a double quote, or `$(`, in which quotes begin anew.
    around: list[str] = []
    at = 0
    while at < len(command):
        one, quoted = command[at], around[-1:] == [DOUBLE]
        skipped = _skipped(command, at, quoted=quoted)
        if skipped is None:
            return
        if skipped:
            at += skipped
            continue
        if command.startswith("$(", at):
            # In a substitution within quotes, an unpaired parenthesis would be taken for its end.
            if DOUBLE in around and _CASE.search(command, at):
                return
            around.append(WITHIN)
            at += 1
        elif one == DOUBLE:
            if quoted:
                around.pop()
            else:
                around.append(DOUBLE)
        elif quoted:
            pass
        elif one == "(":
            around.append(WITHIN)
        elif one == ")":
            if around:
                around.pop()
        elif DOUBLE not in around:
            yield at
        at += 1


def _skipped(command: str, at: int, *, quoted: bool) -> int | None:
    """Return how many characters from a place on are none of the command's own words.

    None: nobody knows.
    """
    one = command[at]
    if one == "\\":
        return 2
    if found := _VARIABLE.match(command, at):
        return len(found[0])
    if (found := _UNSURE.match(command, at)) and not (quoted and found[0] in _PLAIN_IN_QUOTES):
        return None
    if one == "`":
        return _until(command, at, r"`(?:[^`\\]|\\.)*`")
    if one == SINGLE and not quoted:
        return _until(command, at, r"'[^']*'")
    if one == "#" and not quoted:
        before = command[at - 1 : at]
        if before == _BEFORE_EITHER or command.endswith("\\\n", 0, at):
            return None
        if before in _BEFORE_COMMENT:
            return _until(command, at, r"#[^\n]*")
    return 0


def _until(command: str, at: int, pattern: str) -> int | None:
    found = re.compile(pattern, re.DOTALL).match(command, at)
    return len(found[0]) if found else None
