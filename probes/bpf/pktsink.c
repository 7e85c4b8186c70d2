// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pktsink: where a generator's packets end in a latency trial. Loads and attaches the
 * BPF program, waits, prints JSON.
 *
 * Exit code 0: the document is complete. 2: bad usage, a kernel without what is
 * needed, no permission, or an output that cannot be written.
 */
#include <argp.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "arrivals.h"
#include "netns.h"
#include "process.h"
#include "tallies.h"

#include "pktsink.skel.h"

#ifndef PROBES_VERSION
#error "PROBES_VERSION comes from the Makefile"
#endif

const char *argp_program_version = "pktsink " PROBES_VERSION;

static const char doc[] =
	"Receive pktgen's packets at a device, before the network stack, and tell by the header that "
	"pktgen writes how long each was under way, in which order they came and how many did not. "
	"Begin before the generator, and anew for each of its streams.\v"
	"Prints \"ready\" on standard error once attached, and one JSON document when the time is "
	"up, on SIGINT or SIGTERM, when the parent process ends, or with standard input if that is a "
	"pipe. Sender and receiver must have one clock: be one machine.";

enum {
	OPT_NETNS = 256,
	OPT_LATE,
	OPT_RUN,
	OPT_FROM,
	OPT_UNTIL,
	OPT_FIRST,
	OPT_LAST,
	OPT_PASS,
	OPT_DROP_FOREIGN,
	OPT_STAMP,
	OPT_LEVEL,
	OPT_RESTART,
	OPT_STAMP_NETNS,
};

static const struct argp_option options[] = {
	{ "device", 'd', "DEVICE", 0, "Where the packets arrive (name or index)", 0 },
	{ "netns", OPT_NETNS, "NAME", 0, "The namespace of that device [this one]", 0 },
	{ "seconds", 's', "SECONDS", 0, "Stop after so long [until a signal]", 0 },
	{ "late", OPT_LATE, "TIME", 0,
	  "Packets are late that take at least so long, such as 250us or 1.5ms; up to 4 times "
	  "[250us and 750us]",
	  0 },
	{ "run", OPT_RUN, "N", 0, "So many late ones in a row are an anomaly [2]", 0 },
	{ "from", OPT_FROM, "SECONDS", 0,
	  "Times and anomalies are of packets that arrive so long after the first, or later", 0 },
	{ "until", OPT_UNTIL, "SECONDS", 0,
	  "Times and anomalies are of packets that arrive sooner after the first than that", 0 },
	{ "first", OPT_FIRST, "N", 0, "Times and anomalies are of packets from this number on", 0 },
	{ "last", OPT_LAST, "N", 0, "Times and anomalies are of packets up to this number", 0 },
	{ "pass", OPT_PASS, NULL, 0,
	  "Let the packets go on, to other programs and filters of the device and the stack "
	  "[they are dropped]",
	  0 },
	{ "drop-foreign", OPT_DROP_FOREIGN, NULL, 0,
	  "Drop what is not the generator's, too [it goes on]", 0 },
	{ "stamp", OPT_STAMP, "DEVICE", 0,
	  "Stamp packets anew when they leave by this device, to the nanosecond. pktgen stamps them "
	  "before it waits for their time, so with a rate or a delay it takes this; and pktgen's "
	  "\"xmit_mode queue_xmit\", or its packets do not come by",
	  0 },
	{ "stamp-netns", OPT_STAMP_NETNS, "NAME", 0, "The namespace of that device [this one]", 0 },
	{ "level", OPT_LEVEL, "LEVEL", 0,
	  "counters: packets and bytes of each CPU, and the highest number; throughput: also when "
	  "the first and the last came; time: latency, order and anomalies of all packets as one "
	  "stream, by a lock [time]",
	  0 },
	{ "restart", OPT_RESTART, NULL, 0,
	  "Begin anew with each transmission of the sender, and count the last one; not with "
	  "--level time",
	  0 },
	{ "verbose", 'v', NULL, 0, "Show what libbpf says", 0 },
	{ 0 },
};

/* A device, and how it was asked for. */
struct place {
	const char *option;
	const char *device; /* NULL: none */
	const char *netns_option;
	const char *netns; /* NULL: that of this process */
	int ifindex;
};

struct arguments {
	double seconds; /* 0: no limit */
	struct place sink;
	struct place stamper;
	struct sink_config config;
	int thresholds;
	bool verbose;
};

static __u32 parse_level(const char *arg)
{
	static const char *const names[] = {
		[LEVEL_COUNTERS] = "counters",
		[LEVEL_THROUGHPUT] = "throughput",
		[LEVEL_TIME] = "time",
	};

	for (__u32 level = 0; level < sizeof(names) / sizeof(*names); level++)
		if (!strcmp(arg, names[level]))
			return level;
	refuse("--level %s: expected counters, throughput or time", arg);
}

