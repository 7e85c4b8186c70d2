/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets that took too long, recorded whole, with what the CPU did meanwhile.
 * Nothing of this runs unless a threshold was given: the loader leaves the
 * programs here unloaded, and the verifier cuts out the rest.
 */
#ifndef SKBLAB_LATE_BPF_H
#define SKBLAB_LATE_BPF_H

#include "group.bpf.h"
#include "late.h"
#include "wire.h"

#define UDP_HEADER 8

/* One for each CPU. */
struct late_state {
	struct late_counts counts;
	__u32 run[NET_PATH_KINDS]; /* late ones in a row, by path */
	/* Who reads a datagram, which does not know its socket. */
	const struct sk_buff *datagram;
	const struct sock *reader;
	__u64 overwritten; /* when the last deed was that is not in the ring any more */
	__u32 next_deed;
	struct deed deeds[LATE_DEEDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct late_state);
} late_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} late_packets SEC(".maps");

struct limit late_limit;

extern const struct softnet_data softnet_data __ksym __weak;

static __always_inline struct late_state *get_late_state(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&late_states, &key);
}

static __always_inline struct deed *next_deed(__u32 kind, __u32 id)
{
	struct late_state *state = get_late_state();
	struct deed *deed;

	if (!state)
		return NULL;
	deed = &state->deeds[state->next_deed++ & (LATE_DEEDS - 1)];
	state->overwritten = deed->at;
	deed->at = bpf_ktime_get_ns();
	deed->kind = kind;
	deed->id = id;
	deed->comm[0] = 0;
	return deed;
}

