// SPDX-License-Identifier: GPL-2.0
/*
 * The path of a packet on a kernel that keeps no stamps: the same points as
 * those of our kernel, found by hooks on functions, paired by a map.
 *
 * This is what a careful author would write: fentry and raw tracepoints, one
 * preallocated map keyed by the packet's address, one look-up per point, one
 * clock read per point, plain additions to histograms of this CPU. A packet is
 * forgotten wherever it is freed, for its address is soon another packet's.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../bpf/loglinear.h"

#define PACKETS (1 << 16)
#define CPUS	8

enum point {
	STACK,
	IP,
	ROUTE,
	LOCAL,
	TRANSPORT,
	SOCKET,
	WAKE,
	USER,
	FORWARD,
	OUTPUT,
	QUEUE,
	XMIT,
	DONE,
	TOTAL,
	POINTS,
};

struct packet {
	__u64 first;
	__u64 last;
	__u32 point;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PACKETS);
	__type(key, __u64);
	__type(value, struct packet);
} packets SEC(".maps");

struct hist {
	__u64 sum;
	__u64 buckets[LOGLINEAR_ROOM - 1];
};

/* A stretch for each CPU: plain memory needs no further look-up. */
struct hist hists[CPUS][POINTS] SEC(".bss.hists");

__u64 refused, forgotten, entered;

static __always_inline void place(const enum point point, __u64 delta)
{
	struct hist *hist = &hists[bpf_get_smp_processor_id() & (CPUS - 1)][point];
	__u32 value = delta > (__u32)-1 ? (__u32)-1 : delta;
	__u32 index = loglinear_index(value);

	if (index < LOGLINEAR_BUCKETS)
		hist->buckets[index]++;
	hist->sum += delta;
}

static __always_inline int stamp(const void *skb, const enum point point)
{
	__u64 key = (__u64)skb, now;
	struct packet *packet = bpf_map_lookup_elem(&packets, &key);

	if (!packet)
		return 0;
	now = bpf_ktime_get_ns();
	place(point, now - packet->last);
	packet->last = now;
	packet->point = point;
	return 0;
}

/* The driver's hand-over; for a packet that is under way already, the end of
 * its path through the router as well.
 */
SEC("fentry/__netif_rx")
int BPF_PROG(on_driver, const void *skb)
{
	__u64 key = (__u64)skb, now = bpf_ktime_get_ns();
	struct packet fresh = { .first = now, .last = now };
	struct packet *packet = bpf_map_lookup_elem(&packets, &key);

	entered++;
	if (packet) {
		place(DONE, now - packet->last);
		place(TOTAL, now - packet->first);
		*packet = fresh;
	} else if (bpf_map_update_elem(&packets, &key, &fresh, BPF_NOEXIST)) {
		refused++;
	}
	return 0;
}

#define POINT(section, function, point)                                                            \
	SEC(section) int BPF_PROG(function, const void *skb)                                       \
	{                                                                                          \
		return stamp(skb, point);                                                          \
	}

POINT("tp_btf/netif_receive_skb", on_stack, STACK)
POINT("fentry/ip_rcv_core", on_ip, IP)
POINT("fentry/ip6_rcv_core", on_ip6, IP)
/* The routing decision has been made when what it decided is called. */
POINT("fentry/ip_local_deliver", on_route_local, ROUTE)
POINT("fentry/ip6_input", on_route_local6, ROUTE)
POINT("fentry/ip_forward", on_route_forward, ROUTE)
POINT("fentry/ip6_forward", on_route_forward6, ROUTE)
POINT("fentry/udp_rcv", on_transport, TRANSPORT)
POINT("fentry/udpv6_rcv", on_transport6, TRANSPORT)
POINT("fentry/__dev_queue_xmit", on_queue, QUEUE)
POINT("fentry/dev_hard_start_xmit", on_xmit, XMIT)

/* After the hooks of netfilter. (ip6_forward_finish() is compiled without a place to hook.) */
#define POINT3(section, function, point)                                                           \
	SEC(section) int BPF_PROG(function, const void *net, const void *sk, const void *skb)      \
	{                                                                                          \
		return stamp(skb, point);                                                          \
	}

POINT3("fentry/ip_local_deliver_finish", on_local, LOCAL)
POINT3("fentry/ip6_input_finish", on_local6, LOCAL)
POINT3("fentry/ip_forward_finish", on_forward, FORWARD)
POINT3("fentry/ip6_output", on_forward6, FORWARD)
POINT3("fentry/ip_finish_output2", on_output, OUTPUT)
POINT3("fentry/ip6_finish_output2", on_output6, OUTPUT)

SEC("fentry/__udp_enqueue_schedule_skb")
int BPF_PROG(on_socket, const void *sk, const void *skb)
{
	return stamp(skb, SOCKET);
}

SEC("fexit/__skb_recv_udp")
int BPF_PROG(on_wake, const void *sk, unsigned int flags, int *off, int *err, const void *skb)
{
	return skb ? stamp(skb, WAKE) : 0;
}

/* A packet ends. The reader frees what it has read, so that needs no hook of its own. */
static __always_inline int forget(const void *skb)
{
	__u64 key = (__u64)skb, now;
	struct packet *packet = bpf_map_lookup_elem(&packets, &key);

	if (!packet)
		return 0;
	if (packet->point == WAKE || packet->point == XMIT) {
		now = bpf_ktime_get_ns();
		place(packet->point == WAKE ? USER : DONE, now - packet->last);
		place(TOTAL, now - packet->first);
	} else {
		forgotten++;
	}
	bpf_map_delete_elem(&packets, &key);
	return 0;
}

SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume, const void *skb)
{
	return forget(skb);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, const void *skb)
{
	return forget(skb);
}

SEC("fentry/kfree_skb_partial")
int BPF_PROG(on_merge, const void *skb)
{
	return forget(skb);
}

char LICENSE[] SEC("license") = "GPL";
