# SPDX-License-Identifier: GPL-2.0-or-later
"""Man pages (man(7)): skblab(1), and one for each command, such as skblab-probe-layers(1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from typer.core import TyperArgument

from skblab import __version__
from skblab.lab.cache import sizes
from skblab.machine import patience, snapshot
from skblab.manual.walk import Described
from skblab_analysis.base.errors import EXIT_STATUSES

if TYPE_CHECKING:
    from typer._click import Parameter

EXAMPLE = "Example: "
ENVIRONMENT = (
    (
        patience.VARIABLE,
        "How many seconds a guest may take to come up. If not set: "
        f"{patience.BOOT_SECONDS}, or {patience.SLOW_BOOT_SECONDS} with --exact, "
        "with a debug kernel, and for bench.",
    ),
    ("SKBLAB_CACHE", "The folder of lab roots, kernels and tools; ~/.cache/skblab if not set."),
    (
        sizes.VARIABLE,
        f"How much disk the cache may take, in GiB; {sizes.BOUND_GIB:.0f} if not set.",
    ),
    (
        "SKBLAB_RESULTS",
        "The folder of results. If not set: results/ in the working directory for an installed "
        "skblab, and results/ in the clone for ./skblab.",
    ),
    (
        snapshot.VARIABLE,
        "off: every guest boots. If not set, a guest may begin in a snapshot of one like it.",
    ),
    ("SKBLAB_VENV", "The folder of the Python environment; .venv in the clone if not set."),
)


def file_name(one: Described) -> str:
    """Return the name of a command's page."""
    return f"{_title(one)}.1"


def page(one: Described, everything: Sequence[Described], date: str) -> str:
    """Return a command's page; `date` (YYYY-MM-DD) stands at its foot."""
    lines = [
        r".\" SPDX-License-Identifier: GPL-2.0-or-later",
        r".\" Made from the definition of the command; make install writes it anew.",
        f'.TH {_title(one).upper()} 1 {date} "skblab {__version__}" "skblab manual"',
        # Commands are copied from a page: no hyphens in them, and no justified lines.
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{_escape(_title(one))} \\- {_text(_lower(one.summary))}",
        ".SH SYNOPSIS",
        *_synopsis(one),
        ".SH DESCRIPTION",
        *_description(one),
        *_parameters(one),
        *_below(one, everything),
        *_example(one),
        ".SH EXIT STATUS",
        *_list(EXIT_STATUSES),
        ".SH ENVIRONMENT",
        *_list(ENVIRONMENT),
        *_see_also(one, everything),
    ]
    return "\n".join(lines) + "\n"


def _title(one: Described) -> str:
    return "-".join(("skblab", *one.words))


def _lower(summary: str) -> str:
    first, _, rest = summary.partition(" ")
    return f"{first.lower() if first.istitle() else first} {rest}".rstrip()


def _synopsis(one: Described) -> Iterator[str]:
    options, arguments = [], []
    for parameter in (each for group in one.parameters.values() for each in group):
        if isinstance(parameter, TyperArgument):
            name = _names(parameter)
            arguments.append(name if parameter.required else f"[{name}]")
        elif parameter.required:
            options.append(_names(parameter))
    called = f"\\fB{_escape(one.name)}\\fR"
    rest = "\\fICOMMAND\\fR \\&..." if one.group else " ".join(arguments)
    yield " ".join(filter(None, (called, "[\\fIOPTION\\fR]...", *options, rest)))


def _description(one: Described) -> Iterator[str]:
    said = [paragraph for paragraph in one.paragraphs if not paragraph.startswith(EXAMPLE)]
    for place, paragraph in enumerate(said):
        if place:
            yield ".PP"
        yield _line(paragraph)


def _parameters(one: Described) -> Iterator[str]:
    for group, parameters in one.parameters.items():
        yield f".SH {_escape(group.upper())}"
        for parameter in parameters:
            record = parameter.get_help_record(one.context)
            yield ".TP"
            yield _names(parameter)
            yield _line(" ".join((record[1] if record else "").split()))


def _names(parameter: Parameter) -> str:
    """Return a parameter as it is typed, names in bold and its value in italics."""
    value = f"\\fI{_escape(parameter.metavar or '')}\\fR" if parameter.metavar else ""
    if isinstance(parameter, TyperArgument):
        return f"{value} \\&..." if parameter.nargs != 1 else value
    names = [f"\\fB{_escape(name)}\\fR" for name in (*parameter.opts, *parameter.secondary_opts)]
    return " ".join(filter(None, (", ".join(names), value)))


def _below(one: Described, everything: Sequence[Described]) -> Iterator[str]:
    found = [
        each
        for each in everything
        if not each.group and each.words[: len(one.words)] == one.words and each is not one
    ]
    if found:
        yield ".SH COMMANDS"
        yield from _list([(each.name, f"{each.summary}.") for each in found])


def _example(one: Described) -> Iterator[str]:
    for paragraph in one.paragraphs:
        if paragraph.startswith(EXAMPLE):
            yield ".SH EXAMPLE"
            yield _line(paragraph.removeprefix(EXAMPLE))


def _see_also(one: Described, everything: Sequence[Described]) -> Iterator[str]:
    # Those that one may mean instead: the group above, and its other commands.
    near = [
        each
        for each in everything
        if each is not one
        and (not one.words or not each.words or each.words[:1] == one.words[:1])
        and len(each.words) <= max(len(one.words), 1)
    ]
    yield ".SH SEE ALSO"
    yield ",\n".join(f"\\fB{_escape(_title(each))}\\fR(1)" for each in near)


def _list(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield ".TP"
        yield f"\\fB{_escape(name)}\\fR"
        yield _line(text)


def _line(text: str) -> str:
    """Return text as a line of its own, which is no request."""
    made = _text(text)
    return f"\\&{made}" if made[:1] in (".", "'") else made


def _text(text: str) -> str:
    """Return text with `code` in bold."""
    parts = re.split(r"`([^`]*)`", text)
    return "".join(
        f"\\fB{_escape(part)}\\fR" if place % 2 else _escape(part)
        for place, part in enumerate(parts)
    )


def _escape(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
