// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * count: a QEMU plugin that counts how often each instruction of the guest's
 * kernel is executed, between marks: what `skblab profile` reads.
 *   usage: -plugin count.so,out=FILE[,caches=GEOMETRY[,layout=FILE][,node=BYTES]]
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
 *   frame ID CALLER RETURN      calls that were not told before: where ID returns to, and
 *                               the frame that it was made from; 0 is where nothing is known
 *   at ID ADDRESS COUNT [ACCESSES CODE DATA SECOND THIRD WRITTEN AWAY REMOTE PASSED]
 *                               instructions of blocks that begin at ADDRESS, executed
 *                               when the innermost call was ID; without iterations.
 *                               With caches: its accesses to data, and what they and
 *                               its fetches missed in these; of two nodes, its accesses
 *                               to the other one's memory, the lines that came from
 *                               there, and those that the other CPU passed on (caches.h)
 *   type SIZE ACCESSES DATA SECOND THIRD WRITTEN AWAY REMOTE PASSED WORDS NAME
 *                               with caches and a layout: accesses to objects of SIZE
 *                               bytes of a slab cache, or to what NAME says in brackets,
 *                               and what they missed; WORDS has ,NUMBER:COUNT for each
 *                               8 bytes of an object, from its begin, that are accessed
 *                               (objects.h)
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
 *
 * Who called whom is followed by calls and returns, a stack for each of the kernel's: a
 * block begins where a call returns to, or behind a call. An interrupt is no call: what it
 * does is told of the frame that it came in. A block that is left half way counts as a
 * whole one here, so these lines may add up to a little more than the others do.
 *
 * Caches are simulated while counting is on, by physical addresses. A block's code is
 * fetched line by line when it begins; an access that crosses lines is one for each. QEMU
 * tells where code lies in its own memory only: that of the kernel, which has a fixed
 * distance from its physical address, says where the guest's begins there.
 *
 * With node= the guest has a second NUMA node, each with so many bytes of memory in a memfd
 * of its own. Its CPU is simulated: what is executed in section MARK_OTHER is looked up in
 * the caches of another one, on that node. QEMU has one CPU as always: of several that take
 * turns in one thread it does not tell a plugin which one it executes.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "mark.h"
#include "objects.h"

/*
 * Debian packages no header for plugins. This is what we need of version 3 of the
 * interface (QEMU 9.1), which QEMU 10.0 still takes. One that is newer than what was
 * tested may have changed them: nobody compares these declarations with its own.
 */
#define API_VERSION 3
#define API_TESTED  4

enum { NO_REGISTERS = 0, READ_REGISTERS = 1 }; /* of a callback */
enum { ADD_U64 = 0, STORE_U64 = 1 };	       /* inline operations */
enum { READS_AND_WRITES = 3 };		       /* of memory */

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
struct place;
struct scoreboard;

struct counter {
	struct scoreboard *board;
	size_t offset;
};

typedef void (*translated)(uint64_t id, struct block *block);
typedef void (*was_reset)(uint64_t id);
typedef void (*executed)(unsigned int cpu, void *data);
typedef void (*accessed)(unsigned int cpu, uint32_t info, uint64_t address, void *data);

/* What GLib has of these; QEMU brings it. */
struct bytes {
	uint8_t *data;
	unsigned int length;
};

struct reg {
	void *handle;
	const char *name, *feature;
};

struct regs {
	struct reg *data;
	unsigned int length;
};

struct bytes *g_byte_array_new(void);
struct bytes *g_byte_array_set_size(struct bytes *bytes, unsigned int length);

void qemu_plugin_reset(uint64_t id, was_reset call);
struct regs *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *handle, struct bytes *into);
void qemu_plugin_register_vcpu_tb_exec_cb(struct block *block, executed call, int flags,
					  void *data);
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
void *qemu_plugin_insn_haddr(const struct insn *insn);
void qemu_plugin_register_vcpu_mem_cb(struct insn *insn, accessed call, int flags, int kind,
				      void *data);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);
struct place *qemu_plugin_get_hwaddr(uint32_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct place *place);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct place *place);
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

/* A call that has not returned, by where it will; the call that it was made in. */
struct frame {
	uint64_t back;
	uint32_t caller, next; /* of the same hash */
	bool told;
};

