// SPDX-License-Identifier: GPL-2.0-or-later
/* What a kernel's BTF says of its samples of NAPI polls, and names out of it. */
#include <bpf/btf.h>
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

const char *const point_names[NET_PATH_NR] = {
	[NET_PATH_DRIVER] = "driver",	    [NET_PATH_SEND] = "send",
	[NET_PATH_STACK] = "stack",	    [NET_PATH_IP] = "ip",
	[NET_PATH_ROUTE] = "route",	    [NET_PATH_LOCAL] = "local",
	[NET_PATH_TRANSPORT] = "transport", [NET_PATH_SOCKET] = "socket",
	[NET_PATH_WAKE] = "wake",	    [NET_PATH_USER] = "user",
	[NET_PATH_FORWARD] = "forward",	    [NET_PATH_OUTPUT] = "output",
	[NET_PATH_QUEUE] = "queue",	    [NET_PATH_DEQUEUE] = "dequeue",
	[NET_PATH_XMIT] = "xmit",	    [NET_PATH_DONE] = "done",
};

const char *const path_names[NET_PATH_KINDS] = {
	[NET_PATH_RECEIVE] = "receive",
	[NET_PATH_FORWARDING] = "forward",
	[NET_PATH_SENDING] = "send",
};

const char *const end_names[NET_PATH_ENDS] = {
	[NET_PATH_DELIVERED] = "delivered",
	[NET_PATH_DROPPED] = "dropped",
	[NET_PATH_TRANSMITTED] = "transmitted",
	[NET_PATH_CONSUMED] = "consumed",
};

const char *const by_names[GROUP_BYS] = {
	[BY_CPU] = "cpu",
	[BY_QUEUE] = "queue",
	[BY_CONTEXT] = "context",
	[BY_PROTOCOL] = "protocol",
};

static int names_set(struct names *names, size_t value, const char *text, int lower)
{
	char *copy;

	if (value >= names->room) {
		size_t room = value + 16;
		char **grown = realloc(names->name, room * sizeof(*grown));

		if (!grown)
			return -1;
		memset(grown + names->room, 0, (room - names->room) * sizeof(*grown));
		names->name = grown;
		names->room = room;
	}
	/* Of two names for one value the first is the value's own. */
	if (names->name[value])
		return 0;
	copy = strdup(text);
	if (!copy)
		return -1;
	for (char *c = copy; lower && *c; c++)
		*c = tolower((unsigned char)*c);
	names->name[value] = copy;
	return 0;
}

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->room; i++)
		free(names->name[i]);
	free(names->name);
	memset(names, 0, sizeof(*names));
}

const char *names_get(const struct names *names, size_t value, char *fallback, size_t size)
{
	if (value < names->room && names->name[value])
		return names->name[value];
	snprintf(fallback, size, "number_%zu", value);
	return fallback;
}

const char *group_name(const struct kernel_names *names, enum group_by by, int group,
		       char *fallback, size_t size)
{
	static const char *const protocols[PROTOCOL_GROUPS] = {
		"udp4", "tcp4", "sctp4", "other4", "udp6", "tcp6", "sctp6", "other6", "no_ip",
	};
	static const char *const contexts[] = {
		[GROUP_BACKLOG - MAX_CONTEXTS] = "backlog",
		[GROUP_TASK - MAX_CONTEXTS] = "task",
		[GROUP_UNKNOWN - MAX_CONTEXTS] = "unknown",
	};

	switch (by) {
	case BY_PROTOCOL:
		return protocols[group];
	case BY_CONTEXT:
		return group < MAX_CONTEXTS ? names_get(&names->contexts, group, fallback, size)
					    : contexts[group - MAX_CONTEXTS];
	case BY_QUEUE:
		if (!group)
			return "none";
		snprintf(fallback, size, "%d", group - 1);
		return fallback;
	default:
		snprintf(fallback, size, "%d", group);
		return fallback;
	}
}

static const struct btf_type *find(const struct btf *btf, const char *name, __u32 kind)
{
	int id = btf__find_by_name_kind(btf, name, kind);
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, id);

	/* libbpf takes a header of an odd length, after which every type is misaligned. */
	return (uintptr_t)type % _Alignof(struct btf_type) ? NULL : type;
}

/* Take the enumerators below @limit that begin with @prefix, without it. */
static int read_enum(struct names *names, const struct btf *btf, const struct btf_type *type,
		     const char *prefix, size_t limit, int lower)
{
	const struct btf_enum *e = btf_enum(type);

	for (int i = 0; i < btf_vlen(type); i++) {
		const char *text = btf__name_by_offset(btf, e[i].name_off);

		if (strncmp(text, prefix, strlen(prefix)) || (__u32)e[i].val >= limit)
			continue;
		if (names_set(names, e[i].val, text + strlen(prefix), lower))
			return -1;
	}
	return 0;
}

static int has_member(const struct btf *btf, const struct btf_type *type, const char *name)
{
	const struct btf_member *m = btf_members(type);

	for (int i = 0; i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, m[i].name_off), name))
			return 1;
	return 0;
}

bool kernel_samples_polls(const struct btf *btf)
{
	static const char *const members[] = { "delay_ns", "time_ns", "work", "context", "flags" };
	const struct btf_type *type = find(btf, "napi_poll_sample", BTF_KIND_STRUCT);

	if (!type || !find(btf, "btf_trace_napi_poll_sample", BTF_KIND_TYPEDEF) ||
	    !find(btf, "napi_poll_context", BTF_KIND_ENUM))
		return false;
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (!has_member(btf, type, members[i]))
			return false;
	return true;
}

/* What hooks find out by themselves has names of our own. */
static int own_contexts(struct names *names)
{
	return names_set(names, NAPI_POLL_SOFTIRQ, "softirq", 0) ?:
	       names_set(names, NAPI_POLL_KSOFTIRQD, "ksoftirqd", 0) ?:
	       names_set(names, NAPI_POLL_KTHREAD, "kthread", 0);
}

int kernel_names_read(struct kernel_names *names, const struct btf *btf)
{
	const struct btf_type *reasons = find(btf, "skb_drop_reason", BTF_KIND_ENUM);
	int err;

	memset(names, 0, sizeof(*names));
	if (kernel_samples_polls(btf))
		err = read_enum(&names->contexts, btf,
				find(btf, "napi_poll_context", BTF_KIND_ENUM), "NAPI_POLL_",
				MAX_CONTEXTS, 1);
	else
		err = own_contexts(&names->contexts);
	/* Only core drop reasons; "not dropped" and "consumed" lack the prefix of the
	 * others. A kernel may have none.
	 */
	if (!err && reasons)
		err = read_enum(&names->reasons, btf, reasons, "SKB_DROP_REASON_", 1 << 16, 0)
			      ?: read_enum(&names->reasons, btf, reasons, "SKB_", 1 << 16, 0);
	if (err)
		kernel_names_free(names);
	return err;
}

void kernel_names_free(struct kernel_names *names)
{
	names_free(&names->contexts);
	names_free(&names->reasons);
}
