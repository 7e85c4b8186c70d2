/* SPDX-License-Identifier: GPL-2.0 */
/* What the BPF programs count, shared with the program that reads it. */
#ifndef SKBLAB_PATHLAT_H
#define SKBLAB_PATHLAT_H

#include "kernel_types.h"
#include "loglinear.h"

struct config {
	/* 0: every device */
	__s32 ifindex;
};

/* One histogram on one CPU. The count is the sum of the buckets. */
struct hist {
	__u64 sum;
	__u64 negative;
	__u64 overflow;
	__u32 max;
	/* ~minimum: starts right at 0 */
	__u32 inverse_min;
	__u64 buckets[LOGLINEAR_ROOM];
};

/* Path histograms: a row for each end point of an interval, a column for its
 * start, the last point seen before. No interval ends at point 0, so the first
 * place is free for the total.
 */
#define PATH_SLOT(from, to) ((to) * MAX_POINTS + (from))
#define PATH_SLOT_TOTAL	    PATH_SLOT(0, 0)

enum napi_hist {
	NAPI_DELAY,
	NAPI_TIME,
	NAPI_WORK,
	NAPI_HISTS,
};

#define NAPI_SLOT(context, hist) ((context) * NAPI_HISTS + (hist))

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
