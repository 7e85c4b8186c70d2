/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The JSON document of pktsink. */
#ifndef SKBLAB_ARRIVALS_H
#define SKBLAB_ARRIVALS_H

#include <json-c/json.h>

#include "clock.h"
#include "stream.h"

#define ARRIVALS_SCHEMA "skblab.pktsink/1"

struct arrivals {
	const char *kernel;
	const char *device;
	int ifindex;
	double seconds; /* attached */
	struct clock_report clock;
	const struct sink_config *config;
	const char *stamper; /* device; NULL: packets are as the generator made them */
	__u64 stamped;
	__u64 unstamped;
	struct sink_counts counts;   /* of all CPUs */
	const struct stream *stream; /* at its end */
};

/* Add one CPU's part; begun by counts_init(). */
void counts_init(struct sink_counts *counts);
void counts_join(struct sink_counts *sum, const struct sink_counts *part);

/* The document; the caller puts it. */
struct json_object *arrivals_json(const struct arrivals *arrivals);

#endif /* SKBLAB_ARRIVALS_H */
