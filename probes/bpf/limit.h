/* SPDX-License-Identifier: GPL-2.0 */
/* How many late packets are recorded: in all, and in each second of the clock. */
#ifndef SKBLAB_LIMIT_H
#define SKBLAB_LIMIT_H

#include <linux/types.h>
#include <stdbool.h>

/* Of all CPUs together. */
struct limit {
	__u64 taken;
	__u64 second; /* its number, and in the lower half what was taken in it */
};

static inline __attribute__((always_inline)) bool limit_second(struct limit *limit, __u64 now,
							       __u32 rate)
{
	__u64 second = now / 1000000000, last = *(volatile __u64 *)&limit->second;

	/* Another CPU's clock may be ahead, and be in the next second. */
	if (last >> 32 < second) {
		if (__sync_val_compare_and_swap(&limit->second, last, second << 32 | 1) == last)
			return true;
		last = *(volatile __u64 *)&limit->second;
	}
	/* Looked at before, so that it does not grow for ever. */
	return (__u32)last < rate && (__u32)__sync_fetch_and_add(&limit->second, 1) < rate;
}

/* Take one of @most, of which there are @rate in a second, or any number if that is 0. Each CPU
 * asks for its own: whoever only looked before adding would find the same one free as the others.
 */
static inline __attribute__((always_inline)) bool limit_take(struct limit *limit, __u64 now,
							     __u64 most, __u32 rate)
{
	return *(volatile __u64 *)&limit->taken < most &&
	       (!rate || limit_second(limit, now, rate)) &&
	       __sync_fetch_and_add(&limit->taken, 1) < most;
}

/* What was taken was not used. */
static inline __attribute__((always_inline)) void limit_give(struct limit *limit)
{
	__sync_fetch_and_add(&limit->taken, -1);
}

#endif /* SKBLAB_LIMIT_H */
