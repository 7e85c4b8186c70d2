// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * count: a QEMU plugin that counts how often each instruction of the guest's
 * kernel is executed, between marks: what `skblab profile` reads.
 *   usage: -plugin count.so,out=FILE
 * A program in the guest says when there is something to count, marks where a section
 * begins and where it ends, or tells where in the kernel it does (mark.h). Marks of
 * another section than the one that is counted are none, and so are those made while
 * counting is off: then the guest runs at nearly its full speed. At the end of section N
 * these lines go to FILE:
 *   section N INSTRUCTIONS      which one, and what all lines below it add up to
 *   ADDRESS COUNT [AGAIN]       an instruction of the kernel, in hex, and its count;
 *                               AGAIN of them were further iterations of a string
 *                               instruction (rep movsb): all but its first
 *   user COUNT                  everything below the kernel's half of addresses
 *   elsewhere COUNT             what found no place in the table; 0 is not written
 *
 * Each instruction has a counter of its own, added to by the code that QEMU makes
 * for it, so that a block that is left half way (a fault, or an access to a device,
 * which QEMU does again in a block of its own) counts as -icount counts it. Each
 * iteration of a string instruction counts, there and here, while a processor does
 * many at once. QEMU executes each but the first in a block that begins with that
 * instruction, after a block that ended with it; one that an interrupt parts from
 * the one before is taken for a first. A counter belongs to an address: code that is
 * translated again, as after the kernel patched itself or counting was switched on,
 * goes on with it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

/*
 * Debian packages no header for plugins. This is what we need of version 3 of the
 * interface (QEMU 9.1), which QEMU 10.0 still takes.
 */
#define API_VERSION 3

enum { NO_REGISTERS = 0 };	     /* of a callback */
enum { ADD_U64 = 0, STORE_U64 = 1 }; /* inline operations */

struct info {
	const char *target;
	struct {
		int min, current;
	} version;
	bool system;
	int cpus, max_cpus;
};

struct block;
struct insn;
struct scoreboard;

struct counter {
	struct scoreboard *board;
	size_t offset;
};

typedef void (*translated)(uint64_t id, struct block *block);
typedef void (*was_reset)(uint64_t id);
typedef void (*executed)(unsigned int cpu, void *data);

void qemu_plugin_reset(uint64_t id, was_reset call);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated call);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *insn, executed call, int flags,
					    void *data);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct insn *insn, int operation,
							 struct counter counter, uint64_t add);
size_t qemu_plugin_tb_n_insns(const struct block *block);
struct insn *qemu_plugin_tb_get_insn(const struct block *block, size_t number);
uint64_t qemu_plugin_insn_vaddr(const struct insn *insn);
size_t qemu_plugin_insn_data(const struct insn *insn, void *into, size_t length);
size_t qemu_plugin_insn_size(const struct insn *insn);
struct scoreboard *qemu_plugin_scoreboard_new(size_t size);
void *qemu_plugin_scoreboard_find(struct scoreboard *board, unsigned int cpu);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = API_VERSION;
EXPORT int qemu_plugin_install(uint64_t id, const struct info *info, int argc, char **argv);

/* The kernel of a whole boot executes a few hundred thousand different instructions. */
#define SLOTS	 (1u << 21)
#define SECTIONS 8
#define KERNEL	 (1ULL << 63)

/* Slots for which there is no address: no instruction of a kernel is there. */
enum { USER, ELSEWHERE, FIRST };

/* Where in the kernel a section begins and ends; 0: at the marks themselves. */
static uint64_t places[SECTIONS][2];
static int open_section = -1, due = -1;

/* How many programs have said on and not yet off; whether the code is as these need it. */
static unsigned int wanted;
static bool counting, switching;
static uint64_t own_id;

static uint64_t addresses[SLOTS]; /* by slot: a hash table, 0 where there is none */
static uint64_t before[SLOTS];	  /* the counters when the section was opened */
static uint64_t again[SLOTS];	  /* since then: further iterations */
static unsigned int used;
static struct scoreboard *counters; /* SLOTS times 64 bits */
static struct scoreboard *last;	    /* 64 bits: where the block before had its last instruction */
static FILE *out;

