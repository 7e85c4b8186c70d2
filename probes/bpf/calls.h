/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The traced calls that a task has not returned from, the innermost last. Interrupts
 * and softirqs run upon whichever task they find, and are over before it goes on: their
 * calls lie upon the task's own and go before them. So each task has one stack, wherever
 * it sleeps and migrates.
 *
 * The same code runs in the kernel (BPF) and in tests. Whoever includes it defines
 * call_lost().
 */
#ifndef SKBLAB_CALLS_H
#define SKBLAB_CALLS_H

#include <linux/types.h>
#include <stdbool.h>

/* A power of two, so that a mask bounds an index. */
#define CALL_DEPTH 64
/* The kernel's stacks are not larger, or two calls of one are seldom further apart. */
#define CALL_STACK_BYTES (16 * 1024)

struct call {
	__u64 begun;
	__u64 callees; /* time of traced callees and interrupts */
	__u64 own;     /* time that the probe itself took for these */
	__u64 added;   /* when either was added to last */
	__u32 before;  /* and for this call before it began */
	__u32 function;
	/* Where its arguments lie on the kernel's stack: entry and return agree on it. The lower
	 * half of the address, which is enough to tell places of one stack apart.
	 */
	__u32 at;
	__u32 unused;
};

struct calls {
	__u32 depth;
	__u32 unused;
	struct call call[CALL_DEPTH];
};

/* A call whose return was not seen. */
static void call_lost(__u32 function);

/* What @number calls deep is; a mask for the verifier. */
static inline __attribute__((always_inline)) struct call *call_of(struct calls *calls, __u32 number)
{
	return &calls->call[(number - 1) & (CALL_DEPTH - 1)];
}

/* Stacks grow downwards: where a new call lies, or above, none can be that has not returned.
 * Further away is another stack, of an interrupt.
 */
static inline __attribute__((always_inline)) bool call_is_stale(const struct call *call, __u32 at)
{
	return at - call->at < CALL_STACK_BYTES;
}

/* Leave out what has no place any more; all of it if there is no room else. */
static __attribute__((noinline)) __u32 calls_tidy(struct calls *calls, __u32 at)
{
	bool all;
	__u32 depth;

	if (!calls)
		return 0;
	depth = calls->depth;
	all = depth >= CALL_DEPTH && !call_is_stale(call_of(calls, depth), at);
	for (int i = 0; i < CALL_DEPTH; i++) {
		struct call *call = call_of(calls, depth);

		if (!depth || (!all && !call_is_stale(call, at)))
			break;
		call_lost(call->function);
		depth--;
	}
	calls->depth = depth;
	return depth;
}

/* A call begins. The caller of this writes its times last. */
static inline __attribute__((always_inline)) struct call *calls_push(struct calls *calls, __u32 at,
								     __u32 function)
{
	__u32 depth = calls->depth;
	struct call *call;

	if (__builtin_expect(
		    depth && (depth >= CALL_DEPTH || call_is_stale(call_of(calls, depth), at)), 0))
		depth = calls_tidy(calls, at);
	/* An interrupt before the depth is written has the same place, one behind that lies above.
	 * To neither may this be an older call.
	 */
	call = call_of(calls, depth + 1);
	for (int i = 0; i < 2; i++) {
		*(volatile __u32 *)&call->at = at;
		*(volatile __u32 *)&call->function = function;
		*(volatile __u32 *)&calls->depth = depth + 1;
	}
	return call;
}

/* Whether there is such a call further down: those above it did not return, then. */
static __attribute__((noinline)) __u32 calls_search(struct calls *calls, __u32 at, __u32 function)
{
	__u32 depth, found = 0;

	if (!calls)
		return 0;
	depth = calls->depth;
	for (int i = 0; i < CALL_DEPTH; i++) {
		struct call *call = call_of(calls, depth);

		if (!depth)
			break;
		if (call->at == at && call->function == function) {
			found = depth;
			break;
		}
		depth--;
	}
	if (!found)
		return 0;
	depth = calls->depth;
	for (int i = 0; i < CALL_DEPTH; i++) {
		if (depth <= found)
			break;
		call_lost(call_of(calls, depth)->function);
		depth--;
	}
	calls->depth = found;
	return found;
}

/* A call returns: its number from 1, which is the depth then, or 0 if it was not seen to begin. */
static inline __attribute__((always_inline)) __u32 calls_find(struct calls *calls, __u32 at,
							      __u32 function)
{
	__u32 depth = calls->depth;
	const struct call *top = call_of(calls, depth);

	if (__builtin_expect(depth && top->at == at && top->function == function, 1))
		return depth;
	return calls_search(calls, at, function);
}

#endif /* SKBLAB_CALLS_H */
