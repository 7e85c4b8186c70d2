# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger of a trial: where every packet went, and whether the account closes.

Equalities (packets): sent = received + lost; read = received + duplicates + other; for every
point seen + not seen = read. Limits: at most MAX_UNSEEN_SHARE of the packets read may lack a
sample, and at most MAX_MISPLACED_SHARE of the samples may be misplaced (negative delta, too long
to store, event missed or unknown; by hooks also: taken for another packet, no room). A ledger
that breaks any is refused, with the reason.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skblab_analysis.base.checked import RefusedError
from skblab_analysis.base.whole import Whole
from skblab_analysis.formats.pathlat import (
    Name,
    PathDocument,
    PathlatDocument,
    ReceiverDocument,
    SenderDocument,
)
from skblab_analysis.layers.rows import Unit

MAX_UNSEEN_SHARE = 0.01
MAX_MISPLACED_SHARE = 0.01


class PointCount(BaseModel):
    """One point of a path: packets that had it stamped, and those that had not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    point: Name
    seen: Whole
    not_seen: Whole


class Ledger(BaseModel):
    """Every figure in packets. `unsampled` packets were read but left no sample event."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trial: Whole = Field(description="number of the trial in the run")
    unit: Unit = Field(description="unit of the trial's times")
    sent: Whole = Field(description="packets handed to the kernel")
    unsent: Whole = Field(description="packets asked for that the kernel never took")
    received: Whole = Field(description="distinct packets received")
    lost: Whole = Field(description="packets that never arrived")
    duplicates: Whole = Field(description="further copies received")
    other: Whole = Field(description="datagrams read that are not of this trial")
    reordered: Whole = Field(description="packets that came after a higher number")
    delivered: Whole = Field(description="packets whose sample event says delivered")
    unsampled: Whole = Field(description="packets read that left no sample event")
    dropped: Whole = Field(description="packets whose sample event says dropped")
    filtered: Whole = Field(description="sample events of other traffic, left out")
    incomplete: Whole = Field(
        description="packets delivered that are in no layer: a time is negative or too long"
    )
    other_end: Whole = Field(
        description="received packets that ended neither delivered nor dropped"
    )
    reentered: Whole = Field(
        default=0, description="received packets that came through a virtual device of this kernel"
    )
    merged: Whole = Field(default=0, description="packets that went up in another one")
    points: tuple[PointCount, ...] = Field(description="packets read, by point of the path")
    sent_points: tuple[PointCount, ...] = Field(
        default=(), description="packets sent, by point of the sender's path; empty: not seen"
    )
    dropped_points: dict[Name, Whole] = Field(
        description="dropped packets that had passed the point"
    )
    drop_reasons: dict[Name, Whole] = Field(description="dropped packets by the kernel's reason")
    unplaced: dict[Name, Whole] = Field(description="misplaced samples by cause")

    @property
    def read(self) -> int:
        """Datagrams the receiving program read, further copies and others included."""
        return self.received + self.duplicates + self.other

    @property
    def lost_elsewhere(self) -> int:
        """Lost packets that no drop sample accounts for: lost before the first point."""
        return max(self.lost - self.dropped, 0)

    @property
    def dropped_elsewhere(self) -> int:
        """Drop samples that no lost packet accounts for: other traffic that the probe saw."""
        return max(self.dropped - self.lost, 0)

    def faults(self) -> list[str]:
        """Return each equality or limit that does not hold, as a clause with its figures."""
        found = []
        if self.sent != self.received + self.lost:
            found.append(f"sent {self.sent} is not received {self.received} + lost {self.lost}")
        if self.delivered + self.unsampled != self.read:
            found.append(
                f"sampled {self.delivered} + unsampled {self.unsampled} is not read {self.read}"
            )
        found += [
            f"point {count.point}: seen {count.seen} + not seen {count.not_seen} "
            f"is not read {self.read}"
            for count in self.points
            if count.seen + count.not_seen != self.read
        ]
        if self.unsampled > MAX_UNSEEN_SHARE * self.read:
            found.append(
                f"{self.unsampled} of {self.read} packets read left no sample, "
                f"more than {MAX_UNSEEN_SHARE:.0%}"
            )
        misplaced = sum(self.unplaced.values())
        if misplaced > MAX_MISPLACED_SHARE * max(self.delivered, 1):
            found.append(
                f"{misplaced} misplaced samples on {self.delivered} placed ones, "
                f"more than {MAX_MISPLACED_SHARE:.0%}"
            )
        return found

    @model_validator(mode="after")
    def _closes(self) -> Ledger:
        faults = self.faults()
        if faults:
            raise ValueError("the ledger does not close: " + "; ".join(faults))
        return self


