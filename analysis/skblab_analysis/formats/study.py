# SPDX-License-Identifier: GPL-2.0-or-later
"""A published study and our own run of it: what the scripts printed, and the figures of both.

Times in nanoseconds as the scripts print them, in microseconds as studies give them.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt, ValidationError

from skblab_analysis.base.checked import Closed, RecordError, parse
from skblab_analysis.base.errors import understood
from skblab_analysis.base.whole import MOST_COUNTED, whole
from skblab_analysis.formats.ledger import Ledger

PACKET = re.compile(r"(udp|tcp) (-?\d+) (\d+)")
COUNT = re.compile(
    r"(begun|ended|again|unwanted|merged|merged_bytes|freed|dropped|under_way): (\d+)"
)
SKIPPED = re.compile(r"Number of errors: (\d+), skipped probes: (\d+)")
# Tukey's.
FENCE = 1.5


@dataclass(frozen=True)
class Packet:
    """One packet's line."""

    protocol: str
    ns: int
    bytes: int


class Counts(Closed):
    """What a script says at its end: packets, but for `merged_bytes`."""

    begun: NonNegativeInt
    ended: NonNegativeInt
    again: NonNegativeInt
    unwanted: NonNegativeInt
    merged: NonNegativeInt
    merged_bytes: NonNegativeInt
    freed: NonNegativeInt
    dropped: NonNegativeInt
    under_way: NonNegativeInt


@dataclass(frozen=True)
class Printed:
    """All that a script printed; `said` is what is no packet's line."""

    packets: tuple[Packet, ...]
    counts: Counts
    skipped: int
    said: str

    @property
    def bytes(self) -> int:
        """Length of all that was sent, whether it came alone or merged into another packet."""
        return sum(packet.bytes for packet in self.packets) + self.counts.merged_bytes


def read_printed(lines: Iterable[str], stderr: str) -> Printed:
    """Read what a script printed; RecordError if it did not come to its counts."""
    packets: list[Packet] = []
    counts: dict[str, int] = {}
    said: list[str] = []
    for line in map(str.strip, lines):
        with understood("what the script printed", line, RecordError):
            if found := PACKET.fullmatch(line):
                sign = -1 if found[2].startswith("-") else 1
                ns = sign * whole(found[2].removeprefix("-"))
                packets.append(Packet(found[1], ns, whole(found[3], MOST_COUNTED)))
                continue
            if found := COUNT.fullmatch(line):
                counts[found[1]] = whole(found[2], MOST_COUNTED)
        said.append(f"{line}\n")
    if absent := [name for name in Counts.model_fields if name not in counts]:
        raise RecordError(f"the script did not print all its counts: no {', '.join(absent)}")
    with understood("what the script skipped", stderr, RecordError):
        skipped = sum(whole(line[1]) + whole(line[2]) for line in SKIPPED.finditer(stderr))
    return Printed(tuple(packets), Counts(**counts), skipped, "".join(said) + stderr)


def ledger(
    trial: int, printed: Printed, protocol: str, packets: int, size: int, *, resent: bool
) -> Ledger:
    """Return the ledger of one experiment: what began, and what must have come.

    UDP: a line for each of `packets`. TCP: its bytes, for the kernel makes segments as it likes;
    with `resent`, those that came twice count twice.
    """
    counts = printed.counts
    known = counts.ended + counts.again + counts.unwanted + counts.merged + counts.freed
    known += counts.dropped + counts.under_way
    if protocol == "udp":
        uncounted = abs(packets - len(printed.packets))
    else:
        missing = packets * size - printed.bytes
        uncounted = max(missing, 0 if resent else -missing)
        uncounted = -(-uncounted // size)
    return Ledger(
        trial=trial,
        unit="ns",
        source="hooks",
        begun=counts.begun,
        ended=counts.ended + counts.freed + counts.dropped,
        merged=counts.merged,
        in_flight=counts.under_way,
        continued=counts.again,
        filtered=counts.unwanted,
        copies=0,
        unaccounted={
            "missed": printed.skipped,
            "lost_lines": abs(counts.ended - len(printed.packets)),
            "other_protocol": sum(packet.protocol != protocol for packet in printed.packets),
            "negative": sum(packet.ns < 0 for packet in printed.packets),
            "unbalanced": abs(counts.begun - known),
            "uncounted": uncounted,
        },
    )


class Figures(Closed):
    """One experiment in a study's figures; None where the study gives none."""

    experiment: str
    average_us: NonNegativeFloat
    median_us: NonNegativeFloat
    mode_us: NonNegativeFloat
    stddev_us: NonNegativeFloat
    average_without_outliers_us: NonNegativeFloat | None = None
    samples: NonNegativeInt


def figures(experiment: str, ns: Sequence[int]) -> Figures:
    """Return the study's figures of our times; RecordError of fewer than two."""
    if len(ns) < 2:
        raise RecordError(f"{experiment}: {len(ns)} packets are too few for statistics")
    first, median, third = statistics.quantiles(ns, n=4, method="inclusive")
    reach = FENCE * (third - first)
    inside = [time for time in ns if first - reach <= time <= third + reach]
    found = {
        "experiment": experiment,
        "average_us": statistics.fmean(ns) / 1000,
        "median_us": median / 1000,
        # Of several that are as frequent, the shortest, in whatever order the packets came.
        "mode_us": min(statistics.multimode(time // 1000 for time in ns)),
        "stddev_us": statistics.stdev(ns) / 1000,
        "average_without_outliers_us": statistics.fmean(inside) / 1000,
        "samples": len(ns),
    }
    return parse(Figures, found, f"{experiment}:")


def read_published(file: Path) -> dict[str, Figures]:
    """Read a study's table; RecordError names the file, the line and the column."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"cannot read the published figures {file}: {error}") from error
    numbered = [(at, line) for at, line in enumerate(lines, 1) if line and line[0] != "#"]
    rows = csv.DictReader([line for _, line in numbered])
    if set(rows.fieldnames or []) != set(Figures.model_fields):
        raise RecordError(f"{file}: expected the columns {', '.join(Figures.model_fields)}")
    found: dict[str, Figures] = {}
    for (line, _), row in zip(numbered[1:], rows, strict=True):
        if None in row:
            raise RecordError(f"{file} line {line}: more values than columns")
        try:
            one = Figures.model_validate({name: text or None for name, text in row.items()})
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"]))
            raise RecordError(f"{file} line {line}: {place}: {fault['msg']}") from error
        if one.experiment in found:
            raise RecordError(f"{file} line {line}: {one.experiment} stands there twice")
        found[one.experiment] = one
    return found
