// SPDX-License-Identifier: GPL-2.0-or-later
/* The document of funclat. */
#include <string.h>

#include "hist_json.h"
#include "json.h"
#include "times.h"

void times_init(struct function_times *times)
{
	memset(times, 0, sizeof(*times));
	hist_init(&times->inclusive);
	hist_init(&times->self);
}

void times_join(struct function_times *sum, const struct function_times *part)
{
	hist_join(&sum->inclusive, &part->inclusive);
	hist_join(&sum->self, &part->self);
	sum->calls += part->calls;
	sum->refused += part->refused;
	sum->lost += part->lost;
	sum->unentered += part->unentered;
	sum->own += part->own;
}

/* Calls whose time was measured. */
static __u64 timed(const struct function_times *times)
{
	const struct hist *hist = &times->inclusive;

	return hist_count(hist) + hist->negative + hist->overflow;
}

/* Calls that were seen to begin, and not yet to return. */
static __u64 under_way(const struct function_times *times)
{
	__u64 over = timed(times) + times->refused + times->lost;

	/* A document that is written meanwhile is not of one moment. */
	return times->calls > over ? times->calls - over : 0;
}

static struct json_object *hist_json(const struct hist *hist)
{
	struct json_object *o = json_object_new_object();

	hist_add(o, hist);
	return o;
}

static struct json_object *function_json(const struct function_report *report)
{
	const struct function_times *times = &report->times;
	struct json_object *o = json_object_new_object();

	add_text(o, "name", report->name);
	add_u64(o, "calls", times->calls + report->missed_entries);
	add_u64(o, "missed_entries", report->missed_entries);
	add_u64(o, "missed_returns", report->missed_returns);
	add_u64(o, "refused", times->refused);
	add_u64(o, "lost", times->lost);
	add_u64(o, "under_way", under_way(times));
	add_u64(o, "unentered", times->unentered);
	add_u64(o, "own", times->own);
	json_object_object_add(o, "inclusive", hist_json(&times->inclusive));
	json_object_object_add(o, "self", hist_json(&times->self));
	return o;
}

static struct json_object *cost_json(const struct probe_cost *cost)
{
	struct json_object *o;

	if (!cost->calls)
		return NULL;
	o = json_object_new_object();
	add_u64(o, "calls", cost->calls);
	json_object_object_add(o, "cost", json_object_new_double(cost->cost));
	json_object_object_add(o, "own", json_object_new_double(cost->own));
	json_object_object_add(o, "empty", hist_json(&cost->times.inclusive));
	return o;
}

struct json_object *times_json(const struct times_report *report)
{
	struct json_object *o = json_object_new_object();
	struct json_object *functions = json_object_new_array();
	struct json_object *absent = json_object_new_array();

	add_text(o, "schema", TIMES_SCHEMA);
	add_text(o, "kernel", report->kernel);
	add_text(o, "by", report->by);
	if (report->why)
		add_text(o, "why", report->why);
	else
		json_object_object_add(o, "why", NULL);
	add_text(o, "unit", "ns");
	json_object_object_add(o, "sub_buckets", json_object_new_int(LOGLINEAR_SUB));
	add_seconds(o, "seconds", report->seconds);
	json_object_object_add(o, "final", json_object_new_boolean(report->final));
	for (size_t i = 0; i < report->count; i++)
		json_object_array_add(functions, function_json(&report->functions[i]));
	json_object_object_add(o, "functions", functions);
	for (size_t i = 0; i < report->absent_count; i++) {
		struct json_object *one = json_object_new_object();

		add_text(one, "name", report->absent[i].name);
		add_text(one, "why", report->absent[i].why);
		json_object_array_add(absent, one);
	}
	json_object_object_add(o, "absent", absent);
	json_object_object_add(o, "probe", cost_json(report->cost));
	return o;
}
