// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages as function_graph writes them, read and made into calls. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "graph_calls.h"
#include "graph_page.h"
#include "hist_json.h"
#include "times.h"

#define FIELD(text, offset, size)                                                                  \
	"\tfield:" text ";\toffset:" #offset ";\tsize:" #size ";\tsigned:0;\n"
#define COMMON                                                                                     \
	"format:\n" FIELD("unsigned short common_type", 0, 2)                                      \
		FIELD("unsigned char common_flags", 2, 1) FIELD("int common_pid", 4, 4) "\n"

static const char page_text[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
static const char entry_text[] =
	"name: funcgraph_entry\nID: 11\n" COMMON FIELD("unsigned long func", 8, 8)
		FIELD("unsigned long depth", 16, 8)
			FIELD("unsigned long args[]", 24, 0) "\nprint fmt: \"--> %ps\"\n";
static const char exit_text[] =
	"name: funcgraph_exit\nID: 10\n" COMMON FIELD("unsigned long func", 8, 8)
		FIELD("unsigned int depth", 16, 4) FIELD("unsigned int overrun", 20, 4)
			FIELD("unsigned long long calltime", 24, 8)
				FIELD("unsigned long long rettime", 32, 8);

static FILE *file_of(const char *text)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");

	check(file, "memory");
	return file;
}

static bool read_format(struct graph_format *format, const char *page, const char *entry,
			const char *exit)
{
	FILE *files[] = { file_of(page), file_of(entry), file_of(exit) };
	bool good = graph_read_format(format, files[0], files[1], files[2]);

	for (int i = 0; i < 3; i++)
		fclose(files[i]);
	return good;
}

static struct graph_format usual(void)
{
	struct graph_format format;

	check(read_format(&format, page_text, entry_text, exit_text), "as a kernel has it");
	return format;
}

static void check_format(void)
{
	struct graph_format format = usual();
	static const char no_time[] = "ID: 10\n" COMMON FIELD("unsigned long func", 8, 8);
	static const char no_number[] = COMMON FIELD("unsigned long func", 8, 8);

	check(format.entry == 11 && format.exit == 10, "numbers of events");
	check(format.returned.offset == 32 && format.returned.size == 8, "a field");
	check(graph_page_size(&format) == 4096, "a page");
	check(!read_format(&format, page_text, entry_text, no_time), "no time");
	check(!read_format(&format, page_text, no_number, exit_text), "no number");
	check(!read_format(&format, page_text, exit_text, exit_text), "one kind alone");
	check(!read_format(&format, "nothing\n", entry_text, exit_text), "no page");
}

/* A page under way. */
struct page {
	__u8 bytes[4096];
	size_t used;
	__u64 now;
};

static void page_begin(struct page *page, __u64 now)
{
	memset(page, 0, sizeof(*page));
	page->now = now;
	memcpy(page->bytes, &now, sizeof(now));
}

static void page_put(struct page *page, const void *data, size_t size)
{
	memcpy(page->bytes + 16 + page->used, data, size);
	page->used += size;
	memcpy(page->bytes + 8, &page->used, sizeof(page->used));
}

static void put_word(struct page *page, __u32 value)
{
	page_put(page, &value, sizeof(value));
}

static void put_head(struct page *page, __u32 kind, __u32 delta)
{
	struct {
		__u32 kind : 5, delta : 27;
	} head = { kind, delta };

	page_put(page, &head, sizeof(head));
}

struct exit_event {
	__u16 type;
	__u16 flags;
	__u32 pid;
	__u64 address;
	__u32 depth;
	__u32 overrun;
	__u64 called;
	__u64 returned;
};

struct entry_event {
	__u16 type;
	__u16 flags;
	__u32 pid;
	__u64 address;
	__u64 depth;
};

static void put_entry(struct page *page, __u64 at, __u32 pid, __u64 address)
{
	struct entry_event event = { .type = 11, .pid = pid, .address = address };

	put_head(page, sizeof(event) / 4, at - page->now);
	page_put(page, &event, sizeof(event));
	page->now = at;
}

