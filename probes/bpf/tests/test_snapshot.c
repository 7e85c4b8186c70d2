// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's own histograms: read, subtracted, and what a document says of them. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "snapshot.h"

/* Of a clock of a nanosecond, but for a millionth; nothing was before the path. */
#define RECEIVED                                                                                   \
	"# count <what> <packets>\n"                                                               \
	"count entered 7\ncount sent 0\ncount merged 1\ncount copies 2\ncount reentered 0\n"       \
	"count negative 0\ncount overflow 0\ncount of_later_kernels 5\n"                           \
	"end receive delivered 6\nend receive dropped 1\n"                                         \
	"sum receive total 6 6600.006\nbucket receive total 1088.001 1152.001 6\n"                 \
	"sum receive stack 6 600.000\nbucket receive stack 100.000 104.000 6\n"                    \
	"sum receive user 6 6000.005\nbucket receive user 960.000 992.000 4\n"                     \
	"bucket receive user 1024.001 1088.001 2\n"

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

static struct json_object *receive_of(struct json_object *document)
{
	return json_object_array_get_idx(get(document, "paths"), 0);
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
	struct snapshot old = snapshot_of("count entered 3\nsum receive ip 2 30.500\n"
					  "bucket receive ip 10.000 11.000 2\n");
	struct snapshot new = snapshot_of("count entered 5\nsum receive ip 4 60.100\n"
					  "bucket receive ip 9.000 10.000 1\n"
					  "bucket receive ip 10.000 11.000 3\n");

	check(snapshot_subtract(&new, &old), "nothing went back");
	check(new.counts.entered == 2, "%llu entered", new.counts.entered);
	check(new.buckets[0].count == 1 && new.buckets[1].count == 1, "buckets");
	check(new.sums[NET_PATH_IP] == 30, "sum %llu", new.sums[NET_PATH_IP]);
	snapshot_free(&old);
	snapshot_free(&new);
	check_subtracts("count sent 3\n", "count sent 2\n", false);
	check_subtracts("end send dropped 3\n", "end send dropped 0\n", false);
	check_subtracts("bucket send done 10.000 11.000 2\n", "bucket send done 10.000 11.000 1\n",
			false);
	check_subtracts("bucket send done 10.000 11.000 2\n", "count sent 9\n", false);
	check_subtracts("sum napi poll 2 11.000\n", "sum napi poll 2 10.999\n", false);
	check_subtracts(RECEIVED, RECEIVED, true);
}

/* In our buckets; the whole path is what the packets' totals are. */
static void check_plain(void)
{
	struct snapshot snapshot = snapshot_of(RECEIVED);
	struct json_object *document = document_of(&snapshot);
	struct json_object *receive = receive_of(document), *row;

	check_text(document, "source", "\"histograms\"");
	check_text(document, "merged", "1");
	check_text(document, "samples", "null");
	check_text(document, "flags", "{\"negative\":0,\"overflow\":0,\"copy\":2}");
	check_text(document, "histograms", "{\"entered\":7,\"sent\":0,\"reentered\":0}");
	check_text(document, "napi", "[]");
	check_text(document, "polls", "null");
	check_text(receive, "ends",
		   "{\"delivered\":6,\"dropped\":1,\"transmitted\":0,\"consumed\":0}");
	check_text(receive, "unsettled", "0");
	check_text(receive, "reentered", "0");
	check_text(receive, "seen_dropped", "{}");
	check_absent(receive, "copies");
	check_absent(receive, "negative");
	check_absent(receive, "drop_reasons");
	check_text(get(receive, "seen"), "driver", "6");
	check_text(get(receive, "seen"), "ip", "0");
	check_text(receive, "path_time",
		   "{\"from\":\"driver\",\"to\":\"user\",\"count\":6,\"sum\":6600,\"min\":1088,"
		   "\"max\":1151,\"bounded\":true,\"buckets\":[[113,6]]}");
	row = json_object_array_get_idx(get(receive, "layers"), 1);
	check_text(row, "from", "\"stack\"");
	check_text(row, "max", "1087");
	check_text(row, "buckets", "[[110,4],[112,2]]");
	check_absent(row, "edges");
	json_object_put(document);
}

/* A clock of 0.4 ns, and packets that were somewhere before. */
static void check_edges(void)
{
	struct snapshot snapshot = snapshot_of(
		"end receive delivered 3\nsum receive total 4 900.000\n"
		"bucket receive total 192.000 204.800 3\nbucket receive total 307.200 320.000 1\n"
		"sum receive stack 4 41.600\nbucket receive stack 10.000 10.400 3\n"
		"bucket receive stack 11.600 12.000 1\nsum napi poll 2 20.000\n"
		"bucket napi poll 10.000 10.400 2\n");
	struct json_object *document = document_of(&snapshot);
	struct json_object *receive = receive_of(document), *row;

	row = json_object_array_get_idx(get(receive, "layers"), 0);
	check_text(row, "buckets", "[[0,3],[1,1]]");
	check_text(row, "edges", "[[10,10],[11,11]]");
	check_text(row, "min", "10");
	check_text(row, "max", "11");
	row = get(receive, "since_entry");
	check_text(row, "edges", "[[192,204],[307,319]]");
	check_text(row, "sum", "900");
	/* Of the path's own time the sum is known, and that it was no longer. */
	row = get(receive, "path_time");
	check_text(row, "buckets", "[[0,4]]");
	check_text(row, "edges", "[[0,319]]");
	check_text(row, "sum", "41");
	check_absent(receive, "reentered");
	check_text(receive, "unsettled", "1");
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

	check_refused("bucket receive ip 10.000 11.000\n");
	check_refused("bucket receive nowhere 10.000 11.000 2\n");
	check_refused("bucket receive ip 11.000 11.000 2\n");
	check_refused("sum receive driver 2 11.000\n");
	check_refused("end receive lost 2\n");
	check_refused("# no memory for receive ip\n");
	check_difference();
	check_plain();
	check_edges();
	for (int i = 0; i < LOGLINEAR_ROOM; i++)
		end += sprintf(end, "bucket send done %d.500 %d.500 1\n", i, i + 1);
	snapshot = snapshot_of(many);
	report_init(report);
	check(snapshot_report(&snapshot, report), "more kinds of buckets than there is room for");
	snapshot_free(&snapshot);
	free(report);
	puts("ok snapshot");
	return 0;
}
