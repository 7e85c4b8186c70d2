/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of all CPUs joined, and the JSON document made of them. */
#ifndef SKBLAB_REPORT_H
#define SKBLAB_REPORT_H

#include <json-c/json.h>

#include "hist_json.h"
#include "hooks.h"
#include "late_list.h"
#include "names.h"
#include "pathlat.h"

#define REPORT_SCHEMA "skblab.pathlat/4"

/* More hooks than the probe has. */
#define MAX_ABSENT 128

/* Of a bucket, in picoseconds: the first time in it, and the first beyond. */
struct edge {
	__u64 from;
	__u64 below; /* or EDGE_OPEN: it holds all from there on */
};

#define EDGE_OPEN (~0ULL)

/* The points that packets of each path are expected at. */
extern const __u16 path_points[NET_PATH_KINDS];

/* Of these, the points that the kernel counts before anybody knows where a packet goes. */
#define IN_POINTS                                                                                  \
	(1 << NET_PATH_DRIVER | 1 << NET_PATH_STACK | 1 << NET_PATH_IP | 1 << NET_PATH_ROUTE)

/* What the kernel counts beside its histograms; counters and nothing else. */
struct histogram_counts {
	__u64 entered;
	__u64 sent;
	__u64 dropped;
	__u64 unclear; /* freed by a driver that was sending them: dropped, or copied */
	__u64 merged;
	__u64 negative;
	__u64 stale; /* that waited while stamps went off and on */
};

/* Everything a report says, all CPUs joined; begun by report_init(). */
struct report {
	const char *kernel;
	const struct kernel_names *names;
	double seconds;	     /* attached */
	int ifindex;	     /* 0: every device */
	int stamps_on_start; /* whether net.core.path_trace is on, -1 if it cannot be read here */
	int stamps_on_end;
	const char *source; /* "hooks" or "histograms" */
	/* Only histograms: the edges of all buckets, whose numbers are no others', what the
	 * kernel counts besides, and the intervals before it is known where a packet goes.
	 */
	struct edge edges[LOGLINEAR_ROOM];
	int edge_count;
	struct histogram_counts histograms;
	struct hist in[NET_PATH_ROUTE + 1]; /* that end at each point; at none but IN_POINTS */
	bool has_polls;
	/* Only hooks. */
	bool hooks_kprobes;
	size_t hooks_attached;
	size_t absent_count;
	char absent[MAX_ABSENT][64];
	const struct config *config;
	/* For each group all paths; NULL: none is asked for. But by CPU, the last is of the
	 * packets that have no group.
	 */
	struct path_hists *groups;
	int group_count;
	const struct late_list *late_list; /* NULL: no late packets are looked for */
	struct late_counts late;
	__u64 hooks_in_flight; /* packets not at their end at the end */
	__u64 kprobes_missed;  /* calls of functions that the kernel showed no program */
	__u64 frees_unseen;    /* of packets that had come to their end before */
	struct hook_counts hooks;
	__u64 missed; /* calls that no program was run for */
	__u64 polls_missed;
	struct counts counts;
	struct path_hists paths[NET_PATH_KINDS];
	struct napi_hists napi[MAX_CONTEXTS];
};

/* Histograms without values are not all zero. */
void path_init(struct path_hists *hists);

/* Add one CPU's part. */
void path_join(struct path_hists *sum, const struct path_hists *part);
void napi_join(struct napi_hists *sum, const struct napi_hists *part);
/* For structures that are counters (__u64) and nothing else. */
void counters_join(void *sum, const void *part, size_t size);

/* All but its source, its kernel and the names of that. */
void report_init(struct report *report);

/* The document; the caller puts it. */
struct json_object *report_json(const struct report *report);

#endif /* SKBLAB_REPORT_H */
