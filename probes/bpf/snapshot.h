/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The patched kernel's own histograms, as its debugfs shows them at one moment. */
#ifndef SKBLAB_SNAPSHOT_H
#define SKBLAB_SNAPSHOT_H

#include <stdio.h>

#include "report.h"

/* A row for each path, and one for packets of which nobody knows yet where they go. In each a
 * histogram for each point and one for the path's total; and two of polls.
 */
enum {
	SNAPSHOT_IN = NET_PATH_KINDS,
	SNAPSHOT_ROWS,
	SNAPSHOT_TOTAL = NET_PATH_NR,
	SNAPSHOT_ROW_HISTS,
	SNAPSHOT_DELAY = SNAPSHOT_ROWS * SNAPSHOT_ROW_HISTS,
	SNAPSHOT_POLL,
	SNAPSHOT_HISTS
};

struct snapshot_bucket {
	int hist;
	struct edge edge;
	__u64 count;
};

struct snapshot {
	struct histogram_counts counts;
	__u64 packets[SNAPSHOT_HISTS]; /* or polls */
	__u64 sums[SNAPSHOT_HISTS];    /* ns */
	/* Those that hold something, in the order of the file: by histogram, then by time. */
	struct snapshot_bucket *buckets;
	size_t bucket_count;
};

/* Read @file into an empty snapshot; 0, or -1 with the line in @why that is not as expected. */
int snapshot_read(struct snapshot *snapshot, FILE *file, char *why, size_t why_size);
void snapshot_free(struct snapshot *snapshot);

/* Whether no packet passed a point from one reading to the other. */
bool snapshot_same(const struct snapshot *one, const struct snapshot *other);

/* Take away from @now what was there @before; false if there was more of anything. */
bool snapshot_subtract(struct snapshot *now, const struct snapshot *before);

/* Put what was counted into an empty report; -1 if it has no room for so many kinds of buckets. */
int snapshot_report(const struct snapshot *snapshot, struct report *report);

#endif /* SKBLAB_SNAPSHOT_H */