/* What was executed in a frame of blocks that begin at an address. */
struct count {
	uint64_t address, instructions;
	uint32_t frame, next;
	struct missed missed;
};

/* A block as it was translated. */
enum end { GOES_ON, CALLS, RETURNS };
struct piece {
	uint64_t first, last, behind;
	struct count *count; /* of the frame that it was last executed in */
	unsigned int length;
	enum end end;
	bool string;
	struct piece *made_before;
	unsigned int lines;
	uint64_t line[]; /* of its code; none where no caches are simulated */
};

/* The calls of a task, innermost last; a task is known by where its stack is. */
#define DEPTH 192
struct calls {
	uint64_t stack;
	unsigned int depth, kept; /* kept: when it was switched to */
	uint32_t frames[DEPTH];
};

#define FRAMES	   (1u << 18)
#define COUNTS	   (1u << 20)
#define TASKS	   256
#define STACK_BITS 14 /* THREAD_SIZE of x86-64, and its alignment */

static struct frame frames[FRAMES]; /* 0: what has no caller that is known */
static struct count counts[COUNTS]; /* 0: what found no place */
static uint32_t frames_by[FRAMES], counts_by[COUNTS];
static uint32_t frames_used = 1, counts_used = 1;
static struct count *current; /* what is executed now; NULL: no section is open */
static struct calls tasks[TASKS], *task = tasks;
static unsigned int tasks_used = 1, tasks_next;
static struct piece *piece_before, *newest_piece;
static uint64_t left_stack; /* of the task that is being switched from */
static bool task_leaves;

/* Instructions of a block of QEMU at most, and bytes of each; the kernel's code, at its place. */
#define MOST_INSNS 512
#define INSN_BYTES 15
#define TEXT	   0xffffffff80000000ULL
#define TEXT_END   0xffffffffa0000000ULL /* 512 MiB, the most that an image may have */
#define PAGE	   4096

static struct memory memory;
static bool caches;
static const char *layout;	     /* file of the guest's */
static uint64_t text_at;	     /* where QEMU has what the guest has at address 0 */
static uint64_t node_bytes, node_at; /* of a second node's memory; where QEMU has it */
static unsigned int simulated;	     /* the CPU whose caches are looked up */

static uint32_t hash_of(uint64_t address, uint32_t frame)
{
	return ((address ^ (uint64_t)frame << 40 ^ frame) * 0x9e3779b97f4a7c15ULL) >> 40;
}

static uint32_t frame_of(uint64_t back, uint32_t caller)
{
	uint32_t *head = &frames_by[hash_of(back, caller) % FRAMES], at;

	for (at = *head; at; at = frames[at].next)
		if (frames[at].back == back && frames[at].caller == caller)
			return at;
	if (frames_used == FRAMES)
		return 0;
	frames[frames_used] = (struct frame){ back, caller, *head, false };
	return *head = frames_used++;
}

static struct count *count_of(uint64_t address, uint32_t frame)
{
	uint32_t *head = &counts_by[hash_of(address, frame) % COUNTS], at;

	for (at = *head; at; at = counts[at].next)
		if (counts[at].address == address && counts[at].frame == frame)
			return &counts[at];
	if (counts_used == COUNTS)
		return &counts[0];
	counts[counts_used] = (struct count){ .address = address, .frame = frame, .next = *head };
	return &counts[*head = counts_used++];
}

static uint32_t innermost(void)
{
	return task->depth ? task->frames[task->depth - 1] : 0;
}

/* How many calls there are when one has returned to an address; all of them if none does. */
static unsigned int depth_at(uint64_t address)
{
	unsigned int depth = task->depth;

	while (depth && frames[task->frames[depth - 1]].back != address)
		depth--;
	return depth ? depth - 1 : task->depth;
}

static void follow(const struct piece *piece, const struct piece *from)
{
	unsigned int depth;

	if (piece->first < KERNEL) {
		task->depth = 0;
	} else if (from && from->end == CALLS) {
		if (task->depth < DEPTH)
			task->frames[task->depth++] = frame_of(from->behind, innermost());
	} else if (task->depth && frames[innermost()].back == piece->first) {
		task->depth--;
	} else if (from && from->end == RETURNS) {
		depth = depth_at(piece->first);
		/* A task that began anew, on the stack of one that ended. */
		if (depth == task->depth && depth == task->kept)
			depth = 0;
		task->depth = depth;
	}
	if (task->depth < task->kept)
		task->kept = DEPTH + 1;
}

