// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON document `skblab.pktsink/1`. */
#include <string.h>

#include "arrivals.h"
#include "hist_json.h"
#include "json.h"
#include "tallies.h"

/* pktgen writes whole microseconds. */
#define PKTGEN_RESOLUTION_NS 1000

void counts_init(struct sink_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	hist_init(&counts->latency);
	hist_init(&counts->inter_arrival);
	hist_init(&counts->jitter);
}

void counts_join(struct sink_counts *sum, const struct sink_counts *part)
{
	tally_join(&sum->tally, &part->tally);
	hist_join(&sum->latency, &part->latency);
	hist_join(&sum->inter_arrival, &part->inter_arrival);
	hist_join(&sum->jitter, &part->jitter);
}

static struct json_object *clock_json(const struct clock_report *clock)
{
	struct json_object *o = json_object_new_object(), *tai = json_object_new_object();

	json_object_object_add(tai, "start", json_object_new_int(clock->tai_start));
	json_object_object_add(tai, "end", json_object_new_int(clock->tai_end));
	json_object_object_add(o, "tai_offset_s", tai);
	add_u64(o, "steps", clock->steps);
	json_object_object_add(o, "stepped_ns", json_object_new_int64(clock->stepped_ns));
	return o;
}

/* By whom, and how exactly: the coarsest. */
static struct json_object *stamps_json(const struct arrivals *arrivals)
{
	const __u64 *by = arrivals->stream->stamped;
	struct json_object *o = json_object_new_object(), *egress = NULL;
	int resolution = by[STAMPED_BY_PKTGEN] ? PKTGEN_RESOLUTION_NS : 1;
	bool any = by[STAMPED_BY_PKTGEN] || by[STAMPED_AT_EGRESS] || by[STAMPED_BY_SENDER];

	add_u64(o, "none", by[STAMPED_NOT]);
	add_u64(o, "pktgen", by[STAMPED_BY_PKTGEN]);
	add_u64(o, "egress", by[STAMPED_AT_EGRESS]);
	add_u64(o, "sender", by[STAMPED_BY_SENDER]);
	json_object_object_add(o, "resolution_ns", any ? json_object_new_int(resolution) : NULL);
	if (arrivals->stamper) {
		egress = json_object_new_object();
		add_text(egress, "device", arrivals->stamper);
		add_u64(egress, "stamped", arrivals->stamped);
		add_u64(egress, "failed", arrivals->unstamped);
	}
	json_object_object_add(o, "stamper", egress);
	return o;
}

static struct json_object *packets_json(const struct arrivals *arrivals)
{
	const struct order *order = &arrivals->stream->order;
	struct json_object *o = json_object_new_object();

	add_u64(o, "seen", arrivals->counts.tally.seen);
	add_u64(o, "foreign", arrivals->counts.tally.foreign);
	add_u64(o, "received", order->distinct + order->duplicates + order->too_old);
	add_u64(o, "merged", arrivals->counts.tally.merged);
	add_u64(o, "distinct", order->distinct);
	add_u64(o, "duplicates", order->duplicates);
	add_u64(o, "reordered", order->reordered);
	add_u64(o, "furthest_behind", order->furthest);
	add_u64(o, "too_old", order->too_old);
	add_u64(o, "highest", order->highest);
	add_u64(o, "lost", order_lost(order));
	add_u64(o, "last_lost", order_last_lost(order));
	add_u64(o, "outside", arrivals->stream->outside);
	return o;
}

/* Which of the packets' times and anomalies count, since the first one arrived. */
static struct json_object *span_json(const struct arrivals *arrivals)
{
	const struct sink_config *config = arrivals->config;
	const struct stream *stream = arrivals->stream;
	struct json_object *o = json_object_new_object();
	__u64 first = stream->first_ns - arrivals->config->tai_offset_ns;

	json_object_object_add(o, "first_packet_ns",
			       stream->first_ns ? json_object_new_uint64(first) : NULL);
	add_u64(o, "last_packet_ns", stream_since(stream, stream->last_ns));
	add_u64(o, "from_ns", config->begin_ns);
	json_object_object_add(o, "until_ns",
			       config->end_ns ? json_object_new_uint64(config->end_ns) : NULL);
	return o;
}

