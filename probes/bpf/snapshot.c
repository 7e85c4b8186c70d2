// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The patched kernel's own histograms: read, subtracted, brought into the form of a
 * report. Their buckets are 8 for each power of two of the kernel's clock, and the file
 * gives them in nanoseconds: they are seldom those of loglinear.h.
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
	{ "dropped", offsetof(struct histogram_counts, dropped) },
	{ "unclear", offsetof(struct histogram_counts, unclear) },
	{ "merged", offsetof(struct histogram_counts, merged) },
	{ "negative", offsetof(struct histogram_counts, negative) },
	{ "stale", offsetof(struct histogram_counts, stale) },
};

static int find(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* The points that a row has histograms of. */
static unsigned int points_of(int row)
{
	return row == SNAPSHOT_IN ? IN_POINTS
				  : path_points[row] & ~(IN_POINTS | 1 << NET_PATH_SEND);
}

/* The number of a histogram, or -1. */
static int hist_number(const char *path, const char *point)
{
	int row = strcmp(path, "in") ? find(path_names, NET_PATH_KINDS, path) : SNAPSHOT_IN;
	int number = find(point_names, NET_PATH_NR, point);

	if (!strcmp(path, "napi") && !strcmp(point, "delay"))
		return SNAPSHOT_DELAY;
	if (!strcmp(path, "napi") && !strcmp(point, "poll"))
		return SNAPSHOT_POLL;
	if (row < 0)
		return -1;
	if (row != SNAPSHOT_IN && !strcmp(point, "total"))
		number = SNAPSHOT_TOTAL;
	else if (number < 0 || !(points_of(row) >> number & 1))
		return -1;
	return row * SNAPSHOT_ROW_HISTS + number;
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
	snapshot->packets[number] = count;
	snapshot->sums[number] = sum;
	return true;
}

static bool read_bucket(struct snapshot *snapshot, const char *line)
{
	char path[16], point[16], below[32];
	struct snapshot_bucket bucket;
	__u64 ns, ps;

	if (sscanf(line, "bucket %15s %15s %llu.%3llu %31s %llu", path, point, &ns, &ps, below,
		   &bucket.count) != 6)
		return false;
	bucket.hist = hist_number(path, point);
	bucket.edge.from = ns * PS + ps;
	if (!strcmp(below, "inf"))
		bucket.edge.below = EDGE_OPEN;
	else if (sscanf(below, "%llu.%3llu", &ns, &ps) == 2)
		bucket.edge.below = ns * PS + ps;
	else
		return false;
	return bucket.hist >= 0 && bucket.edge.from < bucket.edge.below &&
	       add_bucket(snapshot, &bucket);
}

static bool read_line(struct snapshot *snapshot, const char *line)
{
	return *line == '#' || read_count(snapshot, line) || read_sum(snapshot, line) ||
	       read_bucket(snapshot, line);
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

bool snapshot_same(const struct snapshot *one, const struct snapshot *other)
{
	/* Polls come without packets, too. */
	return !memcmp(&one->counts, &other->counts, sizeof(one->counts)) &&
	       !memcmp(one->packets, other->packets, SNAPSHOT_DELAY * sizeof(*one->packets));
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
	       subtract(now->packets, before->packets, sizeof(now->packets)) &&
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

/* Every bucket's edges once, in their order. */
static int collect_edges(const struct snapshot *snapshot, struct report *report)
{
	/* One more, since none is asked for without buckets. */
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
	if (kept <= LOGLINEAR_ROOM)
		memcpy(report->edges, edges, kept * sizeof(*edges));
	free(edges);
	report->edge_count = kept;
	return kept <= LOGLINEAR_ROOM ? 0 : -1;
}

static struct hist *hist_of(struct report *report, int number)
{
	int row = number / SNAPSHOT_ROW_HISTS, point = number % SNAPSHOT_ROW_HISTS;

	if (number == SNAPSHOT_DELAY)
		return &report->napi[0].delay;
	if (number == SNAPSHOT_POLL)
		return &report->napi[0].time;
	if (row == SNAPSHOT_IN)
		return &report->in[point];
	return point == SNAPSHOT_TOTAL ? &report->paths[row].only
				       : &report->paths[row].interval[point - FIRST_INTERVAL];
}

int snapshot_report(const struct snapshot *snapshot, struct report *report)
{
	if (collect_edges(snapshot, report))
		return -1;
	report->histograms = snapshot->counts;
	for (size_t i = 0; i < snapshot->bucket_count; i++) {
		const struct snapshot_bucket *bucket = &snapshot->buckets[i];
		struct edge edge = aligned(&bucket->edge), *found;

		if (!bucket->count)
			continue;
		found = bsearch(&edge, report->edges, report->edge_count, sizeof(edge),
				compare_edges);
		hist_of(report, bucket->hist)->buckets[found - report->edges] += bucket->count;
	}
	for (int number = 0; number < SNAPSHOT_HISTS; number++)
		if (snapshot->sums[number])
			hist_of(report, number)->sum = snapshot->sums[number];
	return 0;
}
