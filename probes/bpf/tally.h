/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each CPU counts of the packets that it receives, by itself: no lock, and no memory
 * that two CPUs write to for each packet. So it costs the same with one queue and with many.
 *
 * Numbers that did not come are known from the highest and from how many came, together.
 * What was duplicated or reordered is not: that takes an order of all packets (stream.h).
 */
#ifndef SKBLAB_TALLY_H
#define SKBLAB_TALLY_H

#include <linux/types.h>
#include <stdbool.h>

#include "wire.h"

enum sink_level {
	LEVEL_COUNTERS,
	LEVEL_THROUGHPUT, /* and when the first and the last came */
	LEVEL_TIME,	  /* and everything of stream.h */
};

/* One CPU's. */
struct tally {
	__u64 seen;
	__u64 foreign;
	__u64 merged;	/* received ones that stand for several */
	__u64 received; /* seen, not foreign, and of the last transmission */
	__u64 bytes;	/* of these, from the MAC header to before the FCS */
	__u64 highest;	/* number; 0: none came */
	__u64 first_ns; /* arrival, CLOCK_TAI; 0: none came, or nobody asked */
	__u64 last_ns;
	__u64 earlier; /* received ones of transmissions before */
	__u64 epoch;   /* the transmission that is counted */
};

/*
 * Which transmission goes on, in one word, so that all CPUs see one change at once:
 * how many there were before, in the upper half, and below what tells a new one.
 */
#define TRANSMISSION_ID	    0xffffULL
#define TRANSMISSION_BEGUN  (1ULL << 16)
#define TRANSMISSION_BEYOND (1ULL << 17) /* a number above 1 came */
#define TRANSMISSION_EPOCH  32

/*
 * What that word is once a packet has come. Ours have an identifier of their transmission.
 * pktgen's have none, and begin at 1 at each start: so 1 is the beginning of another one, if a
 * higher number came before.
 */
static inline __attribute__((always_inline)) __u64 transmission_next(__u64 state,
								     const struct packet *packet)
{
	__u64 fresh = TRANSMISSION_BEGUN | packet->transmission;
	bool same = packet->transmission == (state & TRANSMISSION_ID);

	if (packet->sequence != 1)
		fresh |= TRANSMISSION_BEYOND;
	if (!(state & TRANSMISSION_BEGUN))
		return fresh;
	if (!same ||
	    (!packet->transmission && packet->sequence == 1 && state & TRANSMISSION_BEYOND))
		return ((state >> TRANSMISSION_EPOCH) + 1) << TRANSMISSION_EPOCH | fresh;
	return state | fresh;
}

/* Another transmission goes on: count that one. */
static inline __attribute__((always_inline)) void tally_turn(struct tally *tally, __u64 epoch)
{
	if (tally->epoch == epoch)
		return;
	tally->epoch = epoch;
	tally->earlier += tally->received;
	tally->received = 0;
	tally->bytes = 0;
	tally->highest = 0;
	tally->first_ns = 0;
	tally->last_ns = 0;
}

/* A packet of the transmission that is counted. */
static inline __attribute__((always_inline)) void tally_note(struct tally *tally, __u32 sequence,
							     __u32 bytes)
{
	__u64 highest = tally->highest;
	__s64 number =
		highest ? (__s64)highest + (__s32)(sequence - (__u32)highest) : (__s64)sequence;

	tally->received++;
	tally->bytes += bytes;
	if (number > (__s64)highest)
		tally->highest = number;
}

static inline __attribute__((always_inline)) void tally_time(struct tally *tally, __u64 now)
{
	if (!tally->first_ns)
		tally->first_ns = now;
	tally->last_ns = now;
}

#endif /* SKBLAB_TALLY_H */
