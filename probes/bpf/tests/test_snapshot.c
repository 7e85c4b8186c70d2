// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's own histograms: read, subtracted, and what a document says of them. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "snapshot.h"

/* Of a clock of a nanosecond, but for a millionth: seven came, one of them by a tunnel, and six
 * were delivered.
 */
#define RECEIVED                                                                                   \
	"# count <what> <packets>\n"                                                               \
	"count entered 7\ncount sent 2\ncount dropped 3\ncount unclear 4\ncount merged 1\n"        \
	"count negative 5\ncount stale 6\ncount of_later_kernels 9\n"                              \
	"sum in driver 1 2000.000\nbucket in driver 1984.002 2048.002 1\n"                         \
	"sum in stack 8 800.000\nbucket in stack 100.000 104.000 8\n"                              \
	"sum in route 7 50.000\nbucket in route 7.000 8.000 7\n"                                   \
	"sum receive local 7 70.000\nbucket receive local 10.000 11.000 7\n"                       \
	"sum receive user 6 6000.005\nbucket receive user 960.000 992.000 4\n"                     \
	"bucket receive user 1024.001 1088.001 2\n"                                                \
	"sum receive total 6 6600.006\nbucket receive total 1088.001 1152.001 6\n"

static struct snapshot snapshot_of(const char *text)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");
	struct snapshot snapshot;
	char why[128] = "";

	check(!snapshot_read(&snapshot, file, why, sizeof(why)), "refused: %s", why);
	fclose(file);
	return snapshot;
}

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	check(json_object_object_get_ex(o, key, &value), "no %s in %s", key,
	      json_object_to_json_string(o));
	return value;
}

static void check_text(struct json_object *o, const char *key, const char *expected)
{
	const char *value = json_object_to_json_string_ext(get(o, key), JSON_C_TO_STRING_PLAIN);

	check(!strcmp(value, expected), "%s is %s, not %s", key, value, expected);
}

static void check_absent(struct json_object *o, const char *key)
{
	check(!json_object_object_get_ex(o, key, NULL), "%s in %s", key,
	      json_object_to_json_string(o));
}

static struct json_object *document_of(struct snapshot *snapshot)
{
	static const struct kernel_names names;
	static struct report report;

	report_init(&report);
	report.source = "histograms";
	report.kernel = "6.12.0-test";
	report.names = &names;
	report.stamps_on_start = report.stamps_on_end = 1;
	report.has_polls = snapshot->sums[SNAPSHOT_POLL];
	check(!snapshot_report(snapshot, &report), "no room");
	snapshot_free(snapshot);
	return report_json(&report);
}

static struct json_object *path_of(struct json_object *document, int path)
{
	return json_object_array_get_idx(get(document, "paths"), path);
}

static void check_refused(const char *line)
{
	FILE *file = fmemopen((void *)line, strlen(line), "r");
	struct snapshot snapshot;
	char why[128] = "";

	check(snapshot_read(&snapshot, file, why, sizeof(why)), "%s", line);
	check(!strncmp(why, line, strlen(why)) && *why && !strchr(why, '\n'), "%s", why);
	fclose(file);
}

static void check_subtracts(const char *before, const char *now, bool possible)
{
	struct snapshot old = snapshot_of(before), new = snapshot_of(now);

	check(snapshot_subtract(&new, &old) == possible, "%s less %s", now, before);
	snapshot_free(&old);
	snapshot_free(&new);
}

