// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * funclat: how long calls of kernel functions take, with and without what they call. Loads
 * and attaches a pair of BPF programs for each function, waits, prints JSON. Where that cannot
 * be, it has ftrace's function_graph trace them (graph.c).
 *
 * Exit code 0: the document is complete. 2: bad usage, a function or a kernel that cannot be
 * traced, no permission, or an output that cannot be written.
 */
#include <argp.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "graph.h"
#include "process.h"
#include "targets.h"
#include "times.h"
#include "tracing.h"

#include "funclat.skel.h"

#ifndef PROBES_VERSION
#error "PROBES_VERSION comes from the Makefile"
#endif

/* The kernel has it to test programs with: it adds 1, and is called each time one is tested. */
#define EMPTY_FUNCTION "bpf_fentry_test1"
#define BY_FENTRY      "fentry"
/* No programs can be attached, and ftrace may be able to trace the functions all the same. */
#define NO_FENTRY (-2)

const char *argp_program_version = "funclat " PROBES_VERSION;

static const char doc[] =
	"Count how long calls of kernel functions take, with and without the functions among them "
	"that they call, in histograms with 16 buckets per power of two. Every call is counted. "
	"First it measures what the probe itself takes for a call.\v"
	"Prints \"ready\" on standard error once attached, and one JSON document when the time is "
	"up, on SIGINT or SIGTERM, or when the parent process ends.";

enum { OPT_OPTIONAL = 256, OPT_BY };

static const struct argp_option options[] = {
	{ "seconds", 's', "SECONDS", 0, "Stop after so long [until a signal]", 0 },
	{ "interval", 'i', "SECONDS", 0,
	  "Also write a document, of all that was counted so far, each time so long has gone by",
	  0 },
	{ "output", 'o', "FILE", 0, "Write the document there instead of standard output", 0 },
	{ "optional", OPT_OPTIONAL, "NAME", 0,
	  "A function that is left out if this kernel does not have it or lets nobody trace it; may "
	  "be repeated",
	  0 },
	{ "by", OPT_BY, "WHAT", 0,
	  "fentry: BPF programs. function-graph: a tracer of ftrace, which makes each call cost "
	  "more. auto: the former where the kernel takes it [auto]",
	  0 },
	{ "verbose", 'v', NULL, 0, "Show what libbpf says", 0 },
	{ 0 },
};

struct arguments {
	double seconds;	 /* 0: no limit */
	double interval; /* 0: one document, at the end */
	const char *output;
	const char *by; /* NULL: what can be had */
	struct target targets[MAX_FUNCTIONS];
	size_t count;
	bool verbose;
};

static void add_target(struct arguments *a, const char *name, bool optional)
{
	if (!*name)
		refuse("expected the name of a function, and not an empty one");
	for (size_t i = 0; i < a->count; i++)
		if (!strcmp(a->targets[i].name, name))
			refuse("%s: given twice", name);
	if (a->count == MAX_FUNCTIONS)
		refuse("%s: expected no more than %d functions", name, MAX_FUNCTIONS);
	a->targets[a->count++] = (struct target){ .name = name, .optional = optional };
}

static const char *parse_by(const char *arg)
{
	if (!strcmp(arg, "auto"))
		return NULL;
	if (strcmp(arg, BY_FENTRY) && strcmp(arg, BY_GRAPH))
		refuse("--by %s: expected " BY_FENTRY ", " BY_GRAPH " or auto", arg);
	return arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 's':
		a->seconds = parse_seconds("--seconds", arg);
		break;
	case 'i':
		a->interval = parse_seconds("--interval", arg);
		break;
	case 'o':
		a->output = arg;
		break;
	case OPT_OPTIONAL:
		add_target(a, arg, true);
		break;
	case OPT_BY:
		a->by = parse_by(arg);
		break;
	case 'v':
		a->verbose = true;
		break;
	case ARGP_KEY_ARG:
		add_target(a, arg, false);
		break;
	case ARGP_KEY_END:
		if (!a->count)
			refuse("which functions? Expected names, such as udp_rcv");
		break;
	default:
		return parse_rest(key, arg, state);
	}
	return 0;
}

