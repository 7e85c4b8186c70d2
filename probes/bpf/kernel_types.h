/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's types as far as the probe reads them. Offsets are taken from the
 * running kernel's BTF when the probe is loaded (CO-RE), so the object is built
 * without any kernel's vmlinux.h: in parallel with the kernel, once for all
 * kernels. What is named here is compared with a kernel's BTF before that, and
 * by `pathlat --check`.
 */
#ifndef SKBLAB_KERNEL_TYPES_H
#define SKBLAB_KERNEL_TYPES_H

#include <linux/types.h>

#define MAX_CONTEXTS 8

/* The probe is written for these points, paths and ends; a kernel that numbers
 * them otherwise is refused (names.c).
 */
enum net_path_point {
	NET_PATH_DRIVER,
	NET_PATH_SEND,
	NET_PATH_STACK,
	NET_PATH_IP,
	NET_PATH_ROUTE,
	NET_PATH_LOCAL,
	NET_PATH_TRANSPORT,
	NET_PATH_SOCKET,
	NET_PATH_WAKE,
	NET_PATH_USER,
	NET_PATH_FORWARD,
	NET_PATH_OUTPUT,
	NET_PATH_QUEUE,
	NET_PATH_DEQUEUE,
	NET_PATH_XMIT,
	NET_PATH_DONE,
	NET_PATH_NR
};

enum net_path_kind { NET_PATH_RECEIVE, NET_PATH_FORWARDING, NET_PATH_SENDING, NET_PATH_KINDS };

enum net_path_end {
	NET_PATH_DELIVERED,
	NET_PATH_DROPPED,
	NET_PATH_TRANSMITTED,
	NET_PATH_CONSUMED,
	NET_PATH_ENDS
};

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_path_sample {
	__u64 total_ns;
	__u32 before_ns;
	__u32 ns[NET_PATH_NR];
	__u16 seen;
	__u16 merged;
	__u8 path;
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
