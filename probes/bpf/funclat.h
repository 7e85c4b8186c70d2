/* SPDX-License-Identifier: GPL-2.0 */
/* What funclat's programs and its loader share. */
#ifndef SKBLAB_FUNCLAT_H
#define SKBLAB_FUNCLAT_H

#include "hist.h"

#define MAX_FUNCTIONS 64

/* One function on one CPU. */
struct function_times {
	struct hist inclusive;
	struct hist self;
	__u64 calls;	 /* that were seen to begin */
	__u64 refused;	 /* of these, there was no memory for */
	__u64 lost;	 /* of these, were not seen to return */
	__u64 unentered; /* returns of calls that were not seen to begin */
	__u64 own;	 /* time that the probe itself took for them */
	__u64 unused[3];
};

#endif /* SKBLAB_FUNCLAT_H */
