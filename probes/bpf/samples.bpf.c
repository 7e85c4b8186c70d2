// SPDX-License-Identifier: GPL-2.0
/*
 * On a kernel that measures by itself: its samples of packet paths and of NAPI
 * polls into per-CPU histograms. What is left to do per sample is to find a
 * bucket for each interval.
 */
#include "group.bpf.h"
#include "late.bpf.h"

static __noinline int look_late(const struct sk_buff *skb, const struct net_path_sample *sample,
				__u32 reason)
{
	struct ending ending = {
		.total = sample->total_ns,
		.before = sample->before_ns,
		.reason = reason,
		.ifindex = skb->skb_iif,
		.seen = sample->seen,
		.merged = sample->merged,
		.path = sample->path,
		.end = sample->end,
		.flags = sample->flags,
	};

	return record_late(skb, sample->ns, &ending);
}

SEC("tp_btf/net_path_sample")
int BPF_PROG(on_path_sample, const struct sk_buff *skb, const struct net_path_sample *sample,
	     __u32 reason)
{
	if ((config.ifindex && config.ifindex != skb->skb_iif) || !is_wanted(skb, sample->path)) {
		count(filtered);
		return 0;
	}
	if (config.late_ns)
		look_late(skb, sample, reason);
	return place_end(sample->ns, sample->path, sample->end, sample->flags, sample->seen,
			 sample->merged, sample->total_ns, sample->before_ns, reason,
			 config.groups > 1 ? group_of(skb, sample->path) : 0);
}

/* A datagram does not know its socket: where it is taken out of its queue tells. */
SEC("fentry/__skb_try_recv_from_queue")
int BPF_PROG(late_reader, const struct sock *sk, const struct sk_buff_head *queue)
{
	note_reader(queue->next, sk);
	return 0;
}

SEC("tp_btf/napi_poll_sample")
int BPF_PROG(on_poll_sample, const struct napi_struct *napi, const struct napi_poll_sample *sample)
{
	if (config.by == BY_CONTEXT)
		note_context(napi->napi_id, sample->context);
	if (config.ifindex) {
		/* The backlog has no device. */
		const struct net_device *dev = napi->dev;

		if (!dev || config.ifindex != dev->ifindex) {
			count(polls_filtered);
			return 0;
		}
	}
	return place_poll(sample->context, sample->flags, sample->delay_ns, sample->time_ns,
			  sample->work);
}

char LICENSE[] SEC("license") = "GPL";
