// SPDX-License-Identifier: GPL-2.0-or-later
/* What CPUs count by themselves, where a transmission ends, and the document of it. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "tallies.h"

/* CLOCK_TAI, 37 s ahead. */
#define EPOCH (1700000037ULL * NS_PER_SECOND)

static __u64 transmission;

/* As the program does it (follow() of pktsink.bpf.c). */
static void arrive(struct tally *tally, __u32 id, __u32 sequence, __u64 at)
{
	struct packet packet = { .sequence = sequence, .transmission = id };

	transmission = transmission_next(transmission, &packet);
	tally->seen++;
	tally_turn(tally, transmission >> TRANSMISSION_EPOCH);
	tally_note(tally, sequence, 60);
	tally_time(tally, EPOCH + at);
}

static void check_text(struct json_object *o, const char *path, const char *expected)
{
	struct json_object *found = NULL;
	const char *value;

	check(!json_pointer_get(o, path, &found), "no %s in %s", path,
	      json_object_to_json_string(o));
	value = json_object_to_json_string_ext(found, JSON_C_TO_STRING_PLAIN);
	check(!strcmp(value, expected), "%s is %s, not %s", path, value, expected);
}

static void check_numbers(void)
{
	struct tally tally = {};

	/* Out of order, and round the end of 32 bits. */
	tally_note(&tally, 0xfffffffe, 60);
	tally_note(&tally, 0xfffffffd, 60);
	check(tally.highest == 0xfffffffe, "an older number is not the highest");
	tally_note(&tally, 2, 100);
	check(tally.highest == 0x100000002, "numbers go round");
	check(tally.received == 3 && tally.bytes == 220, "packets and bytes");
}

static void check_restarts(void)
{
	struct tally cpus[2] = {};

	transmission = 0;
	/* The first numbers twice, as with clone_skb, and in another order: one transmission. */
	arrive(&cpus[0], 0, 1, 0);
	arrive(&cpus[0], 0, 1, 1);
	arrive(&cpus[1], 0, 2, 2);
	check(transmission >> TRANSMISSION_EPOCH == 0, "it goes on");
	/* pktgen starts anew. */
	arrive(&cpus[0], 0, 1, 3);
	check(transmission >> TRANSMISSION_EPOCH == 1, "pktgen began anew");
	check(cpus[0].received == 1 && cpus[0].earlier == 2, "on this CPU");
	check(cpus[1].received == 1 && cpus[1].earlier == 0, "the other has seen none of it");
	arrive(&cpus[1], 0, 2, 4);
	check(cpus[1].received == 1 && cpus[1].earlier == 1, "until now");
	/* Ours: another identifier, whatever the number. */
	arrive(&cpus[1], 7, 5, 5);
	arrive(&cpus[1], 7, 1, 6);
	check(transmission >> TRANSMISSION_EPOCH == 2, "one, by its identifier");
	check(cpus[1].received == 2 && cpus[1].highest == 5, "of which 1 came late");
	arrive(&cpus[1], 8, 1, 7);
	check(transmission >> TRANSMISSION_EPOCH == 3, "and one more");
}

static void check_document(void)
{
	struct tally cpus[3] = {};
	struct tallies tallies = {
		.kernel = "6.12",
		.device = "s0",
		.ifindex = 3,
		.seconds = 1.25,
		.level = LEVEL_THROUGHPUT,
		.tai_offset_ns = 37000000000,
		.cpus = 3,
		.by_cpu = cpus,
	};
	struct json_object *o;

	transmission = 0;
	arrive(&cpus[0], 0, 1, 0);
	arrive(&cpus[0], 0, 4, 300);
	arrive(&cpus[2], 0, 3, 500);
	cpus[2].seen++;
	cpus[2].foreign++;
	tallies.transmission = transmission;
	o = tallies_json(&tallies);
	check_text(o, "/schema", "\"skblab.pktsink-counts\\/1\"");
	check_text(o, "/level", "\"throughput\"");
	check_text(o, "/restarts", "0");
	check_text(o, "/packets",
		   "{\"seen\":4,\"foreign\":1,\"received\":3,\"earlier\":0,\"merged\":0,"
		   "\"highest\":4,\"bytes\":180}");
	check_text(o, "/throughput", "{\"first_packet_ns\":1700000000000000000,\"span_ns\":500}");
	check_text(o, "/cpus/0/cpu", "0");
	check_text(o, "/cpus/0/throughput/span_ns", "300");
	check_text(o, "/cpus/1/cpu", "2");
	check_text(o, "/cpus/1/packets/highest", "3");
	/* Of a single packet there is no rate. */
	check_text(o, "/cpus/1/throughput", "null");
	json_object_put(o);

	tallies.level = LEVEL_COUNTERS;
	/* Another transmission, of which CPU 0 has nothing. */
	arrive(&cpus[2], 0, 1, 900);
	tallies.transmission = transmission;
	tallies_turn(&tallies);
	o = tallies_json(&tallies);
	check_text(o, "/level", "\"counters\"");
	check_text(o, "/restarts", "1");
	check_text(o, "/packets/received", "1");
	check_text(o, "/packets/earlier", "3");
	check_text(o, "/packets/highest", "1");
	check_text(o, "/throughput", "null");
	check_text(o, "/cpus/0/packets/received", "0");
	json_object_put(o);
}

int main(void)
{
	check_numbers();
	check_restarts();
	check_document();
	puts("ok tallies");
	return 0;
}
