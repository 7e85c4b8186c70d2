# SPDX-License-Identifier: GPL-2.0-or-later
"""What Intel's PCM tools print with `-csv`: `pcm`, `pcm-numa`, `pcm-memory` and `pcm-pcie`.

The formats are those of the tools' sources, versions 201812 to 202604. Give `parse` the file of
`-csv=FILE`, or the standard output as it was printed. In the file there is nothing of a command
that the tool runs after `--`.

`pcm` and `pcm-memory` print two header rows, sockets and cores above names, then a row for each
sample. Versions before 202010 name a socket once and leave the cells behind it empty; 202201 to
202212 do so above `Frontend_bound(%)` and the three columns after it. Versions before 2020 separate
by `;`. `pcm` begins a row with a newline and ends it with a separator, `pcm-memory` ends it with a
newline. `pcm-memory` leaves out the columns of idle channels: up to 202205 of all, since then of
HBM alone. Such a row is an error, for its columns may be others than the header's. Its option
`-all` prints all channels.

`pcm-numa` and `pcm-pcie` print a whole table for each sample. `pcm-numa` has a row for each core
and the row `*` for all. `pcm-pcie` has a row for each socket; with `-e` three, with `(Total)`,
`(Miss)` or `(Hit)` behind the last figure.

`parse` skips text before the first header, and later lines without a separator: they are messages.
A killed tool leaves its last row cut short, so `parse` leaves that sample out. It also leaves out a
last row of `pcm-memory` or `pcm-pcie` without a newline, for the last figure may be cut. It cannot
know whether the only table of `pcm-pcie` was cut between two sockets.

A figure that the tool does not know is a gap, and says why. The tools print `N/A`, the result of a
division by 0, a negative number (`pcm` computes with -1 for what it cannot tell), and `pcm-memory`
an empty field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from skblab_analysis.base.errors import SkblabError, one_line

Tool = Literal["pcm", "pcm-numa", "pcm-memory", "pcm-pcie"]
# `other`: of a column whose heading is none that we know, such as a later version's.
Scope = Literal["system", "socket", "core", "die", "channel", "link", "other"]
# Bytes, counts and J are of the whole sample. A share is 0 to 1, a ratio may be more. °C: how far
# below its limit the processor is. `unknown`: the figure is as printed.
Unit = Literal[
    "bytes", "bytes/s", "count", "count/s", "share", "ratio", "Hz", "J", "ns", "°C", "unknown"
]


@dataclass(frozen=True, slots=True)
class Value:
    """One figure; `value` is None for a gap, and `why` says what the tool printed instead.

    `number` is that of the socket, core (the system's number of a CPU), die, channel or link;
    `socket` the one it belongs to, None where the tool does not say. `name` is the header's, with
    three differences. C-states of the system and of sockets begin with `Core ` or `Package `. The
    figures of links are `dataIn`, `dataIn (percent)`, `trafficOut` and `trafficOut (percent)`. With
    `pcm-pcie -e` names end with ` (Total)`, ` (Miss)` or ` (Hit)`.
    """

    tool: Tool
    scope: Scope
    number: int | None
    socket: int | None
    name: str
    unit: Unit
    value: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one interval, in the order they were printed in.

    `time`: its end by the machine's clock and time zone (`pcm`, `pcm-memory`). `elapsed_ns`: its
    length (`pcm-numa`, in whole milliseconds).
    """

    tool: Tool
    time: datetime | None
    elapsed_ns: int | None
    values: tuple[Value, ...]


# Names by tool, their unit, and by what a printed figure is multiplied. The first that fits holds.
# pcm: counts and link bytes are divided by 1e6 (float_format of pcm.cpp), memory traffic by 1e9
# (print_csv), L3OCC by 1024, LMB and RMB by 1024 * 1024 (cpucounters.cpp).
# pcm-memory: toBW of pcm-memory.cpp divides by 1000000.
# pcm-pcie: an event is a transfer, and `(B)` are transfers times 64 with no division by time. That
# is too much for transfers of a part of a cache line.
_SUFFIXES: tuple[tuple[str, Unit, Decimal], ...] = (
    (r".*(%|\(%\)|\(percent\))", "share", Decimal("0.01")),
    (r".*\(Joules\)", "J", Decimal(1)),
    (r".*\(ns\)", "ns", Decimal(1)),
    (r".*\([Gg][Hh]z\)", "Hz", Decimal(10**9)),
    (r".*\(MB/s\)", "bytes/s", Decimal(10**6)),
    (r".*\(M/s\)", "count/s", Decimal(10**6)),
    (r".*\(T/s\)", "count/s", Decimal(1)),
)
_RULES: dict[Tool, tuple[tuple[str, Unit, Decimal], ...]] = {
    "pcm": (
        (r"EXEC|IPC|A?FREQ|L[23]MPI|PhysIPC|INSTnom|[A-Z]+toMC", "ratio", Decimal(1)),
        (r"CFREQ", "Hz", Decimal(10**9)),
        (r"L[23]MISS|INST|ACYC|TIME\(ticks\)", "count", Decimal(10**6)),
        (r"L[23]HIT", "share", Decimal(1)),
        (r"LOCAL", "share", Decimal("0.01")),
        (r"(MCDRAM_|HBM_)?(READ|WRITE)|PMM_(RD|WR)|IO|IA|GT", "bytes", Decimal(10**9)),
        (r"Total[A-Z]+(in|out)|dataIn|trafficOut", "bytes", Decimal(10**6)),
        (r"L3OCC", "bytes", Decimal(2**10)),
        (r"[LR]MB", "bytes", Decimal(2**20)),
        (r"TEMP", "°C", Decimal(1)),
        *_SUFFIXES,
    ),
    "pcm-numa": (
        (r"IPC", "ratio", Decimal(1)),
        (r"Instructions|Cycles|(Local|Remote) .* accesses", "count", Decimal(1)),
        *_SUFFIXES,
    ),
    "pcm-memory": (
        (r"(EDC_)?Ch[0-9]+(PMM_)?(Read|Write)", "bytes/s", Decimal(10**6)),
        (r"Mem_Ch[0-9]+_R[0-9]+_(reads|writes)", "bytes/s", Decimal(10**6)),
        (r"CXL\.(mem|cache)_P[0-9]+(Read|Write|dv->hst|hst->dv)", "bytes/s", Decimal(10**6)),
        (r"(DRAM|PMM_?|CXL)?(Read|READ|Write)|Memory", "bytes/s", Decimal(10**6)),
        (r"(iMC[0-9]+ )?NM (read )?hit rate", "share", Decimal(1)),
        (r"PMM_MM_Bw/DRAM_Bw", "ratio", Decimal(1)),
        *_SUFFIXES,
    ),
    "pcm-pcie": (
        (r".*\(B\)", "bytes", Decimal(1)),
        (r".*", "count", Decimal(1)),
    ),
}
# Longest number of a cell: what a 64-bit counter has, and a fraction.
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,12})?(e[+-]?[0-9]{1,2})?", re.ASCII)
_NOTHING = re.compile(r"-?(nan|inf)", re.ASCII)