/* The two programs of one function. */
struct pair {
	struct funclat_bpf *bpf;
	struct bpf_link *entry;
	struct bpf_link *exit;
	/* How often they were missed before anything was counted. */
	__u64 missed_entries;
	__u64 missed_returns;
};

struct state {
	const struct arguments *arguments;
	const char *kernel;
	pid_t parent;
	int signals;
	int cpus;
	/* Those of functions, which come first in the map, and one for the empty function. */
	struct pair pairs[MAX_FUNCTIONS + 1];
	struct function_report functions[MAX_FUNCTIONS];
	size_t count;
	struct absent absent[MAX_FUNCTIONS];
	size_t absent_count;
	struct probe_cost cost;
	/* Whose maps all others share; NULL until one is loaded. */
	struct funclat_bpf *owner;
	struct pair *empty; /* the pair of the empty function */
	char why[768];	    /* why not by fentry */
};

/* Programs cannot be attached: an error if that was asked for. Returns EXIT_BAD or NO_FENTRY. */
static int no_fentry(struct state *state, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(state->why, sizeof(state->why), format, args);
	va_end(args);
	return state->arguments->by ? fail("%s", state->why) : NO_FENTRY;
}

/* The same for an error of the BPF programs. Without permission there is none for ftrace either. */
static int no_programs(struct state *state, int err)
{
	if (err != -EPERM)
		return no_fentry(state, "cannot load or attach the BPF programs: %s; %s",
				 strerror(-err), why_no_bpf(err));
	fail_bpf(err);
	return EXIT_BAD;
}

/* The maps of the first, so that all count in the same ones. */
static int share_maps(struct funclat_bpf *bpf, const struct state *state)
{
	if (!state->owner)
		return bpf_map__set_max_entries(bpf->maps.times, MAX_FUNCTIONS + 1);
	return bpf_map__reuse_fd(bpf->maps.times, bpf_map__fd(state->owner->maps.times))
		       ?: bpf_map__reuse_fd(bpf->maps.stacks,
					    bpf_map__fd(state->owner->maps.stacks))
		       ?: bpf_map__reuse_fd(bpf->maps.bss, bpf_map__fd(state->owner->maps.bss));
}

/* Load the programs of a function, the @number of which they count under; 0 or an error. */
static int load_pair(struct state *state, struct pair *pair, __u32 number, const char *name)
{
	struct funclat_bpf *bpf = funclat_bpf__open();
	int err;

	if (!bpf)
		return -errno;
	pair->bpf = bpf;
	*(__u32 *)&bpf->rodata->function = number;
	err = share_maps(bpf, state)
		      ?: bpf_program__set_attach_target(bpf->progs.on_entry, 0, name)
		      ?: bpf_program__set_attach_target(bpf->progs.on_return, 0, name)
		      ?: funclat_bpf__load(bpf);
	if (!err && !state->owner)
		state->owner = bpf;
	return err;
}

static struct bpf_link *attach(const struct bpf_program *program, int *err)
{
	struct bpf_link *link = bpf_program__attach(program);

	*err = link ? 0 : -errno;
	return link;
}

/* The return first: then no call is seen to begin of which the end is not. 0 or an error. */
static int attach_pair(struct pair *pair)
{
	int err;

	pair->exit = attach(pair->bpf->progs.on_return, &err);
	if (!err)
		pair->entry = attach(pair->bpf->progs.on_entry, &err);
	return err;
}

static void detach_pair(struct pair *pair)
{
	bpf_link__destroy(pair->entry);
	bpf_link__destroy(pair->exit);
	pair->entry = NULL;
	pair->exit = NULL;
}

