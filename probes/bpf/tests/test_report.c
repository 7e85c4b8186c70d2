// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON document, from counts as two CPUs would leave them. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "report.h"

static char *context_names[] = { "softirq", NULL, "kthread" };
static char *reason_names[] = { "NOT_DROPPED_YET", "CONSUMED", "NOT_SPECIFIED" };

static const struct kernel_names names = {
	.contexts = { context_names, 3 },
	.reasons = { reason_names, 3 },
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

/* A delivered packet: the interval that ends at each point, 0 for a skipped one. */
static void add_packet(struct report *cpu, __u32 before, __u32 stack, __u32 ip, __u32 user)
{
	struct path_hists *hists = &cpu->paths[NET_PATH_RECEIVE];
	__u32 own = stack + ip + user;

	place(&hists->interval[NET_PATH_STACK - FIRST_INTERVAL], stack);
	if (ip)
		place(&hists->interval[NET_PATH_IP - FIRST_INTERVAL], ip);
	place(&hists->interval[NET_PATH_USER - FIRST_INTERVAL], user);
	if (before) {
		place(&hists->again, own);
		place(&hists->again_total, before + own);
	} else {
		place(&hists->only, own);
	}
}

static void join(struct report *sum, const struct report *cpu)
{
	for (int i = 0; i < NET_PATH_KINDS; i++)
		path_join(&sum->paths[i], &cpu->paths[i]);
	for (int i = 0; i < MAX_CONTEXTS; i++)
		napi_join(&sum->napi[i], &cpu->napi[i]);
	counters_join(&sum->counts, &cpu->counts, sizeof(sum->counts));
}

static void check_row(struct json_object *row, const char *from, const char *to, __u64 count,
		      __u64 sum, __u64 max)
{
	check_text(row, "from", from);
	check_text(row, "to", to);
	check_number(row, "count", count);
	check_number(row, "sum", sum);
	check_number(row, "max", max);
}

static void check_layers(struct json_object *receive)
{
	struct json_object *layers = get(receive, "layers"), *row, *bucket;

	/* No row for points that nobody passed; the next begins at the one before. */
	check(json_object_array_length(layers) == 3, "%s", json_object_to_json_string(layers));
	row = json_object_array_get_idx(layers, 0);
	check_row(row, "driver", "stack", 3, 100 + 7 + 100, 100);
	check_number(row, "min", 7);
	check(json_object_array_length(get(row, "buckets")) == 2, "buckets of 7 and 100");
	bucket = json_object_array_get_idx(get(row, "buckets"), 1);
	check(json_object_get_int(json_object_array_get_idx(bucket, 0)) == 57, "index of 100");
	check(json_object_get_int(json_object_array_get_idx(bucket, 1)) == 2, "count of 100");
	check_row(json_object_array_get_idx(layers, 1), "stack", "ip", 2, 100, 50);
	check_row(json_object_array_get_idx(layers, 2), "ip", "user", 3, 0xf0000000 + 1700ULL,
		  0xf0000000);
	check_row(get(receive, "path_time"), "driver", "user", 3, 0xf0000000 + 2007ULL, 0xf0000007);
	check_row(get(receive, "since_entry"), "driver", "user", 3, 0xf0000000 + 2407ULL,
		  0xf0000007);
}

static void check_receive(struct json_object *receive)
{
	struct json_object *seen = get(receive, "seen");

	check_text(receive, "path", "receive");
	check_text(receive, "usual_end", "delivered");
	check_layers(receive);
	check_number(get(receive, "ends"), "delivered", 4);
	check_number(get(receive, "ends"), "dropped", 2);
	check_number(get(receive, "ends"), "consumed", 5);
	check_number(receive, "reentered", 2);
	check_number(receive, "negative", 1);
	check_number(receive, "overflow", 0);
	check(!json_object_object_get_ex(receive, "all_passed", NULL), "only whole packets");

	/* Three placed, one of them without ip, and one with a negative interval. */
	check(json_object_object_length(seen) == 10, "%s", json_object_to_json_string(seen));
	check_number(seen, "driver", 4);
	check_number(seen, "stack", 4);
	check_number(seen, "ip", 2);
	check_number(seen, "route", 0);
	check_number(seen, "queue", 1);
	check_number(seen, "user", 4);
	check_number(get(receive, "seen_dropped"), "stack", 1);
	check_number(get(receive, "drop_reasons"), "NOT_SPECIFIED", 1);
	check_number(get(receive, "drop_reasons"), "number_300", 1);
}

/* Three packets: of two groups, and of none. */
static void check_groups(void)
{
	static struct path_hists hists[(PROTOCOL_GROUPS + 1) * NET_PATH_KINDS];
	static const int of[] = { GROUP_UDP, PROTOCOLS + GROUP_TCP, PROTOCOL_GROUPS };
	static const struct config config = { .by = BY_PROTOCOL };
	static struct report report;
	struct json_object *document, *rows, *path;

	report_init(&report);
	report.source = "hooks";
	report.kernel = "6.12.0-test";
	report.names = &names;
	report.config = &config;
	report.groups = hists;
	report.group_count = PROTOCOL_GROUPS + 1;
	for (int i = 0; i < report.group_count * NET_PATH_KINDS; i++)
		path_init(&hists[i]);
	for (int i = 0; i < 3; i++) {
		struct path_hists *one = &hists[of[i] * NET_PATH_KINDS + NET_PATH_FORWARDING];

		place(&one->only, 10 + i);
		place(&one->interval[NET_PATH_DONE - FIRST_INTERVAL], 10 + i);
	}
	document = report_json(&report);
	check_number(document, "groups_others", 1);
	rows = get(document, "groups");
	check(json_object_array_length(rows) == 2, "%s", json_object_to_json_string(rows));
	check_text(json_object_array_get_idx(rows, 0), "by", "protocol");
	check_text(json_object_array_get_idx(rows, 0), "name", "udp4");
	check_text(json_object_array_get_idx(rows, 1), "name", "tcp6");
	rows = get(json_object_array_get_idx(rows, 1), "paths");
	check(json_object_array_length(rows) == 1, "only paths with packets");
	path = json_object_array_get_idx(rows, 0);
	check_text(path, "path", "forward");
	check_row(json_object_array_get_idx(get(path, "layers"), 0), "driver", "done", 1, 11, 11);
	check_row(get(path, "path_time"), "driver", "done", 1, 11, 11);
	json_object_put(document);
}

static void check_group_names(void)
{
	static const struct {
		enum group_by by;
		int group;
		const char *name;
	} known[] = {
		{ BY_CPU, 12, "12" },
		{ BY_QUEUE, 0, "none" },
		{ BY_QUEUE, 1, "0" },
		{ BY_CONTEXT, 2, "kthread" },
		{ BY_CONTEXT, GROUP_BACKLOG, "backlog" },
		{ BY_CONTEXT, GROUP_UNKNOWN, "unknown" },
		{ BY_PROTOCOL, GROUP_NO_IP, "no_ip" },
	};
	char room[32];

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const char *name =
			group_name(&names, known[i].by, known[i].group, room, sizeof(room));

		check(!strcmp(name, known[i].name), "%s, not %s", name, known[i].name);
	}
}

