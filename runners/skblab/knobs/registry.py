# SPDX-License-Identifier: GPL-2.0-or-later
"""Every knob by name, and what is wrong with the knobs of an experiment file."""

from __future__ import annotations

from collections.abc import Mapping

from skblab.knobs.base import ON_OFF, Between, Choice, Knob
from skblab.knobs.boot import BOOTS
from skblab.knobs.ethtool import Ethtool
from skblab.knobs.irq import IrqAffinity
from skblab.knobs.link import Mtu, Vlan
from skblab.knobs.load import Load
from skblab.knobs.napi import NAPIS
from skblab.knobs.netfilter import Netfilter
from skblab.knobs.processor import PROCESSORS
from skblab.knobs.qdisc import Qdisc
from skblab.knobs.routes import ROUTES
from skblab.knobs.rss import RSS
from skblab.knobs.sysctl import Sysctl
from skblab.knobs.sysfs import SPREADS, Sysfs

_MANY = 1 << 31

_SYSCTLS = (
    Sysctl(
        "rp_filter",
        "Reverse path filter: a route back to the source is looked up for each packet.",
        # The greater of the two counts.
        ("net/ipv4/conf/all/rp_filter", "net/ipv4/conf/{device}/rp_filter"),
        Choice((0, 1, 2)),
    ),
    Sysctl(
        "ip_forward",
        "Packets for others are forwarded.",
        ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"),
        ON_OFF,
    ),
    *(
        Sysctl(name, sentence, (f"net/core/{key or name}",), Between(least, most), everywhere=True)
        for name, key, least, most, sentence in (
            (
                *("netdev_budget", "", 1, _MANY - 1),
                "Packets that one softirq takes from all NAPI instances before it lets others run.",
            ),
            (
                *("netdev_budget_usecs", "", 1, _MANY - 1),
                "Microseconds that one softirq polls before it lets others run; two ticks of the "
                "kernel's at least (8000 at 250 Hz).",
            ),
            (
                *("dev_weight", "", 1, 65535),
                "Packets that the backlog, where RPS puts them, is polled for at a time.",
            ),
            (
                *("busy_poll", "", 0, _MANY - 1),
                "Microseconds that poll() and select() themselves look at the NIC's queue.",
            ),
            (
                *("busy_read", "", 0, _MANY - 1),
                "Microseconds that a read of a socket itself looks at the NIC's queue.",
            ),
            (
                *("rfs_entries", "rps_sock_flow_entries", 0, 1 << 29),
                "Flows that receive flow steering remembers for the whole machine; 0: it is off.",
            ),
        )
    ),
)

_RING, _CHANNELS, _COALESCING, _FEATURES = ("-g", "-G"), ("-l", "-L"), ("-c", "-C"), ("-k", "-K")
_NUMBER = Between(0, _MANY - 1)
_ETHTOOLS = (
    *(
        Ethtool(
            *(name, sentence, *_RING, {side: side}, Between(1, _MANY - 1)),
            needs="a NIC with rings",
        )
        for name, side, sentence in (
            ("ring_rx", "rx", "Descriptors in each receive ring."),
            ("ring_tx", "tx", "Descriptors in each transmit ring."),
        )
    ),
    Ethtool(
        "queues",
        "Queues of the NIC, each with an interrupt of its own; RSS spreads flows over them.",
        *_CHANNELS,
        {"combined": "combined"},
        Between(1, 4096),
        text=True,
        needs="a NIC with several queues",
    ),
    *(
        Ethtool(
            *(name, sentence, *_COALESCING, {shown: shown}, check),
            needs="a NIC whose interrupts can wait",
        )
        for name, shown, sentence, check in (
            (
                "rx_usecs",
                "rx-usecs",
                "Microseconds that the NIC waits before its interrupt.",
                _NUMBER,
            ),
            ("rx_frames", "rx-frames", "Packets after which the NIC interrupts anyway.", _NUMBER),
            ("adaptive_rx", "adaptive-rx", "The driver chooses how long the NIC waits.", ON_OFF),
            (
                "tx_usecs",
                "tx-usecs",
                "Microseconds that the NIC waits before it tells what it has sent.",
                _NUMBER,
            ),
            ("tx_frames", "tx-frames", "Sent packets after which the NIC tells anyway.", _NUMBER),
            ("adaptive_tx", "adaptive-tx", "The driver chooses how long that is.", ON_OFF),
        )
    ),
    *(
        Ethtool(name, sentence, *_FEATURES, {word: shown}, ON_OFF)
        for name, word, shown, sentence in (
            ("gro", "gro", "generic-receive-offload", "Packets of a flow are merged as they come."),
            ("gso", "gso", "generic-segmentation-offload", "The stack cuts large packets last."),
            ("tso", "tso", "tcp-segmentation-offload", "The NIC cuts large TCP packets."),
            ("rx_checksum", "rx", "rx-checksumming", "The NIC checks checksums."),
            ("tx_checksum", "tx", "tx-checksumming", "The NIC makes checksums."),
            (
                *("gro_list", "rx-gro-list", "rx-gro-list"),
                "GRO chains packets of a flow as they are, which is less work to undo.",
            ),
            (
                *("udp_gro", "rx-udp-gro-forwarding", "rx-udp-gro-forwarding"),
                "GRO merges UDP packets that are forwarded, too.",
            ),
            ("gro_hw", "rx-gro-hw", "rx-gro-hw", "The NIC itself does GRO."),
            ("lro", "lro", "large-receive-offload", "The NIC merges packets, not to be forwarded."),
        )
    ),
)

_SYSFS = (
    Sysfs(
        "threaded",
        "Each NAPI instance is polled by a kernel thread of its own instead of softirqs.",
        "threaded",
        ON_OFF,
    ),
    Sysfs(
        "gro_flush_timeout",
        "Nanoseconds after which a timer polls a NAPI instance whose interrupt is put off.",
        "gro_flush_timeout",
        Between(0, 1_000_000_000),
    ),
    Sysfs(
        "napi_defer_hard_irqs",
        "Empty polls before a NAPI instance's interrupt is enabled again.",
        "napi_defer_hard_irqs",
        Between(0, _MANY - 1),
    ),
    Sysfs(
        "rps",
        "CPUs that packets of a receive queue are handed on to.",
        "queues/rx-*/rps_cpus",
        Choice(SPREADS),
        cpus=True,
    ),
    Sysfs(
        "rfs_flows",
        "Flows of a receive queue that are handed to the CPU of their reader.",
        "queues/rx-*/rps_flow_cnt",
        Between(0, 1 << 29),
    ),
    Sysfs(
        "xps",
        "CPUs that use a transmit queue.",
        "queues/tx-*/xps_cpus",
        Choice(SPREADS),
        cpus=True,
        needs="a NIC with several queues",
    ),
)

_ALL: tuple[Knob, ...] = (
    *_SYSCTLS,
    *_ETHTOOLS,
    *RSS,
    *_SYSFS,
    *NAPIS,
    IrqAffinity(),
    Qdisc(),
    Mtu(),
    Vlan(),
    Netfilter(),
    *ROUTES,
    *PROCESSORS,
    Load(),
    *BOOTS,
)
KNOBS: Mapping[str, Knob] = {one.name: one for one in _ALL}
# With another number of queues a driver makes interrupts, NAPI instances and the RSS table anew.
REMAKING = frozenset({"queues"})
