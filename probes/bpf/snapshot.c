// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The patched kernel's own histograms: read, subtracted, brought into the form of a
 * report. Their buckets are of equal width in the unit of the kernel's clock, which
 * the file gives in nanoseconds: of a TSC they are not those of loglinear.h.
 */
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

/* A clock that is nanoseconds but for a frequency measured a little off has our buckets. */
#define ALIGNED 100000
#define PS	1000

static const struct {
	const char *name;
	size_t offset;
} count_names[] = {
	{ "entered", offsetof(struct histogram_counts, entered) },
	{ "sent", offsetof(struct histogram_counts, sent) },
	{ "merged", offsetof(struct histogram_counts, merged) },
	{ "copies", offsetof(struct histogram_counts, copies) },
	{ "reentered", offsetof(struct histogram_counts, reentered) },
	{ "negative", offsetof(struct histogram_counts, negative) },
	{ "overflow", offsetof(struct histogram_counts, overflow) },
};

static int find(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* The number of a histogram, or -1. */
static int hist_number(const char *path, const char *point)
{
	int kind = find(path_names, NET_PATH_KINDS, path), number;

	if (!strcmp(path, "napi") && !strcmp(point, "delay"))
		return SNAPSHOT_DELAY;
	if (!strcmp(path, "napi") && !strcmp(point, "poll"))
		return SNAPSHOT_POLL;
	number = strcmp(point, "total") ? find(point_names, NET_PATH_NR, point) : SNAPSHOT_TOTAL;
	return kind < 0 || number < FIRST_INTERVAL ? -1 : kind * SNAPSHOT_PATH_HISTS + number;
}

static bool add_bucket(struct snapshot *snapshot, const struct snapshot_bucket *bucket)
{
	size_t count = snapshot->bucket_count;

	/* A power of two is full. */
	if (!(count & (count - 1))) {
		struct snapshot_bucket *more =
			reallocarray(snapshot->buckets, count ? 2 * count : 1, sizeof(*more));

		if (!more)
			return false;
		snapshot->buckets = more;
	}
	snapshot->buckets[snapshot->bucket_count++] = *bucket;
	return true;
}

static bool read_count(struct snapshot *snapshot, const char *line)
{
	char name[32];
	__u64 count;

	if (sscanf(line, "count %31s %llu", name, &count) != 2)
		return false;
	for (size_t i = 0; i < sizeof(count_names) / sizeof(*count_names); i++)
		if (!strcmp(name, count_names[i].name))
			*(__u64 *)((char *)&snapshot->counts + count_names[i].offset) = count;
	return true;
}

static bool read_end(struct snapshot *snapshot, const char *line)
{
	char path[16], end[16];
	int kind, how;
	__u64 count;

	if (sscanf(line, "end %15s %15s %llu", path, end, &count) != 3)
		return false;
	kind = find(path_names, NET_PATH_KINDS, path);
	how = find(end_names, NET_PATH_ENDS, end);
	if (kind < 0 || how < 0)
		return false;
	snapshot->counts.ends[kind][how] = count;
	return true;
}

static bool read_sum(struct snapshot *snapshot, const char *line)
{
	char path[16], point[16];
	__u64 count, sum;
	int number;

	if (sscanf(line, "sum %15s %15s %llu %llu", path, point, &count, &sum) != 4)
		return false;
	number = hist_number(path, point);
	if (number < 0)
		return false;
	snapshot->sums[number] = sum;
	return true;
}

static bool read_bucket(struct snapshot *snapshot, const char *line)
{
	char path[16], point[16];
	struct snapshot_bucket bucket;
	__u64 ns[2], ps[2];

	if (sscanf(line, "bucket %15s %15s %llu.%3llu %llu.%3llu %llu", path, point, &ns[0], &ps[0],
		   &ns[1], &ps[1], &bucket.count) != 7)
		return false;
	bucket.hist = hist_number(path, point);
	bucket.edge.from = ns[0] * PS + ps[0];
	bucket.edge.below = ns[1] * PS + ps[1];
	return bucket.hist >= 0 && bucket.edge.from < bucket.edge.below &&
	       add_bucket(snapshot, &bucket);
}

static bool read_line(struct snapshot *snapshot, const char *line)
{
	if (!strncmp(line, "# no memory", 11))
		return false;
	return *line == '#' || read_count(snapshot, line) || read_end(snapshot, line) ||
	       read_sum(snapshot, line) || read_bucket(snapshot, line);
}

int snapshot_read(struct snapshot *snapshot, FILE *file, char *why, size_t why_size)
{
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	memset(snapshot, 0, sizeof(*snapshot));
	while (!ret && getline(&line, &room, file) > 0) {
		if (read_line(snapshot, line))
			continue;
		snprintf(why, why_size, "%.*s", (int)strcspn(line, "\n"), line);
		ret = -1;
	}
	free(line);
	if (ret)
		snapshot_free(snapshot);
	return ret;
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->buckets);
	memset(snapshot, 0, sizeof(*snapshot));
}

static bool same_bucket(const struct snapshot_bucket *one, const struct snapshot_bucket *other)
{
	return one->hist == other->hist && one->edge.from == other->edge.from &&
	       one->edge.below == other->edge.below;
}

static bool subtract(__u64 *now, const __u64 *before, size_t size)
{
	for (size_t i = 0; i < size / sizeof(*now); i++) {
		if (now[i] < before[i])
			return false;
		now[i] -= before[i];
	}
	return true;
}

