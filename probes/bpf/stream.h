/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A stream of packets as they arrive: order, times between packets, and anomalies.
 * Shared by the BPF program, which keeps it, and the program that reads it.
 *
 * Jitter is the absolute difference of the latencies of two packets that arrived one
 * after the other (RFC 4689, section 3.2.5), whatever was lost in between. Duplicates
 * are in no figure but their count, and neither is what is too old to tell.
 */
#ifndef SKBLAB_STREAM_H
#define SKBLAB_STREAM_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include "hist.h"
#include "order.h"
#include "tally.h"
#include "wire.h"

#define THRESHOLDS 4
/* Of each kind of anomaly, the first so many are kept. */
#define KEPT 1024

struct sink_config {
	__s64 tai_offset_ns; /* that CLOCK_TAI is ahead of CLOCK_REALTIME */
	/* Times and anomalies are those of packets that arrive from then on, before then; since
	 * the first one. No end: 0.
	 */
	__u64 begin_ns;
	__u64 end_ns;
	/* And have these numbers. Any: 0. */
	__u64 first;
	__u64 last;
	__u64 late_ns[THRESHOLDS]; /* up to the first 0 */
	__u64 least_late_ns;	   /* the least of them */
	__u64 in_a_row;
	__u32 level;	   /* enum sink_level */
	bool pass;	   /* let the generator's packets go on */
	bool drop_foreign; /* and others not */
	bool restart;	   /* count the last transmission alone */
};

/* What follows from the rest of it, so that nobody works it out for each packet. */
static inline void config_complete(struct sink_config *config)
{
	config->least_late_ns = config->late_ns[0];
	for (int i = 1; i < THRESHOLDS && config->late_ns[i]; i++)
		if (config->late_ns[i] < config->least_late_ns)
			config->least_late_ns = config->late_ns[i];
}

/* Packets that were late one after the other, or a gap in the numbers. */
struct anomaly {
	__u64 begin_ns; /* arrival of its first packet, since the stream's first; of a gap: of
			 * the packet before
			 */
	__u64 end_ns;	/* of its last packet; of a gap: of the packet behind */
	/* Of its first and last packet; of a gap 0. */
	__u64 first_stamp_ns;
	__u64 last_stamp_ns;
	__u64 packets; /* late, or missing */
	/* Latency; of a gap 0. */
	__u64 sum_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u32 sequence; /* of its first packet; of a gap: of the one behind */
	/* It was so when the data begins, or ends. */
	__u8 open_begin;
	__u8 open_end;
	__u16 unused;
};

struct kept {
	__u64 count;   /* of all, kept or not */
	__u64 packets; /* in them */
	__u64 longest; /* of packets */
	struct anomaly rows[KEPT];
};

/* Of one threshold. */
struct late {
	__u64 packets; /* in a row or not */
	struct anomaly run;
	struct kept kept;
};

struct stream {
	struct bpf_spin_lock lock;
	__u64 first_ns; /* arrival of the first packet, CLOCK_TAI; 0: none came yet */
	__u64 last_ns;
	__u64 outside; /* of the time or the numbers that count */
	__u64 placed;  /* within */
	__u64 stamped[STAMPED_BY_SENDER + 1];
	/* Of the packet that was placed last. */
	__u64 previous_ns;
	__s64 previous_latency;
	bool has_latency;
	bool late_before; /* by the least threshold */
	struct late late[THRESHOLDS];
	struct kept gaps;
	struct anomaly last_gap; /* kept or not */
	struct order order;
};

/* What comes of a packet, to be placed in histograms. */
struct figures {
	__s64 latency;
	__s64 inter_arrival;
	__u64 jitter;
	bool has_latency;
	bool has_inter_arrival;
	bool has_jitter;
};

/* What one CPU counts. */
struct sink_counts {
	struct tally tally;
	struct hist latency;
	struct hist inter_arrival;
	struct hist jitter;
};

static inline __attribute__((always_inline)) void keep(struct kept *kept,
						       const struct anomaly *anomaly)
{
	if (kept->count < KEPT)
		kept->rows[kept->count & (KEPT - 1)] = *anomaly;
	kept->count++;
	kept->packets += anomaly->packets;
	if (anomaly->packets > kept->longest)
		kept->longest = anomaly->packets;
}

/* The run is over, or cut by the end of the data. */
static inline __attribute__((always_inline)) void run_end(struct late *late, __u64 in_a_row)
{
	if (late->run.packets >= in_a_row)
		keep(&late->kept, &late->run);
	late->run.packets = 0;
}

