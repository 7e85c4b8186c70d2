/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The document of funclat. */
#ifndef SKBLAB_TIMES_H
#define SKBLAB_TIMES_H

#include <json-c/json.h>
#include <stdbool.h>

#include "funclat.h"

#define TIMES_SCHEMA "skblab.functimes/2"

/* A function, of all CPUs. */
struct function_report {
	const char *name;
	struct function_times times;
	__u64 missed_entries; /* the program was running on that CPU already */
	__u64 missed_returns;
};

/* A function that was left out. */
struct absent {
	const char *name;
	char why[512];
};

/* That is measured in rounds, of which the shortest counts: the others were interrupted. They are
 * short: on a busy machine none of five long ones may go by undisturbed.
 */
#define COST_ROUNDS 50
#define COST_RUNS   20

/* What the probe itself takes for a call, measured with an empty function. */
struct probe_cost {
	unsigned int calls; /* 0: it was not measured */
	double cost;	    /* by which a call is longer, in all */
	double own;	    /* of that, what the probe sees itself */
	struct function_times times;
};

struct times_report {
	const char *kernel;
	const char *by;	 /* what times calls */
	const char *why; /* why not by fentry; NULL: it is, or was not asked for */
	double seconds;
	bool final; /* nothing counts any more */
	const struct function_report *functions;
	size_t count;
	const struct absent *absent;
	size_t absent_count;
	const struct probe_cost *cost;
};

void times_init(struct function_times *times);
/* Add one CPU's part. */
void times_join(struct function_times *sum, const struct function_times *part);

struct json_object *times_json(const struct times_report *report);

#endif /* SKBLAB_TIMES_H */
