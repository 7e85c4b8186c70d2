/* SPDX-License-Identifier: GPL-2.0 */
/* Placing a time in a histogram, of which each CPU has its own. */
#ifndef SKBLAB_HIST_BPF_H
#define SKBLAB_HIST_BPF_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "hist.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

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
	hist->buckets[loglinear_index(value)]++;
	hist->sum += value;
	if (unlikely(value - hist->low > hist->span))
		widen(hist, value);
}

static __always_inline void place_long(struct hist *hist, __u64 value)
{
	if (unlikely(value > (__u32)-1))
		hist->overflow++;
	else
		place(hist, value);
}

static __always_inline void place_signed(struct hist *hist, __s64 value)
{
	if (unlikely(value < 0))
		hist->negative++;
	else
		place_long(hist, value);
}

#endif /* SKBLAB_HIST_BPF_H */
