# SPDX-License-Identifier: GPL-2.0-or-later
"""Random messages to the kernel's netdev family: whole ones, and such as no library would send.

The form is that of <linux/netlink.h> and <linux/genetlink.h>; a library builds right messages only,
and here wrong ones are wanted. The same random numbers make the same messages.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NETLINK_GENERIC = 16
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NESTED, NET_BYTEORDER = 0x8000, 0x4000

# Of <linux/netdev.h>; NAPI_SET of Linux 6.12 is ours, that of 7.3 the kernel's.
DEV_GET, QUEUE_GET, NAPI_GET, QSTATS_GET, NAPI_SET = 1, 10, 11, 12, 14
COMMANDS = (NAPI_SET,) * 12 + (NAPI_GET,) * 4 + (DEV_GET, QUEUE_GET, QSTATS_GET, 99)
IFINDEX, ID = 1, 2
# Linux 7.3 has `threaded` at 8, with us in 6.12 too; THREAD_* are ours.
THREADED, CPUS, POLICY, PRIORITY, NICE = 8, 64, 65, 66, 67
# Timeouts of Linux 7.3 are not among them: with one of a day nothing would arrive any more.
ATTRIBUTES = (THREADED, CPUS, CPUS, POLICY, PRIORITY, NICE)
# Polling without pause in a real-time thread starves a guest by design.
BUSY_POLL = 2
NUMBERS = (0, 1, 2, 3, 5, 6, 7, 19, 20, 50, 99, 100, 2**31 - 1, 2**31, 2**32 - 20, 2**32 - 1)
LISTS = (
    *(b"0", b"1", b"0-1", b"all", b"", b"none", b"2", b"1-0", b"0,0", b"0-", b",", b"0-1:1/1"),
    *(b"9999999999", b"-1", b" 0 ", b"0\n", b"a", b"0" * 1023, b"0," * 600, b"0-4095", b"\xff\xfe"),
)


@dataclass(frozen=True)
class Message:
    """Command, flags and attributes (type with its flags, payload) of one request."""

    command: int
    flags: int
    attributes: tuple[tuple[int, bytes], ...]


def attribute(kind: int, payload: bytes) -> bytes:
    """Return an attribute as it is sent, padded to four bytes."""
    head = struct.pack("=HH", 4 + len(payload), kind)
    return head + payload + bytes(-len(payload) % 4)


def random_message(rng: random.Random, napis: list[int]) -> Message:
    """Return the next message; `napis` are the numbers of NAPIs that there are."""
    attributes: list[tuple[int, bytes]] = []
    if rng.random() < 0.95:
        known = rng.choice(napis) if napis and rng.random() < 0.9 else rng.choice(NUMBERS)
        attributes.append((ID, struct.pack("=I", known)))
    if rng.random() < 0.1:
        attributes.append((IFINDEX, struct.pack("=I", rng.choice(NUMBERS))))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        attributes.append(_attribute(rng))
    if rng.random() < 0.05:
        rng.shuffle(attributes)
    flags = rng.choice((0, NLM_F_ACK, NLM_F_ACK, NLM_F_ACK, NLM_F_DUMP))
    return Message(rng.choice(COMMANDS), NLM_F_REQUEST | flags, tuple(attributes))


def _attribute(rng: random.Random) -> tuple[int, bytes]:
    kind = rng.choice(ATTRIBUTES) if rng.random() < 0.95 else rng.randrange(1 << 14)
    if kind == CPUS:
        text = rng.choice(LISTS)
        payload = text if rng.random() < 0.2 else text + b"\0"
    elif kind == THREADED:
        payload = struct.pack("=I", rng.choice([value for value in NUMBERS if value != BUSY_POLL]))
    else:
        payload = struct.pack("=I", rng.choice(NUMBERS))
    if rng.random() < 0.1:
        # A threaded of one or two bytes could be read as BUSY_POLL with what follows it.
        payload = bytes(rng.choices((0, 255), k=rng.choice((0, 1, 2, 3, 5, 8, 64))))
    if rng.random() < 0.05:
        kind |= rng.choice((NESTED, NET_BYTEORDER))
    return kind, payload


def encoded(message: Message, family: int, sequence: int) -> bytes:
    """Return a message as it is sent."""
    body = struct.pack("=BBH", message.command, 1, 0)
    body += b"".join(attribute(kind, payload) for kind, payload in message.attributes)
    return struct.pack("=IHHII", 16 + len(body), family, message.flags, sequence, 0) + body


def damaged(rng: random.Random, message: bytes) -> bytes:
    """Return one in twenty messages with a wrong byte or a wrong end."""
    whim = rng.random()
    if whim < 0.03:
        at = rng.randrange(16, len(message))
        # Not into BUSY_POLL.
        return message[:at] + bytes([message[at] | 0x80]) + message[at + 1 :]
    if whim < 0.05:
        return message[: rng.randrange(16, len(message) + 1)]
    return message


def answers(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message that was received at once."""
    while len(data) >= 16:
        size, kind = struct.unpack_from("=IH", data)
        if size < 16:
            return
        yield kind, data[16:size]
        data = data[(size + 3) & ~3 :]


def attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of the attributes of a generic netlink message's body."""
    data = body[4:]
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        if size < 4:
            return
        yield kind & 0x3FFF, data[4:size]
        data = data[(size + 3) & ~3 :]


def ask(sock: socket.socket, family: int, message: Message) -> Iterator[bytes]:
    """Send a right message and yield the body of each answer."""
    sock.send(encoded(message, family, 1))
    whole = not message.flags & NLM_F_DUMP
    while True:
        for kind, body in answers(sock.recv(1 << 17)):
            if kind in (NLMSG_ERROR, NLMSG_DONE):
                return
            yield body
        if whole:
            return


def family(sock: socket.socket) -> int:
    """Return the number of the netdev family; OSError if there is none."""
    name = ((CTRL_ATTR_FAMILY_NAME, b"netdev\0"),)
    for body in ask(sock, GENL_ID_CTRL, Message(CTRL_CMD_GETFAMILY, NLM_F_REQUEST, name)):
        for kind, payload in attributes(body):
            if kind == CTRL_ATTR_FAMILY_ID:
                return int(struct.unpack("=H", payload)[0])
    raise OSError("this kernel has no netdev family")


def napis(sock: socket.socket, number: int) -> list[int]:
    """Return the numbers of the NAPIs in the socket's namespace."""
    dump = Message(NAPI_GET, NLM_F_REQUEST | NLM_F_DUMP, ())
    return [
        int(struct.unpack("=I", payload)[0])
        for body in ask(sock, number, dump)
        for kind, payload in attributes(body)
        if kind == ID
    ]


def connected() -> socket.socket:
    """Return a socket to generic netlink, of the namespace in which it is made."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    sock.connect((0, 0))
    return sock


def drained(sock: socket.socket) -> int:
    """Return how many answers wait in a socket that does not block, and forget them."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            count += sum(1 for _ in answers(sock.recv(1 << 17)))
    return count