static void put_exit(struct page *page, __u64 at, __u32 pid, __u64 address, __u64 ns)
{
	struct exit_event event = {
		.type = 10, .pid = pid, .address = address, .called = at - ns, .returned = at
	};

	put_head(page, sizeof(event) / 4, at - page->now);
	page_put(page, &event, sizeof(event));
	page->now = at;
}

/* What was read of a page. */
struct seen {
	struct graph_event events[8];
	size_t count;
};

static void see(void *to, const struct graph_event *event)
{
	struct seen *seen = to;

	check(seen->count < 8, "more events than were put");
	seen->events[seen->count++] = *event;
}

static enum graph_read read_page(const struct page *page, struct seen *seen)
{
	struct graph_format format = usual();

	seen->count = 0;
	return graph_read_page(&format, page->bytes, sizeof(page->bytes), see, seen);
}

static void check_page(void)
{
	struct page page;
	struct seen seen;
	__u16 other = 5;

	page_begin(&page, 1000);
	put_entry(&page, 1010, 7, 0x100);
	/* Padding of a word, which something was discarded from; its time is none. */
	put_head(&page, 29, 99);
	put_word(&page, 8);
	put_word(&page, 0);
	/* 2^27 nanoseconds and 5. */
	put_head(&page, 30, 5);
	put_word(&page, 1);
	page.now += (1 << 27) + 5;
	put_exit(&page, page.now + 3, 7, 0x100, 50);
	put_head(&page, 31, 6);
	put_word(&page, 4);
	page.now = (4ULL << 27) + 6;
	put_entry(&page, page.now, 8, 0x200);
	put_head(&page, 29, 0);
	check(read_page(&page, &seen) == GRAPH_READ && seen.count == 3, "%zu events", seen.count);
	check(!seen.events[0].interrupts, "of a task");
	check(seen.events[0].at == 1010 && !seen.events[0].returns && seen.events[0].pid == 7,
	      "the first");
	check(seen.events[1].at == 1010 + (1 << 27) + 5 + 3 && seen.events[1].ns == 50, "a return");
	check(seen.events[1].returns && seen.events[1].address == 0x100, "of what");
	check(seen.events[2].at == (4ULL << 27) + 6, "behind a stamp");

	/* With its preemption counted, and in a softirq. */
	page.bytes[16 + 4 + 2] = 0x11;
	check(read_page(&page, &seen) == GRAPH_READ && seen.events[0].interrupts,
	      "of an interrupt");
	page.bytes[16 + 4 + 2] = 0x01;
	check(read_page(&page, &seen) == GRAPH_READ && !seen.events[0].interrupts, "of none");

	page.bytes[11] |= 0x80;
	check(read_page(&page, &seen) == GRAPH_LOST, "events are missing before it");
	page_begin(&page, 0);
	check(read_page(&page, &seen) == GRAPH_READ && !seen.count, "an empty one");
	put_entry(&page, 1, 7, 0x100);
	memcpy(page.bytes + 20, &other, sizeof(other));
	check(read_page(&page, &seen) == GRAPH_FOREIGN, "an event of another kind");
	page_begin(&page, 0);
	put_head(&page, 12, 0);
	check(read_page(&page, &seen) == GRAPH_BROKEN, "longer than the page is");
	page_begin(&page, 0);
	put_head(&page, 0, 0);
	put_word(&page, 3);
	check(read_page(&page, &seen) == GRAPH_BROKEN, "shorter than its length");
	page_begin(&page, 0);
	page.used = 4081;
	page_put(&page, &other, 0);
	check(read_page(&page, &seen) == GRAPH_BROKEN, "more than there is");
}

static void check_room(void)
{
	struct graph_format format = usual();
	struct page page;

	page_begin(&page, 0);
	check(graph_page_has_room(&format, page.bytes, sizeof(page.bytes)), "an empty one");
	page.used = 4080 - 56;
	page_put(&page, &page.used, 0);
	check(!graph_page_has_room(&format, page.bytes, sizeof(page.bytes)), "no other event fits");
	check(!graph_page_has_room(&format, page.bytes, 8), "no page");
}

