# SPDX-License-Identifier: GPL-2.0-or-later
"""The namespaces and devices of a soak, made and removed in the guest.

sa:d0 ───────────── sb:d1    direct, with a VLAN, VXLAN, GRE and IPIP on it
sa:r0 ─ q0:sr:q1 ── sb:r1    by a router
sa:p0 ─ c0:sc:c1 ── sb:p1    by a bridge
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from types import TracebackType

NAMESPACES = ("sa", "sr", "sc", "sb")
# Which namespace a device that is stirred lives in
HOME = {"d0": "sa", "d1": "sb", "r0": "sa", "r1": "sb", "q0": "sr", "q1": "sr"}
HOME |= {"p0": "sa", "p1": "sb"}

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Inside:
    """Do something in another network namespace; sockets made there stay there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            self._enter(there)
        finally:
            os.close(there)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._enter(self.home)
        os.close(self.home)

    def _enter(self, there: int) -> None:
        if _libc.setns(there, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {self.name}")


def run(*argv: str, text: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command; RuntimeError with its words if it fails and `check`."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)} {text}: {done.stderr.strip()}")
    return done


def ip(lines: str, name: str | None = None, check: bool = True) -> None:
    """Run lines of ip in a namespace."""
    run("ip", *(["-netns", name] if name else []), "-force", "-batch", "-", text=lines, check=check)


def pair(a: str, ns_a: str, b: str, ns_b: str) -> None:
    """Join two namespaces by devices with two queues each."""
    ip(
        f"link add {a} netns {ns_a} numtxqueues 2 numrxqueues 2 type veth "
        f"peer name {b} netns {ns_b} numtxqueues 2 numrxqueues 2\n"
    )
    ip(f"link set {a} up\n", ns_a)
    ip(f"link set {b} up\n", ns_b)


def address(name: str, device: str, net: int, host: int) -> None:
    """Give a device its IPv4 and IPv6 addresses of a net."""
    ip(
        f"address add 10.0.{net}.{host}/24 dev {device}\n"
        f"address add fd00:{net}::{host}/64 dev {device} nodad\n",
        name,
    )


def make() -> None:
    """Make all of it."""
    for name in NAMESPACES:
        run("ip", "netns", "add", name)
        ip("link set lo up\n", name)
        with Inside(name):
            for file, value in (
                *(("net/ipv6/conf/all/keep_addr_on_down", "1"), ("net/ipv4/ip_forward", "1")),
                *(("net/ipv6/conf/default/accept_dad", "0"), ("net/ipv6/conf/all/forwarding", "1")),
                # Errors of the tests' own making must not be held back.
                ("net/ipv4/icmp_ratelimit", "0"),
            ):
                with open(f"/proc/sys/{file}", "w") as handle:  # noqa: PTH123
                    handle.write(value)
    pair("d0", "sa", "d1", "sb")
    pair("r0", "sa", "q0", "sr")
    pair("q1", "sr", "r1", "sb")
    pair("p0", "sa", "c0", "sc")
    pair("c1", "sc", "p1", "sb")
    ip(
        "link add br0 type bridge\nlink set br0 up\n"
        "link set c0 master br0\nlink set c1 master br0\n",
        "sc",
    )
    for name, direct, host in (("sa", "d0", 1), ("sb", "d1", 2)):
        other = 3 - host
        ends = f"local 10.0.1.{host} remote 10.0.1.{other}"
        address(name, direct, 1, host)
        ip(
            f"link add link {direct} name {direct}.7 type vlan id 7\nlink set {direct}.7 up\n"
            f"link add vx7 type vxlan id 7 dstport 4789 {ends}\nlink set vx7 up\n"
            f"link add gre7 type gre {ends}\nlink set gre7 up\n"
            f"link add ipip7 type ipip {ends}\nlink set ipip7 up\n",
            name,
        )
        address(name, f"{direct}.7", 4, host)
        address(name, "vx7", 5, host)
        ip(f"address add 10.0.6.{host}/24 dev gre7\n", name)
        ip(f"address add 10.0.8.{host}/24 dev ipip7\n", name)
    address("sa", "r0", 2, 1)
    address("sr", "q0", 2, 254)
    address("sr", "q1", 3, 254)
    address("sb", "r1", 3, 2)
    ip("route add 10.0.3.0/24 via 10.0.2.254\nroute add fd00:3::/64 via fd00:2::254\n", "sa")
    ip("route add 10.0.2.0/24 via 10.0.3.254\nroute add fd00:2::/64 via fd00:3::254\n", "sb")
    address("sa", "p0", 7, 1)
    address("sb", "p1", 7, 2)
    ip("route add 224.0.0.0/4 dev d0\n", "sa")
    for device, name in HOME.items():
        # With GRO veth has NAPI instances, which threads can be made of; what a sender with TSO
        # sends does not go by them.
        run("ip", "netns", "exec", name, "ethtool", "-K", device, "gro", "on", "tso", "off")


def remove() -> None:
    """Remove all of it, whatever is left."""
    for line in run("ip", "netns", "list").stdout.splitlines():
        run("ip", "netns", "del", line.split()[0], check=False)
