/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks: how a program says to count.c where a section of its work begins and ends.
 *   MARK_BEGIN(1); while (recv(...) >= 0) ; MARK_END(1);
 * A mark is a nop with an operand that no compiler gives it: it costs an instruction
 * and does nothing where nobody counts.
 *
 * A guest whose instructions are counted is several times slower than one that is only
 * watched for marks. So the program says when it needs that, too:
 *   mark_on(); ... sections ...; mark_off();
 * Programs that do so at the same time are counted until the last of them has said off.
 *
 * Where the work is a kernel thread's, what happens between two marks is more than
 * that: a program may say before where in the kernel it begins and ends:
 *   mark_place(code, MARK_PLACE_BEGIN(0), address); mark_place(code, MARK_PLACE_END(0), ...);
 * Then section 0 begins when that is executed after MARK_BEGIN(0), and so it ends.
 */
#ifndef SKBLAB_MARK_H
#define SKBLAB_MARK_H

#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* nopl MAGIC + mark (%rax) */
#define MARK_SIZE  7
#define MARK_MAGIC 0x5b1ab000u
#define MARK_MASK  0xffu

#define MARK_(mark)                                                                                \
	asm volatile(".byte 0x0f, 0x1f, 0x80; .long %c0" ::"i"(MARK_MAGIC + (mark)) : "memory")
#define MARK_BEGIN(section) MARK_(2 * (section))
#define MARK_END(section)   MARK_(2 * (section) + 1)

/* Of a place: the mark, and movabs address, %rax behind it. */
#define MARK_PLACE		  0x80u
#define MARK_PLACE_BEGIN(section) (MARK_PLACE + 2 * (section))
#define MARK_PLACE_END(section)	  (MARK_PLACE + 2 * (section) + 1)
#define MARK_PLACE_SIZE		  10

/* Neither begins nor ends a section. */
#define MARK_ON	 0x7eu
#define MARK_OFF 0x7fu
/* The counter switches when the processor is next idle. No packet waits long because of it. */
#define MARK_PAUSE_US 100

/* A section that is another CPU's, where a second one is simulated (count.c). */
#define MARK_OTHER 2

#define MARK_SECTION(mark) (((mark) & ~MARK_PLACE) / 2)
#define MARK_ENDS(mark)	   ((mark) % 2)

static inline void mark_on(void)
{
	MARK_(MARK_ON);
	usleep(MARK_PAUSE_US);
}

static inline void mark_off(void)
{
	MARK_(MARK_OFF);
	usleep(MARK_PAUSE_US);
}

/* Whether MARK_SIZE bytes of code are a mark, and which. */
static inline int mark_read(const unsigned char *code, unsigned int *mark)
{
	uint32_t operand;

	memcpy(&operand, code + 3, sizeof(operand));
	*mark = operand & MARK_MASK;
	return code[0] == 0x0f && code[1] == 0x1f && code[2] == 0x80 &&
	       (operand & ~MARK_MASK) == MARK_MAGIC;
}

/* Whether MARK_PLACE_SIZE bytes of code load an address, and which. */
static inline int mark_read_place(const unsigned char *code, uint64_t *address)
{
	memcpy(address, code + 2, sizeof(*address));
	return code[0] == 0x48 && code[1] == 0xb8;
}

/* Write to code what tells of a place and returns, and call it; code may be executed. */
static inline void mark_place(unsigned char *code, uint32_t mark, uint64_t address)
{
	const unsigned char nop[] = { 0x0f, 0x1f, 0x80 }, load[] = { 0x48, 0xb8 };
	const uint32_t operand = MARK_MAGIC + mark;
	void (*tell)(void);

	memcpy(code, nop, sizeof(nop));
	memcpy(code + 3, &operand, sizeof(operand));
	memcpy(code + MARK_SIZE, load, sizeof(load));
	memcpy(code + MARK_SIZE + 2, &address, sizeof(address));
	code[MARK_SIZE + MARK_PLACE_SIZE] = 0xc3; /* ret */
	memcpy(&tell, &code, sizeof(tell));
	tell();
}

#endif
