# SPDX-License-Identifier: GPL-2.0-or-later
"""The threads of NAPI instances over generic netlink, family netdev (napi-get, napi-set).

Runs on the device under test, alone, with Python's own library: no tool there speaks netdev.

    napi_netlink.py show DEVICE            a line of JSON for each instance, ordered by ID
    napi_netlink.py set DEVICE SETTINGS …  NAME=VALUE[;NAME=VALUE…] of each instance, likewise
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

# linux/netlink.h, linux/genetlink.h
NETLINK_GENERIC = 16
NETLINK_EXT_ACK, SOL_NETLINK = 11, 270
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, ACK, DUMP = 1, 4, 0x300
ACK_TLVS, ACK_CAPPED = 0x200, 0x100
ACK_MESSAGE = 1
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
GET_POLICY, POLICY_OF, OPERATION = 10, 8, 10
# linux/netdev.h
NAPI_GET, NAPI_SET = 11, 14
IFINDEX, ID, THREADED = 1, 2, 8
CPUS, POLICY, PRIORITY, NICE = 64, 65, 66, 67
NUMBERS = {"threaded": THREADED, "policy": POLICY, "priority": PRIORITY}
NAMES = {**NUMBERS, "nice": NICE}


class Refused(Exception):
    """What the kernel said to a request."""


class Netdev:
    """A socket of the namespace that this runs in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self._socket.bind((0, 0))
        self._socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        [found] = self._ask(CONTROL, GET_FAMILY, ACK, attribute(FAMILY_NAME, b"netdev\0"))
        self._id = found[FAMILY_ID]
        self._family = number(self._id)

    def knows(self, kind: int) -> bool:
        """Tell whether napi-set takes an attribute."""
        which = attribute(FAMILY_ID, self._id) + attribute(OPERATION, struct.pack("=I", NAPI_SET))
        policies = [
            dict(attributes(policy))
            for message in self._ask(CONTROL, GET_POLICY, DUMP, which)
            for _, policy in attributes(message.get(POLICY_OF, b""))
        ]
        return any(kind in policy for policy in policies)

    def instances(self, device: str) -> list[dict[int, bytes]]:
        """Return the attributes of each NAPI instance of a device, in the order of their IDs."""
        which = attribute(IFINDEX, struct.pack("=I", socket.if_nametoindex(device)))
        found = self._ask(self._family, NAPI_GET, DUMP, which)
        return sorted(found, key=lambda napi: number(napi[ID]))

    def set(self, napi: bytes, attributes: bytes) -> None:
        """Set attributes of an instance."""
        self._ask(self._family, NAPI_SET, ACK, attribute(ID, napi) + attributes)

    def _ask(self, family: int, what: int, flags: int, payload: bytes) -> list[dict[int, bytes]]:
        body = struct.pack("=BBH", what, 1, 0) + payload
        head = struct.pack("=IHHII", 16 + len(body), family, REQUEST | flags, 1, 0)
        self._socket.send(head + body)
        found: list[dict[int, bytes]] = []
        while True:
            for kind, given, message in messages(self._socket.recv(1 << 20)):
                if kind == NLMSG_ERROR:
                    code = int.from_bytes(message[:4], sys.byteorder, signed=True)
                    if code:
                        raise Refused(complaint(code, given, message))
                    return found
                if kind == NLMSG_DONE:
                    return found
                found.append(dict(attributes(message[4:])))


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute, padded."""
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of a message."""
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:size]
        data = data[(size + 3) & ~3 :]


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, flags and content of each message."""
    while len(data) >= 16:
        size, kind, flags = struct.unpack_from("=IHH", data)
        yield kind, flags, data[16:size]
        data = data[(size + 3) & ~3 :]


def complaint(code: int, flags: int, message: bytes) -> str:
    """Return what an error says: the kernel's own words, if it has any."""
    if flags & ACK_TLVS:
        request = 16 if flags & ACK_CAPPED else int.from_bytes(message[4:8], sys.byteorder)
        words = dict(attributes(message[4 + request :])).get(ACK_MESSAGE)
        if words:
            return words.rstrip(b"\0").decode()
    return os.strerror(-code)


def number(value: bytes) -> int:
    """Return an unsigned number."""
    return int.from_bytes(value, sys.byteorder)


def shown(napi: dict[int, bytes]) -> dict[str, int | str]:
    """Return what is known of an instance, by name; what was never set is not there."""
    found: dict[str, int | str] = {
        name: number(napi[kind]) for name, kind in NUMBERS.items() if kind in napi
    }
    if CPUS in napi:
        found["cpus"] = napi[CPUS].rstrip(b"\0").decode()
    if NICE in napi:
        found["nice"] = int.from_bytes(napi[NICE], sys.byteorder, signed=True)
    return found


def setting(text: str) -> bytes:
    """Return NAME=VALUE as napi-set takes it."""
    name, _, value = text.partition("=")
    if name == "cpus":
        return attribute(CPUS, value.encode() + b"\0")
    return attribute(NAMES[name], struct.pack("=i", int(value)))


def show(device: str) -> None:
    """Print the instances of a device, all CPUs, and whether threads have settings."""
    netdev = Netdev()
    found = netdev.instances(device)
    common = {
        "ifname": device,
        "possible": Path("/sys/devices/system/cpu/possible").read_text().strip(),
        "settings": netdev.knows(CPUS),
    }
    for napi in found:
        sys.stdout.write(json.dumps({**common, **shown(napi)}) + "\n")
    if not found:
        sys.stdout.write(f"skblab-unable: {device} has no NAPI instances\n")


def change(device: str, settings: list[str]) -> None:
    """Set what each instance of a device is to have."""
    netdev = Netdev()
    found = netdev.instances(device)
    if len(found) != len(settings):
        raise Refused(f"it has {len(found)} NAPI instances, expected {len(settings)}")
    for napi, own in zip(found, settings, strict=True):
        netdev.set(napi[ID], b"".join(map(setting, own.split(";"))))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "show":
            show(sys.argv[2])
        else:
            change(sys.argv[2], sys.argv[3:])
    except (Refused, OSError) as error:
        sys.exit(f"{sys.argv[2]}: {error}")