/* What only the level of times can do, and what it cannot. */
static void check_level(const struct arguments *a)
{
	const struct sink_config *c = &a->config;

	if (c->level == LEVEL_TIME) {
		if (c->restart)
			refuse("--restart: expected --level counters or throughput: times are of "
			       "one transmission");
		return;
	}
	if (a->thresholds || c->in_a_row || c->begin_ns || c->end_ns || c->first || c->last)
		refuse("--late, --run, --from, --until, --first and --last are for --level time");
}

static void check_arguments(struct arguments *a)
{
	struct sink_config *c = &a->config;

	if (!a->sink.device)
		refuse("--device is needed: where do the packets arrive?");
	if (a->stamper.netns && !a->stamper.device)
		refuse("--stamp-netns is only for --stamp");
	if (c->end_ns && c->end_ns <= c->begin_ns)
		refuse("--until: expected more than --from");
	if (c->last && c->last < c->first)
		refuse("--last: expected no less than --first");
	check_level(a);
	if (!a->thresholds) {
		/* RFC 8578 */
		c->late_ns[0] = 250000;
		c->late_ns[1] = 750000;
	}
	c->in_a_row = c->in_a_row ?: 2;
	config_complete(c);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'd':
		a->sink.device = arg;
		break;
	case OPT_NETNS:
		a->sink.netns = arg;
		break;
	case 's':
		a->seconds = parse_seconds("--seconds", arg);
		break;
	case OPT_LATE:
		if (a->thresholds == THRESHOLDS)
			refuse("--late %s: expected no more than %d of them", arg, THRESHOLDS);
		a->config.late_ns[a->thresholds++] = parse_time("--late", arg);
		break;
	case OPT_RUN:
		a->config.in_a_row = parse_number("--run", arg, 1, 1 << 20);
		break;
	case OPT_FROM:
		a->config.begin_ns = parse_seconds("--from", arg) * NS_PER_SECOND;
		break;
	case OPT_UNTIL:
		a->config.end_ns = parse_seconds("--until", arg) * NS_PER_SECOND;
		break;
	case OPT_FIRST:
		a->config.first = parse_number("--first", arg, 1, UINT32_MAX);
		break;
	case OPT_LAST:
		a->config.last = parse_number("--last", arg, 1, UINT32_MAX);
		break;
	case OPT_PASS:
		a->config.pass = true;
		break;
	case OPT_DROP_FOREIGN:
		a->config.drop_foreign = true;
		break;
	case OPT_STAMP:
		a->stamper.device = arg;
		break;
	case OPT_STAMP_NETNS:
		a->stamper.netns = arg;
		break;
	case OPT_LEVEL:
		a->config.level = parse_level(arg);
		break;
	case OPT_RESTART:
		a->config.restart = true;
		break;
	case 'v':
		a->verbose = true;
		break;
	case ARGP_KEY_END:
		check_arguments(a);
		break;
	default:
		return parse_rest(key, arg, state);
	}
	return 0;
}

/* Enter a place's namespace; returns what leave() takes, or -1 with the reason printed. */
static int enter(const struct place *place, bool *entered)
{
	int here;

	*entered = place->netns;
	if (!place->netns)
		return 0;
	here = enter_netns(place->netns);
	if (here < 0)
		fail_netns(place->netns_option, place->netns);
	return here;
}

static int leave(int here, bool entered)
{
	if (entered && leave_netns(here))
		return fail("cannot return to this namespace: %s", strerror(errno));
	return 0;
}

/* 0, or EXIT_BAD if there is no such device. */
static int find(struct place *place)
{
	bool entered;
	int here = enter(place, &entered);

	if (here < 0)
		return EXIT_BAD;
	place->ifindex = index_of_device(place->device);
	if (leave(here, entered))
		return EXIT_BAD;
	if (place->ifindex)
		return 0;
	return fail("%s %s: no such device %s%s; give a name or an index from `ip link`%s%s",
		    place->option, place->device, place->netns ? "in namespace " : "here",
		    place->netns ?: "", place->netns ? "" : ", or its namespace as ",
		    place->netns ? "" : place->netns_option);
}

static int fail_attach(const struct place *place, int error)
{
	if (error == EINVAL || error == EOPNOTSUPP)
		return fail("%s %s: no program can be attached there: %s; it takes Linux 6.6 with "
			    "CONFIG_NET_XGRESS, which CONFIG_NET_SCH_INGRESS selects",
			    place->option, place->device, strerror(error));
	return fail("%s %s: no program can be attached there: %s", place->option, place->device,
		    strerror(error));
}

