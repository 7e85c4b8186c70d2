// SPDX-License-Identifier: GPL-2.0-or-later
/* Comparing a kernel's BTF with what the probe reads, and taking names out of it. */
#include <bpf/btf.h>
#include <ctype.h>
#include <errno.h>
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

/* The value of an enumerator, or -1. */
static int enum_value(const struct btf *btf, const struct btf_type *type, const char *name)
{
	const struct btf_enum *e = btf_enum(type);

	for (int i = 0; i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, e[i].name_off), name))
			return e[i].val;
	return -1;
}

static const struct btf_type *find(const struct btf *btf, const char *name, __u32 kind)
{
	int id = btf__find_by_name_kind(btf, name, kind);

	return id < 0 ? NULL : btf__type_by_id(btf, id);
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

struct wanted {
	const char *tracepoint;
	const char *system;
	const char *type;
	const char *members[9];
};

static const struct wanted wanted[] = {
	{ "net_path_sample",
	  "net_path",
	  "net_path_sample",
	  { "total_ns", "before_ns", "ns", "seen", "merged", "path", "end", "flags" } },
	{ "napi_poll_sample",
	  "napi",
	  "napi_poll_sample",
	  { "delay_ns", "time_ns", "work", "context", "flags" } },
};

struct wanted_value {
	const char *type;
	const char *name;
	int value;
};

#define VALUE(type, name) { #type, #name, name }

static const struct wanted_value wanted_values[] = {
	VALUE(net_path_point, NET_PATH_DRIVER),	   VALUE(net_path_point, NET_PATH_SEND),
	VALUE(net_path_point, NET_PATH_STACK),	   VALUE(net_path_point, NET_PATH_IP),
	VALUE(net_path_point, NET_PATH_ROUTE),	   VALUE(net_path_point, NET_PATH_LOCAL),
	VALUE(net_path_point, NET_PATH_TRANSPORT), VALUE(net_path_point, NET_PATH_SOCKET),
	VALUE(net_path_point, NET_PATH_WAKE),	   VALUE(net_path_point, NET_PATH_USER),
	VALUE(net_path_point, NET_PATH_FORWARD),   VALUE(net_path_point, NET_PATH_OUTPUT),
	VALUE(net_path_point, NET_PATH_QUEUE),	   VALUE(net_path_point, NET_PATH_DEQUEUE),
	VALUE(net_path_point, NET_PATH_XMIT),	   VALUE(net_path_point, NET_PATH_DONE),
	VALUE(net_path_point, NET_PATH_NR),	   VALUE(net_path_kind, NET_PATH_RECEIVE),
	VALUE(net_path_kind, NET_PATH_FORWARDING), VALUE(net_path_kind, NET_PATH_SENDING),
	VALUE(net_path_kind, NET_PATH_KINDS),	   VALUE(net_path_end, NET_PATH_DELIVERED),
	VALUE(net_path_end, NET_PATH_DROPPED),	   VALUE(net_path_end, NET_PATH_TRANSMITTED),
	VALUE(net_path_end, NET_PATH_CONSUMED),	   VALUE(net_path_end, NET_PATH_ENDS),
};

static int check_value(const struct btf *btf, const struct wanted_value *w, const char *kernel,
		       char *why, size_t size)
{
	const struct btf_type *type = find(btf, w->type, BTF_KIND_ENUM);

	if (type && enum_value(btf, type, w->name) == w->value)
		return 0;
	snprintf(why, size,
		 "%s: %s is not %d in its enum %s; build the probe and the kernel from the same "
		 "skblab",
		 kernel, w->name, w->value, w->type);
	return -1;
}

static int check_tracepoint(const struct btf *btf, const struct wanted *w, const char *kernel,
			    char *why, size_t size)
{
	const struct btf_type *type;
	char name[64];

	snprintf(name, sizeof(name), "btf_trace_%s", w->tracepoint);
	if (!find(btf, name, BTF_KIND_TYPEDEF)) {
		snprintf(why, size,
			 "%s has no tracepoint %s:%s; boot a kernel with the skblab patches "
			 "and CONFIG_NET_PATH_TRACE=y",
			 kernel, w->system, w->tracepoint);
		return -1;
	}
	type = find(btf, w->type, BTF_KIND_STRUCT);
	for (const char *const *m = w->members; *m; m++) {
		if (type && has_member(btf, type, *m))
			continue;
		snprintf(why, size,
			 "%s: struct %s has no member %s; build the probe and the kernel from "
			 "the same skblab",
			 kernel, w->type, *m);
		return -1;
	}
	return 0;
}

bool kernel_makes_samples(const struct btf *btf)
{
	return find(btf, "btf_trace_net_path_sample", BTF_KIND_TYPEDEF);
}

static int check_samples(const struct btf *btf, const char *kernel, char *why, size_t why_size)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		if (check_tracepoint(btf, &wanted[i], kernel, why, why_size))
			return -1;
	for (size_t i = 0; i < sizeof(wanted_values) / sizeof(*wanted_values); i++)
		if (check_value(btf, &wanted_values[i], kernel, why, why_size))
			return -1;
	if (find(btf, "napi_poll_context", BTF_KIND_ENUM) &&
	    find(btf, "skb_drop_reason", BTF_KIND_ENUM))
		return 0;
	snprintf(why, why_size, "%s: its BTF lacks enum napi_poll_context or enum skb_drop_reason",
		 kernel);
	return -1;
}

/* What hooks find out by themselves has names of our own. */
static int own_contexts(struct names *names)
{
	return names_set(names, NAPI_POLL_SOFTIRQ, "softirq", 0) ?:
	       names_set(names, NAPI_POLL_KSOFTIRQD, "ksoftirqd", 0) ?:
	       names_set(names, NAPI_POLL_KTHREAD, "kthread", 0);
}

int kernel_names_read(struct kernel_names *names, const struct btf *btf, bool samples,
		      const char *kernel, char *why, size_t why_size)
{
	const struct btf_type *contexts, *reasons;
	int err;

	memset(names, 0, sizeof(*names));
	if (samples && check_samples(btf, kernel, why, why_size))
		return -1;
	contexts = find(btf, "napi_poll_context", BTF_KIND_ENUM);
	reasons = find(btf, "skb_drop_reason", BTF_KIND_ENUM);
	if (samples)
		err = read_enum(&names->contexts, btf, contexts, "NAPI_POLL_", MAX_CONTEXTS, 1);
	else
		err = own_contexts(&names->contexts);
	/* Only core drop reasons; "not dropped" and "consumed" lack the prefix of the
	 * others. A kernel may have none.
	 */
	if (!err && reasons)
		err = read_enum(&names->reasons, btf, reasons, "SKB_DROP_REASON_", 1 << 16, 0)
			      ?: read_enum(&names->reasons, btf, reasons, "SKB_", 1 << 16, 0);
	if (err) {
		snprintf(why, why_size, "out of memory");
		kernel_names_free(names);
		return -1;
	}
	return 0;
}

void kernel_names_free(struct kernel_names *names)
{
	names_free(&names->contexts);
	names_free(&names->reasons);
}
