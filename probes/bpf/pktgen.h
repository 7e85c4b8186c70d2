/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The header that pktgen puts into its UDP packets (struct pktgen_hdr of
 * net/core/pktgen.c), and ours, which takes its place when a packet is stamped anew.
 *
 * pktgen stamps with whole microseconds of CLOCK_REALTIME, rounded down, when it
 * builds a packet. With a delay or a rate it builds the packet first and waits then,
 * so its stamps hold the wait: only those of a generator that does not wait tell when
 * a packet was sent.
 */
#ifndef SKBLAB_PKTGEN_H
#define SKBLAB_PKTGEN_H

#include <linux/types.h>
#include <stdbool.h>

#define PKTGEN_MAGIC 0xbe9be955
/* "skbs": nanoseconds of CLOCK_TAI, stamped where the packet leaves its sender's stack. */
#define STAMPED_MAGIC 0x736b6273

#define NS_PER_SECOND 1000000000ULL

struct pktgen_header {
	__be32 magic;
	__be32 sequence;
	__be32 seconds; /* ours: the upper half of the stamp */
	__be32 microseconds;
};

/* Ethernet and as much of IP as tells whether UDP follows, and where. */
#define FRAME_HEADERS 34
#define IPV4_OFFSET   42 /* of what UDP carries */
#define IPV6_OFFSET   62
#define UDP_CHECKSUM  (-2) /* from there */

enum stamped_by { STAMPED_NOT, STAMPED_BY_PKTGEN, STAMPED_AT_EGRESS };

struct packet {
	__u64 stamp_ns; /* CLOCK_TAI */
	__u32 sequence;
	__u32 by; /* enum stamped_by */
};

static inline __attribute__((always_inline)) __u32 pktgen_swap(__u32 value)
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

/* False: it is not of the generator. @tai_offset_ns is what CLOCK_TAI is ahead of CLOCK_REALTIME. */
static inline __attribute__((always_inline)) bool
pktgen_read(const struct pktgen_header *header, __s64 tai_offset_ns, struct packet *packet)
{
	__u64 upper = pktgen_swap(header->seconds), lower = pktgen_swap(header->microseconds);

	packet->sequence = pktgen_swap(header->sequence);
	if (header->magic == pktgen_swap(STAMPED_MAGIC)) {
		packet->stamp_ns = upper << 32 | lower;
		packet->by = STAMPED_AT_EGRESS;
		return true;
	}
	/* With its flag NO_TIMESTAMP both are 0. */
	packet->stamp_ns = upper * NS_PER_SECOND + lower * 1000 + tai_offset_ns;
	packet->by = upper || lower ? STAMPED_BY_PKTGEN : STAMPED_NOT;
	return header->magic == pktgen_swap(PKTGEN_MAGIC);
}

static inline __attribute__((always_inline)) void pktgen_stamp(struct pktgen_header *header,
							       __u64 tai_ns)
{
	header->magic = pktgen_swap(STAMPED_MAGIC);
	header->seconds = pktgen_swap(tai_ns >> 32);
	header->microseconds = pktgen_swap(tai_ns);
}

#endif /* SKBLAB_PKTGEN_H */
