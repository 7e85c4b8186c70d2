# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger of a trial: does all that a probe saw add up, and where did every known packet go?

With samples, in stored runs, a packet is seen once, at its end, so only those can be unaccounted
for that the probe saw and could not place. With hooks a packet is also seen at its beginning:

    begun = ended + merged + in flight + continued + unwanted at the end (+ what was lost)

The kernel's own histograms count beginnings, too, but of packets that began before the probe they
count the end alone:

    begun + copies + under way before = ended + merged + in flight

Where the programs that sent and received say what they did (an Exchange), also:

    sent = received + lost; read = received + duplicates + other = delivered + unsampled
    for every point: seen + not seen = read

A ledger that breaks an equality is refused, and so is one with more than a share of its packets
unaccounted for.
"""

from __future__ import annotations

from pydantic import Field, JsonValue, model_validator

from skblab_analysis.base.checked import Closed, RefusedError
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.pathlat import (
    Hooks,
    KernelCounts,
    Name,
    PathDocument,
    PathlatDocument,
    PathName,
    Polls,
    ReceiverDocument,
    Samples,
    SenderDocument,
    Source,
)
from skblab_analysis.layers.rows import Unit

# Per cent of the packets, unless the user says otherwise.
MAX_UNACCOUNTED = 0.1


class PointCount(Closed):
    """One point of a path: packets that had it stamped, and those that had not."""

    point: Name
    seen: Whole
    not_seen: Whole


class Exchange(Closed):
    """What sender and receiver say, in packets, and what the probe saw of these."""

    sent: Whole = Field(description="packets handed to the kernel")
    unsent: Whole = Field(description="packets asked for that the kernel never took")
    received: Whole = Field(description="distinct packets received")
    lost: Whole = Field(description="packets that never arrived")
    duplicates: Whole = Field(description="further copies received")
    other: Whole = Field(description="datagrams read that are not of this trial")
    reordered: Whole = Field(description="packets that came after a higher number")
    delivered: Whole = Field(description="packets that the probe saw delivered")
    unsampled: Whole = Field(description="packets read whose end the probe did not see")
    dropped: Whole = Field(
        description="packets that the probe saw dropped; of histograms: that passed a point and "
        "were not read"
    )
    incomplete: Whole = Field(
        description="packets delivered that are in no layer: a time is negative or too long"
    )
    other_end: Whole = Field(
        description="received packets that ended neither delivered nor dropped"
    )
    reentered: Whole = Field(
        default=0, description="received packets that came through a virtual device of this kernel"
    )
    points: tuple[PointCount, ...] = Field(description="packets read, by point of the path")
    sent_points: tuple[PointCount, ...] = Field(
        default=(), description="packets sent, by point of the sender's path; empty: not seen"
    )
    dropped_points: dict[Name, Whole] = Field(
        description="dropped packets that had passed the point"
    )
    drop_reasons: dict[Name, Whole] = Field(description="dropped packets by the kernel's reason")

    @property
    def read(self) -> int:
        """Datagrams the receiving program read, further copies and others included."""
        return self.received + self.duplicates + self.other

    @property
    def lost_elsewhere(self) -> int:
        """Lost packets that the probe saw at no point: lost before the first."""
        return max(self.lost - self.dropped, 0)

    @property
    def dropped_elsewhere(self) -> int:
        """Dropped packets that are none of the lost ones: other traffic that the probe saw."""
        return max(self.dropped - self.lost, 0)

    def faults(self) -> list[str]:
        """Return each equality that does not hold, as a clause with its figures."""
        found = []
        if self.sent != self.received + self.lost:
            found.append(f"sent {self.sent} is not received {self.received} + lost {self.lost}")
        if self.delivered + self.unsampled != self.read:
            found.append(
                f"seen delivered {self.delivered} + unseen {self.unsampled} is not read {self.read}"
            )
        return found + [
            f"point {count.point}: seen {count.seen} + not seen {count.not_seen} "
            f"is not read {self.read}"
            for count in self.points
            if count.seen + count.not_seen != self.read
        ]

    @model_validator(mode="after")
    def _closes(self) -> Exchange:
        if faults := self.faults():
            raise ValueError("the ledger does not close: " + "; ".join(faults))
        return self


class Ledger(Closed):
    """Every figure in packets, or paths of packets: one that is forwarded has a path for itself."""

    trial: Whole = Field(description="number of the trial in the run")
    path: PathName | None = Field(default=None, description="the only one it saw; null: all")
    unit: Unit = Field(description="unit of the trial's times")
    source: Source = Field(description="where the times come from")
    begun: Whole | None = Field(
        description="paths seen to begin; null where the probe sees only ends"
    )
    ended: Whole = Field(description="paths seen to end")
    merged: Whole = Field(description="packets that went up in another one")
    in_flight: Whole = Field(description="on their way when the probe stopped")
    earlier: Whole = Field(
        default=0, description="more under way when the probe began than when it stopped"
    )
    continued: Whole = Field(description="entered anew while on their way, in a tunnel")
    filtered: Whole = Field(description="ends, or beginnings, of unwanted packets")
    copies: Whole = Field(description="ended paths of further copies of a packet")
    dropped: Whole = Field(
        default=0, description="packets that a driver did not send; only of histograms"
    )
    elsewhere: Whole = Field(
        default=0,
        description="packets that are in no other count: under way, dropped before a driver had "
        "them, merged by GRO, or used up by the kernel itself; only of histograms",
    )
    unaccounted: dict[Name, Whole] = Field(
        description="what is known to be missing or misplaced, by cause"
    )
    polls: dict[Name, Whole] = Field(
        default_factory=dict, description="NAPI polls that are in no histogram, by cause"
    )
    exchange: Exchange | None = Field(
        default=None, description="null where the probe alone knows what came"
    )

    @property
    def missing(self) -> int:
        """All that is unaccounted for."""
        return sum(self.unaccounted.values())

    @property
    def share(self) -> float:
        """What is unaccounted for of all that ended; 1 if that is nothing."""
        return self.missing / self.ended if self.ended else float(self.missing > 0)


def of_before(found: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a ledger as it is now of what runs had until version 2: a ledger or an account."""
    unplaced = found.get("unplaced")
    if not isinstance(unplaced, dict):
        return found
    exchange = {name: found[name] for name in Exchange.model_fields if name in found}
    ends = [found.get(name) for name in ("delivered", "dropped", "other_end")]
    return {
        **{name: found[name] for name in ("trial", "unit", "filtered") if name in found},
        "path": "receive",
        "source": "hooks" if "replaced" in unplaced else "samples",
        "begun": None,
        "ended": sum(end for end in ends if isinstance(end, int)),
        "merged": found.get("merged", 0),
        "in_flight": 0,
        "continued": 0,
        "copies": 0,
        "unaccounted": {**unplaced, "unsampled": found.get("unsampled", 0)},
        "exchange": exchange,
    }


