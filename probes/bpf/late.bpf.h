/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets that took too long, recorded whole, with what the CPU did meanwhile.
 * Nothing of this runs unless a threshold was given: the loader leaves the
 * programs here unloaded, and the verifier cuts out the rest.
 */
#ifndef SKBLAB_LATE_BPF_H
#define SKBLAB_LATE_BPF_H

#include "filter.bpf.h"
#include "late.h"

/* One for each CPU. */
struct late_state {
	struct late_counts counts;
	__u32 run[NET_PATH_KINDS]; /* late ones in a row, by path */
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

/* On all CPUs together. */
__u64 late_recorded;

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
	deed->at = bpf_ktime_get_ns();
	deed->kind = kind;
	deed->id = id;
	deed->comm[0] = 0;
	return deed;
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
	next_deed(DEED_SOFTIRQ, number);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(late_softirq_exit, unsigned int number)
{
	next_deed(DEED_SOFTIRQ_END, number);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(late_irq_handler_entry, int number)
{
	next_deed(DEED_IRQ, number);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(late_irq_handler_exit, int number)
{
	next_deed(DEED_IRQ_END, number);
	return 0;
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
	if (late_recorded < config.late_max)
		return true;
	state->counts.limited++;
	return false;
}

/* What a source knows of a path that ended, without its intervals. */
struct ending {
	__u64 total;
	__u32 before;
	__u32 reason;
	__s32 ifindex;
	__u16 seen;
	__u16 merged;
	__u8 path;
	__u8 end;
	__u8 flags;
};

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
	packet->merged = ending->merged;
	packet->path = ending->path;
	packet->end = ending->end;
	packet->flags = ending->flags;
	bpf_get_current_comm(packet->comm, sizeof(packet->comm));
	packet->backlog = 0;
	if (&softnet_data) {
		softnet = bpf_this_cpu_ptr(&softnet_data);
		packet->backlog = softnet->input_pkt_queue.qlen;
	}
	packet->next_deed = state->next_deed & (LATE_DEEDS - 1);
	bpf_probe_read_kernel(packet->deeds, sizeof(packet->deeds), state->deeds);
	read_tuple(&packet->tuple, skb);
	return 0;
}

/* To be inlined where @ns is known, whose type decides how it is read. */
static __always_inline int record_late(const struct sk_buff *skb, const __u32 *ns,
				       const struct ending *ending)
{
	struct late_state *state = get_late_state();
	struct late_packet *packet;

	if (!state || !is_late(state, ending->path, ending->total))
		return 0;
	packet = bpf_ringbuf_reserve(&late_packets, sizeof(*packet), 0);
	if (!packet) {
		state->counts.lost++;
		return 0;
	}
	__sync_fetch_and_add(&late_recorded, 1);
	state->counts.recorded++;
	fill_late(packet, skb, ending, state);
#define TIME(p) packet->ns[p] = ns[p]
	TIME(0), TIME(1), TIME(2), TIME(3), TIME(4), TIME(5), TIME(6), TIME(7);
	TIME(8), TIME(9), TIME(10), TIME(11), TIME(12), TIME(13), TIME(14), TIME(15);
#undef TIME
	bpf_ringbuf_submit(packet, 0);
	return 0;
}

#endif /* SKBLAB_LATE_BPF_H */