def build_ledger(
    trial: int,
    unit: Unit,
    pathlat: PathlatDocument,
    sender: SenderDocument,
    receiver: ReceiverDocument,
) -> Ledger:
    """Return the ledger of one trial; RefusedError lists all that does not hold."""
    if pathlat.samples is None:
        raise RefusedError(
            "the kernel's own histograms do not tell enough for a ledger; read its samples"
        )
    # Without an expectation the receiver cannot know of packets lost at the end.
    if receiver.expected is None:
        unsent, lost = sender.unsent, sender.sent - receiver.distinct
    else:
        unsent = max(receiver.expected - sender.sent, 0)
        lost = receiver.lost - unsent
    received, sent = pathlat.path("receive"), pathlat.path("send")
    delivered = received.ends.delivered
    faults = _impossible(pathlat, sender, receiver)
    if not faults:
        ledger = Ledger.model_construct(
            trial=trial,
            unit=unit,
            sent=sender.sent,
            unsent=unsent,
            received=receiver.distinct,
            lost=lost,
            duplicates=receiver.duplicates,
            other=receiver.other,
            reordered=receiver.reordered,
            delivered=delivered,
            unsampled=receiver.received - delivered,
            dropped=received.ends.dropped,
            filtered=pathlat.samples.filtered,
            incomplete=(received.negative or 0) + (received.overflow or 0),
            other_end=received.ends.transmitted + received.ends.consumed,
            reentered=received.reentered or 0,
            merged=pathlat.merged,
            points=tuple(
                PointCount(point=point, seen=seen, not_seen=receiver.received - seen)
                for point, seen in received.seen.items()
            ),
            sent_points=_sent_points(sent, sender.sent),
            dropped_points=dict(received.seen_dropped),
            drop_reasons=dict(received.drop_reasons),
            unplaced={
                "negative": received.negative or 0,
                "overflow": received.overflow or 0,
                "unknown": pathlat.samples.unknown,
                "missed": pathlat.samples.missed,
            }
            | _unhooked(pathlat),
        )
        faults = ledger.faults()
        if not faults:
            return ledger
    raise RefusedError("the ledger does not close, so no result is given: " + "; ".join(faults))


def _unhooked(pathlat: PathlatDocument) -> dict[Name, int]:
    """What hooks lost: packets taken for others, and those for which there was no room."""
    if pathlat.hooks is None:
        return {}
    return {"replaced": pathlat.hooks.replaced, "refused": pathlat.hooks.refused}


def _sent_points(path: PathDocument, sent: int) -> tuple[PointCount, ...]:
    """Points of the sender's path; none where the sender is elsewhere, or others send as well."""
    if not 0 < path.ended <= sent:
        return ()
    return tuple(
        PointCount(point=point, seen=seen, not_seen=sent - seen)
        for point, seen in path.seen.items()
    )


def _impossible(
    pathlat: PathlatDocument, sender: SenderDocument, receiver: ReceiverDocument
) -> list[str]:
    """Faults that leave no ledger to write down, and those of the layers."""
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
            f"but the receiver read {read}: foreign packets passed the filter"
        )
    if receiver.received and not received.ends.delivered:
        found.append(f"{receiver.received} packets were received but the probe saw none")
    if not received.leg.count:
        found.append("no packet was timed over the whole path")
    if pathlat.stamps_on.start is False or pathlat.stamps_on.end is False:
        found.append("the kernel did not stamp packets all the time (net.core.path_trace was 0)")
    for path in pathlat.paths:
        found += _broken_layers(path)
    return found


def _broken_layers(path: PathDocument) -> list[str]:
    found = [
        f"{path.path}: layer {layer.from_point} to {layer.to_point} has {layer.count} packets "
        f"but only {path.seen[layer.to_point]} passed its last point"
        for layer in path.layers
        if layer.count > path.seen[layer.to_point]
    ]
    # Each interval is rounded to nanoseconds for itself, and so is the leg.
    slack = path.leg.count + sum(layer.count for layer in path.layers)
    added = sum(layer.sum for layer in path.layers)
    if abs(added - path.leg.sum) > slack:
        found.append(
            f"{path.path}: the layers add up to {added} but the whole path to {path.leg.sum}"
        )
    if path.total.sum < path.leg.sum:
        found.append(
            f"{path.path}: packets took {path.leg.sum} but only {path.total.sum} since their entry"
        )
    return found