/* The stack pointer, as far as it tells one stack from another. */
static uint64_t stack_now(void)
{
	static struct bytes *bytes;
	static void *handle;
	uint64_t pointer;

	if (!handle) {
		const struct regs *all = qemu_plugin_get_registers();
		unsigned int i;

		for (i = 0; i < all->length; i++)
			if (!strcmp(all->data[i].name, "rsp"))
				handle = all->data[i].handle;
		bytes = g_byte_array_new();
	}
	g_byte_array_set_size(bytes, 0);
	if (!handle || qemu_plugin_read_register(handle, bytes) != sizeof(pointer)) {
		fputs("count: this QEMU does not tell the stack pointer\n", stderr);
		exit(1);
	}
	memcpy(&pointer, bytes->data, sizeof(pointer));
	return pointer >> STACK_BITS;
}

/* Before the instruction that takes another task's stack. */
static void at_task_leaves(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	left_stack = stack_now();
	task_leaves = true;
}

static void switch_task(void)
{
	uint64_t stack = stack_now();
	unsigned int i;

	task_leaves = false;
	task->stack = left_stack;
	for (i = 0; i < tasks_used; i++)
		if (tasks[i].stack == stack)
			break;
	if (i == tasks_used) {
		if (tasks_used < TASKS)
			tasks_used++;
		else
			i = tasks_next++ % TASKS;
		tasks[i].stack = stack;
		tasks[i].depth = 0;
	}
	task = &tasks[i];
	task->kept = task->depth;
}

static void fetch_line(uint64_t line)
{
	static struct missed nobodys;

	memory_access(&memory, simulated, CODE, line, false, current ? &current->missed : &nobodys);
}

static void at_access(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	uint64_t size = 1ULL << qemu_plugin_mem_size_shift(info);
	uint64_t line = 1ULL << memory.line_bits, at, next, end = address + size;

	(void)cpu;
	(void)data;
	for (at = address; at < end; at = next) {
		const struct place *place = qemu_plugin_get_hwaddr(info, at);
		struct missed missed = { 0 };
		uint64_t physical_at;

		next = (at | (line - 1)) + 1;
		/* What a device answers is in no cache. */
		if (!place || qemu_plugin_hwaddr_is_io(place))
			continue;
		physical_at = qemu_plugin_hwaddr_phys_addr(place);
		memory_access(&memory, simulated, DATA, physical_at >> memory.line_bits,
			      qemu_plugin_mem_is_store(info), &missed);
		if (!current)
			continue;
		missed_add(&current->missed, &missed);
		if (objects.known)
			objects_touch(at, physical_at, (next < end ? next : end) - at, &missed);
	}
}

static void at_piece(unsigned int cpu, void *data)
{
	const uint64_t *from = qemu_plugin_scoreboard_find(last, cpu);
	struct piece *piece = data, *before_it = piece_before;
	unsigned int line;
	uint32_t frame;

	/* A further iteration. */
	if (piece->string && *from == piece->first)
		return;
	if (before_it && *from != before_it->last)
		before_it = NULL; /* left half way */
	if (task_leaves)
		switch_task();
	follow(piece, before_it);
	piece_before = piece;
	current = NULL;
	if (open_section >= 0) {
		frame = innermost();
		if (!piece->count || piece->count->frame != frame)
			piece->count = count_of(piece->first, frame);
		piece->count->instructions += piece->length;
		current = piece->count;
	}
	for (line = 0; line < piece->lines; line++)
		fetch_line(piece->line[line]);
}

static void write_frame(uint32_t frame)
{
	if (!frame || frames[frame].told)
		return;
	frames[frame].told = true;
	write_frame(frames[frame].caller);
	fprintf(out, "frame %" PRIu32 " %" PRIu32 " %" PRIx64 "\n", frame, frames[frame].caller,
		frames[frame].back);
}

