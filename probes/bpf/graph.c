// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions timed by the tracer function_graph. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "graph.h"
#include "graph_calls.h"
#include "graph_page.h"
#include "hist_json.h"
#include "targets.h"
#include "tracefs.h"
#include "tracing.h"

/* A call takes some 72 bytes of a CPU's buffer: a million calls a second fill half of it between two reads. */
#define READ_SECONDS  0.05
#define BUFFER_KB     (8 * 1024U)
#define ALL_BUFFER_KB (256 * 1024U)
#define LEAST_KB      1024U
/* Each so many reads the kernel is asked what was lost. */
#define READS_TO_ASK 20
/* Of each CPU, before anything else is looked at. */
#define PAGES_AT_ONCE 256
/* The namespace of all processes: elsewhere they have other numbers than in the trace. */
#define ALL_PROCESSES 0xeffffffcU

const char *const graph_empty_names[] = { "__do_sys_getppid", "__x64_sys_getppid",
					  "__arm64_sys_getppid", "__se_sys_getppid",
					  "sys_getppid" };
const size_t graph_empty_count = sizeof(graph_empty_names) / sizeof(*graph_empty_names);

struct buffer {
	int fd; /* -1: this CPU has none */
	unsigned long long lost_before;
};

struct graph {
	const struct graph_request *request;
	struct tracefs tracefs;
	struct graph_format format;
	struct graph_calls *calls;
	struct buffer *buffers;
	unsigned int reading; /* the CPU of the page that is being read */
	void *page;
	size_t page_size;
	unsigned int reads;
	struct function_times times[MAX_FUNCTIONS];
	struct function_report functions[MAX_FUNCTIONS];
	struct probe_cost cost;
};

static int read_format(struct graph *graph)
{
	const char *top = graph->tracefs.top;
	FILE *page = tracefs_read(top, "events/header_page");
	FILE *entry = page ? tracefs_read(top, "events/ftrace/funcgraph_entry/format") : NULL;
	FILE *exit = entry ? tracefs_read(top, "events/ftrace/funcgraph_exit/format") : NULL;
	int ret = exit ? 0 : EXIT_BAD;

	if (exit && !graph_read_format(&graph->format, page, entry, exit))
		ret = fail("%s/events/ftrace: the format of function_graph's events is none that "
			   "is known",
			   top);
	if (exit)
		fclose(exit);
	if (entry)
		fclose(entry);
	if (page)
		fclose(page);
	if (ret)
		return ret;
	graph->page_size = graph_page_size(&graph->format);
	graph->page = malloc(graph->page_size);
	return graph->page ? 0 : fail("out of memory");
}

static int open_buffers(struct graph *graph)
{
	unsigned int cpus = graph->request->cpus;

	graph->buffers = calloc(cpus, sizeof(*graph->buffers));
	if (!graph->buffers)
		return fail("out of memory");
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		graph->buffers[cpu].fd = -1;
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		struct buffer *buffer = &graph->buffers[cpu];

		if (tracefs_open_buffer(&graph->tracefs, cpu, &buffer->fd) ||
		    (buffer->fd >= 0 && tracefs_lost(&graph->tracefs, cpu, &buffer->lost_before)))
			return EXIT_BAD;
	}
	return 0;
}

static void close_buffers(struct graph *graph)
{
	for (int cpu = 0; graph->buffers && cpu < graph->request->cpus; cpu++)
		if (graph->buffers[cpu].fd >= 0)
			close(graph->buffers[cpu].fd);
	free(graph->buffers);
	graph->buffers = NULL;
}

static int lost_some(const char *how_many)
{
	return fail("%sevents of function_graph were lost, so calls would be missing: trace fewer "
		    "functions, or with less traffic",
		    how_many);
}

/* Ask the kernel what found no room; 0 or EXIT_BAD. */
static int check_lost(const struct graph *graph)
{
	unsigned long long lost = 0, now;
	char text[32];

	for (int cpu = 0; cpu < graph->request->cpus; cpu++) {
		const struct buffer *buffer = &graph->buffers[cpu];

		if (buffer->fd < 0)
			continue;
		if (tracefs_lost(&graph->tracefs, cpu, &now))
			return EXIT_BAD;
		lost += now - buffer->lost_before;
	}
	snprintf(text, sizeof(text), "%llu ", lost);
	return lost ? lost_some(text) : 0;
}

static void take_event(void *to, const struct graph_event *event)
{
	struct graph *graph = to;

	graph_calls_add(graph->calls, graph->reading, event);
}

