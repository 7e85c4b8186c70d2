/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log-linear histogram buckets: 16 of equal width per power of two, so that a
 * bucket is at most 1/16 as wide as its lower bound. The same code counts in
 * the kernel (BPF) and reads in user space.
 *
 * index = v for v < 16, else (e - 3) * 16 + ((v >> (e - 4)) & 15) with
 * e = floor(log2(v)). Both are (s << 4) + (v >> s) with s = log2(v | 16) - 4,
 * for v >> s keeps the leading one that 16 stands for.
 */
#ifndef SKBLAB_LOGLINEAR_H
#define SKBLAB_LOGLINEAR_H

#include <linux/types.h>

#define LOGLINEAR_SUB 16
/* Buckets of all 32-bit values. */
#define LOGLINEAR_BUCKETS 464
/* Array size; a power of two lets the BPF verifier see that a mask suffices. */
#define LOGLINEAR_ROOM 512

#define LOGLINEAR_4(e)	e, e, e, e
#define LOGLINEAR_16(e) LOGLINEAR_4(e), LOGLINEAR_4(e), LOGLINEAR_4(e), LOGLINEAR_4(e)
#define LOGLINEAR_64(e) LOGLINEAR_16(e), LOGLINEAR_16(e), LOGLINEAR_16(e), LOGLINEAR_16(e)

/* floor(log2) of a byte: BPF has no instruction for it, and three branches
 * around one load are the cheapest way. 0 is never looked up.
 */
static const __u8 loglinear_log2[256] = {
	0,
	0,
	1,
	1,
	LOGLINEAR_4(2),
	LOGLINEAR_4(3),
	LOGLINEAR_4(3),
	LOGLINEAR_16(4),
	LOGLINEAR_16(5),
	LOGLINEAR_16(5),
	LOGLINEAR_64(6),
	LOGLINEAR_64(7),
	LOGLINEAR_64(7),
};

static inline __attribute__((always_inline)) __u32 loglinear_index(__u32 v)
{
	__u32 w = v | LOGLINEAR_SUB;
	__u32 s;

	if (w < 1 << 8)
		s = loglinear_log2[w] - 4;
	else if (w < 1 << 16)
		s = loglinear_log2[w >> 8] + 4;
	else if (w < 1 << 24)
		s = loglinear_log2[w >> 16] + 12;
	else
		s = loglinear_log2[w >> 24] + 20;

	return (s << 4) + (v >> s);
}

/* Smallest value of a bucket. */
static inline __u64 loglinear_lower(__u32 index)
{
	__u32 s;

	if (index < 2 * LOGLINEAR_SUB)
		return index;
	s = index / LOGLINEAR_SUB - 1;
	return (__u64)(LOGLINEAR_SUB + index % LOGLINEAR_SUB) << s;
}

/* Number of values in a bucket. */
static inline __u64 loglinear_width(__u32 index)
{
	return loglinear_lower(index + 1) - loglinear_lower(index);
}

#endif /* SKBLAB_LOGLINEAR_H */
