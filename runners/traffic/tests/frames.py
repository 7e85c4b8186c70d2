# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames from a device: what arrives, what a full or a vanished device makes of the report.

Needs root, iproute2, veth and tun. It lays out devices in a network namespace that was made for it:

    unshare --net python3 frames.py SKBLAB-TRAFFIC-BINARY CASE
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAC, SOURCE_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01"
FOUR = ("--from", "198.18.0.3", "--to", "198.18.0.2:5000")
SIX = ("--from", "2001:db8::3", "--to", "[2001:db8::2]:5000")
COUNT = 20_000
# Of linux/if_tun.h.
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
# Frames that a tap keeps for who does not read them.
QUEUE = 500
SECONDS = 60
# An option without a value.
FLAG = "-"


def ip(*words: str) -> None:
    """Have iproute2 do something."""
    subprocess.run(["ip", *words], check=True)


def sysctl(name: str, value: str) -> None:
    """Set something of this network namespace."""
    Path("/proc/sys/net", name).write_text(value)


def quiet() -> None:
    """Have the kernel send nothing of its own."""
    sysctl("ipv6/conf/default/disable_ipv6", "1")


def veth() -> None:
    """Two ends in one namespace; packets come from an address that is nobody's."""
    ip("link", "add", "v0", "address", SOURCE_MAC, "type", "veth", "peer", "name", "v1")
    ip("link", "set", "v1", "address", MAC)
    ip("address", "add", "198.18.0.2/24", "dev", "v1")
    ip("address", "add", "2001:db8::2/64", "dev", "v1", "nodad")
    for name in ("all", "v1"):
        sysctl(f"ipv4/conf/{name}/rp_filter", "0")
    for name in ("v0", "v1"):
        ip("link", "set", name, "up")


def tap() -> int:
    """Return a tap whose other end is open, and read by nobody yet."""
    quiet()
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"tap9", IFF_TAP | IFF_NO_PI))
    ip("link", "set", "tap9", "txqueuelen", str(QUEUE), "up")
    return end


def read_all(end: int) -> list[bytes]:
    """Return the frames that wait at a tap."""
    frames = []
    while True:
        try:
            frames.append(os.read(end, 65536))
        except BlockingIOError:
            return frames


def call(binary: str, device: str, *options: str) -> list[str]:
    """Return the command that sends from a device."""
    return [binary, "send", "--device", device, "--mac", MAC, *options]


def send(binary: str, device: str, *options: str) -> dict[str, Any]:
    """Send to the end, and return the report."""
    done = subprocess.run(
        call(binary, device, *options), stdout=subprocess.PIPE, timeout=SECONDS, check=True
    )
    return checked(json.loads(done.stdout))


