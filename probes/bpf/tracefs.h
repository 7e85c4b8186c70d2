/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tracer function_graph, set up to trace some functions, and everything as it was before when that is over.
 *
 * Where the kernel lets an instance have the tracer (Linux 6.11), it has one of its own, which concerns nobody
 * else. Elsewhere there is one for all. Then what was set is put back, and it is refused if someone uses it.
 *
 * A process of its own, the keeper, waits until this one is over, however it ends, and tidies up then.
 */
#ifndef SKBLAB_TRACEFS_H
#define SKBLAB_TRACEFS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct tracefs {
	const char *top; /* where tracefs is */
	char at[128];	 /* the instance, or the same */
	bool instance;
	int setup; /* held while it is set up; the tracer for all: until everything is as it was before */
	int lock;  /* held while the instance is in use */
	int alive; /* the keeper reads from its other end until this process is over */
	pid_t keeper;
	/* Of the tracer for all, what was set. */
	unsigned int buffer_kb;
	bool overwrite;
	bool on;
};

/* Set up the tracer for no function yet, and have it off; 0 or EXIT_BAD. */
int tracefs_open(struct tracefs *tracefs, unsigned int cpus, unsigned int buffer_kb);
/* Have these functions traced, and no others; 0 or EXIT_BAD. */
int tracefs_trace(const struct tracefs *tracefs, const char *const *names, size_t count);
/* Trace, or do not; 0 or EXIT_BAD. */
int tracefs_switch(const struct tracefs *tracefs, bool on);
/* Put everything back; all files have to be closed. 0 or EXIT_BAD. */
int tracefs_close(struct tracefs *tracefs);

/* A file of the instance, or of @top; NULL and a message if it cannot be read. */
FILE *tracefs_read(const char *folder, const char *name);
/* The buffer of a CPU; -ENOENT if there is none, or EXIT_BAD below 0 behind a message. */
int tracefs_open_buffer(const struct tracefs *tracefs, unsigned int cpu, int *fd);
/* Events of this CPU that found no room; 0 or EXIT_BAD. */
int tracefs_lost(const struct tracefs *tracefs, unsigned int cpu, unsigned long long *lost);

#endif /* SKBLAB_TRACEFS_H */