static void close_pair(struct state *state, struct pair *pair)
{
	detach_pair(pair);
	/* Its maps are still needed. */
	if (pair->bpf == state->owner)
		return;
	funclat_bpf__destroy(pair->bpf);
	pair->bpf = NULL;
}

static struct function_times *new_times(int count)
{
	struct function_times *times = calloc(count, sizeof(*times));

	for (int i = 0; times && i < count; i++)
		times_init(&times[i]);
	return times;
}

_Static_assert(sizeof(struct function_times) % 8 == 0, "the kernel rounds up, and has them apart");

/* Histograms without values are not all zero; 0 or EXIT_BAD. */
static int empty_times(const struct state *state)
{
	struct function_times *times = new_times(state->cpus);
	int ret = times ? 0 : fail("out of memory");

	for (__u32 i = 0; !ret && i <= MAX_FUNCTIONS; i++)
		if (bpf_map__update_elem(state->owner->maps.times, &i, sizeof(i), times,
					 state->cpus * sizeof(*times), 0))
			ret = fail("cannot write the counts: %s", strerror(errno));
	free(times);
	return ret;
}

/* Those of one function, of all CPUs; 0 or EXIT_BAD. */
static int read_times(const struct state *state, __u32 number, struct function_times *joined)
{
	struct function_times *times = new_times(state->cpus);
	int ret = 0;

	if (!times)
		return fail("out of memory");
	times_init(joined);
	if (bpf_map__lookup_elem(state->owner->maps.times, &number, sizeof(number), times,
				 state->cpus * sizeof(*times), 0))
		ret = fail("cannot read the counts: %s", strerror(errno));
	for (int cpu = 0; !ret && cpu < state->cpus; cpu++)
		times_join(joined, &times[cpu]);
	free(times);
	return ret;
}

/* Whoever is in a program still counts. */
static void stop_counting(const struct state *state)
{
	state->owner->bss->counting = false;
	drain();
}

/* Have the empty function called; ns a call, or 0 if the kernel does not test programs. */
static double time_empty(const struct pair *pair)
{
	double begun = now_seconds();

	for (int i = 0; i < COST_RUNS; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts);

		if (bpf_prog_test_run_opts(bpf_program__fd(pair->bpf->progs.on_entry), &opts))
			return 0;
	}
	return (now_seconds() - begun) * 1e9 / COST_RUNS;
}

/* The shortest of some rounds, of which @cost has what was counted: the others were interrupted.
 * Returns 0, EXIT_BAD, or -1 if the kernel does not test programs.
 */
static int time_rounds(const struct state *state, double *shortest, struct probe_cost *cost)
{
	struct function_times *times = &cost->times;
	__u64 before;

	for (int round = 0; round < COST_ROUNDS; round++) {
		double ns;

		before = times->own;
		ns = time_empty(state->empty);
		if (!ns)
			return -1;
		if (read_times(state, MAX_FUNCTIONS, times))
			return EXIT_BAD;
		if (round && ns >= *shortest)
			continue;
		*shortest = ns;
		cost->own = (double)(times->own - before) / COST_RUNS;
	}
	return 0;
}

/* How much longer a call is with the probe, and how much of that the probe sees itself; 0,
 * EXIT_BAD or NO_FENTRY. The programs are loaded.
 */
static int measure_cost(struct state *state)
{
	struct pair *pair = state->empty;
	struct probe_cost *cost = &state->cost;
	double without, with;
	int ret = time_rounds(state, &without, cost), err;

	if (ret > 0)
		return ret;
	if (ret) {
		fprintf(stderr,
			"funclat: what the probe takes for a call cannot be measured here: %s\n",
			strerror(errno));
		return 0;
	}
	err = attach_pair(pair);
	if (err)
		return no_programs(state, err);
	state->owner->bss->counting = true;
	ret = time_rounds(state, &with, cost);
	stop_counting(state);
	detach_pair(pair);
	if (ret)
		return ret > 0 ? ret
			       : fail("cannot measure what the probe takes for a call: %s",
				      strerror(errno));
	cost->calls = COST_ROUNDS * COST_RUNS;
	cost->cost = with - without;
	return 0;
}

