# SPDX-License-Identifier: GPL-2.0-or-later
"""The parquet tables of a run folder: every column with its type, unit and a sentence.

The unit and the sentence travel in the file, as the field metadata `unit` and `about`, and all
units as the file's metadata `units`, for readers that see no field's. A unit of "by column `unit`"
means that the row names it: "ns" on the wall clock, "instructions" in exact mode. Column tables in
results-schema/ are written from here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import pyarrow as pa

from skblab_analysis.base.errors import one_line

BY_ROW = "by column `unit`"
NO_UNIT = ""
# Characters of a text; a void trial's reason has a whole message.
LONGEST_TEXT = 10_000


@dataclass(frozen=True)
class Column:
    """One column; `null` says that a value may be absent.

    A value is one of `among`, if these are given. Numbers are never negative, unless `signed`, and
    always finite; `lines`: a text that may have several.
    """

    name: str
    type: pa.DataType
    unit: str
    about: str
    null: bool = False
    among: tuple[str, ...] = ()
    signed: bool = False
    lines: bool = False

    def fault(self, value: object) -> str | None:
        """Return what is wrong with a value, in words; None if nothing is."""
        if value is None:
            return None if self.null else "is null"
        if isinstance(value, str):
            if self.among and value not in self.among:
                return f"is {one_line(value, 40)!r}, expected one of {', '.join(self.among)}"
            if not (self.lines or value.isprintable()) or len(value) > LONGEST_TEXT:
                return f"is {one_line(value, 40)!r}, expected one line of text"
        elif isinstance(value, float) and not math.isfinite(value):
            return f"is {value}, expected a finite number"
        elif isinstance(value, int | float) and value < 0 and not self.signed:
            return f"is {value}, expected none below 0"
        return None


@dataclass(frozen=True)
class Table:
    """One parquet file of the run folder; what one row is; its columns in order.

    `later`: it was not there from the beginning, and an older run has none.
    """

    file: str
    row: str
    columns: tuple[Column, ...]
    later: bool = False

    def schema(self) -> pa.Schema:
        """Return the arrow schema with unit and sentence as field metadata.

        polars and DuckDB see none of a field's, only the file's: `units` is a JSON object there.
        What pandas makes a frame's `attrs` is under a name of its own.
        """
        fields = [
            pa.field(
                column.name,
                column.type,
                nullable=column.null,
                metadata={"unit": column.unit, "about": column.about},
            )
            for column in self.columns
        ]
        units = {column.name: column.unit for column in self.columns}
        metadata = {
            "schema": f"skblab.{self.file}/1",
            "row": self.row,
            "units": json.dumps(units),
            "PANDAS_ATTRS": json.dumps({"units": units}),
        }
        return pa.schema(fields, metadata=metadata)


PATHS = ("receive", "forward", "send")
PARTS = ("whole", "tester")
LIMITS = ("none", "generator", "device", "sink")
_TRIAL = Column("trial", pa.int64(), NO_UNIT, "Number of the trial in the run, from 0.")
_BOOT_KNOBS = Column(
    "boot_knobs",
    pa.string(),
    NO_UNIT,
    "Knobs that the guest was booted with, such as `kernel=rt`; null: none.",
    null=True,
)
_SERIES = (
    Column(
        "path",
        pa.string(),
        NO_UNIT,
        "Path of the packets: `receive`, `forward` or `send`; null for `napi` and `arrival`.",
        null=True,
        among=PATHS,
    ),
    Column(
        "kind",
        pa.string(),
        NO_UNIT,
        "`layer`, `total` (the whole path), `entry` (whole path and what was before), `napi`, or "
        "`arrival` (a tester's: latency, inter-arrival time, jitter).",
        among=("layer", "total", "entry", "napi", "arrival"),
    ),
    Column(
        "layer", pa.string(), NO_UNIT, "Name of the interval, unique within trial, path and kind."
    ),
    Column("from_point", pa.string(), NO_UNIT, "Point where the interval begins."),
    Column("to_point", pa.string(), NO_UNIT, "Point where the interval ends."),
    Column(
        "context",
        pa.string(),
        NO_UNIT,
        "For `napi`: where the poll ran (softirq, ksoftirqd, kthread, busy_poll, netpoll).",
        null=True,
    ),
    Column(
        "counted",
        pa.string(),
        NO_UNIT,
        "What one count is: `packet` or `poll`.",
        among=("packet", "poll"),
    ),
    Column(
        "unit",
        pa.string(),
        NO_UNIT,
        "Unit of the values: `ns` or `instructions`.",
        among=("ns", "instructions"),
    ),
)

TRIALS = Table(
    "trials",
    "one trial, good or void",
    (
        _TRIAL,
        Column(
            "clock",
            pa.string(),
            NO_UNIT,
            "`wall` (nanoseconds) or `exact` (instructions).",
            among=("wall", "exact"),
        ),
        Column("setting", pa.string(), NO_UNIT, "Setting under test, such as `rp_filter=1`."),
        Column(
            "part",
            pa.string(),
            NO_UNIT,
            "`whole`, or `tester`: generator, links and sink with nothing in between.",
            among=PARTS,
        ),
        Column(
            "traffic",
            pa.string(),
            NO_UNIT,
            "What was sent, where a run compares settings: family, frame size, flows.",
            null=True,
        ),
        Column(
            "measure",
            pa.string(),
            NO_UNIT,
            "What it measures: `instructions`, `throughput`, `latency`, `layers` (`received` is "
            "then what the router forwarded), or `tester`: any of these, of the tester alone; "
            "null: it is of no sweep.",
            null=True,
            among=("instructions", "throughput", "latency", "layers", "tester"),
        ),
        Column(
            "rate",
            pa.int64(),
            "packets/s",
            "Rate that it was to be measured at, where one was given.",
            null=True,
        ),
        Column(
            "boot",
            pa.int64(),
            NO_UNIT,
            "Number of the guest's boot, from 0; in a sweep that of the block.",
        ),
        _BOOT_KNOBS,
        Column("repeat", pa.int64(), NO_UNIT, "Number of the repeat within the boot, from 0."),
        Column("state", pa.string(), NO_UNIT, "`good` or `void`.", among=("good", "void")),
        Column("reason", pa.string(), NO_UNIT, "Why the trial is void.", null=True, lines=True),
        Column("sent", pa.int64(), "packets", "Packets handed to the kernel.", null=True),
        Column("received", pa.int64(), "packets", "Distinct packets received.", null=True),
        Column(
            "lost", pa.int64(), "packets", "Packets that never arrived.", null=True, signed=True
        ),
        Column("duplicates", pa.int64(), "packets", "Further copies received.", null=True),
        Column(
            "reordered",
            pa.int64(),
            "packets",
            "Packets received after one with a higher sequence number.",
            null=True,
        ),
        Column(
            "send_rate",
            pa.float64(),
            "packets/s",
            "Rate the sender reached, first to last packet.",
            null=True,
        ),
        Column(
            "receive_rate",
            pa.float64(),
            "packets/s",
            "Rate at the receiver, first to last packet.",
            null=True,
        ),
        Column(
            "late",
            pa.int64(),
            "packets",
            "Packets that left later than `late_threshold`; null without a rate.",
            null=True,
        ),
        Column(
            "late_threshold",
            pa.int64(),
            "ns",
            "How far behind its schedule a packet counts as late.",
            null=True,
        ),
        Column(
            "late_mean", pa.float64(), "ns", "Mean time behind schedule, all packets.", null=True
        ),
        Column("late_max", pa.int64(), "ns", "The worst time behind schedule.", null=True),
        Column("packets", pa.int64(), "packets", "Packets the trial's figures are taken over."),
        Column(
            "instructions",
            pa.int64(),
            "instructions",
            "Guest instructions of the counted run (exact only).",
            null=True,
        ),
        Column(
            "instructions_per_packet",
            pa.float64(),
            "instructions/packet",
            "Instructions over packets (exact only).",
            null=True,
        ),
    ),
)

LAYERS = Table(
    "layers",
    "one bucket of one histogram that holds at least one value",
    (
        _TRIAL,
        *_SERIES,
        Column("lower", pa.int64(), BY_ROW, "Smallest value of the bucket, inside it."),
        Column("upper", pa.int64(), BY_ROW, "Largest value of the bucket, inside it."),
        Column("count", pa.int64(), "by column `counted`", "Values in the bucket."),
    ),
)

SUMMARY = Table(
    "layers_summary",
    "one histogram: its exact figures, and percentiles from its buckets",
    (
        _TRIAL,
        *_SERIES,
        Column("count", pa.int64(), "by column `counted`", "Values in the histogram."),
        Column(
            "negative",
            pa.int64(),
            "by column `counted`",
            "Values below zero, kept out of the histogram.",
        ),
        Column(
            "overflow",
            pa.int64(),
            "by column `counted`",
            "Values too large to store, kept out of the histogram.",
        ),
        Column(
            "work",
            pa.int64(),
            "packets",
            "For NAPI times: packets that these polls handled in all.",
            null=True,
        ),
        Column("sum", pa.int64(), BY_ROW, "Exact sum of the values."),
        Column("min", pa.int64(), BY_ROW, "Smallest value, exact.", null=True),
        Column("max", pa.int64(), BY_ROW, "Largest value, exact.", null=True),
        Column(
            "bounded",
            pa.bool_(),
            NO_UNIT,
            "Whether `min` and `max` are not exact but bounds; null: they are exact.",
            null=True,
        ),
        Column("mean", pa.float64(), BY_ROW, "Exact sum over count.", null=True),
        Column("p50", pa.float64(), BY_ROW, "Median, to 1/16; null below 20 values.", null=True),
        Column("p90", pa.float64(), BY_ROW, "To 1/16; null below 100 values.", null=True),
        Column("p99", pa.float64(), BY_ROW, "To 1/16; null below 1 000 values.", null=True),
        Column("p99_9", pa.float64(), BY_ROW, "To 1/16; null below 10 000 values.", null=True),
        Column("p99_99", pa.float64(), BY_ROW, "To 1/16; null below 100 000 values.", null=True),
    ),
)

_SEARCHED = (
    _TRIAL,
    Column("setting", pa.string(), NO_UNIT, "Setting under test, such as `rp_filter=1`."),
    Column(
        "part",
        pa.string(),
        NO_UNIT,
        "`whole`, or `tester`: generator, links and sink with nothing in between.",
        among=PARTS,
    ),
    Column("boot", pa.int64(), NO_UNIT, "Number of the block, which has fresh boots, from 0."),
    _BOOT_KNOBS,
    Column("traffic", pa.string(), NO_UNIT, "What was sent: family, frame size, flows."),
)

LOADS = Table(
    "loads",
    "one load that was tried in a search for throughput: a trial in the words of RFC 2544",
    (
        *_SEARCHED,
        Column("number", pa.int64(), NO_UNIT, "Number of the load in its search, from 0."),
        Column("load", pa.float64(), "packets/s", "Rate that the generator was asked for."),
        Column("seconds", pa.float64(), "s", "How long it was asked for."),
        Column("took", pa.float64(), "s", "How long the generator really sent."),
        Column("offered_rate", pa.float64(), "packets/s", "Rate that it really reached."),
        Column("sent", pa.int64(), "packets", "Packets that the generator put out."),
        Column(
            "forwarded",
            pa.int64(),
            "packets",
            "Packets that the device under test gave to the link to the sink.",
            null=True,
        ),
        Column("received", pa.int64(), "packets", "Packets that came to the sink."),
        Column(
            "loss_ratio",
            pa.float64(),
            "1",
            "What did not come, of what should have: also of what a late generator did not send.",
        ),
        Column(
            "limit",
            pa.string(),
            NO_UNIT,
            "Who lost packets, or did not send them: `generator`, `device`, `sink`, or `none`.",
            among=LIMITS,
        ),
        Column(
            "purpose",
            pa.string(),
            NO_UNIT,
            "`search`; `confirmation`: the last one, at the strict rate; or `rfc2544`: of frame "
            "loss or back-to-back. Null in runs of older versions.",
            null=True,
            among=("search", "confirmation", "rfc2544"),
        ),
    ),
    later=True,
)

THROUGHPUT = Table(
    "throughput",
    "what one search found for one goal (draft-ietf-bmwg-mlrsearch)",
    (
        *_SEARCHED,
        Column("goal", pa.string(), NO_UNIT, "Name of the goal: `strict`, `NDR`, `PDR`."),
        Column("loss_ratio", pa.float64(), "1", "A trial that loses more than this is bad."),
        Column(
            "exceed_ratio", pa.float64(), "1", "A load with more bad trials than this is no good."
        ),
        Column(
            "width", pa.float64(), "1", "How near the bounds were to come, as part of the upper."
        ),
        Column("lower", pa.float64(), "packets/s", "Greatest load that is good.", null=True),
        Column("upper", pa.float64(), "packets/s", "Smallest that is not, above it.", null=True),
        Column(
            "throughput",
            pa.float64(),
            "packets/s",
            "Conditional throughput: what arrives at the lower bound in the worst trial counted.",
            null=True,
        ),
        Column("trials", pa.int64(), NO_UNIT, "Trials at the two bounds."),
        Column(
            "limit",
            pa.string(),
            NO_UNIT,
            "Who was the limit of most bad trials at the upper one.",
            among=LIMITS,
        ),
        Column(
            "outcome",
            pa.string(),
            NO_UNIT,
            "`regular` (it has both bounds), `good at the maximum load`, or `no good load`.",
            among=("regular", "good at the maximum load", "no good load"),
        ),
        Column("reached", pa.bool_(), NO_UNIT, "Whether the bounds came as near as asked."),
        Column(
            "judgement",
            pa.string(),
            NO_UNIT,
            "What it is the result of: `device`, `tester`, `maximum load`, `no good load`; null of "
            "the tester itself.",
            null=True,
            among=("device", "tester", "maximum load", "no good load"),
        ),
        Column(
            "confirmed",
            pa.bool_(),
            NO_UNIT,
            "Whether a last, long trial at the lower bound lost nothing; null: there was none.",
            null=True,
        ),
        Column("confirm_seconds", pa.float64(), "s", "How long that trial was.", null=True),
    ),
    later=True,
)

RFC2544 = Table(
    "rfc2544",
    "one figure of RFC 2544's other tests, at the throughput that the trial's search found",
    (
        *_SEARCHED,
        Column(
            "test",
            pa.string(),
            NO_UNIT,
            "`latency` (26.2), `frame loss` (26.3), `back-to-back` (26.4), `recovery` (26.5).",
            among=("latency", "frame loss", "back-to-back", "recovery"),
        ),
        Column("repeat", pa.int64(), NO_UNIT, "Number of the repetition, or of the load, from 0."),
        Column("load", pa.float64(), "packets/s", "Rate of the stream, burst, or overload."),
        Column(
            "share",
            pa.float64(),
            "1",
            "The load as part of what the tester carries (frame loss), or of the throughput "
            "(recovery).",
            null=True,
        ),
        Column(
            "seconds",
            pa.float64(),
            "s",
            "How long a trial was, or the longest burst; of recovery, overload and rest each.",
        ),
        Column("latency_ns", pa.float64(), "ns", "One way, in mid-stream.", null=True),
        Column(
            "floor_ns",
            pa.float64(),
            "ns",
            "The tester's own at that rate, with no router in between; null: it was not to be had.",
            null=True,
        ),
        Column(
            "loss_percent", pa.float64(), "%", "Frames lost, of those that were sent.", null=True
        ),
        Column("burst", pa.int64(), "packets", "The longest burst that lost nothing.", null=True),
        Column(
            "buffer_s",
            pa.float64(),
            "s",
            "RFC 9004's corrected buffer time of that burst.",
            null=True,
        ),
        Column(
            "recovery_s",
            pa.float64(),
            "s",
            "From the end of the overload until the last lost frame was sent.",
            null=True,
        ),
        Column(
            "within_s",
            pa.float64(),
            "s",
            "It may be shorter by so much: the generator was behind, or its clock coarse.",
            null=True,
        ),
        Column(
            "open",
            pa.bool_(),
            NO_UNIT,
            "The burst is as long as any that was tried; or frames were lost until the end.",
        ),
        Column(
            "limit",
            pa.string(),
            NO_UNIT,
            "Who lost packets: of back-to-back, of the shortest burst that failed.",
            null=True,
            among=LIMITS,
        ),
        Column("reason", pa.string(), NO_UNIT, "Why there is no figure.", null=True, lines=True),
    ),
    later=True,
)

LATE = Table(
    "late",
    "packets of one latency trial that were late by one threshold",
    (
        *_SEARCHED,
        Column("rate", pa.int64(), "packets/s", "Rate that was asked for."),
        Column("threshold", pa.int64(), "ns", "Latency from which on a packet is late."),
        Column("in_a_row", pa.int64(), "packets", "Late packets in a row that are an anomaly."),
        Column("packets", pa.int64(), "packets", "Packets of which the latency is known."),
        Column("late", pa.int64(), "packets", "Late ones among them."),
        Column("anomalies", pa.int64(), NO_UNIT, "Maximal runs of so many late packets, or more."),
        Column("in_anomalies", pa.int64(), "packets", "Packets in all of these."),
        Column("longest", pa.int64(), "packets", "Packets in the longest of these."),
        Column("not_recorded", pa.int64(), NO_UNIT, "Those of which `anomalies` has no row."),
    ),
    later=True,
)

ANOMALIES = Table(
    "anomalies",
    "one anomaly of a latency trial: packets late in a row, or numbers left out in one place",
    (
        _TRIAL,
        Column(
            "kind",
            pa.string(),
            NO_UNIT,
            "`late`, or `gap`: packets that did not come then.",
            among=("late", "gap"),
        ),
        Column(
            "threshold", pa.int64(), "ns", "Latency of a late packet; null for `gap`.", null=True
        ),
        Column(
            "sequence",
            pa.int64(),
            NO_UNIT,
            "Number of its first packet; of a gap, of the first packet behind it.",
        ),
        Column("packets", pa.int64(), "packets", "Packets in it."),
        Column("begin", pa.int64(), "ns", "Its first packet's arrival, since the trial's first."),
        Column("end", pa.int64(), "ns", "Its last packet's arrival, since the trial's first."),
        Column(
            "sent_span",
            pa.int64(),
            "ns",
            "From the first one's stamp to the last one's.",
            null=True,
            signed=True,
        ),
        Column("latency_min", pa.int64(), "ns", "The smallest latency in it.", null=True),
        Column("latency_mean", pa.float64(), "ns", "The mean latency in it.", null=True),
        Column("latency_max", pa.int64(), "ns", "The largest latency in it.", null=True),
        Column("open_begin", pa.bool_(), NO_UNIT, "Whether the data begins with it.", null=True),
        Column("open_end", pa.bool_(), NO_UNIT, "Whether the data ends with it.", null=True),
    ),
    later=True,
)

COUNTERS = Table(
    "counters",
    "by how much one of the kernel's own counters rose in one trial, if it did",
    (
        _TRIAL,
        Column(
            "kind",
            pa.string(),
            NO_UNIT,
            "`interrupt`, `softirq`, `softnet` (/proc/net/softnet_stat), `device` (statistics of "
            "the network device), `driver` (ethtool -S) or `thread` (its time on a CPU).",
            among=("interrupt", "softirq", "softnet", "device", "driver", "thread"),
        ),
        Column("name", pa.string(), NO_UNIT, "Name that the kernel gives it, behind its device."),
        Column("cpu", pa.int64(), NO_UNIT, "CPU that counted; null: it is of no CPU.", null=True),
        Column("unit", pa.string(), NO_UNIT, "`ns`, `packets`, `bytes`; else what its name says."),
        Column("value", pa.int64(), BY_ROW, "By how much it rose.", signed=True),
    ),
    later=True,
)

TABLES = (TRIALS, LAYERS, SUMMARY, LOADS, THROUGHPUT, RFC2544, LATE, ANOMALIES, COUNTERS)
