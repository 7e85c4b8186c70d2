/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What senders put into their UDP packets: the header of pktgen (struct pktgen_hdr of
 * net/core/pktgen.c), and ours, of skblab-traffic, which also takes pktgen's place when a
 * packet is stamped anew. runners/traffic/src/header.rs says what ours has.
 *
 * pktgen stamps with whole microseconds of CLOCK_REALTIME, rounded down, when it
 * builds a packet. With a delay or a rate it builds the packet first and waits then,
 * so its stamps hold the wait: only those of a generator that does not wait tell when
 * a packet was sent.
 */
#ifndef SKBLAB_WIRE_H
#define SKBLAB_WIRE_H

#include <linux/types.h>
#include <stdbool.h>

#define PKTGEN_MAGIC 0xbe9be955
/* Of ours, in the first word, before clock and transmission: magic 0x5b, version 2. */
#define OWN_MAGIC 0x5b2
enum wire_clock { WIRE_REALTIME, WIRE_TAI, WIRE_MONOTONIC };

#define NS_PER_SECOND 1000000000ULL

/* Four words; of pktgen magic, sequence, seconds and microseconds. */
struct wire {
	__be32 words[4];
};

/* Ethernet and as much of IP as tells whether UDP follows, and where. */
#define FRAME_HEADERS 34
#define IPV4_OFFSET   42 /* of what UDP carries */
#define IPV6_OFFSET   62
#define UDP_CHECKSUM  (-2) /* from there */

enum stamped_by { STAMPED_NOT, STAMPED_BY_PKTGEN, STAMPED_AT_EGRESS, STAMPED_BY_SENDER };

struct packet {
	__u64 stamp_ns;	    /* CLOCK_TAI */
	__u32 sequence;	    /* from 1, its lower bits */
	__u32 by;	    /* enum stamped_by */
	__u32 transmission; /* of ours; pktgen's is 0 */
};

static inline __attribute__((always_inline)) __u32 wire_swap(__u32 value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(value);
#else
	return value;
#endif
}

/* Where UDP's data begins in a frame with these FRAME_HEADERS bytes; 0: it is no whole UDP
 * packet, or of a form that pktgen does not send (a VLAN's tag is not in the frame any more).
 */
static inline __attribute__((always_inline)) int pktgen_offset(const __u8 *frame)
{
	const __u8 *ip = frame + 14;

	if (frame[12] == 0x08 && frame[13] == 0x00)
		/* No options, no fragment. */
		return ip[0] == 0x45 && ip[9] == 17 && !(ip[6] & 0x3f) && !ip[7] ? IPV4_OFFSET : 0;
	if (frame[12] == 0x86 && frame[13] == 0xdd)
		return ip[0] >> 4 == 6 && ip[6] == 17 ? IPV6_OFFSET : 0;
	return 0;
}

/* Of all times that end with these 48 bits the one nearest to another. */
static inline __attribute__((always_inline)) __u64 wire_time(__u64 low, __u64 near)
{
	__u64 half = 1ULL << 47, from = near > half ? near - half : 0;

	return from + ((low - from) & ((1ULL << 48) - 1));
}

/*
 * False: it is of no sender that is known. @now_ns is CLOCK_TAI, which is @tai_offset_ns ahead of
 * CLOCK_REALTIME.
 */
static inline __attribute__((always_inline)) bool
wire_read(const struct wire *wire, __u64 now_ns, __s64 tai_offset_ns, struct packet *packet)
{
	__u32 first = wire_swap(wire->words[0]), second = wire_swap(wire->words[1]);
	__u64 third = wire_swap(wire->words[2]), fourth = wire_swap(wire->words[3]);
	__u32 clock = first >> 16 & 0xf;
	__s64 offset = clock == WIRE_TAI ? 0 : tai_offset_ns;

	if (first >> 20 == OWN_MAGIC) {
		packet->transmission = first & 0xffff;
		packet->sequence = (second << 16 | third >> 16) + 1;
		packet->stamp_ns =
			wire_time((third & 0xffff) << 32 | fourth, now_ns - offset) + offset;
		packet->by = clock == WIRE_TAI	      ? STAMPED_AT_EGRESS
			     : clock == WIRE_REALTIME ? STAMPED_BY_SENDER
						      : STAMPED_NOT;
		return clock <= WIRE_MONOTONIC;
	}
	packet->transmission = 0;
	packet->sequence = second;
	/* With its flag NO_TIMESTAMP both are 0. */
	packet->stamp_ns = third * NS_PER_SECOND + fourth * 1000 + tai_offset_ns;
	packet->by = third || fourth ? STAMPED_BY_PKTGEN : STAMPED_NOT;
	return first == PKTGEN_MAGIC;
}

static inline __attribute__((always_inline)) bool wire_is_pktgen(const struct wire *wire)
{
	return wire->words[0] == wire_swap(PKTGEN_MAGIC);
}

/* Put ours into the place of pktgen's, as transmission 0. */
static inline __attribute__((always_inline)) void wire_stamp(struct wire *wire, __u64 tai_ns)
{
	__u32 sequence = wire_swap(wire->words[1]) - 1;

	wire->words[0] = wire_swap(OWN_MAGIC << 20 | WIRE_TAI << 16);
	wire->words[1] = wire_swap(sequence >> 16);
	wire->words[2] = wire_swap(sequence << 16 | (tai_ns >> 32 & 0xffff));
	wire->words[3] = wire_swap(tai_ns);
}

#endif /* SKBLAB_WIRE_H */