/* Load for the empty function: what fails now fails for all; 0, EXIT_BAD or NO_FENTRY. */
static int begin(struct state *state, const struct btf *btf)
{
	int err;

	/* Not if the kernel was built without tests. */
	if (btf__find_by_name_kind(btf, EMPTY_FUNCTION, BTF_KIND_FUNC) < 0) {
		fputs("funclat: what the probe takes for a call cannot be measured here: the "
		      "kernel has no " EMPTY_FUNCTION "\n",
		      stderr);
		return 0;
	}
	state->empty = &state->pairs[MAX_FUNCTIONS];
	err = load_pair(state, state->empty, MAX_FUNCTIONS, EMPTY_FUNCTION);
	if (err)
		return no_programs(state, err);
	return empty_times(state) ?: measure_cost(state);
}

/* A function that is left out. */
static void leave_out(struct state *state, const struct target *target, const char *why)
{
	struct absent *absent = &state->absent[state->absent_count++];

	absent->name = target->name;
	snprintf(absent->why, sizeof(absent->why), "%s", why);
}

/* Load and attach what a function needs, or leave it out; 0, EXIT_BAD or NO_FENTRY. */
static int add_function(struct state *state, const struct target *target, const struct btf *btf)
{
	struct pair *pair = &state->pairs[state->count];
	bool first = !state->owner;
	char why[512];
	int err;

	/* If it may not be left out, check_names() has looked. */
	if (target_fault(target, btf, why, sizeof(why))) {
		leave_out(state, target, why);
		return 0;
	}
	err = load_pair(state, pair, state->count, target->name);
	if (!err && first && empty_times(state))
		return EXIT_BAD;
	err = err ?: attach_pair(pair);
	if (!err) {
		state->functions[state->count++].name = target->name;
		return 0;
	}
	close_pair(state, pair);
	if (err == -EPERM)
		return no_programs(state, err);
	snprintf(why, sizeof(why),
		 "this kernel takes no programs at its entry and return: %s; --verbose shows why",
		 strerror(-err));
	if (!target->optional)
		return no_fentry(state, "%s: %s", target->name, why);
	leave_out(state, target, why);
	return 0;
}

static FILE *open_listed(void)
{
	FILE *file = fopen(TRACING "/available_filter_functions", "re");

	return file ?: fopen("/sys/kernel/debug/tracing/available_filter_functions", "re");
}

/* What the kernel says of these names; 0 or EXIT_BAD. */
static int look_up(struct target *targets, size_t count, const struct btf *btf)
{
	FILE *symbols = fopen("/proc/kallsyms", "re"), *listed;

	if (!symbols)
		return fail("cannot read the kernel's functions in /proc/kallsyms: %s",
			    strerror(errno));
	targets_read_symbols(targets, count, symbols);
	fclose(symbols);
	listed = open_listed();
	targets_read_listed(targets, count, listed);
	if (listed)
		fclose(listed);
	for (size_t i = 0; i < count; i++)
		target_read_types(&targets[i], btf);
	return 0;
}

/* Refuse a name before anything is loaded, which takes long; 0 or EXIT_BAD. */
static int check_names(const struct arguments *a, const struct btf *btf)
{
	char why[512];

	for (size_t i = 0; i < a->count; i++)
		if (!a->targets[i].optional &&
		    target_fault_of_ftrace(&a->targets[i], btf, why, sizeof(why)))
			return fail("%s: %s", a->targets[i].name, why);
	return 0;
}

