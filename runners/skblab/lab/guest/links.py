# SPDX-License-Identifier: GPL-2.0-or-later
"""Links of guests: taps and what they are joined by, in a network namespace of our processes alone.

Nothing of it is in the host's own namespace, and all of it goes with the last process, however that
ends: with the one here, and with QEMU.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from skblab.lab.guest.spec import Nic
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.errors import SkblabError

READY = "links are up"
# They send nothing by themselves: no questions for groups, no addresses of their own.
SILENT = """silent=/proc/sys/net/ipv6/conf/default/disable_ipv6
[ ! -e $silent ] || echo 1 >$silent"""


def made(pairs: Sequence[tuple[Nic, Nic]], labroot: LabRoot) -> AbstractContextManager[Path]:
    """Have each pair of devices joined by a bridge, for the length of a `with` block.

    Yields the namespace, as `up` does.
    """
    return up(
        [line for number, pair in enumerate(pairs) for line in _joined(number, pair)], labroot
    )


@contextlib.contextmanager
def up(script: Sequence[str], labroot: LabRoot) -> Iterator[Path]:
    """Have what the lines of a shell script make, in a network namespace of its own.

    Yields the namespace, as a file that `nsenter --net=` takes.
    """
    text = "\n".join([SILENT, *script, f"echo '{READY}'", "exec sleep infinity"])
    # The shell's parents are in the new network namespace, too: the first of them is our child.
    argv = ["unshare", "--net", "--", *labroot.command(["sh", "-ec", text])]
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline().strip() != READY:
            said = process.stderr.read().strip().splitlines() or ["it said nothing"]
            raise SkblabError(f"the networks could not be made: {said[-1]}")
        yield Path("/proc", str(process.pid), "ns", "net")
    finally:
        process.kill()
        process.communicate()


def named(place: Path, labroot: LabRoot, name: str) -> Path:
    """Return a namespace that the script of `up` made by `ip netns add`, as such a file."""
    # The script's files are those of its own mount namespace, which its first process leads to.
    return place.parent.parent / "root" / labroot.path.relative_to("/") / "run" / "netns" / name


def tap(nic: Nic) -> str:
    """Return the line that makes a device's tap."""
    many = " multi_queue" if nic.queues > 1 else ""
    return f"ip tuntap add dev {nic.tap} mode tap{many}"


def _joined(number: int, pair: tuple[Nic, Nic]) -> Iterator[str]:
    bridge = f"link{number}"
    yield f"ip link add {bridge} type bridge mcast_snooping 0 ageing_time 0"
    for nic in pair:
        yield tap(nic)
        yield f"ip link set {nic.tap} master {bridge} up"
    yield f"ip link set {bridge} up"
