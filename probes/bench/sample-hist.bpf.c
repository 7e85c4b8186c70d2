// SPDX-License-Identifier: GPL-2.0
/*
 * The least that a reader of the path sample can do to have a log-linear
 * histogram for each interval: no filter, no checks, no flags.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../bpf/loglinear.h"
#include "sample.h"

struct hist {
	__u64 sum;
	__u64 buckets[LOGLINEAR_ROOM - 1];
};

/* A stretch for each CPU; the last of a path is the total. */
struct hist hists[CPUS][4][POINTS + 1] SEC(".bss.hists");

static __always_inline void place(struct hist *hist, __u32 value)
{
	__u32 index = loglinear_index(value);

	if (index < LOGLINEAR_BUCKETS)
		hist->buckets[index]++;
	hist->sum += value;
}

SEC("tp_btf/net_path_sample")
int BPF_PROG(on_sample, const void *skb, const struct net_path_sample *sample, __u32 reason)
{
	struct hist *hist = hists[bpf_get_smp_processor_id() & (CPUS - 1)][sample->path & 3];
	__u32 seen = sample->seen;

	/* Delivered or transmitted. */
	if (sample->end & 1)
		return 0;
#define POINT(p)                                                                                   \
	if (seen & 1 << (p))                                                                       \
		place(&hist[p], sample->ns[p]);
	POINT(2)
	POINT(3)
	POINT(4)
	POINT(5)
	POINT(6)
	POINT(7)
	POINT(8)
	POINT(9)
	POINT(10)
	POINT(11)
	POINT(12)
	POINT(13)
	POINT(14)
	POINT(15)
#undef POINT
	place(&hist[POINTS], sample->total_ns);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
