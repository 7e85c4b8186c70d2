// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Replay a trace through the simulated memory of count.c.
 *   usage: replay GEOMETRY <TRACE
 * A line of the trace is a kind and a line's number: F fetches code, R reads, W writes.
 * Prints accesses, misses of code, of data, of the second and the third level, and
 * lines written back.
 */
#include "../caches.h"

int main(int argc, char **argv)
{
	struct missed missed = { 0 };
	struct memory memory;
	uint64_t number;
	char kind;

	if (argc != 2 || !memory_parse(&memory, argv[1])) {
		fputs("usage: replay LINE:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS <TRACE\n",
		      stderr);
		return 2;
	}
	while (scanf(" %c %" SCNu64, &kind, &number) == 2)
		memory_access(&memory, kind == 'F' ? CODE : DATA, number, kind == 'W', &missed);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	       missed.accesses, missed.in[CODE], missed.in[DATA], missed.in[SECOND],
	       missed.in[THIRD], missed.written);
	return 0;
}
