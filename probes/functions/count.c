// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * count: a QEMU plugin that counts how often each instruction of the guest's
 * kernel is executed, between addresses: what `skblab bench functions` reads.
 *   usage: -plugin count.so,out=FILE,section=ON:OFF[,section=ON:OFF...]
 * ON and OFF are addresses of instructions in hex. Counting of section n begins
 * when the n-th ON is executed while nothing is counted, and ends at its OFF,
 * which may be the same address. At OFF these lines go to FILE:
 *   section N INSTRUCTIONS      which one, and what all lines below it add up to
 *   ADDRESS COUNT               an instruction of the kernel, in hex, and its count
 *   user COUNT                  everything below the kernel's half of addresses
 *   elsewhere COUNT             what found no place in the table; 0 is not written
 *
 * Each instruction has a counter of its own, added to by the code that QEMU makes
 * for it, so that a block that is left half way (a fault, or an access to a device,
 * which QEMU does again in a block of its own) counts as -icount counts it. The
 * iterations of a string instruction are one instruction each, there and here.
 * A counter belongs to an address: code that is translated again, also after the
 * kernel patched itself, goes on with it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Debian packages no header for plugins. This is what we need of version 2 of the
 * interface (QEMU 9.0), which QEMU 10.0 still takes.
 */
#define API_VERSION 2

enum { NO_REGISTERS = 0 }; /* of a callback */
enum { ADD_U64 = 0 };	   /* inline operation */

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
typedef void (*executed)(unsigned int cpu, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated call);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *insn, executed call, int flags,
					    void *data);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct insn *insn, int operation,
							 struct counter counter, uint64_t add);
size_t qemu_plugin_tb_n_insns(const struct block *block);
struct insn *qemu_plugin_tb_get_insn(const struct block *block, size_t number);
uint64_t qemu_plugin_insn_vaddr(const struct insn *insn);
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

static struct {
	uint64_t on, off;
} sections[SECTIONS];
static unsigned int number_of_sections;
static int open_section = -1;

static uint64_t addresses[SLOTS]; /* by slot: a hash table, 0 where there is none */
static uint64_t before[SLOTS];	  /* the counters when the section was opened */
static unsigned int used;
static struct scoreboard *counters; /* SLOTS times 64 bits */
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
		fprintf(out, " %" PRIu64 "\n", now[slot] - before[slot]);
	}
	/* A guest may be killed: what is counted is kept. */
	if (fflush(out)) {
		perror("count: cannot write");
		exit(1);
	}
}

static void at_mark(unsigned int cpu, void *data)
{
	const uint64_t *now = qemu_plugin_scoreboard_find(counters, cpu);
	uint64_t address = (uintptr_t)data;
	unsigned int n;

	if (open_section >= 0) {
		if (sections[open_section].off == address) {
			write_section(now);
			open_section = -1;
		}
		return;
	}
	for (n = 0; n < number_of_sections; n++) {
		if (sections[n].on == address) {
			memcpy(before, now, sizeof(before));
			open_section = n;
			return;
		}
	}
}

static bool is_mark(uint64_t address)
{
	unsigned int n;

	for (n = 0; n < number_of_sections; n++)
		if (sections[n].on == address || sections[n].off == address)
			return true;
	return false;
}

static void at_translation(uint64_t id, struct block *block)
{
	size_t length = qemu_plugin_tb_n_insns(block), i;

	(void)id;
	for (i = 0; i < length; i++) {
		struct insn *insn = qemu_plugin_tb_get_insn(block, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		struct counter counter = { counters, slot_of(address) * sizeof(uint64_t) };

		/* Before its own counter: an instruction at a mark belongs to what follows. */
		if (is_mark(address))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, at_mark, NO_REGISTERS,
							       (void *)(uintptr_t)address);
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
		unsigned int n = number_of_sections;

		if (!strncmp(argv[i], "out=", 4) && !out) {
			out = fopen(argv[i] + 4, "w");
			if (!out)
				return complain(": cannot be written", argv[i]);
		} else if (n < SECTIONS && sscanf(argv[i], "section=%" SCNx64 ":%" SCNx64,
						  &sections[n].on, &sections[n].off) == 2) {
			number_of_sections++;
		} else {
			return complain(": expected out=FILE or section=ON:OFF", argv[i]);
		}
	}
	if (!out || !number_of_sections)
		return complain("out=FILE and a section=ON:OFF are needed", "");
	counters = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
	qemu_plugin_register_vcpu_tb_trans_cb(id, at_translation);
	return 0;
}
