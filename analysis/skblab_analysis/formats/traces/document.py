# SPDX-License-Identifier: GPL-2.0-or-later
"""What `skblab traffic import` prints of a file: the receiver's figures, null where not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from skblab_analysis.base.checked import Closed

FormatName = Literal["records", "timestamps", "luna", "pcap", "trex"]


class Times(Closed):
    """One kind of time, nanoseconds, of `count` values.

    `negative` ones are counted and in no other figure. `percentiles_ns`: of 50, 90, 99, 99.9, 99.99
    and 99.999 those with ten values beyond them.
    """

    count: NonNegativeInt
    negative: NonNegativeInt
    min_ns: NonNegativeInt | None
    mean_ns: NonNegativeFloat | None
    sd_ns: NonNegativeFloat | None
    max_ns: NonNegativeInt | None
    percentiles_ns: Mapping[str, NonNegativeInt]


class ForeignPackets(Closed):
    """Datagrams that are not of this transmission, by what gave them away."""

    total: NonNegativeInt
    short: NonNegativeInt | None
    magic: NonNegativeInt | None
    version: NonNegativeInt | None
    other_transmission: NonNegativeInt


class StampsSaid(Closed):
    """Where the times of arrival are from; `clock` is null where the source does not say."""

    clock: str | None
    kind: str
    not_by_kernel: NonNegativeInt | None


class TrexSaid(Closed):
    """What TRex says that has another definition than the receiver's figures.

    `jitter_us` is TRex's smoothed jitter; `histogram_us` counts packets by the lower end of a range
    of latency; `last_max_us` is the largest latency since TRex was asked before.
    """

    jitter_us: NonNegativeFloat | None
    last_max_us: NonNegativeFloat | None
    histogram_us: Mapping[str, NonNegativeInt]
    seq_too_high: NonNegativeInt | None
    seq_too_low: NonNegativeInt | None


class Stream(Closed):
    """Figures of one stream of packets, by the definitions of `skblab-traffic receive`.

    received = distinct + duplicates + too_old + beyond + foreign.total, where all are known.
    `delay_of` says what `delay` is: from sender to receiver, or there and back.
    """

    name: str | None
    transmission: NonNegativeInt | None
    expected: NonNegativeInt | None
    received: NonNegativeInt | None
    bytes: NonNegativeInt | None
    distinct: NonNegativeInt | None
    duplicates: NonNegativeInt | None
    reordered: NonNegativeInt | None
    reordered_in_flow: NonNegativeInt | None
    lost: NonNegativeInt | None
    too_old: NonNegativeInt | None
    beyond: NonNegativeInt | None
    foreign: ForeignPackets | None
    flows: NonNegativeInt | None
    seconds: NonNegativeFloat | None
    rate: NonNegativeFloat | None
    stamps: StampsSaid
    inter_arrival: Times | None
    jitter: Times | None
    delay: Times | None
    delay_of: Literal["one way", "round trip"] | None
    delay_unknown: str | None
    percentile_error: NonNegativeFloat | None
    trex: TrexSaid | None = None


class Written(Closed):
    """The file of records that was written."""

    file: str
    kept: NonNegativeInt
    bytes: NonNegativeInt


class ImportDocument(Closed):
    """What a file of another program says, by the definitions of `skblab-traffic receive`.

    `unknown` says what the source does not tell, by field, and why or what stands there instead.
    `troubles` are what of the file could not be read; all figures are of the rest.
    """

    schema_name: Literal["skblab.traffic-import/1"] = "skblab.traffic-import/1"
    file: str
    format: FormatName
    unknown: Mapping[str, str]
    troubles: tuple[str, ...]
    streams: tuple[Stream, ...]
    record: Written | None
