/* SPDX-License-Identifier: GPL-2.0 */
/* What the BPF programs count, shared with the program that reads it. */
#ifndef SKBLAB_PATHLAT_H
#define SKBLAB_PATHLAT_H

#include <stdbool.h>

#include "hist.h"
#include "kernel_types.h"

/* By what packets are told apart. */
enum group_by { BY_NOTHING, BY_CPU, BY_QUEUE, BY_CONTEXT, BY_PROTOCOL, GROUP_BYS };

#define MAX_GROUPS 64
/* Groups of BY_CONTEXT, after those of enum napi_poll_context. */
enum { GROUP_BACKLOG = MAX_CONTEXTS, GROUP_TASK, GROUP_UNKNOWN, CONTEXT_GROUPS };
/* Groups of BY_PROTOCOL: these four of IPv4, of IPv6, and what is neither. */
enum { GROUP_UDP, GROUP_TCP, GROUP_SCTP, GROUP_OTHER, PROTOCOLS };
#define GROUP_NO_IP	(2 * PROTOCOLS)
#define PROTOCOL_GROUPS (GROUP_NO_IP + 1)

/* Of config::points: NAPI polls, and the points without which no path is known. */
#define POLLS (1u << NET_PATH_NR)
#define POINTS_KNOWN                                                                               \
	(1u << NET_PATH_DRIVER | 1u << NET_PATH_SEND | 1u << NET_PATH_USER | 1u << NET_PATH_XMIT | \
	 1u << NET_PATH_DONE)

struct config {
	__u32 cpus;
	__u32 by;     /* enum group_by */
	__u32 groups; /* on each CPU, of which the last is for those that have none; else 1 */
	/* Which packets are wanted; 0: all. */
	__s32 ifindex; /* of the device that they came in by */
	__u64 netns;   /* cookie of the namespace that they entered */
	__u8 paths;    /* a bit for each net_path_kind */
	__u32 points;  /* where to look: a bit for each net_path_point, and POLLS; 0: everywhere */
	__u8 family;   /* 4 or 6 */
	__u8 protocol;
	__u8 address_family; /* 4 or 6; 0: any address */
	__u8 address[16];    /* either end; IPv4 in the first four */
	__be16 port;	     /* either end */
	/* Which packets are late; 0: none is looked for. */
	__u32 late_run; /* so many in a row */
	__u64 late_ns;
	__u64 late_max;	 /* recorded */
	__u32 late_rate; /* recorded in a second; 0: any number */
	/* Room, and what this kernel looks like. */
	__u32 flight_sets;
	__u32 recv_udp_arguments; /* of __skb_recv_udp() */
	bool drop_reasons;	  /* kfree_skb has them */
	bool kprobes;		  /* no function's return is seen with its arguments */
};

/* Every path begins at the driver or at send, so no interval ends there. */
#define FIRST_INTERVAL NET_PATH_STACK
#define INTERVALS      (NET_PATH_NR - FIRST_INTERVAL)

/* The packets of one path on one CPU that came to its usual end: delivered if
 * received, else transmitted. Most came by no path before; of those that did, and so
 * came back into the stack, the time since entry is apart from the path time.
 */
struct path_hists {
	struct hist only;	 /* time in a packet's only or first path */
	struct hist again;	 /* time in a later path */
	struct hist again_total; /* a later path and all before it */
	struct hist interval[INTERVALS];
};

/* Polls in one context on one CPU. */
struct napi_hists {
	struct hist delay;
	struct hist time;
	__u64 work;
	__u64 unused[7];
};

#define MAX_REASONS 512

/* Packets of one path that are not in its histograms, on one CPU. */
struct path_counts {
	__u64 ends[NET_PATH_ENDS]; /* for the usual end: those not placed */
	__u64 negative;		   /* not placed: a point lies before the previous */
	__u64 overflow;		   /* not placed: does not fit 32 bits of nanoseconds */
	__u64 reentered;
	__u64 unplaced_seen[NET_PATH_NR];
	__u64 dropped_seen[NET_PATH_NR];
	__u64 reasons[MAX_REASONS]; /* the last place is for all others */
};

/* What is not in the histograms, on one CPU. None of it is touched by a packet
 * that takes the usual way: such packets are counted by the buckets.
 */
struct counts {
	struct path_counts paths[NET_PATH_KINDS];
	__u64 unknown; /* path or end */
	__u64 filtered;
	__u64 flag_negative;
	__u64 flag_overflow;
	__u64 polls_filtered;
	__u64 polls_without_delay;
	__u64 polls_again;
	__u64 polls_unknown_context;
	__u64 contexts_refused; /* polls of which the context could not be kept */
};

#endif /* SKBLAB_PATHLAT_H */