static unsigned int slot_of(uint64_t address)
{
	unsigned int slot = (address * 0x9e3779b97f4a7c15ULL) >> 43;

	if (address < KERNEL)
		return USER;
	for (;; slot = (slot + 1) % SLOTS) {
		if (slot < FIRST)
			continue;
		if (addresses[slot] == address)
			return slot;
		if (!addresses[slot])
			break;
	}
	/* A table that is fuller than this is slow, and full it has no end. */
	if (used >= SLOTS / 4 * 3)
		return ELSEWHERE;
	used++;
	addresses[slot] = address;
	return slot;
}

static void write_section(const uint64_t *now)
{
	uint64_t total = 0;
	unsigned int slot;

	for (slot = 0; slot < SLOTS; slot++)
		total += now[slot] - before[slot];
	fprintf(out, "section %d %" PRIu64 "\n", open_section, total);
	for (slot = 0; slot < SLOTS; slot++) {
		if (now[slot] == before[slot])
			continue;
		if (slot == USER)
			fputs("user", out);
		else if (slot == ELSEWHERE)
			fputs("elsewhere", out);
		else
			fprintf(out, "%" PRIx64, addresses[slot]);
		fprintf(out, " %" PRIu64, now[slot] - before[slot]);
		if (again[slot])
			fprintf(out, " %" PRIu64, again[slot]);
		fputc('\n', out);
	}
	/* A guest may be killed: what is counted is kept. */
	if (fflush(out)) {
		perror("count: cannot write");
		exit(1);
	}
}

static void begin(int section, const uint64_t *now)
{
	memcpy(before, now, sizeof(before));
	memset(again, 0, sizeof(again));
	open_section = section;
}

static void end(const uint64_t *now)
{
	write_section(now);
	open_section = -1;
}

static void at_mark(unsigned int cpu, void *data)
{
	const uint64_t *now = qemu_plugin_scoreboard_find(counters, cpu);
	unsigned int mark = (uintptr_t)data;
	int section = MARK_SECTION(mark);

	if (places[section][MARK_ENDS(mark)])
		due = MARK_ENDS(mark) ? -1 : section;
	else if (open_section < 0 && !MARK_ENDS(mark))
		begin(section, now);
	else if (open_section == section && MARK_ENDS(mark))
		end(now);
}

static void at_place(unsigned int cpu, void *data)
{
	const uint64_t *now = qemu_plugin_scoreboard_find(counters, cpu);
	uint64_t address = (uintptr_t)data;

	if (open_section < 0 && due >= 0 && places[due][0] == address) {
		begin(due, now);
		due = -1;
	} else if (open_section >= 0 && places[open_section][1] == address) {
		end(now);
	}
}

/* At a string instruction that begins a block. */
static void at_string(unsigned int cpu, void *data)
{
	const uint64_t *from = qemu_plugin_scoreboard_find(last, cpu);
	unsigned int slot = (uintptr_t)data;

	if (*from == addresses[slot])
		again[slot]++;
}

/* Whether it is one of the string instructions with a prefix that repeats it. */
static bool is_string(const struct insn *insn)
{
	unsigned char code[15];
	size_t size = qemu_plugin_insn_data(insn, code, sizeof(code)), i = 0;
	bool repeats = false;

	for (; i < size && (code[i] == 0x66 || code[i] == 0x67 || (code[i] & 0xfe) == 0xf2); i++)
		repeats |= (code[i] & 0xfe) == 0xf2;
	if (i < size && (code[i] & 0xf0) == 0x40)
		i++;
	/* ins, outs, movs, cmps, stos, lods, scas; not test (0xa8, 0xa9) */
	return repeats && i + 1 == size &&
	       ((code[i] >= 0x6c && code[i] <= 0x6f) || (code[i] >= 0xa4 && code[i] <= 0xa7) ||
		(code[i] >= 0xaa && code[i] <= 0xaf));
}

static bool is_place(uint64_t address)
{
	unsigned int section;

	for (section = 0; section < SECTIONS; section++)
		if (places[section][0] == address || places[section][1] == address)
			return true;
	return false;
}

/* Whether a process executes a mark there; the kernel has no reason to. */
static bool is_mark(const struct insn *insn, uint64_t address, unsigned int *mark)
{
	unsigned char code[MARK_SIZE];

	return address < KERNEL && qemu_plugin_insn_size(insn) == sizeof(code) &&
	       qemu_plugin_insn_data(insn, code, sizeof(code)) == sizeof(code) &&
	       mark_read(code, mark);
}

