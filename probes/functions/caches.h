/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A simulated memory for count.c: caches of one processor core, as a file of
 * geometries says they are (caches.toml). No emulator is in it: tests replay
 * traces through it.
 *
 * Each cache is set-associative with ideal LRU. A line that is missed is put into
 * every level that missed it. A line that makes room and was written to goes to the
 * next level, from the last one to memory (write-back; a store that misses reads its
 * line first). No level throws a line out of another one. There is no prefetch,
 * no speculation, no page walk, no device: for comparing one thing with another.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum level { CODE, DATA, SECOND, THIRD, LEVELS };
enum { MOST_WAYS = 64, MOST_KIB = 1 << 20 };

/* What was missed: in the first level by fetches and by data, then in the second and in the third. */
struct missed {
	uint64_t accesses; /* of data, each to one line */
	uint64_t in[LEVELS];
	uint64_t written; /* lines that went back to memory */
};

/* A way: number of the line plus one, and whether it was written to; 0: empty. */
struct cache {
	unsigned int sets, ways; /* no ways: there is no such level */
	uint64_t *lines;	 /* by set, the most recently used first */
};

struct memory {
	unsigned int line_bits;
	struct cache caches[LEVELS];
};

#define WRITTEN	     1ULL
#define LINE(number) (((number) + 1) << 1)

/* Find a line and make it the most recently used one. */
static bool cache_touch(struct cache *cache, uint64_t number, bool store)
{
	uint64_t *set = cache->lines + number % cache->sets * cache->ways, found;
	unsigned int way;

	for (way = 0; way < cache->ways && set[way]; way++) {
		if ((set[way] & ~WRITTEN) != LINE(number))
			continue;
		found = set[way] | (store ? WRITTEN : 0);
		memmove(set + 1, set, way * sizeof(*set));
		set[0] = found;
		return true;
	}
	return false;
}

/* Put a line in that is not there; return what made room, 0 for nothing. */
static uint64_t cache_put(struct cache *cache, uint64_t number, bool store)
{
	uint64_t *set = cache->lines + number % cache->sets * cache->ways;
	uint64_t left = set[cache->ways - 1];

	memmove(set + 1, set, (cache->ways - 1) * sizeof(*set));
	set[0] = LINE(number) | (store ? WRITTEN : 0);
	return left;
}

static enum level below(const struct memory *memory, enum level level)
{
	level = level < SECOND ? SECOND : level + 1;
	return level == SECOND && !memory->caches[SECOND].ways ? THIRD : level;
}

static bool is_memory(const struct memory *memory, enum level level)
{
	return level >= LEVELS || !memory->caches[level].ways;
}

static void memory_fill(struct memory *memory, enum level level, uint64_t number, bool store,
			struct missed *missed)
{
	uint64_t left = cache_put(&memory->caches[level], number, store);

	if (!(left & WRITTEN))
		return;
	number = (left >> 1) - 1;
	level = below(memory, level);
	if (is_memory(memory, level))
		missed->written++;
	else if (!cache_touch(&memory->caches[level], number, true))
		memory_fill(memory, level, number, true, missed);
}

/* Have a line be read or written to, by a fetch (CODE) or by data. */
static void memory_access(struct memory *memory, enum level first, uint64_t number, bool store,
			  struct missed *missed)
{
	enum level path[LEVELS], level = first;
	int depth = 0;

	if (first == DATA)
		missed->accesses++;
	for (; !is_memory(memory, level); level = below(memory, level)) {
		/* Further out a line is written to when it goes there. */
		if (cache_touch(&memory->caches[level], number, store && level == first))
			break;
		missed->in[level]++;
		path[depth++] = level;
	}
	while (depth--)
		memory_fill(memory, path[depth], number, store && path[depth] == first, missed);
}

/* Take LINE:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS, bytes, in the order of enum level; 0.0: none. */
static bool memory_parse(struct memory *memory, const char *text)
{
	unsigned long line, size, ways;
	char *end;
	int level;

	memset(memory, 0, sizeof(*memory));
	line = strtoul(text, &end, 10);
	if (line < 16 || line > 4096 || line & (line - 1))
		return false;
	memory->line_bits = __builtin_ctzl(line);
	for (level = 0; level < LEVELS; level++) {
		struct cache *cache = &memory->caches[level];

		if (*end != ':')
			return false;
		size = strtoul(end + 1, &end, 10);
		if (*end != '.')
			return false;
		ways = strtoul(end + 1, &end, 10);
		if (!size && !ways && level >= SECOND)
			continue;
		if (!ways || ways > MOST_WAYS || !size || size / 1024 > MOST_KIB ||
		    size % (line * ways))
			return false;
		cache->ways = ways;
		cache->sets = size / line / ways;
		cache->lines = calloc((size_t)cache->sets * ways, sizeof(*cache->lines));
		if (!cache->lines) {
			perror("caches");
			exit(1);
		}
	}
	return !*end;
}
