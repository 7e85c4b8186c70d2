/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A simulated memory for count.c: caches of a processor core, as a file of
 * geometries says they are (caches.toml), or of several. No emulator is in it: tests
 * replay traces through it.
 *
 * Each cache is set-associative with ideal LRU. A line that is missed is put into
 * every level that missed it. A line that makes room and was written to goes to the
 * next level, from the last one to memory (write-back; a store that misses reads its
 * line first). No level throws a line out of another one. There is no prefetch,
 * no speculation, no page walk, no device: for comparing one thing with another.
 *
 * Of several CPUs each is on a NUMA node of its own, with a part of the memory and with
 * caches that nobody shares. A line that one writes to leaves the caches of all others.
 * A line that another one has written to, and that is not in memory yet, is passed on by
 * that one's caches: to who reads it, and to memory; or to who writes to it, and not to
 * memory (MESI).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum level { CODE, DATA, SECOND, THIRD, LEVELS };
enum { MOST_WAYS = 64, MOST_KIB = 1 << 20, MOST_CPUS = 2 };

/*
 * What was missed: in the first level by fetches and by data, then in the second and in the
 * third. Of what all levels missed, `remote` came from another node's memory, `passed` from
 * another CPU's caches, and the rest from the node's own memory.
 */
struct missed {
	uint64_t accesses; /* of data, each to one line */
	uint64_t in[LEVELS];
	uint64_t written; /* lines that went back to memory */
	uint64_t remote_accesses, remote, passed;
};

/* A way: number of the line plus one, and whether it was written to; 0: empty. */
struct cache {
	unsigned int sets, ways; /* no ways: there is no such level */
	uint64_t *lines;	 /* by set, the most recently used first */
};

struct memory {
	unsigned int line_bits, cpus;
	uint64_t node_lines; /* that a node has */
	struct cache caches[MOST_CPUS][LEVELS];
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

/* Forget a line; return whether it was written to. */
static bool cache_drop(struct cache *cache, uint64_t number)
{
	uint64_t *set = cache->lines + number % cache->sets * cache->ways;
	unsigned int way;
	bool written;

	for (way = 0; way < cache->ways && set[way]; way++) {
		if ((set[way] & ~WRITTEN) != LINE(number))
			continue;
		written = set[way] & WRITTEN;
		memmove(set + way, set + way + 1, (cache->ways - 1 - way) * sizeof(*set));
		set[cache->ways - 1] = 0;
		return written;
	}
	return false;
}

/* Have a line be as it is in memory; return whether it was written to. */
static bool cache_clean(struct cache *cache, uint64_t number)
{
	uint64_t *set = cache->lines + number % cache->sets * cache->ways;
	unsigned int way;

	for (way = 0; way < cache->ways && set[way]; way++) {
		if (set[way] != (LINE(number) | WRITTEN))
			continue;
		set[way] &= ~WRITTEN;
		return true;
	}
	return false;
}

/* Have a line leave the caches of all other CPUs, or be clean there; was it written to there? */
static bool others_give(struct memory *memory, unsigned int cpu, uint64_t number, bool leave)
{
	bool written = false;
	unsigned int other;
	int level;

	for (other = 0; other < memory->cpus; other++) {
		struct cache *caches = memory->caches[other];

		for (level = 0; other != cpu && level < LEVELS; level++)
			if (caches[level].ways)
				written |= leave ? cache_drop(&caches[level], number)
						 : cache_clean(&caches[level], number);
	}
	return written;
}

static enum level below(const struct cache *caches, enum level level)
{
	level = level < SECOND ? SECOND : level + 1;
	return level == SECOND && !caches[SECOND].ways ? THIRD : level;
}

static bool is_memory(const struct cache *caches, enum level level)
{
	return level >= LEVELS || !caches[level].ways;
}

static void caches_fill(struct cache *caches, enum level level, uint64_t number, bool store,
			struct missed *missed)
{
	uint64_t left = cache_put(&caches[level], number, store);

	if (!(left & WRITTEN))
		return;
	number = (left >> 1) - 1;
	level = below(caches, level);
	if (is_memory(caches, level))
		missed->written++;
	else if (!cache_touch(&caches[level], number, true))
		caches_fill(caches, level, number, true, missed);
}

/* Whether memory of another node has a line. What lies behind all nodes is of the last one. */
static bool is_remote(const struct memory *memory, unsigned int cpu, uint64_t number)
{
	uint64_t node = memory->cpus > 1 ? number / memory->node_lines : 0;

	return cpu != (node < memory->cpus ? node : memory->cpus - 1);
}

/* Have a CPU read or write to a line, by a fetch (CODE) or by data. */
static void memory_access(struct memory *memory, unsigned int cpu, enum level first,
			  uint64_t number, bool store, struct missed *missed)
{
	struct cache *caches = memory->caches[cpu];
	bool remote = is_remote(memory, cpu, number), written;
	enum level path[LEVELS], level = first;
	int depth = 0;

	if (first == DATA) {
		missed->accesses++;
		missed->remote_accesses += remote;
	}
	written = store && others_give(memory, cpu, number, true);
	for (; !is_memory(caches, level); level = below(caches, level)) {
		/* Further out a line is written to when it goes there. */
		if (cache_touch(&caches[level], number, store && level == first))
			break;
		missed->in[level]++;
		path[depth++] = level;
	}
	if (is_memory(caches, level)) {
		if (!store && others_give(memory, cpu, number, false)) {
			written = true;
			missed->written++;
		}
		missed->passed += written;
		missed->remote += remote && !written;
	}
	while (depth--)
		caches_fill(caches, path[depth], number, store && path[depth] == first, missed);
}

static void cache_make(struct cache *cache)
{
	cache->lines = calloc((size_t)cache->sets * cache->ways, sizeof(*cache->lines));
	if (!cache->lines) {
		perror("caches");
		exit(1);
	}
}

/* Have a second CPU with the same caches, on a node of its own; each has so many bytes. */
static void memory_split(struct memory *memory, uint64_t bytes)
{
	int level;

	memcpy(memory->caches[1], memory->caches[0], sizeof(memory->caches[0]));
	for (level = 0; level < LEVELS; level++)
		if (memory->caches[1][level].ways)
			cache_make(&memory->caches[1][level]);
	memory->cpus = 2;
	memory->node_lines = bytes >> memory->line_bits;
}

/* Have nothing in a CPU's caches; what it has written to is in memory. */
static void memory_forget(struct memory *memory, unsigned int cpu)
{
	int level;

	for (level = 0; level < LEVELS; level++) {
		struct cache *cache = &memory->caches[cpu][level];

		if (cache->ways)
			memset(cache->lines, 0,
			       (size_t)cache->sets * cache->ways * sizeof(*cache->lines));
	}
}

/* Take LINE:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS:SIZE.WAYS, bytes, in the order of enum level; 0.0: none. */
static bool memory_parse(struct memory *memory, const char *text)
{
	unsigned long line, size, ways;
	char *end;
	int level;

	memset(memory, 0, sizeof(*memory));
	memory->cpus = 1;
	line = strtoul(text, &end, 10);
	if (line < 16 || line > 4096 || line & (line - 1))
		return false;
	memory->line_bits = __builtin_ctzl(line);
	for (level = 0; level < LEVELS; level++) {
		struct cache *cache = &memory->caches[0][level];

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
		cache_make(cache);
	}
	return !*end;
}
