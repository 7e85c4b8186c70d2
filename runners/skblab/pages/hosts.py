# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/hosts.md: the keys of a hosts file, and what is done to the hosts."""

from __future__ import annotations

from skblab.pages.keys import table
from skblab.testbeds.hostsfile import HostsFile, Labgrid, Router, Tester

FILE = "docs/reference/hosts.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/: change runners/skblab/pages/hosts.py there. -->
# The hosts file

A hosts file says which two machines a sweep uses, and how their ports are cabled. skblab takes
the ports for as long as the sweep lasts, gives them back, and never reboots your hosts.

    [router]                          # the device under test
    ssh = "root@router"               # as ssh takes it: its keys, known hosts and configuration
    in = "enp3s0f0"                   # joined to the tester's generator
    out = "enp3s0f1"                  # joined to the tester's sink

    [tester]                          # generator and sink: one machine, so that both have one clock
    ssh = "root@tester"
    generator = "enp3s0f0"
    sink = "enp3s0f1"
    loop = ["enp4s0f0", "enp4s0f1"]   # optional: two more ports, joined to each other

    [labgrid]                         # optional: these two machines are a place of labgrid's
    place = "bench1"

Save it as `lab.toml`. This prints the plan and its time; with `--scripts`, also every command
that would run on your machines:

    ./skblab sweep quick --testbed hosts --hosts lab.toml --dry-run
"""
NEEDS = """
## What the machines need

You log in to both machines as root without a password. Both have `ip`, `tc`, `ethtool`,
`nsenter`, `flock` and `sysctl`. The tester's kernel has BTF if you measure latency, and pktgen if
that is to send; else our own sender does, which is there for as long as the sweep.
skblab installs nothing. For `[measure.events]` the router needs `perf`, or the tools of Intel's
PCM that the experiment names. skblab looks for them before the run, and says what is missing.

Take ports that nothing else uses. skblab refuses a port that has an address, a route, a qdisc of
its own, or a device on top of it such as a VLAN, or that is part of a bridge: a port loses these
when it changes its namespace.

## What skblab does to them

**Ports.** skblab moves the ports into network namespaces. Addresses, routes, sysctls and rules of
the testbed are in there: the machine's own are neither in the way nor in danger. A shell on each
machine has the ports. It gives them back when the sweep ends, also when that is killed or the
connection breaks, by the names that they had, up or down as they were. Their entries in
`net.ipv4` and `net.ipv6` (`conf` and `neigh`) are written back. If the shell itself was killed,
the next one there gives the ports back, or `skblab cleanup`.

**Settings.** The sweep puts back settings of a card, of interrupts and of the whole machine. If
it is killed, `skblab cleanup` does it, or the next sweep on the same router: skblab writes what
undoes a setting to its cache before it makes the setting. After a reboot of the router there is
nothing to undo. `skblab cleanup --forget ROUTER` is for a router that cannot be reached any more.

**Boot settings.** skblab never reboots your hosts: it only checks boot settings, such as isolated
CPUs or another kernel. A setting that wants something else is skipped, and the report says so.

**Before the first trial** skblab asks the router what it is. `run.json` has it: kernel,
processor, microcode, governor, mitigations, NUMA nodes, and of each port driver, firmware, rings,
queues, offloads, coalescing and RSS. A hundred packets tell whether the cables are where the file
has them. A run that you resume has to find the same kernels and processors.

**A broken connection.** skblab waits ten minutes for it and does the trial again. Only one sweep
at a time has a machine; skblab tells the other one who has it.

**A labgrid place.** With `[labgrid]`, `sweep`, `resume`, `tune`, `doctor --hosts` and `cleanup`
wait until the place is free, lock it, and release it when they end, also after Ctrl-C, an error
or SIGKILL. If somebody else releases the lock, no further trial begins:
[book machines with labgrid](../howto/book-machines-with-labgrid.md).
"""


def page() -> str:
    """Return the page."""
    parts = [
        HEAD,
        "\n## Keys\n\nBefore the tables:\n\n",
        table(HostsFile, without=("router", "tester", "labgrid")),
        f"\n`[router]`, the device under test:\n\n{table(Router)}",
        f"\n`[tester]`, generator and sink:\n\n{table(Tester)}",
        f"\n`[labgrid]`, the place that both are, if others use them, too:\n\n{table(Labgrid)}",
        NEEDS,
    ]
    return "".join(parts)