/* And those that programs cannot be attached to; 0, EXIT_BAD or NO_FENTRY. */
static int check_types(struct state *state, const struct arguments *a, const struct btf *btf)
{
	char why[512];

	for (size_t i = 0; i < a->count; i++)
		if (!a->targets[i].optional && target_fault(&a->targets[i], btf, why, sizeof(why)))
			return no_fentry(state, "%s: %s", a->targets[i].name, why);
	return 0;
}

static int read_all_missed(const struct pair *pair, __u64 *entries, __u64 *returns)
{
	*entries = 0;
	*returns = 0;
	return read_missed(pair->bpf->progs.on_entry, entries)
		       ?: read_missed(pair->bpf->progs.on_return, returns);
}

static int write_times(struct state *state, double seconds, bool final)
{
	struct times_report report = {
		.kernel = state->kernel,
		.by = BY_FENTRY,
		.seconds = seconds,
		.final = final,
		.functions = state->functions,
		.count = state->count,
		.absent = state->absent,
		.absent_count = state->absent_count,
		.cost = &state->cost,
	};

	for (size_t i = 0; i < state->count; i++) {
		struct function_report *function = &state->functions[i];
		const struct pair *pair = &state->pairs[i];

		if (read_times(state, i, &function->times) ||
		    read_all_missed(pair, &function->missed_entries, &function->missed_returns))
			return EXIT_BAD;
		function->missed_entries -= pair->missed_entries;
		function->missed_returns -= pair->missed_returns;
	}
	return write_document(times_json(&report), state->arguments->output);
}

static int wait_and_write(struct state *state)
{
	const struct arguments *a = state->arguments;
	struct waits waits = { .signals = state->signals, .input = -1, .event = -1 };
	double begun, over;
	enum next next = DOCUMENT;
	int ret;

	for (size_t i = 0; i < state->count; i++)
		if (read_all_missed(&state->pairs[i], &state->pairs[i].missed_entries,
				    &state->pairs[i].missed_returns))
			return EXIT_BAD;
	state->owner->bss->counting = true;
	begun = now_seconds();
	fputs("ready\n", stderr);
	ret = waits_open(&waits, a->seconds, a->interval, state->parent);
	while (!ret && next == DOCUMENT) {
		next = wait_for_next(&waits);
		if (next == DOCUMENT)
			ret = write_times(state, now_seconds() - begun, false);
	}
	over = now_seconds() - begun;
	stop_counting(state);
	waits_close(&waits);
	if (ret || next != OVER)
		return EXIT_BAD;
	return check_ftrace() ?: write_times(state, over, true);
}

static int none_left(const struct state *state)
{
	return fail("none of these functions can be traced here; %s: %s", state->absent[0].name,
		    state->absent[0].why);
}

/* All of them may be left out. Whether ftrace can trace one of them all the same; EXIT_BAD or NO_FENTRY. */
static int none_by_fentry(struct state *state, const struct arguments *a, const struct btf *btf)
{
	char why[512];

	/* One is absent for each target, in their order. */
	for (size_t i = 0; !a->by && i < state->absent_count; i++)
		if (!target_fault_of_ftrace(&a->targets[i], btf, why, sizeof(why)))
			return no_fentry(state, "%s: %s", state->absent[i].name,
					 state->absent[i].why);
	return none_left(state);
}

/* 0, EXIT_BAD or NO_FENTRY, and then nothing is attached any more. */
static int measure_by_fentry(struct state *state, struct arguments *a, const struct btf *btf)
{
	int ret;

	if (!btf)
		return no_fentry(
			state,
			"%s shows no types in /sys/kernel/btf/vmlinux; mount /sys, or build the "
			"kernel with CONFIG_DEBUG_INFO_BTF=y",
			state->kernel);
	ret = check_types(state, a, btf) ?: begin(state, btf);
	for (size_t i = 0; !ret && i < a->count; i++)
		ret = add_function(state, &a->targets[i], btf);
	if (!ret && !state->count)
		ret = none_by_fentry(state, a, btf);
	ret = ret ?: wait_and_write(state);
	for (size_t i = 0; i <= MAX_FUNCTIONS; i++)
		close_pair(state, &state->pairs[i]);
	funclat_bpf__destroy(state->owner);
	return ret;
}

