// SPDX-License-Identifier: GPL-2.0-or-later
/* Any format of events and any page in it: what is read becomes calls that add up. */
#include <string.h>

#include "check.h"
#include "fuzz.h"
#include "graph_calls.h"
#include "graph_page.h"
#include "hist_json.h"
#include "times.h"

#define FUNCTIONS 2
#define CPUS	  4

static const __u64 addresses[FUNCTIONS] = { 0x1000, 0x1010 };

/* Text up to the next zero byte, which goes with it; NULL if there is none. */
static FILE *next_text(const __u8 **data, size_t *size)
{
	const __u8 *begin = *data, *zero = memchr(begin, 0, *size);
	FILE *file;

	if (!zero)
		return NULL;
	/* fmemopen() refuses nothing to read. */
	file = zero > begin ? fmemopen((void *)begin, zero - begin, "r") : fopen("/dev/null", "r");
	check(file, "no file");
	*size -= zero + 1 - begin;
	*data = zero + 1;
	return file;
}

static bool read_format(struct graph_format *format, const __u8 **data, size_t *size)
{
	FILE *files[3] = { 0 };
	bool good = true;

	for (int i = 0; i < 3 && good; i++) {
		files[i] = next_text(data, size);
		good = files[i];
	}
	good = good && graph_read_format(format, files[0], files[1], files[2]);
	for (int i = 0; i < 3; i++)
		if (files[i])
			fclose(files[i]);
	return good;
}

static void take(void *to, const struct graph_event *event)
{
	graph_calls_add(to, event->pid % CPUS, event);
}

static __u64 timed(const struct hist *hist)
{
	return hist_count(hist) + hist->negative + hist->overflow;
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	static struct function_times times[FUNCTIONS];
	struct graph_format format;
	struct graph_calls *calls;

	if (!read_format(&format, &data, &size))
		return 0;
	check(graph_page_size(&format) > 16, "a page of %zu bytes", graph_page_size(&format));
	for (int i = 0; i < FUNCTIONS; i++)
		times_init(&times[i]);
	calls = graph_calls_new(addresses, times, FUNCTIONS);
	check(calls, "memory");
	graph_calls_leave_out(calls, size % 16);
	graph_read_page(&format, data, size, take, calls);
	graph_calls_count(calls, false);
	graph_calls_count(calls, true);
	for (int i = 0; i < FUNCTIONS; i++) {
		check(timed(&times[i].inclusive) == timed(&times[i].self),
		      "with and without callees");
		check(times[i].calls >= timed(&times[i].inclusive) + times[i].lost, "%llu calls",
		      times[i].calls);
	}
	graph_calls_free(calls);
	return 0;
}
