// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pathlat: where the time of packets goes, from the kernel's own histograms, or by
 * hooks. Loads and attaches the BPF programs, waits, prints JSON.
 *
 * Exit code 0: the document is complete. 2: bad usage, a kernel without what is
 * needed, no permission, or an output that cannot be written.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "names.h"
#include "netns.h"
#include "source.h"

#define VMLINUX_BTF "/sys/kernel/btf/vmlinux"

#ifndef PROBES_VERSION
#error "PROBES_VERSION comes from the Makefile"
#endif

const char *argp_program_version = "pathlat " PROBES_VERSION;

static const char doc[] =
	"Count where the time of received, forwarded and sent packets goes: intervals between the "
	"points of their paths and delays of NAPI polls, in histograms. A kernel with the skblab "
	"patches has its own, which cost least (net.core.path_trace = 1 switches those of packets "
	"on, and 1 in /sys/kernel/debug/net_path/napi those of polls). Hooks on functions, with 16 "
	"buckets per power of two, count on any kernel.\v"
	"Prints \"ready\" on standard error once attached, and one JSON document when the time is "
	"up, on SIGINT or SIGTERM, or when the parent process ends.";

enum {
	OPT_CHECK = 256,
	OPT_BTF,
	OPT_NETNS,
	OPT_SOURCE,
	OPT_KPROBES,
	OPT_ROOM,
	OPT_PATH,
	OPT_POINTS,
	OPT_FAMILY,
	OPT_PROTOCOL,
	OPT_PORT,
	OPT_ADDRESS,
	OPT_LATE,
	OPT_RUN,
	OPT_LATE_MAX,
	OPT_LATE_RATE,
	OPT_STOP,
	OPT_BY,
};

static const struct argp_option options[] = {
	{ "seconds", 's', "SECONDS", 0, "Stop after so long [until a signal]", 0 },
	{ "interval", 'i', "SECONDS", 0,
	  "Also write a document, of all that was counted so far, each time so long has gone by",
	  0 },
	{ "output", 'o', "FILE", 0, "Write the document there instead of standard output", 0 },
	{ "device", 'd', "DEVICE", 0,
	  "Only packets that came in by this device (name or index), and its NAPI polls: the card, "
	  "not the VLAN, bond or macvlan upon it. An index is unique only within a network namespace",
	  0 },
	{ "netns", OPT_NETNS, "NAME", 0,
	  "Only packets that entered the stack in this namespace, and look the device up there",
	  0 },
	{ "path", OPT_PATH, "PATH", 0, "Only receive, forward or send; may be repeated", 0 },
	{ "points", OPT_POINTS, "LIST", 0,
	  "Hooks: look only where a path begins and ends, at xmit, and at these points, such as "
	  "ip,socket; with poll in the list also at NAPI polls. The fewer, the less it costs",
	  0 },
	{ "family", OPT_FAMILY, "4|6", 0, "Only IPv4 or IPv6", 0 },
	{ "protocol", OPT_PROTOCOL, "NAME", 0, "Only udp, tcp, sctp, or a number", 0 },
	{ "port", OPT_PORT, "PORT", 0, "Only from or to this port", 0 },
	{ "address", OPT_ADDRESS, "ADDRESS", 0, "Only from or to this address", 0 },
	{ "late", OPT_LATE, "TIME", 0,
	  "Record packets whole whose total is at least so long, such as 250us or 1.5ms", 0 },
	{ "run", OPT_RUN, "N", 0, "With --late: only if so many in a row on a CPU are late [1]",
	  0 },
	{ "late-max", OPT_LATE_MAX, "N", 0, "With --late: record no more [1000]", 0 },
	{ "late-rate", OPT_LATE_RATE, "N", 0,
	  "With --late: record no more in a second; 0: any number [100]", 0 },
	{ "stop", OPT_STOP, NULL, 0,
	  "With --late: stop tracing (ftrace) when the first is recorded, so that its buffer still "
	  "holds what was before. This program does it when it reads the record, some time after the "
	  "packet's end",
	  0 },
	{ "by", OPT_BY, "WHAT", 0,
	  "Also the same figures for groups of packets, up to 64. cpu: on which the path ended. "
	  "queue: received, the queue that the driver recorded, or none; else the queue that sends. "
	  "context: received, that of the last poll of the NAPI instance that it came by, or backlog "
	  "if by none; else what ran at the end: softirq, ksoftirqd, a NAPI thread or a task. "
	  "protocol: udp4, tcp6 and so on, from the headers at the end",
	  0 },
	{ "source", OPT_SOURCE, "SOURCE", 0,
	  "histograms: the kernel's own, of all packets, without BPF; hooks: on its functions; auto: "
	  "histograms if the kernel has them and they tell what is asked for [auto]",
	  0 },
	{ "kprobes", OPT_KPROBES, NULL, 0, "Hooks by kprobe, even where fentry works", 0 },
	{ "room", OPT_ROOM, "PACKETS", 0, "Hooks: packets under way at once [65536]", 0 },
	{ "verbose", 'v', NULL, 0, "Show what libbpf says", 0 },
	{ "check", OPT_CHECK, NULL, 0,
	  "Only check that the kernel has what the probe reads, and say which source", 0 },
	{ "btf", OPT_BTF, "FILE", 0, "With --check: the kernel is this vmlinux or BTF file", 0 },
	{ 0 },
};

