// SPDX-License-Identifier: GPL-2.0-or-later
/* The document, from what two CPUs would leave. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "arrivals.h"
#include "check.h"
#include "hist_json.h"

static struct json_object *get(struct json_object *o, const char *path)
{
	struct json_object *value = NULL;

	check(!json_pointer_get(o, path, &value), "no %s in %s", path,
	      json_object_to_json_string(o));
	return value;
}

static void check_text(struct json_object *o, const char *path, const char *expected)
{
	const char *value = json_object_to_json_string_ext(get(o, path), JSON_C_TO_STRING_PLAIN);

	check(!strcmp(value, expected), "%s is %s, not %s", path, value, expected);
}

static void place(struct hist *hist, __u32 value)
{
	struct hist one;

	hist_init(&one);
	one.buckets[loglinear_index(value)] = 1;
	one.sum = value;
	one.low = value;
	hist_join(hist, &one);
}

static void check_document(const struct arrivals *arrivals)
{
	struct json_object *o = arrivals_json(arrivals);

	check_text(o, "/schema", "\"skblab.pktsink\\/1\"");
	check_text(o, "/seconds", "1.250000");
	check_text(o, "/clock/tai_offset_s", "{\"start\":37,\"end\":37}");
	check_text(o, "/clock/steps", "1");
	check_text(o, "/clock/stepped_ns", "-5");
	check_text(o, "/stamps/sender", "6");
	check_text(o, "/stamps/resolution_ns", "1000");
	check_text(o, "/stamps/stamper", "{\"device\":\"g0\",\"stamped\":4,\"failed\":1}");
	check_text(o, "/packets/seen", "6");
	check_text(o, "/packets/received", "4");
	check_text(o, "/packets/distinct", "3");
	check_text(o, "/packets/lost", "2");
	check_text(o, "/span/first_packet_ns", "1700000000000000000");
	check_text(o, "/span/last_packet_ns", "500");
	check_text(o, "/span/until_ns", "null");
	check_text(o, "/latency/count", "2");
	check_text(o, "/latency/sum", "70");
	check_text(o, "/latency/min", "20");
	check_text(o, "/latency/max", "50");
	check_text(o, "/latency/negative", "1");
	check_text(o, "/jitter/buckets", "[[15,1]]");
	check(json_object_array_length(get(o, "/late")) == 1, "one threshold");
	check_text(o, "/late/0/threshold_ns", "20");
	check_text(o, "/late/0/packets_late", "7");
	check_text(o, "/late/0/runs/count", "1026");
	check_text(o, "/late/0/runs/not_recorded", "2");
	check(json_object_array_length(get(o, "/late/0/runs/recorded")) == KEPT, "as many as kept");
	check_text(o, "/late/0/runs/recorded/0/sent_ns", "-3");
	check_text(o, "/late/0/runs/recorded/0/open_end", "true");
	check_text(o, "/gaps/recorded/0",
		   "{\"begin_ns\":1,\"end_ns\":2,\"packets\":2,\"sequence\":9}");
	check_text(o, "/gaps/last", "{\"begin_ns\":3,\"end_ns\":4,\"packets\":1,\"sequence\":12}");
	json_object_put(o);
}

static void check_empty(const struct arrivals *arrivals)
{
	struct json_object *o = arrivals_json(arrivals);

	check_text(o, "/stamps/resolution_ns", "null");
	check_text(o, "/stamps/stamper", "null");
	check_text(o, "/gaps/last", "null");
	check_text(o, "/span/first_packet_ns", "null");
	check_text(o, "/span/until_ns", "9");
	check_text(o, "/latency/count", "0");
	check_text(o, "/latency/min", "0");
	check_text(o, "/late/0/runs/recorded", "[]");
	json_object_put(o);
}

int main(void)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct sink_config config = {
		.late_ns = { 20 },
		.in_a_row = 2,
		.tai_offset_ns = 37000000000,
		.end_ns = 9,
	};
	struct arrivals arrivals = {
		.kernel = "6.12",
		.device = "s0",
		.ifindex = 3,
		.config = &config,
		.stream = stream,
	};
	struct sink_counts cpus[2];

	check(stream, "memory");
	counts_init(&arrivals.counts);
	check_empty(&arrivals);

	config.end_ns = 0;
	counts_init(&cpus[0]);
	counts_init(&cpus[1]);
	cpus[0].tally.seen = 4;
	cpus[1].tally.seen = 2;
	cpus[1].tally.foreign = 2;
	cpus[0].latency.negative = 1;
	place(&cpus[0].latency, 50);
	place(&cpus[1].latency, 20);
	place(&cpus[1].jitter, 15);
	counts_join(&arrivals.counts, &cpus[0]);
	counts_join(&arrivals.counts, &cpus[1]);
	arrivals.seconds = 1.25;
	arrivals.clock = (struct clock_report){ 37, 37, 1, -5 };
	arrivals.stamper = "g0";
	arrivals.stamped = 4;
	arrivals.unstamped = 1;
	stream->first_ns = 1700000037000000000;
	stream->last_ns = stream->first_ns + 500;
	stream->stamped[STAMPED_BY_PKTGEN] = 2;
	stream->stamped[STAMPED_AT_EGRESS] = 1;
	stream->stamped[STAMPED_BY_SENDER] = 6;
	stream->order.distinct = 3;
	stream->order.highest = 5;
	stream->order.duplicates = 1;
	stream->late[0].packets = 7;
	stream->late[0].kept.count = KEPT + 2;
	stream->late[0].kept.rows[0] = (struct anomaly){
		.first_stamp_ns = 8,
		.last_stamp_ns = 5,
		.open_end = true,
	};
	stream->gaps.count = 1;
	stream->gaps.rows[0] = (struct anomaly){
		.begin_ns = 1,
		.end_ns = 2,
		.packets = 2,
		.sequence = 9,
	};
	stream->last_gap = (struct anomaly){
		.begin_ns = 3,
		.end_ns = 4,
		.packets = 1,
		.sequence = 12,
	};
	check_document(&arrivals);
	free(stream);
	puts("ok arrivals");
	return 0;
}
