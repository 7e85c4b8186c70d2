# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference/traffic.md: the keys of a traffic file."""

from __future__ import annotations

from skblab.pages.keys import table
from skblab.traffic.flow import Flow
from skblab.traffic.plan import Machine, Setting, TrafficFile
from skblab.traffic.tcp import TcpFlow

FILE = "docs/reference/traffic.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `make schemas` from runners/skblab/: change runners/skblab/pages/traffic.py there. -->
# The traffic file

A traffic file says which flows run between which hosts, packets or TCP, and which settings of them
are compared. skblab starts receivers and senders on all hosts, repeats every setting in random
order, and reports rates, losses and times.

    name = "realtime"
    question = "Are packets sent more exactly with real-time scheduling?"

    [[flow]]
    name = "one way"
    from = "a"
    to = "b"
    rate = 1000

    [[setting]]
    name = "as it stands"

    [[setting]]
    name = "real time"
    flow = { realtime = "fifo:50", receiver_realtime = "fifo:50" }

Save it as `realtime.toml`. The first command prints what would run, the second one runs it:

    ./skblab traffic run realtime.toml --dry-run
    ./skblab traffic run realtime.toml

The hosts `a` and `b` are network namespaces of this machine here, joined by a bridge, which takes
root. `where = "guest"`, or `--on guest`, has them in a guest; a setting may then name a kernel, and
the kernel's own generator may send flows (`by = "pktgen"`). Or name machines:

    [hosts]
    a = { ssh = "user@a", address = ["192.0.2.1"] }
    b = { ssh = "user@b", address = ["192.0.2.2"] }

skblab copies its sender and receiver to each machine and removes them at the end. They need no
root there, but for `realtime` and what a machine allows to root only. The
clocks of two machines differ: skblab compares them before and after each trial, by probes from the
flow's sender to its receiver and back, by the flow's UDP port. The column `clocks` is the most that
one-way delays may be off. Where skblab cannot compare them, it reports no one-way delays.

All flows of the file run at once: two of them with `from` and `to` exchanged are one connection in
both directions. The first setting is what others are compared with.
"""
FOLLOWING = """
## What is compared

Of flows with one interval (`rate`, or `interval` with one time): the 99th percentile of how far
times between packets are from it, by the receiver's kernel stamps. Of all others: the rate at which
packets came. Each repeat has every setting once, and settings are compared repeat by repeat.

skblab does not compare a setting with the first one if it asks for another `rate`. A table shows
how far each rate is from the one that was asked for.

Of TCP connections and requests that are due at times (`rate`, `interval`): the 99th percentile of
the time from when one was due until its answer was whole, if a trial has at least 1000 answers. Of
other TCP flows: the rate.

## TCP

    [[tcp]]
    name = "download"
    from = "a"
    to = "b"
    kind = "stream"
    connections = 4

    [[setting]]
    name = "four connections"

    [[setting]]
    name = "64"
    tcp = { connections = 64 }

The client on `from` asks the server on `to`, as `./skblab traffic tcp-crr`, `tcp-rr` and
`tcp-stream` do ([what they measure](traffic-tcp.md)). `kind` is `"connections"` (a connection for
each request), `"requests"` (over connections that are kept) or `"stream"` (data). TCP and packets
may run at once: then the delays of packets are those that TCP leaves them.

A trial is invalid if nothing was completed, or if the server took fewer connections than the client
had: something else answered.

## Packets that did not come

Three columns tell where packets disappeared, each from who knows it:

| column | what it counts | a share of |
| --- | --- | --- |
| not sent | packets that the sender's own socket or device refused | packets it tried to send |
| dropped | packets that found no room in the receiver's own socket | packets sent |
| lost | packets that disappeared in between: sent − received − dropped | packets sent |

Packets that the receiver drops say nothing of the network: give the receiver more memory
(`net.core.rmem_max`), a CPU of its own (`receiver_cpu`), or real time. Where the receiver looks at
a device, it counts every frame that found no room, so `dropped` has no more than are missing.

## Packet sockets and AF_XDP

With `sockets = "packet"` both ends use Ethernet frames of their devices, around the UDP sockets of
their kernels; with `sockets = "xdp"` they use AF_XDP there. Both take root. On a device AF_XDP has
one socket, so that a host is an end of one such flow at most. The kernel cuts no batches there:
`segment` is refused. Of machines, `[hosts]` says which devices these are:

    [hosts]
    a = { ssh = "root@a", address = ["192.0.2.1"], device = "eth1", mac = "02:00:00:00:00:01" }
    b = { ssh = "root@b", address = ["192.0.2.2"], device = "eth1", mac = "02:00:00:00:00:02" }

`mac` is the Ethernet address that frames for the machine go to: its device's, or that of a router
in between.

## Flows by pktgen

With `by = "pktgen"` the kernel's generator sends, from the port of the sender's namespace. It takes
a guest whose kernel has pktgen. The receiver then looks at the frames of its own port, as no socket
waits for them. Its times are of the same kind as with our own sender.

pktgen gets `rate` as a time between packets, in whole nanoseconds; with `ratep = true` it gets the
rate itself. skblab refuses keys that pktgen has nothing for: `interval`, `batch`, `segment`,
`spin`, `realtime`, and sizes of a generator.

pktgen stamps a packet before it waits for the packet's time, so one-way delays contain that wait.
"""


def page() -> str:
    """Return the page."""
    tables = (
        ("The whole file:", TrafficFile, ("flow", "tcp", "setting", "hosts")),
        ("`[[flow]]`, packets from one host to another:", Flow, ()),
        ("`[[tcp]]`, TCP from one host to another:", TcpFlow, ()),
        ("`[[setting]]`, one for each that is compared:", Setting, ()),
        ("`[hosts]`, a table for each machine by its name:", Machine, ()),
    )
    keys = "\n".join(f"{title}\n\n{table(model, without=left)}" for title, model, left in tables)
    return f"{HEAD}\n## Keys\n\n{keys}{FOLLOWING}"
