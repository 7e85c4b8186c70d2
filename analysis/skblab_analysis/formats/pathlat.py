# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tools print: the JSON of `pathlat` (layers) and of `skblab-traffic` (packets).

Counts are whole and never negative. A field the tools gain later is let through, so an older
reader reads a newer tool; a field that is missing or contradicts another is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, Self, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from skblab_analysis.base.histogram import SUB_BUCKETS, Histogram, bounds, index
from skblab_analysis.base.real import Real
from skblab_analysis.base.whole import MOST, MOST_COUNTED, Count, Positive, Signed, Whole

# Names travel into pictures and pages, so they are kept plain.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=64)]
# Samples are of the first edition of the series, and in stored runs only.
Source = Literal["samples", "hooks", "histograms"]
PathName = Literal["receive", "forward", "send"]
# With `in`: what came in, before anybody knows where it goes.
AnyPath = Literal["in", "receive", "forward", "send"]
Bucket = tuple[
    Annotated[int, Field(ge=0, le=index(MOST))], Annotated[int, Field(gt=0, le=MOST_COUNTED)]
]


# The flag that is always among those of the kernel's own histograms.
KERNEL_FLAG = "negative"
# What a document is read with that was written while the probe counted on. Its figures are not of
# one moment, so they may be off by the packets that came meanwhile: good enough to look at.
COUNTING = {"counting": True}


def _counting(info: ValidationInfo) -> bool:
    return bool(info.context and info.context.get("counting"))


