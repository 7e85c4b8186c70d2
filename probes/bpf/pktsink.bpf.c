// SPDX-License-Identifier: GPL-2.0
/*
 * At the device that a generator's packets arrive at: what comes of each, and its end.
 * At the device that it sends by, if wanted: stamps of when they are really sent.
 *
 * Each CPU counts by itself (tally.h), and has its own histograms. A stream is one, on whichever
 * CPU its packets are received: at the level of times, order, jitter and runs are kept under a lock.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include "hist.bpf.h"
#include "stream.h"

const volatile struct sink_config config;

/* See transmission_next(). */
__u64 transmission;

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
static __noinline int copy_header(struct __sk_buff *skb, struct wire *header)
{
	__u8 frame[FRAME_HEADERS];
	int offset;

	if (!header)
		return 0;

	if (bpf_skb_load_bytes(skb, 0, frame, sizeof(frame)))
		return 0;
	offset = pktgen_offset(frame);
	if (!offset || bpf_skb_load_bytes(skb, offset, header, sizeof(*header)))
		return 0;
	return offset;
}

/* The same; nearly always it is in the first part of the packet's memory, and read there. */
static __always_inline int load_header(struct __sk_buff *skb, struct wire *header)
{
	const __u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	int offset;

	if (frame + IPV4_OFFSET + sizeof(*header) > end)
		return copy_header(skb, header);
	offset = pktgen_offset(frame);
	if (offset == IPV4_OFFSET) {
		*header = *(const struct wire *)(frame + IPV4_OFFSET);
		return offset;
	}
	if (offset && frame + IPV6_OFFSET + sizeof(*header) <= end) {
		*header = *(const struct wire *)(frame + IPV6_OFFSET);
		return offset;
	}
	return offset ? copy_header(skb, header) : 0;
}

/* Whether another transmission began with this packet, and it is that which counts now. */
static __always_inline void follow(struct tally *tally, const struct packet *packet)
{
	__u64 state = transmission;

	/* Another CPU may see the change, too; once it is made none is to be made again. */
	for (int i = 0; i < 2; i++) {
		__u64 next = transmission_next(state, packet), found;

		if (next == state)
			break;
		found = __sync_val_compare_and_swap(&transmission, state, next);
		if (found == state) {
			state = next;
			break;
		}
		state = found;
	}
	tally_turn(tally, state >> TRANSMISSION_EPOCH);
}

/* All that the level of times has beyond the others. */
static __always_inline void note_times(struct sink_counts *c, struct stream *stream,
				       const struct packet *packet, __u64 now)
{
	/* What is not read may be copied, which the verifier lets nobody do with what is undefined. */
	struct figures figures = {};

	bpf_spin_lock(&stream->lock);
	stream_note(stream, &config, packet, now, &figures);
	bpf_spin_unlock(&stream->lock);

	if (figures.has_latency)
		place_signed(&c->latency, figures.latency);
	if (figures.has_inter_arrival)
		place_signed(&c->inter_arrival, figures.inter_arrival);
	if (figures.has_jitter)
		place_long(&c->jitter, figures.jitter);
}

SEC("tcx/ingress")
int on_arrival(struct __sk_buff *skb)
{
	__u64 now = config.level == LEVEL_COUNTERS ? 0 : bpf_ktime_get_tai_ns();
	struct wire header;
	struct sink_counts *c;
	struct stream *stream;
	struct packet packet;
	__u32 key = 0;

	c = bpf_map_lookup_elem(&counts, &key);
	if (!c)
		return TCX_NEXT;
	c->tally.seen++;
	if (!load_header(skb, &header) || !wire_read(&header, now, config.tai_offset_ns, &packet)) {
		c->tally.foreign++;
		return config.drop_foreign ? TCX_DROP : TCX_NEXT;
	}
	if (skb->gso_segs > 1)
		c->tally.merged++;
	if (config.restart)
		follow(&c->tally, &packet);
	if (config.level == LEVEL_TIME) {
		stream = bpf_map_lookup_elem(&streams, &key);
		if (stream)
			note_times(c, stream, &packet, now);
	} else {
		tally_note(&c->tally, packet.sequence, skb->len);
		if (config.level == LEVEL_THROUGHPUT)
			tally_time(&c->tally, now);
	}
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
