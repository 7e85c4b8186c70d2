// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of the tracer function_graph, and where things lie in them. */
#include <stdlib.h>
#include <string.h>

#include "graph_page.h"

/* Of the word that says how much of a page is used: its upper two bits say that events are missing. */
#define COMMIT_MISSED (1U << 31)
#define COMMIT_FLAGS  (3U << 30)
/* The largest page that a kernel can be told to take, and the largest event. */
#define LARGEST_PAGE  (1U << 24)
#define LARGEST_EVENT 4096
/* More than an event of function_graph takes. */
#define ROOM_OF_EVENT 256
/* What an event says of the context: hardirq, softirq, NMI. */
#define FLAGS_INTERRUPT (0x08 | 0x10 | 0x40)

/* The first word of an event. As the kernel declares it: the compiler places the bits as there. */
struct head {
	__u32 kind : 5, delta : 27;
};
_Static_assert(sizeof(struct head) == 4, "one word");

/* Kinds up to 28 are events of so many words; 0: the length is in the next word. */
enum { KIND_LONG = 0, KIND_PADDING = 29, KIND_EXTEND = 30, KIND_STAMP = 31 };
#define DELTA_BITS 27
/* A stamp has the time's lower 59 bits. */
#define STAMP_MASK ((1ULL << 59) - 1)

struct wanted {
	const char *name;
	struct graph_field *field;
	enum { NUMBER, OPTIONAL, BYTE, BYTES } kind; /* OPTIONAL: a number too */
};

/* A line such as "field:unsigned long func;	offset:8;	size:8;	signed:0;" */
static void note_field(char *line, const struct wanted *wanted, size_t count)
{
	char *name = strstr(line, "field:"), *end = name ? strchr(name, ';') : NULL;
	struct graph_field found;

	if (!end || sscanf(end, "; offset:%u; size:%u;", &found.offset, &found.size) != 2)
		return;
	*end = '\0';
	/* Behind its type. */
	name = strrchr(name, ' ');
	for (size_t i = 0; name && i < count; i++)
		if (!strcmp(name + 1, wanted[i].name))
			*wanted[i].field = found;
}

/* Read the fields, and the number of the event if @id; false if one is absent or no number. */
static bool read_fields(FILE *file, unsigned int *id, const struct wanted *wanted, size_t count)
{
	bool good = !id;
	char *line = NULL;
	size_t room = 0;

	for (size_t i = 0; i < count; i++)
		*wanted[i].field = (struct graph_field){ 0 };
	while (getline(&line, &room, file) > 0) {
		if (id && sscanf(line, "ID: %u", id) == 1)
			good = true;
		note_field(line, wanted, count);
	}
	free(line);
	for (size_t i = 0; i < count; i++) {
		const struct graph_field *field = wanted[i].field;

		if (wanted[i].kind == BYTES || (wanted[i].kind == OPTIONAL && !field->size))
			continue;
		if (wanted[i].kind == BYTE)
			good &= field->size == 1;
		else
			good &= field->size == 2 || field->size == 4 || field->size == 8;
		good &= field->offset < LARGEST_EVENT;
	}
	return good;
}

#define READ_FIELDS(file, id, wanted)                                                              \
	read_fields(file, id, wanted, sizeof(wanted) / sizeof(*(wanted)))

static bool read_page_fields(struct graph_format *format, FILE *file)
{
	const struct wanted wanted[] = {
		{ "commit", &format->commit, NUMBER },
		{ "data", &format->data, BYTES },
	};

	return READ_FIELDS(file, NULL, wanted) && format->commit.size >= 4 &&
	       format->commit.offset >= sizeof(__u64) &&
	       format->data.offset >= format->commit.offset + format->commit.size &&
	       format->data.size > 0 && format->data.offset < LARGEST_PAGE &&
	       format->data.size < LARGEST_PAGE;
}

bool graph_read_format(struct graph_format *format, FILE *page, FILE *entry, FILE *exit)
{
	struct graph_field type, flags, pid;
	const struct wanted of_entry[] = {
		{ "common_type", &format->type, NUMBER },
		{ "common_flags", &format->flags, BYTE },
		{ "common_pid", &format->pid, NUMBER },
		{ "func", &format->entry_function, NUMBER },
	};
	const struct wanted of_exit[] = {
		{ "common_type", &type, NUMBER },
		{ "common_flags", &flags, BYTE },
		{ "common_pid", &pid, NUMBER },
		{ "func", &format->exit_function, NUMBER },
		{ "calltime", &format->called, NUMBER },
		{ "rettime", &format->returned, NUMBER },
		{ "overrun", &format->overrun, OPTIONAL },
	};

	return read_page_fields(format, page) && READ_FIELDS(entry, &format->entry, of_entry) &&
	       READ_FIELDS(exit, &format->exit, of_exit) && format->entry != format->exit &&
	       !memcmp(&type, &format->type, sizeof(type)) &&
	       !memcmp(&flags, &format->flags, sizeof(flags)) &&
	       !memcmp(&pid, &format->pid, sizeof(pid));
}

