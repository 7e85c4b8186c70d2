// SPDX-License-Identifier: GPL-2.0
/* Sends each frame on by the device that the map has. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} to SEC(".maps");

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	return bpf_redirect_map(&to, 0, XDP_DROP);
}

char LICENSE[] SEC("license") = "GPL";
