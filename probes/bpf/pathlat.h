/* SPDX-License-Identifier: GPL-2.0 */
/* What the BPF programs count, shared with the program that reads it. */
#ifndef SKBLAB_PATHLAT_H
#define SKBLAB_PATHLAT_H

#include "kernel_types.h"
#include "loglinear.h"

struct config {
	__s32 ifindex; /* 0: every device */
	__u32 cpus;
	__u32 path_slots; /* histograms of a CPU */
	__u32 whole;	  /* points that a delivered packet must have */
};

/* One histogram on one CPU. The count is the sum of the buckets. A multiple of
 * 64 bytes, so that no two CPUs write to the same cache line.
 */
struct hist {
	__u64 sum;
	__u64 negative;
	__u64 overflow;
	/* Smallest value, and distance of the largest from it: one comparison tells
	 * whether a value lies outside. HIST_EMPTY before the first value.
	 */
	__u32 low;
	__u32 span;
	__u64 unused[4];
	__u64 buckets[LOGLINEAR_ROOM];
};

#define HIST_EMPTY ((__u32) - 1)

/* Path histograms of a CPU: the total first, then for each point the intervals
 * that end there, one for every earlier point they may begin at.
 */
#define PATH_TOTAL	    0
#define PATH_SLOT(from, to) (1 + (to) * ((to) - 1) / 2 + (from))
#define PATH_SLOTS(points)  PATH_SLOT(0, points)
#define PATH_SLOTS_MAX	    PATH_SLOTS(MAX_POINTS)

/* Polls in one context on one CPU. */
struct napi_hists {
	struct hist delay;
	struct hist time;
	__u64 work;
	__u64 unused[7];
};

#define MAX_REASONS 512

/* What is not in the histograms, on one CPU. None of it is touched by a packet
 * that is delivered whole: such packets are counted by the total's buckets.
 */
struct counts {
	__u64 incomplete; /* delivered, but without first or last point */
	__u64 no_entry;	  /* any end, without first point */
	__u64 dropped;
	__u64 other_end;
	__u64 filtered;
	__u64 flag_negative;
	__u64 flag_overflow;
	__u64 flag_copy;
	__u64 flag_reentered;
	__u64 incomplete_seen[MAX_POINTS];
	__u64 dropped_seen[MAX_POINTS];
	__u64 reasons[MAX_REASONS]; /* the last place is for all others */
	__u64 polls_filtered;
	__u64 polls_without_delay;
	__u64 polls_again;
	__u64 polls_unknown_context;
};

#endif /* SKBLAB_PATHLAT_H */
