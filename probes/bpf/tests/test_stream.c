// SPDX-License-Identifier: GPL-2.0-or-later
/* The generator's header, and what a stream makes of its packets: times, runs, gaps. */
#include <arpa/inet.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "stream.h"

#define US 1000ULL
/* CLOCK_TAI at the beginning. */
#define EPOCH (1700000037ULL * NS_PER_SECOND)

static struct stream *stream;
static struct sink_config config;

static void begin(void)
{
	memset(stream, 0, sizeof(*stream));
	config = (struct sink_config){
		.late_ns = { 250 * US, 750 * US },
		.in_a_row = 2,
	};
	config_complete(&config);
}

/* A packet that is sent and arrives so long after the beginning. */
static struct figures arrive(__u32 sequence, __u64 sent, __u64 arrived)
{
	struct packet packet = {
		.stamp_ns = EPOCH + sent,
		.sequence = sequence,
		.by = STAMPED_BY_PKTGEN,
	};
	struct figures figures;

	stream_note(stream, &config, &packet, EPOCH + arrived, &figures);
	return figures;
}

/* One each 100 us, that takes so long. */
static struct figures take(__u32 sequence, __u64 latency)
{
	return arrive(sequence, sequence * 100 * US, sequence * 100 * US + latency);
}

static void check_frames(void)
{
	__u8 ipv4[FRAME_HEADERS] = { [12] = 0x08, [14] = 0x45, [23] = 17 };
	__u8 ipv6[FRAME_HEADERS] = { [12] = 0x86, [13] = 0xdd, [14] = 0x60, [20] = 17 };

	check(pktgen_offset(ipv4) == 14 + 20 + 8, "IPv4");
	check(pktgen_offset(ipv6) == 14 + 40 + 8, "IPv6");
	ipv4[20] = 0x40;
	check(pktgen_offset(ipv4) == 14 + 20 + 8, "not to be cut");
	ipv4[20] = 0x20;
	check(!pktgen_offset(ipv4), "the first piece of one");
	ipv4[20] = 0;
	ipv4[21] = 1;
	check(!pktgen_offset(ipv4), "a further piece");
	ipv4[21] = 0;
	ipv4[14] = 0x46;
	check(!pktgen_offset(ipv4), "options");
	ipv4[14] = 0x45;
	ipv4[23] = 6;
	check(!pktgen_offset(ipv4), "TCP");
	ipv6[20] = 58;
	check(!pktgen_offset(ipv6), "ICMPv6");
	ipv6[20] = 17;
	ipv6[13] = 0xde;
	check(!pktgen_offset(ipv6), "neither");
}

static void check_header(void)
{
	struct wire wire = {
		{ htonl(0xbe9be955), htonl(7), htonl(4000000000U), htonl(999999) },
	};
	struct packet packet;
	__u64 now = EPOCH + 123456789;

	check(wire_read(&wire, now, 37 * (__s64)NS_PER_SECOND, &packet), "of pktgen");
	check(packet.sequence == 7 && packet.by == STAMPED_BY_PKTGEN, "its number");
	check(packet.stamp_ns == 4000000037999999000ULL, "%llu", packet.stamp_ns);
	check(wire_is_pktgen(&wire), "it is to be stamped anew");
	wire_stamp(&wire, now);
	check(!wire_is_pktgen(&wire), "once");
	/* It is read a second after that. */
	check(wire_read(&wire, now + NS_PER_SECOND, 1, &packet), "stamped anew");
	check(packet.sequence == 7 && packet.by == STAMPED_AT_EGRESS && packet.stamp_ns == now,
	      "%llu", packet.stamp_ns);
	wire = (struct wire){ { htonl(0xbe9be955), htonl(8) } };
	check(wire_read(&wire, now, 1, &packet) && packet.by == STAMPED_NOT, "without a stamp");
	wire.words[0] = 0;
	check(!wire_read(&wire, now, 1, &packet), "of somebody else");
}

