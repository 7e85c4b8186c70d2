// SPDX-License-Identifier: GPL-2.0-or-later
/* A late packet as the document has it: above all, what its CPU did. */
#include <json-c/json.h>
#include <string.h>

#include "check.h"
#include "late_list.h"

static const struct kernel_names names = {};

/* It entered at 7000 and ended at 10000. */
static struct late_packet late(void)
{
	return (struct late_packet){
		.end_ns = 10000,
		.total_ns = 3000,
		.seen = 1 << NET_PATH_DRIVER | 1 << NET_PATH_WAKE,
		.path = NET_PATH_RECEIVE,
		.run = 1,
		.context = GROUP_TASK,
		.comm = "reader",
		.socket_bytes = 768,
		.qdisc_packets = -1,
		.sequence = 4294967295,
	};
}

/* As the programs do it. */
static void add(struct late_packet *packet, __u64 at, enum deed_kind kind, const char *comm)
{
	struct deed *deed = &packet->deeds[packet->next_deed++ % LATE_DEEDS];

	packet->overwritten = deed->at;
	*deed = (struct deed){ .at = at, .kind = kind, .id = 3 };
	strncpy(deed->comm, comm, sizeof(deed->comm));
}

/* What is expected of cpu_did, one word for each: how long before the end, kind, task. */
static void check_did(struct late_packet packet, const char *expected, bool lost)
{
	struct json_object *o, *did;
	char text[512] = "";

	packet.next_deed %= LATE_DEEDS;
	o = late_packet_json(&packet, &names);
	did = json_object_object_get(o, "cpu_did");
	for (size_t i = 0; i < json_object_array_length(did); i++) {
		struct json_object *row = json_object_array_get_idx(did, i);
		size_t end = strlen(text);

		snprintf(text + end, sizeof(text) - end, "%s%s-%s-%s", i ? " " : "",
			 json_object_get_string(json_object_object_get(row, "before_end_ns")),
			 json_object_get_string(json_object_object_get(row, "kind")),
			 json_object_get_string(json_object_object_get(row, "comm")));
	}
	check(!strcmp(text, expected), "%s, not %s", text, expected);
	check(json_object_get_boolean(json_object_object_get(o, "deeds_lost")) == lost, "lost");
	json_object_put(o);
}

static void check_deeds(void)
{
	struct late_packet packet = late();

	check_did(packet, "", false);
	add(&packet, 1000, DEED_TASK, "hog");
	check_did(packet, "9000-task-hog", false);
	add(&packet, 2000, DEED_SOFTIRQ, "hog");
	add(&packet, 3000, DEED_IRQ, "hog");
	add(&packet, 4000, DEED_IRQ_END, "hog");
	/* The softirq goes on. */
	check_did(packet, "8000-softirq-hog 6000-irq_end-hog", false);
	add(&packet, 8000, DEED_SOFTIRQ_END, "hog");
	check_did(packet, "8000-softirq-hog 6000-irq_end-hog 2000-softirq_end-hog", false);
	/* Since the end, and not of this packet. */
	add(&packet, 10001, DEED_TASK, "reader");
	check_did(packet, "8000-softirq-hog 6000-irq_end-hog 2000-softirq_end-hog", false);
}

static void check_lost(void)
{
	struct late_packet packet = late();

	add(&packet, 6998, DEED_TASK, "hog");
	add(&packet, 7000, DEED_IRQ, "hog");
	for (int i = 2; i <= LATE_DEEDS; i++)
		add(&packet, 7000, i < LATE_DEEDS ? DEED_NONE : DEED_TASK, "b");
	/* The first is overwritten, and was before the packet. */
	check_did(packet, "3000-irq-hog 3000-task-b", false);
	add(&packet, 9000, DEED_TASK, "c");
	check_did(packet, "3000-task-b 1000-task-c", true);
}

static void check_queues(void)
{
	struct late_packet packet = late();
	struct json_object *o = late_packet_json(&packet, &names);

	check(!strcmp(json_object_get_string(json_object_object_get(o, "context")), "task"),
	      "context");
	check(json_object_get_int(json_object_object_get(o, "socket_bytes")) == 768, "bytes");
	check(json_object_object_get_ex(o, "qdisc_packets", NULL) &&
		      !json_object_object_get(o, "qdisc_packets"),
	      "null, for it is not known");
	check(json_object_get_int64(json_object_object_get(o, "sequence")) == 4294967295,
	      "sequence");
	json_object_put(o);
}

int main(void)
{
	check_deeds();
	check_lost();
	check_queues();
	puts("ok late_list");
	return 0;
}
