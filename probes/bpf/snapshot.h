/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The patched kernel's own histograms, as its debugfs shows them at one moment. */
#ifndef SKBLAB_SNAPSHOT_H
#define SKBLAB_SNAPSHOT_H

#include <stdio.h>

#include "report.h"

/* A histogram for each point of each path, for the path's total, and two of polls. */
enum {
	SNAPSHOT_TOTAL = NET_PATH_NR,
	SNAPSHOT_PATH_HISTS,
	SNAPSHOT_DELAY = NET_PATH_KINDS * SNAPSHOT_PATH_HISTS,
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
	__u64 sums[SNAPSHOT_HISTS]; /* ns */
	/* Those that hold something, in the order of the file: by histogram, then by time. */
	struct snapshot_bucket *buckets;
	size_t bucket_count;
};

/* Read @file into an empty snapshot; 0, or -1 with the line in @why that is not as expected. */
int snapshot_read(struct snapshot *snapshot, FILE *file, char *why, size_t why_size);
void snapshot_free(struct snapshot *snapshot);

/* Take away from @now what was there @before; false if there was more of anything. */
bool snapshot_subtract(struct snapshot *now, const struct snapshot *before);

/* Put what was counted into an empty report; -1 if it has no room for so many kinds of buckets. */
int snapshot_report(const struct snapshot *snapshot, struct report *report);

#endif /* SKBLAB_SNAPSHOT_H */