class ToolDocument(BaseModel):
    """A document written by another program: frozen, strict types, extra fields let through."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", allow_inf_nan=False, defer_build=True
    )


class Distribution(ToolDocument):
    """A histogram as the tools print it: [[bucket index, count], …] with exact figures.

    `negative` (below zero) and `overflow` (too long to store) count values in no bucket. With
    `bounded` no single value is known: `min` and `max` are bounds, those of the outer buckets.
    `edges`: smallest and largest value of each bucket where they are the kernel's own, and the
    buckets' indices numbers from 0.
    """

    count: Count
    sum: Whole
    min: Whole
    max: Whole
    negative: Count = 0
    overflow: Count = 0
    bounded: bool = False
    buckets: tuple[Bucket, ...]
    edges: tuple[tuple[Whole, Whole], ...] | None = None

    @model_validator(mode="after")
    def _agrees(self, info: ValidationInfo) -> Self:
        if _counting(info):
            return self._settled()
        indices = [bucket for bucket, _ in self.buckets]
        if self.edges is not None and indices != [*range(len(self.edges))]:
            raise ValueError("the buckets are not numbered as their edges are")
        if len(set(indices)) != len(indices):
            raise ValueError("a bucket index is given twice")
        held = sum(count for _, count in self.buckets)
        if held != self.count:
            raise ValueError(f"count is {self.count} but the buckets hold {held}")
        self.histogram()
        return self

    def _settled(self) -> Self:
        """Return the distribution with its figures as its buckets have them."""
        if self.bounded:
            return self
        edges = {bucket: bounds(bucket) for bucket, _ in self.buckets}
        low, high = (edges[pick(edges)] if edges else (0, 0) for pick in (min, max))
        lower, upper = (
            sum(edges[bucket][i] * count for bucket, count in self.buckets) for i in (0, 1)
        )
        return self.model_copy(
            update={
                "count": sum(count for _, count in self.buckets),
                "sum": min(max(self.sum, lower), upper),
                "min": min(max(self.min, low[0]), low[1]),
                "max": min(max(self.max, high[0]), high[1]),
            }
        )

    def histogram(self) -> Histogram:
        """Return the checked histogram."""
        if not self.buckets:
            return Histogram({})
        edges = None if self.edges is None else dict(enumerate(self.edges))
        return Histogram(dict(self.buckets), self.sum, self.min, self.max, self.bounded, edges)


class LayerDistribution(Distribution):
    """Time from one point to another; `from` is the point before in the order of the path.

    A packet that skipped that point began at an earlier one: the counts of both in `seen` show
    how many did.
    """

    from_point: Name = Field(alias="from")
    to_point: Name = Field(alias="to")


class NapiDistribution(Distribution):
    """A per-poll figure: `delay` (schedule to poll start) or `time` (in the poll).

    `work` is what these polls handled in all, in packets; given with `time`.
    """

    name: Name
    work: Count | None = None
    context: Name


class Ends(ToolDocument):
    """How the packets of a path ended."""

    delivered: Count
    dropped: Count
    transmitted: Count
    consumed: Count


class PathDocument(ToolDocument):
    """The packets of one path. Histograms and `seen` are about those that came to its usual end.

    `path_time` is from the first point of `seen` to the last one that its layers reach,
    `since_entry` the time since the packet's first entry: longer for those that are `reentered`,
    which came back into the stack through a virtual device. `negative` and `overflow` packets have
    times that cannot be placed: they are in no histogram. `copies`: further copies of a packet,
    with any end.

    The kernel's own histograms: with `all_passed`, `seen` and layers have all packets that passed
    a point, whatever became of them, and begin where the path is known; until then packets are
    among those of `in`. In stored runs of the first edition they had whole packets, of `path_time`
    perhaps no more than the sum, which then is one bucket, and `unsettled`: by so many packets the
    counts differed, for the kernel went on counting while it was read. What is null is not told.
    """

    path: PathName
    usual_end: Literal["delivered", "transmitted"]
    ends: Ends
    seen: Mapping[Name, Count]
    seen_dropped: Mapping[Name, Count] = Field(default_factory=dict)
    drop_reasons: Mapping[Name, Count] = Field(default_factory=dict)
    negative: Count | None = None
    overflow: Count | None = None
    reentered: Count | None = None
    copies: Count | None = None
    unsettled: Count | None = None
    all_passed: bool = False
    layers: tuple[LayerDistribution, ...]
    path_time: LayerDistribution = Field(validation_alias=AliasChoices("path_time", "leg"))
    since_entry: LayerDistribution = Field(validation_alias=AliasChoices("since_entry", "total"))

    @property
    def ended(self) -> int:
        """Packets that came to the path's usual end."""
        return int(getattr(self.ends, self.usual_end))

    @model_validator(mode="after")
    def _agrees(self, info: ValidationInfo) -> PathDocument:
        if _counting(info):
            return self
        wholes = () if self.all_passed else (self.path_time, self.since_entry)
        _check_points(self.seen, (*self.layers, *wholes))
        if not self.all_passed:
            self._check_seen()
        slack = self.unsettled or 0
        aside = (self.negative or 0) + (self.overflow or 0)
        placed = self.ended - aside
        for name, whole in (("path time", self.path_time), ("time since entry", self.since_entry)):
            if abs(whole.count - placed) > slack:
                raise ValueError(
                    f"the {name} holds {whole.count} packets of {self.ended} {self.usual_end} "
                    f"less {aside} not placed"
                )
        return self

    def _check_seen(self) -> None:
        ends = [layer.to_point for layer in self.layers]
        if len(set(ends)) != len(ends):
            raise ValueError("two layers end at the same point")
        if (self.negative is None) == (self.unsettled is None):
            raise ValueError("expected either `negative` or `unsettled`")
        for point, count in self.seen.items():
            if count > self.ended + (self.unsettled or 0):
                raise ValueError(
                    f"point {point} was seen by {count} of {self.ended} {self.usual_end}"
                )


def _check_points(seen: Mapping[str, int], layers: Sequence[LayerDistribution]) -> None:
    for layer in layers:
        for point in (layer.from_point, layer.to_point):
            if point not in seen:
                raise ValueError(f"layer point {point!r} is not among the points of `seen`")


class InDocument(ToolDocument):
    """All packets that came in, as far as nobody knows yet where they go.

    A layer from `driver` to `driver` is of those that came back into the stack by a tunnel or a
    bridge. Only the kernel's own histograms have it.
    """

    seen: Mapping[Name, Count]
    layers: tuple[LayerDistribution, ...]

    @model_validator(mode="after")
    def _agrees(self, info: ValidationInfo) -> InDocument:
        if not _counting(info):
            _check_points(self.seen, self.layers)
        return self


class GroupPath(ToolDocument):
    """The packets of one path in a group, as PathDocument has them of all."""

    path: PathName
    layers: tuple[LayerDistribution, ...]
    path_time: LayerDistribution = Field(validation_alias=AliasChoices("path_time", "leg"))
    since_entry: LayerDistribution = Field(validation_alias=AliasChoices("since_entry", "total"))

    @property
    def slowest(self) -> LayerDistribution | None:
        """The layer in which these packets spent most."""
        return max(self.layers, key=lambda layer: layer.sum, default=None)


GroupBy = Literal["cpu", "queue", "context", "protocol"]