struct arguments {
	double seconds;	 /* 0: no limit */
	double interval; /* 0: one document, at the end */
	const char *output;
	const char *device;
	const char *netns;
	const char *btf;
	const char *address;
	const struct source *source; /* NULL: whichever fits */
	struct config config;	     /* filters, and how to hook */
	unsigned int room;	     /* 0: as many as usual */
	int late_rate;		     /* -1: as usual */
	bool stop;
	bool check;
	bool verbose;
};

static const struct source *const sources[] = {
	&hooks_source,
	&histograms_source,
};

static __u8 parse_protocol(const char *arg)
{
	static const struct {
		const char *name;
		__u8 number;
	} known[] = { { "udp", IPPROTO_UDP }, { "tcp", IPPROTO_TCP }, { "sctp", IPPROTO_SCTP } };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(arg, known[i].name))
			return known[i].number;
	if (*arg < '0' || *arg > '9')
		refuse("--protocol %s: expected udp, tcp, sctp or a number", arg);
	return parse_number("--protocol", arg, 1, 255);
}

static void parse_address(const char *arg, struct config *config)
{
	/* Of an earlier option there may be more than these four. */
	memset(config->address, 0, sizeof(config->address));
	if (inet_pton(AF_INET, arg, config->address) == 1)
		config->address_family = 4;
	else if (inet_pton(AF_INET6, arg, config->address) == 1)
		config->address_family = 6;
	else
		refuse("--address %s: expected an IPv4 or IPv6 address", arg);
}

static int index_of(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* Points by name, a bit for each, and POLLS. */
static __u32 parse_points(const char *arg)
{
	__u32 points = POINTS_KNOWN;
	char *names = strdup(arg), *rest = names, *name;

	if (!names)
		refuse("--points %s: %s", arg, strerror(errno));
	while ((name = strsep(&rest, ","))) {
		int number = index_of(point_names, NET_PATH_NR, name);

		if (!strcmp(name, "poll"))
			points |= POLLS;
		else if (number >= 0)
			points |= 1u << number;
		else
			refuse("--points %s: %s is none; expected points of docs/reference/catalogue.md, "
			       "such as ip,socket, or poll",
			       arg, *name ? name : "nothing");
	}
	free(names);
	return points;
}

/* NULL for whichever fits. */
static const struct source *find_source(const char *arg)
{
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++)
		if (!strcmp(arg, sources[i]->name))
			return sources[i];
	if (strcmp(arg, "auto"))
		refuse("--source %s: expected hooks, histograms or auto", arg);
	return NULL;
}

/* The option that the kernel's own histograms are no source for, or NULL: they are of all packets,
 * and hold no single one.
 */