def of_probe(
    trial: int,
    unit: Unit,
    document: PathlatDocument,
    said: tuple[SenderDocument, ReceiverDocument] | None = None,
) -> Ledger:
    """Return the ledger of one run of the probe; with what sender and receiver `said`, if they did.

    RefusedError lists all equalities that do not hold; that stamps were on all the time is one.
    """
    faults = []
    if document.stamps_on.start is False or document.stamps_on.end is False:
        faults.append(
            "the kernel did not stamp packets all the time (net.core.path_trace was off); switch "
            "it on, or use --source hooks"
        )
    exchange = None
    if said is not None:
        faults += _impossible(document, *said)
        if not faults:
            exchange = _exchange(document, *said)
            faults = exchange.faults()
    if faults:
        raise _refusal(faults)
    if document.histograms is not None:
        return _of_histograms(trial, unit, document, document.histograms, exchange)
    assert document.samples is not None
    return _of_samples(trial, unit, document, document.samples, exchange)


def refuse(found: Ledger, per_cent: float) -> None:
    """Raise RefusedError if more than so many per cent are unaccounted for."""
    if 100 * found.share <= per_cent:
        return
    causes = ", ".join(f"{count} {name}" for name, count in found.unaccounted.items() if count)
    mends = {
        "refused": "; --room gives hooks more room",
        "unsettled": "; the kernel counted on while it was read, of which a longer run has less",
    }
    mend = "".join(words for cause, words in mends.items() if found.unaccounted.get(cause))
    raise _refusal(
        [
            f"{found.missing} packets are unaccounted for ({causes}), more than {per_cent:g} % of "
            f"the {found.ended} that ended; --max-unaccounted allows more{mend}"
        ]
    )


