// SPDX-License-Identifier: GPL-2.0-or-later
/* Late packets as they come from the kernel, and the part of the document about them. */
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "late_list.h"
#include "source.h"

#define TRACING_ON TRACING "/tracing_on"

struct late_list {
	struct ring_buffer *ring;
	struct late_packet *packets;
	size_t count;
	size_t room;
	int tracing;  /* to be stopped at the first; -1: not, or no more */
	bool stopped; /* done */
	bool out_of_memory;
};

int tracing_open(void)
{
	int fd = open(TRACING_ON, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		fail("--stop: cannot write to " TRACING_ON ": %s; %s", strerror(errno),
		     errno == ENOENT ? "mount tracefs there: mount -t tracefs none " TRACING
				     : "run as root, or leave it out");
	return fd;
}

/* What was measured is worth more than the trace: without it goes on. The time of the packet's end
 * is told as ftrace prints times if its clock is mono.
 */
static bool stop_tracing(int tracing, __u64 end_ns)
{
	bool stopped = write(tracing, "0", 1) == 1;

	if (!stopped)
		fail("--stop: cannot write to " TRACING_ON ": %s; tracing goes on",
		     strerror(errno));
	else
		fprintf(stderr,
			"pathlat: tracing stopped after the late packet that ended at "
			"%llu.%06llu; Ctrl-C ends the measurement now\n",
			end_ns / 1000000000, end_ns % 1000000000 / 1000);
	return stopped;
}

static int on_packet(void *opaque, void *data, size_t size)
{
	struct late_list *list = opaque;
	const struct late_packet *packet = data;

	if (size < sizeof(*packet))
		return 0;
	if (list->tracing >= 0) {
		list->stopped = stop_tracing(list->tracing, packet->end_ns);
		list->tracing = -1;
	}
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		void *grown = realloc(list->packets, room * sizeof(*list->packets));

		if (!grown) {
			list->out_of_memory = true;
			return 0;
		}
		list->packets = grown;
		list->room = room;
	}
	list->packets[list->count++] = *packet;
	return 0;
}

struct late_list *late_list_open(const struct bpf_map *packets, int tracing)
{
	struct late_list *list = calloc(1, sizeof(*list));

	if (!list) {
		fail("out of memory");
		return NULL;
	}
	list->tracing = tracing;
	list->ring = ring_buffer__new(bpf_map__fd(packets), on_packet, list, NULL);
	if (list->ring)
		return list;
	fail("cannot read late packets: %s", strerror(errno));
	free(list);
	return NULL;
}

void late_list_close(struct late_list *list)
{
	if (!list)
		return;
	ring_buffer__free(list->ring);
	free(list->packets);
	free(list);
}

int late_list_fd(const struct late_list *list)
{
	return list ? ring_buffer__epoll_fd(list->ring) : -1;
}

int late_list_take(struct late_list *list)
{
	int ret = ring_buffer__consume(list->ring);

	if (ret < 0)
		return fail("cannot read late packets: %s", strerror(-ret));
	return list->out_of_memory ? fail("out of memory") : 0;
}

/* A task's name may be of any bytes. */
static void add_comm(struct json_object *to, const char *comm)
{
	char text[COMM_SIZE + 1] = {};

	memcpy(text, comm, COMM_SIZE);
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	add_text(to, "comm", text);
}

static void add_end(struct json_object *to, const char *key, const struct tuple *tuple,
		    const __u8 *address, __be16 port)
{
	struct json_object *o = json_object_new_object();
	char text[INET6_ADDRSTRLEN];

	inet_ntop(tuple->family == 4 ? AF_INET : AF_INET6, address, text, sizeof(text));
	add_text(o, "address", text);
	if (tuple->ports)
		add_u64(o, "port", ntohs(port));
	json_object_object_add(to, key, o);
}

static const char *const softirqs[] = {
	"hi",	    "timer",   "net_tx", "net_rx",  "block",
	"irq_poll", "tasklet", "sched",	 "hrtimer", "rcu",
};

static struct json_object *deed_json(const struct deed *deed, __u64 end)
{
	static const char *const kinds[] = {
		[DEED_TASK] = "task",
		[DEED_SOFTIRQ] = "softirq",
		[DEED_SOFTIRQ_END] = "softirq_end",
		[DEED_IRQ] = "irq",
		[DEED_IRQ_END] = "irq_end",
	};
	struct json_object *o = json_object_new_object();

	add_u64(o, "before_end_ns", end - deed->at);
	add_text(o, "kind", kinds[deed->kind]);
	add_comm(o, deed->comm);
	if ((deed->kind == DEED_SOFTIRQ || deed->kind == DEED_SOFTIRQ_END) &&
	    deed->id < sizeof(softirqs) / sizeof(*softirqs))
		add_text(o, "name", softirqs[deed->id]);
	add_u64(o, "id", deed->id);
	return o;
}

static __u64 entered(const struct late_packet *packet)
{
	return packet->end_ns - packet->total_ns;
}