static int read_page(struct graph *graph, size_t size)
{
	switch (graph_read_page(&graph->format, graph->page, size, take_event, graph)) {
	case GRAPH_READ:
		break;
	case GRAPH_LOST:
		return lost_some("");
	case GRAPH_FOREIGN:
		return fail("%s: someone else traces there meanwhile", graph->tracefs.at);
	case GRAPH_BROKEN:
		return fail("%s: a page of the trace is not in the format that the kernel says",
			    graph->tracefs.at);
	}
	return 0;
}

/* Read what a buffer had when this began, and no more of it than PAGES_AT_ONCE: then @behind is set. If what
 * reading it calls is traced, each read leaves something to read. With @final, nobody writes. 0 or EXIT_BAD.
 */
static int read_buffer(struct graph *graph, unsigned int cpu, bool final, bool *behind)
{
	graph->reading = cpu;
	for (unsigned int pages = 0; final || pages < PAGES_AT_ONCE; pages++) {
		ssize_t size = read(graph->buffers[cpu].fd, graph->page, graph->page_size);

		if (size <= 0)
			return !size || errno == EAGAIN || errno == EINTR
				       ? 0
				       : fail("cannot read the trace: %s", strerror(errno));
		if (read_page(graph, size))
			return EXIT_BAD;
		/* The first may be the rest of a page which was read in part. */
		if (!final && pages && graph_page_has_room(&graph->format, graph->page, size))
			return 0;
	}
	*behind = true;
	return 0;
}

/* Read all buffers, and count unless some are @behind; with @final all that there is. 0 or EXIT_BAD. */
static int read_buffers(struct graph *graph, bool final, bool *behind)
{
	const char *fault;

	*behind = false;
	for (int cpu = 0; cpu < graph->request->cpus; cpu++)
		if (graph->buffers[cpu].fd >= 0 && read_buffer(graph, cpu, final, behind))
			return EXIT_BAD;
	/* In what is still to read there may be older events. */
	if (!*behind)
		graph_calls_count(graph->calls, final);
	/* What was lost comes first: whatever else is wrong may follow from it. */
	fault = graph_calls_fault(graph->calls);
	if ((fault || final || !(++graph->reads % READS_TO_ASK)) && check_lost(graph))
		return EXIT_BAD;
	return fault ? fail("the trace does not add up: %s", fault) : 0;
}

/* The number of this task in the trace; 0: it is not known. */
static __u32 own_task(void)
{
	struct stat processes;

	return !stat("/proc/self/ns/pid", &processes) && processes.st_ino == ALL_PROCESSES
		       ? getpid()
		       : 0;
}

/* Trace these functions, and count their calls in @times, but not those of @left_out; 0 or EXIT_BAD. */
static int begin(struct graph *graph, const struct target *const *targets, size_t count,
		 struct function_times *times, __u32 left_out)
{
	const char *names[MAX_FUNCTIONS];
	__u64 addresses[MAX_FUNCTIONS];

	for (size_t i = 0; i < count; i++) {
		names[i] = targets[i]->name;
		addresses[i] = targets[i]->address;
		times_init(&times[i]);
	}
	graph_calls_free(graph->calls);
	graph->calls = graph_calls_new(addresses, times, count);
	if (!graph->calls)
		return fail("out of memory");
	graph_calls_leave_out(graph->calls, left_out);
	/* While a buffer is open, no tracer can be chosen. */
	if (tracefs_trace(&graph->tracefs, names, count) ||
	    (!graph->buffers && open_buffers(graph)))
		return EXIT_BAD;
	return tracefs_switch(&graph->tracefs, true);
}

static int end(struct graph *graph)
{
	bool behind;

	/* Whoever is in the tracer still writes. */
	return tracefs_switch(&graph->tracefs, false)
		       ?: (drain(), read_buffers(graph, true, &behind));
}

/* Nanoseconds of a call of getppid() in the shortest of some rounds: the others were interrupted. */
static double time_empty(void)
{
	double shortest = 0;

	for (int round = 0; round < COST_ROUNDS; round++) {
		double begun = now_seconds(), ns;

		for (int i = 0; i < COST_RUNS; i++)
			syscall(SYS_getppid);
		ns = (now_seconds() - begun) * 1e9 / COST_RUNS;
		if (!round || ns < shortest)
			shortest = ns;
	}
	return shortest;
}

