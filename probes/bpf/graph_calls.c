// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls of functions, from events of the tracer function_graph. */
#include <stdlib.h>
#include <string.h>

#include "graph_calls.h"
#include "hist_json.h"

/* Where a function is hooked: behind an instruction or two that mark its beginning. */
#define FURTHEST_HOOK 32
/* The tracer has room for no fewer calls of a task. */
#define ROOM_OF_TASK 48
#define TASK_BUCKETS 4096

struct event {
	__u64 at;
	__u64 number; /* as it came: events of one moment keep their order */
	__s64 ns;
	__u32 overrun;
	__u32 task;
	__u16 function;
	bool returns;
	bool left_out;
};

struct frame {
	__u64 callees;
	__u16 function;
	bool left_out; /* it counts for nothing */
};

struct task {
	struct task *next;
	struct frame *frames;
	size_t depth;
	size_t room;
	size_t deepest;
	__u32 number;
	__u32 overrun; /* as its first return had it */
	bool returned;
};

struct graph_calls {
	struct function_times *times;
	__u64 addresses[MAX_FUNCTIONS];
	size_t count;
	__u32 left_out; /* a task; 0: none */
	struct event *events;
	size_t waiting;
	size_t room;
	__u64 added;
	__u64 latest;  /* time of the last event of any buffer */
	__u64 horizon; /* the same when all buffers were read last */
	struct task *tasks[TASK_BUCKETS];
	const char *fault;
};

struct graph_calls *graph_calls_new(const __u64 *addresses, struct function_times *times,
				    size_t count)
{
	struct graph_calls *calls = calloc(1, sizeof(*calls));

	if (!calls || count > MAX_FUNCTIONS) {
		free(calls);
		return NULL;
	}
	memcpy(calls->addresses, addresses, count * sizeof(*addresses));
	calls->times = times;
	calls->count = count;
	return calls;
}

void graph_calls_leave_out(struct graph_calls *calls, __u32 task)
{
	calls->left_out = task;
}

void graph_calls_free(struct graph_calls *calls)
{
	for (size_t i = 0; calls && i < TASK_BUCKETS; i++) {
		struct task *task = calls->tasks[i], *next;

		for (; task; task = next) {
			next = task->next;
			free(task->frames);
			free(task);
		}
	}
	if (calls)
		free(calls->events);
	free(calls);
}

const char *graph_calls_fault(const struct graph_calls *calls)
{
	return calls->fault;
}

/* Room for one more of @size bytes; false without memory. */
static bool grow(struct graph_calls *calls, void **things, size_t *room, size_t used, size_t size)
{
	size_t wanted = *room ? 2 * *room : 16;
	void *more;

	if (used < *room)
		return true;
	more = reallocarray(*things, wanted, size);
	if (!more) {
		calls->fault = "out of memory";
		return false;
	}
	*things = more;
	*room = wanted;
	return true;
}

/* The function that is hooked there, or as many as there are. */
static size_t function_at(const struct graph_calls *calls, __u64 address)
{
	size_t found = calls->count;
	__u64 nearest = FURTHEST_HOOK + 1;

	for (size_t i = 0; i < calls->count; i++)
		if (address - calls->addresses[i] < nearest) {
			nearest = address - calls->addresses[i];
			found = i;
		}
	return found;
}

void graph_calls_add(struct graph_calls *calls, unsigned int cpu, const struct graph_event *event)
{
	size_t function = function_at(calls, event->address);

	if (function == calls->count) {
		calls->fault = "the tracer traced a function that it was not asked for";
		return;
	}
	if (!grow(calls, (void **)&calls->events, &calls->room, calls->waiting,
		  sizeof(*calls->events)))
		return;
	calls->events[calls->waiting++] = (struct event){
		.at = event->at,
		.number = calls->added++,
		.ns = event->ns,
		.overrun = event->overrun,
		.task = event->pid ?: ~cpu,
		.function = function,
		.returns = event->returns,
		.left_out = event->pid && event->pid == calls->left_out && !event->interrupts,
	};
	if (event->at > calls->latest)
		calls->latest = event->at;
}

/* A task by its number, a new one if there is none yet; NULL without memory. */
static struct task *task_of(struct graph_calls *calls, __u32 number)
{
	struct task **bucket = &calls->tasks[number % TASK_BUCKETS], *task;

	for (task = *bucket; task; task = task->next)
		if (task->number == number)
			return task;
	task = calloc(1, sizeof(*task));
	if (!task) {
		calls->fault = "out of memory";
		return NULL;
	}
	task->number = number;
	task->next = *bucket;
	*bucket = task;
	return task;
}

static void begin_call(struct graph_calls *calls, struct task *task, const struct event *event)
{
	if (!grow(calls, (void **)&task->frames, &task->room, task->depth, sizeof(*task->frames)))
		return;
	task->frames[task->depth++] = (struct frame){
		.function = event->function,
		.left_out = event->left_out,
	};
	if (task->depth > task->deepest)
		task->deepest = task->depth;
	calls->times[event->function].calls += !event->left_out;
}

/* Its room for nested calls may have been full before: who knows when, unless it cannot have been here. */
static void check_room(struct graph_calls *calls, struct task *task, const struct event *event)
{
	if (!task->returned)
		task->overrun = task->deepest < ROOM_OF_TASK ? event->overrun : 0;
	task->returned = true;
	if (event->overrun != task->overrun)
		calls->fault = "calls were nested deeper than the tracer has room for";
}

static void end_call(struct graph_calls *calls, struct task *task, const struct event *event)
{
	struct function_times *of = &calls->times[event->function];
	size_t depth = task->depth;
	struct frame frame;

	check_room(calls, task, event);
	while (depth && task->frames[depth - 1].function != event->function)
		depth--;
	if (!depth) {
		calls->fault = "a call returned that was not seen to begin";
		return;
	}
	/* Those above it did not return, then: the task left them some other way. */
	for (; task->depth > depth; task->depth--)
		calls->times[task->frames[task->depth - 1].function].lost +=
			!task->frames[task->depth - 1].left_out;
	frame = task->frames[--task->depth];
	/* Not by its return: between the two an interrupt may begin, or be over. */
	if (!frame.left_out) {
		hist_place(&of->inclusive, event->ns);
		hist_place(&of->self, (__u64)event->ns - frame.callees);
	}
	if (task->depth)
		task->frames[task->depth - 1].callees += event->ns;
}

static int by_time(const void *one, const void *other)
{
	const struct event *a = one, *b = other;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

void graph_calls_count(struct graph_calls *calls, bool final)
{
	size_t i;

	if (!calls->waiting)
		return;
	qsort(calls->events, calls->waiting, sizeof(*calls->events), by_time);
	for (i = 0; i < calls->waiting && !calls->fault; i++) {
		const struct event *event = &calls->events[i];
		struct task *task;

		if (!final && event->at > calls->horizon)
			break;
		task = task_of(calls, event->task);
		if (task && event->returns)
			end_call(calls, task, event);
		else if (task)
			begin_call(calls, task, event);
	}
	calls->waiting -= i;
	memmove(calls->events, calls->events + i, calls->waiting * sizeof(*calls->events));
	/* What is older was written before buffers were read to their end, so it has come. */
	calls->horizon = calls->latest;
}
