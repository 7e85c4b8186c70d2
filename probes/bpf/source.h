/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where times come from: the kernel's own histograms, or hooks on its functions. */
#ifndef SKBLAB_SOURCE_H
#define SKBLAB_SOURCE_H

#include <bpf/libbpf.h>

#include "process.h"
#include "report.h"

#define STAMPS_SYSCTL "/proc/sys/net/core/path_trace"
#define HISTOGRAMS    "/sys/kernel/debug/net_path/histograms"

struct settings {
	struct config config; /* for the programs: what is wanted, and how many CPUs */
	unsigned int flights; /* hooks: packets under way at once */
};

struct source {
	const char *name;
	int stamps;  /* the net.core.path_trace that it takes; 0: any */
	bool no_bpf; /* and no types of the kernel */
	/* Say on standard output what there is on a kernel with these types, which is
	 * the one that runs or not; 0 or EXIT_BAD.
	 */
	int (*check)(const struct btf *btf, bool running, struct report *report);
	/* Load and attach. Returns its state, or NULL with the reason printed. */
	void *(*start)(const struct settings *settings, const struct btf *btf,
		       struct report *report);
	/* Where late packets come from. */
	const struct bpf_map *(*late_packets)(void *state);
	/* Stop, and let what is under way come to its end. */
	void (*stop)(void *state);
	/* Add all CPUs' counts to the report; 0 or EXIT_BAD. */
	int (*read)(void *state, struct report *report);
	/* Detach and free. */
	void (*destroy)(void *state);
};

extern const struct source hooks_source;
extern const struct source histograms_source;

/* The maps of place.bpf.h */
struct placing {
	struct bpf_map *path_map;
	struct bpf_map *napi_map;
	struct bpf_map *counts_map;
	struct bpf_map *late_map;
	int cpus;
	int groups; /* on each CPU */
};

/* Find them in @object, which is not loaded yet, and give each CPU its stretch of
 * histograms; 0 or a negative error.
 */
int placing_open(struct placing *placing, const struct bpf_object *object,
		 const struct config *config);
/* Make them empty, once it is. */
void placing_init(const struct placing *placing);
/* Join those of all CPUs; 0 or EXIT_BAD. */
int placing_read(const struct placing *placing, struct report *report);

#endif /* SKBLAB_SOURCE_H */