static const char *only_hooks(const struct arguments *a)
{
	const struct config *c = &a->config;
	const struct {
		const char *name;
		bool given;
	} others[] = {
		{ "device", a->device },   { "netns", a->netns },
		{ "path", c->paths },	   { "points", c->points },
		{ "family", c->family },   { "protocol", c->protocol },
		{ "port", c->port },	   { "address", c->address_family },
		{ "by", c->by },	   { "late", c->late_ns },
		{ "kprobes", c->kprobes }, { "room", a->room },
		{ "btf", a->btf },
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (others[i].given)
			return others[i].name;
	return NULL;
}

static void check_histograms(const struct arguments *a)
{
	const char *option = only_hooks(a);

	if (option)
		refuse("--%s: the kernel's histograms count all packets, and no BPF is used; leave "
		       "it out, or use --source hooks",
		       option);
}

/* Where nothing else was asked for. */
static const struct source *fitting_source(const struct arguments *a)
{
	return only_hooks(a) || access(HISTOGRAMS, F_OK) ? &hooks_source : &histograms_source;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	int number;

	switch (key) {
	case 's':
		a->seconds = parse_seconds("--seconds", arg);
		break;
	case 'i':
		a->interval = parse_seconds("--interval", arg);
		break;
	case 'o':
		a->output = arg;
		break;
	case 'd':
		a->device = arg;
		break;
	case OPT_NETNS:
		a->netns = arg;
		break;
	case OPT_PATH:
		number = index_of(path_names, NET_PATH_KINDS, arg);
		if (number < 0)
			refuse("--path %s: expected receive, forward or send", arg);
		a->config.paths |= 1 << number;
		break;
	case OPT_POINTS:
		a->config.points = parse_points(arg);
		break;
	case OPT_FAMILY:
		if (strcmp(arg, "4") && strcmp(arg, "6"))
			refuse("--family %s: expected 4 or 6", arg);
		a->config.family = *arg - '0';
		break;
	case OPT_PROTOCOL:
		a->config.protocol = parse_protocol(arg);
		break;
	case OPT_PORT:
		a->config.port = htons(parse_number("--port", arg, 1, 65535));
		break;
	case OPT_ADDRESS:
		a->address = arg;
		parse_address(arg, &a->config);
		break;
	case OPT_LATE:
		a->config.late_ns = parse_time("--late", arg);
		break;
	case OPT_RUN:
		a->config.late_run = parse_number("--run", arg, 1, 1 << 20);
		break;
	case OPT_LATE_MAX:
		a->config.late_max = parse_number("--late-max", arg, 1, 1 << 20);
		break;
	case OPT_LATE_RATE:
		a->late_rate = parse_number("--late-rate", arg, 0, 1 << 20);
		break;
	case OPT_STOP:
		a->stop = true;
		break;
	case OPT_BY:
		number = index_of(by_names + 1, GROUP_BYS - 1, arg);
		if (number < 0)
			refuse("--by %s: expected cpu, queue, context or protocol", arg);
		a->config.by = number + 1;
		break;
	case OPT_SOURCE:
		a->source = find_source(arg);
		break;
	case OPT_ROOM:
		a->room = parse_number("--room", arg, 1, 1 << 22);
		break;
	case OPT_KPROBES:
		a->config.kprobes = true;
		break;
	case 'v':
		a->verbose = true;
		break;
	case OPT_CHECK:
		a->check = true;
		break;
	case OPT_BTF:
		a->btf = arg;
		break;
	case ARGP_KEY_END:
		if (!a->config.late_ns &&
		    (a->config.late_run || a->config.late_max || a->late_rate >= 0 || a->stop))
			refuse("--run, --late-max, --late-rate and --stop are only for --late");
		a->config.late_run = a->config.late_run ?: 1;
		a->config.late_max = a->config.late_max ?: 1000;
		a->config.late_rate = a->late_rate >= 0 ? a->late_rate : 100;
		if (a->btf && !a->check)
			refuse("--btf is only for --check");
		if (a->config.family && a->address && a->config.family != a->config.address_family)
			refuse("--address %s: it is an IPv%d address, and --family is %d",
			       a->address, a->config.address_family, a->config.family);
		if (a->source == &histograms_source)
			check_histograms(a);
		break;
	default:
		return parse_rest(key, arg, state);
	}
	return 0;
}

/* The number of the namespace that this process is in, which the kernel never gives again, unlike
 * its inode's; 0 if it does not tell.
 */
static __u64 this_netns(void)
{
	__u64 cookie = 0;
	socklen_t size = sizeof(cookie);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size))
		cookie = 0;
	close(fd);
	return cookie;
}

/* The same for another namespace, or 0 with the reason printed. */
static __u64 find_netns(const char *netns)
{
	int here = enter_netns(netns), error;
	__u64 cookie;

	if (here >= 0) {
		cookie = this_netns();
		error = errno;
		leave_netns(here);
		if (cookie)
			return cookie;
		errno = error;
	}
	fail_netns("--netns", netns);
	return 0;
}