@lru_cache(maxsize=4096)
def _unit(tool: Tool, name: str) -> tuple[Unit, Decimal]:
    """Return the unit of a name, and by what its figures are multiplied."""
    for pattern, unit, factor in _RULES[tool]:
        if re.fullmatch(pattern, name):
            return unit, factor
    return "unknown", Decimal(1)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: what its figures are of, and what they are multiplied by."""

    tool: Tool
    scope: Scope
    number: int | None
    socket: int | None
    name: str
    unit: Unit
    factor: Decimal

    @classmethod
    def of(
        cls,
        tool: Tool,
        scope: Scope,
        name: str,
        number: int | None = None,
        socket: int | None = None,
    ) -> _Column:
        """Return a column with the unit of its name."""
        return cls(tool, scope, number, socket, name, *_unit(tool, name))

    def value(self, cell: str, line: int) -> Value:
        """Return the figure of a cell, or a gap."""
        word = cell.strip()
        number = word.removesuffix("%") if self.unit == "share" else word
        if not _NUMBER.fullmatch(number):
            return self._gap(word, line)
        # In decimals: 0.07 GB are 70000000 bytes, not one and a half hundred-millionths more.
        figure = Decimal(number)
        if figure.is_signed() and self.unit not in ("°C", "unknown"):
            return self._made(None, f"{self.tool} printed {word}, which stands for unknown")
        return self._made(float(figure * self.factor), "")

    def _gap(self, word: str, line: int) -> Value:
        if not word and self.tool == "pcm-memory":
            return self._made(None, f"{self.tool} left it empty, as it does for an idle channel")
        if word == "N/A":
            return self._made(None, f"{self.tool} printed N/A")
        if _NOTHING.fullmatch(word):
            return self._made(None, f"{self.tool} printed {word}: it divided by 0")
        raise _fault(self.tool, line, f"{self.name} is {_shown(word)}", "a number or N/A")

    def _made(self, value: float | None, why: str) -> Value:
        return Value(
            self.tool, self.scope, self.number, self.socket, self.name, self.unit, value, why
        )


def parse(tool: Tool, text: str) -> list[Sample]:
    """Return the samples in what `tool -csv` printed, or raise SkblabError in one line.

    There are none if the tool was stopped before the first one.
    """
    lines = _Lines(tool, text)
    if tool == "pcm-numa":
        return list(_numa(lines))
    if tool == "pcm-pcie":
        return list(_pcie(lines))
    return list(_rows(lines))


def _fault(tool: Tool, line: int, what: str, expected: str) -> SkblabError:
    return SkblabError(f"{tool} -csv, line {line}: {what}; expected {expected}")


def _shown(text: str) -> str:
    return repr(one_line(text, 60))


@dataclass(slots=True)
class _Lines:
    """The lines that are not blank, with their numbers, and how the text ends."""

    tool: Tool
    text: str
    lines: list[tuple[int, str]] = field(init=False)

    def __post_init__(self) -> None:
        # By newlines alone: nothing else that Python takes for the end of a line is one here.
        numbered = enumerate(self.text.split("\n"), 1)
        self.lines = [(number, line.rstrip("\r")) for number, line in numbered if line.strip()]

    def last(self, line: int) -> bool:
        """Whether a line is the last one."""
        return line == self.lines[-1][0]

    def cut(self, line: int) -> bool:
        """Whether a line lacks the newline behind it."""
        return self.last(line) and not self.text.endswith("\n")

    def none(self, expected: str) -> SkblabError:
        """Return what is wrong with a text that has no table."""
        if not self.lines:
            return SkblabError(f"{self.tool} -csv printed nothing; expected {expected}")
        number, line = self.lines[-1]
        return _fault(self.tool, number, f"no table up to {_shown(line)}", expected)


# pcm and pcm-memory: two header rows, and one row a sample.

_DATED = re.compile(r"(Date)([,;])Time(\2.*)?", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2}) ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(\.[0-9]{1,3})?",
    re.ASCII,
)
_CORE = re.compile(r"Core([0-9]{1,5}) \(Socket *([0-9]{1,5})\)", re.ASCII)
_SOCKET = re.compile(r"Socket ?([0-9]{1,5})|SKT([0-9]{1,5})", re.ASCII)
_DIE = re.compile(r"SKT([0-9]{1,5})\.([0-9]{1,5})", re.ASCII)
_LINKS = re.compile(r"SKT([0-9]{1,5})((dataIn|trafficOut)( \(percent\))?)", re.ASCII)
_STATES = re.compile(r"(System|SKT([0-9]{1,5})) (Core|Pack)(age)? C-States?", re.ASCII)
_LINK = re.compile(r"[A-Z]+([0-9]{1,5})", re.ASCII)
_CHANNEL = re.compile(r"(EDC_|Mem_)?Ch([0-9]{1,5}).*", re.ASCII)
_OF_DIE = re.compile(r"UncFREQ Die ([0-9]{1,5}) .*", re.ASCII)
_TABLE = "a row of System and sockets, and below it one that begins with Date and Time"


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns behind date and time; `ended`: each row has a separator at its end."""

    separator: str
    ended: bool
    columns: tuple[_Column, ...]

    @property
    def fields(self) -> int:
        """How many fields a whole row has."""
        return 2 + len(self.columns) + self.ended


