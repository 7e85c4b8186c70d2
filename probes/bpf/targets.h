/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions by name: whether the running kernel has them, and whether they can be traced. */
#ifndef SKBLAB_TARGETS_H
#define SKBLAB_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct btf;

#define MODULE_NAME 64

struct target {
	const char *name;
	bool optional; /* to be left out if it cannot be traced */
	/* What the kernel says of it. */
	bool typed;		    /* its types have a function of this name */
	unsigned int symbols;	    /* functions of this name */
	unsigned long long address; /* of the last one; 0: the kernel shows none */
	bool cloned;		    /* the compiler made one of another name of it */
	bool listed;		    /* ftrace can trace it, or does not say */
	char module[MODULE_NAME];
};

/* Look for all of them in /proc/kallsyms, or in a file like it. */
void targets_read_symbols(struct target *targets, size_t count, FILE *file);
/* And in available_filter_functions; without a @file nothing is known. */
void targets_read_listed(struct target *targets, size_t count, FILE *file);
/* And in the types of the kernel, and of the module that has it. */
void target_read_types(struct target *target, const struct btf *kernel);

/* Why programs cannot be attached to it, written to @text; false if nothing speaks against it. */
bool target_fault(const struct target *target, const struct btf *kernel, char *text, size_t size);
/* The same of ftrace, which needs no types; they are used for names that are similar, if there are any. */
bool target_fault_of_ftrace(const struct target *target, const struct btf *kernel, char *text,
			    size_t size);

/* How many letters have to be changed, put in or left out to make one word of the other; @limit if
 * it is as many or more.
 */
unsigned int letters_apart(const char *one, const char *other, unsigned int limit);

#endif /* SKBLAB_TARGETS_H */