/* What the CPU was at, with the softirq that was interrupted for it. */
static void add_before(struct json_object *rows, const struct deed *softirq,
		       const struct deed *last, __u64 end)
{
	if (softirq && softirq != last)
		json_object_array_add(rows, deed_json(softirq, end));
	if (last)
		json_object_array_add(rows, deed_json(last, end));
}

/* The softirq that is open once the CPU has turned to @deed, if @softirq was before. */
static const struct deed *open_softirq(const struct deed *softirq, const struct deed *deed)
{
	if (deed->kind == DEED_SOFTIRQ)
		return deed;
	return deed->kind == DEED_IRQ || deed->kind == DEED_IRQ_END ? softirq : NULL;
}

/* What the CPU did since the packet entered, and what it was at then. */
static struct json_object *deeds_json(const struct late_packet *packet)
{
	struct json_object *rows = json_object_new_array();
	__u64 since = entered(packet);
	const struct deed *before = NULL, *softirq = NULL;
	bool since_then = false;

	for (int i = 0; i < LATE_DEEDS; i++) {
		const struct deed *deed = &packet->deeds[(packet->next_deed + i) % LATE_DEEDS];

		if (deed->kind == DEED_NONE || deed->kind > DEED_IRQ_END ||
		    deed->at > packet->end_ns)
			continue;
		if (deed->at < since) {
			softirq = open_softirq(softirq, deed);
			before = deed;
			continue;
		}
		if (!since_then)
			add_before(rows, softirq, before, packet->end_ns);
		since_then = true;
		json_object_array_add(rows, deed_json(deed, packet->end_ns));
	}
	if (!since_then)
		add_before(rows, softirq, before, packet->end_ns);
	return rows;
}

static struct json_object *times_json(const struct late_packet *packet)
{
	struct json_object *o = json_object_new_object();

	for (int point = 0; point < NET_PATH_NR; point++)
		if (packet->seen >> point & 1 && point != NET_PATH_DRIVER && point != NET_PATH_SEND)
			add_u64(o, point_names[point], packet->ns[point]);
	return o;
}

/* Null if it is not known. */
static void add_known(struct json_object *to, const char *key, __s64 value)
{
	json_object_object_add(to, key, value < 0 ? NULL : json_object_new_int64(value));
}

struct json_object *late_packet_json(const struct late_packet *packet,
				     const struct kernel_names *names)
{
	struct json_object *o = json_object_new_object();
	char room[32];

	add_u64(o, "end_ns", packet->end_ns);
	add_u64(o, "since_entry_ns", packet->total_ns);
	add_u64(o, "before_ns", packet->before_ns);
	json_object_object_add(o, "times", times_json(packet));
	add_text(o, "path", packet->path < NET_PATH_KINDS ? path_names[packet->path] : "unknown");
	add_text(o, "end", packet->end < NET_PATH_ENDS ? end_names[packet->end] : "unknown");
	if (packet->end == NET_PATH_DROPPED)
		add_text(o, "reason",
			 names_get(&names->reasons, packet->reason, room, sizeof(room)));
	add_u64(o, "run", packet->run);
	add_u64(o, "cpu", packet->cpu);
	add_comm(o, packet->comm);
	add_u64(o, "pid", packet->pid);
	add_u64(o, "ifindex", packet->ifindex);
	add_u64(o, "bytes", packet->len);
	add_text(o, "context", group_name(names, BY_CONTEXT, packet->context, room, sizeof(room)));
	add_u64(o, "backlog", packet->backlog);
	add_known(o, "socket_bytes", packet->socket_bytes);
	add_known(o, "socket_packets", packet->socket_packets);
	add_known(o, "qdisc_packets", packet->qdisc_packets);
	add_known(o, "sequence", packet->sequence);
	if (packet->tuple.family) {
		add_u64(o, "protocol", packet->tuple.protocol);
		add_end(o, "source", &packet->tuple, packet->tuple.source,
			packet->tuple.source_port);
		add_end(o, "target", &packet->tuple, packet->tuple.target,
			packet->tuple.target_port);
	}
	json_object_object_add(o, "cpu_did", deeds_json(packet));
	json_object_object_add(o, "deeds_lost",
			       json_object_new_boolean(packet->overwritten >= entered(packet)));
	return o;
}

struct json_object *late_list_json(const struct late_list *list, const struct late_counts *counts,
				   const struct config *config, const struct kernel_names *names)
{
	struct json_object *o = json_object_new_object();
	struct json_object *rows = json_object_new_array();

	add_u64(o, "threshold_ns", config->late_ns);
	add_u64(o, "in_a_row", config->late_run);
	add_u64(o, "packets_late", counts->late);
	add_u64(o, "runs", counts->runs);
	add_u64(o, "recorded", counts->recorded);
	add_u64(o, "limited", counts->limited);
	add_u64(o, "lost", counts->lost);
	json_object_object_add(o, "tracing_stopped", json_object_new_boolean(list->stopped));
	for (size_t i = 0; i < list->count; i++)
		json_object_array_add(rows, late_packet_json(&list->packets[i], names));
	json_object_object_add(o, "packets", rows);
	return o;
}