class Group(ToolDocument):
    """Packets that have something in common when their path ends; paths without any are left out.

    `cpu`: on which it ended. `queue`: by which the packet was received, `none` if the driver
    recorded none; sent or forwarded: the one that sends it. `context`: received, where the NAPI
    instance was polled last that it came by, `backlog` if by none; else what ran at the end.
    `protocol`: udp4, tcp6 and so on.
    """

    by: GroupBy
    name: Name
    paths: tuple[GroupPath, ...]

    def path(self, name: PathName) -> GroupPath | None:
        """Return one of the paths; None if it has no packets."""
        return next((path for path in self.paths if path.path == name), None)


class Samples(ToolDocument):
    """Sample events that are of no path: `filtered` of other devices, `unknown` in form.

    `missed`: the program was not run, because it was at work on that CPU already.
    """

    filtered: Count = 0
    unknown: Count = 0
    missed: Count = 0


class StampsOn(ToolDocument):
    """Whether the kernel stamped packets when the probe began and ended; null: not known."""

    start: bool | None = None
    end: bool | None = None


class Hooks(ToolDocument):
    """What hooks have to say of themselves; packets unless said.

    `entered` and `began` at the first points of their paths; `continued` of the entered were on
    their way already, in a tunnel, say; `in_flight` had no end yet when the probe stopped; at the
    address of `replaced` another one was found; for `refused` there was no room; `filtered_late`
    were unwanted at their end. `absent` are hooks that this kernel lacks. `kprobes_missed`: calls
    of hooked functions that no program saw, because the kernel was at a kprobe already.
    `frees_unseen` are such calls too, or programs that were not run, but no loss: of memory of
    packets that had come to their end, and were freed later by another CPU; some of these, up to 64
    for each CPU, may be calls for other packets.
    """

    by: Literal["fentry", "kprobe"]
    attached: Count
    absent: tuple[str, ...]
    entered: Count
    began: Count
    continued: Count
    filtered_late: Count
    in_flight: Count
    replaced: Count
    refused: Count
    sends_refused: Count
    napis_refused: Count
    bulk_cut: Count
    kprobes_missed: Count = 0
    frees_unseen: Count = 0


class Polls(ToolDocument):
    """NAPI polls that are in no histogram, by cause; None where the source does not tell."""

    missed: Count | None = None
    unknown_context: Count | None = None
    contexts_refused: Count | None = None


class KernelCounts(ToolDocument):
    """What the kernel counts beside its own histograms: packets that drivers or sockets began.

    `dropped` with a reason after a driver had them; `unclear` while a driver was sending them,
    which may have sent copies; `stale`: they waited while stamps went off and on, and are counted
    nowhere. `reentered`, only in stored runs of the first edition: began anew, as received ones,
    after they were transmitted.
    """

    entered: Count
    sent: Count
    dropped: Count = 0
    unclear: Count = 0
    stale: Count = 0
    reentered: Count = 0


class End(ToolDocument):
    """One end of a packet's way, by its header."""

    address: str
    port: Count | None = None


class Deed(ToolDocument):
    """What a CPU turned to: a task, a softirq, an interrupt's handler, or the end of these two.

    `comm`: the task's name, or that of the one that is interrupted.
    """

    before_end_ns: Whole
    kind: Literal["task", "softirq", "softirq_end", "irq", "irq_end"]
    id: Count
    comm: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        """What it was, in a word or two."""
        return self.comm if self.kind == "task" else f"{self.kind} {self.name or self.id}"


# Of the task of a CPU that has nothing to do.
IDLE_PID = 0


class Doer(NamedTuple):
    """What a CPU was at: a task with its process id, if that is known, a softirq, an interrupt."""

    name: str
    pid: int | None = None

    @property
    def words(self) -> str:
        """Its name, or `idle` for an idle task, which the kernel calls swapper and its CPU."""
        idle = self.pid == IDLE_PID or (self.pid is None and self.name.startswith("swapper/"))
        return "idle" if idle else self.name


