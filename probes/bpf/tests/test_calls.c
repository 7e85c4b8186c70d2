// SPDX-License-Identifier: GPL-2.0-or-later
/* The stack of traced calls: by hand, and against calls made at random of which some are missed. */
#include <linux/types.h>
#include <stdbool.h>
#include <string.h>

#include "calls.h"
#include "check.h"

static struct calls calls;
static int lost;

static void call_lost(__u32 function)
{
	(void)function;
	lost++;
}

static void begin(void)
{
	memset(&calls, 0, sizeof(calls));
	lost = 0;
}

static void enter(__u32 at, __u32 function)
{
	calls_push(&calls, at, function);
}

/* As the programs do it: whether the call was found. */
static bool leave(__u32 at, __u32 function)
{
	__u32 depth = calls_find(&calls, at, function);

	if (depth)
		calls.depth = depth - 1;
	return depth;
}

static void check_nested(void)
{
	begin();
	enter(9000, 1);
	enter(8000, 2);
	enter(7000, 2);
	check(calls.depth == 3, "recursion is two calls");
	check(leave(7000, 2) && leave(8000, 2) && leave(9000, 1), "the innermost first");
	check(!calls.depth && !lost, "nothing is left");
	check(!leave(9000, 1), "it has returned");
}

/* Of a call that did not come back nothing stays once another one is at its place. */
static void check_missed_return(void)
{
	begin();
	enter(9000, 1);
	enter(8000, 2);
	enter(8000, 3);
	check(calls.depth == 2 && lost == 1, "2 must be over");
	enter(7000, 2);
	check(leave(9000, 1) && lost == 3, "and all that is above one that returns");
	enter(5000, 1);
	enter(9000, 2);
	check(calls.depth == 1 && lost == 4, "or below a new one on the stack");
}

static void check_missed_entry(void)
{
	begin();
	enter(9000, 1);
	check(!leave(8000, 2) && calls.depth == 1 && !lost, "the one around it stays");
	check(!leave(9000, 2), "another function at that place");
	check(leave(9000, 1), "and returns");
}

/* An interrupt has a stack of its own, which may be anywhere. */
static void check_interrupt(void)
{
	begin();
	enter(100000, 1);
	enter(4000000, 2);
	enter(3999000, 3);
	check(calls.depth == 3 && !lost, "upon the task's own");
	check(leave(3999000, 3) && leave(4000000, 2) && leave(100000, 1), "all return");
	enter(0xfffff000, 1);
	enter(0xfffff000 + CALL_STACK_BYTES, 2);
	check(calls.depth == 2, "so far apart they are of two stacks");
}

static void check_full(void)
{
	begin();
	for (__u32 i = 0; i < CALL_DEPTH; i++)
		enter(100000 - 10 * i, i);
	check(calls.depth == CALL_DEPTH && !lost, "all have room");
	enter(1000, 77);
	check(calls.depth == 1 && lost == CALL_DEPTH, "one more, and it begins anew");
	check(leave(1000, 77) && !leave(100000, 0), "of the others nothing is known any more");
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

static int began, returned, unentered, misses;

/* A call that calls others, itself too. One event in so many is missed. */
static void call(__u32 at, int depth, __u32 seldom)
{
	__u32 function = choose(5);
	bool seen = !seldom || choose(seldom);

	began += seen;
	misses += !seen;
	if (seen)
		enter(at, function);
	while (depth < 20 && choose(2))
		call(at - 16 - choose(300), depth + 1, seldom);
	if (seldom && !choose(seldom)) {
		misses++;
	} else if (leave(at, function)) {
		check(seen || seldom, "it did not begin");
		returned++;
	} else {
		unentered++;
	}
}

static void check_random(__u32 seldom)
{
	begin();
	began = returned = unentered = misses = 0;
	for (int i = 0; i < 20000; i++)
		call(1000000, 0, seldom);
	/* Each call that began is somewhere. */
	check(began == returned + lost + (int)calls.depth, "%d began, %d returned, %d lost", began,
	      returned, lost);
	check(unentered + lost <= misses, "%d and %d of %d missed", unentered, lost, misses);
	check(seldom || (began == returned && !unentered), "nothing was missed");
}

int main(void)
{
	check_nested();
	check_missed_return();
	check_missed_entry();
	check_interrupt();
	check_full();
	check_random(0);
	check_random(1000);
	check_random(20);
	puts("ok calls");
	return 0;
}
