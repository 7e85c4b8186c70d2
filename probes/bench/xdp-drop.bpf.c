// SPDX-License-Identifier: GPL-2.0
/* Drops each frame, and counts them. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

SEC("xdp")
int drop(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&dropped, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
