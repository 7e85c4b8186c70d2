# SPDX-License-Identifier: GPL-2.0-or-later
"""Known packets between two namespaces of a guest: both ends' commands, and one exchange."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence

from skblab.machine.transport import Running, Transport
from skblab.machine.transport.base import Done
from skblab_analysis.base.errors import SkblabError

PROGRAMS = "/skblab/tools/bin"
# Holds every packet, so that a loss is the stack's and not ours.
RECEIVE_BUFFER_BYTES = 128 << 20
READY_SECONDS = 60
# After the last packet, how long the receiver waits for late ones.
IDLE_SECONDS = 2
LOOK_SECONDS = 0.1


def udp(
    reader: str, where: str, *, count: int, rate: int, size: int, seconds: int, flows: int = 1
) -> tuple[list[str], list[str]]:
    """Return receiver and sender of `count` datagrams from the namespace source to `reader`.

    `where` is the receiver's ADDRESS:PORT, `rate` a second (0: as fast as it goes), `size` in
    bytes of payload, `flows` how many source ports take turns; both end after `seconds`.
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
        *("--rate", str(rate), "--seconds", str(seconds), "--flows", str(flows)),
    ]
    return receiver, sender


def exchange(
    transport: Transport,
    receiver: Sequence[str],
    sender: Sequence[str],
    seconds: int,
    meanwhile: Callable[[], object] = lambda: None,
) -> tuple[Done, Done]:
    """Start the receiver, send, wait for both; return what the sender and the receiver said.

    `meanwhile` is called again and again; both are told to end if it raises something.
    """
    started = [transport.start(receiver)]
    try:
        started[0].wait_for("ready", READY_SECONDS)
        started.append(transport.start(sender))
        sent, received = (
            ended(command, name, 2 * seconds, meanwhile)
            for command, name in zip(reversed(started), ("the sender", "the receiver"), strict=True)
        )
    except BaseException:
        stop(started)
        raise
    return sent, received


def stop(started: Iterable[Running]) -> None:
    """Tell commands to end that run; what goes wrong with that is not the first trouble."""
    for command in started:
        # The machine may be what is in trouble.
        with contextlib.suppress(SkblabError, OSError):
            if command.running():
                command.interrupt()


def finished(
    command: Running,
    name: str,
    seconds: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> Done:
    """Wait for the end of a command, and return how it ended; SkblabError if that is late.

    `name` is its, in words; `meanwhile` is called again and again.
    """
    deadline = time.monotonic() + seconds
    while command.running():
        if time.monotonic() > deadline:
            raise SkblabError(f"{name} did not end within {seconds:.0f} s")
        meanwhile()
        time.sleep(LOOK_SECONDS)
    return command.wait(1)


def ended(
    command: Running,
    name: str,
    seconds: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> Done:
    """Wait for the end of a command, and return what it said; SkblabError if it fails, too."""
    return finished(command, name, seconds, meanwhile).check(name)