/* In a namespace, which may be that of this process (NULL); -1 if it cannot be entered. */
static int index_in_netns(const char *device, const char *netns)
{
	int here = netns ? enter_netns(netns) : -1, index;

	if (netns && here < 0)
		return -1;
	index = index_of_device(device);
	return here >= 0 && leave_netns(here) ? -1 : index;
}

/* Returns the index of a device, or 0 with the reason printed. */
static int find_device(const struct arguments *a)
{
	int index = index_in_netns(a->device, a->netns);

	if (index > 0)
		return index;
	if (index < 0)
		fail_netns("--netns", a->netns);
	else
		fail("--device %s: no such device %s%s; give a name or an index from `ip link`%s",
		     a->device, a->netns ? "in namespace " : "here", a->netns ?: "",
		     a->netns ? "" : ", or its namespace as --netns");
	return 0;
}

/* Whether packets are stamped as @source needs it: 0, 1, or -1 if it needs nothing, or
 * outside the first network namespace.
 */
static int read_stamps(const struct source *source)
{
	char text = 0;
	int fd = source->stamps ? open(STAMPS_SYSCTL, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return -1;
	if (read(fd, &text, 1) != 1)
		text = 0;
	close(fd);
	return text >= '0' && text <= '1' ? text - '0' == source->stamps : -1;
}

/* Returns the kernel's types, or NULL with the reason printed. */
static struct btf *read_btf(const char *path, const char *kernel)
{
	struct btf *btf = path ? btf__parse(path, NULL) : btf__load_vmlinux_btf();

	if (!btf && path)
		fail("--btf %s: cannot read BTF from it: %s", path, strerror(errno));
	else if (!btf)
		fail("%s shows no types in " VMLINUX_BTF "; mount /sys, or build the "
		     "kernel with CONFIG_DEBUG_INFO_BTF=y",
		     kernel);
	return btf;
}

/* What is to be measured with, all found and checked. */
struct plan {
	const struct arguments *arguments;
	const struct source *source;
	const struct btf *btf;
	__u64 netns;		/* 0: all */
	struct late_list *late; /* NULL: none is looked for */
	int tracing;		/* to be stopped at the first late packet; -1: not */
	int signals;
	pid_t parent;
};

/* How many groups have histograms on each CPU, with the one of those without a group. */
static __u32 groups_on_cpu(enum group_by by, int cpus)
{
	static const __u32 most[GROUP_BYS] = {
		[BY_QUEUE] = MAX_GROUPS,
		[BY_CONTEXT] = CONTEXT_GROUPS,
		[BY_PROTOCOL] = PROTOCOL_GROUPS,
	};
	/* The verifier lets programs reach no further. */
	__u32 limit = (1 << 29) / (cpus * NET_PATH_KINDS * sizeof(struct path_hists));
	__u32 groups = most[by] + 1;

	return groups <= limit ? groups : limit ?: 1;
}

/* Empty histograms for all groups; NULL if there is no memory. */
static struct path_hists *new_groups(int count)
{
	struct path_hists *groups = calloc(count * NET_PATH_KINDS, sizeof(*groups));

	for (int i = 0; groups && i < count * NET_PATH_KINDS; i++)
		path_init(&groups[i]);
	return groups;
}

/* All that was counted until now, in one document. */
static int write_counts(const struct plan *plan, void *state, const struct report *base,
			double begun)
{
	struct report *report = malloc(sizeof(*report));
	int ret;

	if (!report)
		return fail("out of memory");
	*report = *base;
	if (report->group_count) {
		report->groups = new_groups(report->group_count);
		if (!report->groups) {
			free(report);
			return fail("out of memory");
		}
	}
	report->seconds = now_seconds() - begun;
	report->stamps_on_end = read_stamps(plan->source);
	ret = plan->source->read(state, report)
		      ?: write_document(report_json(report), plan->arguments->output);
	free(report->groups);
	free(report);
	return ret;
}

/* Returns 0 once it is over, or EXIT_BAD. */
static int serve(const struct plan *plan, struct waits *waits, void *state,
		 const struct report *base, double begun)
{
	for (;;) {
		int ret = 0;

		switch (wait_for_next(waits)) {
		case FAILED:
			return EXIT_BAD;
		case OVER:
			return 0;
		case DOCUMENT:
			ret = write_counts(plan, state, base, begun);
			break;
		case EVENT:
			ret = late_list_take(plan->late);
			break;
		}
		if (ret)
			return ret;
	}
}

static int wait_and_write(const struct plan *plan, void *state, const struct report *base)
{
	const struct arguments *a = plan->arguments;
	struct waits waits = {
		.signals = plan->signals,
		.input = -1,
		.event = late_list_fd(plan->late),
	};
	double begun = now_seconds(), over;
	int ret;

	ret = waits_open(&waits, a->seconds, a->interval, plan->parent)
		      ?: serve(plan, &waits, state, base, begun);
	over = now_seconds() - begun;
	waits_close(&waits);
	if (ret)
		return ret;
	plan->source->stop(state);
	ret = plan->late ? late_list_take(plan->late) : 0;
	/* What stopping takes is not measured. */
	return ret ?: write_counts(plan, state, base, now_seconds() - over);
}

static int measure(struct plan *plan, struct report *report)
{
	const struct arguments *a = plan->arguments;
	struct settings settings = { .config = a->config, .flights = a->room ?: DEFAULT_FLIGHTS };
	int cpus = libbpf_num_possible_cpus(), ret;
	void *state;

	if (cpus < 0)
		return fail("cannot count the CPUs: %s", strerror(-cpus));
	settings.config.cpus = cpus;
	settings.config.groups = groups_on_cpu(settings.config.by, cpus);
	if (settings.config.by)
		report->group_count =
			settings.config.by == BY_CPU ? cpus : (int)settings.config.groups;
	settings.config.ifindex = report->ifindex;
	settings.config.netns = plan->netns;
	state = plan->source->start(&settings, plan->btf, report);
	if (!state)
		return EXIT_BAD;
	report->stamps_on_start = read_stamps(plan->source);
	if (report->stamps_on_start == 0)
		fprintf(stderr,
			"pathlat: no packet is counted yet: net.core.path_trace is not %d\n",
			plan->source->stamps);
	report->config = &settings.config;
	if (settings.config.late_ns)
		plan->late = late_list_open(plan->source->late_packets(state), plan->tracing);
	report->late_list = plan->late;
	ret = settings.config.late_ns && !plan->late ? EXIT_BAD : 0;
	if (!ret) {
		fputs("ready\n", stderr);
		ret = wait_and_write(plan, state, report);
	}
	late_list_close(plan->late);
	plan->source->destroy(state);
	return ret;
}

/* With the kernel known: measure and write. */
static int run_on(const struct arguments *a, struct plan *plan, struct report *report)
{
	int ret = a->output ? check_output(a->output) : 0;

	if (ret)
		return ret;
	if (a->device) {
		report->ifindex = find_device(a);
		if (!report->ifindex)
			return EXIT_BAD;
	}
	if (a->netns) {
		plan->netns = find_netns(a->netns);
		if (!plan->netns)
			return EXIT_BAD;
	}
	/* As with the output: fail now. */
	plan->tracing = a->stop ? tracing_open() : -1;
	if (a->stop && plan->tracing < 0)
		return EXIT_BAD;
	plan->signals = open_signals();
	if (plan->signals < 0)
		ret = fail("cannot handle signals: %s", strerror(errno));
	else
		ret = measure(plan, report);
	if (plan->signals >= 0)
		close(plan->signals);
	if (plan->tracing >= 0)
		close(plan->tracing);
	return ret;
}

static int run(const struct arguments *a, const char *kernel, pid_t parent)
{
	struct report *report = malloc(sizeof(*report));
	struct plan plan = {
		.arguments = a,
		.source = a->source ?: fitting_source(a),
		.parent = parent,
	};
	struct kernel_names names = {};
	struct btf *btf = NULL;
	int ret = 0;

	if (!report)
		return fail("out of memory");
	report_init(report);
	if (!plan.source->no_bpf) {
		btf = read_btf(a->btf, kernel);
		if (!btf)
			ret = EXIT_BAD;
		else if (kernel_names_read(&names, btf))
			ret = fail("out of memory");
	}
	if (!ret) {
		plan.btf = btf;
		report->source = plan.source->name;
		report->kernel = kernel;
		report->names = &names;
		ret = a->check ? plan.source->check(btf, !a->btf, report)
			       : run_on(a, &plan, report);
	}
	kernel_names_free(&names);
	btf__free(btf);
	free(report);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc };
	pid_t parent = getppid();
	struct arguments a = { .late_rate = -1 };
	struct utsname uts;

	process_name("pathlat", argv);
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	process_verbose(a.verbose);
	uname(&uts);
	return run(&a, uts.release, parent);
}
