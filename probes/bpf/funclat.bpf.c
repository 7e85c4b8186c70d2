// SPDX-License-Identifier: GPL-2.0
/*
 * How long calls of a kernel function take: one program at its entry, one at its return. The loader
 * loads the pair once for each function; all of them share the maps.
 *
 * What the probe itself takes between its first and its last look at the clock is taken off the
 * calls around. What remains in them is measured by the loader.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "calls.h"
#include "funclat.h"
#include "hist.bpf.h"

/* Which function this pair is for. */
const volatile __u32 function;
/* One for all pairs: so all of them begin and end to count at once. */
volatile bool counting;

struct task_struct;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct function_times);
} times SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct calls);
} stacks SEC(".maps");

static __always_inline struct function_times *times_of(__u32 number)
{
	return bpf_map_lookup_elem(&times, &number);
}

/* Programs of any function come here, upon each other. */
static void call_lost(__u32 number)
{
	struct function_times *of = times_of(number);

	if (of)
		__sync_fetch_and_add(&of->lost, 1);
}

/* Where the arguments lie on the kernel's stack: half of the address, for the verifier lets nobody
 * calculate with all of it.
 */
static __always_inline __u32 place_of(const void *ctx)
{
	__u64 place;

	asm volatile("r1 = %1; w1 = w1; %0 = r1" : "=r"(place) : "r"(ctx) : "r1");
	return place;
}

SEC("fentry")
int on_entry(void *ctx)
{
	__u64 came = bpf_ktime_get_ns(), now;
	struct function_times *of = times_of(function);
	const struct call *caller;
	struct calls *calls;
	struct call *call;

	if (!of || !counting)
		return 0;
	/* An interrupt in the middle of it would lose one. */
	__sync_fetch_and_add(&of->calls, 1);
	calls = bpf_task_storage_get(&stacks, bpf_get_current_task_btf(), NULL,
				     BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!calls) {
		of->refused++;
		return 0;
	}
	call = calls_push(calls, place_of(ctx), function);
	caller = call_of(calls, calls->depth - 1);
	now = bpf_ktime_get_ns();
	/* An interrupt that came before this call was the innermost has been taken off already. */
	call->before = caller->added > came ? 0 : now - came;
	/* Last: what an interrupt has added meanwhile is none of this call's time. */
	call->callees = 0;
	call->own = 0;
	call->added = 0;
	call->begun = now;
	return 0;
}

SEC("fexit")
int on_return(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), over, inclusive, callees, inner, own;
	struct function_times *of = times_of(function);
	struct call *call, *caller = NULL;
	struct calls *calls;
	__u32 depth = 0;

	if (!of || !counting)
		return 0;
	calls = bpf_task_storage_get(&stacks, bpf_get_current_task_btf(), NULL, 0);
	if (calls)
		depth = calls_find(calls, place_of(ctx), function);
	if (!depth) {
		of->unentered++;
		return 0;
	}
	call = call_of(calls, depth);
	callees = *(volatile __u64 *)&call->callees;
	inner = *(volatile __u64 *)&call->own;
	/* An interrupt has added to them since the first look at the clock: then the call is over
	 * only now, or it would be shorter than what was in it.
	 */
	if (unlikely(*(volatile __u64 *)&call->added > now))
		now = bpf_ktime_get_ns();
	own = call->before;
	inclusive = now - call->begun - inner;
	place_signed(&of->inclusive, inclusive);
	place_signed(&of->self, inclusive - callees);
	if (depth > 1) {
		caller = call_of(calls, depth - 1);
		caller->callees += inclusive;
	}
	over = bpf_ktime_get_ns();
	own += over - now;
	of->own += own;
	if (caller) {
		caller->own += inner + own;
		caller->added = over;
	}
	/* Last: what an interrupt adds until now is within the probe's own time. */
	calls->depth = depth - 1;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