static void write_counts(void)
{
	uint32_t at;

	for (at = 0; at < counts_used; at++) {
		const struct missed *missed = &counts[at].missed;

		if (!counts[at].instructions && !missed->accesses)
			continue;
		write_frame(counts[at].frame);
		fprintf(out, "at %" PRIu32 " %" PRIx64 " %" PRIu64, counts[at].frame,
			counts[at].address, counts[at].instructions);
		if (caches)
			fprintf(out,
				" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
				" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
				missed->accesses, missed->in[CODE], missed->in[DATA],
				missed->in[SECOND], missed->in[THIRD], missed->written,
				missed->remote_accesses, missed->remote, missed->passed);
		fputc('\n', out);
	}
}

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
	write_counts();
	objects_write(out);
	/* A guest may be killed: what is counted is kept. */
	if (fflush(out)) {
		perror("count: cannot write");
		exit(1);
	}
}

/* Find the second node's memory: a memfd of the size of the first one's. */
static void find_node(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t first, end;
	char line[512];

	while (maps && !node_at && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &end) == 2 &&
		    end - first == node_bytes && first != text_at && strstr(line, "/memfd:"))
			node_at = first;
	if (maps)
		fclose(maps);
	if (!node_at) {
		fputs("count: the second node's memory is not where it was looked for\n", stderr);
		exit(1);
	}
}

static void begin(int section, const uint64_t *now)
{
	uint32_t at;

	memcpy(before, now, sizeof(before));
	memset(again, 0, sizeof(again));
	for (at = 0; at < counts_used; at++) {
		counts[at].instructions = 0;
		memset(&counts[at].missed, 0, sizeof(counts[at].missed));
	}
	if (layout && !objects.known && text_at)
		objects_open(layout, text_at, node_at ? node_bytes : UINT64_MAX, node_at, TEXT);
	objects_begin();
	/* The rest of this block. */
	current = piece_before ? count_of(piece_before->first, innermost()) : counts;
	open_section = section;
	simulated = node_bytes && section == MARK_OTHER;
}

