# SPDX-License-Identifier: GPL-2.0-or-later
"""What scripts of bpftrace and SystemTap have to say of known packets, in `skblab probe verify`.

Those that read the kernel's samples see what `pathlat` sees, the same packets in the same buckets.
Those that hook functions count every packet at a point, whatever becomes of it:

    devices     packets received = packets that began
    IP          packets forwarded = whole paths of forwarded packets, and those that the router's
                devices had no room for: of TCP no more than these
    programs    UDP: datagrams read = whole paths of received packets, each seen at every point
    script      begun = whole paths + all that became of the others
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from skblab_analysis.formats.pathlat import LayerDistribution, PathlatDocument
from skblab_analysis.formats.scripts import ScriptDocument, ScriptName, ScriptsDocument, ledger

# Points that every packet of a path passes one after the other, from which on it is of that path.
SURE: dict[ScriptName, Sequence[str]] = {
    "receive": ("local", "transport"),
    "forward": ("forward", "output", "queue", "xmit", "done"),
}
COMMON = ("stack", "ip", "route")
UDP_POINTS = ("local", "transport", "socket", "wake", "user")
# Of samples. Not all paths have a queueing discipline, and with it `dequeue`.
EVERY: dict[ScriptName, Sequence[str]] = {
    "receive": (*COMMON, *UDP_POINTS),
    "forward": (*COMMON, *SURE["forward"]),
}


def complaints(
    document: ScriptsDocument,
    udp: bool,
    packets: int,
    forward: bool,
    received: int,
    forwarded: int,
    discarded: int = 0,
    refused: int = 0,
) -> Iterable[str]:
    """Yield every count that does not agree: those of devices, IP and SCTP are Counters."""
    for script in document.scripts:
        missing = {"missed": script.missed}
        if script.path_time is not None:
            missing = ledger(0, "ns", script).unaccounted
        yield from (f"{script.script}: {count} {name}" for name, count in missing.items() if count)
    by_name = {script.script: script for script in document.scripts}
    if document.scripts[0].source == "samples":
        yield from _of_samples(by_name, udp, packets, forward, (received, discarded), forwarded)
    else:
        yield from _of_hooks(by_name, udp, packets, received, (forwarded, refused))


def _of_samples(
    scripts: dict[ScriptName, ScriptDocument],
    udp: bool,
    packets: int,
    forward: bool,
    came: tuple[int, int],
    forwarded: int,
) -> Iterable[str]:
    some = (scripts["receive"], scripts["forward"])
    ended = {script.script: _whole(script) + sum(script.left_out.values()) for script in some}
    merged = sum(script.merged for script in some)
    yield from received("samples", sum(ended.values()) + merged, *came)
    most, copies = ended["forward"], scripts["forward"].copies
    if not most - copies <= forwarded <= most:
        yield f"forwarded: {most}, {copies} of them copies; expected {forwarded}"
    if udp:
        yield from _same("receive", _whole(scripts["receive"]), packets)
        yield from _same("forward", _whole(scripts["forward"]), packets if forward else 0)
    for script in some:
        count = {layer.to_point: layer.count for layer in script.layers}
        for point in dict.fromkeys((*EVERY[script.script], *count)):
            yield from _same(f"{script.script}: {point}", count.get(point, 0), _whole(script))


def _of_hooks(
    scripts: dict[ScriptName, ScriptDocument],
    udp: bool,
    packets: int,
    received: int,
    onward: tuple[int, int],
) -> Iterable[str]:
    forwarded, refused = onward
    hooked = scripts["forward"].hooked
    assert hooked is not None
    # What GRO has made one is forwarded as one and cut again: of the pieces only the first has a
    # path. UDP has no GRO here.
    lost = (refused, refused) if udp else (0, min(refused, hooked.dropped))
    for name, points in SURE.items():
        script = scripts[name]
        assert script.hooked is not None
        yield from _same(f"{name}: begun", script.hooked.begun, received)
        count = {layer.to_point: layer.count for layer in script.layers}
        for point in COMMON:
            # Without GRO, which UDP here is, all that came in.
            want = received if udp else count.get("stack", 0)
            yield from _same(f"{name}: {point}", count.get(point, 0), want)
        for point in points:
            want = count.get(points[0], 0)
            if point == "done":
                yield from _transmitted(f"{name}: {point}", count.get(point, 0), want, lost)
            else:
                yield from _same(f"{name}: {point}", count.get(point, 0), want)
        if udp and name == "receive":
            for point in UDP_POINTS:
                yield from _same(f"{name}: {point}", count.get(point, 0), packets)
    whole = _whole(scripts["forward"])
    yield from _transmitted("forward: whole paths", whole, forwarded, lost)
    if udp:
        yield from _same("receive: whole paths", _whole(scripts["receive"]), packets)


def received(what: str, have: int, want: int, unseen: int) -> Iterable[str]:
    """Yield that these are not those that devices received, of which `unseen` may be left out."""
    if not want - unseen <= have <= want:
        expected = f"{want - unseen} to {want}" if unseen else str(want)
        yield f"{what} of packets that devices received: {have}, expected {expected}"


def same_samples(document: ScriptsDocument, pathlat: PathlatDocument) -> Iterable[str]:
    """Yield every layer that is not, to the bucket, as `pathlat` saw it at the same time."""
    for script in document.scripts:
        if script.path_time is None:
            continue
        path = pathlat.path("forward" if script.script == "forward" else "receive")
        theirs = {layer.to_point: layer for layer in path.layers if layer.count}
        ours = {layer.to_point: layer for layer in script.layers}
        if ours.keys() != theirs.keys():
            mine, yours = (", ".join(names) or "none" for names in (ours, theirs))
            yield f"{path.path}: layers {mine}; pathlat has {yours}"
            continue
        yield from _same(f"{path.path}: copies", script.copies, path.copies or 0)
        pairs = [(ours[name], theirs[name]) for name in ours] + [(script.path_time, path.path_time)]
        for of_script, of_pathlat in pairs:
            if not _alike(of_script, of_pathlat):
                yield f"{path.path} {of_script.to_point}: other times than pathlat's"


def same_counts(histograms: PathlatDocument, samples: PathlatDocument) -> Iterable[str]:
    """Yield all that the kernel's own histograms tell otherwise than its samples of the same time.

    Their buckets are those of the kernel's clock, so that a packet near the edge of one may be in
    another one here than there; but it is in one that can hold its time.
    """
    # Further copies that went up in another packet are not among them.
    if histograms.merged > samples.merged:
        yield f"merged: {histograms.merged}, samples say {samples.merged}"
    for path in histograms.paths:
        other = samples.path(path.path)
        if (path.ends, path.seen) != (other.ends, other.seen):
            said = [f"{side.ends}, seen {dict(side.seen)}" for side in (path, other)]
            yield f"{path.path}: {said[0]}; samples say {said[1]}"
            continue
        pairs = zip(
            (*path.layers, path.since_entry), (*other.layers, other.since_entry), strict=True
        )
        for mine, theirs in pairs:
            if not _compatible(mine, theirs, WHOLE_NS if mine is path.since_entry else LAYER_NS):
                yield f"{path.path} {mine.to_point}: other times than the samples have"


# What a time may differ by for being rounded: once, or at every point of a path.
LAYER_NS = 1
WHOLE_NS = 16
# The kernel's own idea of its clock's frequency, in parts of one.
FREQUENCY = 1e-5


def _compatible(mine: LayerDistribution, theirs: LayerDistribution, rounded: int) -> bool:
    """Tell whether one set of times can have made both distributions."""
    # Each sample is rounded down, the sum of the histogram only once.
    apart, slack = mine.sum - theirs.sum, rounded + FREQUENCY * mine.sum
    if mine.count != theirs.count or not -slack <= apart <= rounded * mine.count + slack:
        return False
    return _below(mine, theirs, rounded) and _below(theirs, mine, rounded)


def _below(mine: LayerDistribution, theirs: LayerDistribution, rounded: int) -> bool:
    """Tell whether, wherever values of mine surely end, theirs can have as many."""
    rows = theirs.histogram().rows()
    begins = [lower for lower, _, _ in rows]
    possible = [0, *accumulate(count for _, _, count in rows)]
    done = 0
    for _, upper, count in mine.histogram().rows():
        done += count
        if possible[bisect_right(begins, upper + rounded + FREQUENCY * upper)] < done:
            return False
    return True


def _alike(ours: LayerDistribution, theirs: LayerDistribution) -> bool:
    mine, yours = ours.histogram(), theirs.histogram()
    return (mine.buckets, mine.total, mine.maximum) == (yours.buckets, yours.total, yours.maximum)


def _whole(script: ScriptDocument) -> int:
    return script.path_time.count if script.path_time else 0


def _transmitted(what: str, have: int, forwarded: int, lost: tuple[int, int]) -> Iterable[str]:
    """Yield that these are not those that were forwarded, less the fewest and the most lost."""
    fewest, most = lost
    if not forwarded - most <= have <= forwarded - fewest:
        least = f"{forwarded - most} to " if most > fewest else ""
        yield f"{what}: {have}, expected {least}{forwarded - fewest}"


def _same(what: str, have: int, want: int) -> Iterable[str]:
    if have != want:
        yield f"{what}: {have}, expected {want}"
