# SPDX-License-Identifier: GPL-2.0-or-later
"""Logs of LUNA (Klute 2013) with `-T`: its server's, and those of its client's echo thread.

A first line names the columns, between tabs. `ktime` is the kernel's receive stamp since 1970:
whole microseconds, or in newer versions seconds with nine decimals. A server's log has `source`,
`port`, `sequence` and `size`; with `utime`, when the program had read it, which is not used. An
echo's log has `sequence`, `size` and `rtt`, in microseconds: the packet was sent so long before.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from skblab_analysis.base.errors import SkblabError, UsageError, os_trouble
from skblab_analysis.formats.packets import Flag
from skblab_analysis.formats.traces.chunk import Chunk, Origin
from skblab_analysis.formats.traces.numbering import Flows, Whole, unfolded

# Bytes that are taken apart at once, and the longest line that there may be.
_AT_ONCE = 1 << 20
_LONGEST = 1 << 12
_SEQUENCE_BITS = 32
_SERVER = frozenset(("ktime", "source", "port", "sequence", "size"))
_ECHO = frozenset(("ktime", "sequence", "size", "rtt"))
_KINDS = (_SERVER, _SERVER | {"utime"}, _ECHO)
_US = 1000
# Least and largest number of each column; times are microseconds.
_RANGES: Mapping[str, tuple[int, int]] = {
    "ktime": (0, 2**62 // _US),
    "utime": (0, 2**62 // _US),
    "port": (0, 2**16 - 1),
    # -1: the packet was too short for a number.
    "sequence": (-1, 2**_SEQUENCE_BITS - 1),
    "size": (0, 2**16 - 1),
    "rtt": (-(10**12), 10**12),
}
_NUMBER = re.compile(r"-?[0-9]{1,19}")
# Seconds, with nanoseconds.
_SECONDS = re.compile(r"[0-9]{1,9}\.[0-9]{9}|[1-3][0-9]{9}\.[0-9]{9}")
Columns = dict[str, Whole]


class _Doubt(Exception):
    """Some line of many is not as it should be."""


def columns(line: bytes) -> tuple[str, ...] | None:
    """Return the columns that a first line names, None if it is not of LUNA."""
    words = line.removeprefix(b"#").strip().split(b"\t")
    names = tuple(word.strip().decode("ascii", "replace") for word in words)
    return names if len({*names}) == len(names) and {*names} in _KINDS else None


class LunaSource:
    """Such a log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                line = file.readline(_LONGEST)
        except OSError as error:
            raise UsageError(f"cannot read the log: {os_trouble(error)}") from error
        names = columns(line)
        if names is None:
            raise UsageError(
                f"{path}:1: no log of LUNA: expected a line of column names between tabs, such as "
                "ktime, source, port, sequence, size (luna -T writes it)"
            )
        self._names = names
        self._begin = len(line)
        self._flows = Flows()
        self._highest = 0
        self._echo = "rtt" in names
        self.origin = _origin(names)

    def parts(self) -> Iterator[Chunk | str]:
        """Yield packets of the log, and lines that are none."""
        line, rest = 2, b""
        wrong, first_wrong = 0, ""
        try:
            with self._path.open("rb") as file:
                file.seek(self._begin)
                while data := file.read(_AT_ONCE):
                    whole, end, rest = (rest + data).rpartition(b"\n")
                    if not end and len(rest) > _LONGEST:
                        raise UsageError(f"{self._path}:{line}: too long for a line of a log")
                    if not end:
                        continue
                    found, faults = self._read(whole + end, line)
                    first_wrong = first_wrong or next(iter(faults), "")
                    wrong += len(faults)
                    line += whole.count(b"\n") + 1
                    if len(found["ktime"]):
                        yield self._chunk(found)
        except OSError as error:
            raise SkblabError(f"cannot read the log: {os_trouble(error)}") from error
        if wrong:
            yield f"{wrong} lines are no packets and left out, the first of them {first_wrong}"
        if rest:
            # Its last digits may be those that are missing.
            yield f"the file ends within line {line}, which is left out"

    def _read(self, text: bytes, line: int) -> tuple[Columns, list[str]]:
        """Return what whole lines hold, and which are wrong, and why."""
        try:
            return self._all(text), []
        except (pa.ArrowInvalid, _Doubt):
            return self._each(text, line)

    def _all(self, text: bytes) -> Columns:
        """Return what lines hold that are all as they should be."""
        texts = {"source"}
        if b"." in text.partition(b"\n")[0].split(b"\t")[self._names.index("ktime")]:
            texts.add("ktime")
        table = csv.read_csv(
            io.BytesIO(text),
            csv.ReadOptions(column_names=self._names, use_threads=False),
            csv.ParseOptions(
                delimiter="\t", quote_char=False, escape_char=False, ignore_empty_lines=False
            ),
            csv.ConvertOptions(
                column_types={
                    name: pa.string() if name in texts else pa.int64() for name in self._names
                },
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        found = {}
        for name in self._names:
            column = table[name].combine_chunks()
            if name == "source":
                coded = column.dictionary_encode()
                self._sources = coded.dictionary.to_pylist()
                found[name] = coded.indices.to_numpy().astype(np.int64)
                continue
            if name in texts:
                if not pc.all(pc.match_substring_regex(column, f"^({_SECONDS.pattern})$")).as_py():
                    raise _Doubt
                digits = pc.replace_substring(column, ".", "")
                found[name] = pc.cast(digits, pa.int64()).to_numpy()
            else:
                found[name] = column.to_numpy().copy()
                low, high = _RANGES[name]
                if found[name].min() < low or found[name].max() > high:
                    raise _Doubt
                if name == "ktime":
                    found[name] *= _US
        return found

    def _each(self, text: bytes, line: int) -> tuple[Columns, list[str]]:
        """Return what good lines hold, and what is wrong with others."""
        rows, faults = list[list[int]](), list[str]()
        sources: dict[str, int] = {}
        for number, one in enumerate(text.split(b"\n")[:-1], line):
            words = one.removesuffix(b"\r").decode(errors="replace").split("\t")
            try:
                rows.append(self._row(words, sources))
            except ValueError as error:
                faults.append(f"line {number}: {error}")
        self._sources = list(sources)
        table = np.array(rows, np.int64).reshape(-1, len(self._names))
        return {name: table[:, at] for at, name in enumerate(self._names)}, faults

    def _row(self, words: list[str], sources: dict[str, int]) -> list[int]:
        if len(words) != len(self._names):
            raise ValueError(f"it has {len(words)} columns, and expected are {len(self._names)}")
        row = []
        for name, word in zip(self._names, words, strict=True):
            if name == "source":
                row.append(sources.setdefault(word, len(sources)))
                continue
            if name == "ktime" and _SECONDS.fullmatch(word):
                row.append(int(word.replace(".", "")))
                continue
            low, high = _RANGES[name]
            if not (_NUMBER.fullmatch(word) and word.isascii() and low <= int(word) <= high):
                raise ValueError(f"{name} is {word[:40]!r}, expected a number")
            row.append(int(word) * (_US if name == "ktime" else 1))
        return row

    def _chunk(self, found: Columns) -> Chunk:
        received, numbers = found["ktime"], found["sequence"]
        kind = np.zeros(len(received), np.uint32)
        numbered = numbers >= 0
        kind[~numbered] = int(Flag.FOREIGN)
        sequence = np.zeros(len(numbers), np.int64)
        sequence[numbered] = unfolded(numbers[numbered], _SEQUENCE_BITS, self._highest)
        self._highest = max(self._highest, int(sequence.max()))
        return Chunk(
            received_ns=received,
            sent_ns=np.maximum(received - found["rtt"] * _US, 0) if self._echo else None,
            sequence=sequence,
            flow=None if self._echo else self._flow(found["source"], found["port"]),
            payload_bytes=found["size"].astype(np.uint16),
            kind=kind,
        )

    def _flow(self, sources: Whole, ports: Whole) -> npt.NDArray[np.uint16]:
        keys, inverse = np.unique((sources << 16) | ports, return_inverse=True)
        named = [(self._sources[key >> 16], key & 0xFFFF) for key in keys.tolist()]
        return self._flows.of(named, inverse)


def _origin(names: tuple[str, ...]) -> Origin:
    echo = "rtt" in names
    unknown = {"stamps.not_by_kernel": "the log does not tell"}
    if echo:
        unknown["flow"] = "a log of echoes has none"
    else:
        unknown["sent"] = "a server's log does not say when packets were sent"
    if "utime" in names:
        unknown["utime"] = "when the program had read a packet: it is in the log, and not used"
    return Origin(
        format="luna",
        stamps="kernel",
        receiver_clock="CLOCK_REALTIME",
        one_clock=echo,
        delay="round trip" if echo else "one way",
        delay_unknown="a log of LUNA's server does not say when packets were sent",
        unknown=unknown,
    )
