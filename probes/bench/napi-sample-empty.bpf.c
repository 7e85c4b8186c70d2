// SPDX-License-Identifier: GPL-2.0
/* The floor of every reader of the NAPI poll sample: a program that does nothing. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("tp_btf/napi_poll_sample")
int on_poll(void *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
