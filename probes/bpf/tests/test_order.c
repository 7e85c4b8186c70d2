// SPDX-License-Identifier: GPL-2.0-or-later
/* Loss, duplicates and reordering: by hand, and against the definitions in plain words. */
#include <linux/types.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "order.h"

#define WINDOW (ORDER_WORDS * 64U)

static struct order order;

static enum arrival note(__u32 sequence)
{
	__u64 missing;

	return order_note(&order, sequence, &missing);
}

static void begin(void)
{
	memset(&order, 0, sizeof(order));
}

static void check_by_hand(void)
{
	begin();
	check(note(1) == ARRIVAL_IN_ORDER, "the first");
	check(note(2) == ARRIVAL_IN_ORDER, "the next");
	check(note(5) == ARRIVAL_IN_ORDER, "behind a gap");
	check(order_lost(&order) == 2 && order.gaps == 1 && order.longest_gap == 2, "3 and 4");
	check(note(4) == ARRIVAL_REORDERED, "late");
	check(note(4) == ARRIVAL_DUPLICATE, "and again");
	check(note(5) == ARRIVAL_DUPLICATE, "the highest again");
	check(note(1) == ARRIVAL_DUPLICATE, "the first again");
	check(note(6) == ARRIVAL_IN_ORDER, "and on");
	check(order_last_lost(&order) == 3, "3, and not 4, which came late");
	check(order_lost(&order) == 1 && order.distinct == 5 && order.duplicates == 3 &&
		      order.reordered == 1 && order.furthest == 1,
	      "lost %llu of %llu", order_lost(&order), order.highest);
}

/* Numbers begin at 1: what is lost before the first is lost all the same. */
static void check_beginning(void)
{
	__u64 missing;

	begin();
	check(order_note(&order, 4, &missing) == ARRIVAL_IN_ORDER && missing == 3, "three before");
	check(order_lost(&order) == 3 && order.gaps == 1, "they are lost");
	check(order_note(&order, 2, &missing) == ARRIVAL_REORDERED && missing == 0, "one is not");
	check(order_lost(&order) == 2, "two are");
	check(order_last_lost(&order) == 3, "the third is the last");
	check(note(0) == ARRIVAL_TOO_OLD, "before the first there is none");
}

static void check_window(void)
{
	begin();
	note(1);
	note(2);
	note(WINDOW - 1);
	check(note(2) == ARRIVAL_DUPLICATE, "as far behind as is known");
	check(note(3) == ARRIVAL_REORDERED, "the same");
	note(WINDOW + 63);
	check(note(2) == ARRIVAL_TOO_OLD, "further");
	check(note(64) == ARRIVAL_REORDERED, "behind it");
	check(order.too_old == 1, "counted");
	/* A jump over more than all words leaves them as they were. */
	note(5 * WINDOW + 1);
	check(order_last_lost(&order) == 5 * WINDOW, "a word that an older block has");
	check(note(64) == ARRIVAL_DUPLICATE, "no newer one took its place");
}

/* What was lost is told as far back as is known, and no further. */
static void check_last_lost(void)
{
	begin();
	check(order_last_lost(&order) == 0, "nothing came");
	for (__u32 number = 2; number < WINDOW - 63; number++)
		note(number);
	check(order_last_lost(&order) == 1, "as far behind as is known");
	note(WINDOW - 63);
	check(order_last_lost(&order) == 0 && order_lost(&order) == 1, "further");
	note(WINDOW - 61);
	check(order_last_lost(&order) == WINDOW - 62, "and another one");
}

static void check_round(void)
{
	begin();
	note(0x7fffffff);
	note(0xfffffffe);
	check(note(0xfffffffe) == ARRIVAL_DUPLICATE, "the last but one");
	check(note(0) == ARRIVAL_IN_ORDER, "round");
	check(note(0xffffffff) == ARRIVAL_REORDERED, "and back");
	check(note(0) == ARRIVAL_DUPLICATE, "and again");
	check(order.highest == 1ULL << 32, "highest is %llu", order.highest);
}

static __u64 state = 88172645463325252ULL;

/* xorshift: the same values in every run */
static __u32 choose(__u32 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 32) % below;
}

#define SENT 20000

/* Packets that are lost, doubled and delayed at random, in the order in which they come. */
static int shuffle(__u32 *came, int delay)
{
	static struct {
		int at;
		__u32 sequence;
	} queue[2 * SENT];
	int count = 0;

	for (__u32 sequence = 1; sequence <= SENT; sequence++) {
		int copies = choose(10) == 0 ? 0 : choose(20) == 0 ? 2 : 1;

		for (int i = 0; i < copies; i++) {
			int at = sequence + (choose(4) == 0 ? choose(delay) : 0), place = count++;

			for (; place > 0 && queue[place - 1].at > at; place--)
				queue[place] = queue[place - 1];
			queue[place].at = at;
			queue[place].sequence = sequence;
		}
	}
	for (int i = 0; i < count; i++)
		came[i] = queue[i].sequence;
	return count;
}

/* RFC 4737, section 3.3: reordered if less than the next expected one. */
static void check_shuffled(int delay)
{
	static __u32 came[2 * SENT];
	static bool seen[SENT + 1];
	int count = shuffle(came, delay);
	__u64 distinct = 0, duplicates = 0, reordered = 0, next_expected = 1, lost;

	memset(seen, 0, sizeof(seen));
	begin();
	for (int i = 0; i < count; i++) {
		enum arrival expected = ARRIVAL_IN_ORDER;

		if (seen[came[i]]) {
			expected = ARRIVAL_DUPLICATE;
			duplicates++;
		} else if (came[i] < next_expected) {
			expected = ARRIVAL_REORDERED;
			reordered++;
		} else {
			next_expected = came[i] + 1;
		}
		distinct += !seen[came[i]];
		seen[came[i]] = true;
		check(note(came[i]) == expected, "packet %d, number %u", i, came[i]);
	}
	check(order.distinct == distinct && order.duplicates == duplicates &&
		      order.reordered == reordered && order.too_old == 0 &&
		      order.highest == next_expected - 1,
	      "delay %d: %llu, %llu, %llu", delay, order.distinct, order.duplicates,
	      order.reordered);
	check(order_lost(&order) == next_expected - 1 - distinct, "lost");
	for (lost = next_expected - 1; lost && seen[lost]; lost--)
		;
	check(order_last_lost(&order) == lost, "%llu is the last, expected %llu",
	      order_last_lost(&order), lost);
	check(order.furthest < (__u64)delay, "%llu behind", order.furthest);
}

int main(void)
{
	check_by_hand();
	check_beginning();
	check_window();
	check_last_lost();
	check_round();
	for (int delay = 1; delay < 5000; delay = delay * 3 + 1)
		check_shuffled(delay);
	puts("ok order");
	return 0;
}