/* As layout_is_as_documented() of runners/traffic/src/header.rs has it. */
static void check_own(void)
{
	__u8 bytes[] = { 0x5b, 0x21, 0x12, 0x34, 1,    2,    3,	   4,
			 5,    6,    0x11, 0x22, 0x33, 0x44, 0x55, 0x66 };
	__u64 low = 0x112233445566, leap = 37 * NS_PER_SECOND, near = 0x17ad000000000000;
	struct packet packet;
	struct wire wire;

	memcpy(&wire, bytes, sizeof(wire));
	check(wire_read(&wire, near, leap, &packet), "of TAI");
	check(packet.sequence == 0x03040506 + 1, "its lower bits, from 1: %u", packet.sequence);
	check(packet.stamp_ns == near + low && packet.by == STAMPED_AT_EGRESS, "%llu",
	      packet.stamp_ns);
	/* Over half the range away: the time before it is nearer. */
	check(wire_read(&wire, near + (1ULL << 47) + low + 1, leap, &packet), "far");
	check(packet.stamp_ns == near + low + (1ULL << 48), "%llu", packet.stamp_ns);
	bytes[1] = 0x20;
	memcpy(&wire, bytes, sizeof(wire));
	check(wire_read(&wire, near + leap, leap, &packet), "of real time");
	check(packet.stamp_ns == near + low + leap && packet.by == STAMPED_BY_SENDER, "%llu",
	      packet.stamp_ns);
	bytes[1] = 0x22;
	memcpy(&wire, bytes, sizeof(wire));
	check(wire_read(&wire, near, leap, &packet) && packet.by == STAMPED_NOT,
	      "of another machine's boot");
	for (unsigned int kind = 0; kind < 256; kind++) {
		bytes[1] = kind;
		memcpy(&wire, bytes, sizeof(wire));
		check(wire_read(&wire, near, leap, &packet) == (kind >= 0x20 && kind <= 0x22),
		      "version and clock %x", kind);
	}
}

static void check_figures(void)
{
	struct figures f;

	begin();
	f = arrive(1, 0, 10 * US);
	check(f.has_latency && f.latency == 10 * US, "latency");
	check(!f.has_inter_arrival && !f.has_jitter, "the first has no packet before it");
	f = arrive(2, 100 * US, 117 * US);
	check(f.has_inter_arrival && f.inter_arrival == 107 * US, "since the one before");
	check(f.has_jitter && f.jitter == 7 * US, "17 - 10");
	f = arrive(2, 100 * US, 118 * US);
	check(!f.has_latency && !f.has_inter_arrival && !f.has_jitter, "a duplicate");
	/* 3 is lost. */
	f = arrive(4, 300 * US, 305 * US);
	check(f.inter_arrival == 188 * US && f.jitter == 12 * US, "|5 - 17|");
	/* Another CPU read its clock before. */
	f = arrive(5, 310 * US, 304 * US);
	check(f.inter_arrival == -(__s64)US && f.latency == -6 * (__s64)US, "less than nothing");
	check(f.jitter == 11 * US, "|-6 - 5|");
	check(stream->placed == 4 && stream->stamped[STAMPED_BY_PKTGEN] == 4, "placed");
	check(stream->order.duplicates == 1 && order_lost(&stream->order) == 1, "order");
}

static void check_without_stamps(void)
{
	struct packet packet = { .sequence = 1, .by = STAMPED_NOT };
	struct figures f;

	begin();
	take(1, 300 * US);
	packet.sequence = 2;
	stream_note(stream, &config, &packet, EPOCH + 500 * US, &f);
	check(!f.has_latency && !f.has_jitter && f.has_inter_arrival, "only when it came");
	f = take(3, 310 * US);
	check(f.jitter == 10 * US, "as if it had not been");
	take(4, 0);
	check(stream->late[0].kept.rows[0].packets == 2, "nor does it end a run");
	check(stream->stamped[STAMPED_NOT] == 1, "counted");
}