def _refusal(faults: list[str]) -> RefusedError:
    return RefusedError("the ledger does not close, so no result is given: " + "; ".join(faults))


def _of_samples(
    trial: int,
    unit: Unit,
    document: PathlatDocument,
    samples: Samples,
    exchange: Exchange | None,
) -> Ledger:
    hooks = document.hooks
    ends = _ends(document)
    unaccounted = {
        "negative": sum(path.negative or 0 for path in document.paths),
        "overflow": sum(path.overflow or 0 for path in document.paths),
        "unknown": samples.unknown,
        "missed": samples.missed,
    }
    if exchange is not None:
        unaccounted["unsampled"] = exchange.unsampled
    names = Polls.model_fields
    polls = {name: n for name in names if (n := getattr(document.polls, name, None)) is not None}
    begun = None
    if hooks is not None:
        begun = hooks.entered + hooks.began
        unaccounted |= _lost_by(hooks, ends + document.merged)
        polls["refused"] = hooks.napis_refused
    return Ledger(
        trial=trial,
        unit=unit,
        source=document.source,
        begun=begun,
        ended=ends,
        merged=document.merged,
        in_flight=hooks.in_flight if hooks else 0,
        continued=hooks.continued if hooks else 0,
        filtered=samples.filtered,
        copies=document.flags.get("copy", 0),
        unaccounted=unaccounted,
        polls=polls,
        exchange=exchange,
    )


def _lost_by(hooks: Hooks, came: int) -> dict[Name, int]:
    """Return what hooks lost, by cause; `came` ended or went up in others."""
    known = came + hooks.in_flight + hooks.continued + hooks.filtered_late
    return {
        "replaced": hooks.replaced,
        "refused": hooks.refused,
        # Sent while there was no room: their path has no beginning that was seen.
        "sends_refused": hooks.sends_refused,
        # Of a longer list than is followed: they lack points.
        "bulk_cut": hooks.bulk_cut,
        "kprobes_missed": hooks.kprobes_missed,
        # Beyond those: an end that was not seen, or seen twice.
        "unbalanced": abs(hooks.entered + hooks.began - known - hooks.replaced - hooks.refused),
    }


def _ends(document: PathlatDocument) -> int:
    return sum(sum(path.ends.model_dump().values()) for path in document.paths)


def _of_histograms(
    trial: int,
    unit: Unit,
    document: PathlatDocument,
    counts: KernelCounts,
    exchange: Exchange | None,
) -> Ledger:
    begun = counts.entered + counts.sent + counts.reentered
    copies = document.flags.get("copy", 0)
    ended, dropped = _ends(document), counts.dropped + counts.unclear
    rest = begun + copies - ended - document.merged - dropped
    # In the histograms all the same, with a time that is wrong.
    unaccounted = {
        name: count
        for name in ("negative", "overflow")
        if (count := document.flags.get(name)) is not None
    }
    if exchange is not None:
        unaccounted["unsampled"] = exchange.unsampled
    of_passed = document.in_ is not None
    if of_passed:
        unaccounted["stale"] = counts.stale
    else:
        unaccounted["unsettled"] = sum(path.unsettled or 0 for path in document.paths)
    return Ledger(
        trial=trial,
        unit=unit,
        source=document.source,
        begun=begun,
        ended=ended,
        merged=document.merged,
        in_flight=0 if of_passed else max(rest, 0),
        earlier=max(-rest, 0),
        continued=0,
        filtered=0,
        copies=copies,
        dropped=dropped,
        elsewhere=max(rest, 0) if of_passed else 0,
        unaccounted=unaccounted,
        exchange=exchange,
    )