/* The link is this process's own: it goes with it, however that ends. */
static int attach(const struct bpf_program *program, const struct place *place,
		  struct bpf_link **link)
{
	bool entered;
	int here = enter(place, &entered), error;

	if (here < 0)
		return EXIT_BAD;
	*link = bpf_program__attach_tcx(program, place->ifindex, NULL);
	error = errno;
	if (leave(here, entered))
		return EXIT_BAD;
	return *link ? 0 : fail_attach(place, error);
}

/* A link outlives its device, and says nothing of it; 0 or EXIT_BAD. */
static int check_device(const struct bpf_link *link, const struct place *place)
{
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);

	if (!link)
		return 0;
	if (bpf_link_get_info_by_fd(bpf_link__fd(link), &info, &size))
		return fail("cannot look at what is attached to %s: %s", place->device,
			    strerror(errno));
	return info.tcx.ifindex ? 0
				: fail("%s %s: the device has gone", place->option, place->device);
}

struct sink {
	const struct arguments *arguments;
	struct pktsink_bpf *bpf;
	struct bpf_link *arrival;
	struct bpf_link *departure; /* NULL: no packet is stamped anew */
	int cpus;
	int signals;
	pid_t parent;
	struct clock_watch clock;
};

static struct sink_counts *new_counts(int cpus)
{
	struct sink_counts *counts = calloc(cpus, sizeof(*counts));

	for (int cpu = 0; counts && cpu < cpus; cpu++)
		counts_init(&counts[cpu]);
	return counts;
}

_Static_assert(sizeof(struct sink_counts) % 8 == 0, "the kernel rounds up, and has them apart");

/* Histograms without values are not all zero. */
static int empty_counts(const struct sink *sink)
{
	struct sink_counts *counts = new_counts(sink->cpus);
	__u32 key = 0;
	int ret = 0;

	if (!counts)
		return fail("out of memory");
	if (bpf_map__update_elem(sink->bpf->maps.counts, &key, sizeof(key), counts,
				 sink->cpus * sizeof(*counts), 0))
		ret = fail("cannot write the counts: %s", strerror(errno));
	free(counts);
	return ret;
}

static int read_counts(const struct sink *sink, struct sink_counts *joined, struct tally *by_cpu)
{
	struct sink_counts *counts = new_counts(sink->cpus);
	__u32 key = 0;
	int ret = 0;

	if (!counts)
		return fail("out of memory");
	if (bpf_map__lookup_elem(sink->bpf->maps.counts, &key, sizeof(key), counts,
				 sink->cpus * sizeof(*counts), 0))
		ret = fail("cannot read the counts: %s", strerror(errno));
	for (int cpu = 0; !ret && cpu < sink->cpus; cpu++) {
		counts_join(joined, &counts[cpu]);
		by_cpu[cpu] = counts[cpu].tally;
	}
	free(counts);
	return ret;
}

/* What each CPU has counted, in a document of its own. */
static int write_tallies(const struct sink *sink, const struct arrivals *arrivals,
			 struct tally *by_cpu)
{
	struct tallies tallies = {
		.kernel = arrivals->kernel,
		.device = arrivals->device,
		.ifindex = arrivals->ifindex,
		.seconds = arrivals->seconds,
		.level = arrivals->config->level,
		.tai_offset_ns = arrivals->config->tai_offset_ns,
		.transmission = sink->bpf->bss->transmission,
		.cpus = sink->cpus,
		.by_cpu = by_cpu,
	};

	tallies_turn(&tallies);
	return write_document(tallies_json(&tallies), NULL);
}

/* Of all packets as one stream. */
static int write_stream(const struct sink *sink, struct arrivals *arrivals)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	__u32 key = 0;
	int ret = 0;

	if (!stream)
		return fail("out of memory");
	if (bpf_map__lookup_elem(sink->bpf->maps.streams, &key, sizeof(key), stream,
				 sizeof(*stream), 0))
		ret = fail("cannot read the stream: %s", strerror(errno));
	if (!ret) {
		stream_end(stream, arrivals->config);
		arrivals->stream = stream;
		arrivals->stamped = sink->bpf->bss->stamped;
		arrivals->unstamped = sink->bpf->bss->unstamped;
		ret = write_document(arrivals_json(arrivals), NULL);
	}
	free(stream);
	return ret;
}

