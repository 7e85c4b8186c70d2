# SPDX-License-Identifier: GPL-2.0-or-later
"""What scripts of bpftrace and SystemTap have to say of known packets, in `skblab probe verify`.

They hook functions, and count every packet at a point, whatever becomes of it:

    devices     packets received = packets that began
    IP          packets forwarded = whole paths of forwarded packets, and those that the router's
                devices had no room for: of TCP no more than these
    programs    UDP: datagrams read = whole paths of received packets, each seen at every point
    script      begun = whole paths + all that became of the others
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skblab_analysis.formats.scripts import ScriptDocument, ScriptName, ScriptsDocument, ledger

# Points that every packet of a path passes one after the other, from which on it is of that path.
SURE: dict[ScriptName, Sequence[str]] = {
    "receive": ("local", "transport"),
    "forward": ("forward", "output", "queue", "xmit", "done"),
}
COMMON = ("stack", "ip", "route")
UDP_POINTS = ("local", "transport", "socket", "wake", "user")


def complaints(
    document: ScriptsDocument,
    udp: bool,
    packets: int,
    received: int,
    forwarded: int,
    refused: int = 0,
) -> Iterable[str]:
    """Yield every count that does not agree: those of devices and IP are Counters."""
    for script in document.scripts:
        missing = {"missed": script.missed}
        if script.path_time is not None:
            missing = ledger(0, "ns", script).unaccounted
        yield from (f"{script.script}: {count} {name}" for name, count in missing.items() if count)
    by_name = {script.script: script for script in document.scripts}
    yield from _of_hooks(by_name, udp, packets, received, (forwarded, refused))


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
