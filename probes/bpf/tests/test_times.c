// SPDX-License-Identifier: GPL-2.0-or-later
/* The document of funclat: counts that add up, and what was left out. */
#include <string.h>

#include "check.h"
#include "hist_json.h"
#include "times.h"

static void place(struct hist *hist, __u32 value)
{
	struct hist one;

	hist_init(&one);
	one.buckets[loglinear_index(value)] = 1;
	one.sum = value;
	one.low = value;
	hist_join(hist, &one);
}

static __u64 number(struct json_object *o, const char *key)
{
	struct json_object *member;

	check(json_object_object_get_ex(o, key, &member), "no %s", key);
	return json_object_get_uint64(member);
}

static struct function_report called(void)
{
	struct function_report report = { .name = "udp_rcv", .missed_entries = 2 };
	struct function_times part;

	times_init(&report.times);
	times_init(&part);
	part.calls = 6;
	part.lost = 1;
	part.refused = 1;
	part.own = 50;
	place(&part.inclusive, 100);
	place(&part.self, 60);
	times_join(&report.times, &part);
	place(&part.inclusive, 300);
	place(&part.self, 300);
	part.inclusive.overflow = 1;
	times_join(&report.times, &part);
	return report;
}

static void check_function(void)
{
	struct function_report function = called();
	struct absent absent = { .name = "ip_rcv_core", .why = "inlined" };
	struct probe_cost cost = { 0 };
	struct times_report report = {
		.kernel = "6.12.0",
		.by = "fentry",
		.seconds = 1.5,
		.functions = &function,
		.count = 1,
		.absent = &absent,
		.absent_count = 1,
		.cost = &cost,
	};
	struct json_object *o = times_json(&report), *one, *inclusive;

	one = json_object_array_get_idx(json_object_object_get(o, "functions"), 0);
	inclusive = json_object_object_get(one, "inclusive");
	check(number(one, "calls") == 14, "with those that were missed");
	check(number(inclusive, "count") == 3 && number(inclusive, "max") == 300, "of both parts");
	check(number(one, "under_way") == 4, "12 less 4 that were timed, 2 lost and 2 refused");
	check(number(one, "own") == 100, "of both parts");
	one = json_object_array_get_idx(json_object_object_get(o, "absent"), 0);
	check(!strcmp(json_object_get_string(json_object_object_get(one, "why")), "inlined"),
	      "why");
	check(!json_object_object_get(o, "probe"), "the probe was not measured");
	json_object_put(o);

	/* What is read while it is counted may be ahead of the calls. */
	function.times.calls = 3;
	cost = (struct probe_cost){ .calls = 1000, .cost = 250.5, .own = 200 };
	times_init(&cost.times);
	o = times_json(&report);
	one = json_object_array_get_idx(json_object_object_get(o, "functions"), 0);
	check(number(one, "under_way") == 0, "never below");
	check(number(json_object_object_get(o, "probe"), "calls") == 1000, "measured");
	json_object_put(o);
}

int main(void)
{
	check_function();
	puts("ok times");
	return 0;
}
