// SPDX-License-Identifier: GPL-2.0
/*
 * The points of all paths, found by hooks on functions and tracepoints
 * (../catalogue.toml), into histograms.
 *
 * A packet is known by the address of its data (sk_buff::head), which clones
 * share and which stays the same from one sk_buff to the next, and is forgotten
 * wherever that memory is freed, given away or exchanged, for within microseconds
 * it is another packet's. What is known lies in one preallocated map.
 *
 * Each function has two programs, of which the loader takes one: by fentry, or by
 * kprobe where the kernel cannot do that. Of NAPI polls it takes what the kernel
 * samples by itself, if it does.
 */
#include "group.bpf.h"
#include "late.bpf.h"

#include <linux/ptrace.h>

#include "flights.bpf.h"

/* When a task last called sendmsg(). */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} sends SEC(".maps");

/* When NAPI instances were scheduled for a poll to come; 0: they were not. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_NAPIS);
	__type(key, __u64);
	__type(value, __u64);
} napis SEC(".maps");

/* One for each CPU, as the histograms are. */
struct hook_counts hook_counts[1] SEC(".bss.hooks");
struct polling pollings[1] SEC(".bss.polls");

/* Packets whose memory is being exchanged. */
__u64 moving;

#define add(member, n)                                                                             \
	do {                                                                                       \
		__u32 cpu__ = bpf_get_smp_processor_id();                                          \
                                                                                                   \
		if (cpu__ < config.cpus)                                                           \
			hook_counts[cpu__].member += (n);                                          \
	} while (0)

/* The key under which a packet is kept while its memory is exchanged: no address
 * of data is odd.
 */
static __always_inline __u64 aside(__u64 skb)
{
	__u64 number = 0;

	/* The verifier calculates with no pointer; what was read is none to it. */
	bpf_probe_read_kernel(&number, sizeof(number), &skb);
	return number + 1;
}

/* A packet that has come to its end, and is still to be freed? */
static __always_inline bool is_over(const struct flight *flight)
{
	return !flight->seen;
}

/* Known under one key, from now on under another; @change of those kept aside. */
static __noinline int move(__u64 from, __u64 to, int change)
{
	struct flight *flight = find_flight(from);
	struct flight copy;

	if (!flight || is_over(flight))
		return 0;
	copy = *flight;
	copy.head = change > 0 ? from : to;
	forget(from);
	flight = find_flight(to);
	if (!flight)
		flight = add_flight(to);
	else if (!is_over(flight))
		add(replaced, 1);
	if (!flight) {
		add(refused, 1);
		return 0;
	}
	*flight = copy;
	if (change)
		__sync_fetch_and_add(&moving, change);
	return 0;
}

/* An address as a number. In newer kernels (7.2) the verifier takes what points to bytes for
 * memory that may be read, whatever is done to it, and allows no place in a table that is reckoned
 * from it; half of a pointer is none any more. What a helper has read is a number anyway.
 */
static __always_inline __u64 address_of(const void *pointer)
{
	__u64 number;

	asm volatile("r1 = %1; w2 = w1; r1 >>= 32; w1 = w1; r1 <<= 32; r1 |= r2; %0 = r1"
		     : "=r"(number)
		     : "r"(pointer)
		     : "r1", "r2");
	return number;
}

/* Also one that is over. */
static __always_inline struct flight *find_any(__u64 skb, __u64 head)
{
	/* With kprobes alone nobody saw it get its new memory, at which one that is over may be. */
	if (config.kprobes && moving)
		move(aside(skb), head, -1);
	return find_flight(head);
}

static __always_inline struct flight *find(__u64 skb, __u64 head)
{
	struct flight *flight = find_any(skb, head);

	return flight && !is_over(flight) ? flight : NULL;
}

/* A packet's first path begins, at a point and a time. @known is what was found at its
 * address.
 */
static __always_inline void take_off(struct flight *known, __u64 skb, __u64 head, __u8 path,
				     const __u32 point, __u64 at)
{
	struct flight *flight = known ?: add_flight(head);

	if (!flight) {
		add(refused, 1);
		return;
	}
	flight->first = at;
	flight->last = at;
	flight->skb = skb;
	flight->head = head;
	flight->seen = 1 << point;
	flight->path = path;
	flight->flags = 0;
	flight->protocol = 0;
}

