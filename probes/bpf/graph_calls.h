/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of functions, from events of the tracer function_graph. Each CPU has a buffer of its own. A task may
 * call on one CPU and return on another one, so events are put into one order first.
 *
 * Each task has a stack of the calls that it has not returned from. Interrupts run upon the task that they
 * find, as in calls.h. The idle tasks all have number 0, and are told apart by their CPU.
 *
 * Whoever reads the trace calls functions for it, which may be traced: one task can be kept out.
 */
#ifndef SKBLAB_GRAPH_CALLS_H
#define SKBLAB_GRAPH_CALLS_H

#include "funclat.h"
#include "graph_page.h"

struct graph_calls;

/* Calls of functions with these addresses, counted in @times; NULL without memory. */
struct graph_calls *graph_calls_new(const __u64 *addresses, struct function_times *times,
				    size_t count);
/* Do not count what this task calls, but what interrupts upon it do. */
void graph_calls_leave_out(struct graph_calls *calls, __u32 task);
void graph_calls_free(struct graph_calls *calls);

/* An event of a CPU's buffer, the oldest first. */
void graph_calls_add(struct graph_calls *calls, unsigned int cpu, const struct graph_event *event);
/* All buffers were read to their end: count what no older event can come before. With @final all of it. */
void graph_calls_count(struct graph_calls *calls, bool final);

/* Why the counts cannot be complete, NULL if they are. */
const char *graph_calls_fault(const struct graph_calls *calls);

#endif /* SKBLAB_GRAPH_CALLS_H */