def _rows(lines: _Lines) -> Iterator[Sample]:
    header: _Header | None = None
    separators = ""
    above: tuple[int, str] | None = None
    for number, line in lines.lines:
        if dated := _DATED.fullmatch(line):
            separators = dated[2]
            header = _header(lines, above, (number, line), separators)
        elif header is not None and separators in line and not _heads(lines.tool, line):
            sample = _row(lines, header, number, line)
            if sample is not None:
                yield sample
        above = (number, line)
    if header is None:
        raise lines.none(_TABLE)


def _heads(tool: Tool, line: str) -> bool:
    """Whether a line is the upper row of a header, of a tool that was started again."""
    return bool(re.match("System[,;]" if tool == "pcm" else "[,;]{2}", line))


def _header(
    lines: _Lines, above: tuple[int, str] | None, below: tuple[int, str], separator: str
) -> _Header:
    number, names = below
    tool = lines.tool
    if above is None or above[0] != number - 1 or not _heads(tool, above[1]):
        begins = "System" if tool == "pcm" else separator * 2
        raise _fault(tool, number, "no row of sockets above Date", f"one that begins with {begins}")
    ended = names.endswith(separator)
    upper, lower = (row.removesuffix(separator).split(separator) for row in (above[1], names))
    if len(upper) != len(lower) and not lines.last(number):
        raise _fault(
            tool,
            number,
            f"{len(lower)} names below {len(upper)} sockets or cores",
            "as many of both",
        )
    columns = []
    heading = ""
    for place, name in enumerate(lower[: len(upper)]):
        heading = upper[place].strip() or heading
        if place >= 2:
            columns.append(_column(tool, heading, name.strip() or f"column {place + 1}"))
    return _Header(separator, ended, tuple(columns))


