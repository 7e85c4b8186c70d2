/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loss, duplicates and reordering by the sequence numbers of a sender, which begin
 * at 1, as pktgen's do at each start.
 *
 * A packet is reordered if one with a higher number came before it (RFC 4737,
 * section 3), and a duplicate if its number came before. Which numbers came is known
 * of the last 2^20; of an older one it cannot be told whether it is a duplicate.
 * Numbers of 32 bits go round: they are taken as the nearest to the highest so far.
 */
#ifndef SKBLAB_ORDER_H
#define SKBLAB_ORDER_H

#include <linux/types.h>

#define ORDER_WORDS (1 << 14)

/* Of 64 numbers, those that came. A block of higher numbers takes its place. */
struct order_word {
	__u64 seen;
	__u64 block;
};

struct order {
	__u64 highest; /* 0: nothing came yet */
	__u64 distinct;
	__u64 duplicates;
	__u64 reordered;
	__u64 too_old;
	__u64 gaps; /* numbers were left out, at first */
	__u64 longest_gap;
	__u64 furthest; /* behind the highest, of those reordered */
	struct order_word words[ORDER_WORDS];
};

enum arrival { ARRIVAL_IN_ORDER, ARRIVAL_REORDERED, ARRIVAL_DUPLICATE, ARRIVAL_TOO_OLD };

/* Take a packet into account. @missing: numbers that it is the first to be beyond. */
static inline __attribute__((always_inline)) enum arrival order_note(struct order *order,
								     __u32 sequence, __u64 *missing)
{
	__u64 highest = order->highest, block, bit;
	__s64 number = highest ? (__s64)highest + (__s32)(sequence - (__u32)highest) : sequence;
	struct order_word *word;

	*missing = 0;
	block = (__u64)number >> 6;
	bit = 1ULL << (number & 63);
	word = &order->words[block & (ORDER_WORDS - 1)];
	if (number < 1 || block < word->block) {
		order->too_old++;
		return ARRIVAL_TOO_OLD;
	}
	if (block > word->block) {
		word->block = block;
		word->seen = 0;
	}
	if (word->seen & bit) {
		order->duplicates++;
		return ARRIVAL_DUPLICATE;
	}
	word->seen |= bit;
	order->distinct++;
	if ((__u64)number < highest) {
		__u64 behind = highest - number;

		order->reordered++;
		if (behind > order->furthest)
			order->furthest = behind;
		return ARRIVAL_REORDERED;
	}
	order->highest = number;
	*missing = number - highest - 1;
	if (*missing) {
		order->gaps++;
		if (*missing > order->longest_gap)
			order->longest_gap = *missing;
	}
	return ARRIVAL_IN_ORDER;
}

/* Numbers up to the highest that did not come; those too old to tell are among them. */
static inline __u64 order_lost(const struct order *order)
{
	return order->highest - order->distinct;
}

/* The highest number that never came; 0 if it is none of the last 2^20, or there is none. */
static inline __u64 order_last_lost(const struct order *order)
{
	__u64 known = (__u64)(ORDER_WORDS - 1) << 6;
	__u64 from = order->highest > known ? order->highest - known : 0;

	for (__u64 number = order->highest; number > from; number--) {
		const struct order_word *word = &order->words[(number >> 6) & (ORDER_WORDS - 1)];

		/* Of a block that no number came of, the word is still an older one's. */
		if (word->block != number >> 6 || !(word->seen & 1ULL << (number & 63)))
			return number;
	}
	return 0;
}

#endif /* SKBLAB_ORDER_H */
