#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""TRex as another tester: sends what skblab asks for by its stateless Python API (STLClient).

    trex_stl.py [--server HOST] [--ports GENERATOR,SINK] [--loop GENERATOR,SINK]

TRex's server runs beside it (`./t-rex-64 -i`), and PYTHONPATH has TRex's folder
`automation/trex_control_plane/interactive`. Ports are TRex's own numbers. The contract is in
docs/howto/use-another-tester.md.

**Nobody has sent by it with a real TRex yet**: it was written by TRex's documentation, and tested
against a made-up STLClient. TRex's own Python classes (of November 2025) took its streams.
Python 3.10 or later. A file of the name trex.py would hide TRex's package.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import struct
import sys
import time
from typing import Any

from trex.stl.api import (
    CTRexVmInsFixHwCs,
    STLClient,
    STLError,
    STLPktBuilder,
    STLScVmRaw,
    STLStream,
    STLTXCont,
    STLTXSingleBurst,
    STLVmFixChecksumHw,
    STLVmFlowVar,
    STLVmWrFlowVar,
)

Asked = dict[str, Any]
UDP, HOP_LIMIT, CHECKSUM_BYTES = 17, 64, 4
# The destination address of a stream's frames is that of its packet.
DESTINATION_OF_PACKET = 1
# TRex's counters lag behind its packets (its issue 440): they are believed once they stand still.
LOOK_SECONDS, LOOKS, MOST_LOOKS = 0.25, 4, 100
# wait_on_traffic() looks about that often, and TRex itself does not say how long it sent.
SLACK_SECONDS = 0.1
# Beyond the time that it may send, until TRex has to say that it stopped.
LATE_SECONDS = 10


def main() -> None:
    """Answer one request."""
    parser = argparse.ArgumentParser(description="TRex as a sender for skblab")
    parser.add_argument("--server", default="127.0.0.1")
    parser.add_argument("--ports", default="0,1", help="TRex's ports: generator, sink")
    parser.add_argument("--loop", help="the same of two more ports, joined to each other")
    options = parser.parse_args()
    asked = json.load(sys.stdin)
    # Nothing but the answer may be on standard output, and STLClient writes there, too.
    answers, sys.stdout = sys.stdout, sys.stderr
    if why := unable(asked, options):
        sys.exit(f"trex_stl.py: {why}")
    ports = options.ports if asked["path"] == "router" else options.loop
    try:
        generator, sink = (int(port) for port in ports.split(","))
    except ValueError:
        sys.exit(f"trex_stl.py: {ports}: expected two ports, such as 0,1")
    client = STLClient(server=options.server)
    try:
        client.connect()
        try:
            found = answer(client, asked, generator, sink)
        finally:
            client.disconnect()
    except STLError as error:
        sys.exit(f"trex_stl.py: {' '.join(str(error).split())}")
    json.dump(found, answers)


def unable(asked: Asked, options: argparse.Namespace) -> str | None:
    """Return what of a request TRex cannot do; nothing if it can do all."""
    if asked["schema"] != "skblab.sender-request/1":
        return f"{asked['schema']}: expected skblab.sender-request/1"
    if asked["timed"]:
        return "TRex's packets pass no kernel that could stamp them: leave latency out"
    if asked["then"]:
        return "TRex does not say which packet is the first at another rate: leave that test out"
    if asked["path"] == "tester" and not options.loop:
        return "the tester's own loop is asked for: expected --loop GENERATOR,SINK"
    return None


def answer(client: STLClient, asked: Asked, generator: int, sink: int) -> dict[str, Any]:
    """Send, and return what came of it."""
    client.reset(ports=[generator, sink])
    client.add_streams(streams(asked), ports=[generator])
    before = settled(client, generator, sink)
    began = time.monotonic()
    # Rates of streams are shares, where all that the link takes is asked for.
    mult = "100%" if asked["rate"] is None else "1"
    client.start(ports=[generator], mult=mult, duration=asked["seconds"], force=True)
    client.wait_on_traffic(ports=[generator], timeout=asked["seconds"] + LATE_SECONDS)
    took = time.monotonic() - began
    after = settled(client, generator, sink)
    sent, refused, received = (now - then for now, then in zip(after, before, strict=True))
    return {
        "schema": "skblab.sender/1",
        "sent": sent,
        "refused": refused,
        "seconds": lasted(asked, sent + refused, took),
        "received": received,
    }


def lasted(asked: Asked, tried: int, took: float) -> float:
    """Return for how long it sent: as its rate has it, unless it really took longer."""
    planned = asked["seconds"]
    if asked["packets"] is not None and asked["rate"] is not None:
        planned = min(planned, tried / asked["rate"])
    elif asked["packets"] is not None:
        planned = 0
    return planned if planned and took < planned + SLACK_SECONDS else took


def settled(client: STLClient, generator: int, sink: int) -> tuple[int, int, int]:
    """Return packets sent, those refused, and those that came, once no more do."""
    last, same = None, 0
    for _ in range(MOST_LOOKS):
        stats = client.get_stats(ports=[generator, sink])
        now = (
            stats[generator]["opackets"],
            stats[generator]["oerrors"],
            stats[sink]["ipackets"],
        )
        same = same + 1 if now == last else 1
        if same == LOOKS:
            return now
        last = now
        time.sleep(LOOK_SECONDS)
    sys.exit(f"trex_stl.py: packets still come to port {sink} after {MOST_LOOKS} looks")


