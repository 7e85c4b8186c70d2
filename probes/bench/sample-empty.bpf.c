// SPDX-License-Identifier: GPL-2.0
/* The floor of every reader of the path sample: a program that does nothing. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("tp_btf/net_path_sample")
int on_sample(void *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
