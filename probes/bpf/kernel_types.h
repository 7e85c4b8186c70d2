/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's types as far as the probe reads them. Offsets, enum values and
 * array lengths are taken from the running kernel's BTF when the probe is
 * loaded (CO-RE), so the object is built without any kernel's vmlinux.h: in
 * parallel with the kernel, once for all kernels. `pathlat --check` compares
 * what is named here with a kernel's BTF.
 */
#ifndef SKBLAB_KERNEL_TYPES_H
#define SKBLAB_KERNEL_TYPES_H

#include <linux/types.h>

/* sample->seen is a 16-bit mask, so there cannot be more points. */
#define MAX_POINTS   16
#define MAX_CONTEXTS 8

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Values here are never used, only looked up by name. */
enum net_path_point {
	NET_PATH_DRIVER = 0,
	NET_PATH_USER = 5,
	NET_PATH_NR = 6,
};

enum net_path_end {
	NET_PATH_DELIVERED = 0,
	NET_PATH_DROPPED = 1,
};

struct net_path_sample {
	__u32 ns[MAX_POINTS];
	__u16 seen;
	__u8 end;
	__u8 flags;
};

struct sk_buff {
	int skb_iif;
};

struct net_device {
	int ifindex;
};

struct napi_struct {
	struct net_device *dev;
};

struct napi_poll_sample {
	__u64 delay_ns;
	__u64 time_ns;
	int work;
	__u8 context;
	__u8 flags;
};

#pragma clang attribute pop
#endif /* __bpf__ */

/* Flags are macros in the kernel, which BTF does not carry. */
#define NET_PATH_F_NEGATIVE  (1 << 0)
#define NET_PATH_F_OVERFLOW  (1 << 1)
#define NET_PATH_F_COPY	     (1 << 2)
#define NET_PATH_F_REENTERED (1 << 3)

#define NAPI_SAMPLE_DELAY    (1 << 0)
#define NAPI_SAMPLE_REPOLL   (1 << 1)
#define NAPI_SAMPLE_NEGATIVE (1 << 2)

#endif /* SKBLAB_KERNEL_TYPES_H */
