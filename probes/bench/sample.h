/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs of this folder read of the patched kernel; placed by BTF when loaded. */
#ifndef SKBLAB_BENCH_SAMPLE_H
#define SKBLAB_BENCH_SAMPLE_H

#include <linux/types.h>

#define POINTS 16
#define PATHS  3
#define ENDS   4
#define CPUS   8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_path_sample {
	__u64 total_ns;
	__u32 ns[POINTS];
	__u16 seen;
	__u8 path;
	__u8 end;
};

#pragma clang attribute pop

#endif /* SKBLAB_BENCH_SAMPLE_H */
