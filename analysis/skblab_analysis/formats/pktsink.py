# SPDX-License-Identifier: GPL-2.0-or-later
"""What `pktsink` prints: how a generator's packets arrived at the end of a latency trial.

Times are nanoseconds. Those of packets are of the time that counts only (`span`), and of distinct
packets: duplicates are in no figure but their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from skblab_analysis.base.real import Real
from skblab_analysis.base.whole import Count, Positive, Signed, Whole
from skblab_analysis.formats.pathlat import Distribution, ToolDocument

# As many as pktsink keeps of each kind of anomaly, see probes/bpf/stream.h.
KEPT = 1024


class AtEnds(ToolDocument):
    """A figure when pktsink began and when it ended."""

    start: Signed
    end: Signed


class Clock(ToolDocument):
    """Whether stamps can be relied upon; they are of CLOCK_REALTIME, or of CLOCK_TAI.

    `tai_offset_s`: by what CLOCK_TAI is ahead, in seconds. `steps`: how often CLOCK_REALTIME was
    set meanwhile, and `stepped_ns` by how much in all. Slewing is no step, and does no harm.
    """

    tai_offset_s: AtEnds
    steps: Count
    stepped_ns: Signed


class Stamper(ToolDocument):
    """Packets that were stamped anew as they left by a device; `failed` may have bad checksums."""

    device: str
    stamped: Count
    failed: Count


class Stamps(ToolDocument):
    """Packets by what stamped them. `resolution_ns` is the coarsest of them, null without any.

    pktgen rounds down to whole microseconds, so that a latency is up to 999 ns too long. It stamps
    before it waits for a packet's time: at a rate, only stamps made anew at `egress` tell when a
    packet was sent. Those of `sender` are the sending program's own (skblab-traffic).
    """

    none: Count
    pktgen: Count
    egress: Count
    sender: Count = 0
    resolution_ns: Positive | None
    stamper: Stamper | None


# Of so many numbers pktsink knows at least whether they came (order.h).
NUMBERS_KNOWN = ((1 << 14) - 1) * 64


class Packets(ToolDocument):
    """What came, by the generator's sequence numbers, which begin at 1.

    `seen` = `foreign` + `received`, and `received` = `distinct` + `duplicates` + `too_old`.
    `lost`: numbers up to the `highest` that did not come, of the last NUMBERS_KNOWN of which
    `last_lost` is the highest (0: none of them). `reordered`: a higher one came before
    (RFC 4737, section 3); `furthest_behind` the highest. Of those `too_old` it cannot be told
    whether they are duplicates. `merged`: received ones that stand for several. `outside`: distinct
    ones whose time or number does not count.
    """

    seen: Count
    foreign: Count
    received: Count
    merged: Count
    distinct: Count
    duplicates: Count
    reordered: Count
    furthest_behind: Count
    too_old: Count
    highest: Count
    lost: Count
    last_lost: Count
    outside: Count

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for name, whole, parts in (
            ("seen", self.seen, self.foreign + self.received),
            ("received", self.received, self.distinct + self.duplicates + self.too_old),
            ("highest", self.highest, self.distinct + self.lost),
        ):
            if whole != parts:
                raise ValueError(f"{name} is {whole}, and its parts are {parts}")
        if self.reordered > self.distinct or self.outside > self.distinct:
            raise ValueError(
                f"reordered {self.reordered} or outside {self.outside} of {self.distinct} distinct"
            )
        return self

    def missing(self, sent: int) -> int:
        """Return how many of those sent did not come: those behind the highest are among them."""
        return sent - self.distinct


class Span(ToolDocument):
    """Which packets' times count: those that arrive from then on, before then.

    Since the first packet's arrival, of which `first_packet_ns` is the CLOCK_REALTIME.
    """

    first_packet_ns: Whole | None
    last_packet_ns: Whole
    from_ns: Whole
    until_ns: Positive | None


class Gap(ToolDocument):
    """Numbers left out by the packet with `sequence`, which came at `end_ns`.

    The packet before came at `begin_ns`, since the first. Some may have come later, reordered.
    """

    begin_ns: Whole
    end_ns: Whole
    packets: Positive
    sequence: Count


class LateRun(Gap):
    """An anomaly: packets that were late one after the other, the first of them `sequence`.

    They arrived from `begin_ns` to `end_ns`, since the stream's first packet; `sent_ns` is from the
    stamp of the first to that of the last, less than 0 if these were reordered. Of latency there
    are sum, smallest and largest. `open_begin`, `open_end`: the data begins or ends with it.
    """

    sent_ns: Signed
    sum_ns: Whole
    min_ns: Whole
    max_ns: Whole
    open_begin: bool
    open_end: bool

    @property
    def mean_ns(self) -> float:
        """Mean latency of its packets."""
        return self.sum_ns / self.packets

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if not self.min_ns * self.packets <= self.sum_ns <= self.max_ns * self.packets:
            raise ValueError(
                f"{self.packets} packets of {self.min_ns} … {self.max_ns} ns are {self.sum_ns} ns"
            )
        return self


class _Kept(ToolDocument):
    """Anomalies of a kind: all in `count`, with their `packets`, and the first ones `recorded`."""

    count: Count
    packets: Count
    longest: Count
    not_recorded: Count

    def _check(self, recorded: tuple[Gap, ...]) -> None:
        if self.count != len(recorded) + self.not_recorded:
            raise ValueError(
                f"count is {self.count}: {len(recorded)} recorded, {self.not_recorded} not"
            )
        held = sum(bucket.packets for bucket in recorded)
        longest = max((bucket.packets for bucket in recorded), default=0)
        whole = not self.not_recorded
        if held > self.packets or longest > self.longest:
            raise ValueError("more is recorded than there was")
        if whole and (held, longest) != (self.packets, self.longest):
            raise ValueError(f"{self.packets} packets in all, and recorded are {held}")


class Gaps(_Kept):
    """Gaps in the sequence numbers, `packets` missing in them at first; `last`: recorded or not."""

    recorded: Annotated[tuple[Gap, ...], Field(max_length=KEPT)]
    last: Gap | None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        self._check(self.recorded)
        if (self.last is None) != (self.count == 0):
            raise ValueError(f"of {self.count} gaps the last is {self.last}")
        return self


class LateRuns(_Kept):
    """Runs of late packets."""

    recorded: Annotated[tuple[LateRun, ...], Field(max_length=KEPT)]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        self._check(self.recorded)
        return self


class LatePackets(ToolDocument):
    """Packets with a latency of at least `threshold_ns`; `in_a_row` of them, or more, are a run."""

    threshold_ns: Positive
    in_a_row: Positive
    packets_late: Count
    runs: LateRuns

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.runs.packets > self.packets_late:
            raise ValueError(
                f"{self.runs.packets} packets in runs, of {self.packets_late} that were late"
            )
        if self.runs.packets < self.runs.count * self.in_a_row:
            raise ValueError(
                f"{self.runs.count} runs of {self.in_a_row} or more have {self.runs.packets}"
            )
        for run in self.runs.recorded:
            if run.min_ns < self.threshold_ns:
                raise ValueError(f"a run has a packet of {run.min_ns} ns, which is not late")
        return self


class ArrivalsDocument(ToolDocument):
    """One run of `pktsink`.

    `latency`: from stamp to arrival, one way. `inter_arrival`: between two packets that arrived one
    after the other, `negative` where two CPUs received them at once. `jitter`: the absolute
    difference of their latencies (RFC 4689, section 3.2.5).
    """

    schema_: Literal["skblab.pktsink/1"] = Field(alias="schema")
    kernel: str
    clock_unit: Literal["ns"]
    sub_buckets: Literal[16]
    seconds: Real
    device: str
    ifindex: Positive
    clock: Clock
    stamps: Stamps
    packets: Packets
    span: Span
    latency: Distribution
    inter_arrival: Distribution
    jitter: Distribution
    late: tuple[LatePackets, ...]
    gaps: Gaps

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        stamped = self.stamps.pktgen + self.stamps.egress + self.stamps.sender
        within = self.packets.distinct - self.packets.outside
        for name, expected, held in (
            ("stamps", within, stamped + self.stamps.none),
            ("latency", stamped, _values(self.latency)),
            ("inter_arrival", max(within - 1, 0), _values(self.inter_arrival)),
            ("jitter", max(stamped - 1, 0), _values(self.jitter)),
        ):
            if held != expected:
                raise ValueError(f"{name}: {held} values, expected {expected}")
        for late in self.late:
            if late.packets_late > stamped:
                raise ValueError(f"{late.packets_late} late packets of {stamped}")
        return self

    def doubts(self) -> Iterator[str]:
        """Yield why its times are not to be trusted, in words; nothing if they are."""
        clock, stamps, packets = self.clock, self.stamps, self.packets
        if clock.steps:
            yield f"the clock was set {clock.steps} times, by {clock.stepped_ns} ns in all"
        if clock.tai_offset_s.start != clock.tai_offset_s.end:
            yield "the offset of CLOCK_TAI was changed"
        if stamps.none:
            yield f"{stamps.none} packets have no stamp"
        if stamps.pktgen and stamps.stamper:
            yield (
                f"{stamps.pktgen} packets were not stamped anew at {stamps.stamper.device}; "
                "pktgen has to send by queue_xmit"
            )
        if stamps.stamper and stamps.stamper.failed:
            yield f"{stamps.stamper.failed} packets could not be stamped anew"
        if self.latency.negative:
            yield f"{self.latency.negative} packets arrived before they were sent"
        if self.latency.overflow:
            yield f"{self.latency.overflow} packets took longer than can be stored"
        if packets.too_old:
            yield f"{packets.too_old} packets were too far behind to tell what they are"
        if packets.merged:
            yield f"{packets.merged} packets stand for several"


class Tally(ToolDocument):
    """Packets that were counted without an order: by one CPU alone, or by all together.

    `seen` = `foreign` + `received` + `earlier`. Of transmissions before the last one there is only
    how many were received: `earlier`. `highest` is the highest number, 0 for none, and `bytes` are
    those of received frames without checksum. `merged`: received ones that stand for several.
    """

    seen: Count
    foreign: Count
    received: Count
    earlier: Count
    merged: Count
    highest: Count
    bytes: Count

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        parts = self.foreign + self.received + self.earlier
        if self.seen != parts:
            raise ValueError(f"seen is {self.seen}, and its parts are {parts}")
        if self.highest and not self.received:
            raise ValueError(f"the highest is {self.highest}, and none was received")
        return self

    @property
    def lost_at_least(self) -> int:
        """How many numbers up to the highest did not come, if none of those received is double."""
        return max(self.highest - self.received, 0)


class Arrivals(ToolDocument):
    """When packets came: the first (CLOCK_REALTIME), and the last, `span_ns` later."""

    first_packet_ns: Whole
    span_ns: Positive


class CountedOn(ToolDocument):
    """What one CPU counted."""

    cpu: Whole
    packets: Tally
    throughput: Arrivals | None


class CountsDocument(ToolDocument):
    """One run of `pktsink --level counters` or `throughput`: what each CPU counted by itself.

    `packets` are those of all CPUs together, and `cpus` those of each that saw one. With
    `--restart` they are of the last transmission, and `restarts` says how many there were before.
    `throughput` is null at level `counters`, and where fewer than two packets came.
    """

    schema_: Literal["skblab.pktsink-counts/1"] = Field(alias="schema")
    kernel: str
    seconds: Real
    device: str
    ifindex: Positive
    level: Literal["counters", "throughput"]
    restarts: Count
    packets: Tally
    throughput: Arrivals | None
    cpus: tuple[CountedOn, ...]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        tallies = [on.packets for on in self.cpus]
        for name in ("seen", "foreign", "received", "earlier", "merged", "bytes"):
            whole, parts = getattr(self.packets, name), sum(getattr(of, name) for of in tallies)
            if whole != parts:
                raise ValueError(f"{name} is {whole}, and that of all CPUs is {parts}")
        highest = max((of.highest for of in tallies), default=0)
        if self.packets.highest != highest:
            raise ValueError(f"highest is {self.packets.highest}, and of all CPUs {highest}")
        if self.level == "counters" and self.throughput:
            raise ValueError("there are times, which level counters does not look at")
        return self

    @property
    def packets_per_second(self) -> float | None:
        """Packets after the first, by the time since it came; None without times."""
        if self.throughput is None:
            return None
        return (self.packets.received - 1) * 1e9 / self.throughput.span_ns

    @property
    def bits_per_second(self) -> float | None:
        """Of frames without checksum, as large as they are on average; None without times."""
        rate = self.packets_per_second
        return None if rate is None else rate * 8 * self.packets.bytes / self.packets.received


def _values(distribution: Distribution) -> int:
    """Return how many values came to it, placed or not."""
    return distribution.count + distribution.negative + distribution.overflow
