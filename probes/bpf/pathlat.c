// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pathlat: where the time of packets goes, from the kernel's path and NAPI poll
 * samples. Loads and attaches the BPF programs, waits, prints JSON.
 *
 * Exit code 0: the document is complete. 2: bad usage, a kernel without the
 * tracepoints, no permission, or an output that cannot be written.
 */
#include <argp.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "names.h"
#include "pathlat.h"
#include "pathlat.skel.h"
#include "report.h"

#define VMLINUX_BTF   "/sys/kernel/btf/vmlinux"
#define STAMPS_SYSCTL "/proc/sys/net/core/path_trace"
#define EXIT_BAD      2

#ifndef PATHLAT_VERSION
#error "PATHLAT_VERSION comes from the Makefile"
#endif

const char *argp_program_version = "pathlat " PATHLAT_VERSION;

static const char doc[] =
	"Count where the time of received, forwarded and sent packets goes: intervals between the "
	"points of their paths and delays of NAPI polls, in histograms with 16 buckets per power of "
	"two. Needs a kernel "
	"with the skblab patches, and net.core.path_trace = 1 for the packets.\v"
	"Prints \"ready\" on standard error once attached, and one JSON document when the time is "
	"up, on SIGINT or SIGTERM, or when the parent process ends.";

enum { OPT_CHECK = 256, OPT_BTF, OPT_NETNS };

static const struct argp_option options[] = {
	{ "seconds", 's', "SECONDS", 0, "Stop after so long [until a signal]", 0 },
	{ "output", 'o', "FILE", 0, "Write the document there instead of standard output", 0 },
	{ "device", 'd', "DEVICE", 0,
	  "Only packets that came in by this device (name or index), and its NAPI polls. An index "
	  "is unique only within a network namespace",
	  0 },
	{ "netns", OPT_NETNS, "NAME", 0, "Look the device's name up in this namespace", 0 },
	{ "verbose", 'v', NULL, 0, "Show what libbpf says", 0 },
	{ "check", OPT_CHECK, NULL, 0, "Only check that the kernel has what the probe reads", 0 },
	{ "btf", OPT_BTF, "FILE", 0, "With --check: the kernel is this vmlinux or BTF file", 0 },
	{ 0 },
};

struct arguments {
	double seconds; /* 0: no limit */
	const char *output;
	const char *device;
	const char *netns;
	const char *btf;
	bool check;
	bool verbose;
};

static bool verbose;

