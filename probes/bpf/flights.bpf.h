/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets under way, by the address of their data. Every point looks one up, which in
 * a hash map was most of its cost. So they lie in plain memory, in sets of four by a
 * hash of the address. What finds its set full goes to a hash map, which is asked as
 * long as it holds any.
 */
#ifndef SKBLAB_FLIGHTS_BPF_H
#define SKBLAB_FLIGHTS_BPF_H

#include "hooks.h"
#include "place.bpf.h"

/* Made as long as need be by the loader. */
struct flight_set flight_sets[1] SEC(".bss.flights");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DEFAULT_FLIGHTS);
	__type(key, __u64);
	__type(value, struct flight);
} spilled SEC(".maps");

/* How many are there. */
__u64 spills;

static __always_inline struct flight_set *set_of(__u64 key)
{
	__u64 number = (key * 0x9e3779b97f4a7c15ULL >> 32) * config.flight_sets >> 32;

	return number < config.flight_sets ? &flight_sets[number] : NULL;
}

static __always_inline struct flight *find_flight(__u64 key)
{
	struct flight_set *set = set_of(key);

	for (int i = 0; set && i < FLIGHT_SET; i++)
		if (set->key[i] == key)
			return &set->flight[i];
	return unlikely(spills) ? bpf_map_lookup_elem(&spilled, &key) : NULL;
}

static __noinline int spill(__u64 key)
{
	struct flight empty = {};

	if (bpf_map_update_elem(&spilled, &key, &empty, BPF_NOEXIST))
		return -1;
	__sync_fetch_and_add(&spills, 1);
	return 0;
}

/* Room where no other memory is needed, to be filled in; NULL if there is none. */
static __always_inline struct flight *add_in_set(__u64 key)
{
	struct flight_set *set = set_of(key);

	for (int i = 0; set && i < FLIGHT_SET; i++)
		if (!set->key[i] && !__sync_val_compare_and_swap(&set->key[i], 0, key))
			return &set->flight[i];
	return NULL;
}

/* Room for a packet that is not known yet, to be filled in; NULL if there is none. */
static __always_inline struct flight *add_flight(__u64 key)
{
	struct flight *flight = add_in_set(key);

	if (flight)
		return flight;
	return spill(key) ? NULL : bpf_map_lookup_elem(&spilled, &key);
}

static __always_inline void forget(__u64 key)
{
	struct flight_set *set = set_of(key);

	for (int i = 0; set && i < FLIGHT_SET; i++) {
		if (set->key[i] == key) {
			/* After all that was read of it: another CPU may take the place at once. */
			__sync_lock_test_and_set(&set->key[i], 0);
			return;
		}
	}
	if (unlikely(spills) && !bpf_map_delete_elem(&spilled, &key))
		__sync_fetch_and_add(&spills, -1);
}

#endif /* SKBLAB_FLIGHTS_BPF_H */