static void check_difference(void)
{
	struct snapshot old = snapshot_of("count entered 3\nsum receive wake 2 30.500\n"
					  "bucket receive wake 10.000 11.000 2\n");
	struct snapshot new = snapshot_of("count entered 5\nsum receive wake 4 60.100\n"
					  "bucket receive wake 9.000 10.000 1\n"
					  "bucket receive wake 10.000 11.000 3\n");

	check(snapshot_subtract(&new, &old), "nothing went back");
	check(new.counts.entered == 2, "%llu entered", new.counts.entered);
	check(new.buckets[0].count == 1 && new.buckets[1].count == 1, "buckets");
	check(new.sums[NET_PATH_WAKE] == 30, "sum %llu", new.sums[NET_PATH_WAKE]);
	snapshot_free(&old);
	snapshot_free(&new);
	check_subtracts("count sent 3\n", "count sent 2\n", false);
	check_subtracts("sum in ip 3 9.000\n", "sum in ip 2 9.000\n", false);
	check_subtracts("bucket send done 10.000 11.000 2\n", "bucket send done 10.000 11.000 1\n",
			false);
	check_subtracts("bucket send done 10.000 11.000 2\n", "count sent 9\n", false);
	check_subtracts("sum napi poll 2 11.000\n", "sum napi poll 2 10.999\n", false);
	check_subtracts(RECEIVED, RECEIVED, true);
}

static void check_same(const char *one, const char *other, bool same)
{
	struct snapshot first = snapshot_of(one), second = snapshot_of(other);

	check(snapshot_same(&first, &second) == same, "%s and %s", one, other);
	snapshot_free(&first);
	snapshot_free(&second);
}

static void check_settled(void)
{
	check_same(RECEIVED, RECEIVED, true);
	check_same(RECEIVED, RECEIVED "sum napi poll 2 11.000\n", true);
	check_same("count entered 1\n", "count entered 2\n", false);
	/* One that was counted as entered before has come further. */
	check_same("sum in ip 2 11.000\n", "sum in ip 3 11.000\n", false);
	check_same("sum send total 2 11.000\n", "sum send total 3 12.000\n", false);
}

/* In our buckets. */
static void check_plain(void)
{
	struct snapshot snapshot = snapshot_of(RECEIVED);
	struct json_object *document = document_of(&snapshot);
	struct json_object *in = get(document, "in"), *receive = path_of(document, 0), *row;

	check_text(document, "source", "\"histograms\"");
	check_text(document, "merged", "1");
	check_text(document, "samples", "null");
	check_text(document, "hooks", "null");
	check_text(document, "flags", "{\"negative\":5}");
	check_text(document, "histograms",
		   "{\"entered\":7,\"sent\":2,\"dropped\":3,\"unclear\":4,\"stale\":6}");
	check_text(document, "napi", "[]");
	check_text(document, "polls", "null");

	check_text(in, "seen", "{\"driver\":8,\"stack\":8,\"ip\":0,\"route\":7}");
	check(json_object_array_length(get(in, "layers")) == 3, "nobody was at ip");
	row = json_object_array_get_idx(get(in, "layers"), 0);
	check_text(row, "from", "\"driver\"");
	check_text(row, "to", "\"driver\"");
	check_text(row, "sum", "2000");
	row = json_object_array_get_idx(get(in, "layers"), 2);
	check_text(row, "from", "\"stack\"");
	check_text(row, "to", "\"route\"");

	check_text(receive, "all_passed", "true");
	check_text(receive, "ends",
		   "{\"delivered\":6,\"dropped\":0,\"transmitted\":0,\"consumed\":0}");
	check_text(receive, "seen",
		   "{\"route\":7,\"local\":7,\"transport\":0,\"socket\":0,\"wake\":0,\"user\":6}");
	check_text(receive, "path_time",
		   "{\"from\":\"driver\",\"to\":\"user\",\"count\":6,\"sum\":6600,\"min\":1088,"
		   "\"max\":1151,\"bounded\":true,\"buckets\":[[113,6]]}");
	check(json_object_equal(get(receive, "path_time"), get(receive, "since_entry")),
	      "a path has no other before it");
	for (const char *const *key = (const char *[]){ "seen_dropped", "drop_reasons", "negative",
							"overflow", "reentered", NULL };
	     *key; key++)
		check_absent(receive, *key);
	row = json_object_array_get_idx(get(receive, "layers"), 0);
	check_text(row, "from", "\"route\"");
	check_text(row, "to", "\"local\"");
	row = json_object_array_get_idx(get(receive, "layers"), 1);
	check_text(row, "from", "\"local\"");
	check_text(row, "max", "1087");
	check_text(row, "buckets", "[[110,4],[112,2]]");
	check_absent(row, "edges");
	json_object_put(document);
}