static void check_runs(void)
{
	const struct kept *kept = &stream->late[0].kept;

	begin();
	take(1, 10 * US);
	take(2, 250 * US - 1);
	take(3, 250 * US);
	take(4, 20 * US);
	check(stream->late[0].packets == 1 && kept->count == 0, "one is no run");
	take(5, 400 * US);
	take(6, 300 * US);
	take(7, 900 * US);
	take(8, 30 * US);
	check(stream->late[0].packets == 4 && kept->count == 1, "three are");
	check(kept->rows[0].packets == 3 && kept->rows[0].sequence == 5, "from the fifth");
	check(kept->rows[0].begin_ns == 790 * US && kept->rows[0].end_ns == 1490 * US,
	      "from %llu to %llu since the first arrived", kept->rows[0].begin_ns,
	      kept->rows[0].end_ns);
	check(kept->rows[0].last_stamp_ns - kept->rows[0].first_stamp_ns == 200 * US, "sent");
	check(kept->rows[0].sum_ns == 1600 * US && kept->rows[0].min_ns == 300 * US &&
		      kept->rows[0].max_ns == 900 * US,
	      "latency");
	check(!kept->rows[0].open_begin && !kept->rows[0].open_end, "whole");
	check(stream->late[1].packets == 1 && stream->late[1].kept.count == 0, "750 us");
	take(9, 260 * US);
	take(10, 260 * US);
	stream_end(stream, &config);
	check(kept->count == 2 && kept->packets == 5 && kept->longest == 3, "two");
	check(kept->rows[1].open_end && !kept->rows[1].open_begin, "open at the end");
}

static void check_all_late(void)
{
	const struct kept *kept = &stream->late[1].kept;

	begin();
	for (int i = 1; i <= 100; i++)
		take(i, 800 * US);
	check(kept->count == 0, "not over");
	stream_end(stream, &config);
	check(kept->count == 1 && kept->rows[0].packets == 100, "one anomaly, and not none");
	check(kept->rows[0].open_begin && kept->rows[0].open_end, "open at both ends");
	check(stream->late[2].kept.count == 0, "there is no third threshold");
	begin();
	take(1, 800 * US);
	stream_end(stream, &config);
	check(kept->count == 0, "one packet is too few");
}

static void check_span(void)
{
	struct figures f;

	begin();
	config.begin_ns = 100 * US;
	config.end_ns = 300 * US;
	f = arrive(1, 0, 900 * US);
	check(!f.has_latency && stream->outside == 1, "before");
	f = arrive(2, 0, 1000 * US);
	check(f.has_latency && !f.has_inter_arrival && !f.has_jitter, "the first within");
	arrive(3, 0, 1199 * US);
	f = arrive(4, 0, 1200 * US);
	check(!f.has_latency && stream->outside == 2 && stream->placed == 2, "after");
	stream_end(stream, &config);
	check(stream->late[0].kept.count == 1, "a run");
	check(stream->late[0].kept.rows[0].packets == 2 &&
		      stream->late[0].kept.rows[0].open_begin &&
		      stream->late[0].kept.rows[0].open_end,
	      "cut at both ends");
	check(stream->order.distinct == 4, "order is of all");
}

static void check_numbers(void)
{
	begin();
	config.first = 2;
	config.last = 3;
	for (__u32 number = 1; number <= 4; number++)
		check(arrive(number, 0, 1000 * US).has_latency == (number == 2 || number == 3),
		      "number %u", number);
	check(stream->outside == 2 && stream->placed == 2, "as many within as without");
}

