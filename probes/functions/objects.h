/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Of which type what a packet touches is, for count.c: by slab cache, which the kernel's own
 * structures tell, and else by where it lies. It reads the guest's memory, as QEMU has it; where in
 * there is what, layout.c has printed in the guest.
 *
 * What is touched is kept by page. When a section ends, a page's struct page says which slab it is
 * of, and that which cache. Accesses are counted by the 8-byte words of an object, in all objects of
 * a type: a packet touches the same ones of each skb. Caches that the kernel merges have one name
 * (slab_nomerge).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WORD = 8,
	PAGE_BITS = 12,
	PAGE_WORDS = 1 << PAGE_BITS >> 3,
	/* The largest, a task with all registers of its vectors, has some 12 KiB. */
	OBJECT_WORDS = 4 * PAGE_WORDS,
	PAGES = 1 << 18,
	CACHES = 2048,
	NAME = 64,
};

/* Where an address that is in no slab lies. */
enum region { PROGRAMS, IMAGE, PER_CPU, PAGE_STRUCTS, STACKS, OTHERS, REGIONS };
static const char *const region_names[REGIONS] = {
	[PROGRAMS] = "(programs)",	   [IMAGE] = "(variables of the kernel)",
	[PER_CPU] = "(per-CPU variables)", [PAGE_STRUCTS] = "(struct page)",
	[STACKS] = "(stacks and vmalloc)", [OTHERS] = "(other pages: packets' data, page tables)",
};

struct touched {
	uint64_t number; /* of the page, plus one; 0: none is here */
	enum region region;
	bool any; /* in this section */
	struct missed missed;
	uint32_t words[PAGE_WORDS];
};

struct type {
	uint64_t cache; /* its address */
	char name[NAME];
	uint32_t size, object_size;
	struct missed missed;
	uint64_t words[OBJECT_WORDS];
};

static struct objects {
	bool known, tried;
	/* Addresses in the guest. */
	uint64_t init_top_pgt, page_offset_base, vmemmap_base, slab_caches;
	uint64_t pcpu_base_addr, pcpu_unit_size, memory_end;
	/* Places in structures, and the size of struct page. */
	uint64_t page, slab_cache, name, size, object_size, list;
	uint64_t direct, page_structs, per_cpu, per_cpu_end; /* what the variables hold */
	const uint8_t *memory;				     /* the guest's, from its address 0 */
	const uint8_t *other;				     /* and from its address `first` on */
	uint64_t first;
	uint64_t text; /* of which address that is in the image */
	unsigned int used, types_used;
	struct touched *pages; /* a hash table */
	struct type *types;    /* REGIONS, then caches */
	struct touched rest;   /* what found no place */
} objects;

static void missed_add(struct missed *to, const struct missed *more)
{
	int level;

	to->accesses += more->accesses;
	for (level = 0; level < LEVELS; level++)
		to->in[level] += more->in[level];
	to->written += more->written;
	to->remote_accesses += more->remote_accesses;
	to->remote += more->remote;
	to->passed += more->passed;
}

static bool read_physical(uint64_t at, void *into, size_t length)
{
	if (at >= objects.memory_end || objects.memory_end - at < length)
		return false;
	memcpy(into, at < objects.first ? objects.memory + at : objects.other + at - objects.first,
	       length);
	return true;
}

/* Return where an address of the kernel is, by its own page tables; UINT64_MAX: nowhere. */
static uint64_t physical(uint64_t address)
{
	/* The direct mapping is lower where there are five levels. */
	int levels = objects.direct && objects.direct < 0xffff800000000000ULL ? 5 : 4, shift;
	uint64_t table = objects.init_top_pgt - objects.text, entry, offset;

	if (address >= objects.text)
		return address - objects.text;
	for (shift = PAGE_BITS + 9 * (levels - 1);; shift -= 9) {
		if (!read_physical(table + (address >> shift & 511) * sizeof(entry), &entry,
				   sizeof(entry)) ||
		    !(entry & 1))
			return UINT64_MAX;
		table = entry & 0x000ffffffffff000ULL;
		if (shift > PAGE_BITS && !(entry & 0x80))
			continue;
		offset = (1ULL << shift) - 1;
		return (table & ~offset) | (address & offset);
	}
}

/* Read what does not cross a page. */
static bool read_kernel(uint64_t address, void *into, size_t length)
{
	uint64_t at = physical(address);

	return at != UINT64_MAX && read_physical(at, into, length);
}