/* A clock of 0.4 ns, of which one waited longer than there are buckets, and one that a bridge
 * forwarded.
 */
static void check_edges(void)
{
	struct snapshot snapshot = snapshot_of(
		"sum forward queue 4 112589990684041.600\n"
		"bucket forward queue 10.000 10.400 2\nbucket forward queue 11.600 12.000 1\n"
		"bucket forward queue 112589990684000.123 inf 1\n"
		"sum send transport 1 3.200\nbucket send transport 3.200 3.600 1\n"
		"sum send total 1 8.800\nbucket send total 8.800 9.200 1\n"
		"sum napi poll 2 20.000\nbucket napi poll 10.000 10.400 2\n");
	struct json_object *document = document_of(&snapshot);
	struct json_object *forward = path_of(document, 1), *send = path_of(document, 2), *row;

	check_text(forward, "seen",
		   "{\"route\":4,\"forward\":0,\"output\":0,\"queue\":4,\"dequeue\":0,\"xmit\":0,"
		   "\"done\":0}");
	row = json_object_array_get_idx(get(forward, "layers"), 0);
	check_text(row, "from", "\"route\"");
	check_text(row, "to", "\"queue\"");
	check_text(row, "buckets", "[[0,2],[1,1],[2,1]]");
	check_text(row, "edges", "[[10,10],[11,11],[112589990684000,9223372036854775807]]");
	check_text(row, "min", "10");
	check_text(row, "max", "9223372036854775807");
	check_text(get(forward, "path_time"), "count", "0");
	check_text(send, "seen",
		   "{\"send\":1,\"transport\":1,\"output\":0,\"queue\":0,\"dequeue\":0,\"xmit\":0,"
		   "\"done\":0}");
	check_text(get(send, "ends"), "transmitted", "1");
	check_text(send, "path_time",
		   "{\"from\":\"send\",\"to\":\"done\",\"count\":1,\"sum\":8,\"min\":8,\"max\":9,"
		   "\"bounded\":true,\"buckets\":[[0,1]],\"edges\":[[8,9]]}");
	row = json_object_array_get_idx(get(document, "napi"), 1);
	check_text(row, "context", "\"all\"");
	check_text(row, "count", "2");
	check_absent(row, "work");
	json_object_put(document);
}

int main(void)
{
	static char many[1 << 16];
	struct snapshot snapshot;
	struct report *report = calloc(1, sizeof(*report));
	char *end = many;

	check_refused("bucket receive wake 10.000 11.000\n");
	check_refused("bucket receive nowhere 10.000 11.000 2\n");
	check_refused("bucket receive wake 11.000 11.000 2\n");
	check_refused("bucket receive wake 10.000 infinite 2\n");
	check_refused("sum receive wake\n");
	check_refused("perhaps receive wake 2 11.000\n");
	/* Of the first edition. */
	check_refused("sum receive stack 2 11.000\n");
	check_refused("end receive delivered 2\n");
	check_refused("sum in user 2 11.000\n");
	check_refused("sum in total 2 11.000\n");
	check_refused("sum send send 2 11.000\n");
	check_refused("sum napi total 2 11.000\n");
	check_difference();
	check_settled();
	check_plain();
	check_edges();
	for (int i = 0; i <= LOGLINEAR_ROOM; i++)
		end += sprintf(end, "bucket send done %d.500 %d.500 1\n", i, i + 1);
	snapshot = snapshot_of(many);
	report_init(report);
	check(snapshot_report(&snapshot, report), "more kinds of buckets than there is room for");
	snapshot_free(&snapshot);
	free(report);
	puts("ok snapshot");
	return 0;
}
