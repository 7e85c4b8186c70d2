// SPDX-License-Identifier: GPL-2.0-or-later
/* Any two texts in place of the kernel's histograms: read, subtracted, made a document of. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "fuzz.h"
#include "snapshot.h"

/* Whether it was read; else the line that was not as expected is named. */
static bool read_text(const __u8 *text, size_t size, struct snapshot *snapshot)
{
	/* fmemopen() refuses nothing to read. */
	FILE *file = size ? fmemopen((void *)text, size, "r") : fopen("/dev/null", "r");
	char why[128] = "";
	bool good;

	check(file, "no file of %zu bytes", size);
	good = !snapshot_read(snapshot, file, why, sizeof(why));
	fclose(file);
	check(good || (!strchr(why, '\n') && strlen(why) < sizeof(why)), "%s", why);
	return good;
}

/* All of a histogram, wherever it lies. */
static __u64 counted(const struct snapshot *snapshot, int number)
{
	__u64 count = 0;

	for (size_t i = 0; i < snapshot->bucket_count; i++)
		if (snapshot->buckets[i].hist == number)
			count += snapshot->buckets[i].count;
	return count;
}

static void check_document(const struct snapshot *snapshot)
{
	static const struct kernel_names names;
	static struct report report;
	struct json_object *document, *again;
	const char *text;

	report_init(&report);
	report.source = "histograms";
	report.kernel = "6.12.0-fuzz";
	report.names = &names;
	report.has_polls = snapshot->sums[SNAPSHOT_POLL];
	if (snapshot_report(snapshot, &report))
		return;
	check(report.edge_count <= LOGLINEAR_ROOM, "%d edges", report.edge_count);
	for (int point = 0; point <= NET_PATH_ROUTE; point++)
		check(hist_count(&report.in[point]) ==
			      counted(snapshot, SNAPSHOT_IN * SNAPSHOT_ROW_HISTS + point),
		      "those that came in to point %d", point);
	for (int path = 0; path < NET_PATH_KINDS; path++) {
		const struct path_hists *hists = &report.paths[path];
		int first = path * SNAPSHOT_ROW_HISTS;

		for (int i = 0; i < INTERVALS; i++)
			check(hist_count(&hists->interval[i]) ==
				      counted(snapshot, first + FIRST_INTERVAL + i),
			      "interval %d of path %d", i, path);
		check(hist_count(&hists->only) == counted(snapshot, first + SNAPSHOT_TOTAL),
		      "total of path %d", path);
	}
	document = report_json(&report);
	text = json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN);
	again = json_tokener_parse(text);
	check(again, "no JSON: %s", text);
	json_object_put(again);
	json_object_put(document);
}

/* Up to the first zero byte is what was there at the beginning. */
int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	const __u8 *zero = memchr(data, 0, size);
	size_t first = zero ? (size_t)(zero - data) : 0;
	struct snapshot before, now, same;
	const __u8 *second = zero ? zero + 1 : data;

	if (!read_text(data, first, &before))
		return 0;
	if (read_text(second, size - (second - data), &now)) {
		check_document(&now);
		check(read_text(second, size - (second - data), &same), "read once only");
		if (snapshot_subtract(&same, &before))
			check_document(&same);
		snapshot_free(&same);
		snapshot_free(&now);
	}
	snapshot_free(&before);
	return 0;
}