static void end(const uint64_t *now)
{
	write_section(now);
	open_section = -1;
	current = NULL;
	simulated = 0;
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

/*
 * How a block ends. Code that goes on right behind its call wants an address, or to fill
 * the processor's own stack of returns: it does not call.
 */
static enum end end_of(const struct insn *insn)
{
	unsigned char code[15];
	size_t size = qemu_plugin_insn_data(insn, code, sizeof(code)), i = 0;
	int32_t distance;

	while (i < size &&
	       (code[i] == 0x66 || code[i] == 0x2e || code[i] == 0x3e || (code[i] & 0xfe) == 0xf2))
		i++;
	if (i < size && (code[i] & 0xf0) == 0x40)
		i++;
	if (i < size && (code[i] == 0xc2 || code[i] == 0xc3))
		return RETURNS;
	if (i + 5 <= size && code[i] == 0xe8) {
		memcpy(&distance, code + i + 1, sizeof(distance));
		return distance >= 0 && distance <= 16 ? GOES_ON : CALLS;
	}
	return i + 1 < size && code[i] == 0xff && (code[i + 1] & 0x38) == 0x10 ? CALLS : GOES_ON;
}

/* Whether it is mov OFFSET(%rsi), %rsp, by which the kernel goes to another task's stack. */
static bool takes_stack(const struct insn *insn)
{
	unsigned char code[3];

	return qemu_plugin_insn_data(insn, code, sizeof(code)) == sizeof(code) && code[0] == 0x48 &&
	       code[1] == 0x8b && (code[2] == 0xa6 || code[2] == 0x66);
}

/* Return how many lines an instruction adds to those of the code before it in its block. */
static unsigned int code_lines(const struct insn *insn, uint64_t *lines, unsigned int found)
{
	uint64_t at = (uintptr_t)qemu_plugin_insn_haddr(insn), line = 1ULL << memory.line_bits;
	unsigned int added = 0;
	uint64_t end;

	/* Not in memory, but in a device. */
	if (!at)
		return 0;
	at = node_at && at - node_at < node_bytes ? node_bytes + at - node_at : at - text_at;
	end = at + qemu_plugin_insn_size(insn);
	/* Where the rest of it is, on another page, the next instruction says. */
	if (end > (at | (PAGE - 1)) + 1)
		end = (at | (PAGE - 1)) + 1;
	for (; at < end; at = (at | (line - 1)) + 1)
		if (!(found + added) || lines[found + added - 1] != at >> memory.line_bits)
			lines[found + added++] = at >> memory.line_bits;
	return added;
}

static void follow_block(struct block *block, size_t length)
{
	const struct insn *final = qemu_plugin_tb_get_insn(block, length - 1);
	struct insn *initial = qemu_plugin_tb_get_insn(block, 0);
	uint64_t lines[MOST_INSNS * INSN_BYTES];
	struct piece *piece;
	unsigned int found = 0;
	size_t i;

	for (i = 0; caches && i < length && i < MOST_INSNS; i++)
		found += code_lines(qemu_plugin_tb_get_insn(block, i), lines, found);
	piece = calloc(1, sizeof(*piece) + found * sizeof(*lines));
	if (!piece) {
		perror("count");
		exit(1);
	}
	piece->first = qemu_plugin_insn_vaddr(initial);
	piece->last = qemu_plugin_insn_vaddr(final);
	piece->behind = piece->last + qemu_plugin_insn_size(final);
	piece->length = length;
	piece->end = end_of(final);
	piece->string = is_string(initial);
	piece->made_before = newest_piece;
	piece->lines = found;
	memcpy(piece->line, lines, found * sizeof(*lines));
	newest_piece = piece;
	qemu_plugin_register_vcpu_tb_exec_cb(block, at_piece, READ_REGISTERS, piece);
}

static void count_block(uint64_t id, struct block *block);
static void watch_block(uint64_t id, struct block *block);

/* All code is translated anew from here on, and all calls that were asked for are gone. */
static void after_reset(uint64_t id)
{
	switching = false;
	counting = wanted;
	/* A section whose end is not reached by then has none. */
	if (!counting) {
		open_section = due = -1;
		simulated = 0;
		/* What one program has left there is no business of the next one. */
		if (node_bytes)
			memory_forget(&memory, 1);
	}
	if (node_bytes && text_at && !node_at)
		find_node();
	/* What called what while nobody looked is not known. */
	piece_before = NULL;
	current = NULL;
	while (newest_piece) {
		struct piece *piece = newest_piece;

		newest_piece = piece->made_before;
		free(piece);
	}
	task_leaves = false;
	memset(tasks, 0, sizeof(tasks));
	task = tasks;
	tasks_used = 1;
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

/* The kernel runs long before a program that can ask for anything to be counted. */
static void find_text(const struct insn *insn)
{
	uint64_t at = (uintptr_t)qemu_plugin_insn_haddr(insn);
	uint64_t address = qemu_plugin_insn_vaddr(insn);

	if (at && !text_at && address >= TEXT && address < TEXT_END)
		text_at = at - (address - TEXT);
}

/* While nothing is counted: look for who wants that. */
static void watch_block(uint64_t id, struct block *block)
{
	size_t length = qemu_plugin_tb_n_insns(block), i;
	unsigned int mark;

	(void)id;
	/* Blocks are of a page or two, in one half of all addresses. */
	if (qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)) >= KERNEL) {
		find_text(qemu_plugin_tb_get_insn(block, 0));
		return;
	}
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
	follow_block(block, length);
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
		if (caches)
			qemu_plugin_register_vcpu_mem_cb(insn, at_access, NO_REGISTERS,
							 READS_AND_WRITES, NULL);
		if (address >= KERNEL && takes_stack(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, at_task_leaves, READ_REGISTERS,
							       NULL);
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

	if (info->version.current > API_TESTED) {
		fprintf(stderr,
			"count: QEMU's interface for plugins is version %d, and was tested up to %d\n",
			info->version.current, API_TESTED);
		return -1;
	}
	/* Whether it can be loaded is all that is asked: there is no guest. */
	if (argc == 1 && !strcmp(argv[0], "check=on"))
		return complain("loaded", "");
	if (!info->system || info->max_cpus != 1)
		return complain("only a whole guest with one CPU can be counted", "");
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "caches=", 7) && !caches) {
			caches = memory_parse(&memory, argv[i] + 7);
			if (!caches)
				return complain(": expected caches=LINE:SIZE.WAYS:… of four caches",
						argv[i]);
			continue;
		}
		if (!strncmp(argv[i], "node=", 5) && caches && !node_bytes) {
			node_bytes = strtoull(argv[i] + 5, NULL, 10);
			if (!node_bytes || node_bytes % PAGE)
				return complain(": expected bytes of whole pages", argv[i]);
			memory_split(&memory, node_bytes);
			continue;
		}
		if (!strncmp(argv[i], "layout=", 7) && !layout) {
			layout = strdup(argv[i] + 7);
			continue;
		}
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
