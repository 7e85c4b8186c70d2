# SPDX-License-Identifier: GPL-2.0-or-later
"""What a setting changes beside the figure that it was chosen for: one table for all knobs.

It is said wherever a setting is advised. A knob is in `EFFECTS`, or in `NONE` if nothing is known
that whoever sets it has to weigh; a test holds that each is in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from skblab.knobs.values import Value, text

UNKNOWN = "skblab does not know what else it changes."


@dataclass(frozen=True)
class Effect:
    """What values change: those that `of` is true of, or all."""

    words: str
    of: Callable[[Value], bool] = lambda _: True


def _off(value: Value) -> bool:
    return value in (False, 0, "off", "none")


def _on(value: Value) -> bool:
    return not _off(value)


def _begins(*words: str) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, str) and value.startswith(words)


def _is(*values: Value) -> Callable[[Value], bool]:
    return lambda value: any(type(one) is type(value) and one == value for one in values)


_NAPI_LATE = Effect(
    "Where few packets come, each may wait until the timer: latency grows by up to "
    "gro_flush_timeout.",
    _on,
)
_COALESCED = Effect(
    "The more is collected, the longer each packet waits before the CPU hears of it, those of "
    "local TCP connections too; the less, the more interrupts there are."
)
_ADAPTIVE = (
    Effect("The driver changes the delay by itself, so latency differs with the load.", _on),
    Effect("The delay stays as it is set, also under a load that it does not suit.", _off),
)
_REAL_TIME = Effect(
    "While packets come, nothing of lower priority runs on that CPU: other programs, and what "
    "the kernel leaves to ordinary threads, wait.",
    _begins("fifo", "rr"),
)
_RELINKED = "Most drivers take the link down for a moment."
_BUSY = Effect(
    "Each program that waits for packets in this way uses its CPU meanwhile, which costs power "
    "and takes time from others.",
    _on,
)

EFFECTS: Mapping[str, tuple[Effect, ...]] = {
    "rp_filter": (
        Effect(
            "The router forwards packets with a forged source address, unless your rules drop "
            "them: a protection goes.",
            _is(0),
        ),
        Effect("The router drops packets that come in by another way than theirs back.", _is(1)),
        Effect(
            "A forged source address passes if the router has any route to it.",
            _is(2),
        ),
    ),
    "ip_forward": (
        Effect("The machine is no router any more.", _off),
        Effect(
            "Every interface forwards, those for management too, and IPv6 router advertisements "
            "are ignored where accept_ra is 1.",
            _on,
        ),
    ),
    "netdev_budget": (
        Effect("The larger it is, the longer programs on that CPU wait for a softirq to end."),
    ),
    "netdev_budget_usecs": (
        Effect("The larger it is, the longer programs on that CPU wait for a softirq to end."),
    ),
    "dev_weight": (
        Effect("The larger it is, the longer other NAPI instances of that CPU wait for a poll."),
    ),
    "netdev_max_backlog": (
        Effect(
            "The larger it is, the longer packets wait under overload and the more memory they "
            "take; the smaller, the sooner they are dropped."
        ),
    ),
    "busy_poll": (_BUSY,),
    "busy_read": (_BUSY,),
    "rfs_entries": (
        Effect("It takes memory, and moves packets of local programs to other CPUs.", _on),
    ),
    "rfs_flows": (
        Effect("It takes memory, and moves packets of local programs to other CPUs.", _on),
    ),
    "ring_rx": (
        Effect(
            "A larger ring takes memory and cache, and packets wait longer in it under overload: "
            f"latency grows. A smaller one drops bursts. {_RELINKED}"
        ),
    ),
    "ring_tx": (
        Effect(
            "A larger ring takes memory and cache, and packets wait longer in it, behind the "
            f"qdisc that would share the link: latency grows. {_RELINKED}"
        ),
    ),
    "queues": (
        Effect(
            f"{_RELINKED} What was set for each queue (interrupts, RSS, RPS, XPS) may go back to "
            "the driver's own."
        ),
    ),
    "rx_usecs": (_COALESCED,),
    "rx_frames": (_COALESCED,),
    "tx_usecs": (
        Effect("The longer it is, the later a sent packet's memory is free, which slows senders."),
    ),
    "tx_frames": (
        Effect("The more it is, the later a sent packet's memory is free, which slows senders."),
    ),
    "adaptive_rx": _ADAPTIVE,
    "adaptive_tx": _ADAPTIVE,
    "gro": (
        Effect(
            "Local TCP receivers get each segment for itself, which costs them CPU time for each "
            "byte; so do tunnels and guests behind this device.",
            _off,
        ),
        Effect("Merged packets are cut again as they leave, which takes CPU time or TSO.", _on),
    ),
    "gso": (Effect("Local TCP senders take more CPU time for each byte.", _off),),
    "tso": (
        Effect(
            "The CPU instead of the NIC cuts what local TCP senders send and what GRO has merged.",
            _off,
        ),
    ),
    "rx_checksum": (
        Effect(
            "The CPU verifies the checksums of what is for this machine; LRO and merging by the "
            "NIC go off with it.",
            _off,
        ),
    ),
    "tx_checksum": (
        Effect(
            "The CPU fills in the checksums of what this machine sends; TSO goes off with it.",
            _off,
        ),
    ),
    "gro_list": (
        Effect("GRO looks for a local socket of each flow, which costs those of none.", _on),
    ),
    "udp_gro": (
        Effect(
            "Packets of a UDP flow leave in bursts: those that one poll has merged.",
            _on,
        ),
    ),
    "gro_hw": (Effect("Captures and rules see merged packets that nobody has sent as such.", _on),),
    "lro": (
        Effect(
            "Merged packets cannot be cut again as they were: what is forwarded is damaged. It is "
            "for machines that only receive.",
            _on,
        ),
    ),
    "rss": (
        Effect(
            "Flows move to other queues as it is set, and their packets may overtake each other "
            "then; what steers single flows to queues (ntuple) may go."
        ),
    ),
    "rss_key": (
        Effect(
            "Flows move to other queues as it is set. A key that is known lets a sender aim all "
            "its flows at one queue."
        ),
    ),
    "threaded": (
        Effect(
            "Threads take CPU time by scheduling priority, beside all programs, and not before "
            "them as softirqs do: under load packets wait for programs. They run on any CPU until "
            "they are bound.",
            _on,
        ),
    ),
    "napi_threaded": (
        Effect("A thread that polls without pause uses all of a CPU, also idle.", _is("busy-poll")),
        Effect(
            "Threads take CPU time by scheduling priority, beside all programs, and not before "
            "them as softirqs do: under load packets wait for programs.",
            _is("on"),
        ),
    ),
    "napi_cpus": (Effect("Programs on these CPUs share them with the threads."),),
    "napi_policy": (_REAL_TIME,),
    "ksoftirqd_policy": (_REAL_TIME,),
    "irq_thread_policy": (_REAL_TIME,),
    "gro_flush_timeout": (_NAPI_LATE,),
    "napi_defer_hard_irqs": (_NAPI_LATE,),
    "rps": (
        Effect(
            "The other CPUs are interrupted by it, and programs there have less time; each packet "
            "takes more instructions in all.",
            _on,
        ),
    ),
    "xps": (Effect("Packets of a flow may overtake each other when its sender changes CPU.", _on),),
    "irq_affinity": (
        Effect(
            "irqbalance has to stay off, so it no longer spreads the other interrupts either.",
            lambda value: value != "irqbalance",
        ),
        Effect("Interrupts move from time to time, and latency with them.", _is("irqbalance")),
    ),
    "qdisc": (
        Effect(
            "Nothing shares the link between flows or keeps its queue short: a bulk flow delays "
            "all others. Shaping and classes that were there go.",
            _begins("none", "noqueue", "pfifo", "bfifo"),
        ),
        Effect(
            "Shaping and classes that were there go.",
            lambda value: not _begins("none", "noqueue", "pfifo", "bfifo")(value),
        ),
    ),
    "mtu": (
        Effect(
            "Every machine on that link needs it: others drop what is larger. A larger one takes "
            "more memory for each receive buffer, a smaller one makes more packets."
        ),
    ),
    "vlan": (Effect("The switch and all machines on that link need the same VLAN.", _on),),
    "bridge": (
        Effect("Packets also go through the bridge's code and its rules, if there are any.", _on),
    ),
    "netfilter": (
        Effect(
            "Nothing is filtered, tracked or translated: NAT and rules that ask for a "
            "connection's state stop working, and the machines behind the router are open.",
            _off,
        ),
        Effect(
            "Each connection takes memory, and when the table is full new ones are dropped "
            "(nf_conntrack_max).",
            lambda value: (
                isinstance(value, str)
                and any(word in value for word in ("conntrack", "masquerade", "flowtable"))
            ),
        ),
        Effect(
            "Packets of a flow in the table pass by rules, counters and changed routes until it "
            "is taken out.",
            _begins("flowtable"),
        ),
        Effect(
            "Without connection tracking NAT and rules that ask for a connection's state do not "
            "work.",
            _begins("nft-", "iptables-forward", "iptables-input"),
        ),
    ),
    "routes": (Effect("Routes take memory.", _on),),
    "routes6": (Effect("Routes take memory.", _on),),
    "next_hops": (
        Effect("Flows take different ways, and a way that is down takes its share with it."),
    ),
    "governor": (Effect("A higher frequency takes more power and makes more heat."),),
    "smt": (Effect("Half of the CPUs go, for all that runs on this machine.", _off),),
    "idle_states": (
        Effect(
            "CPUs that may not sleep take more power and make more heat, and their neighbours "
            "reach lower frequencies."
        ),
    ),
    "workqueue_cpus": (Effect("Other work of the kernel crowds on the CPUs that are left."),),
    "kernel": (
        Effect(
            "PREEMPT_RT handles interrupts in threads: less throughput, and drivers that are not "
            "in the kernel may not build.",
            _is("rt"),
        ),
    ),
    "preempt": (Effect("The sooner the kernel lets others run, the less throughput it has."),),
    "mitigations": (
        Effect(
            "A program on this machine can read memory of others and of the kernel: a protection "
            "goes.",
            _off,
        ),
    ),
    "isolcpus": (Effect("Programs crowd on the CPUs that are left, unless bound.", _on),),
    "nohz_full": (Effect("System calls and interrupts on these CPUs take longer.", _on),),
    "rcu_nocbs": (Effect("Threads on other CPUs do that work.", _on),),
    "irqaffinity": (Effect("Interrupts crowd on the CPUs that are left.", _on),),
    "vrf": (
        Effect(
            "Programs of this machine reach what is behind these ports only if they are bound to "
            "the VRF. Each look-up of a route asks rules first, for all ports, until the next "
            "boot: also when the VRF has gone.",
            _on,
        ),
    ),
    "selinux": (Effect("No program is confined by policy: a protection goes.", _off),),
}
# Those of the laboratory alone, which nobody sets on a router.
NONE = frozenset(("load", "patches"))


def of(name: str, value: Value) -> str:
    """Return in sentences what else a setting changes; nothing if nothing is known to matter."""
    if name in NONE:
        return ""
    if name not in EFFECTS:
        return UNKNOWN
    return " ".join(effect.words for effect in EFFECTS[name] if effect.of(value))


def told(knobs: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield each of these settings that changes something else, with what that is."""
    for name, value in knobs.items():
        if words := of(name, value):
            yield f"{name}={text(value)}", words
