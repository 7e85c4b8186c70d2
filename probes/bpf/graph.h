/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions timed by the tracer function_graph, where BPF programs cannot be attached to them. */
#ifndef SKBLAB_GRAPH_H
#define SKBLAB_GRAPH_H

#include "process.h"
#include "times.h"

#define BY_GRAPH "function-graph"

struct graph_request {
	const char *kernel;
	const char *why; /* why not by fentry; NULL: it was not asked for */
	double seconds;
	double interval;
	const char *output;
	/* Functions that ftrace can trace, and those that were left out. */
	const struct target *const *targets;
	size_t count;
	const struct absent *absent;
	size_t absent_count;
	/* To measure what a call takes with the tracer; NULL: this kernel lets nobody trace it. */
	const struct target *empty;
	pid_t parent;
	int signals;
	int cpus;
};

/* What getppid() calls in the kernel, which does next to nothing. The kernel names it in several ways. */
extern const char *const graph_empty_names[];
extern const size_t graph_empty_count;

/* Trace until it is over, and write the document; 0 or EXIT_BAD. */
int graph_measure(const struct graph_request *request);

#endif /* SKBLAB_GRAPH_H */