static void see_any(void *to, const struct graph_event *event)
{
	*(__u64 *)to += event->pid;
}

/* Whatever a page has: it is read, or it is not, and nothing outside of it is. */
static void check_any_page(void)
{
	struct graph_format format = usual();
	__u64 sum = 0;

	srandom(1);
	for (int round = 0; round < 200000; round++) {
		size_t size = 16 + random() % 200;
		__u8 *page = malloc(size);

		check(page, "memory");
		for (size_t i = 0; i < size; i++)
			/* Small numbers are lengths and kinds more often. */
			page[i] = random() % 4 ? random() % 16 : random();
		memset(page + 8, 0, 8);
		page[8] = random() % (size - 15);
		graph_read_page(&format, page, size, see_any, &sum);
		free(page);
	}
}

enum { OUTER, INNER, FUNCTIONS };
static const __u64 addresses[] = { 0x1000, 0x1010 };

static struct function_times times[FUNCTIONS];

static struct graph_calls *new_calls(void)
{
	struct graph_calls *calls = graph_calls_new(addresses, times, FUNCTIONS);

	check(calls, "memory");
	for (int i = 0; i < FUNCTIONS; i++)
		times_init(&times[i]);
	return calls;
}

static void enter(struct graph_calls *calls, unsigned int cpu, __u64 at, __u32 pid, int function)
{
	/* Hooked behind an instruction of four bytes. */
	struct graph_event event = { .at = at, .pid = pid, .address = addresses[function] + 4 };

	graph_calls_add(calls, cpu, &event);
}

static void leave(struct graph_calls *calls, unsigned int cpu, __u64 at, __u32 pid, int function,
		  __s64 ns)
{
	struct graph_event event = {
		.at = at, .pid = pid, .address = addresses[function] + 4, .ns = ns, .returns = true
	};

	graph_calls_add(calls, cpu, &event);
}

static void finish(struct graph_calls *calls, const char *fault)
{
	const char *said;

	graph_calls_count(calls, true);
	said = graph_calls_fault(calls);
	check(fault ? said && strstr(said, fault) : !said, "%s", said ?: "no fault");
	graph_calls_free(calls);
}

static void check_nested(void)
{
	struct graph_calls *calls = new_calls();

	/* A task calls on one CPU and returns on another one, which is read first. */
	leave(calls, 0, 130, 7, INNER, 20);
	leave(calls, 0, 150, 7, OUTER, 50);
	enter(calls, 1, 100, 7, OUTER);
	enter(calls, 1, 110, 7, INNER);
	/* The idle tasks of two CPUs at the same time. */
	enter(calls, 0, 200, 0, OUTER);
	enter(calls, 1, 201, 0, INNER);
	leave(calls, 1, 203, 0, INNER, 2);
	leave(calls, 0, 204, 0, OUTER, 4);
	/* It calls itself, and the time is up. */
	enter(calls, 1, 300, 9, OUTER);
	enter(calls, 1, 301, 9, OUTER);
	leave(calls, 1, 305, 9, OUTER, 4);
	finish(calls, NULL);
	check(times[OUTER].calls == 4 && times[INNER].calls == 2, "all calls");
	check(hist_count(&times[OUTER].inclusive) == 3, "one had not returned");
	check(times[OUTER].inclusive.sum == 58 && times[OUTER].self.sum == 38, "less the callee");
	check(times[INNER].inclusive.sum == 22 && times[INNER].self.sum == 22, "with no callee");
}

static void check_order(void)
{
	struct graph_calls *calls = new_calls();

	enter(calls, 0, 100, 7, OUTER);
	leave(calls, 0, 120, 7, INNER, 5);
	graph_calls_count(calls, false);
	check(!times[OUTER].calls, "an older one may still come");
	enter(calls, 1, 110, 7, INNER);
	graph_calls_count(calls, false);
	check(times[OUTER].calls == 1 && times[INNER].calls == 1, "what all buffers had before");
	finish(calls, NULL);
	check(hist_count(&times[INNER].inclusive) == 1, "in one order");
}

