# SPDX-License-Identifier: GPL-2.0-or-later
"""The stirrer of a soak: does one step of the plan after the other, and counts how each ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from skblab.soak.guest import topology
from skblab.soak.guest.topology import HOME, Inside, ip, run

TRACEFS = Path("/sys/kernel/tracing")
PATH_TRACE = Path("/proc/sys/net/core/path_trace")
NET_PATH = Path("/sys/kernel/debug/net_path")
HISTOGRAMS = NET_PATH / "histograms"
RESET = NET_PATH / "reset"
NAPI_HISTOGRAMS = NET_PATH / "napi"
NETNS = NET_PATH / "netns"
LIMITS = (NET_PATH / "late_age_ns", NET_PATH / "late_interval_ns")
CPU = Path("/sys/devices/system/cpu/cpu1/online")
# There is room for one text among the keys.
TRIGGER = "hist:keys=point,ifindex"
# Of the socket layer; the module socket does not have it.
SO_NETNS_COOKIE = 71
# Cookies are counted from 1.
NOBODY = (1 << 64) - 1


class Refused(Exception):
    """The kernel said no, as it may."""


class Absent(Exception):
    """This kernel does not have what the step is about."""


def _told(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what a library returns
    """Return what a call by netlink returns; Refused if the kernel, or who reads it, says no.

    A slow guest may lose a part of a dump: "No buffer space available".
    """
    try:
        return call()
    except Exception as error:
        # The library's own exception, which cannot be named before it is imported.
        raise Refused(f"{type(error).__name__} {error}") from error


class Stirrer:
    """Does steps. `done`, `refused` and `absent` count by action."""

    def __init__(self, kernel_tree: Path) -> None:
        self.done: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.absent: dict[str, int] = {}
        self.examples: dict[str, str] = {}
        self._instance = TRACEFS / "instances" / "soak"
        self._instance.mkdir()
        (self._instance / "buffer_size_kb").write_text("512")
        self._number = itertools.count()
        self._pairs: list[str] = []
        self._netlink = _netlink(kernel_tree)

    def step(self, action: str, words: tuple[str, ...]) -> None:
        """Do one step and count it; what the kernel refuses is no failure."""
        try:
            getattr(self, f"_{action}")(*words)
            counts = self.done
        except Absent:
            counts = self.absent
        except (OSError, RuntimeError, Refused) as error:
            counts = self.refused
            self.examples.setdefault(action, f"{' '.join(words)}: {error}"[:300])
        counts[action] = counts.get(action, 0) + 1

    def tried(self, action: str) -> bool:
        """Tell whether a step of this action was done before, however it ended."""
        return any(action in counts for counts in (self.done, self.refused, self.absent))

    def restore(self) -> None:
        """Put back what outlives the namespaces."""
        for file in (PATH_TRACE, NAPI_HISTOGRAMS, NETNS, *LIMITS):
            if file.exists():
                file.write_text("0")
        if CPU.exists():
            CPU.write_text("1")
        self._trigger("0")
        (self._instance / "events" / "enable").write_text("0")
        self._instance.rmdir()

    def _path_trace(self, value: str) -> None:
        _have(PATH_TRACE).write_text(value)

    def _histograms_read(self) -> None:
        _have(HISTOGRAMS).read_text()

    def _histograms_reset(self) -> None:
        _have(RESET).write_text("1")

    def _napi_histograms(self, value: str) -> None:
        _have(NAPI_HISTOGRAMS).write_text(value)

    def _event(self, name: str, value: str) -> None:
        (_have(self._instance / "events" / name) / "enable").write_text(value)

    def _trigger(self, value: str) -> None:
        folder = self._instance / "events" / "net_path" / "net_path_late"
        if not folder.exists():
            return
        have = "hist:" in (folder / "trigger").read_text()
        if value == "1" and not have:
            (folder / "trigger").write_text(TRIGGER)
        elif value == "0" and have:
            (folder / "hist").read_text()
            (folder / "trigger").write_text(f"!{TRIGGER}")

    def _late(self, limit: str, nanoseconds: str) -> None:
        _have(NET_PATH / limit).write_text(nanoseconds)

    def _netns(self, name: str) -> None:
        cookie = {"any": 0, "none": NOBODY}.get(name)
        if cookie is None:
            with Inside(name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                told = one.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
            cookie = int.from_bytes(told, sys.byteorder)
        _have(NETNS).write_text(str(cookie))

    def _threaded(self, device: str, value: str) -> None:
        self._sysfs(device, "threaded", value)

    def _sysfs(self, device: str, file: str, value: str) -> None:
        line = f"echo {value} >/sys/class/net/{device}/{file}"
        run("ip", "netns", "exec", HOME[device], "sh", "-ec", line)

    def _napi(self, device: str, kind: str, value: str) -> None:
        if self._netlink is None:
            raise Absent
        with Inside(HOME[device]):
            # The socket belongs to the namespace in which it is made.
            family = self._netlink()
            index = socket.if_nametoindex(device)
        found = _told(lambda: family.napi_get({"ifindex": index}, dump=True))
        if not found:
            raise Refused("no NAPI there")
        wanted: dict[str, Any] = {kind: int(value) if kind == "thread-nice" else value}
        if kind == "fifo":
            wanted = {"thread-sched-policy": "fifo", "thread-sched-priority": int(value)}
            if any(napi.get("threaded") == "busy-poll" for napi in found):
                raise Refused("no real-time thread that polls for ever")
        elif kind == "other":
            wanted = {"thread-sched-policy": "other"}
        elif value == "busy-poll" and any(
            napi.get("thread-sched-policy") in ("fifo", "rr") for napi in found
        ):
            raise Refused("no real-time thread that polls for ever")
        for napi in found:
            _told(partial(family.napi_set, {"id": napi["id"], **wanted}))

    def _device(self, value: str) -> None:
        """Add a pair with addresses, or remove one under traffic."""
        if value == "1" or not self._pairs:
            number = next(self._number)
            a, b = f"x{number}", f"y{number}"
            topology.pair(a, "sa", b, "sb")
            net = 100 + number % 100
            topology.address("sa", a, net, 1)
            topology.address("sb", b, net, 2)
            self._pairs.append(a)
            _shoot("sa", f"10.0.{net}.2")
            if len(self._pairs) < 4:
                return
        name = self._pairs.pop(0)
        _shoot("sa", f"10.0.{100 + int(name[1:]) % 100}.2")
        ip(f"link del {name}\n", "sa")

    def _namespace(self) -> None:
        """A namespace with a device that goes while packets are in it."""
        name = f"sx{next(self._number)}"
        run("ip", "netns", "add", name)
        try:
            number = name[2:]
            topology.pair(f"n{number}", "sa", f"m{number}", name)
            topology.address("sa", f"n{number}", 90, 1)
            topology.address(name, f"m{number}", 90, 2)
            _shoot("sa", "10.0.90.2")
        finally:
            run("ip", "netns", "del", name)

    def _cpu(self, value: str) -> None:
        _have(CPU).write_text(value)

    def _rps(self, device: str, mask: str) -> None:
        self._sysfs(device, "queues/rx-0/rps_cpus", mask)

    def _gro(self, device: str, value: str) -> None:
        run("ip", "netns", "exec", HOME[device], "ethtool", "-K", device, "gro", value)

    def _offload(self, device: str, value: str) -> None:
        words = ("tso", value, "gso", value, "tx-udp-segmentation", value)
        run("ip", "netns", "exec", HOME[device], "ethtool", "-K", device, *words)

    def _queues(self, device: str, number: str) -> None:
        words = ("rx", number, "tx", number)
        run("ip", "netns", "exec", HOME[device], "ethtool", "-L", device, *words)

    def _qdisc(self, device: str, kind: str) -> None:
        run("tc", "-netns", HOME[device], "qdisc", "replace", "dev", device, "root", *kind.split())

    def _link(self, device: str) -> None:
        ip(f"link set {device} down\n", HOME[device])
        time.sleep(0.02)
        ip(f"link set {device} up\n", HOME[device])
        if device == "d0":
            ip("route replace 224.0.0.0/4 dev d0\n", "sa")

    def _mtu(self, device: str, size: str) -> None:
        ip(f"link set {device} mtu {size}\n", HOME[device])

    def _bridge_port(self) -> None:
        ip("link set c0 nomaster\n", "sc")
        ip("link set c0 master br0\n", "sc")

    def _rules(self, what: str) -> None:
        text = "flush ruleset\n"
        if what != "none":
            rule = "limit rate over 300/second" if what == "limit" else "numgen random mod 20 == 0"
            text += f"""table inet s {{
                chain f {{
                    type filter hook forward priority 0
                    meta l4proto udp {rule} drop
                }}
                chain i {{
                    type filter hook input priority 0
                    ct state invalid drop
                }}
            }}
            """
        run("ip", "netns", "exec", "sr", "nft", "-f", "-", text=text)


def _have(path: Path) -> Path:
    if not path.exists():
        raise Absent
    return path


def _shoot(name: str, to: str) -> None:
    """Send some datagrams whose fate does not matter."""
    with Inside(name):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with one, contextlib.suppress(OSError):
        one.setblocking(False)
        for _ in range(50):
            one.sendto(b"x" * 200, (to, 9))


def _netlink(tree: Path) -> Callable[[], Any] | None:
    """Return what makes a client of the netdev family from the tree's own specification."""
    spec = tree / "Documentation" / "netlink" / "specs" / "netdev.yaml"
    if not spec.exists() or "napi-set" not in spec.read_text():
        return None
    # Linux 6.12 has the library beside its program, later ones have both in a folder.
    ynl = tree / "tools" / "net" / "ynl"
    sys.path.append(os.fspath(ynl / "pyynl" if (ynl / "pyynl").is_dir() else ynl))
    from lib import YnlFamily  # type: ignore[import-not-found]

    return lambda: YnlFamily(os.fspath(spec), schema="")
