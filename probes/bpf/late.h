/* SPDX-License-Identifier: GPL-2.0 */
/* A packet that took too long, recorded whole; shared with the program that reads it. */
#ifndef SKBLAB_LATE_H
#define SKBLAB_LATE_H

#include "filter.h"
#include "kernel_types.h"
#include "limit.h"

/* What a CPU did last, in a ring; a power of two. */
#define LATE_DEEDS 64
#define COMM_SIZE  16

enum deed_kind { DEED_NONE, DEED_TASK, DEED_SOFTIRQ, DEED_SOFTIRQ_END, DEED_IRQ, DEED_IRQ_END };

/* From here on the CPU ran a task, a softirq, or the handler of an interrupt, or no more. */
struct deed {
	__u64 at; /* ns of the clock of all times here */
	__u32 kind;
	__u32 id;	      /* process id, number of the softirq, or of the interrupt */
	char comm[COMM_SIZE]; /* of the task, or of the one that is interrupted */
};

struct late_packet {
	__u64 end_ns;
	__u64 total_ns;
	__u32 before_ns;
	__u32 ns[NET_PATH_NR];
	__u32 reason;
	__u32 run; /* so many late ones in a row on this CPU, with it */
	__u32 cpu;
	__u32 context; /* a group of BY_CONTEXT: what this CPU was at */
	__u32 backlog; /* packets that wait for this CPU */
	/* -1: not known */
	__s64 socket_bytes;   /* memory of packets in the socket that it was read from */
	__s64 socket_packets; /* those that no reader has looked at */
	__s64 qdisc_packets;  /* packets that wait for the device that it is at */
	__s64 sequence;	      /* of a sender that is known (wire.h), from 1, its lower bits */
	__u32 pid;
	__s32 ifindex;
	__u32 len;
	__u32 next_deed;   /* the oldest of the ring is there */
	__u64 overwritten; /* when the last was that is not in the ring any more; 0: none */
	__u16 seen;
	__u8 path;
	__u8 end;
	__u8 flags;
	char comm[COMM_SIZE];
	struct tuple tuple;
	struct deed deeds[LATE_DEEDS];
};

struct late_counts {
	__u64 late; /* packets later than the threshold */
	__u64 runs; /* runs of at least as many as asked for */
	__u64 recorded;
	__u64 limited; /* not recorded: there were enough, in all or in that second */
	__u64 lost;    /* not recorded: no room */
	__u64 unused[3];
};

#endif /* SKBLAB_LATE_H */
