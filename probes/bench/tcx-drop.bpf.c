// SPDX-License-Identifier: GPL-2.0
/* Drops every packet at tc ingress: what it costs to end one there, and no more. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("tcx/ingress")
int drop(struct __sk_buff *skb)
{
	return TCX_DROP;
}

char LICENSE[] SEC("license") = "GPL";
