# SPDX-License-Identifier: GPL-2.0-or-later
"""Known packets between two namespaces of a guest: both ends' commands, and one exchange."""

from __future__ import annotations

from collections.abc import Sequence

from skblab.transport import Transport
from skblab.transport.base import Done

PROGRAMS = "/skblab/tools/bin"
# Holds every packet, so that a loss is the stack's and not ours.
RECEIVE_BUFFER_BYTES = 128 << 20
READY_SECONDS = 60
# After the last packet, how long the receiver waits for late ones.
IDLE_SECONDS = 2


def udp(
    reader: str, where: str, *, count: int, rate: int, size: int, seconds: int
) -> tuple[list[str], list[str]]:
    """Return receiver and sender of `count` datagrams from the namespace source to `reader`.

    `where` is the receiver's ADDRESS:PORT, `rate` a second (0: as fast as it goes), `size` in
    bytes of payload; both end after `seconds`.
    """
    receiver = [
        *("ip", "netns", "exec", reader, f"{PROGRAMS}/skblab-traffic", "receive"),
        *("--bind", where, "--expect", str(count)),
        *("--idle", str(IDLE_SECONDS), "--seconds", str(seconds)),
        *("--rcvbuf", str(RECEIVE_BUFFER_BYTES)),
    ]
    sender = [
        *("ip", "netns", "exec", "source", f"{PROGRAMS}/skblab-traffic", "send"),
        *("--to", where, "--count", str(count), "--size", str(size)),
        *("--rate", str(rate), "--seconds", str(seconds)),
    ]
    return receiver, sender


def exchange(
    transport: Transport, receiver: Sequence[str], sender: Sequence[str], seconds: int
) -> tuple[Done, Done]:
    """Start the receiver, send, wait for both; return what the sender and the receiver said."""
    receiving = transport.start(receiver)
    receiving.wait_for("ready", READY_SECONDS)
    sent = transport.run(sender, seconds=2 * seconds).check("the sender")
    return sent, receiving.wait(2 * seconds).check("the receiver")
