/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of all CPUs joined, and the JSON document made of them. */
#ifndef SKBLAB_REPORT_H
#define SKBLAB_REPORT_H

#include <json-c/json.h>

#include "names.h"
#include "pathlat.h"

#define REPORT_SCHEMA "skblab.pathlat/1"

/* Everything a report says, all CPUs joined. */
struct report {
	const char *kernel;
	const struct kernel_names *names;
	double seconds;	     /* attached */
	int ifindex;	     /* 0: every device */
	int stamps_on_start; /* net.core.path_trace, -1 if it cannot be read here */
	int stamps_on_end;
	__u64 missed; /* path samples the program was not run for */
	__u64 polls_missed;
	struct counts counts;
	struct hist path[MAX_POINTS * MAX_POINTS];
	struct hist napi[MAX_CONTEXTS * NAPI_HISTS];
};

/* Add one CPU's part. */
void hist_join(struct hist *sum, const struct hist *part);
void counts_join(struct counts *sum, const struct counts *part);

/* The document; the caller puts it. */
struct json_object *report_json(const struct report *report);

#endif /* SKBLAB_REPORT_H */
