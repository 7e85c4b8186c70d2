// SPDX-License-Identifier: GPL-2.0
/*
 * At the device that a generator's packets arrive at: what comes of each, and its end.
 * At the device that it sends by, if wanted: stamps of when they are really sent.
 *
 * A stream is one, on whichever CPU its packets are received: order, jitter and runs
 * are kept under a lock, and each CPU has its own histograms.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include "hist.bpf.h"
#include "stream.h"

const volatile struct sink_config config;

/* Packets that were stamped anew, and those that could not be. */
__u64 stamped;
__u64 unstamped;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sink_counts);
} counts SEC(".maps");

/* The sender's header, wherever in the packet's memory it is; 0: there is no place for one. */
static __always_inline int load_header(struct __sk_buff *skb, struct wire *header)
{
	__u8 frame[FRAME_HEADERS];
	int offset;

	if (bpf_skb_load_bytes(skb, 0, frame, sizeof(frame)))
		return 0;
	offset = pktgen_offset(frame);
	if (!offset || bpf_skb_load_bytes(skb, offset, header, sizeof(*header)))
		return 0;
	return offset;
}

SEC("tcx/ingress")
int on_arrival(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_tai_ns();
	struct wire header;
	struct figures figures;
	struct sink_counts *c;
	struct stream *stream;
	struct packet packet;
	__u32 key = 0;

	c = bpf_map_lookup_elem(&counts, &key);
	stream = bpf_map_lookup_elem(&streams, &key);
	if (!c || !stream)
		return TCX_NEXT;
	c->seen++;
	if (!load_header(skb, &header) || !wire_read(&header, now, config.tai_offset_ns, &packet)) {
		c->foreign++;
		return config.drop_foreign ? TCX_DROP : TCX_NEXT;
	}
	if (skb->gso_segs > 1)
		c->merged++;

	bpf_spin_lock(&stream->lock);
	stream_note(stream, &config, &packet, now, &figures);
	bpf_spin_unlock(&stream->lock);

	if (figures.has_latency)
		place_signed(&c->latency, figures.latency);
	if (figures.has_inter_arrival)
		place_signed(&c->inter_arrival, figures.inter_arrival);
	if (figures.has_jitter)
		place_long(&c->jitter, figures.jitter);
	return config.pass ? TCX_NEXT : TCX_DROP;
}

/* The checksum of UDP holds the header. One that hardware or a receiver computes, and none at
 * all, are left as they are.
 */
static __always_inline bool restamp(struct __sk_buff *skb, int offset, struct wire *header)
{
	struct wire old = *header;
	__s64 change;

	wire_stamp(header, bpf_ktime_get_tai_ns());
	change = bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)header, sizeof(*header), 0);
	return change >= 0 &&
	       !bpf_l4_csum_replace(skb, offset + UDP_CHECKSUM, 0, change, BPF_F_MARK_MANGLED_0) &&
	       !bpf_skb_store_bytes(skb, offset, header, sizeof(*header), 0);
}

SEC("tcx/egress")
int on_departure(struct __sk_buff *skb)
{
	struct wire header;
	int offset = load_header(skb, &header);

	if (!offset || !wire_is_pktgen(&header))
		return TCX_NEXT;
	if (restamp(skb, offset, &header))
		__sync_fetch_and_add(&stamped, 1);
	else
		__sync_fetch_and_add(&unstamped, 1);
	return TCX_NEXT;
}

char LICENSE[] SEC("license") = "GPL";
