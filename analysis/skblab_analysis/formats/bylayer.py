# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions by layer, from stacks: the layers of probes/catalogue.toml, by who called whom.

What a function executes is of the layer of the innermost function around it that begins one. So no
probe is in it. By time, as `probe layers` has it, what a function does behind its callee's return
may be of no layer or of a later one; here it is of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from skblab_analysis.formats.stacks import BETWEEN

# What is in no layer: softirq and scheduler, timers, and of a receive the generator and the reader.
AROUND = "around"
# By layer, in the order of the path, the functions that begin it: of Linux 5.10 to 7.3. Which of
# them there are, and which the compiler inlines, differs by kernel.
BEGIN: Mapping[str, tuple[str, ...]] = {
    "stack": (
        *("__napi_poll", "process_backlog", "veth_poll", "napi_gro_receive", "gro_receive_skb"),
        *("netif_rx", "__netif_rx", "netif_rx_internal", "netif_receive_skb"),
    ),
    "ip": (
        *("__netif_receive_skb", "__netif_receive_skb_one_core", "__netif_receive_skb_core"),
        *("__netif_receive_skb_list_core", "netif_receive_skb_list_internal"),
    ),
    "route": (
        *("ip_rcv", "ip_list_rcv", "ip_sublist_rcv", "ip_rcv_core", "ip_rcv_finish"),
        *("ip_rcv_finish_core", "ip_sublist_rcv_finish"),
        *("ipv6_rcv", "ipv6_list_rcv", "ip6_sublist_rcv", "ip6_rcv_core", "ip6_rcv_finish"),
        *("ip6_rcv_finish_core", "ip6_sublist_rcv_finish", "ip6_list_rcv_finish"),
    ),
    "local": ("ip_local_deliver", "ip6_input"),
    "transport": (
        *("ip_local_deliver_finish", "ip_protocol_deliver_rcu"),
        *("ip6_input_finish", "ip6_protocol_deliver_rcu"),
    ),
    "socket": (
        *("udp_rcv", "__udp4_lib_rcv", "udpv6_rcv", "__udp6_lib_rcv"),
        *("tcp_v4_rcv", "tcp_v6_rcv", "sctp_rcv"),
    ),
    "wake": ("__udp_enqueue_schedule_skb", "sock_def_readable"),
    "user": ("udp_recvmsg", "udpv6_recvmsg", "tcp_recvmsg", "sctp_recvmsg"),
    "forward": ("ip_forward", "ip6_forward"),
    "output": (
        *("ip_forward_finish", "ip_output", "ip_finish_output", "__ip_finish_output"),
        *("ip6_forward_finish", "ip6_output", "ip6_finish_output", "__ip6_finish_output"),
    ),
    "queue": ("ip_finish_output2", "ip6_finish_output2"),
    "xmit": ("__dev_queue_xmit",),
    "done": ("dev_hard_start_xmit",),
}
_LAYER_OF = {name: layer for layer, names in BEGIN.items() for name in names}


def by_layer(stacks: Mapping[str, float]) -> dict[str, float]:
    """Return what a packet takes in each layer, in the order of the path, from that by stack."""
    found = dict.fromkeys((*BEGIN, AROUND), 0.0)
    for stack, value in stacks.items():
        layers = (_LAYER_OF.get(name) for name in reversed(stack.split(BETWEEN)))
        found[next(filter(None, layers), AROUND)] += value
    return found
