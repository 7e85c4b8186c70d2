// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Replay a trace through the simulated memory of count.c.
 *   usage: replay GEOMETRY [BYTES] <TRACE
 * A line of the trace is a kind, a line's number and a CPU's: F fetches code, R reads,
 * W writes, X has that CPU's caches be empty. With BYTES of memory for each of two nodes there are two CPUs, else one.
 * Prints accesses, misses of code, of data, of the second and the third level, lines
 * written back, accesses to another node's memory, lines that came from there, and
 * lines that another CPU passed on.
 */
#include "../caches.h"

int main(int argc, char **argv)
{
	struct missed missed = { 0 };
	struct memory memory;
	unsigned int cpu;
	uint64_t number;
	char kind;

	if (argc < 2 || argc > 3 || !memory_parse(&memory, argv[1])) {
		fputs("usage: replay LINE:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS [BYTES] <TRACE\n",
		      stderr);
		return 2;
	}
	if (argc == 3)
		memory_split(&memory, strtoull(argv[2], NULL, 10));
	while (scanf(" %c %" SCNu64 " %u", &kind, &number, &cpu) == 3)
		if (kind == 'X' && cpu < memory.cpus)
			memory_forget(&memory, cpu);
		else if (cpu < memory.cpus)
			memory_access(&memory, cpu, kind == 'F' ? CODE : DATA, number, kind == 'W',
				      &missed);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
	       missed.accesses, missed.in[CODE], missed.in[DATA], missed.in[SECOND],
	       missed.in[THIRD], missed.written);
	printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", missed.remote_accesses, missed.remote,
	       missed.passed);
	return 0;
}
