// SPDX-License-Identifier: GPL-2.0
/* Types alone: a kernel with what hooks cannot do without, and with samples of NAPI polls. */

typedef void (*btf_trace_netif_receive_skb)(void *, const void *);
typedef void (*btf_trace_kfree_skb)(void *, const void *, const void *);
typedef void (*btf_trace_napi_poll_sample)(void *, const void *, const void *);

enum napi_poll_context { NAPI_POLL_SOFTIRQ };

struct napi_poll_sample {
	unsigned long long delay_ns;
	unsigned long long time_ns;
	int work;
#ifndef OLDER
	unsigned char context;
	unsigned char flags;
#endif
};

btf_trace_netif_receive_skb netif_receive;
btf_trace_kfree_skb kfree;
btf_trace_napi_poll_sample poll;
enum napi_poll_context context;
struct napi_poll_sample sample;

void skb_release_data(const void *skb);
void skb_release_data(const void *skb)
{
}