static uint64_t word_at(uint64_t address)
{
	uint64_t word;

	return read_kernel(address, &word, sizeof(word)) ? word : 0;
}

static uint32_t number_at(uint64_t address)
{
	uint32_t number;

	return read_kernel(address, &number, sizeof(number)) ? number : 0;
}

static bool objects_line(const char *line)
{
	static const struct {
		const char *name;
		uint64_t *value;
	} known[] = {
		{ "init_top_pgt", &objects.init_top_pgt },
		{ "page_offset_base", &objects.page_offset_base },
		{ "vmemmap_base", &objects.vmemmap_base },
		{ "slab_caches", &objects.slab_caches },
		{ "pcpu_base_addr", &objects.pcpu_base_addr },
		{ "pcpu_unit_size", &objects.pcpu_unit_size },
		{ "memory_end", &objects.memory_end },
		{ "page", &objects.page },
		{ "slab_cache", &objects.slab_cache },
		{ "name", &objects.name },
		{ "size", &objects.size },
		{ "object_size", &objects.object_size },
		{ "list", &objects.list },
	};
	uint64_t value;
	char name[NAME];
	size_t i;

	if (sscanf(line, "%63s %" SCNx64, name, &value) != 2)
		return false;
	for (i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(known[i].name, name)) {
			*known[i].value = value;
			return true;
		}
	return false;
}

/*
 * Read what layout.c has printed, if it has. `memory` is the guest's up to its address `first`, and
 * `other` from there on; the kernel's image is `text` from its place there.
 */
static void objects_open(const char *file, uint64_t memory, uint64_t first, uint64_t other,
			 uint64_t text)
{
	FILE *from = objects.tried ? NULL : fopen(file, "r");
	unsigned int lines = 0;
	char line[256];

	objects.tried = true;
	if (!from)
		return;
	while (fgets(line, sizeof(line), from) && objects_line(line))
		lines++;
	fclose(from);
	/* A kernel that lacks something has printed less. */
	if (lines != 13 || !objects.page)
		return;
	objects.memory = (const uint8_t *)(uintptr_t)memory;
	objects.other = (const uint8_t *)(uintptr_t)other;
	objects.first = first;
	objects.text = text;
	objects.direct = word_at(objects.page_offset_base);
	objects.page_structs = word_at(objects.vmemmap_base);
	objects.per_cpu = word_at(objects.pcpu_base_addr);
	objects.per_cpu_end = objects.per_cpu + number_at(objects.pcpu_unit_size);
	objects.pages = calloc(PAGES, sizeof(*objects.pages));
	objects.types = calloc(REGIONS + CACHES, sizeof(*objects.types));
	if (!objects.pages || !objects.types) {
		perror("objects");
		exit(1);
	}
	objects.known = objects.direct && objects.page_structs;
}

static enum region region_of(uint64_t address)
{
	if (address < 1ULL << 63)
		return PROGRAMS;
	if (address >= objects.text)
		return IMAGE;
	if (address >= objects.per_cpu && address < objects.per_cpu_end)
		return PER_CPU;
	if (address >= objects.page_structs &&
	    address - objects.page_structs < (1ULL << 32 >> PAGE_BITS) * objects.page)
		return PAGE_STRUCTS;
	if (address >= objects.direct && address - objects.direct < 1ULL << 46)
		return OTHERS;
	return STACKS;
}

static struct touched *touched_at(uint64_t number)
{
	unsigned int slot = number * 0x9e3779b97f4a7c15ULL >> 46;
	struct touched *page;

	for (;; slot++) {
		page = &objects.pages[slot % PAGES];
		if (page->number == number + 1)
			return page;
		if (!page->number)
			break;
	}
	/* A table that is fuller is slow, and full it has no end. */
	if (objects.used >= PAGES / 4 * 3)
		return &objects.rest;
	objects.used++;
	page->number = number + 1;
	return page;
}

/* Something on one page is read or written to. */
static void objects_touch(uint64_t address, uint64_t at, uint64_t length,
			  const struct missed *missed)
{
	enum region region = region_of(address);
	struct touched *page = touched_at(at >> PAGE_BITS);
	uint64_t word = at % (1 << PAGE_BITS) / WORD, last = (at + length - 1) % (1 << PAGE_BITS);

	/* It may have been something else before; where it has two addresses, slabs have this one. */
	if (!page->any || region == OTHERS)
		page->region = region;
	page->any = true;
	missed_add(&page->missed, missed);
	for (last /= WORD; word <= last; word++)
		page->words[word]++;
}

