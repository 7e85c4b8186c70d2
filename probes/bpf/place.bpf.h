/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Placing what is known of a packet or a poll into per-CPU histograms.
 *
 * A program is not run again on a CPU where it is running (the kernel counts
 * such misses), so plain additions suffice.
 */
#ifndef SKBLAB_PLACE_BPF_H
#define SKBLAB_PLACE_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "hist.bpf.h"
#include "pathlat.h"

#define __maybe_unused __attribute__((unused))

const volatile struct config config;

/* A stretch for each CPU, and in it for each group, made as long as need be by the loader.
 * Plain memory
 * costs one bounds check per packet, a per-CPU array map one look-up per interval.
 */
struct path_hists path_hists[1] SEC(".bss.path");
struct napi_hists napi_hists[1] SEC(".bss.napi");

/* When libbpf (1.5) lengthens memory it frees the names that it has noted of kernel
 * variables, which then are not found, unless a kernel function is among them. This
 * program is never loaded.
 */
extern void bpf_rcu_read_lock(void) __ksym __weak;

SEC("?raw_tp")
int keep_names(void *ctx)
{
	bpf_rcu_read_lock();
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

static __always_inline struct counts *get_counts(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&counts, &key);
}

/* One more of what is rare. */
#define count(member)                                                                              \
	do {                                                                                       \
		struct counts *c__ = get_counts();                                                 \
                                                                                                   \
		if (c__)                                                                           \
			c__->member++;                                                             \
	} while (0)

/* What nearly all packets of a path pass, and what some pass as well. */
#define RECEIVE_POINTS                                                                             \
	(1 << NET_PATH_DRIVER | 1 << NET_PATH_STACK | 1 << NET_PATH_IP | 1 << NET_PATH_ROUTE |     \
	 1 << NET_PATH_LOCAL | 1 << NET_PATH_TRANSPORT | 1 << NET_PATH_SOCKET |                    \
	 1 << NET_PATH_WAKE | 1 << NET_PATH_USER)
#define FORWARD_POINTS                                                                             \
	(1 << NET_PATH_DRIVER | 1 << NET_PATH_STACK | 1 << NET_PATH_IP | 1 << NET_PATH_ROUTE |     \
	 1 << NET_PATH_FORWARD | 1 << NET_PATH_OUTPUT | 1 << NET_PATH_QUEUE | 1 << NET_PATH_XMIT | \
	 1 << NET_PATH_DONE)
#define SEND_POINTS                                                                                \
	(1 << NET_PATH_SEND | 1 << NET_PATH_TRANSPORT | 1 << NET_PATH_OUTPUT |                     \
	 1 << NET_PATH_QUEUE | 1 << NET_PATH_XMIT | 1 << NET_PATH_DONE)
#define QDISC_POINTS (1 << NET_PATH_DEQUEUE)

/* The intervals that end at the points of @all, and at those of @some that were
 * seen; both are constants. Written out, so that of the other points nothing is left.
 */
static __always_inline void place_points(struct path_hists *hists, const __u32 *ns, __u32 seen,
					 const __u32 all, const __u32 some)
{
#define POINT(p)                                                                                   \
	if (all & 1 << (p) || (some & 1 << (p) && seen & 1 << (p)))                                \
		place(&hists->interval[(p) - FIRST_INTERVAL], ns[p]);
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
}

/* A packet that came to the usual end of its path. */
static __always_inline void place_path(const __u32 *ns, __u32 path, __u32 seen, __u32 total,
				       bool reentered, __u32 before, __u32 group)
{
	__u32 row = bpf_get_smp_processor_id();
	struct path_hists *hists;

	if (row >= config.cpus)
		return;
	if (config.groups > 1) {
		if (group >= config.groups)
			group = config.groups - 1;
		row = row * config.groups + group;
	}
	hists = &path_hists[row * NET_PATH_KINDS + path];

	if (path == NET_PATH_FORWARDING && (seen & ~QDISC_POINTS) == FORWARD_POINTS)
		place_points(hists, ns, seen, FORWARD_POINTS, QDISC_POINTS);
	else if (path == NET_PATH_RECEIVE && seen == RECEIVE_POINTS)
		place_points(hists, ns, seen, RECEIVE_POINTS, 0);
	else if (path == NET_PATH_SENDING && (seen & ~QDISC_POINTS) == SEND_POINTS)
		place_points(hists, ns, seen, SEND_POINTS, QDISC_POINTS);
	else
		place_points(hists, ns, seen, 0, ~0);

	if (reentered) {
		place(&hists->again, total - before);
		place(&hists->again_total, total);
	} else {
		place(&hists->only, total);
	}
}