static struct json_object *hist_json(const struct hist *hist)
{
	struct json_object *o = json_object_new_object();

	hist_add(o, hist);
	return o;
}

static struct json_object *gap_json(const struct anomaly *gap)
{
	struct json_object *o = json_object_new_object();

	add_u64(o, "begin_ns", gap->begin_ns);
	add_u64(o, "end_ns", gap->end_ns);
	add_u64(o, "packets", gap->packets);
	add_u64(o, "sequence", gap->sequence);
	return o;
}

static struct json_object *run_json(const struct anomaly *run)
{
	struct json_object *o = gap_json(run);

	json_object_object_add(o, "sent_ns",
			       json_object_new_int64(run->last_stamp_ns - run->first_stamp_ns));
	add_u64(o, "sum_ns", run->sum_ns);
	add_u64(o, "min_ns", run->min_ns);
	add_u64(o, "max_ns", run->max_ns);
	json_object_object_add(o, "open_begin", json_object_new_boolean(run->open_begin));
	json_object_object_add(o, "open_end", json_object_new_boolean(run->open_end));
	return o;
}

static void add_kept(struct json_object *to, const struct kept *kept,
		     struct json_object *(*row_json)(const struct anomaly *row))
{
	__u64 recorded = kept->count < KEPT ? kept->count : KEPT;
	struct json_object *rows = json_object_new_array_ext(recorded);

	add_u64(to, "count", kept->count);
	add_u64(to, "packets", kept->packets);
	add_u64(to, "longest", kept->longest);
	add_u64(to, "not_recorded", kept->count - recorded);
	for (__u64 i = 0; i < recorded; i++)
		json_object_array_add(rows, row_json(&kept->rows[i]));
	json_object_object_add(to, "recorded", rows);
}

static struct json_object *late_json(const struct arrivals *arrivals)
{
	const struct sink_config *config = arrivals->config;
	struct json_object *rows = json_object_new_array();

	for (int i = 0; i < THRESHOLDS && config->late_ns[i]; i++) {
		const struct late *late = &arrivals->stream->late[i];
		struct json_object *o = json_object_new_object(), *runs = json_object_new_object();

		add_u64(o, "threshold_ns", config->late_ns[i]);
		add_u64(o, "in_a_row", config->in_a_row);
		add_u64(o, "packets_late", late->packets);
		add_kept(runs, &late->kept, run_json);
		json_object_object_add(o, "runs", runs);
		json_object_array_add(rows, o);
	}
	return rows;
}

struct json_object *arrivals_json(const struct arrivals *arrivals)
{
	struct json_object *o = json_object_new_object(), *gaps = json_object_new_object();

	add_text(o, "schema", ARRIVALS_SCHEMA);
	add_text(o, "kernel", arrivals->kernel);
	add_text(o, "clock_unit", "ns");
	json_object_object_add(o, "sub_buckets", json_object_new_int(LOGLINEAR_SUB));
	add_seconds(o, "seconds", arrivals->seconds);
	add_text(o, "device", arrivals->device);
	json_object_object_add(o, "ifindex", json_object_new_int(arrivals->ifindex));
	json_object_object_add(o, "clock", clock_json(&arrivals->clock));
	json_object_object_add(o, "stamps", stamps_json(arrivals));
	json_object_object_add(o, "packets", packets_json(arrivals));
	json_object_object_add(o, "span", span_json(arrivals));
	json_object_object_add(o, "latency", hist_json(&arrivals->counts.latency));
	json_object_object_add(o, "inter_arrival", hist_json(&arrivals->counts.inter_arrival));
	json_object_object_add(o, "jitter", hist_json(&arrivals->counts.jitter));
	json_object_object_add(o, "late", late_json(arrivals));
	add_kept(gaps, &arrivals->stream->gaps, gap_json);
	json_object_object_add(gaps, "last",
			       arrivals->stream->gaps.count ? gap_json(&arrivals->stream->last_gap)
							    : NULL);
	json_object_object_add(o, "gaps", gaps);
	return o;
}