class LatePacket(ToolDocument):
    """A packet recorded whole: `times` from the point before to each point, in ns.

    `run`: so many late ones in a row on its CPU, with it. `cpu_did`: what the CPU that saw its end
    did since it entered, and at that moment; `deeds_lost`: not all of it, for there is no room for
    more. `merged`: only in stored runs of samples. `context`: what ran there, as of NAPI polls.

    What waited at that moment: `backlog` packets for that CPU; `socket_bytes` of memory in the
    socket that the packet was read from, of which `socket_packets` no reader has taken out yet;
    `qdisc_packets` for the queue of the device that
    it is at, of a virtual one the other side. `sequence`: which of its sender's packets it is, from
    1, the lower 32 bits, if that is our own sender or pktgen. Null: not known.
    """

    end_ns: Whole
    since_entry_ns: Whole = Field(validation_alias=AliasChoices("since_entry_ns", "total_ns"))
    before_ns: Whole
    times: Mapping[Name, Whole]
    path: PathName
    end: str
    reason: str | None = None
    run: Positive
    cpu: Count
    comm: str
    pid: Count
    ifindex: int
    bytes: Count
    merged: Count = 0
    context: Name | None = None
    backlog: Count
    socket_bytes: Count | None = None
    socket_packets: Count | None = None
    qdisc_packets: Count | None = None
    sequence: Count | None = None
    protocol: Count | None = None
    source: End | None = None
    target: End | None = None
    cpu_did: tuple[Deed, ...]
    deeds_lost: bool = False

    @property
    def slowest(self) -> tuple[str, int]:
        """The layer that took the most, `before` if that was an earlier path, and its ns."""
        parts = {"before": self.before_ns, **self.times}
        return max(parts.items(), key=lambda part: part[1])

    @property
    def doings(self) -> dict[Doer, int]:
        """What the CPU did since the packet entered, as far as is known, and its ns in all.

        What is interrupted goes on when the interruption ends.
        """
        done: dict[Doer, int] = {}
        task: Doer | None = None
        softirq = irq = ""
        # The CPU turned to no task, so the one at the end is the one that it had all the time.
        stayed = not any(deed.kind == "task" for deed in self.cpu_did) and not self.deeds_lost
        starts = [min(deed.before_end_ns, self.since_entry_ns) for deed in self.cpu_did]
        for deed, start, until in zip(self.cpu_did, starts, [*starts[1:], 0], strict=False):
            if deed.kind == "task" and deed.comm:
                task = Doer(deed.comm, deed.id)
            elif deed.comm and (task is None or task.name != deed.comm):
                known = stayed and deed.comm == self.comm
                task = Doer(deed.comm, self.pid if known else None)
            if deed.kind in ("irq", "irq_end"):
                irq = deed.words if deed.kind == "irq" else ""
            else:
                irq = ""
                softirq = deed.words if deed.kind == "softirq" else ""
            now = Doer(irq or softirq) if irq or softirq else task
            if now is not None:
                done[now] = done.get(now, 0) + start - until
        # A task whose id was told later is the same one, if only one has its name.
        for nameless in [doer for doer in done if doer.pid is None]:
            same = [doer for doer in done if doer.name == nameless.name and doer.pid is not None]
            if len(same) == 1:
                done[same[0]] += done.pop(nameless)
        return done

    @property
    def longest(self) -> tuple[Doer, int] | None:
        """What the CPU did longest since the packet entered, and its ns in all."""
        return max(self.doings.items(), key=lambda doing: doing[1], default=None)


class LateDocument(ToolDocument):
    """Packets that took at least `threshold_ns` in all, `in_a_row` of them or more.

    `limited` were not recorded because there were enough, in all or in that second, `lost` for want
    of room.
    `runs`: so often there were `in_a_row` of them one after the other on a CPU.
    `tracing_stopped`: asked for, and done when the first was read.
    """

    threshold_ns: Positive
    in_a_row: Positive
    packets_late: Count
    runs: Count
    recorded: Count
    limited: Count
    lost: Count
    tracing_stopped: bool
    packets: tuple[LatePacket, ...]

    @property
    def early_in_a_row(self) -> int:
        """Late packets before which there were too few others in a row."""
        return max(self.packets_late - self.recorded - self.limited - self.lost, 0)


