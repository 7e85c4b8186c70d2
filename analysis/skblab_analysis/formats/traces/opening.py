# SPDX-License-Identifier: GPL-2.0-or-later
"""Which format a file has, by its content or its name; and all of an import."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np

from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.traces import luna, pcap, target, timestamps
from skblab_analysis.formats.traces.account import Account
from skblab_analysis.formats.traces.chunk import Source
from skblab_analysis.formats.traces.document import FormatName, ImportDocument, Stream, Written
from skblab_analysis.formats.traces.records import RecordsSource, RecordsWriter
from skblab_analysis.formats.traces.trex import TrexStatistics

FORMATS: tuple[FormatName, ...] = get_args(FormatName)
_HEAD = 4096
_RECORDS = b"skbpkts\n"
# Packets of which the times are looked at, to know whether a file may have such.
_LOOKED_AT = 64
_LONGEST_DELAY_S = 3600.0


def format_of(path: Path) -> FormatName:
    """Return the format of a file; UsageError in one line if it cannot be told."""
    head = _head(path)
    by_content = _by_content(head)
    by_name: FormatName | None = (
        "timestamps" if path.name.startswith("timestamps-") and path.suffix != ".json" else None
    )
    if by_content and by_name and by_content != by_name:
        raise UsageError(
            f"{path} has the name of {by_name} and the content of {by_content}: say which by "
            "--format"
        )
    found = by_content or by_name or ("timestamps" if _like_times(head) else None)
    if found is None:
        raise UsageError(
            f"the format of {path} cannot be told: expected one of {', '.join(FORMATS)}; say "
            "which by --format"
        )
    return found


def _head(path: Path) -> bytes:
    """Return how a file begins; UsageError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _by_content(head: bytes) -> FormatName | None:
    if head.startswith(_RECORDS):
        return "records"
    if head[:4] in pcap.PCAP or head[:4] == pcap.PCAPNG:
        return "pcap"
    if luna.columns(head.partition(b"\n")[0]):
        return "luna"
    if head.lstrip()[:1] == b"{":
        return "trex"
    return None


def _like_times(head: bytes) -> bool:
    """Return whether these may be doubles: each packet came after it was sent, within an hour."""
    count = min(len(head) // timestamps.BYTES, _LOOKED_AT)
    pairs = np.frombuffer(head, "<f8", count * 2).reshape(-1, 2)
    if not count or not timestamps.sound(pairs).all() or not (pairs > 0).any():
        return False
    took = pairs[:, 1] - pairs[:, 0]
    return bool((took >= 0).all() and took.max() < _LONGEST_DELAY_S)


def run(
    path: Path,
    output: Path | None,
    name: FormatName | None,
    *,
    same_clock: bool = False,
    expect: int | None = None,
    transmission: int | None = None,
) -> ImportDocument:
    """Read a file, write its records if asked to, and return what there is to say of it."""
    _head(path)
    name = name or format_of(path)
    if name == "trex":
        if output:
            raise UsageError(
                f"{path}: TRex gives statistics and no packets, so there are no records to write: "
                "leave out -o"
            )
        statistics = TrexStatistics(path)
        return ImportDocument(
            file=str(path),
            format=name,
            unknown=statistics.unknown(),
            troubles=(),
            streams=statistics.streams(),
            record=None,
        )
    if output:
        target.check(output, path)
    source: Source
    if name == "records":
        source = RecordsSource(path, same_clock)
    elif name == "timestamps":
        source = timestamps.TimestampsSource(path)
    elif name == "luna":
        source = luna.LunaSource(path)
    else:
        source = pcap.PcapSource(path, same_clock, transmission)
    stream, troubles, written = _counted(source, output, expect)
    return ImportDocument(
        file=str(path),
        format=name,
        unknown=source.origin.unknown,
        troubles=troubles,
        streams=(stream,),
        record=written,
    )


def _counted(
    source: Source, output: Path | None, expect: int | None
) -> tuple[Stream, tuple[str, ...], Written | None]:
    account, troubles = Account(source.origin, expect), list[str]()
    if output is None:
        for part in source.parts():
            if isinstance(part, str):
                troubles.append(part)
            else:
                account.take(part)
        return account.stream(), tuple(troubles), None
    with RecordsWriter(output, source.origin) as writer:
        for part in source.parts():
            if isinstance(part, str):
                troubles.append(part)
            else:
                writer.add(part, account.take(part))
        written = writer.finish()
    return account.stream(), tuple(troubles), written