/*
 * A place is told by code that is made for it, so that its translation is its execution.
 * What was translated before it was told has no call to at_place(): a section that never
 * begins is missed by who reads the file.
 */
static void take_place(const struct insn *insn, unsigned int mark)
{
	unsigned char code[MARK_PLACE_SIZE];
	uint64_t address;

	if (qemu_plugin_insn_data(insn, code, sizeof(code)) == sizeof(code) &&
	    mark_read_place(code, &address))
		places[MARK_SECTION(mark)][MARK_ENDS(mark)] = address;
}

static void count_block(uint64_t id, struct block *block);
static void watch_block(uint64_t id, struct block *block);

/* All code is translated anew from here on, and all calls that were asked for are gone. */
static void after_reset(uint64_t id)
{
	switching = false;
	counting = wanted;
	qemu_plugin_register_vcpu_tb_trans_cb(id, counting ? count_block : watch_block);
}

static void at_switch(unsigned int cpu, void *data)
{
	unsigned int mark = (uintptr_t)data;

	(void)cpu;
	if (mark == MARK_ON)
		wanted++;
	else if (wanted)
		wanted--;
	/* It happens when the processor next leaves the code that was made for it. */
	if (counting == !!wanted || switching)
		return;
	switching = true;
	qemu_plugin_reset(own_id, after_reset);
}

static void on_switch(struct insn *insn, unsigned int mark)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, at_switch, NO_REGISTERS,
					       (void *)(uintptr_t)mark);
}

/* While nothing is counted: look for who wants that. */
static void watch_block(uint64_t id, struct block *block)
{
	size_t length = qemu_plugin_tb_n_insns(block), i;
	unsigned int mark;

	(void)id;
	/* Blocks are of a page or two, in one half of all addresses. */
	if (qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)) >= KERNEL)
		return;
	for (i = 0; i < length; i++) {
		struct insn *insn = qemu_plugin_tb_get_insn(block, i);

		if (is_mark(insn, qemu_plugin_insn_vaddr(insn), &mark) &&
		    (mark == MARK_ON || mark == MARK_OFF))
			on_switch(insn, mark);
	}
}

static void count_block(uint64_t id, struct block *block)
{
	size_t length = qemu_plugin_tb_n_insns(block), i;

	(void)id;
	for (i = 0; i < length; i++) {
		struct insn *insn = qemu_plugin_tb_get_insn(block, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		unsigned int slot = slot_of(address), mark;
		struct counter counter = { counters, slot * sizeof(uint64_t) };
		struct counter seen = { last, 0 };

		if (is_mark(insn, address, &mark)) {
			if (mark == MARK_ON || mark == MARK_OFF)
				on_switch(insn, mark);
			else if (MARK_SECTION(mark) >= SECTIONS)
				; /* of a later mark.h */
			else if (!(mark & MARK_PLACE))
				qemu_plugin_register_vcpu_insn_exec_cb(insn, at_mark, NO_REGISTERS,
								       (void *)(uintptr_t)mark);
			else if (i + 1 < length)
				take_place(qemu_plugin_tb_get_insn(block, i + 1), mark);
		}
		/* Before its own counter: the instruction at a place belongs to what follows. */
		if (address >= KERNEL && is_place(address))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, at_place, NO_REGISTERS,
							       (void *)(uintptr_t)address);
		if (!i && slot >= FIRST && is_string(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, at_string, NO_REGISTERS,
							       (void *)(uintptr_t)slot);
		if (i + 1 == length)
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, STORE_U64, seen,
									    address);
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD_U64, counter, 1);
	}
}

static int complain(const char *text, const char *argument)
{
	fprintf(stderr, "count: %s%s\n", argument, text);
	return -1;
}

int qemu_plugin_install(uint64_t id, const struct info *info, int argc, char **argv)
{
	int i;

	if (!info->system || info->max_cpus != 1)
		return complain("only a whole guest with one CPU can be counted", "");
	for (i = 0; i < argc; i++) {
		if (strncmp(argv[i], "out=", 4) || out)
			return complain(": expected out=FILE, once", argv[i]);
		out = fopen(argv[i] + 4, "w");
		if (!out)
			return complain(": cannot be written", argv[i]);
	}
	if (!out)
		return complain("out=FILE is needed", "");
	counters = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
	last = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	own_id = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, watch_block);
	return 0;
}