class PathlatDocument(ToolDocument):
    """One run of `pathlat`: histograms and counts by path. `merged` went up in other packets.

    `groups`, if asked for: the same by group, and `groups_others`: packets in none of them.
    `histograms` and `in`: only if the source is the kernel's own, which have no `samples`.
    Version 2 had `leg` for `path_time`, `total` for `since_entry`, `total_ns` for `since_entry_ns`.
    """

    schema_: Literal["skblab.pathlat/2", "skblab.pathlat/3", "skblab.pathlat/4"] = Field(
        alias="schema"
    )
    source: Source = "samples"
    hooks: Hooks | None = None
    histograms: KernelCounts | None = None
    late: LateDocument | None = None
    kernel: str
    clock_unit: Literal["ns"]
    sub_buckets: Literal[16]
    stamps_on: StampsOn = StampsOn()
    samples: Samples | None
    merged: Count
    flags: Mapping[Name, Count] = Field(default_factory=dict)
    paths: tuple[PathDocument, ...]
    in_: InDocument | None = Field(default=None, alias="in")
    groups: tuple[Group, ...] | None = None
    groups_others: Count = 0
    napi: tuple[NapiDistribution, ...] = ()
    polls: Polls | None = None

    @model_validator(mode="after")
    def _agrees(self, info: ValidationInfo) -> PathlatDocument:
        names = sorted(path.path for path in self.paths)
        if names != sorted(get_args(PathName)):
            raise ValueError(f"the paths are {', '.join(names)}: expected each one once")
        if (self.source == "hooks") != (self.hooks is not None):
            raise ValueError(f"the source is {self.source}: expected hooks with it if it is hooks")
        of_kernel = self.source == "histograms"
        if of_kernel != (self.histograms is not None) or of_kernel != (self.samples is None):
            raise ValueError(
                f"the source is {self.source}: expected either histograms or samples with it"
            )
        if of_kernel and KERNEL_FLAG not in self.flags:
            raise ValueError(f"the source is histograms: expected the flag {KERNEL_FLAG}")
        if (self.in_ is not None) != any(path.all_passed for path in self.paths):
            raise ValueError("expected `in` with paths of all that passed, and only with these")
        # While it counts, what is read of groups is later than what was read of all.
        if self.groups is not None and not _counting(info):
            self._check_groups(self.groups)
        return self

    def _check_groups(self, groups: tuple[Group, ...]) -> None:
        if len({(group.by, group.name) for group in groups}) != len(groups):
            raise ValueError("a group is given twice")
        held = sum(path.path_time.count for group in groups for path in group.paths)
        placed = sum(path.path_time.count for path in self.paths)
        if held + self.groups_others != placed:
            raise ValueError(
                f"the groups hold {held} packets and {self.groups_others} are in none, of {placed}"
            )

    def path(self, name: PathName) -> PathDocument:
        """Return one of the paths."""
        return next(path for path in self.paths if path.path == name)


class Late(ToolDocument):
    """How far behind its schedule the sender was; `count` packets more than `threshold_ns`."""

    threshold_ns: Whole
    count: Count
    mean_ns: Real
    max_ns: Whole


class RateStep(ToolDocument):
    """A change of the rate: when the first packet at the new one was due, after the very first.

    `sequence` is that packet's number from 0, `rate` is in packets a second.
    """

    at_ns: Whole
    sequence: Count
    rate: Real


class SendingDevice(ToolDocument):
    """How counters of the device changed that frames were sent from, by others' packets as well.

    Null if it was taken away meanwhile. A packet that the driver drops without a word is in `sent`
    of the sender and in `tx_dropped`; one that it refuses is in `unsent`, and in `tx_dropped` too
    if the driver counts it.
    """

    name: str
    tx_packets: Count | None = None
    tx_dropped: Count | None = None


class KeptTimes(ToolDocument):
    """Who kept the times of packets that the kernel had ahead of them (SO_TXTIME), and how long.

    `missed` packets were dropped as their time was over, after the kernel took them; `invalid` ones
    it refused.
    """

    by: Literal["fq", "etf"]
    clock: Literal["monotonic", "tai"]
    lead_ns: Whole
    missed: Count
    invalid: Count


class SenderDocument(ToolDocument):
    """What the sender of `skblab-traffic` says: datagrams the kernel took, and those it refused.

    `step`, `txtime` and `device` are null where the rate did not change, where the sender itself
    kept the times, and where UDP sockets sent.
    """

    schema_: Literal["skblab.traffic/1", "skblab.traffic/2"] = Field(alias="schema")
    role: Literal["send"]
    sent: Count
    unsent: Count
    rate_reached: Real | None = None
    late: Late | None = None
    step: RateStep | None = None
    txtime: KeptTimes | None = None
    device: SendingDevice | None = None


class Foreign(ToolDocument):
    """Datagrams that are not of this run."""

    total: Count


class ByXdp(ToolDocument):
    """How a device was received from by AF_XDP: by so many queues."""

    queues: Count


