// SPDX-License-Identifier: GPL-2.0
/* The witness: counts samples and the points they hold, apart from all measuring. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "sample.h"

__u64 ends[4][ENDS] SEC(".bss.ends");
__u64 points[4][POINTS] SEC(".bss.points");

SEC("tp_btf/net_path_sample")
int BPF_PROG(on_sample, const void *skb, const struct net_path_sample *sample, __u32 reason)
{
	__u32 path = sample->path & 3, end = sample->end & 3, seen = sample->seen;

	__sync_fetch_and_add(&ends[path][end], 1);
	if (end & 1)
		return 0;
	for (int p = 0; p < POINTS; p++)
		if (seen & 1 << p)
			__sync_fetch_and_add(&points[path][p], 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
