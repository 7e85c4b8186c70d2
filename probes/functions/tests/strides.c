// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Walk through memory in patterns whose misses are known in closed form.
 *   usage: strides ROUNDS
 * Section 0 reads, section 1 writes and section 2 crosses lines: each one 8 bytes at
 * every 64th byte of 64 KiB, ROUNDS times, from first to last. A cache of data of 32 KiB
 * that forgets the least recently used line then misses all 1024 lines in every round.
 * What the kernel does in between is not among it: section 3 does the same work in
 * 4 KiB, which stay in the cache.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../mark.h"

#define LARGE (64 << 10)
#define SMALL (4 << 10)
#define LINE  64

static unsigned char room[LARGE + LINE] __attribute__((aligned(4096)));

static void walk(unsigned int rounds, size_t size, size_t from, int store)
{
	size_t passes = (size_t)rounds * (LARGE / size), at;

	for (; passes; passes--)
		for (at = from; at < from + size; at += LINE)
			if (store)
				*(volatile uint64_t *)(room + at) = at;
			else
				(void)*(volatile uint64_t *)(room + at);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;

	if (!rounds) {
		fputs("usage: strides ROUNDS\n", stderr);
		return 2;
	}
	memset(room, 1, sizeof(room));
	mark_on();
	walk(1, LARGE, 0, 1);
	MARK_BEGIN(0);
	walk(rounds, LARGE, 0, 0);
	MARK_END(0);
	MARK_BEGIN(1);
	walk(rounds, LARGE, 0, 1);
	MARK_END(1);
	MARK_BEGIN(2);
	walk(rounds, LARGE, LINE - 4, 0);
	MARK_END(2);
	walk(1, SMALL, 0, 0);
	MARK_BEGIN(3);
	walk(rounds, SMALL, 0, 0);
	MARK_END(3);
	mark_off();
	return 0;
}
