// SPDX-License-Identifier: GPL-2.0-or-later
/* What more than one source does: messages, time, BPF objects. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "source.h"

double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int fail(const char *format, ...)
{
	va_list args;

	fputs("pathlat: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_BAD;
}

static bool has_tracefs(void)
{
	return !access(TRACING "/events", F_OK) ||
	       !access("/sys/kernel/debug/tracing/events", F_OK);
}

void fail_bpf(int error)
{
	if (error == -EPERM && geteuid())
		fail("no permission to load BPF programs; run as root (CAP_BPF and CAP_PERFMON)");
	else if (error == -EPERM)
		fail("no permission to load BPF programs, though root: a container or a locked-down "
		     "kernel; it takes CAP_BPF and CAP_PERFMON");
	else
		fail("cannot load or attach the BPF programs: %s; %s", strerror(-error),
		     /* libbpf has to write there where perf makes no kprobes. */
		     has_tracefs()
			     ? "--verbose shows why"
			     : "tracefs is not mounted, which may be why: mount -t tracefs none " TRACING
			       ". Else --verbose shows why");
}

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

bool is_for_late(const struct bpf_program *program)
{
	return !strncmp(bpf_program__name(program), "late_", 5);
}

/* Programs run with preemption disabled, which this waits out on every CPU. */
void drain(void)
{
	static const struct timespec long_enough = { .tv_nsec = 50 * 1000 * 1000 };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		nanosleep(&long_enough, NULL);
}

int read_missed(const struct bpf_program *program, __u64 *missed)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return fail("cannot read how often a program was missed: %s", strerror(errno));
	*missed += info.recursion_misses;
	return 0;
}
