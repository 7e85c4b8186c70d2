# SPDX-License-Identifier: GPL-2.0-or-later
"""Links between guests: taps and bridges in a network namespace that only our processes are in.

Nothing of it is in the host's own namespace, and all of it goes with the last process, however that
ends: with the one here, and with QEMU.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from skblab.lab.guest.spec import Nic
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.errors import SkblabError

READY = "links are up"


@contextlib.contextmanager
def made(pairs: Sequence[tuple[Nic, Nic]], labroot: LabRoot) -> Iterator[Path]:
    """Have each pair of devices joined, for the length of a `with` block.

    Yields the namespace, as a file that `nsenter --net=` takes.
    """
    script = "\n".join([*_script(pairs), f"echo '{READY}'", "exec sleep infinity"])
    # The shell's parents are in the new network namespace, too: the first of them is our child.
    argv = ["unshare", "--net", "--", *labroot.command(["sh", "-ec", script])]
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
            raise SkblabError(f"the links between the guests could not be made: {said[-1]}")
        yield Path("/proc", str(process.pid), "ns", "net")
    finally:
        process.kill()
        process.communicate()


def _script(pairs: Sequence[tuple[Nic, Nic]]) -> Iterator[str]:
    # A bridge sends nothing by itself: no questions for groups, no addresses of its own.
    silent = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
    yield f"[ ! -e {silent} ] || echo 1 >{silent}"
    for number, pair in enumerate(pairs):
        bridge = f"link{number}"
        yield f"ip link add {bridge} type bridge mcast_snooping 0 ageing_time 0"
        for nic in pair:
            many = " multi_queue" if nic.queues > 1 else ""
            yield f"ip tuntap add dev {nic.tap} mode tap{many}"
            yield f"ip link set {nic.tap} master {bridge} up"
        yield f"ip link set {bridge} up"
