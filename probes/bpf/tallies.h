/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the CPUs have counted, each by itself, together, and as a JSON document. */
#ifndef SKBLAB_TALLIES_H
#define SKBLAB_TALLIES_H

#include <json-c/json.h>

#include "tally.h"

#define TALLIES_SCHEMA "skblab.pktsink-counts/1"

struct tallies {
	const char *kernel;
	const char *device;
	int ifindex;
	double seconds; /* attached */
	enum sink_level level;
	__s64 tai_offset_ns;
	__u64 transmission; /* see transmission_next() */
	int cpus;
	struct tally *by_cpu; /* as they were read: with those of transmissions before */
};

/* Add one CPU's part. */
void tally_join(struct tally *sum, const struct tally *part);

/* Have all CPUs count the same transmission: one that has received none of it has no packets. */
void tallies_turn(struct tallies *tallies);

/* The document; the caller puts it. */
struct json_object *tallies_json(const struct tallies *tallies);

#endif /* SKBLAB_TALLIES_H */
