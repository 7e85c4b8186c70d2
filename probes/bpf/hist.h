/* SPDX-License-Identifier: GPL-2.0 */
/* A histogram of times, which BPF programs fill and others read. */
#ifndef SKBLAB_HIST_H
#define SKBLAB_HIST_H

#include "loglinear.h"

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

#endif /* SKBLAB_HIST_H */
