/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which packets are wanted, decided at the end of a path from the packet's own
 * headers: what the network layer found is still there. A packet inside another
 * one shows the outer one's once it is wrapped, and translated addresses are
 * those that it left with.
 */
#ifndef SKBLAB_FILTER_BPF_H
#define SKBLAB_FILTER_BPF_H

#include <linux/in.h>

#include "filter.h"
#include "place.bpf.h"

#define NO_HEADER	     0xffff
#define FRAGMENT_OFFSET_MASK 0x1fff

static __always_inline void read_ports(struct tuple *tuple, const void *at)
{
	__be16 ports[2];

	if (tuple->protocol != IPPROTO_UDP && tuple->protocol != IPPROTO_TCP &&
	    tuple->protocol != IPPROTO_SCTP)
		return;
	if (bpf_probe_read_kernel(ports, sizeof(ports), at))
		return;
	tuple->ports = true;
	tuple->source_port = ports[0];
	tuple->target_port = ports[1];
}

static __noinline int read_tuple(struct tuple *tuple, const struct sk_buff *skb)
{
	const void *head = BPF_CORE_READ(skb, head);
	__u16 network = BPF_CORE_READ(skb, network_header);
	__u16 transport = BPF_CORE_READ(skb, transport_header);
	__u8 ip[40];

	if (!tuple)
		return 0;
	__builtin_memset(tuple, 0, sizeof(*tuple));
	if (network == NO_HEADER || bpf_probe_read_kernel(ip, sizeof(ip), head + network))
		return 0;
	if (ip[0] >> 4 == 4) {
		tuple->family = 4;
		tuple->protocol = ip[9];
		__builtin_memcpy(tuple->source, &ip[12], 4);
		__builtin_memcpy(tuple->target, &ip[16], 4);
		/* Only the first fragment has the ports. */
		if ((ip[6] << 8 | ip[7]) & FRAGMENT_OFFSET_MASK)
			return 0;
	} else if (ip[0] >> 4 == 6) {
		tuple->family = 6;
		tuple->protocol = ip[6];
		__builtin_memcpy(tuple->source, &ip[8], 16);
		__builtin_memcpy(tuple->target, &ip[24], 16);
	} else {
		return 0;
	}
	if (transport != NO_HEADER)
		read_ports(tuple, head + transport);
	return 0;
}

/* Whether a packet at the end of @path is wanted. */
static __always_inline bool is_wanted(const struct sk_buff *skb, __u8 path)
{
	struct tuple tuple;

	if (config.paths && !(config.paths >> path & 1))
		return false;
	if (!config.family && !config.protocol && !config.port && !config.address_family)
		return true;
	read_tuple(&tuple, skb);
	return is_tuple_wanted(&tuple, &config);
}

#endif /* SKBLAB_FILTER_BPF_H */
