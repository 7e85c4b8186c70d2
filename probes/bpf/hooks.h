/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that hooks.bpf.c is called at, as ../catalogue.toml has them, and what
 * it counts of its own. tests/analysis/test_probe_hooks.py compares the two.
 */
#ifndef SKBLAB_HOOKS_H
#define SKBLAB_HOOKS_H

#include <linux/types.h>

#include "kernel_types.h"

/* HOOK(function, number of the argument that is the packet, point, protocol) */
#define POINT_HOOKS(HOOK)                                                                          \
	HOOK(ip_rcv_core, 0, NET_PATH_IP, 0)                                                       \
	HOOK(ip6_rcv_core, 0, NET_PATH_IP, 0)                                                      \
	HOOK(ip_local_deliver, 0, NET_PATH_ROUTE, 0)                                               \
	HOOK(ip_forward, 0, NET_PATH_ROUTE, 0)                                                     \
	HOOK(ip_mr_input, 0, NET_PATH_ROUTE, 0)                                                    \
	HOOK(ip6_input, 0, NET_PATH_ROUTE, 0)                                                      \
	HOOK(ip6_forward, 0, NET_PATH_ROUTE, 0)                                                    \
	HOOK(ip6_mc_input, 0, NET_PATH_ROUTE, 0)                                                   \
	HOOK(ip_local_deliver_finish, 2, NET_PATH_LOCAL, 0)                                        \
	HOOK(ip6_input_finish, 2, NET_PATH_LOCAL, 0)                                               \
	HOOK(udp_rcv, 0, NET_PATH_TRANSPORT, IPPROTO_UDP)                                          \
	HOOK(udpv6_rcv, 0, NET_PATH_TRANSPORT, IPPROTO_UDP)                                        \
	HOOK(tcp_v4_rcv, 0, NET_PATH_TRANSPORT, IPPROTO_TCP)                                       \
	HOOK(tcp_v6_rcv, 0, NET_PATH_TRANSPORT, IPPROTO_TCP)                                       \
	HOOK(sctp_rcv, 0, NET_PATH_TRANSPORT, IPPROTO_SCTP)                                        \
	HOOK(__udp_enqueue_schedule_skb, 1, NET_PATH_SOCKET, 0)                                    \
	HOOK(tcp_queue_rcv, 1, NET_PATH_SOCKET, 0)                                                 \
	HOOK(ip_forward_finish, 2, NET_PATH_FORWARD, 0)                                            \
	HOOK(ip6_output, 2, NET_PATH_FORWARD, 0)                                                   \
	HOOK(ip_finish_output2, 2, NET_PATH_OUTPUT, 0)                                             \
	HOOK(ip6_finish_output2, 2, NET_PATH_OUTPUT, 0)                                            \
	HOOK(__tcp_transmit_skb, 1, NET_PATH_TRANSPORT, IPPROTO_TCP)                               \
	HOOK(__dev_queue_xmit, 0, NET_PATH_QUEUE, 0)

#define DEFAULT_FLIGHTS (1 << 16)
#define MAX_NAPIS	4096
#define MAX_SEGMENTING	1024
/* A queueing discipline gives out no more than 64 packets at once, but SCTP whatever a gap held up:
 * of messages of 1000 bytes 64 were too few, seven times in some million.
 */
#define MAX_BULK 512

/* A packet under way. */
struct flight {
	__u64 first; /* ns, where the first path of all began */
	__u64 last;  /* ns, at the last point */
	__u64 skb;   /* address, where this path began */
	__u64 head;  /* sk_buff::head, the last that was known */
	__u32 before_ns;
	__u32 ns[NET_PATH_NR]; /* of those seen */
	__u16 seen;	       /* 0: it has come to its end, and is still to be freed */
	__u8 path;
	__u8 flags;
	__u8 protocol;
};

/* Those whose addresses have one hash. Whole cache lines, of which the first holds all
 * that is compared.
 */
#define FLIGHT_SET 4
struct flight_set {
	__u64 key[FLIGHT_SET]; /* sk_buff::head; 0: free */
	struct flight flight[FLIGHT_SET];
	__u64 unused[4];
};

/* The poll that a CPU is at. */
struct polling {
	__u64 napi;
	__u64 since;  /* when it was scheduled; 0: not known */
	__u64 polled; /* when it began; 0: none */
	__u64 unused[5];
};

/* On one CPU, beside what the histograms say; a multiple of 64 bytes. */
struct hook_counts {
	__u64 entered;	      /* packets at the point driver */
	__u64 began;	      /* packets at the point send */
	__u64 filtered;	      /* packets unwanted at their first point, not among these */
	__u64 filtered_late;  /* packets unwanted at their end */
	__u64 continued;      /* packets at the point driver that are on their way already */
	__u64 merged;	      /* packets that became part of another one */
	__u64 replaced;	      /* packets at whose address another one was found */
	__u64 refused;	      /* packets for which there was no room */
	__u64 sends_refused;  /* calls of sendmsg() of which the time could not be kept */
	__u64 napis_refused;  /* schedules and polls for which there was no room */
	__u64 bulk_cut;	      /* times that more came at once than are looked at */
	__u64 deferred;	      /* packets that had ended, to be freed later by another CPU */
	__u64 deferred_freed; /* of those, the frees that were seen */
	__u64 unused[3];
};

#endif /* SKBLAB_HOOKS_H */
