// SPDX-License-Identifier: GPL-2.0
/* The floor of every reader of mainline's own event of a NAPI poll. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("tp_btf/napi_poll")
int on_poll(void *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