static void check_gaps(void)
{
	const struct kept *gaps = &stream->gaps;

	begin();
	take(3, 0);
	check(gaps->count == 1 && gaps->rows[0].packets == 2 && gaps->rows[0].sequence == 3,
	      "before the first");
	check(gaps->rows[0].begin_ns == 0 && gaps->rows[0].end_ns == 0, "at the beginning");
	take(4, 0);
	take(14, 0);
	check(gaps->count == 2 && gaps->packets == 11 && gaps->longest == 9, "nine more");
	check(gaps->rows[1].begin_ns == 100 * US && gaps->rows[1].end_ns == 1100 * US, "when");
	for (int i = 16; i <= 14 + 2 * KEPT; i += 2)
		take(i, 0);
	check(gaps->count == KEPT + 2 && gaps->packets == 11 + KEPT, "all counted");
	check(gaps->rows[KEPT - 1].sequence == 14 + 2 * (KEPT - 2), "the first are kept");
	check(gaps->rows[0].sequence == 3, "as they were");
	check(stream->last_gap.sequence == 14 + 2 * KEPT, "and the last");
}

static __u64 chosen = 88172645463325252ULL;

/* xorshift: the same values in every run */
static __u32 choose(__u32 below)
{
	chosen ^= chosen << 13;
	chosen ^= chosen >> 7;
	chosen ^= chosen << 17;
	return (chosen >> 32) % below;
}

/* What stamps claim is theirs: the difference of two latencies takes 64 bits. */
static void check_hostile_stamps(void)
{
	struct packet packet = { .sequence = 1, .by = STAMPED_AT_EGRESS };
	struct figures figures = {};

	begin();
	packet.stamp_ns = EPOCH - (1ULL << 62);
	stream_note(stream, &config, &packet, EPOCH, &figures);
	packet.sequence = 2;
	packet.stamp_ns = EPOCH + (1ULL << 62) + 1;
	stream_note(stream, &config, &packet, EPOCH, &figures);
	check(figures.jitter == (1ULL << 63) + 1, "%llu", figures.jitter);
	packet.sequence = 3;
	packet.stamp_ns = EPOCH - (1ULL << 62);
	stream_note(stream, &config, &packet, EPOCH, &figures);
	check(figures.jitter == (1ULL << 63) + 1, "%llu", figures.jitter);
}

/* Runs and jitter of random latencies, by their definitions. */
static void check_random(int in_a_row)
{
	static __u64 latency[2000];
	const int count = sizeof(latency) / sizeof(*latency);
	__u64 runs = 0, packets = 0;

	begin();
	config.in_a_row = in_a_row;
	for (int i = 0; i < count; i++)
		latency[i] = choose(500) * US;
	for (int i = 0; i < count; i++) {
		struct figures f = arrive(i + 1, i * US, i * US + latency[i]);
		__u64 before = latency[i ? i - 1 : 0];

		check(f.has_jitter == (i > 0), "jitter of %d", i);
		check(!i || f.jitter == (latency[i] > before ? latency[i] - before
							     : before - latency[i]),
		      "jitter of %d is %llu", i, f.jitter);
	}
	stream_end(stream, &config);
	for (int from = 0; from < count; from++) {
		int length = 0;

		while (from + length < count && latency[from + length] >= 250 * US)
			length++;
		if (length >= in_a_row) {
			runs++;
			packets += length;
		}
		from += length;
	}
	check(stream->late[0].kept.count == runs && stream->late[0].kept.packets == packets,
	      "%d in a row: %llu runs, not %llu", in_a_row, stream->late[0].kept.count, runs);
}

int main(void)
{
	stream = malloc(sizeof(*stream));
	check(stream, "memory");
	check_frames();
	check_header();
	check_own();
	check_figures();
	check_without_stamps();
	check_runs();
	check_all_late();
	check_span();
	check_numbers();
	check_gaps();
	check_hostile_stamps();
	for (int in_a_row = 1; in_a_row < 8; in_a_row++)
		check_random(in_a_row);
	free(stream);
	puts("ok stream");
	return 0;
}
