// SPDX-License-Identifier: GPL-2.0
/* Types alone: a kernel whose samples have their times from the entry on. */

typedef void (*btf_trace_net_path_sample)(void *);
typedef void (*btf_trace_napi_poll_sample)(void *);

struct net_path_sample {
	unsigned int ns[6];
	unsigned short seen;
	unsigned char end;
	unsigned char flags;
};

btf_trace_net_path_sample path;
btf_trace_napi_poll_sample poll;
struct net_path_sample sample;