def checked(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report of which the sums agree."""
    assert report["attempted"] == report["sent"] + report["unsent"], report
    assert sum(report["errors"].values()) == report["unsent"], report
    return report


def receive(
    binary: str, bind: str, action: Callable[[int], dict[str, Any]], **more: str
) -> list[dict[str, Any]]:
    """Return what `action` returns, and the report of a receiver that ran meanwhile.

    The action is given the receiver's process, `more` are options of the receiver.
    """
    named = {"bind": bind, "expect": str(COUNT), "idle": "5", "rcvbuf": str(64 << 20), **more}
    options = [
        f"--{name}={value}" if value != FLAG else f"--{name}" for name, value in named.items()
    ]
    with subprocess.Popen(
        [binary, "receive", "--same-clock", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as receiver:
        assert receiver.stdout and receiver.stderr
        assert receiver.stderr.readline() == b"ready\n"
        sent = action(receiver.pid)
        return [sent, json.loads(receiver.stdout.read())]


def arrive(binary: str) -> None:
    """All frames arrive once at a UDP socket: its kernel verifies each checksum."""
    veth()
    for bind, ends, more in (
        ("0.0.0.0:5000", FOUR, ("--frame", "64", "--batch", "32", "--rate", "50000")),
        ("[::]:5000", SIX, ("--frame", "mix:82*7,594*4,1518*1", "--batch", "8", "--queue")),
        ("0.0.0.0:5000", FOUR, ("--size", "uniform:16,1472", "--rate", "40000.5")),
    ):
        words = (*ends, *more, "--flows", "32", "--count", str(COUNT))
        sent, got = receive(binary, bind, lambda _, words=words: send(binary, "v0", *words))
        assert (sent["sent"], sent["unsent"], sent["stopped_by"]) == (COUNT, 0, "count"), sent
        assert got["distinct"] == got["received"] == COUNT, (sent, got)
        assert got["lost"] == got["duplicates"] == got["reordered"] == 0, got
        assert (got["flows"], got["bytes"]) == (32, sent["payload_bytes"]["sum"]), got
        # IPv6 asks for its neighbours now and then.
        assert 0 <= sent["device"]["tx_packets"] - COUNT < 100, sent
        assert sent["device"]["tx_dropped"] == 0 and sent["device"]["name"] == "v0", sent


def ring(binary: str) -> None:
    """Frames of a device are counted as a socket would, whomever they are for."""
    veth()
    for bind, ends, more in (
        ("0.0.0.0:5000", FOUR, ("--frame", "64", "--to-range", "11.0.0.0-99.255.255.255")),
        ("[::]:5000", SIX, ("--frame", "mix:82*7,594*4,1518*1", "--vlan", "7")),
        ("198.18.0.2:5000", FOUR, ("--size", "uniform:16,1472")),
    ):
        words = (*ends, *more, "--flows", "32", "--count", str(COUNT), "--batch", "32")
        paced = ("--rate", "50000")
        sent, got = receive(
            binary,
            bind,
            lambda _, words=(*words, *paced): send(binary, "v0", *words),
            device="v1",
            linger="0.5",
        )
        assert got["distinct"] == got["received"] == sent["sent"] == COUNT, (sent, got)
        assert got["lost"] == got["duplicates"] == got["reordered"] == got["socket"]["drops"] == 0
        assert (got["flows"], got["bytes"]) == (32, sent["payload_bytes"]["sum"]), got
        # Stamps are the kernel's, on a frame's way in.
        assert got["stamps"]["not_by_kernel"] == got["delay"]["negative"] == 0, got
        assert got["delay"]["max_ns"] < 10_000_000_000, got
    # What is for another port, or for another address, is none of them.
    words = (*FOUR[:3], "198.18.0.2:5001", "--count", "100")
    _, got = receive(
        binary,
        "0.0.0.0:5000",
        lambda _: send(binary, "v0", *words),
        device="v1",
        seconds="1",
    )
    assert (got["received"], got["stopped_by"]) == (0, "seconds"), got


def overrun(binary: str) -> None:
    """Frames that find no room are counted: with those that came they are all."""
    veth()

    def stopped(receiver: int) -> dict[str, Any]:
        os.kill(receiver, signal.SIGSTOP)
        try:
            return send(binary, "v0", *FOUR, "--count", str(COUNT), "--rate", "100000")
        finally:
            os.kill(receiver, signal.SIGCONT)

    sent, got = receive(binary, "0.0.0.0:5000", stopped, device="v1", rcvbuf="1", idle="0.5")
    assert got["socket"]["rcvbuf"] == 1 << 20, got
    assert sent["sent"] == COUNT, sent
    assert 0 < got["received"] < COUNT, got
    assert got["received"] + got["socket"]["drops"] >= COUNT, got
    # IPv6 asks for its neighbours now and then.
    assert got["received"] + got["socket"]["drops"] < COUNT + 100, got


def tagged(binary: str) -> None:
    """What is read from a tap is what was asked for, tag and all."""
    end = tap()
    first, last = "2400::", "240f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    words = ("--to-range", f"{first}-{last}", "--vlan", "7", "--source-mac", "02:00:00:00:00:aa")
    counted = ("--flows", "3", "--source-port", "2000", "--count", "100", "--batch", "7")
    sent = send(binary, "tap9", *SIX, *words, *counted, "--frame", "90")
    frames = read_all(end)
    assert (sent["sent"], len(frames)) == (100, 100), sent
    # The checksum behind a frame is no part of what a tap hands over.
    assert {len(frame) for frame in frames} == {90 + 4 - 4}
    assert sent["frame_overhead"] == 66 + 4
    destinations = set()
    for number, frame in enumerate(frames):
        assert frame[:12].hex(":", 1) == f"{MAC}:02:00:00:00:00:aa"
        assert frame[12:18] == bytes.fromhex("8100 0007 86dd")
        assert struct.unpack("!HH", frame[58:62]) == (2000 + number % 3, 5000)
        assert frame[66] == 0x5B and int.from_bytes(frame[70:76]) == number
        assert ipaddress.IPv6Address(frame[26:42]) == ipaddress.IPv6Address("2001:db8::3")
        destinations.add(ipaddress.IPv6Address(frame[42:58]))
    assert len(destinations) == 100
    for one in destinations:
        assert ipaddress.IPv6Address(first) <= one <= ipaddress.IPv6Address(last)
    # The same seed, the same destinations.
    send(binary, "tap9", *SIX, *words, *counted, "--frame", "90")
    assert {ipaddress.IPv6Address(frame[42:58]) for frame in read_all(end)} == destinations
    send(binary, "tap9", *SIX, *words, *counted, "--frame", "90", "--seed", "2")
    assert not {ipaddress.IPv6Address(frame[42:58]) for frame in read_all(end)} & destinations


def step(binary: str) -> None:
    """The rate changes at its time, and the report says with which packet."""
    tap()
    words = (*FOUR, "--rate", "1000", "--then", "2000.5", "--after", "0.1")
    sent = send(binary, "tap9", *words, "--count", "300")
    assert sent["step"] == {"at_ns": 100_000_000, "sequence": 100, "rate": 2000.5}, sent
    # 100 ms of the first rate, and 199 distances of the second.
    assert abs(sent["rate_planned"] - 299 / (0.1 + 199 / 2000.5)) < 0.01, sent
    assert send(binary, "tap9", *words, "--count", "100")["step"] is None


def full(binary: str) -> None:
    """A tap that nobody reads: each packet that it does not keep is told of once."""
    end = tap()
    for batch in ("1", "32"):
        sent = send(binary, "tap9", *FOUR, "--count", "5000", "--batch", batch)
        assert sent["sent"] == len(read_all(end)), sent
        assert QUEUE - 1 <= sent["sent"] <= QUEUE, sent
        assert set(sent["errors"]) <= {"ENOBUFS", "unnamed"}, sent
        # The tap is full in the middle of a batch, of which the kernel does not say why it ended.
        assert sent["errors"].get("unnamed", 0) == (batch == "32"), sent
        # A driver that stops its queue in time drops nothing; and it counts what was read.
        assert sent["device"]["tx_dropped"] in (0, sent["unsent"]), sent
        assert sent["device"]["tx_packets"] == 0, sent
    # Through a queue discipline the kernel takes what the device drops, and only its counters tell.
    sent = send(binary, "tap9", *FOUR, "--count", "5000", "--queue")
    assert len(read_all(end)) >= QUEUE, sent
    if sent["device"]["tx_dropped"]:
        assert sent["sent"] == 5000 == QUEUE + sent["device"]["tx_dropped"], sent
    else:
        assert sent["unsent"] > 0, sent


def queue(binary: str) -> None:
    """Frames pass the queue discipline if they shall, and by it otherwise: it counts them."""
    end = tap()
    ip("link", "set", "tap9", "down")
    subprocess.run(["tc", "qdisc", "replace", "dev", "tap9", "root", "pfifo"], check=True)
    ip("link", "set", "tap9", "up")
    for options, passed in (((), 0), (("--queue",), 100)):
        sent = send(binary, "tap9", *FOUR, "--count", "100", "--batch", "32", *options)
        call = ["tc", "-s", "-j", "qdisc", "show", "dev", "tap9"]
        [found] = json.loads(subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout)
        assert (sent["sent"], len(read_all(end)), found["packets"]) == (100, 100, passed), found


def sending(peer: str) -> None:
    """Wait until something came, at most a while."""
    deadline = time.monotonic() + 20
    ask = ["ip", "-j", "-s", "link", "show", peer]
    while time.monotonic() < deadline:
        [shown] = json.loads(subprocess.run(ask, check=True, capture_output=True).stdout)
        if shown["stats64"]["rx"]["packets"]:
            return
        time.sleep(0.02)


def meanwhile(binary: str, *commands: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Send 2 000 packets a second, and do things while that lasts."""
    quiet()
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
    for name in ("v0", "v1"):
        ip("link", "set", name, "up")
    words = call(binary, "v0", *FOUR, "--rate", "2000", "--seconds", "30", *more)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as sender:
        sending("v1")
        for command in commands:
            ip(*command.split())
            time.sleep(0.3)
        assert sender.stdout
        return checked(json.loads(sender.stdout.read()))


def down(binary: str) -> None:
    """What a device that is down refuses is counted, and what it takes later is sent."""
    sent = meanwhile(
        binary, "link set v0 down", "link set v0 up", more=("--count", "4000", "--batch", "16")
    )
    assert (sent["attempted"], sent["stopped_by"]) == (4000, "count"), sent
    assert 0 < sent["errors"].get("ENETDOWN", 0) < 4000 and sent["sent"] > 0, sent


# What the kernel says of a device that was taken away.
GONE = {"name": "v0", "tx_packets": None, "tx_dropped": None}


def gone(binary: str) -> None:
    """A device that was taken away ends the sender."""
    sent = meanwhile(binary, "link delete v0")
    assert sent["stopped_by"] == "device" and sent["sent"] > 0, sent
    assert sent["errors"]["ENXIO"] > 0, sent
    assert sent["device"] == GONE, sent


def wrong(binary: str) -> None:
    """What cannot be sent is said in one line, and nothing is."""
    quiet()
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
    ip("link", "add", "v2", "type", "veth", "peer", "name", "v3")
    for name in ("v0", "v1", "v2"):
        ip("link", "set", name, "up")
    dropped = ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw")
    base = call(binary, "v0", *FOUR, "--count", "1")

    def received(device: str, bind: str) -> list[str]:
        return [binary, "receive", "--device", device, "--bind", bind]

    for words, said in (
        (call(binary, "v9", *FOUR), "--device v9: there is no such device in this network"),
        (call(binary, "v3", *FOUR), "--device v3 is down: `ip link set v3 up`"),
        (call(binary, "v2", *FOUR), "--device v2 has no carrier"),
        (call(binary, "lo", *FOUR), "--device lo: it is no Ethernet device"),
        ([*base, "--frame", "1519"], "IP packets of at most 1500 bytes (its MTU), frames of 1518"),
        ([*base, "--segment", "--batch", "2"], "cannot be used with"),
        ([*base, "--to-range", "11.0.0.2-11.0.0.1"], "FIRST is behind LAST"),
        ([*base, "--to-range", "2400::-2401::"], "--to-range is of IPv6, --to 198.18.0.2:5000"),
        ([*base, "--vlan", "4095"], "4095"),
        ([*base, "--source-mac", "33:33:00:00:00:01"], "it is of a group"),
        ([*base, "--flows", "65000"], "--source-port 1024 leaves no room for 65000 flows"),
        ([*base, "--then", "9"], "--after <SECONDS>"),
        ([*base, "--then", "9", "--after", "1"], "a --rate and a --then above 0"),
        ([*base, "--rate", "1e6"], "expected packets a second, such as 10000 or 0.5"),
        ([binary, "send", "--device", "v0", *FOUR], "--mac <MAC>"),
        ([binary, "send", "--device", "v0", "--mac", "2:0", *FOUR], "six bytes such as 02:00"),
        (call(binary, "v0", *FOUR[:2], *SIX[2:]), "--from 198.18.0.3 is of IPv4, --to [2001"),
        ([binary, "send", "--to", "198.18.0.2:5000", "--queue"], "--device <DEVICE>"),
        ([*dropped, *base], "frames need CAP_NET_RAW"),
        ([*dropped, *received("v0", "0.0.0.0:5000")], "frames need CAP_NET_RAW"),
        (received("v3", "0.0.0.0:5000"), "--device v3 is down"),
        (received("v0", "0.0.0.0:0"), "--bind 0.0.0.0:0: a port must be given"),
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout) == (2, ""), (words, done)
        assert said in done.stderr and len(done.stderr.splitlines()) == 1, (words, done.stderr)
    # Of many sizes those that are too large are refused one by one.
    sizes = ("--frame", "alternating:64,1519", "--count", "10", "--batch", "4")
    sent = send(binary, "v0", *FOUR, *sizes)
    assert (sent["sent"], sent["unsent"]) == (5, 5), sent
    assert sent["device"]["tx_packets"] == 5, sent


def attached(device: str) -> bool:
    """Return whether a device has an XDP program."""
    ask = ["ip", "-j", "link", "show", device]
    [shown] = json.loads(subprocess.run(ask, check=True, capture_output=True).stdout)
    return bool(shown.get("xdp", {}).get("prog"))


def xdp(binary: str) -> None:
    """By AF_XDP all frames arrive as well, and what is for others goes on to the stack."""
    veth()
    tags = ("--frame", "mix:82*7,594*4,1518*1", "--vlan", "7")
    for bind, ends, more, by in (
        ("0.0.0.0:5000", FOUR, ("--frame", "64", "--to-range", "11.0.0.0-99.255.255.255"), True),
        ("[::]:5000", SIX, tags, True),
        ("[2001:db8::2]:5000", SIX, ("--frame", "1518"), False),
        ("198.18.0.2:5000", FOUR, ("--size", "uniform:16,1472"), False),
    ):
        counted = ("--flows", "32", "--count", str(COUNT), "--batch", "32", "--rate", "20000")
        words = (*ends, *more, *counted, *(["--xdp"] if by else []))

        def both(_: int, words: tuple[str, ...] = words) -> dict[str, Any]:
            assert attached("v1")
            # Another receiver on the same device, by the stack.
            few = ("--count", "100", "--rate", "1000", *FOUR[:3], "198.18.0.2:5001")
            other = receive(
                binary, "0.0.0.0:5001", lambda _: send(binary, "v0", *few), expect="100"
            )
            assert other[1]["distinct"] == 100, other
            return send(binary, "v0", *words)

        sent, got = receive(binary, bind, both, device="v1", linger="0.5", idle="10", xdp=FLAG)
        assert (sent["sent"], sent["unsent"]) == (COUNT, 0), sent
        assert got["distinct"] == got["received"] == COUNT, (sent, got)
        assert got["lost"] == got["duplicates"] == got["reordered"] == got["socket"]["drops"] == 0
        assert (got["flows"], got["bytes"]) == (32, sent["payload_bytes"]["sum"]), got
        assert got["socket"]["xdp"] == {"queues": 1}, got
        # Stamps are of the program in the driver.
        assert got["stamps"]["not_by_kernel"] == got["delay"]["negative"] == 0, got
        assert got["delay"]["max_ns"] < 10_000_000_000, got
        assert not attached("v1")


def xdp_queues(binary: str) -> None:
    """Each queue has a socket: frames come to any of them."""
    quiet()
    many = ("numtxqueues", "3", "numrxqueues", "3")
    ip("link", "add", "v0", *many, "type", "veth", "peer", "name", "v1", *many)
    for name in ("v0", "v1"):
        ip("link", "set", name, "up")
    words = (*FOUR, "--flows", "64", "--count", str(COUNT), "--batch", "32", "--rate", "20000")
    sent, got = receive(
        binary,
        "0.0.0.0:5000",
        # A queue discipline spreads flows over queues, and frames stay in theirs.
        lambda _: send(binary, "v0", *words, "--queue"),
        device="v1",
        idle="10",
        xdp=FLAG,
    )
    assert got["distinct"] == sent["sent"] == COUNT, (sent, got)
    assert got["socket"]["xdp"] == {"queues": 3}, got
    # In the order in which they came, whichever queue they came to.
    assert got["reordered"] < COUNT / 100, got
    assert got["inter_arrival"]["negative"] < COUNT / 100, got


def xdp_killed(binary: str) -> None:
    """A receiver that is killed leaves no program."""
    veth()
    words = [binary, "receive", "--device", "v1", "--xdp", "--bind", "0.0.0.0:5000"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as receiver:
        assert receiver.stderr and receiver.stderr.readline() == b"ready\n"
        assert attached("v1")
        # And nobody else has the device meanwhile.
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 2, done
        assert "another XDP program, or another socket, has the device" in done.stderr, done
        receiver.kill()
    deadline = time.monotonic() + 20
    while attached("v1") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not attached("v1")


def xdp_down(binary: str) -> None:
    """By AF_XDP, too, what a device that is down refuses is counted."""
    more = ("--count", "4000", "--batch", "16", "--xdp")
    sent = meanwhile(binary, "link set v0 down", "link set v0 up", more=more)
    assert (sent["attempted"], sent["stopped_by"]) == (4000, "count"), sent
    assert 0 < sent["errors"].get("ENETDOWN", 0) < 4000 and sent["sent"] > 0, sent


def xdp_gone(binary: str) -> None:
    """A device that was taken away ends the sender, and nothing comes of it any more."""
    sent = meanwhile(binary, "link delete v0", more=("--xdp",))
    assert sent["stopped_by"] == "device" and sent["sent"] > 0, sent
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
    for name in ("v0", "v1"):
        ip("link", "set", name, "up")
    words = [binary, "receive", "--device", "v1", "--xdp", "--bind", "0.0.0.0:5000"]
    with subprocess.Popen(
        [*words, "--seconds", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as receiver:
        assert receiver.stderr and receiver.stderr.readline() == b"ready\n"
        ip("link", "delete", "v1")
        assert receiver.stdout
        report = json.loads(receiver.stdout.read())
    assert (report["received"], report["stopped_by"]) == (0, "seconds"), report
    # While frames come, too.
    quiet()
    ip("link", "add", "v2", "type", "veth", "peer", "name", "v3")
    for name in ("v2", "v3"):
        ip("link", "set", name, "up")
    sends = call(binary, "v2", *FOUR, "--rate", "20000", "--seconds", "30")
    receives = [binary, "receive", "--device", "v3", "--xdp", "--bind", "0.0.0.0:5000"]
    with subprocess.Popen(
        [*receives, "--seconds", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as receiver:
        assert receiver.stderr and receiver.stderr.readline() == b"ready\n"
        with subprocess.Popen(sends, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL):
            sending("v3")
            time.sleep(0.5)
            ip("link", "delete", "v3")
        assert receiver.stdout
        report = json.loads(receiver.stdout.read())
    assert report["received"] > 0 and receiver.returncode == 0, report


def xdp_wrong(binary: str) -> None:
    """What AF_XDP cannot do is said in one line."""
    veth()
    dropped = ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw")
    base = call(binary, "v0", *FOUR, "--count", "1", "--xdp")
    receiver = [binary, "receive", "--device", "v1", "--xdp"]
    for words, said in (
        ([*base, "--queue"], "cannot be used with"),
        ([*dropped, *base], "it needs CAP_NET_RAW"),
        ([*receiver, "--bind", "0.0.0.0:0"], "a port must be given"),
        ([binary, "receive", "--xdp", "--bind", "0.0.0.0:5000"], "--device <DEVICE>"),
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.returncode, done.stdout) == (2, ""), (words, done)
        assert said in done.stderr and len(done.stderr.splitlines()) == 1, (words, done.stderr)
    # Of many sizes those that are too large are refused one by one, as without it.
    for more, sizes in ((), ("alternating:64,1519")), (("--vlan", "7"), "alternating:64,1800"):
        words = ("--frame", sizes, "--count", "10", "--batch", "4", "--xdp", *more)
        sent = send(binary, "v0", *FOUR, *words)
        assert (sent["sent"], sent["errors"]) == (5, {"EMSGSIZE": 5}), sent
    for name in ("v0", "v1"):
        ip("link", "set", name, "mtu", "9000")
    for words in (base, [*receiver, "--bind", "0.0.0.0:5000"]):
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 2 and "frames of its MTU, 9000, do not fit" in done.stderr, done


XDP = (xdp, xdp_queues, xdp_killed, xdp_down, xdp_gone, xdp_wrong)
ALL = (arrive, ring, overrun, tagged, step, full, queue, down, gone, wrong, *XDP)
CASES = {case.__name__: case for case in ALL}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in CASES:
        sys.exit(f"usage: frames.py SKBLAB-TRAFFIC-BINARY {'|'.join(CASES)}")
    CASES[sys.argv[2]](sys.argv[1])
    sys.stdout.write(f"ok {sys.argv[2]}\n")
