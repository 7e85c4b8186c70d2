/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every loader does as a process: messages, options, waiting, its document. */
#ifndef SKBLAB_PROCESS_H
#define SKBLAB_PROCESS_H

#include <argp.h>
#include <json-c/json.h>
#include <linux/types.h>
#include <stdbool.h>
#include <sys/types.h>

#define EXIT_BAD 2
#define TRACING	 "/sys/kernel/tracing"

/* Messages begin with this name, those of getopt too. */
void process_name(const char *name, char **argv);

/* Show what libbpf says, or not. */
void process_verbose(bool verbose);

/* CLOCK_MONOTONIC in seconds. */
double now_seconds(void);

/* One line on standard error; returns the exit code for it. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What is to be known of every failure from now on; NULL: nothing. */
void fail_also(const char *text);

/* The same for a BPF program that cannot be loaded or attached. */
void fail_bpf(int error);
/* What this kernel lacks for such, or how to find out. */
const char *why_no_bpf(int error);

/* Let programs that were running when they were detached come to their end. */
void drain(void);

/* Bad usage: one line, and no more of argp's. */
#define refuse(...) exit(fail(__VA_ARGS__))

double parse_seconds(const char *option, const char *arg);
unsigned long parse_number(const char *option, const char *arg, unsigned long least,
			   unsigned long most);
/* A time in nanoseconds, with its unit. */
__u64 parse_time(const char *option, const char *arg);
/* Of argp's keys, those that mean the same to every program. */
error_t parse_rest(int key, const char *arg, struct argp_state *state);

/* What ends the wait, and what interrupts it; -1 for what there is not. */
struct waits {
	int signals;
	int parent;
	int input; /* ends at its end */
	int limit;
	int interval;
	int event; /* of the program's own */
};

enum next { FAILED, OVER, DOCUMENT, EVENT };

/* From here on SIGINT and SIGTERM are read from a descriptor; -1 if they cannot be. */
int open_signals(void);
/* Standard input if it is a pipe or a socket, whose end is its writer's; else -1. */
int ending_input(void);
/* Begin to wait: a document each @interval seconds, and over after @seconds, or with @parent;
 * 0 for what there is not. The others are the caller's to fill in. 0 or EXIT_BAD.
 */
int waits_open(struct waits *waits, double seconds, double interval, pid_t parent);
/* Wait for something to do. */
enum next wait_for_next(struct waits *waits);
void waits_close(const struct waits *waits);

/* Fail now rather than after the measurement; 0 or EXIT_BAD. */
int check_output(const char *output);
/* Write it to a file, or to standard output (NULL), and put it; 0 or EXIT_BAD. */
int write_document(struct json_object *document, const char *output);

#endif /* SKBLAB_PROCESS_H */
