/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The group of a packet at the end of its path, if groups are asked for: a number of
 * which names.c knows the name. By CPU there is nothing to do, for histograms are kept
 * by CPU anyway.
 */
#ifndef SKBLAB_GROUP_BPF_H
#define SKBLAB_GROUP_BPF_H

#include "filter.bpf.h"
#include "late.h"

/* In which context each NAPI instance was polled last, by its id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} napi_contexts SEC(".maps");

extern const struct pcpu_hot pcpu_hot __ksym __weak;
extern const int __preempt_count __ksym __weak;

static __always_inline void note_context(__u32 id, __u32 context)
{
	/* The backlog has no id. */
	if (id && bpf_map_update_elem(&napi_contexts, &id, &context, BPF_ANY))
		count(contexts_refused);
}

static __always_inline __u32 context_of_thread(const struct task_struct *task, __u32 other)
{
	char comm[COMM_SIZE];

	if (!(task->flags & PF_KTHREAD) || bpf_get_current_comm(comm, sizeof(comm)))
		return other;
	if (!__builtin_memcmp(comm, "ksoftirqd/", 10))
		return NAPI_POLL_KSOFTIRQD;
	if (!__builtin_memcmp(comm, "napi/", 5))
		return NAPI_POLL_KTHREAD;
	return other;
}

/* Whose work this CPU does now. */
static __always_inline __u32 present_context(void)
{
	__u32 context = context_of_thread(bpf_get_current_task_btf(), GROUP_TASK);
	const struct pcpu_hot *hot;
	const int *preempt;
	int preempted;

	if (context != GROUP_TASK)
		return context;
	if (&pcpu_hot) {
		hot = bpf_this_cpu_ptr(&pcpu_hot);
		preempted = hot->preempt_count;
	} else if (&__preempt_count) {
		preempt = bpf_this_cpu_ptr(&__preempt_count);
		preempted = *preempt;
	} else {
		return GROUP_UNKNOWN;
	}
	return preempted & SOFTIRQ_OFFSET ? NAPI_POLL_SOFTIRQ : GROUP_TASK;
}

static __always_inline __u32 polled_context(const struct sk_buff *skb)
{
	__u32 id = 0, *context;

	if (bpf_core_field_exists(skb->napi_id))
		id = BPF_CORE_READ(skb, napi_id);
	context = bpf_map_lookup_elem(&napi_contexts, &id);
	/* Where virtual devices have no NAPI, id is 0, or what the sender's CPU left there. */
	return context ? *context : GROUP_BACKLOG;
}

static __always_inline __u32 protocol_group(const struct sk_buff *skb)
{
	struct tuple tuple;
	__u32 number;

	read_tuple(&tuple, skb);
	if (!tuple.family)
		return GROUP_NO_IP;
	number = tuple.protocol == IPPROTO_UDP	  ? GROUP_UDP
		 : tuple.protocol == IPPROTO_TCP  ? GROUP_TCP
		 : tuple.protocol == IPPROTO_SCTP ? GROUP_SCTP
						  : GROUP_OTHER;
	return tuple.family == 6 ? PROTOCOLS + number : number;
}

static __noinline __u32 group_of(const struct sk_buff *skb, __u32 path)
{
	if (config.by == BY_QUEUE)
		/* Received: 0 is none, and the others are numbered from 1. */
		return BPF_CORE_READ(skb, queue_mapping) + (path != NET_PATH_RECEIVE);
	if (config.by == BY_PROTOCOL)
		return protocol_group(skb);
	if (config.by == BY_CONTEXT)
		return path == NET_PATH_RECEIVE ? polled_context(skb) : present_context();
	return 0;
}

#endif /* SKBLAB_GROUP_BPF_H */