/* Add an event of task 7, in an interrupt or not. */
static void add(struct graph_calls *calls, __u64 at, int function, bool interrupts, __s64 ns)
{
	struct graph_event event = {
		.at = at,
		.pid = 7,
		.address = addresses[function],
		.ns = ns,
		.returns = ns,
		.interrupts = interrupts,
	};

	graph_calls_add(calls, 0, &event);
}

static void check_left_out(void)
{
	struct graph_calls *calls = new_calls();

	graph_calls_leave_out(calls, 7);
	/* An interrupt upon a call of its own. */
	add(calls, 100, OUTER, false, 0);
	add(calls, 110, OUTER, true, 0);
	add(calls, 115, INNER, true, 0);
	add(calls, 120, INNER, true, 5);
	add(calls, 130, OUTER, true, 20);
	add(calls, 140, OUTER, false, 40);
	/* Functions in which an interrupt begins, and is over. */
	add(calls, 150, INNER, false, 0);
	add(calls, 160, INNER, true, 10);
	add(calls, 170, INNER, true, 0);
	add(calls, 180, INNER, false, 10);
	/* It leaves a call by no return. */
	add(calls, 190, OUTER, false, 0);
	add(calls, 191, INNER, false, 0);
	add(calls, 199, OUTER, false, 9);
	enter(calls, 1, 200, 8, INNER);
	leave(calls, 1, 203, 8, INNER, 3);
	/* Nobody is task 0. */
	enter(calls, 1, 204, 0, INNER);
	finish(calls, NULL);
	check(times[OUTER].calls == 1 && times[OUTER].inclusive.sum == 20, "of the interrupt");
	check(times[OUTER].self.sum == 15, "less the callee");
	check(times[INNER].calls == 4 && times[INNER].inclusive.sum == 18, "and of others");
	check(!times[OUTER].lost && !times[INNER].lost, "none is lost");
}

static void check_faults(void)
{
	struct graph_event event = { .at = 1, .pid = 7, .address = 0x5000 };
	struct graph_calls *calls = new_calls();

	graph_calls_add(calls, 0, &event);
	finish(calls, "was not asked for");

	calls = new_calls();
	leave(calls, 0, 100, 7, OUTER, 5);
	finish(calls, "not seen to begin");

	/* Before it came here it had no room once; now it has no room again. */
	calls = new_calls();
	event = (struct graph_event){ .address = 0x1000, .pid = 7, .overrun = 3 };
	for (int i = 0; i < 4; i++) {
		event.at++;
		event.returns = i % 2;
		event.overrun += i == 3;
		graph_calls_add(calls, 0, &event);
		if (i == 1) {
			graph_calls_count(calls, true);
			check(!graph_calls_fault(calls), "not here");
		}
	}
	finish(calls, "nested deeper");

	/* A task that left a call by no return. */
	calls = new_calls();
	enter(calls, 0, 1, 7, OUTER);
	enter(calls, 0, 2, 7, INNER);
	leave(calls, 0, 9, 7, OUTER, 8);
	finish(calls, NULL);
	check(times[INNER].lost == 1 && times[OUTER].self.sum == 8, "one is lost");

	calls = new_calls();
	enter(calls, 0, 1, 7, OUTER);
	leave(calls, 0, 2, 7, OUTER, -5);
	enter(calls, 0, 3, 7, OUTER);
	leave(calls, 0, 4, 7, OUTER, 1LL << 33);
	finish(calls, NULL);
	check(times[OUTER].inclusive.negative == 1 && times[OUTER].self.negative == 1, "negative");
	check(times[OUTER].inclusive.overflow == 1 && times[OUTER].self.overflow == 1, "long");
}

int main(void)
{
	check_format();
	check_page();
	check_room();
	check_any_page();
	check_nested();
	check_order();
	check_left_out();
	check_faults();
	puts("ok graph");
	return 0;
}
