/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tracer function_graph writes: pages of a ring buffer, as trace_pipe_raw hands them over. Where
 * things lie in them differs between kernels, and each says it in its `format` files.
 */
#ifndef SKBLAB_GRAPH_PAGE_H
#define SKBLAB_GRAPH_PAGE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Where a figure lies; a size of 0: this kernel does not have it. */
struct graph_field {
	unsigned int offset;
	unsigned int size;
};

struct graph_format {
	/* Of a page: how many bytes of it are used, and what they are. */
	struct graph_field commit;
	struct graph_field data;
	/* Of each event. */
	struct graph_field type;
	struct graph_field flags;
	struct graph_field pid;
	/* A call begins. */
	unsigned int entry;
	struct graph_field entry_function;
	/* A call returns. */
	unsigned int exit;
	struct graph_field exit_function;
	struct graph_field called;
	struct graph_field returned;
	struct graph_field overrun;
};

/* The files events/header_page, events/ftrace/funcgraph_entry/format and funcgraph_exit/format; false if
 * they have not what is needed.
 */
bool graph_read_format(struct graph_format *format, FILE *page, FILE *entry, FILE *exit);
/* How many bytes a page has. */
size_t graph_page_size(const struct graph_format *format);
/* Whether a page that was read has room for more: the kernel was still writing to it, unless it is the rest of
 * one of which a part was read before.
 */
bool graph_page_has_room(const struct graph_format *format, const void *page, size_t size);

struct graph_event {
	__u64 at; /* by the clock of the buffer */
	__u64 address;
	__s64 ns;      /* of a return: how long the call took */
	__u32 overrun; /* of a return: calls of this task that found no room, ever */
	__u32 pid;
	bool returns;
	bool interrupts; /* in an interrupt, upon this task */
};

enum graph_read {
	GRAPH_READ,
	GRAPH_LOST,    /* events before this page were lost */
	GRAPH_FOREIGN, /* an event of another kind */
	GRAPH_BROKEN,  /* it is none such page */
};

/* Hand over all events of a page, the oldest first. */
enum graph_read graph_read_page(const struct graph_format *format, const void *page, size_t size,
				void (*take)(void *to, const struct graph_event *event), void *to);

#endif /* SKBLAB_GRAPH_PAGE_H */
