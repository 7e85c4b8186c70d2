// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON document, from counts as two CPUs would leave them. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "report.h"

static char *point_names[] = { "driver", "stack", "ip", "user" };
static char *context_names[] = { "softirq", NULL, "kthread" };
static char *reason_names[] = { "NOT_DROPPED_YET", "CONSUMED", "NOT_SPECIFIED" };

static const struct kernel_names names = {
	.points = { point_names, 4 },
	.contexts = { context_names, 3 },
	.reasons = { reason_names, 3 },
	.nr_points = 4,
	.user_point = 3,
};

static void place(struct hist *hist, __u32 value)
{
	struct hist one;

	hist_init(&one);
	one.buckets[loglinear_index(value)] = 1;
	one.sum = value;
	one.low = value;
	hist_join(hist, &one);
}

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	check(json_object_object_get_ex(o, key, &value), "no %s in %s", key,
	      json_object_to_json_string(o));
	return value;
}

static void check_number(struct json_object *o, const char *key, __u64 expected)
{
	__u64 value = json_object_get_uint64(get(o, key));

	check(value == expected, "%s is %llu, not %llu", key, value, expected);
}

static void check_text(struct json_object *o, const char *key, const char *expected)
{
	const char *value = json_object_get_string(get(o, key));

	check(!strcmp(value, expected), "%s is %s, not %s", key, value, expected);
}

/* A whole packet on one CPU: each point at its distance, 0 for a skipped one. */
static void add_packet(struct report *cpu, __u32 stack, __u32 ip, __u32 user)
{
	__u32 at[] = { 0, stack, ip, user };
	int from = 0;

	for (int p = 1; p < 4; p++) {
		if (!at[p])
			continue;
		place(&cpu->path[PATH_SLOT(from, p)], at[p] - at[from]);
		from = p;
	}
	place(&cpu->path[PATH_TOTAL], user);
}

static void join(struct report *sum, const struct report *cpu)
{
	for (int i = 0; i < PATH_SLOTS_MAX; i++)
		hist_join(&sum->path[i], &cpu->path[i]);
	for (int i = 0; i < MAX_CONTEXTS; i++)
		napi_join(&sum->napi[i], &cpu->napi[i]);
	counts_join(&sum->counts, &cpu->counts);
}

static void check_layers(struct json_object *document)
{
	struct json_object *layers = get(document, "layers"), *row, *bucket;

	/* driver-stack, stack-ip, ip-user, stack-user (skipped ip), total */
	check(json_object_array_length(layers) == 5, "%s", json_object_to_json_string(layers));
	row = json_object_array_get_idx(layers, 0);
	check_text(row, "from", "driver");
	check_text(row, "to", "stack");
	check_number(row, "count", 3);
	check_number(row, "sum", 100 + 7 + 100);
	check_number(row, "min", 7);
	check_number(row, "max", 100);
	check(json_object_array_length(get(row, "buckets")) == 2, "buckets of 7 and 100");
	bucket = json_object_array_get_idx(get(row, "buckets"), 1);
	check(json_object_get_int(json_object_array_get_idx(bucket, 0)) == 57, "index of 100");
	check(json_object_get_int(json_object_array_get_idx(bucket, 1)) == 2, "count of 100");

	row = json_object_array_get_idx(layers, 4);
	check(json_object_get_boolean(get(row, "total")), "total comes last");
	check_text(row, "from", "driver");
	check_text(row, "to", "user");
	check_number(row, "count", 3);
	check_number(row, "negative", 1);
	check_number(row, "max", 0xfffffffe);
	check_number(row, "direct", 0);
}

int main(void)
{
	static struct report cpus[2], sum;
	struct json_object *document, *seen, *napi, *row;

	report_init(&cpus[0]);
	report_init(&cpus[1]);
	report_init(&sum);
	add_packet(&cpus[0], 100, 150, 1000);
	add_packet(&cpus[1], 7, 0, 0xfffffffe);
	add_packet(&cpus[1], 100, 150, 1000);
	cpus[0].path[PATH_SLOT(0, 1)].negative = 1;
	cpus[0].path[PATH_TOTAL].negative = 1;
	cpus[1].counts.dropped = 2;
	cpus[1].counts.dropped_seen[0] = 2;
	cpus[1].counts.dropped_seen[1] = 1;
	cpus[1].counts.reasons[2] = 1;
	cpus[1].counts.reasons[300] = 1;
	cpus[0].counts.incomplete = 1;
	cpus[0].counts.no_entry = 1;
	cpus[0].counts.incomplete_seen[3] = 1;
	place(&cpus[0].napi[2].delay, 5);
	place(&cpus[0].napi[2].time, 0);
	place(&cpus[1].napi[1].time, 5);
	cpus[0].napi[2].work = 64;

	join(&sum, &cpus[0]);
	join(&sum, &cpus[1]);
	sum.kernel = "6.12.0-test";
	sum.names = &names;
	sum.missed = 4;
	sum.stamps_on_end = -1;
	document = report_json(&sum);

	check_text(document, "schema", "skblab.pathlat/1");
	check_text(document, "clock_unit", "ns");
	check_number(document, "sub_buckets", 16);
	check(!get(document, "ifindex"), "no device was asked for");
	check(!get(get(document, "stamps_on"), "end"), "unknown is null");
	check_number(get(document, "samples"), "delivered", 5);
	check_number(get(document, "samples"), "dropped", 2);
	check_layers(document);

	/* Three whole ones, one with a negative first interval, one without entry. */
	seen = get(document, "seen");
	check_number(seen, "driver", 4);
	check_number(seen, "stack", 4);
	check_number(seen, "ip", 2);
	check_number(seen, "user", 4);
	check_number(get(document, "seen_dropped"), "stack", 1);
	check_number(get(document, "drop_reasons"), "NOT_SPECIFIED", 1);
	check_number(get(document, "drop_reasons"), "number_300", 1);
	check_number(get(document, "unplaced"), "negative", 2);
	check_number(get(document, "unplaced"), "no_entry", 1);
	check_number(get(document, "unplaced"), "missed", 4);

	napi = get(document, "napi");
	check(json_object_array_length(napi) == 4, "two rows for each of two contexts");
	row = json_object_array_get_idx(napi, 0);
	check_text(row, "context", "number_1");
	check_text(row, "name", "delay");
	check_number(row, "count", 0);
	check_number(row, "max", 0);
	row = json_object_array_get_idx(napi, 3);
	check_text(row, "context", "kthread");
	check_text(row, "name", "time");
	check_number(row, "count", 1);
	check_number(row, "max", 0);
	check_number(row, "work", 64);
	check_number(get(document, "polls"), "counted", 2);

	json_object_put(document);
	puts("ok report");
	return 0;
}
