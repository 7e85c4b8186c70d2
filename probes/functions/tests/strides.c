// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Walk through memory in patterns whose misses are known in closed form.
 *   usage: strides ROUNDS
 * Section 0 reads, section 1 writes and section 2 crosses lines: each one 8 bytes at
 * every 64th byte of 64 KiB, ROUNDS times, from first to last. A cache of data of 32 KiB
 * that forgets the least recently used line then misses all 1024 lines in every round.
 * Section 3 does the same work in 4 KiB, which stay in the cache. Section 4 jumps
 * through 64 KiB of code, from line to line: a cache of code of 32 KiB misses them all.
 * Section 5 opens and closes a file, ROUNDS times: the kernel has an object for it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* 1024 lines of code, each a jump to the next one. */
asm(".text\n"
    ".balign 4096\n"
    "lines_of_code:\n"
    ".rept 1023\n"
    ".byte 0xeb, 62\n"
    ".skip 62, 0x90\n"
    ".endr\n"
    "ret\n"
    ".balign 64\n");
void lines_of_code(void);

int main(int argc, char **argv)
{
	unsigned int rounds = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, round;

	if (!rounds) {
		fputs("usage: strides ROUNDS\n", stderr);
		return 2;
	}
	memset(room, 1, sizeof(room));
	/* Nothing below has to wait for the kernel to bring a page. */
	lines_of_code();
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
	lines_of_code();
	MARK_BEGIN(4);
	for (round = 0; round < rounds; round++)
		lines_of_code();
	MARK_END(4);
	MARK_BEGIN(5);
	for (round = 0; round < rounds; round++)
		close(open("/dev/null", O_RDONLY));
	MARK_END(5);
	mark_off();
	return 0;
}