size_t graph_page_size(const struct graph_format *format)
{
	return format->data.offset + format->data.size;
}

static __u32 word(const void *at)
{
	__u32 value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* What a field has; 0 for one that this kernel does not have. */
static __u64 value_of(const __u8 *event, const struct graph_field *field)
{
	__u16 two;
	__u32 four;
	__u64 eight;

	switch (field->size) {
	case 1:
		return event[field->offset];
	case sizeof(two):
		memcpy(&two, event + field->offset, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, event + field->offset, sizeof(four));
		return four;
	case sizeof(eight):
		memcpy(&eight, event + field->offset, sizeof(eight));
		return eight;
	}
	return 0;
}

static bool within(const struct graph_field *field, size_t size)
{
	return field->offset + field->size <= size;
}

/* An event of @size bytes. */
static enum graph_read read_event(const struct graph_format *format, const __u8 *data, size_t size,
				  struct graph_event *event)
{
	unsigned int type;

	if (!within(&format->type, size) || !within(&format->flags, size) ||
	    !within(&format->pid, size))
		return GRAPH_BROKEN;
	type = value_of(data, &format->type);
	event->pid = value_of(data, &format->pid);
	event->returns = type == format->exit;
	event->interrupts = value_of(data, &format->flags) & FLAGS_INTERRUPT;
	event->ns = 0;
	event->overrun = 0;
	if (type == format->entry) {
		if (!within(&format->entry_function, size))
			return GRAPH_BROKEN;
		event->address = value_of(data, &format->entry_function);
		return GRAPH_READ;
	}
	if (type != format->exit)
		return GRAPH_FOREIGN;
	if (!within(&format->exit_function, size) || !within(&format->called, size) ||
	    !within(&format->returned, size) || !within(&format->overrun, size))
		return GRAPH_BROKEN;
	event->address = value_of(data, &format->exit_function);
	event->ns = value_of(data, &format->returned) - value_of(data, &format->called);
	event->overrun = value_of(data, &format->overrun);
	return GRAPH_READ;
}

/* How many bytes are used; or -1 if there cannot be as many. */
static long used_of(const struct graph_format *format, const __u8 *page, size_t size, bool *missed)
{
	__u32 commit;

	if (size < format->data.offset)
		return -1;
	commit = value_of(page, &format->commit);
	*missed = commit & COMMIT_MISSED;
	commit &= ~COMMIT_FLAGS;
	return commit <= size - format->data.offset ? (long)commit : -1;
}

bool graph_page_has_room(const struct graph_format *format, const void *page, size_t size)
{
	bool missed;
	long used = used_of(format, page, size, &missed);

	return used >= 0 && used + ROOM_OF_EVENT <= (long)format->data.size;
}

enum graph_read graph_read_page(const struct graph_format *format, const void *page, size_t size,
				void (*take)(void *to, const struct graph_event *event), void *to)
{
	struct graph_event event = { 0 };
	const __u8 *data, *end;
	bool missed = false;
	long used = used_of(format, page, size, &missed);
	__u64 now;

	if (used < 0)
		return GRAPH_BROKEN;
	if (missed)
		return GRAPH_LOST;
	memcpy(&now, page, sizeof(now));
	data = (const __u8 *)page + format->data.offset;
	end = data + used;
	while (end - data >= (long)sizeof(struct head)) {
		size_t left = end - data - sizeof(struct head), length;
		enum graph_read ret;
		struct head head;

		memcpy(&head, data, sizeof(head));
		data += sizeof(head);
		/* Padding of no length fills the page. */
		if (head.kind == KIND_PADDING && !head.delta)
			return GRAPH_READ;
		if (head.kind > KIND_LONG && head.kind < KIND_PADDING) {
			length = head.kind * sizeof(__u32);
		} else {
			/* It has one word more, which is part of a long event's length. */
			if (left < sizeof(__u32))
				return GRAPH_BROKEN;
			length = head.kind >= KIND_EXTEND ? sizeof(__u32) : word(data);
			if (length < sizeof(__u32))
				return GRAPH_BROKEN;
		}
		if (length > left)
			return GRAPH_BROKEN;
		switch (head.kind) {
		case KIND_PADDING:
			break;
		case KIND_EXTEND:
			now += ((__u64)word(data) << DELTA_BITS) + head.delta;
			break;
		case KIND_STAMP:
			now = (now & ~STAMP_MASK) |
			      ((((__u64)word(data) << DELTA_BITS) + head.delta) & STAMP_MASK);
			break;
		default:
			now += head.delta;
			event.at = now;
			ret = head.kind == KIND_LONG ? read_event(format, data + sizeof(__u32),
								  length - sizeof(__u32), &event)
						     : read_event(format, data, length, &event);
			if (ret != GRAPH_READ)
				return ret;
			take(to, &event);
		}
		data += length;
	}
	return data == end ? GRAPH_READ : GRAPH_BROKEN;
}