def streams(asked: Asked) -> list[STLStream]:
    """Return a stream for each size of frames, with its share of packets and of the rate."""
    frames = asked["frames"]
    whole = sum(frame["weight"] for frame in frames)
    packets = shares(asked["packets"], [frame["weight"] for frame in frames])
    made = []
    for frame, count in zip(frames, packets, strict=True):
        if count == 0:
            continue
        share = (
            frame["weight"] if asked["rate"] is None else asked["rate"] * frame["weight"] / whole
        )
        pps = float(share)
        mode = STLTXCont(pps=pps) if count is None else STLTXSingleBurst(total_pkts=count, pps=pps)
        made.append(
            STLStream(
                packet=STLPktBuilder(pkt_buffer=packet(asked, frame["bytes"]), vm=engine(asked)),
                mode=mode,
                random_seed=asked["seed"],
                mac_src_override_by_pkt=True,
                mac_dst_override_mode=DESTINATION_OF_PACKET,
            )
        )
    return made


def shares(packets: int | None, weights: list[int]) -> list[int] | list[None]:
    """Return how many of the packets each weight gets, whose sum is all; None: without an end."""
    if packets is None:
        return [None] * len(weights)
    ends = [packets * sum(weights[: number + 1]) // sum(weights) for number in range(len(weights))]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def packet(asked: Asked, frame_bytes: int) -> bytes:
    """Return the first packet of a flow, without Ethernet's checksum."""
    ethernet = address(asked["destination_mac"]) + address(asked["source_mac"])
    kind = 0x0800 if asked["family"] == 4 else 0x86DD
    if asked["vlan"] is not None:
        ethernet += struct.pack("!HH", 0x8100, asked["vlan"])
    ethernet += struct.pack("!H", kind)
    # A tag comes on top of the size that is asked for.
    room = frame_bytes - CHECKSUM_BYTES - 14
    source = ipaddress.ip_address(asked["source"]).packed
    destination = ipaddress.ip_address(asked["destination"]).packed
    length = room - header_bytes(asked)
    ports = struct.pack("!HHH", asked["source_port"], asked["destination_port"], length)
    payload = bytes(length - 8)
    pseudo = source + destination + struct.pack("!II", length, UDP)
    sum_of_udp = checksum(pseudo + ports + b"\0\0" + payload) or 0xFFFF
    udp = ports + struct.pack("!H", sum_of_udp) + payload
    if asked["family"] == 6:
        fixed = struct.pack("!IHBB", 6 << 28, length, UDP, HOP_LIMIT)
        return ethernet + fixed + source + destination + udp
    fixed = struct.pack("!BBHHHBB", 0x45, 0, room, 0, 0, HOP_LIMIT, UDP)
    sum_of_ip = checksum(fixed + b"\0\0" + source + destination)
    return ethernet + fixed + struct.pack("!H", sum_of_ip) + source + destination + udp


def engine(asked: Asked) -> STLScVmRaw | None:
    """Return what changes from packet to packet: source ports in turn, and random addresses."""
    at_ip = 14 if asked["vlan"] is None else 18
    at_udp = at_ip + header_bytes(asked)
    steps = []
    if asked["flows"] > 1:
        first = asked["source_port"]
        steps += written("port", first, first + asked["flows"] - 1, 2, "inc", at_udp)
    if asked["destinations"]:
        first, last = (
            ipaddress.ip_address(asked["destinations"][end]).packed for end in ("first", "last")
        )
        if asked["family"] == 4:
            low, high = (int.from_bytes(end, "big") for end in (first, last))
            steps += written("address", low, high, 4, "random", at_ip + 16)
        else:
            # A variable has 8 bytes at most.
            for name, half, at in (("network", slice(0, 8), 24), ("host", slice(8, 16), 32)):
                low, high = (int.from_bytes(end[half], "big") for end in (first, last))
                # Of all that 8 bytes hold the number would not fit into 8 bytes.
                high -= high - low == 2**64 - 1
                steps += written(name, low, high, 8, "random", at_ip + at)
    if steps:
        udp = CTRexVmInsFixHwCs.L4_TYPE_UDP
        steps.append(STLVmFixChecksumHw(l3_offset=at_ip, l4_offset=at_udp, l4_type=udp))
    return STLScVmRaw(steps) if steps else None


def written(name: str, low: int, high: int, size: int, how: str, offset: int) -> list[Any]:
    """Return the instructions of a variable, and that write it into the packet."""
    return [
        STLVmFlowVar(name=name, min_value=low, max_value=high, size=size, op=how),
        STLVmWrFlowVar(fv_name=name, pkt_offset=offset),
    ]


def header_bytes(asked: Asked) -> int:
    """Return the bytes of the IP header."""
    return 20 if asked["family"] == 4 else 40


def address(text: str) -> bytes:
    """Return an Ethernet address."""
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


if __name__ == "__main__":
    main()