/* By how much a call is longer with the tracer. Nothing of that is taken off; 0 or EXIT_BAD. */
static int measure_cost(struct graph *graph)
{
	const struct target *empty = graph->request->empty;
	struct probe_cost *cost = &graph->cost;
	double without, with;

	if (!empty)
		return 0;
	without = time_empty();
	if (begin(graph, &empty, 1, &cost->times, 0))
		return EXIT_BAD;
	with = time_empty();
	if (end(graph))
		return EXIT_BAD;
	if (cost->times.calls < COST_ROUNDS * COST_RUNS)
		return fail("the trace has %llu calls of getppid(), and %d were made",
			    cost->times.calls, COST_ROUNDS * COST_RUNS);
	cost->calls = COST_ROUNDS * COST_RUNS;
	cost->cost = with - without;
	return 0;
}

static int write_times(struct graph *graph, double seconds, bool final)
{
	const struct graph_request *request = graph->request;
	struct times_report report = {
		.kernel = request->kernel,
		.by = BY_GRAPH,
		.why = request->why,
		.seconds = seconds,
		.final = final,
		.functions = graph->functions,
		.count = request->count,
		.absent = request->absent,
		.absent_count = request->absent_count,
		.cost = &graph->cost,
	};

	for (size_t i = 0; i < request->count; i++)
		graph->functions[i] = (struct function_report){
			.name = request->targets[i]->name,
			.times = graph->times[i],
		};
	return write_document(times_json(&report), request->output);
}

/* A timer that says when to read. */
static int open_reads(void)
{
	static const struct itimerspec when = {
		.it_value = { .tv_nsec = READ_SECONDS * 1e9 },
		.it_interval = { .tv_nsec = READ_SECONDS * 1e9 },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (fd < 0 || timerfd_settime(fd, 0, &when, NULL)) {
		fail("cannot set a timer: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static int read_until_over(struct graph *graph, struct waits *waits, double begun)
{
	for (;;) {
		bool behind;
		__u64 fired;

		switch (wait_for_next(waits)) {
		case OVER:
			return 0;
		case EVENT:
			if (read_buffers(graph, false, &behind))
				return EXIT_BAD;
			/* Until it is read, it has fired: so what is left is read at once. */
			if (!behind && read(waits->event, &fired, sizeof(fired)) != sizeof(fired))
				return fail("cannot read a timer: %s", strerror(errno));
			break;
		case DOCUMENT:
			if (write_times(graph, now_seconds() - begun, false))
				return EXIT_BAD;
			break;
		case FAILED:
			return EXIT_BAD;
		}
	}
}

/* Not before it traces: what is said first is why it does not. */
static void say_how(const struct graph_request *request)
{
	if (request->why)
		fprintf(stderr, "funclat: timed by function graph, not by fentry: %s\n",
			request->why);
	if (!request->empty)
		fputs("funclat: what the tracer takes for a call cannot be measured here: the "
		      "kernel lets nobody trace getppid()\n",
		      stderr);
}

static int wait_and_write(struct graph *graph)
{
	const struct graph_request *request = graph->request;
	struct waits waits = { .signals = request->signals, .input = -1, .event = open_reads() };
	double begun, over;
	int ret;

	if (waits.event < 0)
		return EXIT_BAD;
	ret = begin(graph, request->targets, request->count, graph->times, own_task());
	begun = now_seconds();
	if (!ret) {
		say_how(request);
		fputs("ready\n", stderr);
		ret = waits_open(&waits, request->seconds, request->interval, request->parent)
			      ?: read_until_over(graph, &waits, begun);
		waits_close(&waits);
	}
	over = now_seconds() - begun;
	close(waits.event);
	return ret ?: end(graph) ?: check_ftrace() ?: write_times(graph, over, true);
}

/* As large as is needed, but on a machine of many CPUs not all of its memory. */
static unsigned int buffer_kb(unsigned int cpus)
{
	unsigned int size = ALL_BUFFER_KB / cpus;

	return size > BUFFER_KB ? BUFFER_KB : size < LEAST_KB ? LEAST_KB : size;
}

int graph_measure(const struct graph_request *request)
{
	struct graph *graph = calloc(1, sizeof(*graph));
	int ret;

	if (!graph)
		return fail("out of memory");
	graph->request = request;
	ret = tracefs_open(&graph->tracefs, request->cpus, buffer_kb(request->cpus)) ?:
	      read_format(graph) ?:
	      measure_cost(graph) ?:
	      wait_and_write(graph);
	close_buffers(graph);
	/* Also behind an error, which was told already. */
	ret |= tracefs_close(&graph->tracefs);
	graph_calls_free(graph->calls);
	free(graph->page);
	free(graph);
	return ret;
}
