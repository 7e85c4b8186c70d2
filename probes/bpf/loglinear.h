/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log-linear histogram buckets: 16 of equal width per power of two, so that a
 * bucket is at most 1/16 as wide as its lower bound. The same code counts in
 * the kernel (BPF) and reads in user space.
 *
 * index = v for v < 16, else (e - 3) * 16 + ((v >> (e - 4)) & 15) with
 * e = floor(log2(v)).
 */
#ifndef SKBLAB_LOGLINEAR_H
#define SKBLAB_LOGLINEAR_H

#include <linux/types.h>

#define LOGLINEAR_SUB 16
/* Buckets of all 32-bit values. */
#define LOGLINEAR_BUCKETS 464
/* Array size; a power of two, so that a mask bounds an index. */
#define LOGLINEAR_ROOM 512

/* A bucket b for each of 1, 2, 4 … values, and the 16 buckets of a power of two. */
#define LOGLINEAR_1(b)	 b
#define LOGLINEAR_2(b)	 b, b
#define LOGLINEAR_4(b)	 LOGLINEAR_2(b), LOGLINEAR_2(b)
#define LOGLINEAR_8(b)	 LOGLINEAR_4(b), LOGLINEAR_4(b)
#define LOGLINEAR_16(b)	 LOGLINEAR_8(b), LOGLINEAR_8(b)
#define LOGLINEAR_32(b)	 LOGLINEAR_16(b), LOGLINEAR_16(b)
#define LOGLINEAR_64(b)	 LOGLINEAR_32(b), LOGLINEAR_32(b)
#define LOGLINEAR_128(b) LOGLINEAR_64(b), LOGLINEAR_64(b)
#define LOGLINEAR_OCTAVE(b, width)                                                                 \
	width(b), width(b + 1), width(b + 2), width(b + 3), width(b + 4), width(b + 5),            \
		width(b + 6), width(b + 7), width(b + 8), width(b + 9), width(b + 10),             \
		width(b + 11), width(b + 12), width(b + 13), width(b + 14), width(b + 15)

/* The buckets of the values below 2^12. BPF has no instruction for the logarithm,
 * most intervals are that short, and most of one kind share a few cache lines here.
 */
static const __u8 loglinear_short[1 << 12] = {
	LOGLINEAR_OCTAVE(0, LOGLINEAR_1),     LOGLINEAR_OCTAVE(16, LOGLINEAR_1),
	LOGLINEAR_OCTAVE(32, LOGLINEAR_2),    LOGLINEAR_OCTAVE(48, LOGLINEAR_4),
	LOGLINEAR_OCTAVE(64, LOGLINEAR_8),    LOGLINEAR_OCTAVE(80, LOGLINEAR_16),
	LOGLINEAR_OCTAVE(96, LOGLINEAR_32),   LOGLINEAR_OCTAVE(112, LOGLINEAR_64),
	LOGLINEAR_OCTAVE(128, LOGLINEAR_128),
};

static inline __attribute__((always_inline)) __u32 loglinear_index(__u32 v)
{
	/* 16 buckets fewer for each bit shifted out. The mask changes nothing; it shows
	 * to the BPF verifier what is below LOGLINEAR_ROOM.
	 */
	if (__builtin_expect(v < 1 << 12, 1))
		return loglinear_short[v];
	if (v < 1 << 20)
		return loglinear_short[v >> 8] + 8 * LOGLINEAR_SUB;
	if (v < 1 << 28)
		return loglinear_short[v >> 16] + 16 * LOGLINEAR_SUB;
	return (loglinear_short[v >> 20] + 20 * LOGLINEAR_SUB) & (LOGLINEAR_ROOM - 1);
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

#endif /* SKBLAB_LOGLINEAR_H */