/* The function that does nothing; NULL if nobody can trace it. */
static const struct target *find_empty(struct target *targets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		targets[i].name = graph_empty_names[i];
		targets[i].optional = true;
	}
	if (look_up(targets, count, NULL))
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (targets[i].symbols == 1 && targets[i].listed)
			return &targets[i];
	return NULL;
}

/* The tracer names a function by its address; EXIT_BAD. */
static int no_addresses(void)
{
	return geteuid() ? fail("no permission to trace; run as root")
			 : fail("/proc/kallsyms shows no addresses, by which the tracer names "
				"functions: sysctl -w kernel.kptr_restrict=1");
}

static int measure_by_graph(struct state *state, struct arguments *a, const struct btf *btf)
{
	const struct target *targets[MAX_FUNCTIONS];
	struct target empty[MAX_FUNCTIONS] = { 0 };
	struct graph_request request = {
		.kernel = state->kernel,
		.why = *state->why ? state->why : NULL,
		.seconds = a->seconds,
		.interval = a->interval,
		.output = a->output,
		.targets = targets,
		.absent = state->absent,
		.empty = find_empty(empty, graph_empty_count),
		.parent = state->parent,
		.signals = state->signals,
		.cpus = state->cpus,
	};
	char why[512];

	/* What programs could not be attached to, they could not for other reasons. */
	state->absent_count = 0;
	for (size_t i = 0; i < a->count; i++) {
		const struct target *target = &a->targets[i];

		if (target_fault_of_ftrace(target, btf, why, sizeof(why)))
			leave_out(state, target, why);
		else if (!target->address)
			return no_addresses();
		else
			targets[request.count++] = target;
	}
	request.absent_count = state->absent_count;
	return request.count ? graph_measure(&request) : none_left(state);
}

static int measure(struct state *state, struct arguments *a)
{
	bool by_graph = a->by && !strcmp(a->by, BY_GRAPH);
	struct btf *btf = btf__load_vmlinux_btf();
	char also[sizeof(state->why) + 32];
	int ret = look_up(a->targets, a->count, btf) ?: check_names(a, btf);

	if (!ret && !by_graph)
		ret = measure_by_fentry(state, a, btf);
	if (ret == NO_FENTRY) {
		snprintf(also, sizeof(also), "not by fentry: %s", state->why);
		fail_also(also);
	}
	if (ret == NO_FENTRY || (!ret && by_graph))
		ret = measure_by_graph(state, a, btf);
	fail_also(NULL);
	btf__free(btf);
	return ret;
}

static int run(struct arguments *a, const char *kernel, pid_t parent)
{
	struct state *state;
	int ret = check_ftrace() ?: a->output ? check_output(a->output) : 0;

	if (ret)
		return ret;
	state = calloc(1, sizeof(*state));
	if (!state)
		return fail("out of memory");
	state->arguments = a;
	state->kernel = kernel;
	state->parent = parent;
	state->cpus = libbpf_num_possible_cpus();
	state->signals = open_signals();
	if (state->cpus < 0)
		ret = fail("cannot count the CPUs: %s", strerror(-state->cpus));
	else if (state->signals < 0)
		ret = fail("cannot handle signals: %s", strerror(errno));
	else
		ret = measure(state, a);
	if (state->signals >= 0)
		close(state->signals);
	free(state);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FUNCTION...",
		.doc = doc,
	};
	pid_t parent = getppid();
	static struct arguments a;
	struct utsname uts;

	process_name("funclat", argv);
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	process_verbose(a.verbose);
	uname(&uts);
	return run(&a, uts.release, parent);
}
