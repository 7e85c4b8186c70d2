// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON document `skblab.pktsink-counts/1`. */
#include "tallies.h"

#include "json.h"

void tally_join(struct tally *sum, const struct tally *part)
{
	sum->seen += part->seen;
	sum->foreign += part->foreign;
	sum->merged += part->merged;
	sum->received += part->received;
	sum->bytes += part->bytes;
	sum->earlier += part->earlier;
	if (part->highest > sum->highest)
		sum->highest = part->highest;
	if (part->first_ns && (!sum->first_ns || part->first_ns < sum->first_ns))
		sum->first_ns = part->first_ns;
	if (part->last_ns > sum->last_ns)
		sum->last_ns = part->last_ns;
}

void tallies_turn(struct tallies *tallies)
{
	for (int cpu = 0; cpu < tallies->cpus; cpu++)
		tally_turn(&tallies->by_cpu[cpu], tallies->transmission >> TRANSMISSION_EPOCH);
}

static struct json_object *packets_json(const struct tally *tally)
{
	struct json_object *o = json_object_new_object();

	add_u64(o, "seen", tally->seen);
	add_u64(o, "foreign", tally->foreign);
	add_u64(o, "received", tally->received);
	add_u64(o, "earlier", tally->earlier);
	add_u64(o, "merged", tally->merged);
	add_u64(o, "highest", tally->highest);
	add_u64(o, "bytes", tally->bytes);
	return o;
}

/* From the first arrival to the last, in which all but the first came; NULL for fewer than two. */
static struct json_object *throughput_json(const struct tallies *tallies, const struct tally *tally)
{
	__u64 span = tally->last_ns - tally->first_ns;
	struct json_object *o;

	if (tallies->level == LEVEL_COUNTERS || tally->received < 2 || !span)
		return NULL;
	o = json_object_new_object();
	add_u64(o, "first_packet_ns", tally->first_ns - tallies->tai_offset_ns);
	add_u64(o, "span_ns", span);
	return o;
}

static struct json_object *cpus_json(const struct tallies *tallies)
{
	struct json_object *rows = json_object_new_array();

	for (int cpu = 0; cpu < tallies->cpus; cpu++) {
		const struct tally *tally = &tallies->by_cpu[cpu];
		struct json_object *o;

		if (!tally->seen)
			continue;
		o = json_object_new_object();
		json_object_object_add(o, "cpu", json_object_new_int(cpu));
		json_object_object_add(o, "packets", packets_json(tally));
		json_object_object_add(o, "throughput", throughput_json(tallies, tally));
		json_object_array_add(rows, o);
	}
	return rows;
}

struct json_object *tallies_json(const struct tallies *tallies)
{
	struct json_object *o = json_object_new_object();
	struct tally sum = {};

	for (int cpu = 0; cpu < tallies->cpus; cpu++)
		tally_join(&sum, &tallies->by_cpu[cpu]);
	add_text(o, "schema", TALLIES_SCHEMA);
	add_text(o, "kernel", tallies->kernel);
	add_seconds(o, "seconds", tallies->seconds);
	add_text(o, "device", tallies->device);
	json_object_object_add(o, "ifindex", json_object_new_int(tallies->ifindex));
	add_text(o, "level", tallies->level == LEVEL_COUNTERS ? "counters" : "throughput");
	add_u64(o, "restarts", tallies->transmission >> TRANSMISSION_EPOCH);
	json_object_object_add(o, "packets", packets_json(&sum));
	json_object_object_add(o, "throughput", throughput_json(tallies, &sum));
	json_object_object_add(o, "cpus", cpus_json(tallies));
	return o;
}