static __always_inline void count_seen(__u64 *per_point, __u32 seen)
{
	for (int p = 0; p < NET_PATH_NR; p++)
		per_point[p] += seen >> p & 1;
}

/* What few packets have. */
static __noinline int count_flags(__u8 flags)
{
	struct counts *c = get_counts();

	if (!c)
		return 0;
	c->flag_negative += !!(flags & NET_PATH_F_NEGATIVE);
	c->flag_overflow += !!(flags & NET_PATH_F_OVERFLOW);
	return 0;
}

/* A packet that came to the usual end of its path, but not with times to place. */
static __noinline int count_unplaced(__u8 path, __u8 end, __u8 flags, __u16 seen)
{
	struct counts *counts = get_counts();
	struct path_counts *c;

	if (!counts || path >= NET_PATH_KINDS || end >= NET_PATH_ENDS)
		return 0;
	c = &counts->paths[path];
	c->ends[end]++;
	if (flags & NET_PATH_F_NEGATIVE)
		c->negative++;
	else
		c->overflow++;
	c->reentered += !!(flags & NET_PATH_F_REENTERED);
	count_seen(c->unplaced_seen, seen);
	return 0;
}

static __noinline int count_end(__u8 path, __u8 end, __u8 flags, __u16 seen, __u32 reason)
{
	struct counts *counts = get_counts();
	struct path_counts *c;

	if (!counts)
		return 0;
	if (path >= NET_PATH_KINDS || end >= NET_PATH_ENDS) {
		counts->unknown++;
		return 0;
	}
	c = &counts->paths[path];
	c->ends[end]++;
	c->reentered += !!(flags & NET_PATH_F_REENTERED);
	if (end == NET_PATH_DROPPED) {
		c->reasons[reason < MAX_REASONS ? reason : MAX_REASONS - 1]++;
		/* Only to say that the path ended. */
		count_seen(c->dropped_seen, seen & ~(1 << NET_PATH_DONE));
	}
	return 0;
}

/* A path that ended, with @ns from each point seen to the one before it. */
static __always_inline int place_end(const __u32 *ns, __u8 path, __u8 end, __u8 flags, __u16 seen,
				     __u64 total, __u32 before, __u32 reason, __u32 group)
{
	if (unlikely(flags & ~NET_PATH_F_REENTERED))
		count_flags(flags);
	if (unlikely(path >= NET_PATH_KINDS ||
		     end != (path == NET_PATH_RECEIVE ? NET_PATH_DELIVERED : NET_PATH_TRANSMITTED)))
		return count_end(path, end, flags, seen, reason);
	if (unlikely(flags & (NET_PATH_F_NEGATIVE | NET_PATH_F_OVERFLOW) || total > (__u32)-1))
		return count_unplaced(path, end, flags, seen);
	place_path(ns, path, seen, total, flags & NET_PATH_F_REENTERED, before, group);
	return 0;
}

static __noinline int count_poll(__u8 flags)
{
	struct counts *c = get_counts();

	if (!c)
		return 0;
	c->polls_again += !!(flags & NAPI_SAMPLE_REPOLL);
	c->polls_without_delay += !(flags & (NAPI_SAMPLE_DELAY | NAPI_SAMPLE_NEGATIVE));
	return 0;
}

/* A poll. Returns 0, as all programs do. */
static __always_inline int place_poll(__u8 context, __u8 flags, __u64 delay, __u64 time, int work)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct napi_hists *hists;

	if (unlikely(context >= MAX_CONTEXTS)) {
		count(polls_unknown_context);
		return 0;
	}
	if (cpu >= config.cpus)
		return 0;
	hists = &napi_hists[cpu * MAX_CONTEXTS + context];

	if (unlikely(flags != NAPI_SAMPLE_DELAY))
		count_poll(flags);
	if (flags & NAPI_SAMPLE_DELAY)
		place_long(&hists->delay, delay);
	else if (flags & NAPI_SAMPLE_NEGATIVE)
		hists->delay.negative++;
	place_long(&hists->time, time);
	hists->work += work;
	return 0;
}

#endif /* SKBLAB_PLACE_BPF_H */