class ReceivingSocket(ToolDocument):
    """The receiver's own socket, or its view of a device: packets that found no room in it.

    Of a device `drops` are frames of any kind, whomever they were for; by AF_XDP only those for it.
    """

    drops: Count
    xdp: ByXdp | None = None


class PacketTimes(ToolDocument):
    """One kind of time of the packets that a receiver saw, nanoseconds.

    `negative` ones are counted and in no other figure. `percentiles_ns`: of 50, 90, 99, 99.9, 99.99
    and 99.999 those with ten values beyond them.
    """

    count: Count
    negative: Count
    min_ns: Whole | None
    mean_ns: Real | None
    sd_ns: Real | None
    max_ns: Whole | None
    percentiles_ns: Mapping[str, Whole]

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.min_ns is None or self.max_ns is None:
            if self.count or self.percentiles_ns:
                raise ValueError(f"{self.count} values, and no smallest or largest")
            return self
        inside = [self.min_ns, *self.percentiles_ns.values(), self.max_ns]
        if not self.count or min(inside) < self.min_ns or max(inside) > self.max_ns:
            raise ValueError(f"{self.count} values of {self.min_ns} to {self.max_ns} ns: {inside}")
        return self


class ArrivalStamps(ToolDocument):
    """Where the times of arrival are from; `stepped_ns`: by how much their clock was set."""

    clock: str
    kind: str
    not_by_kernel: Count
    stepped_ns: Signed


class ClockLine(ToolDocument):
    """How far the receiver's clock was said to be ahead of the sender's, in ns.

    At `at_ns` of the receiver's clock, and by `drift_ppb` more with each second.
    """

    ahead_ns: Signed
    at_ns: Whole
    drift_ppb: Signed


class Recorded(ToolDocument):
    """What came of recording each datagram (`--record`); of those `lost`, some were `too_slow`."""

    file: str
    kept: Count
    lost: Count
    too_slow: Count
    bytes: Count
    error: str | None


class ReceiverDocument(ToolDocument):
    """What the receiver of `skblab-traffic` says, by sequence number.

    received = distinct + duplicates + too_old + beyond + foreign; `lost` is expected - distinct,
    or where nothing was expected the gaps below the highest number. Times are of distinct packets,
    in the order they came: from one to the next (`inter_arrival`), how far that is from what was
    expected (`inter_arrival_error`), the absolute difference of their one-way delays (`jitter`,
    RFC 4689), and these (`delay`, less what was said of two machines' clocks, `clock_line`), or why
    they are unknown. Percentiles are off by
    `percentile_error` of their value at most. `socket` is what dropped packets before it could read
    them, which are among those lost. A receiver of before has none of these.
    """

    schema_: Literal["skblab.traffic/1", "skblab.traffic/2"] = Field(alias="schema")
    role: Literal["receive"]
    expected: Count | None
    received: Count
    distinct: Count
    duplicates: Count
    reordered: Count
    lost: Count
    too_old: Count
    beyond: Count
    foreign: Foreign
    socket: ReceivingSocket | None = None
    rate: Real | None = None
    stamps: ArrivalStamps | None = None
    inter_arrival: PacketTimes | None = None
    inter_arrival_error: PacketTimes | None = None
    jitter: PacketTimes | None = None
    delay: PacketTimes | None = None
    delay_unknown: str | None = None
    clock_line: ClockLine | None = None
    percentile_error: Real | None = None
    record: Recorded | None = None

    @model_validator(mode="after")
    def _agrees(self) -> ReceiverDocument:
        held = self.distinct + self.duplicates + self.other
        if self.received != held:
            raise ValueError(
                f"received {self.received} is not distinct {self.distinct} + duplicates "
                f"{self.duplicates} + others {self.other}"
            )
        if self.expected is not None and self.expected != self.distinct + self.lost:
            raise ValueError(
                f"expected {self.expected} is not distinct {self.distinct} + lost {self.lost}"
            )
        if self.record and self.received != self.record.kept + self.record.lost:
            raise ValueError(
                f"received {self.received} is not {self.record.kept} records kept + "
                f"{self.record.lost} lost"
            )
        return self

    @property
    def other(self) -> int:
        """Datagrams read that are neither a packet of this run nor a copy known as such."""
        return self.too_old + self.beyond + self.foreign.total


assert SUB_BUCKETS == 16, "PathlatDocument.sub_buckets names the histogram's own number"