def _column(tool: Tool, heading: str, name: str) -> _Column:
    """Return the column of what stands above and below."""
    if states := _STATES.fullmatch(heading):
        socket = int(states[2]) if states[2] else None
        scope: Scope = "system" if socket is None else "socket"
        # Up to 202212 this heading goes on, over energy and frequency.
        if re.fullmatch(r"C[0-9]+res%", name):
            name = f"{'Core' if states[3] == 'Core' else 'Package'} {name}"
            return _Column.of(tool, scope, name, socket, socket)
        heading = "System" if socket is None else f"SKT{socket}"
    if heading == "System":
        return _Column.of(tool, "system", name)
    if core := _CORE.fullmatch(heading):
        return _Column.of(tool, "core", name, int(core[1]), int(core[2]))
    if die := _DIE.fullmatch(heading):
        return _Column.of(tool, "die", name, int(die[2]), int(die[1]))
    if (links := _LINKS.fullmatch(heading)) and (link := _LINK.fullmatch(name)):
        return _Column.of(tool, "link", links[2], int(link[1]), int(links[1]))
    if found := _SOCKET.fullmatch(heading):
        return _of_socket(tool, int(found[1] or found[2]), name)
    # Energy, latency and frequency have their name above, and below it the socket.
    if (found := _SOCKET.fullmatch(name)) and heading:
        socket = int(found[1] or found[2])
        if part := _OF_DIE.fullmatch(heading):
            return _Column.of(tool, "die", heading, int(part[1]), socket)
        return _Column.of(tool, "socket", heading, socket, socket)
    return _Column.of(tool, "other", f"{heading} {name}".strip())


def _of_socket(tool: Tool, socket: int, name: str) -> _Column:
    if tool == "pcm-memory" and (channel := _CHANNEL.fullmatch(name)):
        return _Column.of(tool, "channel", name, int(channel[2]), socket)
    return _Column.of(tool, "socket", name, socket, socket)


