/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether the clock of stamps can be relied upon.
 *
 * pktgen stamps by CLOCK_REALTIME, which BPF programs cannot read. They can read
 * CLOCK_TAI, which is ahead of it by whole seconds that adjtimex() tells, and which the
 * kernel sets with it: what is sent and received after a step is measured right. What
 * is under way at a step is not, and neither is what comes after a change of those seconds.
 */
#ifndef SKBLAB_CLOCK_H
#define SKBLAB_CLOCK_H

#include <linux/types.h>
#include <stdbool.h>

struct clock_watch {
	int fd;		/* readable once CLOCK_REALTIME was set */
	__s64 ahead_ns; /* CLOCK_REALTIME of CLOCK_MONOTONIC, at the beginning */
};

struct clock_report {
	int tai_start; /* seconds */
	int tai_end;
	__u64 steps;	  /* times that the clock was set */
	__s64 stepped_ns; /* by so much in all; 0 if it was not */
};

/* Begin; 0, or EXIT_BAD with the reason printed. */
int clock_begin(struct clock_watch *watch, struct clock_report *report);
/* Count a step, if there was one; 0 or EXIT_BAD. */
int clock_look(const struct clock_watch *watch, struct clock_report *report);
/* Look for the last time; 0 or EXIT_BAD. */
int clock_end(struct clock_watch *watch, struct clock_report *report);

#endif /* SKBLAB_CLOCK_H */
