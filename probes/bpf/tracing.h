/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs on the kernel's functions: whether they are called, and how often they were not. */
#ifndef SKBLAB_TRACING_H
#define SKBLAB_TRACING_H

#include <bpf/libbpf.h>
#include <linux/types.h>

/* Without ftrace all hooks on functions attach, and none is called; 0 or EXIT_BAD. */
int check_ftrace(void);

/* How often a program was not run because it was running; 0 or EXIT_BAD. */
int read_missed(const struct bpf_program *program, __u64 *missed);

#endif /* SKBLAB_TRACING_H */