static inline __attribute__((always_inline)) void
run_add(struct late *late, const struct packet *packet, __u64 since, __u64 latency, bool first)
{
	struct anomaly *run = &late->run;

	late->packets++;
	if (!run->packets) {
		run->begin_ns = since;
		run->first_stamp_ns = packet->stamp_ns;
		run->sequence = packet->sequence;
		run->sum_ns = 0;
		run->min_ns = latency;
		run->max_ns = latency;
		run->open_begin = first;
	}
	run->packets++;
	run->end_ns = since;
	run->last_stamp_ns = packet->stamp_ns;
	run->sum_ns += latency;
	if (latency < run->min_ns)
		run->min_ns = latency;
	if (latency > run->max_ns)
		run->max_ns = latency;
}

static inline __attribute__((always_inline)) void
note_gap(struct stream *stream, const struct packet *packet, __u64 missing, __u64 begin, __u64 end)
{
	struct anomaly *gap = &stream->last_gap;

	gap->begin_ns = begin;
	gap->end_ns = end;
	gap->packets = missing;
	gap->sequence = packet->sequence;
	keep(&stream->gaps, gap);
}

/* Since the first packet; another CPU's clock may be a little behind. */
static inline __attribute__((always_inline)) __u64 stream_since(const struct stream *stream,
								__u64 now)
{
	return now > stream->first_ns ? now - stream->first_ns : 0;
}

/* Runs go on or end. */
static inline __attribute__((always_inline)) void
note_late(struct stream *stream, const volatile struct sink_config *config,
	  const struct packet *packet, __u64 since, __s64 latency)
{
	stream->late_before = latency >= (__s64)config->least_late_ns;
	for (int i = 0; i < THRESHOLDS; i++) {
		__u64 threshold = config->late_ns[i];

		if (!threshold)
			break;
		if (latency >= (__s64)threshold)
			run_add(&stream->late[i], packet, since, latency, !stream->has_latency);
		else
			run_end(&stream->late[i], config->in_a_row);
	}
}

static inline __attribute__((always_inline)) void
note_latency(struct stream *stream, const volatile struct sink_config *config,
	     const struct packet *packet, __u64 since, struct figures *figures)
{
	__s64 latency = figures->latency, previous = stream->previous_latency;

	figures->has_latency = true;
	figures->has_jitter = stream->has_latency;
	/* Stamps are the packet's own: the difference of two may exceed 63 bits. */
	figures->jitter = latency < previous ? (__u64)previous - (__u64)latency
					     : (__u64)latency - (__u64)previous;
	/* Nearly always it is not late, and neither was the one before. */
	if (latency >= (__s64)config->least_late_ns || stream->late_before)
		note_late(stream, config, packet, since, latency);
	stream->previous_latency = latency;
	stream->has_latency = true;
}

/* A packet that arrived now (CLOCK_TAI). */
static inline __attribute__((always_inline)) void
stream_note(struct stream *stream, const volatile struct sink_config *config,
	    const struct packet *packet, __u64 now, struct figures *figures)
{
	__u64 missing, since, before = stream->last_ns;
	enum arrival arrival;

	figures->has_latency = false;
	figures->has_inter_arrival = false;
	figures->has_jitter = false;
	if (!stream->first_ns) {
		stream->first_ns = now;
		before = now;
	}
	since = stream_since(stream, now);
	stream->last_ns = now;
	arrival = order_note(&stream->order, packet->sequence, &missing);
	if (missing)
		note_gap(stream, packet, missing, stream_since(stream, before), since);
	if (arrival == ARRIVAL_DUPLICATE || arrival == ARRIVAL_TOO_OLD)
		return;
	if (since < config->begin_ns || (config->end_ns && since >= config->end_ns) ||
	    packet->sequence < config->first || (config->last && packet->sequence > config->last)) {
		stream->outside++;
		return;
	}
	if (stream->placed++) {
		figures->inter_arrival = now - stream->previous_ns;
		figures->has_inter_arrival = true;
	}
	stream->previous_ns = now;
	if (packet->by > STAMPED_BY_SENDER)
		return;
	stream->stamped[packet->by]++;
	if (packet->by == STAMPED_NOT)
		return;
	figures->latency = now - packet->stamp_ns;
	note_latency(stream, config, packet, since, figures);
}

/* Nothing more comes: runs that go on are open. */
static inline void stream_end(struct stream *stream, const struct sink_config *config)
{
	for (int i = 0; i < THRESHOLDS && config->late_ns[i]; i++) {
		stream->late[i].run.open_end = true;
		run_end(&stream->late[i], config->in_a_row);
	}
}

#endif /* SKBLAB_STREAM_H */