/* With the task that it interrupts. */
static __always_inline int note_interrupt(__u32 kind, __u32 id)
{
	struct deed *deed = next_deed(kind, id);

	if (deed)
		bpf_get_current_comm(deed->comm, sizeof(deed->comm));
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(late_sched_switch, bool preempt, const struct task_struct *prev,
	     const struct task_struct *next)
{
	struct deed *deed = next_deed(DEED_TASK, next->pid);

	if (deed)
		BPF_CORE_READ_INTO(&deed->comm, next, comm);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(late_softirq_entry, unsigned int number)
{
	return note_interrupt(DEED_SOFTIRQ, number);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(late_softirq_exit, unsigned int number)
{
	return note_interrupt(DEED_SOFTIRQ_END, number);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(late_irq_handler_entry, int number)
{
	return note_interrupt(DEED_IRQ, number);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(late_irq_handler_exit, int number)
{
	return note_interrupt(DEED_IRQ_END, number);
}

/* Whether this packet is to be recorded. */
static __always_inline bool is_late(struct late_state *state, __u8 path, __u64 total)
{
	__u32 run;

	if (path >= NET_PATH_KINDS)
		return false;
	if (total < config.late_ns) {
		state->run[path] = 0;
		return false;
	}
	state->counts.late++;
	run = ++state->run[path];
	if (run < config.late_run)
		return false;
	if (run == config.late_run)
		state->counts.runs++;
	if (limit_take(&late_limit, bpf_ktime_get_ns(), config.late_max, config.late_rate))
		return true;
	state->counts.limited++;
	return false;
}

/* What is known of a path that ended, without its intervals. */
struct ending {
	__u64 total;
	__u32 before;
	__u32 reason;
	__s32 ifindex;
	__u16 seen;
	__u8 path;
	__u8 end;
	__u8 flags;
};

static __always_inline void note_reader(const struct sk_buff *skb, const struct sock *sk)
{
	struct late_state *state = config.late_ns ? get_late_state() : NULL;

	if (!state)
		return;
	state->datagram = skb;
	state->reader = sk;
}

/* What waits in the socket of which the packet was read. */
static __always_inline void fill_socket(struct late_packet *packet, const struct sock *sk)
{
	packet->socket_packets = BPF_CORE_READ(sk, sk_receive_queue.qlen);
	packet->socket_bytes = BPF_CORE_READ(sk, sk_backlog.rmem_alloc.counter);
}

/* What waits for the device that the packet is at. */
static __always_inline void fill_qdisc(struct late_packet *packet, const struct sk_buff *skb)
{
	const struct net_device *dev = BPF_CORE_READ(skb, dev);
	const void *queue = BPF_CORE_READ(dev, _tx);
	const struct Qdisc *qdisc;

	if (!queue)
		return;
	queue += (__u64)BPF_CORE_READ(skb, queue_mapping) * bpf_core_type_size(struct netdev_queue);
	qdisc = BPF_CORE_READ((const struct netdev_queue *)queue, qdisc);
	/* Some count by CPU, where each may be negative. */
	if (qdisc && !(BPF_CORE_READ(qdisc, flags) & TCQ_F_CPUSTATS))
		packet->qdisc_packets = BPF_CORE_READ(qdisc, q.qlen);
}

static __noinline int fill_queues(struct late_packet *packet, const struct sk_buff *skb,
				  const struct ending *ending, const struct late_state *state)
{
	const struct sock *sk;

	if (!packet || !ending || !state)
		return 0;
	packet->socket_packets = -1;
	packet->socket_bytes = -1;
	packet->qdisc_packets = -1;
	/* Elsewhere these members hold something else, or what has gone. */
	if (ending->end == NET_PATH_DELIVERED) {
		sk = BPF_CORE_READ(skb, sk);
		if (!sk && state->datagram == skb)
			sk = state->reader;
		if (sk)
			fill_socket(packet, sk);
	} else if (ending->end == NET_PATH_TRANSMITTED) {
		fill_qdisc(packet, skb);
	}
	return 0;
}

/* Which packet of its sender's it is, where our generators and pktgen say so. */
static __noinline int fill_sequence(struct late_packet *packet, const struct sk_buff *skb)
{
	const void *head = BPF_CORE_READ(skb, head);
	__u32 payload = BPF_CORE_READ(skb, transport_header) + UDP_HEADER;
	struct packet sent;
	struct wire wire;

	if (!packet)
		return 0;
	packet->sequence = -1;
	/* In a fragment no header of UDP's has been found. */
	if (packet->tuple.protocol != IPPROTO_UDP || !packet->tuple.ports)
		return 0;
	/* Of data in pages nothing is read. */
	if (payload + sizeof(wire) > BPF_CORE_READ(skb, tail))
		return 0;
	if (!bpf_probe_read_kernel(&wire, sizeof(wire), head + payload) &&
	    wire_read(&wire, 0, 0, &sent))
		packet->sequence = sent.sequence;
	return 0;
}

static __noinline int fill_late(struct late_packet *packet, const struct sk_buff *skb,
				const struct ending *ending, const struct late_state *state)
{
	const struct softnet_data *softnet;
	__u64 task = bpf_get_current_pid_tgid();

	if (!packet || !ending || !state || ending->path >= NET_PATH_KINDS)
		return 0;
	packet->end_ns = bpf_ktime_get_ns();
	packet->total_ns = ending->total;
	packet->before_ns = ending->before;
	packet->reason = ending->reason;
	packet->run = state->run[ending->path];
	packet->cpu = bpf_get_smp_processor_id();
	packet->pid = task >> 32;
	packet->ifindex = ending->ifindex;
	packet->len = BPF_CORE_READ(skb, len);
	packet->seen = ending->seen;
	packet->path = ending->path;
	packet->end = ending->end;
	packet->flags = ending->flags;
	bpf_get_current_comm(packet->comm, sizeof(packet->comm));
	packet->context = present_context();
	fill_queues(packet, skb, ending, state);
	packet->backlog = 0;
	if (&softnet_data) {
		softnet = bpf_this_cpu_ptr(&softnet_data);
		packet->backlog = softnet->input_pkt_queue.qlen;
	}
	packet->next_deed = state->next_deed & (LATE_DEEDS - 1);
	bpf_probe_read_kernel(packet->deeds, sizeof(packet->deeds), state->deeds);
	packet->overwritten = state->overwritten;
	read_tuple(&packet->tuple, skb);
	fill_sequence(packet, skb);
	return 0;
}

static __always_inline int record_late(const struct sk_buff *skb, const __u32 *ns,
				       const struct ending *ending)
{
	struct late_state *state = get_late_state();
	struct late_packet *packet;

	if (!state || !is_late(state, ending->path, ending->total))
		return 0;
	packet = bpf_ringbuf_reserve(&late_packets, sizeof(*packet), 0);
	if (!packet) {
		limit_give(&late_limit);
		state->counts.lost++;
		return 0;
	}
	state->counts.recorded++;
	fill_late(packet, skb, ending, state);
	__builtin_memcpy(packet->ns, ns, sizeof(packet->ns));
	bpf_ringbuf_submit(packet, 0);
	return 0;
}

#endif /* SKBLAB_LATE_BPF_H */
