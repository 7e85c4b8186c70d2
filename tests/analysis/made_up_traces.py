# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up files of other programs: captures, logs of LUNA, timestamps, statistics of TRex."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence

START_NS = 1_800_000_000_000_000_000
SERVER_LOG = (
    "# ktime\tsource\tport\tsequence\tsize\n"
    "1368543912939397\t::1\t33606\t0\t4\n"
    "1368543912940373\t::1\t33606\t1\t4\n"
    "1368543912941372\t::1\t33607\t3\t20\n"
    "1368543912941380\t::1\t33606\t2\t4\n"
    "1368543912941390\t::1\t33606\t2\t4\n"
)
BOTH_TIMES_LOG = (
    "# ktime\tutime\tsource\tport\tsequence\tsize\n"
    "1368543912939397\t1368543912939463\t::1\t33606\t0\t4\n"
    "1368543912940373\t1368543912940436\t::1\t33606\t1\t4\n"
)
ECHO_LOG = (
    "# ktime\tsequence\tsize\trtt\n"
    "1368543912939397\t0\t40\t61\n"
    "1368543912940373\t1\t40\t55\n"
    "1368543912941373\t2\t40\t58\n"
)
NEW_LOG = (
    "ktime\tsource\tport\tsequence\tsize\n"
    "1368543912.939397001\t192.0.2.1\t33606\t0\t4\n"
    "1368543912.939397901\t192.0.2.1\t33606\t-1\t2\n"
    "1368543912.940397001\t192.0.2.1\t33606\t1\t4\n"
)
TREX = {
    "global": {"rx_pps": 1.0},
    "latency": {
        "global": {"bad_hdr": 0, "old_flow": 0},
        "7": {
            "err_cntrs": {
                **{"dropped": 2, "dup": 1, "out_of_order": 3},
                **{"seq_too_high": 2, "seq_too_low": 4},
            },
            "latency": {
                **{"average": 63.375, "jitter": 23, "last_max": 122},
                **{"total_max": 123, "total_min": 20},
                "histogram": {"20": 1, "30": 18, "100": 20},
            },
        },
    },
}


def times(pairs: Iterable[tuple[float, float]]) -> bytes:
    return b"".join(struct.pack("<dd", *pair) for pair in pairs)


def stamped(sequence: int, sent_ns: int, transmission: int = 9, clock: int = 0) -> bytes:
    numbers = (number.to_bytes(8, "big")[2:] for number in (sequence, sent_ns % 2**48))
    return struct.pack(">BBH", 0x5B, 0x20 | clock, transmission) + b"".join(numbers)


def pktgen(number: int, sent_ns: int) -> bytes:
    seconds, rest = divmod(sent_ns, 10**9)
    return struct.pack(">IIII", 0xBE9BE955, number, seconds, rest // 1000)


def udp(payload: bytes, port: int = 4000, size: int | None = None) -> bytes:
    length = len(payload) if size is None else size
    return struct.pack(">HHHH", port, 5000, length + 8, 0) + payload


def ipv4(inside: bytes, protocol: int = 17, options: bytes = b"", fragment: int = 0) -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack(
        ">BBHHHBBH4s4s",
        *(0x40 | words, 0, words * 4 + len(inside), 0, fragment, 64, protocol, 0),
        *(bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))),
    )
    return head + options + inside


def ipv6(inside: bytes, following: int = 17) -> bytes:
    address = bytes.fromhex("20010db8000000000000000000000001")
    return struct.pack(">IHBB", 0x60000000, len(inside), following, 64) + address * 2 + inside


def ethernet(inside: bytes, kind: int = 0x0800, tags: Sequence[int] = ()) -> bytes:
    tagged = b"".join(struct.pack(">HH", tag, 5) for tag in tags)
    return bytes(12) + tagged + struct.pack(">H", kind) + inside


def pcap(
    packets: Iterable[tuple[int, bytes]], order: str = "<", unit_ns: int = 1, link: int = 1
) -> bytes:
    magic = 0xA1B23C4D if unit_ns == 1 else 0xA1B2C3D4
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for time_ns, frame in packets:
        seconds, rest = divmod(time_ns, 10**9)
        data += struct.pack(order + "IIII", seconds, rest // unit_ns, len(frame), len(frame))
        data += frame
    return data


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def pcapng(packets: Iterable[tuple[int, bytes]], order: str = "<", link: int = 1) -> bytes:
    data = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    # Nanoseconds, and some option that nobody knows.
    options = struct.pack(order + "HHB3xHH4sHH", 9, 1, 9, 2988, 4, b"what", 0, 0)
    data += block(1, struct.pack(order + "HHI", link, 0, 0) + options, order)
    data += block(5, bytes(12), order)
    for time_ns, frame in packets:
        head = (0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(frame), len(frame))
        data += block(6, struct.pack(order + "IIIII", *head) + frame, order)
    return data


def some_packets() -> list[tuple[int, bytes]]:
    """Return packets of each kind, each 1000 ns after the one before."""
    came = [START_NS + 1000 * number for number in range(12)]
    frames = [
        ethernet(ipv4(udp(stamped(0, came[0] - 70)))),
        ethernet(ipv4(udp(stamped(1, came[1] - 90))), tags=(0x8100,)),
        ethernet(ipv6(udp(stamped(3, came[2] - 60), port=4001)), 0x86DD, (0x88A8, 0x8100)),
        ethernet(ipv4(udp(stamped(2, came[3] - 50)), options=bytes(8))),
        ethernet(ipv4(udp(stamped(2, came[4] - 50)))),
        ethernet(ipv4(udp(stamped(5, came[5] - 50, transmission=8)))),
        ethernet(ipv4(udp(b"what is not ours"))),
        ethernet(ipv4(udp(b"[ "))),
        # ARP, TCP, and a later fragment are no UDP packets.
        ethernet(bytes(28), 0x0806),
        ethernet(ipv4(bytes(20), protocol=6)),
        ethernet(ipv4(udp(stamped(9, 0)), fragment=3)),
        # Cut by who captured, behind the stamp; after a hop-by-hop header.
        ethernet(
            ipv6(bytes((17, 0)) + bytes(6) + udp(stamped(4, came[11] - 80), 4001, 900), 0), 0x86DD
        ),
    ]
    return list(zip(came, frames, strict=True))


SAMPLES: dict[str, bytes] = {
    "timestamps": times((1.0 + at / 1000, 1.0 + at / 1000 + 1e-5 * (at % 3)) for at in range(9)),
    "luna": SERVER_LOG.encode(),
    "pcap": pcap(some_packets()),
    "pcapng": pcapng(some_packets()),
    "trex": json.dumps(TREX).encode(),
}