static void forget(struct touched *page)
{
	if (!page->any)
		return;
	memset(&page->missed, 0, sizeof(page->missed));
	memset(page->words, 0, sizeof(page->words));
	page->any = false;
}

static void objects_begin(void)
{
	unsigned int slot;

	for (slot = 0; objects.known && slot < PAGES; slot++)
		forget(&objects.pages[slot]);
	forget(&objects.rest);
}

/* Take in all slab caches that there are now. */
static void read_caches(void)
{
	uint64_t node = word_at(objects.slab_caches);
	unsigned int i;

	memset(objects.types, 0, (REGIONS + CACHES) * sizeof(*objects.types));
	for (i = 0; i < REGIONS; i++)
		snprintf(objects.types[i].name, NAME, "%s", region_names[i]);
	objects.types_used = REGIONS;
	while (node && node != objects.slab_caches && objects.types_used < REGIONS + CACHES) {
		struct type *type = &objects.types[objects.types_used++];
		uint64_t name, cache = node - objects.list;

		type->cache = cache;
		type->size = number_at(cache + objects.size);
		type->object_size = number_at(cache + objects.object_size);
		name = word_at(cache + objects.name);
		for (i = 0; i < NAME - 1 && read_kernel(name + i, &type->name[i], 1); i++)
			if (!type->name[i])
				break;
		type->name[i] = 0;
		if (!i)
			snprintf(type->name, NAME, "(unnamed)");
		node = word_at(node);
	}
}

static struct type *cache_at(uint64_t slab)
{
	uint64_t cache = word_at(slab + objects.slab_cache);
	unsigned int i;

	for (i = REGIONS; cache && i < objects.types_used; i++)
		if (objects.types[i].cache == cache)
			return &objects.types[i];
	return NULL;
}

/* Return the slab cache of a page, and how far the page is into its slab; NULL: it is in none. */
static struct type *type_of(uint64_t number, uint64_t *into)
{
	uint64_t page = objects.page_structs + number * objects.page, head;
	struct type *type = cache_at(page);

	*into = 0;
	if (type)
		return type;
	/*
	 * Behind the flags bit 0 says that a page is the tail of another one: which, or, in newer
	 * kernels, by which mask of its own address that is found (compound_head).
	 */
	head = word_at(page + sizeof(uint64_t));
	if (!(head & 1))
		return NULL;
	if (--head < objects.page_structs || head >= page)
		head &= page;
	if (head < objects.page_structs || head >= page)
		return NULL;
	*into = (page - head) / objects.page << PAGE_BITS;
	return cache_at(head);
}

static void count_page(const struct touched *page)
{
	struct type *type = NULL;
	uint64_t into = 0, word, at;

	if (page->region == OTHERS)
		type = type_of(page->number - 1, &into);
	if (!type)
		type = &objects.types[page->region];
	missed_add(&type->missed, &page->missed);
	for (word = 0; type->size >= WORD && word < PAGE_WORDS; word++) {
		at = (into + word * WORD) % type->size / WORD;
		/* Behind an object the allocator may have something of its own. */
		if (at < OBJECT_WORDS && at * WORD < type->object_size)
			type->words[at] += page->words[word];
	}
}

/* type SIZE ACCESSES DATA SECOND THIRD WRITTEN AWAY REMOTE PASSED WORDS NAME: see count.c. */
static void objects_write(FILE *out)
{
	unsigned int i;

	if (!objects.known)
		return;
	read_caches();
	for (i = 0; i < PAGES; i++)
		if (objects.pages[i].any)
			count_page(&objects.pages[i]);
	missed_add(&objects.types[OTHERS].missed, &objects.rest.missed);
	for (i = 0; i < objects.types_used; i++) {
		const struct type *type = &objects.types[i];
		const struct missed *missed = &type->missed;
		unsigned int word;

		if (!missed->accesses)
			continue;
		fprintf(out,
			"type %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			" %" PRIu64 " %" PRIu64 " %" PRIu64 " -",
			type->object_size, missed->accesses, missed->in[DATA], missed->in[SECOND],
			missed->in[THIRD], missed->written, missed->remote_accesses, missed->remote,
			missed->passed);
		for (word = 0; word < OBJECT_WORDS; word++)
			if (type->words[word])
				fprintf(out, ",%u:%" PRIu64, word, type->words[word]);
		fprintf(out, " %s\n", type->name);
	}
}