int main(void)
{
	static struct report cpus[2], sum;
	struct json_object *document, *paths, *napi, *row;
	struct path_counts *receive;

	report_init(&cpus[0]);
	report_init(&cpus[1]);
	report_init(&sum);
	add_packet(&cpus[0], 400, 100, 50, 850);
	add_packet(&cpus[1], 0, 7, 0, 0xf0000000);
	add_packet(&cpus[1], 0, 100, 50, 850);
	receive = &cpus[1].counts.paths[NET_PATH_RECEIVE];
	receive->ends[NET_PATH_DROPPED] = 2;
	receive->ends[NET_PATH_CONSUMED] = 5;
	receive->dropped_seen[NET_PATH_DRIVER] = 2;
	receive->dropped_seen[NET_PATH_STACK] = 1;
	receive->reasons[2] = 1;
	receive->reasons[300] = 1;
	receive = &cpus[0].counts.paths[NET_PATH_RECEIVE];
	receive->ends[NET_PATH_DELIVERED] = 1;
	receive->negative = 1;
	receive->reentered = 1;
	receive->unplaced_seen[NET_PATH_DRIVER] = 1;
	receive->unplaced_seen[NET_PATH_STACK] = 1;
	receive->unplaced_seen[NET_PATH_QUEUE] = 1;
	receive->unplaced_seen[NET_PATH_USER] = 1;
	cpus[0].counts.flag_negative = 1;
	place(&cpus[0].napi[2].delay, 5);
	place(&cpus[0].napi[2].time, 0);
	place(&cpus[1].napi[1].time, 5);
	cpus[0].napi[2].work = 64;

	join(&sum, &cpus[0]);
	join(&sum, &cpus[1]);
	sum.source = "hooks";
	sum.kernel = "6.12.0-test";
	sum.hooks.merged = 44;
	sum.names = &names;
	sum.missed = 4;
	sum.stamps_on_end = -1;
	document = report_json(&sum);

	check_text(document, "schema", "skblab.pathlat/4");
	check_text(document, "clock_unit", "ns");
	check_number(document, "sub_buckets", 16);
	check(!get(document, "ifindex"), "no device was asked for");
	check(!get(get(document, "stamps_on"), "end"), "unknown is null");
	check_number(get(document, "samples"), "missed", 4);
	check_number(document, "merged", 44);
	check_number(get(document, "flags"), "negative", 1);
	check_number(get(document, "flags"), "reentered", 2);
	check(!get(document, "histograms"), "none are the kernel's");
	check(!get(document, "in"), "only the kernel counts by intervals");

	paths = get(document, "paths");
	check(json_object_array_length(paths) == NET_PATH_KINDS, "every path, also an empty one");
	check_receive(json_object_array_get_idx(paths, 0));
	row = json_object_array_get_idx(paths, 2);
	check_text(row, "path", "send");
	check(json_object_array_length(get(row, "layers")) == 0, "nothing was sent");
	check_number(get(row, "path_time"), "count", 0);
	check_number(get(row, "seen"), "xmit", 0);

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

	check(!get(document, "groups"), "none were asked for");
	json_object_put(document);
	check_groups();
	check_group_names();
	puts("ok report");
	return 0;
}