def _exchange(
    pathlat: PathlatDocument, sender: SenderDocument, receiver: ReceiverDocument
) -> Exchange:
    """Return it unchecked: what does not hold is for `faults` to say."""
    # Without an expectation the receiver cannot know of packets lost at the end.
    if receiver.expected is None:
        unsent, lost = sender.unsent, sender.sent - receiver.distinct
    else:
        unsent = max(receiver.expected - sender.sent, 0)
        lost = receiver.lost - unsent
    received = pathlat.path("receive")
    passed = _dropped_points(received, receiver.received)
    return Exchange.model_construct(
        sent=sender.sent,
        unsent=unsent,
        received=receiver.distinct,
        lost=lost,
        duplicates=receiver.duplicates,
        other=receiver.other,
        reordered=receiver.reordered,
        delivered=received.ends.delivered,
        unsampled=receiver.received - received.ends.delivered,
        dropped=max(passed.values(), default=0) if received.all_passed else received.ends.dropped,
        incomplete=(received.negative or 0) + (received.overflow or 0),
        other_end=received.ends.transmitted + received.ends.consumed,
        reentered=received.reentered or 0,
        points=_points(received, receiver.received),
        sent_points=_sent_points(pathlat.path("send"), sender.sent),
        dropped_points=passed,
        drop_reasons=dict(received.drop_reasons),
    )


def _sent_points(path: PathDocument, sent: int) -> tuple[PointCount, ...]:
    """Points of the sender's path; none where the sender is elsewhere, or others send as well."""
    return _points(path, sent) if 0 < path.ended <= sent else ()


def _points(path: PathDocument, packets: int) -> tuple[PointCount, ...]:
    counts = path.seen
    if path.all_passed:
        # The first one only says where the first interval begins.
        counts = {point: min(seen, packets) for point, seen in [*counts.items()][1:]}
    return tuple(
        PointCount(point=point, seen=seen, not_seen=packets - seen)
        for point, seen in counts.items()
    )


def _dropped_points(path: PathDocument, read: int) -> dict[Name, int]:
    """Points that dropped packets passed; of all that passed, those that nobody read."""
    if path.all_passed:
        return {point: max(seen - read, 0) for point, seen in path.seen.items()}
    return dict(path.seen_dropped)


def _impossible(
    pathlat: PathlatDocument, sender: SenderDocument, receiver: ReceiverDocument
) -> list[str]:
    """Faults that leave no exchange to write down, and those of the layers."""
    if pathlat.samples is None and pathlat.in_ is None:
        return ["these histograms, of the series' first edition, do not tell enough of packets"]
    found = []
    read = receiver.received
    received = pathlat.path("receive")
    if sender.sent == 0:
        found.append("no packet was sent")
    if receiver.distinct > sender.sent:
        found.append(f"received {receiver.distinct} is more than sent {sender.sent}")
    if received.ends.delivered > read:
        found.append(
            f"the probe saw {received.ends.delivered} packets delivered "
            f"but the receiver read {read}: foreign packets were among them"
        )
    if read and not received.ends.delivered:
        found.append(f"{read} packets were received but the probe saw none")
    if not received.path_time.count:
        found.append("no packet was timed over the whole path")
    for path in pathlat.paths:
        found += () if path.all_passed else _broken_layers(path)
    return found


def _broken_layers(path: PathDocument) -> list[str]:
    found = [
        f"{path.path}: layer {layer.from_point} to {layer.to_point} has {layer.count} packets "
        f"but only {path.seen[layer.to_point]} passed its last point"
        for layer in path.layers
        if layer.count > path.seen[layer.to_point]
    ]
    # Each interval is rounded to nanoseconds for itself, and so is the path time.
    slack = path.path_time.count + sum(layer.count for layer in path.layers)
    added = sum(layer.sum for layer in path.layers)
    if abs(added - path.path_time.sum) > slack:
        found.append(
            f"{path.path}: the layers add up to {added} but the whole path to {path.path_time.sum}"
        )
    if path.since_entry.sum < path.path_time.sum:
        found.append(
            f"{path.path}: packets took {path.path_time.sum} but only "
            f"{path.since_entry.sum} since their entry"
        )
    return found
