// SPDX-License-Identifier: GPL-2.0
/*
 * Packet path and NAPI poll samples into per-CPU histograms.
 *
 * The kernel has measured: what is left to do per sample is to find a bucket
 * for each interval. A program is not run again on a CPU where it is running
 * (the kernel counts such misses), so plain additions suffice.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "pathlat.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

const volatile struct config config;

/* A stretch for each CPU, made as long as need be by the loader. Plain memory
 * costs one bounds check per sample, a per-CPU array map one look-up per interval.
 */
struct hist path_hists[1] SEC(".bss.path");
struct napi_hists napi_hists[1] SEC(".bss.napi");

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

static __noinline int widen(struct hist *hist, __u32 value)
{
	__u32 high;

	if (!hist)
		return 0;
	high = hist->low + hist->span;
	if (hist->low == HIST_EMPTY) {
		hist->low = value;
	} else if (value < hist->low) {
		hist->low = value;
		hist->span = high - value;
	} else {
		hist->span = value - hist->low;
	}
	return 0;
}

static __always_inline void place(struct hist *hist, __u32 value)
{
	/* The index is below LOGLINEAR_BUCKETS; the mask shows it to the verifier. */
	hist->buckets[loglinear_index(value) & (LOGLINEAR_ROOM - 1)]++;
	hist->sum += value;
	if (unlikely(value - hist->low > hist->span))
		widen(hist, value);
}

/* An interval between two distances from the entry. In samples that the kernel
 * @marked, a distance may have been cut to 0 or to the largest value.
 */
static __always_inline void place_interval(struct hist *hist, __u32 from, __u32 to,
					   const bool marked)
{
	if (unlikely(to < from) || (marked && !to))
		hist->negative++;
	else if (marked && to == (__u32)-1)
		hist->overflow++;
	else
		place(hist, to - from);
}

/* All intervals of a packet that was delivered whole, and the total. */
static __always_inline void place_path(const struct net_path_sample *sample, __u32 seen,
				       const bool marked)
{
	const int points = bpf_core_enum_value(enum net_path_point, NET_PATH_NR);
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 from = 0, before = 0;
	struct hist *hists;

	if (cpu >= config.cpus)
		return;
	hists = &path_hists[cpu * config.path_slots];

	/* Written out, because an index into a kernel structure must be constant. The
	 * verifier removes what lies beyond the running kernel's number of points.
	 */
#define POINT(p)                                                                                   \
	if ((p) < points && seen & 1 << (p)) {                                                     \
		__u32 at = sample->ns[p];                                                          \
		place_interval(&hists[PATH_SLOT(from, p)], before, at, marked);                    \
		before = at;                                                                       \
		from = p;                                                                          \
	}
	POINT(1)
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
	place_interval(&hists[PATH_TOTAL], 0, before, marked);
}

/* Apart from the usual case, which is spared these checks. */
static __noinline int place_marked(const struct net_path_sample *sample, __u32 seen)
{
	place_path(sample, seen, true);
	return 0;
}

static __always_inline void count_flags(__u8 flags)
{
	struct counts *c = get_counts();

	if (!c)
		return;
	c->flag_negative += !!(flags & NET_PATH_F_NEGATIVE);
	c->flag_overflow += !!(flags & NET_PATH_F_OVERFLOW);
	c->flag_copy += !!(flags & NET_PATH_F_COPY);
	c->flag_reentered += !!(flags & NET_PATH_F_REENTERED);
}

static __always_inline void count_seen(__u64 *per_point, __u16 seen)
{
	for (int p = 0; p < MAX_POINTS; p++)
		per_point[p] += seen >> p & 1;
}

static __noinline int count_incomplete(__u16 seen)
{
	struct counts *c = get_counts();

	if (!c)
		return 0;
	c->incomplete++;
	c->no_entry += !(seen & 1);
	count_seen(c->incomplete_seen, seen);
	return 0;
}

static __noinline int count_dropped(__u16 seen, __u32 reason)
{
	struct counts *c = get_counts();

	if (!c)
		return 0;
	c->dropped++;
	c->no_entry += !(seen & 1);
	c->reasons[reason < MAX_REASONS ? reason : MAX_REASONS - 1]++;
	count_seen(c->dropped_seen, seen);
	return 0;
}

SEC("tp_btf/net_path_sample")
int BPF_PROG(on_path_sample, const struct sk_buff *skb, const struct net_path_sample *sample,
	     __u32 reason)
{
	__u16 seen = sample->seen;
	__u8 flags = sample->flags;
	__u8 end = sample->end;
	struct counts *c;

	if (config.ifindex && config.ifindex != skb->skb_iif) {
		c = get_counts();
		if (c)
			c->filtered++;
		return 0;
	}

	if (unlikely(flags))
		count_flags(flags);
	if (unlikely(end != bpf_core_enum_value(enum net_path_end, NET_PATH_DELIVERED))) {
		if (end == bpf_core_enum_value(enum net_path_end, NET_PATH_DROPPED))
			return count_dropped(seen, reason);
		c = get_counts();
		if (c)
			c->other_end++;
		return 0;
	}
	if (unlikely((seen & config.whole) != config.whole))
		return count_incomplete(seen);
	if (unlikely(flags & (NET_PATH_F_NEGATIVE | NET_PATH_F_OVERFLOW)))
		return place_marked(sample, seen);
	place_path(sample, seen, false);

	return 0;
}

static __always_inline void place_long(struct hist *hist, __u64 value)
{
	if (unlikely(value > (__u32)-1))
		hist->overflow++;
	else
		place(hist, value);
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

SEC("tp_btf/napi_poll_sample")
int BPF_PROG(on_poll_sample, const struct napi_struct *napi, const struct napi_poll_sample *sample)
{
	__u8 context = sample->context;
	__u8 flags = sample->flags;
	__u32 cpu = bpf_get_smp_processor_id();
	struct napi_hists *hists;
	struct counts *c;

	if (config.ifindex) {
		/* The backlog has no device. */
		const struct net_device *dev = napi->dev;

		if (!dev || config.ifindex != dev->ifindex) {
			c = get_counts();
			if (c)
				c->polls_filtered++;
			return 0;
		}
	}
	if (unlikely(context >= MAX_CONTEXTS)) {
		c = get_counts();
		if (c)
			c->polls_unknown_context++;
		return 0;
	}
	if (cpu >= config.cpus)
		return 0;
	hists = &napi_hists[cpu * MAX_CONTEXTS + context];

	if (unlikely(flags != NAPI_SAMPLE_DELAY))
		count_poll(flags);
	if (flags & NAPI_SAMPLE_DELAY)
		place_long(&hists->delay, sample->delay_ns);
	else if (flags & NAPI_SAMPLE_NEGATIVE)
		hists->delay.negative++;
	place_long(&hists->time, sample->time_ns);
	hists->work += sample->work;

	return 0;
}

char LICENSE[] SEC("license") = "GPL";
