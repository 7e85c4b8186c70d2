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

/* Points, paths and ends as the probe numbers them. A kernel with path stamps has most
 * of their names, in its histograms, and numbers of its own.
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

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct qdisc_skb_head {
	__u32 qlen;
};

struct Qdisc {
	unsigned int flags;
	struct qdisc_skb_head q;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	int ifindex;
	struct netdev_queue *_tx;
	possible_net_t nd_net;
};

struct sock_common {
	possible_net_t skc_net;
};

struct sock;

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	struct sock *sk;
	unsigned long _skb_refdst; /* the route, or 0 */
	unsigned int len;
	__u8 cloned : 1;
	__u8 fclone : 2;
	int skb_iif;
	__u16 queue_mapping;
	unsigned int napi_id;
	__u16 network_header;
	__u16 transport_header;
	unsigned int tail; /* from head, as on all 64-bit architectures */
	unsigned int end;
	unsigned char *head;
};

struct sk_buff_head {
	struct sk_buff *next;
	__u32 qlen;
};

struct softnet_data {
	struct sk_buff_head input_pkt_queue;
};

typedef struct {
	int counter;
} atomic_t;

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct skb_shared_info {
	atomic_t dataref;
};

struct task_struct {
	unsigned int flags;
	int pid;
	char comm[16];
};

struct napi_struct {
	struct net_device *dev;
	unsigned int napi_id;
};

/* Of x86; in some versions a variable of its own. */
struct pcpu_hot {
	int preempt_count;
};

/* Only of kernels with the tracepoint of this name. */
struct napi_poll_sample {
	__u64 delay_ns;
	__u64 time_ns;
	int work;
	__u8 context;
	__u8 flags;
};

#pragma clang attribute pop

#define SOCK_DGRAM     2    /* sock::sk_type */
#define TCQ_F_CPUSTATS 0x20 /* Qdisc::flags */
#endif			    /* __bpf__ */

/* Where a poll runs: the kernel's own numbers if it has them. */
enum napi_poll_context {
	NAPI_POLL_SOFTIRQ,
	NAPI_POLL_KSOFTIRQD,
	NAPI_POLL_KTHREAD,
	NAPI_POLL_BUSY_POLL,
	NAPI_POLL_NETPOLL,
};

#define PF_KTHREAD	 0x00200000 /* task_struct::flags */
#define SOFTIRQ_OFFSET	 0x100	    /* preempt_count: serves a softirq */
#define MAX_ERRNO	 4095
#define SKB_FCLONE_ORIG	 1
#define SKB_FCLONE_CLONE 2 /* sk_buff::fclone */
#define SKB_DATAREF_MASK 0xffff

/* What is known of a packet's times. */
#define NET_PATH_F_NEGATIVE  (1 << 0)
#define NET_PATH_F_OVERFLOW  (1 << 1)
#define NET_PATH_F_REENTERED (1 << 2)

/* napi_poll_sample::flags: macros in the kernel, which BTF does not carry. */
#define NAPI_SAMPLE_DELAY    (1 << 0)
#define NAPI_SAMPLE_REPOLL   (1 << 1)
#define NAPI_SAMPLE_NEGATIVE (1 << 2)

#endif /* SKBLAB_KERNEL_TYPES_H */