bool snapshot_subtract(struct snapshot *now, const struct snapshot *before)
{
	size_t i = 0;

	/* What holds something goes on doing so, in the same order. */
	for (size_t b = 0; b < before->bucket_count; b++, i++) {
		const struct snapshot_bucket *old = &before->buckets[b];

		while (i < now->bucket_count && !same_bucket(&now->buckets[i], old))
			i++;
		if (i == now->bucket_count || now->buckets[i].count < old->count)
			return false;
		now->buckets[i].count -= old->count;
	}
	return subtract((__u64 *)&now->counts, (const __u64 *)&before->counts,
			sizeof(now->counts)) &&
	       subtract(now->sums, before->sums, sizeof(now->sums));
}

static bool nearly(__u64 one, __u64 other)
{
	__u64 apart = one > other ? one - other : other - one;

	return apart <= other / ALIGNED + 1;
}

/* The edges of our bucket if it is the same, but for what is no matter. */
static struct edge aligned(const struct edge *edge)
{
	__u64 ns = (edge->from + PS / 2) / PS;
	__u32 index;

	if (ns >> 32)
		return *edge;
	index = loglinear_index(ns);
	for (__u32 i = index; i <= index + 1 && i < LOGLINEAR_BUCKETS; i++) {
		struct edge ours = {
			.from = loglinear_lower(i) * PS,
			.below = loglinear_lower(i + 1) * PS,
		};

		if (nearly(edge->from, ours.from) && nearly(edge->below, ours.below))
			return ours;
	}
	return *edge;
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *one = a, *other = b;

	if (one->from != other->from)
		return one->from < other->from ? -1 : 1;
	return (one->below > other->below) - (one->below < other->below);
}

/* Every bucket's edges once, in their order, and those of the whole paths last. */
static int collect_edges(const struct snapshot *snapshot, struct report *report)
{
	struct edge *edges = calloc(snapshot->bucket_count + 1, sizeof(*edges));
	size_t count = 0, kept = 0;

	if (!edges)
		return -1;
	for (size_t i = 0; i < snapshot->bucket_count; i++)
		if (snapshot->buckets[i].count)
			edges[count++] = aligned(&snapshot->buckets[i].edge);
	qsort(edges, count, sizeof(*edges), compare_edges);
	for (size_t i = 0; i < count; i++)
		if (!kept || compare_edges(&edges[kept - 1], &edges[i]))
			edges[kept++] = edges[i];
	if (kept <= LOGLINEAR_ROOM - NET_PATH_KINDS)
		memcpy(report->edges, edges, kept * sizeof(*edges));
	free(edges);
	report->edge_count = kept;
	return kept <= LOGLINEAR_ROOM - NET_PATH_KINDS ? 0 : -1;
}

static struct hist *hist_of(struct report *report, struct hist *totals, int number)
{
	int path = number / SNAPSHOT_PATH_HISTS, point = number % SNAPSHOT_PATH_HISTS;

	if (number == SNAPSHOT_DELAY)
		return &report->napi[0].delay;
	if (number == SNAPSHOT_POLL)
		return &report->napi[0].time;
	return point == SNAPSHOT_TOTAL ? &totals[path]
				       : &report->paths[path].interval[point - FIRST_INTERVAL];
}

static void place_all(const struct snapshot *snapshot, struct report *report, struct hist *totals)
{
	for (size_t i = 0; i < snapshot->bucket_count; i++) {
		const struct snapshot_bucket *bucket = &snapshot->buckets[i];
		struct edge edge = aligned(&bucket->edge), *found;

		if (!bucket->count)
			continue;
		found = bsearch(&edge, report->edges, report->edge_count, sizeof(edge),
				compare_edges);
		hist_of(report, totals, bucket->hist)->buckets[found - report->edges] +=
			bucket->count;
	}
	for (int number = 0; number < SNAPSHOT_HISTS; number++)
		if (snapshot->sums[number])
			hist_of(report, totals, number)->sum = snapshot->sums[number];
}

/* Where nothing was before its path, a packet's total is the path's own time. Else of
 * this only the sum is known, which is that of its intervals, and no single value.
 */
static void place_whole(struct report *report, int path, const struct hist *total, int spare)
{
	struct path_hists *hists = &report->paths[path];
	__u64 sum = 0, apart;

	for (int i = 0; i < INTERVALS; i++)
		sum += hists->interval[i].sum;
	apart = total->sum > sum ? total->sum - sum : sum - total->sum;
	/* Each sum is rounded twice. */
	if (apart <= 2 * (INTERVALS + 1)) {
		hists->only = *total;
		return;
	}
	report->has_before[path] = true;
	hists->again_total = *total;
	hists->again.sum = sum;
	for (int i = 0; i < spare; i++) {
		if (!total->buckets[i])
			continue;
		hists->again.buckets[spare] += total->buckets[i];
		report->edges[spare] = (struct edge){ .below = report->edges[i].below };
	}
}

static void take_counts(const struct histogram_counts *counts, struct report *report)
{
	report->histograms = *counts;
	report->counts.merged = counts->merged;
	report->counts.flag_negative = counts->negative;
	report->counts.flag_overflow = counts->overflow;
	for (int path = 0; path < NET_PATH_KINDS; path++)
		memcpy(report->counts.paths[path].ends, counts->ends[path],
		       sizeof(counts->ends[path]));
}

int snapshot_report(const struct snapshot *snapshot, struct report *report)
{
	struct hist totals[NET_PATH_KINDS];
	int kept;

	if (collect_edges(snapshot, report))
		return -1;
	for (int path = 0; path < NET_PATH_KINDS; path++)
		hist_init(&totals[path]);
	place_all(snapshot, report, totals);
	take_counts(&snapshot->counts, report);
	kept = report->edge_count;
	/* A place for each path's own time, behind all edges of totals. */
	for (int path = 0; path < NET_PATH_KINDS; path++)
		place_whole(report, path, &totals[path], kept + path);
	report->edge_count += NET_PATH_KINDS;
	return 0;
}
