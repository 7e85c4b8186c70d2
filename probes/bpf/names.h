/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the points are called, and what a kernel calls its contexts and drop reasons. */
#ifndef SKBLAB_NAMES_H
#define SKBLAB_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel_types.h"
#include "pathlat.h"

struct btf;

extern const char *const point_names[NET_PATH_NR];
extern const char *const path_names[NET_PATH_KINDS];
extern const char *const end_names[NET_PATH_ENDS];
/* What packets can be grouped by; NULL for BY_NOTHING. */
extern const char *const by_names[GROUP_BYS];

/* Names by value, in lower case without their common prefix; NULL where no
 * value has a name. Owned by the table.
 */
struct names {
	char **name;
	size_t room;
};

/* Read from the kernel's BTF. */
struct kernel_names {
	struct names contexts;
	struct names reasons;
};

/* Whether the kernel of @btf samples NAPI polls, in the form that the probe reads. */
bool kernel_samples_polls(const struct btf *btf);

/* Take the kernel's names along; -1 if there is no memory. */
int kernel_names_read(struct kernel_names *names, const struct btf *btf);
void kernel_names_free(struct kernel_names *names);

/* The name of @value, or @fallback written with the number. */
const char *names_get(const struct names *names, size_t value, char *fallback, size_t size);

/* The name of a group, or @fallback written with it. */
const char *group_name(const struct kernel_names *names, enum group_by by, int group,
		       char *fallback, size_t size);

#endif /* SKBLAB_NAMES_H */
