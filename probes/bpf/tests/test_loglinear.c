// SPDX-License-Identifier: GPL-2.0-or-later
/* Properties of the bucket function over edges, a dense range and random values. */
#include <linux/types.h>

#include "check.h"
#include "loglinear.h"

/* The definition in the words of the contract, by division instead of tables. */
static __u32 plain_index(__u32 v)
{
	__u32 e = 0;

	if (v < 16)
		return v;
	for (__u32 rest = v; rest > 1; rest /= 2)
		e++;
	return (e - 3) * 16 + ((v >> (e - 4)) & 15);
}

static void check_value(__u32 v)
{
	__u32 index = loglinear_index(v);
	__u64 lower = loglinear_lower(index);
	__u64 width = loglinear_lower(index + 1) - lower;

	check(index == plain_index(v), "%u: index %u, not %u", v, index, plain_index(v));
	check(index < LOGLINEAR_BUCKETS, "%u: index %u", v, index);
	check(lower <= v && v < lower + width, "%u: bucket %u is %llu + %llu", v, index, lower,
	      width);
	check(width == 1 || width * 16 <= lower, "%u: width %llu at %llu", v, width, lower);
}

int main(void)
{
	__u64 state = 88172645463325252ULL;

	for (__u32 v = 0; v < 1 << 18; v++) {
		check_value(v);
		check(v == 0 || loglinear_index(v) - loglinear_index(v - 1) <= 1,
		      "%u: not monotone or a bucket is left out", v);
	}
	for (int e = 4; e < 32; e++)
		for (int delta = -40; delta <= 40; delta++)
			check_value((1U << e) + delta);
	for (int i = 0; i < 10 * 1000 * 1000; i++) {
		/* xorshift: the same values in every run */
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		check_value(state >> (32 + i % 32));
	}
	check_value(0xffffffff);
	check(loglinear_index(0xffffffff) == LOGLINEAR_BUCKETS - 1, "number of buckets");

	for (__u32 index = 0; index < LOGLINEAR_BUCKETS; index++) {
		__u64 lower = loglinear_lower(index);
		__u64 last = loglinear_lower(index + 1) - 1;

		check(loglinear_index(lower) == index, "lower bound of %u", index);
		check(loglinear_index(last) == index, "last value of %u", index);
	}
	puts("ok loglinear");
	return 0;
}
