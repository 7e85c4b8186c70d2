/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Late packets as they come from the kernel, and the part of the document about them. */
#ifndef SKBLAB_LATE_LIST_H
#define SKBLAB_LATE_LIST_H

#include <json-c/json.h>
#include <stddef.h>

#include "late.h"
#include "names.h"
#include "pathlat.h"

struct bpf_map;
struct late_list;

/* What late_list_open() needs to stop tracing; -1 with the reason printed. */
int tracing_open(void);

/* Begin to read; with @tracing, unless it is -1, tracing stops at the first packet.
 * NULL with the reason printed.
 */
struct late_list *late_list_open(const struct bpf_map *packets, int tracing);
void late_list_close(struct late_list *list);

/* To be waited for; then late_list_take() takes what has come. */
int late_list_fd(const struct late_list *list);
/* Returns 0 or EXIT_BAD. */
int late_list_take(struct late_list *list);

/* One of them. */
struct json_object *late_packet_json(const struct late_packet *packet,
				     const struct kernel_names *names);

/* A member of late_counts for all CPUs and the packets, oldest first. */
struct json_object *late_list_json(const struct late_list *list, const struct late_counts *counts,
				   const struct config *config, const struct kernel_names *names);

#endif /* SKBLAB_LATE_LIST_H */
