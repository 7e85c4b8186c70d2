# SPDX-License-Identifier: GPL-2.0-or-later
"""The loads of a soak: each a process that sends and receives and counts both.

A load never ends by an error: what goes wrong is counted, its sockets are made anew, and it
goes on, as a program does whose machine is short of memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.sharedctypes
import os
import random
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path

from skblab.soak.guest import netlink
from skblab.soak.guest.topology import Inside

UDP_SEGMENT, UDP_GRO, SCTP = 103, 104, 132
BATCH = 16
# How long a batch may take before its rest counts as lost.
PATIENCE = 0.3
# A load rests this many times as long as it ran: twenty of them share the guest with the stirrer.
REST = 20
# A load ends between two lines of Python: on KMSAN under emulation ten seconds were too few.
END_SECONDS = 60.0

Work = Callable[["Load"], None]
Counts = tuple[int, int, int]


class Load:
    """A load and its counters: sent, received (packets, messages, KiB of a stream) and errors.

    After a batch it rests for `longest_rest` seconds at the most.
    """

    def __init__(self, name: str, work: Work, longest_rest: float) -> None:
        self.name, self.work, self.longest_rest = name, work, longest_rest
        self._counts = multiprocessing.sharedctypes.RawArray("Q", 3)
        self._process: ForkProcess | None = None
        self.random = random.Random(name)
        self._ran = 0.0

    def counts(self) -> Counts:
        """Return sent, received and errors so far."""
        return self._counts[0], self._counts[1], self._counts[2]

    def sent(self, number: int = 1) -> None:
        """Count what was sent."""
        self._counts[0] += number

    def received(self, number: int = 1) -> None:
        """Count what was received."""
        self._counts[1] += number

    def error(self) -> None:
        """Count a call that failed."""
        self._counts[2] += 1

    def start(self) -> None:
        """Run in a process of its own until `stop`."""
        self._process = multiprocessing.get_context("fork").Process(target=self._run, daemon=True)
        self._process.start()

    def ask_to_end(self) -> None:
        """Tell the process to end."""
        assert self._process is not None
        self._process.terminate()

    def ended(self, seconds: float) -> bool:
        """End the process; tell whether it ended by itself within `seconds`."""
        assert self._process is not None
        self._process.join(seconds)
        ended = not self._process.is_alive()
        if not ended:
            self._process.kill()
        return ended

    def rest(self) -> None:
        """Leave the processors to the others for as long as is fair."""
        now = time.process_time()
        time.sleep(min(self.longest_rest, max(0.02, REST * (now - self._ran))))
        self._ran = now

    def alive(self) -> bool:
        """Tell whether the process still runs."""
        return self._process is not None and self._process.is_alive()

    def _run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Faults that are injected into tasks may hit this one.
        with contextlib.suppress(OSError):
            Path("/proc/self/make-it-fail").write_text("1")
        os.nice(5)
        while True:
            try:
                self.work(self)
            except (OSError, MemoryError):
                self.error()
                time.sleep(0.05)


def stop(loads: list[Load], seconds: float = END_SECONDS) -> list[str]:
    """End all loads; return the names of those that had not ended by themselves in `seconds`."""
    running = [load for load in loads if load.alive()]
    # All at once: twenty that still send leave the first few no time to end in.
    for load in running:
        load.ask_to_end()
    until = time.monotonic() + seconds
    return [load.name for load in running if not load.ended(max(0.0, until - time.monotonic()))]


def _socket(name: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
    with Inside(name):
        one = socket.socket(family, kind, protocol)
    one.settimeout(PATIENCE)
    return one


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def datagrams(
    sender: str,
    receiver: str,
    to: str,
    port: int,
    *,
    sizes: tuple[int, ...] = (1, 64, 512, 1400),
    segment: int = 0,
    receivers: int = 1,
) -> Work:
    """Return a load of UDP from one namespace to an address in another.

    With `segment` each send is split by GSO and gathered by GRO; with several `receivers` the
    address is a multicast group that all of them join. Now and then a reader peeks, is late,
    or closes its socket with packets in it.
    """

    def work(load: Load) -> None:
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(_socket(sender, _family(to), socket.SOCK_DGRAM))
            ins = []
            for _ in range(receivers):
                one = stack.enter_context(_socket(receiver, _family(to), socket.SOCK_DGRAM))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if segment:
                    one.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
                one.bind(("", port))
                if receivers > 1:
                    device = 0
                    with Inside(receiver):
                        device = socket.if_nametoindex("d1")
                    request = socket.inet_aton(to) + struct.pack("@4si", b"\0" * 4, device)
                    one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
                ins.append(one)
            if segment:
                out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, segment)
            for _ in range(load.random.randrange(5, 60)):
                _batch(load, out, ins, (to, port), sizes, segment)
                load.rest()

    return work


def _batch(
    load: Load,
    out: socket.socket,
    ins: list[socket.socket],
    to: tuple[str, int],
    sizes: tuple[int, ...],
    segment: int,
) -> None:
    """Send a batch and read what comes of it."""
    expected = 0
    for _ in range(BATCH):
        size = load.random.choice(sizes)
        try:
            out.sendto(b"s" * size, to)
        except OSError:
            load.error()
            continue
        parts = -(-size // segment) if segment else 1
        load.sent(parts * len(ins))
        expected += parts
    whim = load.random.random()
    if whim < 0.05:
        time.sleep(0.1)
    for ready in ins:
        left = expected
        while left > 0:
            if whim < 0.15:
                with contextlib.suppress(OSError):
                    ready.recv(10, socket.MSG_PEEK)
            try:
                size = len(ready.recv(65536))
            except TimeoutError:
                break
            except OSError:
                load.error()
                break
            parts = -(-size // segment) if segment else 1
            load.received(parts)
            left -= parts


def stream(sender: str, receiver: str, to: str, port: int, protocol: int = 0) -> Work:
    """Return a load of one connection after another, TCP or SCTP, that moves KiB."""

    def work(load: Load) -> None:
        family = _family(to)
        with contextlib.ExitStack() as stack:
            listening = stack.enter_context(_socket(receiver, family, socket.SOCK_STREAM, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((to, port))
            listening.listen(1)
            client = stack.enter_context(_socket(sender, family, socket.SOCK_STREAM, protocol))
            client.settimeout(3)
            client.connect((to, port))
            listening.settimeout(3)
            server = stack.enter_context(listening.accept()[0])
            if not protocol and load.random.random() < 0.5:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _stream(load, client, server)
            # Sometimes close with data unread: a reset, and packets freed in the queue.
            if load.random.random() < 0.3:
                with contextlib.suppress(OSError):
                    client.send(b"x" * 5000)

    return work


def _stream(load: Load, client: socket.socket, server: socket.socket) -> None:
    client.setblocking(False)
    server.setblocking(False)
    end = time.monotonic() + load.random.uniform(0.5, 4)
    idle = time.monotonic()
    gone = got = 0
    while time.monotonic() < end and time.monotonic() - idle < 2:
        with contextlib.suppress(BlockingIOError):
            for _ in range(8):
                gone += client.send(b"b" * load.random.choice((100, 1000, 1 << 14)))
                load.sent(gone >> 10)
                gone &= 1023
        # SCTP gives one message a time, and there may be eight.
        wait = 0.05
        with contextlib.suppress(BlockingIOError):
            while select.select([server], [], [], wait)[0]:
                wait = 0.0
                data = server.recv(1 << 17)
                if not data:
                    return
                idle = time.monotonic()
                got += len(data)
                load.received(got >> 10)
                got &= 1023
        load.rest()


def sniffing(names: tuple[str, ...]) -> Work:
    """Return a load of packet sockets that are opened, read or not, and closed."""

    def work(load: Load) -> None:
        with contextlib.ExitStack() as stack:
            socks = []
            for name in names:
                one = stack.enter_context(
                    _socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                )
                one.setblocking(False)
                socks.append(one)
                load.sent()
            end = time.monotonic() + load.random.uniform(0.1, 2)
            read = load.random.random() < 0.6
            while time.monotonic() < end:
                if read:
                    for receiver in socks:
                        with contextlib.suppress(BlockingIOError):
                            for _ in range(50):
                                receiver.recv(2048)
                                load.received()
                load.rest()

    return work


def messages(names: tuple[str, ...]) -> Work:
    """Return a load of random netlink messages about the NAPIs of one namespace after the other."""

    def work(load: Load) -> None:
        with Inside(load.random.choice(names)):
            sock = netlink.connected()
        with sock:
            sock.settimeout(10 * PATIENCE)
            family = netlink.family(sock)
            known = netlink.napis(sock, family)
            # The kernel answers within the call that sends.
            sock.setblocking(False)
            for number in range(load.random.randrange(20, 200)):
                message = netlink.random_message(load.random, known)
                whole = netlink.encoded(message, family, number)
                try:
                    sock.send(netlink.damaged(load.random, whole))
                    load.sent()
                    load.received(netlink.drained(sock))
                except OSError:
                    load.error()
                if number % BATCH == 0:
                    load.rest()

    return work


def all_loads(longest_rest: float) -> list[Load]:
    """Return every load of the soak, by its kind."""
    works: dict[str, Work] = {
        "udp4": datagrams("sa", "sb", "10.0.1.2", 5001),
        "udp6": datagrams("sa", "sb", "fd00:1::2", 5002),
        "forward4": datagrams("sa", "sb", "10.0.3.2", 5003),
        "forward6": datagrams("sa", "sb", "fd00:3::2", 5004),
        "loopback": datagrams("sa", "sa", "127.0.0.1", 5005),
        "multicast": datagrams("sa", "sb", "239.1.2.3", 5006, receivers=3),
        "fragments4": datagrams("sa", "sb", "10.0.1.2", 5007, sizes=(3000, 9000)),
        "fragments6": datagrams("sa", "sb", "fd00:3::2", 5008, sizes=(3000, 9000)),
        "segments": datagrams("sa", "sb", "10.0.1.2", 5009, sizes=(6000,), segment=1000),
        "vlan": datagrams("sa", "sb", "10.0.4.2", 5010),
        "vxlan": datagrams("sa", "sb", "10.0.5.2", 5011),
        "gre": datagrams("sa", "sb", "10.0.6.2", 5012),
        "ipip": datagrams("sa", "sb", "10.0.8.2", 5013),
        "bridge": datagrams("sa", "sb", "10.0.7.2", 5014),
        "tcp4": stream("sa", "sb", "10.0.1.2", 6001),
        "tcp6": stream("sa", "sb", "fd00:1::2", 6002),
        "tcp forward": stream("sa", "sb", "10.0.3.2", 6003),
        "tcp vxlan": stream("sa", "sb", "10.0.5.2", 6004),
        "sctp4": stream("sa", "sb", "10.0.1.2", 6005, SCTP),
        "sctp6": stream("sa", "sb", "fd00:3::2", 6006, SCTP),
        "packet sockets": sniffing(("sa", "sr", "sb")),
        "netlink": messages(("sa", "sr", "sc", "sb")),
    }
    return [Load(name, work, longest_rest) for name, work in works.items()]
