// SPDX-License-Identifier: GPL-2.0-or-later
/* What hooks.c does with the maps of place.bpf.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source.h"

int placing_open(struct placing *placing, const struct bpf_object *object,
		 const struct config *config)
{
	int stretches = config->cpus * config->groups * NET_PATH_KINDS;

	*placing = (struct placing){
		.path_map = bpf_object__find_map_by_name(object, ".bss.path"),
		.napi_map = bpf_object__find_map_by_name(object, ".bss.napi"),
		.counts_map = bpf_object__find_map_by_name(object, "counts"),
		.late_map = bpf_object__find_map_by_name(object, "late_states"),
		.cpus = config->cpus,
		.groups = config->groups,
	};
	return bpf_map__set_value_size(placing->path_map, stretches * sizeof(struct path_hists))
		       ?: bpf_map__set_value_size(placing->napi_map,
						  config->cpus * MAX_CONTEXTS *
							  sizeof(struct napi_hists))
		       ?: bpf_map__set_max_entries(
				  bpf_object__find_map_by_name(object, "napi_contexts"),
				  config->by == BY_CONTEXT ? MAX_NAPIS : 1);
}

/* What programs write, mapped here. */
static void *memory_of(const struct bpf_map *map)
{
	size_t size;

	return bpf_map__initial_value(map, &size);
}

void placing_init(const struct placing *placing)
{
	struct path_hists *paths = memory_of(placing->path_map);
	struct napi_hists *napis = memory_of(placing->napi_map);

	for (int i = 0; i < placing->cpus * placing->groups * NET_PATH_KINDS; i++)
		path_init(&paths[i]);
	for (int i = 0; i < placing->cpus * MAX_CONTEXTS; i++) {
		hist_init(&napis[i].delay);
		hist_init(&napis[i].time);
	}
}

/* Join all CPUs' counters, with which @map's value begins. */
static int read_counters(const struct bpf_map *map, void *joined, size_t size, int cpus)
{
	size_t stride = bpf_map__value_size(map);
	char *parts = calloc(cpus, stride);
	__u32 key = 0;
	int ret = 0;

	if (!parts)
		return fail("out of memory");
	if (bpf_map__lookup_elem(map, &key, sizeof(key), parts, cpus * stride, 0))
		ret = fail("cannot read %s: %s", bpf_map__name(map), strerror(errno));
	for (int cpu = 0; !ret && cpu < cpus; cpu++)
		counters_join(joined, parts + cpu * stride, size);
	free(parts);
	return ret;
}

int placing_read(const struct placing *placing, struct report *report)
{
	const struct path_hists *paths = memory_of(placing->path_map);
	const struct napi_hists *napis = memory_of(placing->napi_map);

	for (int i = 0; i < placing->cpus * placing->groups * NET_PATH_KINDS; i++) {
		path_join(&report->paths[i % NET_PATH_KINDS], &paths[i]);
		/* By CPU there are as many as stretches, else as many in each. */
		if (report->groups)
			path_join(&report->groups[i % (report->group_count * NET_PATH_KINDS)],
				  &paths[i]);
	}
	for (int i = 0; i < placing->cpus * MAX_CONTEXTS; i++)
		napi_join(&report->napi[i % MAX_CONTEXTS], &napis[i]);
	return read_counters(placing->counts_map, &report->counts, sizeof(report->counts),
			     placing->cpus)
		       ?: read_counters(placing->late_map, &report->late, sizeof(report->late),
					placing->cpus);
}