/* Read what there is once nothing is attached any more, and write it. */
static int write_counts(const struct sink *sink, struct arrivals *arrivals)
{
	struct tally *by_cpu = calloc(sink->cpus, sizeof(*by_cpu));
	int ret;

	if (!by_cpu)
		return fail("out of memory");
	ret = read_counts(sink, &arrivals->counts, by_cpu);
	if (!ret && arrivals->config->level == LEVEL_TIME)
		ret = write_stream(sink, arrivals);
	else if (!ret)
		ret = write_tallies(sink, arrivals, by_cpu);
	free(by_cpu);
	return ret;
}

/* Returns 0 once it is over, or EXIT_BAD. */
static int serve(const struct sink *sink, struct waits *waits, struct clock_report *clock)
{
	for (;;) {
		enum next next = wait_for_next(waits);

		if (next != EVENT)
			return next == OVER ? 0 : EXIT_BAD;
		if (clock_look(&sink->clock, clock))
			return EXIT_BAD;
	}
}

/* What is detached has no program at work any more: the kernel waits for that. */
static void detach(struct sink *sink)
{
	bpf_link__destroy(sink->departure);
	bpf_link__destroy(sink->arrival);
	sink->departure = NULL;
	sink->arrival = NULL;
}

static int wait_and_write(struct sink *sink, struct arrivals *arrivals)
{
	const struct arguments *a = sink->arguments;
	struct waits waits = {
		.signals = sink->signals,
		.input = ending_input(),
		.event = sink->clock.fd,
	};
	double begun = now_seconds();
	int ret;

	ret = waits_open(&waits, a->seconds, 0, sink->parent)
		      ?: serve(sink, &waits, &arrivals->clock);
	waits_close(&waits);
	arrivals->seconds = now_seconds() - begun;
	ret = ret ?: check_device(sink->arrival, &a->sink)
			     ?: check_device(sink->departure, &a->stamper);
	detach(sink);
	return ret ?: clock_end(&sink->clock, &arrivals->clock) ?: write_counts(sink, arrivals);
}

static int attach_and_wait(struct sink *sink, struct arrivals *arrivals)
{
	const struct arguments *a = sink->arguments;
	int ret = empty_counts(sink);

	if (!ret && a->stamper.device)
		ret = attach(sink->bpf->progs.on_departure, &a->stamper, &sink->departure);
	ret = ret ?: attach(sink->bpf->progs.on_arrival, &a->sink, &sink->arrival);
	if (ret) {
		detach(sink);
		return ret;
	}
	fputs("ready\n", stderr);
	return wait_and_write(sink, arrivals);
}

static int measure(struct sink *sink, struct arrivals *arrivals)
{
	const struct arguments *a = sink->arguments;
	struct sink_config config = a->config;
	int ret, err;

	ret = clock_begin(&sink->clock, &arrivals->clock);
	if (ret)
		return ret;
	config.tai_offset_ns = (__s64)arrivals->clock.tai_start * (__s64)NS_PER_SECOND;
	arrivals->config = &config;
	sink->bpf = pktsink_bpf__open();
	if (!sink->bpf) {
		fail_bpf(-errno);
		return EXIT_BAD;
	}
	bpf_program__set_autoload(sink->bpf->progs.on_departure, a->stamper.device);
	*(struct sink_config *)&sink->bpf->rodata->config = config;
	err = pktsink_bpf__load(sink->bpf);
	if (err) {
		fail_bpf(err);
		ret = EXIT_BAD;
	} else {
		ret = attach_and_wait(sink, arrivals);
	}
	pktsink_bpf__destroy(sink->bpf);
	return ret;
}

static int run(struct arguments *a, const char *kernel, pid_t parent)
{
	struct sink sink = { .arguments = a, .parent = parent };
	struct arrivals arrivals = { .kernel = kernel, .device = a->sink.device };
	int ret = find(&a->sink);

	if (!ret && a->stamper.device)
		ret = find(&a->stamper);
	if (ret)
		return ret;
	arrivals.ifindex = a->sink.ifindex;
	arrivals.stamper = a->stamper.device;
	counts_init(&arrivals.counts);
	sink.cpus = libbpf_num_possible_cpus();
	if (sink.cpus < 0)
		return fail("cannot count the CPUs: %s", strerror(-sink.cpus));
	sink.signals = open_signals();
	if (sink.signals < 0)
		return fail("cannot handle signals: %s", strerror(errno));
	ret = measure(&sink, &arrivals);
	close(sink.signals);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc };
	pid_t parent = getppid();
	struct arguments a = {
		.config = { .level = LEVEL_TIME },
		.sink = { .option = "--device", .netns_option = "--netns" },
		.stamper = { .option = "--stamp", .netns_option = "--stamp-netns" },
	};
	struct utsname uts;

	process_name("pktsink", argv);
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	process_verbose(a.verbose);
	uname(&uts);
	return run(&a, uts.release, parent);
}