def _row(lines: _Lines, header: _Header, number: int, line: str) -> Sample | None:
    """Return the sample of a row; None for one that is cut short."""
    tool = lines.tool
    fields = line.split(header.separator)
    # pcm never prints a newline behind its last row: one that is there says nothing.
    cut = lines.last(number) if tool == "pcm" else lines.cut(number)
    if cut and len(fields) < header.fields + (not header.ended):
        return None
    # A message may stand behind the last separator, where pcm prints no newline.
    behind = fields[-1].strip() if header.ended else ""
    if len(fields) != header.fields or _NUMBER.fullmatch(behind):
        found = len(fields) - (header.ended and not behind)
        hint = ""
        if tool == "pcm-memory":
            hint = " (it may leave out idle channels: give it -all)"
        raise _fault(
            tool,
            number,
            f"{found} fields in {_shown(line)}",
            f"{len(header.columns) + 2} as in the header{hint}",
        )
    time = _time(tool, number, fields[0].strip(), fields[1].strip())
    values = _values(header.columns, fields[2 : 2 + len(header.columns)], number)
    return Sample(tool, time, None, values)


def _time(tool: Tool, line: int, day: str, clock: str) -> datetime:
    printed = f"{day} {clock}"
    fault = _fault(tool, line, f"{_shown(printed)} is no time", "such as 2026-04-01,12:00:00.000")
    found = _TIME.fullmatch(printed)
    if found is None:
        raise fault
    year, month, date, hour, minute, second = (int(found[part]) for part in range(1, 7))
    milliseconds = int((found[7] or ".0")[1:])
    try:
        begun = datetime(year, month, date, hour, minute)
        # A leap second is second 60.
        if second > 60:
            raise fault
        return begun + timedelta(seconds=second, milliseconds=milliseconds)
    except (ValueError, OverflowError) as error:
        raise fault from error


def _values(columns: Iterable[_Column], cells: Sequence[str], line: int) -> tuple[Value, ...]:
    return tuple(column.value(cell, line) for column, cell in zip(columns, cells, strict=True))


# pcm-numa: a table each sample, which ends with the row of the whole system.

_ELAPSED = re.compile(r"Time elapsed: ([0-9]{1,12}) ms", re.ASCII)
_CORES = re.compile(r"Core([,;])IPC(\1.*)?", re.ASCII)
_CORE_ROW = re.compile(r"[0-9]{1,5}", re.ASCII)


@dataclass(slots=True)
class _Table:
    """A table that is being read: rows are kept until it is whole."""

    line: int
    separator: str
    names: tuple[str, ...]
    elapsed_ns: int | None = None
    rows: int = 0
    label: str = ""
    values: list[Value] = field(default_factory=list)

    @classmethod
    def begun(cls, line: int, header: str, separator: str, elapsed_ns: int | None) -> _Table:
        """Return an empty table with the names of its header."""
        words = header.strip().removesuffix(separator).split(separator)
        names = tuple(word.strip() or f"column {place}" for place, word in enumerate(words, 1))
        return cls(line, separator, names, elapsed_ns)

    def fields(self, tool: Tool, number: int, line: str) -> list[str]:
        """Return the fields of a row, as many as there are names; pcm-numa's end each."""
        fields = line.split(self.separator)
        found = len(fields)
        if tool == "pcm-numa":
            found -= not fields.pop().strip()
        if len(fields) != len(self.names) or found != len(self.names):
            raise _fault(
                tool,
                number,
                f"{found} fields in {_shown(line)}",
                f"{len(self.names)} as in the header of line {self.line}",
            )
        return fields

    def sample(self, tool: Tool) -> Sample:
        """Return what was read."""
        return Sample(tool, None, self.elapsed_ns, tuple(self.values))