/* One line on standard error; returns the exit code for it. */
static __attribute__((format(printf, 1, 2))) int fail(const char *format, ...)
{
	va_list args;

	fputs("pathlat: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_BAD;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	char *end;

	switch (key) {
	case 's':
		errno = 0;
		a->seconds = strtod(arg, &end);
		if (errno || end == arg || *end || !(a->seconds > 0 && a->seconds <= 1e9))
			argp_error(state, "--seconds %s: expected a number above 0", arg);
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
	case 'v':
		a->verbose = true;
		break;
	case OPT_CHECK:
		a->check = true;
		break;
	case OPT_BTF:
		a->btf = arg;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "%s: no argument expected besides options", arg);
		break;
	case ARGP_KEY_END:
		if (a->btf && !a->check)
			argp_error(state, "--btf is only for --check");
		if (a->netns && !a->device)
			argp_error(state, "--netns needs a --device to look up");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static int on_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	return verbose ? vfprintf(stderr, format, args) : 0;
}

/* The index of a device in a namespace made by `ip netns`: 0 if there is no such
 * device, -1 if the namespace cannot be entered.
 */
static int index_in_netns(const char *device, const char *netns)
{
	char path[NAME_MAX + 16];
	int here, there, index = -1;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (here >= 0 && there >= 0 && !setns(there, CLONE_NEWNET)) {
		index = if_nametoindex(device);
		if (setns(here, CLONE_NEWNET))
			index = -1;
	}
	if (here >= 0)
		close(here);
	if (there >= 0)
		close(there);
	return index;
}

/* Returns the index of a device, or 0 with the reason printed. */
static int find_device(const struct arguments *a)
{
	char *end;
	long number = strtol(a->device, &end, 10);
	int index = a->netns ? index_in_netns(a->device, a->netns) : (int)if_nametoindex(a->device);

	if (index > 0)
		return index;
	if (index < 0)
		fail("--netns %s: cannot enter it: %s; `ip netns list` shows what there is",
		     a->netns, strerror(errno));
	else if (*a->device && !*end && number > 0 && number <= INT_MAX)
		return number;
	else
		fail("--device %s: no such device %s%s; give a name from `ip link`, or an index",
		     a->device, a->netns ? "in namespace " : "here", a->netns ?: "");
	return 0;
}

/* Fail now rather than after the measurement. */
static int check_output(const char *output)
{
	char *copy = strdup(output), *slash;
	const char *folder = ".";
	int ret = 0;

	if (!copy)
		return fail("out of memory");
	slash = strrchr(copy, '/');
	if (slash) {
		*slash = '\0';
		folder = slash == copy ? "/" : copy;
	}
	if (access(folder, W_OK | X_OK))
		ret = fail("--output %s: cannot write there: %s", output, strerror(errno));
	free(copy);
	return ret;
}

/* Whether packets are stamped: 0, 1, or -1 outside the first network namespace. */
static int read_stamps(void)
{
	char text = 0;
	int fd = open(STAMPS_SYSCTL, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (read(fd, &text, 1) != 1)
		text = 0;
	close(fd);
	/* 2 is 1, with histograms of the kernel's own. */
	return text >= '0' && text <= '2' ? text != '0' : -1;
}

static int read_kernel(struct kernel_names *names, const char *path, const char *kernel)
{
	struct btf *btf = path ? btf__parse(path, NULL) : btf__load_vmlinux_btf();
	char why[512];
	int ret;

	if (!btf && path)
		return fail("--btf %s: cannot read BTF from it: %s", path, strerror(errno));
	if (!btf)
		return fail("%s shows no types in " VMLINUX_BTF "; mount /sys, or build the "
			    "kernel with CONFIG_DEBUG_INFO_BTF=y",
			    kernel);
	ret = kernel_names_read(names, btf, kernel, why, sizeof(why));
	btf__free(btf);
	return ret ? fail("%s", why) : 0;
}

/* Give each CPU its stretch of histograms and say so in the configuration. */
static int size_probe(struct pathlat_bpf *probe, int cpus)
{
	volatile struct config *config = (volatile struct config *)&probe->rodata->config;

	config->cpus = cpus;
	return bpf_map__set_value_size(probe->maps.bss_path,
				       cpus * NET_PATH_KINDS * sizeof(struct path_hists))
		       ?: bpf_map__set_value_size(probe->maps.bss_napi,
						  cpus * MAX_CONTEXTS * sizeof(struct napi_hists));
}

static void init_hists(struct pathlat_bpf *probe, int cpus)
{
	for (int i = 0; i < cpus * NET_PATH_KINDS; i++)
		path_init(&probe->bss_path->path_hists[i]);
	for (int i = 0; i < cpus * MAX_CONTEXTS; i++) {
		hist_init(&probe->bss_napi->napi_hists[i].delay);
		hist_init(&probe->bss_napi->napi_hists[i].time);
	}
}

/* Returns the loaded and attached probe, or NULL with the reason printed. */
static struct pathlat_bpf *start_probe(int ifindex, int cpus)
{
	struct pathlat_bpf *probe = pathlat_bpf__open();
	int err;

	if (!probe) {
		fail("cannot open the BPF object: %s", strerror(errno));
		return NULL;
	}
	probe->rodata->config.ifindex = ifindex;
	err = size_probe(probe, cpus) ?: pathlat_bpf__load(probe);
	if (!err) {
		init_hists(probe, cpus);
		err = pathlat_bpf__attach(probe);
	}
	if (!err)
		return probe;

	if (err == -EPERM)
		fail("no permission to load BPF programs; run as root (CAP_BPF and CAP_PERFMON)");
	else
		fail("cannot load or attach the BPF programs: %s; --verbose shows why",
		     strerror(-err));
	pathlat_bpf__destroy(probe);
	return NULL;
}

/* Watch the parent by a pidfd rather than by PR_SET_PDEATHSIG, which fires when
 * the thread that started us ends, though its process lives on.
 */
static int watch_parent(pid_t parent)
{
	int fd;

	/* 0: outside of our process namespace */
	if (parent == 0)
		return -1;
	fd = syscall(SYS_pidfd_open, parent, 0);
	if (fd >= 0 && getppid() == parent)
		return fd;
	/* It died before we could watch it. */
	kill(getpid(), SIGTERM);
	return fd;
}

static int open_timer(double seconds)
{
	struct itimerspec when = {
		.it_value = {
			.tv_sec = (time_t)seconds,
			.tv_nsec = (long)(fmod(seconds, 1) * 1e9),
		},
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0)
		when.it_value.tv_nsec = 1;
	if (fd >= 0 && timerfd_settime(fd, 0, &when, NULL)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Wait for a signal, the time limit or the end of the parent. */
static int wait_for_end(int signals, int parent, double seconds)
{
	int timer = seconds > 0 ? open_timer(seconds) : -1;
	struct pollfd fds[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = parent, .events = POLLIN },
		{ .fd = timer, .events = POLLIN },
	};
	int ret;

	if (seconds > 0 && timer < 0)
		return fail("cannot set a timer: %s", strerror(errno));
	do {
		ret = poll(fds, sizeof(fds) / sizeof(*fds), -1);
	} while (ret < 0 && errno == EINTR);
	if (timer >= 0)
		close(timer);
	return ret < 0 ? fail("cannot wait: %s", strerror(errno)) : 0;
}

/* Let programs that were running when they were detached come to their end:
 * they run with preemption disabled, which this waits out on every CPU.
 */
static void drain(void)
{
	static const struct timespec long_enough = { .tv_nsec = 50 * 1000 * 1000 };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		nanosleep(&long_enough, NULL);
}

static int read_missed(const struct bpf_program *program, __u64 *missed)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return fail("cannot read how often a program was missed: %s", strerror(errno));
	*missed = info.recursion_misses;
	return 0;
}

/* Join the counts of all CPUs. */
static int read_counts(const struct bpf_map *map, struct counts *joined, int cpus)
{
	struct counts *parts = calloc(cpus, sizeof(*parts));
	__u32 key = 0;
	int ret = 0;

	if (!parts)
		return fail("out of memory");
	if (bpf_map__lookup_elem(map, &key, sizeof(key), parts, cpus * sizeof(*parts), 0))
		ret = fail("cannot read the counts: %s", strerror(errno));
	for (int cpu = 0; !ret && cpu < cpus; cpu++)
		counts_join(joined, &parts[cpu]);
	free(parts);
	return ret;
}

static int read_probe(const struct pathlat_bpf *probe, struct report *report, int cpus)
{
	for (int i = 0; i < cpus * NET_PATH_KINDS; i++)
		path_join(&report->paths[i % NET_PATH_KINDS], &probe->bss_path->path_hists[i]);
	for (int i = 0; i < cpus * MAX_CONTEXTS; i++)
		napi_join(&report->napi[i % MAX_CONTEXTS], &probe->bss_napi->napi_hists[i]);
	return read_counts(probe->maps.counts, &report->counts, cpus) ?:
	       read_missed(probe->progs.on_path_sample, &report->missed) ?:
	       read_missed(probe->progs.on_poll_sample, &report->polls_missed);
}

/* Beside the file first, then in its place: a reader sees all of it or nothing. */
static int write_file(const char *path, const char *text, size_t size)
{
	char temporary[4096];
	int fd, ret = 0;

	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
		return fail("--output %s: name too long", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return fail("--output %s: %s", path, strerror(errno));
	while (size > 0 && !ret) {
		ssize_t done = write(fd, text, size);

		if (done < 0 && errno != EINTR)
			ret = -1;
		if (done > 0) {
			text += done;
			size -= done;
		}
	}
	if (ret || fchmod(fd, 0644) || fsync(fd) || rename(temporary, path)) {
		ret = fail("--output %s: %s", path, strerror(errno));
		unlink(temporary);
	}
	close(fd);
	return ret;
}

static int write_report(const struct report *report, const char *output)
{
	struct json_object *document = report_json(report);
	const char *text = json_object_to_json_string_ext(
		document, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	int ret = 0;

	if (output)
		ret = write_file(output, text, strlen(text));
	else if (printf("%s\n", text) < 0 || fflush(stdout))
		ret = fail("cannot write the document: %s", strerror(errno));
	json_object_put(document);
	return ret;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int measure(const struct arguments *a, struct report *report, int signals, pid_t parent_pid)
{
	int cpus = libbpf_num_possible_cpus();
	struct pathlat_bpf *probe;
	int parent, ret;

	if (cpus < 0)
		return fail("cannot count the CPUs: %s", strerror(-cpus));
	probe = start_probe(report->ifindex, cpus);
	if (!probe)
		return EXIT_BAD;
	report->seconds = -now();
	report->stamps_on_start = read_stamps();
	if (report->stamps_on_start == 0)
		fputs("pathlat: no packet is stamped yet: net.core.path_trace is 0\n", stderr);
	fputs("ready\n", stderr);

	parent = watch_parent(parent_pid);
	ret = wait_for_end(signals, parent, a->seconds);
	if (parent >= 0)
		close(parent);

	report->seconds += now();
	report->stamps_on_end = read_stamps();
	pathlat_bpf__detach(probe);
	if (!ret) {
		drain();
		ret = read_probe(probe, report, cpus);
	}
	pathlat_bpf__destroy(probe);
	return ret;
}

/* From here on SIGINT and SIGTERM are read from a descriptor. */
static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	/* A reader that went away is an error to report, not a way to die. */
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int run(const struct arguments *a, const char *kernel, pid_t parent)
{
	struct report *report = malloc(sizeof(*report));
	struct kernel_names names;
	int signals, ret;

	if (!report)
		return fail("out of memory");
	report_init(report);
	ret = read_kernel(&names, a->btf, a->btf ?: kernel);
	if (ret)
		goto free_report;
	report->kernel = kernel;
	report->names = &names;
	if (a->check)
		goto free_names;

	ret = a->output ? check_output(a->output) : 0;
	if (ret)
		goto free_names;
	if (a->device) {
		report->ifindex = find_device(a);
		ret = report->ifindex ? 0 : EXIT_BAD;
		if (ret)
			goto free_names;
	}
	signals = open_signals();
	if (signals < 0) {
		ret = fail("cannot handle signals: %s", strerror(errno));
		goto free_names;
	}
	ret = measure(a, report, signals, parent) ?: write_report(report, a->output);
	close(signals);
free_names:
	kernel_names_free(&names);
free_report:
	free(report);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc };
	pid_t parent = getppid();
	struct arguments a = {};
	struct utsname uts;

	argp_err_exit_status = EXIT_BAD;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	verbose = a.verbose;
	libbpf_set_print(on_libbpf);
	uname(&uts);
	return run(&a, uts.release, parent);
}