/* Another CPU's clock may be behind: then the last point stays where it is. */
static __always_inline void advance(struct flight *flight, const __u32 point, __u64 now)
{
	__u64 delta = now - flight->last;

	if (unlikely((__s64)delta < 0)) {
		flight->flags |= NET_PATH_F_NEGATIVE;
		delta = 0;
	} else {
		flight->last = now;
	}
	if (flight->seen & 1 << point)
		delta += flight->ns[point];
	if (unlikely(delta >= (__u32)-1)) {
		flight->flags |= NET_PATH_F_OVERFLOW;
		delta = (__u32)-1;
	}
	flight->ns[point] = delta;
	flight->seen |= 1 << point;
}

static __always_inline bool is_asked_for(const __u32 point)
{
	return !config.points || config.points & 1 << point;
}

/* Only packets that this machine receives are wanted: of others it is enough to know that they are
 * none.
 */
static __always_inline bool only_received(void)
{
	return config.paths == 1 << NET_PATH_RECEIVE;
}

/* @forwards: what is called here goes to another machine. */
static __always_inline int stamp_at(__u64 skb, __u64 head, const __u32 point, const __u8 protocol,
				    const bool forwards)
{
	struct flight *flight = find(skb, head);

	if (!flight)
		return 0;
	if (forwards && only_received())
		flight->path = NET_PATH_FORWARDING;
	if (point == NET_PATH_FORWARD || point == NET_PATH_OUTPUT || point == NET_PATH_QUEUE) {
		/* IPv6 shows forwarding where what is sent passes as well. */
		if (flight->path != NET_PATH_SENDING)
			flight->path = NET_PATH_FORWARDING;
		else if (point == NET_PATH_FORWARD)
			return 0;
	}
	if (protocol)
		flight->protocol = protocol;
	if (is_asked_for(point))
		advance(flight, point, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int stamp(__u64 skb, __u64 head, const __u32 point, const __u8 protocol)
{
	return stamp_at(skb, head, point, protocol, false);
}

static __noinline int look_late(const struct flight *flight, const struct sk_buff *skb, __u8 end,
				__u32 reason)
{
	struct ending ending = {
		.reason = reason,
		.end = end,
	};

	if (!flight)
		return 0;
	ending.total = flight->last - flight->first;
	ending.before = flight->flags & NET_PATH_F_REENTERED ? flight->before_ns : 0;
	ending.ifindex = BPF_CORE_READ(skb, skb_iif);
	ending.seen = flight->seen;
	ending.path = flight->path;
	ending.flags = flight->flags;
	return record_late(skb, flight->ns, &ending);
}

static __noinline int finish(struct flight *flight, const struct sk_buff *skb, __u32 end,
			     __u32 reason, __u64 now)
{
	if (!flight)
		return 0;
	if (!is_wanted(skb, flight->path)) {
		add(filtered_late, 1);
		return 0;
	}
	if (end == NET_PATH_DELIVERED)
		advance(flight, NET_PATH_USER, now);
	else
		advance(flight, NET_PATH_DONE, now);
	if (config.late_ns)
		look_late(flight, skb, end, reason);
	return place_end(flight->ns, flight->path, end, flight->flags, flight->seen,
			 flight->last - flight->first, flight->before_ns, reason,
			 config.groups > 1 ? group_of(skb, flight->path) : 0);
}

/* Paths begin. */

/* At the point driver a packet is known already: account for the path that it was
 * on. Returns whether it is the same packet, for which what was before counts.
 */
static __noinline int leave(struct flight *flight, const struct sk_buff *skb, __u64 now)
{
	if (!flight)
		return 0;
	/* It went through another namespace, which nobody asked about. */
	if (only_received() && flight->path == NET_PATH_FORWARDING) {
		add(filtered_late, 1);
		return 0;
	}
	if (flight->seen & 1 << NET_PATH_XMIT) {
		finish(flight, skb, NET_PATH_TRANSMITTED, 0, now);
		return 1;
	}
	if (flight->skb == (__u64)skb) {
		add(continued, 1);
		return 1;
	}
	add(replaced, 1);
	return 0;
}

/* Back in the stack, on a new path. */
static __always_inline void reenter(struct flight *flight, __u64 skb, __u64 now)
{
	__u64 before = now - flight->first;

	flight->flags = NET_PATH_F_REENTERED;
	if (before >= (__u32)-1) {
		flight->flags |= NET_PATH_F_OVERFLOW;
		before = (__u32)-1;
	}
	flight->before_ns = before;
	flight->seen = 1 << NET_PATH_DRIVER;
	flight->path = NET_PATH_RECEIVE;
	flight->protocol = 0;
	flight->last = now;
	flight->skb = skb;
}

static __always_inline int enter(const struct sk_buff *skb)
{
	__u64 head = address_of(skb->head), now;
	struct flight *flight;
	bool same;

	flight = find_any((__u64)skb, head);
	now = bpf_ktime_get_ns();
	same = flight && !is_over(flight) && leave(flight, skb, now);
	if ((config.ifindex && config.ifindex != skb->dev->ifindex) ||
	    (config.netns && config.netns != skb->dev->nd_net.net->net_cookie)) {
		if (flight)
			forget(head);
		add(filtered, 1);
		return 0;
	}
	if (config.paths == 1 << NET_PATH_SENDING) {
		/* What is sent has come to its end here, if it came over a virtual device. */
		if (flight)
			forget(head);
		add(filtered, 1);
		return 0;
	}
	add(entered, 1);
	if (same)
		reenter(flight, (__u64)skb, now);
	else
		take_off(flight, (__u64)skb, head, NET_PATH_RECEIVE, NET_PATH_DRIVER, now);
	return 0;
}

#define ENTRANCE(tracepoint)                                                                       \
	SEC("tp_btf/" #tracepoint) int BPF_PROG(tracepoint, const struct sk_buff *skb)             \
	{                                                                                          \
		return enter(skb);                                                                 \
	}

ENTRANCE(napi_gro_receive_entry)
ENTRANCE(napi_gro_frags_entry)
ENTRANCE(netif_receive_skb_entry)
ENTRANCE(netif_receive_skb_list_entry)
ENTRANCE(netif_rx_entry)
ENTRANCE(netif_rx_ni_entry)

static __always_inline int start_send(void)
{
	__u64 *start = bpf_task_storage_get(&sends, bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (start)
		*start = bpf_ktime_get_ns();
	else
		add(sends_refused, 1);
	return 0;
}

static __always_inline bool is_of_netns(const struct sk_buff *skb)
{
	return !config.netns ||
	       config.netns == BPF_CORE_READ(skb, sk, __sk_common.skc_net.net, net_cookie);
}

/* The first data of a sendmsg() are in a packet. */
static __always_inline int begin(__u64 skb, __u64 head)
{
	__u64 *start = bpf_task_storage_get(&sends, bpf_get_current_task_btf(), NULL, 0);
	struct flight *flight;

	/* What is sent came in by no device. */
	if (config.ifindex || !is_of_netns((const struct sk_buff *)skb)) {
		add(filtered, 1);
		return 0;
	}
	/* Attached since, or refused above. */
	if (!start || !*start)
		return 0;
	add(began, 1);
	flight = find_any(skb, head);
	if (flight && !is_over(flight))
		add(replaced, 1);
	take_off(flight, skb, head, NET_PATH_SENDING, NET_PATH_SEND, *start);
	return 0;
}

static __always_inline int begin_udp(__u64 skb, __u64 head)
{
	begin(skb, head);
	return stamp(skb, head, NET_PATH_TRANSPORT, IPPROTO_UDP);
}

/* Points in between. */

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, const struct sk_buff *skb)
{
	return stamp((__u64)skb, address_of(skb->head), NET_PATH_STACK, 0);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit, const struct sk_buff *skb)
{
	return stamp((__u64)skb, address_of(skb->head), NET_PATH_XMIT, 0);
}

/* A packet of which TCP or SCTP takes data, which has its socket in their queues, unlike a
 * datagram. Packet sockets have clones.
 */
static __always_inline bool is_stream(const struct flight *flight, const struct sk_buff *skb)
{
	return (flight->protocol == IPPROTO_TCP && flight->skb == (__u64)skb) ||
	       flight->protocol == IPPROTO_SCTP;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(skb_copy_datagram_iovec, const struct sk_buff *skb)
{
	struct flight *flight = skb->sk ? find((__u64)skb, address_of(skb->head)) : NULL;

	if (flight && is_stream(flight, skb) && is_asked_for(NET_PATH_WAKE))
		advance(flight, NET_PATH_WAKE, bpf_ktime_get_ns());
	return 0;
}

/* Two programs for the entry of a function, to do @what with skb and head, and perhaps with its
 * first argument.
 */
#define PARM_0(ctx) PT_REGS_PARM1(ctx)
#define PARM_1(ctx) PT_REGS_PARM2(ctx)
#define PARM_2(ctx) PT_REGS_PARM3(ctx)

#define ENTRY(function, number, what)                                                              \
	SEC("fentry/" #function) int fentry_##function(__u64 *ctx)                                 \
	{                                                                                          \
		const struct sk_buff *packet = (const void *)ctx[number];                          \
		__u64 skb = (__u64)packet, head = address_of(packet->head);                        \
		__u64 __maybe_unused first = ctx[0];                                               \
                                                                                                   \
		return what;                                                                       \
	}                                                                                          \
	SEC("kprobe/" #function) int kprobe_##function(struct pt_regs *ctx)                        \
	{                                                                                          \
		const struct sk_buff *packet = (const void *)PARM_##number(ctx);                   \
		__u64 skb = (__u64)packet, head = (__u64)BPF_CORE_READ(packet, head);              \
		__u64 __maybe_unused first = PT_REGS_PARM1(ctx);                                   \
                                                                                                   \
		return what;                                                                       \
	}

#define FORWARDS(function)                                                                         \
	(!__builtin_strcmp(#function, "ip_forward") || !__builtin_strcmp(#function, "ip6_forward"))

#define POINT(function, number, point, protocol)                                                   \
	ENTRY(function, number, stamp_at(skb, head, point, protocol, FORWARDS(function)))
POINT_HOOKS(POINT)

ENTRY(udp_send_skb, 0, begin_udp(skb, head))
ENTRY(udp_v6_send_skb, 0, begin_udp(skb, head))
ENTRY(tcp_skb_entail, 1, begin(skb, head))
/* An original that TCP sends again: the clone that is on its way keeps the memory. */
static __always_inline bool is_original(__u64 skb)
{
	return BPF_CORE_READ_BITFIELD_PROBED((const struct sk_buff *)skb, fclone) ==
	       SKB_FCLONE_ORIG;
}

/* It exchanges the memory of a packet, or fails to. */
ENTRY(pskb_expand_head, 0, is_original(skb) ? 0 : move(head, aside(skb), 1))

SEC("fexit/pskb_expand_head")
int fexit_pskb_expand_head(__u64 *ctx)
{
	const struct sk_buff *skb = (const void *)ctx[0];

	return move(aside((__u64)skb), address_of(skb->head), -1);
}

#define SENDS(function)                                                                            \
	SEC("fentry/" #function) int fentry_##function(void *ctx)                                  \
	{                                                                                          \
		return start_send();                                                               \
	}                                                                                          \
	SEC("kprobe/" #function) int kprobe_##function(void *ctx)                                  \
	{                                                                                          \
		return start_send();                                                               \
	}
SENDS(udp_sendmsg)
SENDS(udpv6_sendmsg)
SENDS(tcp_sendmsg_locked)
SENDS(do_tcp_sendpages)

/* Those that want more than the packet, or another way to it. */

/* Segments of a packet are new packets, of which the first goes on for it. */
static __always_inline int segment(__u64 from, __u64 segments)
{
	/* None, or an error. */
	if (!segments || segments >= (__u64)-MAX_ERRNO)
		return 0;
	return move(from, (__u64)BPF_CORE_READ((const struct sk_buff *)segments, head), 0);
}

SEC("fexit/__skb_gso_segment")
int fexit___skb_gso_segment(__u64 *ctx)
{
	const struct sk_buff *skb = (const void *)ctx[0];

	return segment(address_of(skb->head), ctx[3]);
}

/* A return alone does not know of what: the task remembers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SEGMENTING);
	__type(key, __u64);
	__type(value, __u64);
} segmenting SEC(".maps");

static __always_inline __u64 this_context(void)
{
	/* Processes 0 are one for each CPU. */
	return bpf_get_current_pid_tgid() << 16 ^ bpf_get_smp_processor_id();
}

SEC("kprobe/__skb_gso_segment")
int kprobe___skb_gso_segment(struct pt_regs *ctx)
{
	const struct sk_buff *skb = (const void *)PT_REGS_PARM1(ctx);
	__u64 key = this_context(), head = (__u64)BPF_CORE_READ(skb, head);

	if (bpf_map_update_elem(&segmenting, &key, &head, BPF_ANY))
		add(refused, 1);
	return 0;
}

SEC("kretprobe/__skb_gso_segment")
int kretprobe___skb_gso_segment(struct pt_regs *ctx)
{
	__u64 key = this_context(), *head = bpf_map_lookup_elem(&segmenting, &key);

	if (!head)
		return 0;
	segment(*head, PT_REGS_RC(ctx));
	bpf_map_delete_elem(&segmenting, &key);
	return 0;
}

static __always_inline int woken(__u64 skb, __u64 head)
{
	return stamp(skb, head, NET_PATH_WAKE, 0);
}

SEC("fexit/__skb_recv_udp")
int fexit___skb_recv_udp(__u64 *ctx)
{
	const struct sk_buff *skb;

	/* The number of arguments, after which the result comes. Two loads, not one of a
	 * computed place, which the verifier would not have.
	 */
	if (config.recv_udp_arguments == 4) {
		skb = (const void *)ctx[4];
		barrier_var(skb);
	} else {
		skb = (const void *)ctx[5];
		barrier_var(skb);
	}
	return skb ? woken((__u64)skb, (__u64)BPF_CORE_READ(skb, head)) : 0;
}

/* A return by kprobe needs a place to be kept in from the entry on, of which there are few: where
 * as many tasks sleep in a function, further ones are not seen. So kprobes see where the queue is
 * looked at, which is locked meanwhile. Other sockets have clones in theirs.
 */
static __always_inline bool is_udp(const struct sock *sk)
{
	__u16 protocol = BPF_CORE_READ(sk, sk_protocol);

	return BPF_CORE_READ(sk, sk_type) == SOCK_DGRAM &&
	       (protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE);
}

SEC("kprobe/__skb_try_recv_from_queue")
int kprobe___skb_try_recv_from_queue(struct pt_regs *ctx)
{
	const struct sk_buff_head *queue = (const void *)PT_REGS_PARM2(ctx);
	const struct sk_buff *skb = BPF_CORE_READ(queue, next);

	if ((const void *)skb == queue || !is_udp((const void *)PT_REGS_PARM1(ctx)))
		return 0;
	return woken((__u64)skb, (__u64)BPF_CORE_READ(skb, head));
}

/* A segment that came before others goes into the queue of those, which TCP has no function for
 * that every compiler keeps; but in it the segment's memory is looked over. So is it on the way
 * to the backlog, where a segment still has its route.
 */
static __always_inline int out_of_order(__u64 skb, __u64 head)
{
	struct flight *flight;

	if (BPF_CORE_READ((const struct sk_buff *)skb, _skb_refdst))
		return 0;
	flight = find(skb, head);
	if (flight && flight->protocol == IPPROTO_TCP && is_asked_for(NET_PATH_SOCKET))
		advance(flight, NET_PATH_SOCKET, bpf_ktime_get_ns());
	return 0;
}

ENTRY(skb_condense, 0, out_of_order(skb, head))

/* The packets of a list. These two are global functions, for the verifier looks through such a one
 * once. A static one it would look through again for each of MAX_BULK packets, and get close to the
 * million of instructions at which it refuses a program.
 */
__noinline int stamp_queued(__u64 skb)
{
	__u64 head = (__u64)BPF_CORE_READ((const struct sk_buff *)skb, head);

	return stamp(skb, head, NET_PATH_SOCKET, IPPROTO_SCTP);
}

__noinline int stamp_dequeued(__u64 skb)
{
	__u64 head = (__u64)BPF_CORE_READ((const struct sk_buff *)skb, head);

	return stamp(skb, head, NET_PATH_DEQUEUE, 0);
}

/* What SCTP hands to its socket at once: whatever a gap has held up, say. */
static __always_inline int queued(const struct sk_buff_head *list)
{
	const struct sk_buff *skb = BPF_CORE_READ(list, next);

	for (int i = 0; i < MAX_BULK && (const void *)skb != list; i++) {
		stamp_queued((__u64)skb);
		skb = BPF_CORE_READ(skb, next);
	}
	if ((const void *)skb != list)
		add(bulk_cut, 1);
	return 0;
}

SEC("fentry/sctp_ulpq_tail_event")
int fentry_sctp_ulpq_tail_event(__u64 *ctx)
{
	return queued((const void *)ctx[1]);
}

SEC("kprobe/sctp_ulpq_tail_event")
int kprobe_sctp_ulpq_tail_event(struct pt_regs *ctx)
{
	return queued((const void *)PT_REGS_PARM2(ctx));
}

/* What leaves a queueing discipline at once. */
static __always_inline int dequeued(const struct sk_buff *skb)
{
	if (!skb)
		return 0;
	/* Most often there is no other, and nothing is called. */
	stamp((__u64)skb, (__u64)BPF_CORE_READ(skb, head), NET_PATH_DEQUEUE, 0);
	skb = BPF_CORE_READ(skb, next);
	for (int i = 1; i < MAX_BULK && skb; i++) {
		stamp_dequeued((__u64)skb);
		skb = BPF_CORE_READ(skb, next);
	}
	if (skb)
		add(bulk_cut, 1);
	return 0;
}

SEC("fentry/sch_direct_xmit")
int fentry_sch_direct_xmit(__u64 *ctx)
{
	return dequeued((const void *)ctx[0]);
}

SEC("kprobe/sch_direct_xmit")
int kprobe_sch_direct_xmit(struct pt_regs *ctx)
{
	return dequeued((const void *)PT_REGS_PARM1(ctx));
}

/* Paths end. */

static __always_inline int land(struct flight *flight, const struct sk_buff *skb, __u64 head,
				__u32 end, __u32 reason)
{
	finish(flight, skb, end, reason, bpf_ktime_get_ns());
	forget(head);
	return 0;
}

static __always_inline int deliver(__u64 skb, __u64 head, __u64 sk)
{
	struct flight *flight = find(skb, head);

	note_reader((const void *)skb, (const void *)sk);
	return flight ? land(flight, (const void *)skb, head, NET_PATH_DELIVERED, 0) : 0;
}

ENTRY(skb_consume_udp, 1, deliver(skb, head, first))

/* A segment may be read bit by bit. */
SEC("fexit/skb_copy_datagram_iter")
int fexit_skb_copy_datagram_iter(__u64 *ctx)
{
	const struct sk_buff *skb = (const void *)ctx[0];
	int offset = ctx[1], size = ctx[3], ret = ctx[4];
	__u64 head = address_of(skb->head);
	struct flight *flight;

	if (!skb->sk || ret || (__u32)(offset + size) < skb->len)
		return 0;
	flight = find((__u64)skb, head);
	if (!flight || !is_stream(flight, skb))
		return 0;
	return land(flight, skb, head, NET_PATH_DELIVERED, 0);
}

/* Whether freeing @skb ends the packet, and not only one of several views of it.
 * The clone that TCP sends is the packet: the original waits to be acknowledged.
 */
static __always_inline bool is_packet(const struct sk_buff *skb, __u64 head)
{
	__u32 references = 0;

	if (!BPF_CORE_READ_BITFIELD_PROBED(skb, cloned) ||
	    BPF_CORE_READ_BITFIELD_PROBED(skb, fclone) == SKB_FCLONE_CLONE)
		return true;
	bpf_probe_read_kernel(&references, sizeof(references),
			      (const void *)head + BPF_CORE_READ(skb, end) +
				      bpf_core_field_offset(struct skb_shared_info, dataref));
	return (references & SKB_DATAREF_MASK) <= 1;
}

/* The memory is freed, unless a clone needs it. */
static __always_inline int release(__u64 skb, __u64 head)
{
	__u32 end = NET_PATH_CONSUMED;
	struct flight *flight;

	/* By whoever exchanges the memory of a packet, which lives on. */
	if (config.kprobes && moving) {
		flight = find_flight(aside(skb));
		if (flight && flight->head == head)
			return 0;
	}
	flight = find_any(skb, head);
	if (!flight)
		return 0;
	if (is_over(flight)) {
		if (flight->skb == skb) {
			add(deferred_freed, 1);
			forget(head);
		}
		return 0;
	}
	if (!is_packet((const void *)skb, head))
		return 0;
	if (flight->seen & 1 << NET_PATH_XMIT)
		end = NET_PATH_TRANSMITTED;
	else if (config.kprobes && flight->seen & 1 << NET_PATH_WAKE)
		end = NET_PATH_DELIVERED;
	if (config.kprobes && flight->seen == 1 << NET_PATH_DRIVER) {
		/* It came no further than its driver: GRO took it in, which only fexit sees. */
		add(merged, 1);
		forget(head);
		return 0;
	}
	return land(flight, (const void *)skb, head, end, 0);
}

ENTRY(skb_release_data, 0, release(skb, head))

/* TCP has read it, and leaves it to the CPU that it came from to free it, together with
 * others in a softirq. If that interrupts this very program (or, by kprobe, any), no free
 * of them is seen, which is no loss: this is their end. What is over is only kept to
 * know how many were not seen.
 */
static __always_inline int defer(__u64 skb, __u64 head)
{
	struct flight *flight;

	release(skb, head);
	flight = find_flight(head) ? NULL : add_in_set(head);
	if (!flight)
		return 0;
	flight->seen = 0;
	flight->skb = skb;
	add(deferred, 1);
	return 0;
}

ENTRY(skb_attempt_defer_free, 0, defer(skb, head))

SEC("tp_btf/kfree_skb")
int kfree_skb(__u64 *ctx)
{
	const struct sk_buff *skb = (const void *)ctx[0];
	__u64 head = address_of(skb->head);
	struct flight *flight = find((__u64)skb, head);
	__u32 reason = 0;

	if (!flight || !is_packet(skb, head))
		return 0;
	/* SCTP frees what was read like this, too; without fexit its copy has not been seen. */
	if (config.kprobes && flight->protocol == IPPROTO_SCTP && flight->seen & 1 << NET_PATH_WAKE)
		return land(flight, skb, head, NET_PATH_DELIVERED, 0);
	if (config.drop_reasons)
		reason = ctx[2];
	return land(flight, skb, head, NET_PATH_DROPPED, reason);
}

/* Its data belong to another packet from now on. */
static __always_inline int merge(__u64 skb, __u64 head)
{
	if (!find(skb, head))
		return 0;
	add(merged, 1);
	forget(head);
	return 0;
}

ENTRY(kfree_skb_partial, 0, merge(skb, head))

#define MERGES(function)                                                                           \
	SEC("fexit/" #function) int fexit_##function(__u64 *ctx)                                   \
	{                                                                                          \
		const struct sk_buff *skb = (const void *)ctx[1];                                  \
                                                                                                   \
		return (int)ctx[2] ? 0 : merge((__u64)skb, address_of(skb->head));                 \
	}
MERGES(skb_gro_receive)
MERGES(skb_gro_receive_list)

/* NAPI polls, as the kernel samples them. */
SEC("tp_btf/napi_poll_sample")
int BPF_PROG(on_poll_sample, const struct napi_struct *napi, const struct napi_poll_sample *sample)
{
	const struct net_device *dev = napi->dev;

	if (config.by == BY_CONTEXT)
		note_context(napi->napi_id, sample->context);
	/* The backlog has no device. */
	if (config.ifindex && (!dev || config.ifindex != dev->ifindex)) {
		count(polls_filtered);
		return 0;
	}
	return place_poll(sample->context, sample->flags, sample->delay_ns, sample->time_ns,
			  sample->work);
}

/* NAPI polls on other kernels. */

static __always_inline int schedule(__u64 napi)
{
	__u64 *scheduled = bpf_map_lookup_elem(&napis, &napi);
	__u64 now = bpf_ktime_get_ns();

	if (scheduled)
		*scheduled = now;
	else if (bpf_map_update_elem(&napis, &napi, &now, BPF_ANY))
		add(napis_refused, 1);
	return 0;
}

static __always_inline struct polling *this_polling(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return cpu < config.cpus ? &pollings[cpu] : NULL;
}

static __always_inline int poll_begins(__u64 napi, const struct net_device *dev, __u32 id)
{
	struct polling *polling = this_polling();
	__u64 *scheduled;

	if (config.by == BY_CONTEXT)
		note_context(id, context_of_thread(bpf_get_current_task_btf(), NAPI_POLL_SOFTIRQ));
	if (!polling)
		return 0;
	polling->napi = napi;
	polling->since = 0;
	/* The backlog, which has no device, is scheduled without a hook. */
	scheduled = dev ? bpf_map_lookup_elem(&napis, &napi) : NULL;
	if (scheduled) {
		/* It may be scheduled anew before this poll ends. */
		polling->since = *scheduled;
		*scheduled = 0;
	}
	polling->polled = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int poll_ends(__u64 napi, int ifindex, int work)
{
	struct polling *polling = this_polling();
	__u64 now = bpf_ktime_get_ns(), delay = 0;
	__u8 flags = 0;

	/* A busy poll begins without a hook. */
	if (!polling || !polling->polled || polling->napi != napi)
		return 0;
	if (config.ifindex && config.ifindex != ifindex) {
		count(polls_filtered);
		return 0;
	}
	if (polling->since) {
		delay = polling->polled - polling->since;
		flags = (__s64)delay < 0 ? NAPI_SAMPLE_NEGATIVE : NAPI_SAMPLE_DELAY;
	}
	place_poll(context_of_thread(bpf_get_current_task_btf(), NAPI_POLL_SOFTIRQ), flags, delay,
		   now - polling->polled, work);
	polling->polled = 0;
	return 0;
}

#define SCHEDULES(function)                                                                        \
	SEC("fentry/" #function) int fentry_##function(__u64 *ctx)                                 \
	{                                                                                          \
		return schedule(ctx[0]);                                                           \
	}                                                                                          \
	SEC("kprobe/" #function) int kprobe_##function(struct pt_regs *ctx)                        \
	{                                                                                          \
		return schedule(PT_REGS_PARM1(ctx));                                               \
	}
SCHEDULES(__napi_schedule)
SCHEDULES(__napi_schedule_irqoff)

SEC("fentry/__napi_poll")
int fentry___napi_poll(__u64 *ctx)
{
	const struct napi_struct *napi = (const void *)ctx[0];

	return poll_begins((__u64)napi, napi->dev, napi->napi_id);
}

SEC("kprobe/__napi_poll")
int kprobe___napi_poll(struct pt_regs *ctx)
{
	const struct napi_struct *napi = (const void *)PT_REGS_PARM1(ctx);

	return poll_begins((__u64)napi, BPF_CORE_READ(napi, dev), BPF_CORE_READ(napi, napi_id));
}

/* In __napi_poll(), after the driver's function. */
SEC("tp_btf/napi_poll")
int BPF_PROG(napi_poll, const struct napi_struct *napi, int work)
{
	const struct net_device *dev = napi->dev;

	return poll_ends((__u64)napi, dev ? dev->ifindex : 0, work);
}

char LICENSE[] SEC("license") = "GPL";