def _numa(lines: _Lines) -> Iterator[Sample]:
    tool = lines.tool
    table: _Table | None = None
    elapsed_ns: int | None = None
    begun = False
    for number, line in lines.lines:
        cores, elapsed = _CORES.fullmatch(line.strip()), _ELAPSED.fullmatch(line.strip())
        if table is not None and (cores or elapsed):
            raise _fault(
                tool, number, f"the table of line {table.line} has no end", "a row that begins *"
            )
        if elapsed:
            elapsed_ns = int(elapsed[1]) * 10**6
        elif cores:
            begun = True
            table = _Table.begun(number, line, cores[1], elapsed_ns)
            elapsed_ns = None
        elif table is not None and table.separator in line:
            # A row ends with a separator: with all of them it is whole without its newline.
            if lines.cut(number) and line.count(table.separator) < len(table.names):
                return
            if _core_row(table, lines, number, line):
                yield table.sample(tool)
                table = None
        elif begun and table is None and "," in line and not lines.cut(number):
            raise _fault(
                tool, number, f"{_shown(line)} is in no table", "a header that begins with Core"
            )
    if not begun:
        raise lines.none("a table with a header that begins Core,IPC")


def _core_row(table: _Table, lines: _Lines, number: int, line: str) -> bool:
    """Take a row; whether it was that of the whole system."""
    fields = table.fields(lines.tool, number, line)
    which = fields[0].strip()
    if which != "*" and not _CORE_ROW.fullmatch(which):
        raise _fault(lines.tool, number, f"a row of {_shown(which)}", "a core's number or *")
    columns = [
        _Column.of(lines.tool, "system", name)
        if which == "*"
        else _Column.of(lines.tool, "core", name, int(which))
        for name in table.names[1:]
    ]
    table.values += _values(columns, fields[1:], number)
    return which == "*"


# pcm-pcie: a table each sample, with a row or three for each socket.

_SOCKETS = re.compile(r"Skt([,;]).*", re.ASCII)
_FILTERS = ("(Total)", "(Miss)", "(Hit)")


def _pcie(lines: _Lines) -> Iterator[Sample]:
    tool = lines.tool
    table: _Table | None = None
    rows: int | None = None
    for number, line in lines.lines:
        if sockets := _SOCKETS.fullmatch(line.strip()):
            if table is not None:
                if rows not in (None, table.rows) or not _all_filters(table):
                    raise _fault(
                        tool,
                        number,
                        f"{table.rows} rows in the table of line {table.line}",
                        "a row, or with -e three, for each socket",
                    )
                rows = table.rows
                yield table.sample(tool)
            table = _Table.begun(number, line, sockets[1], None)
        elif table is not None and table.separator in line:
            if lines.cut(number):
                return
            _socket_row(table, lines, number, line)
    if table is None:
        raise lines.none("a table with a header that begins with Skt,")
    if rows is not None and table.rows > rows:
        raise _fault(tool, table.line, f"{table.rows} rows in the last table", f"{rows} as before")
    if table.rows and _all_filters(table) and rows in (None, table.rows):
        yield table.sample(tool)


def _all_filters(table: _Table) -> bool:
    """Whether a table does not end in the middle of a socket's three rows."""
    return table.rows > 0 and table.label in ("", "(Hit)")


def _filtered(cell: str) -> tuple[str, str]:
    """Return a row's last figure, and what stands behind it."""
    label = next((label for label in _FILTERS if cell.endswith(label)), "")
    return cell.removesuffix(label), label


def _socket_row(table: _Table, lines: _Lines, number: int, line: str) -> None:
    tool = lines.tool
    fields = table.fields(tool, number, line)
    which = fields[0].strip()
    if not _CORE_ROW.fullmatch(which):
        raise _fault(tool, number, f"a row of {_shown(which)}", "a socket's number")
    fields[-1], label = _filtered(fields[-1].strip())
    if table.rows and bool(label) != bool(table.label):
        raise _fault(
            tool, number, f"the row ends with {_shown(line[-30:])}", "an end as in the row before"
        )
    table.label = label
    columns = []
    for name in table.names[1:]:
        column = _Column.of(tool, "socket", name, int(which), int(which))
        columns.append(replace(column, name=f"{name} {label}".strip()))
    table.values += _values(columns, fields[1:], number)
    table.rows += 1
