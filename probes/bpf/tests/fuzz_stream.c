// SPDX-License-Identifier: GPL-2.0-or-later
/* Any packets of a generator, at any time: every one is accounted for once. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "fuzz.h"
#include "stream.h"

/* Of the configuration, before its flags. */
#define WORDS	  (offsetof(struct sink_config, level) / sizeof(__u64))
#define MOST_LATE 1000000000000ULL

/* What options can ask for. */
static struct sink_config config_of(const __u8 *data)
{
	struct sink_config config = {};

	memcpy(&config, data, sizeof(__u64) * WORDS);
	config.tai_offset_ns = 37 * (__s64)NS_PER_SECOND;
	for (int i = 0; i < THRESHOLDS; i++)
		config.late_ns[i] %= MOST_LATE;
	config.in_a_row = 1 + config.in_a_row % (1 << 20);
	config.first &= UINT32_MAX;
	config.last &= UINT32_MAX;
	config_complete(&config);
	return config;
}

/* After the options, packets: when, what UDP carries, and their frame's headers. */
struct arrival_input {
	__u64 now;
	struct wire header;
	__u8 frame[FRAME_HEADERS];
};

static void check_kept(const struct kept *kept)
{
	__u64 rows = kept->count < KEPT ? kept->count : KEPT;

	check(kept->longest <= kept->packets, "longest %llu of %llu", kept->longest, kept->packets);
	for (__u64 i = 0; i < rows; i++)
		check(kept->rows[i].packets && kept->rows[i].packets <= kept->longest, "row %llu",
		      i);
}

static void check_stream(const struct stream *stream, const struct sink_config *config,
			 __u64 packets)
{
	const struct order *order = &stream->order;
	__u64 stamped = 0;

	check(order->distinct + order->duplicates + order->too_old == packets, "packets");
	check(stream->placed + stream->outside == order->distinct, "placed");
	check(order->reordered <= order->distinct, "reordered");
	check(order->distinct <= order->highest, "%llu distinct", order->distinct);
	check(order_last_lost(order) <= order->highest, "last lost");
	for (int by = STAMPED_NOT; by <= STAMPED_BY_SENDER; by++)
		stamped += stream->stamped[by];
	check(stamped == stream->placed, "stamped");
	check(stream->gaps.count == order->gaps, "gaps");
	check_kept(&stream->gaps);
	for (int i = 0; i < THRESHOLDS && config->late_ns[i]; i++) {
		check(stream->late[i].packets <= stream->placed, "late");
		check(stream->late[i].kept.packets <= stream->late[i].packets, "in runs");
		check_kept(&stream->late[i].kept);
	}
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	static struct stream stream;
	struct sink_config config;
	struct arrival_input input;
	__u64 packets = 0;

	if (size < sizeof(__u64) * WORDS)
		return 0;
	config = config_of(data);
	memset(&stream, 0, sizeof(stream));
	data += sizeof(__u64) * WORDS;
	size -= sizeof(__u64) * WORDS;
	for (; size >= sizeof(input); data += sizeof(input), size -= sizeof(input)) {
		struct figures figures;
		struct packet packet;
		int offset;

		memcpy(&input, data, sizeof(input));
		offset = pktgen_offset(input.frame);
		check(!offset || offset == IPV4_OFFSET || offset == IPV6_OFFSET, "%d", offset);
		/* The clock is the kernel's: not before 1970, nor behind 2262. */
		input.now >>= 1;
		if (!wire_read(&input.header, input.now, config.tai_offset_ns, &packet))
			continue;
		stream_note(&stream, &config, &packet, input.now, &figures);
		packets++;
		check(!figures.has_jitter || figures.has_latency, "jitter");
	}
	stream_end(&stream, &config);
	check_stream(&stream, &config, packets);
	return 0;
}
