// SPDX-License-Identifier: GPL-2.0-or-later
/* What every loader does as a process: messages, options, waiting, its document. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "process.h"

static const char *own_name = "skblab";
static const char *also;
static bool verbose;

void process_name(const char *name, char **argv)
{
	own_name = name;
	/* It begins what getopt says. */
	argv[0] = (char *)name;
	argp_err_exit_status = EXIT_BAD;
}

double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", own_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (also)
		fprintf(stderr, "; %s", also);
	fputc('\n', stderr);
	return EXIT_BAD;
}

void fail_also(const char *text)
{
	also = text;
}

static bool has_tracefs(void)
{
	return !access(TRACING "/events", F_OK) ||
	       !access("/sys/kernel/debug/tracing/events", F_OK);
}

/* Whether a line of @file ends with @end; also if it cannot be read, for then nothing is known. */
static bool has_line(const char *file, const char *end)
{
	FILE *lines = fopen(file, "re");
	size_t size = strlen(end), room = 0;
	bool found = !lines;
	char *line = NULL;
	ssize_t length;

	while (!found && (length = getline(&line, &room, lines)) > 0) {
		if (line[length - 1] == '\n')
			line[--length] = '\0';
		found = length >= (ssize_t)size && !strcmp(line + length - size, end);
	}
	free(line);
	if (lines)
		fclose(lines);
	return found;
}

const char *why_no_bpf(int error)
{
	if (!has_line("/proc/filesystems", "\ttracefs"))
		return "this kernel has no ftrace (no tracefs in /proc/filesystems), which the "
		       "programs attach by: boot one with CONFIG_FUNCTION_TRACER and "
		       "CONFIG_KPROBE_EVENTS";
	/* The address of a variable that a program reads is looked up there. */
	if (error == -ENOENT && !has_line("/proc/kallsyms", " init_net"))
		return "this kernel does not list its variables (no init_net in /proc/kallsyms): "
		       "boot one with CONFIG_KALLSYMS_ALL";
	/* libbpf has to write there where perf makes no kprobes. */
	if (!has_tracefs())
		return "tracefs is not mounted, which may be why: mount -t tracefs none " TRACING
		       ". Else --verbose shows why";
	return "--verbose shows why";
}

void fail_bpf(int error)
{
	if (error == -EPERM && geteuid())
		fail("no permission to load BPF programs; run as root (CAP_BPF and CAP_PERFMON)");
	else if (error == -EPERM)
		fail("no permission to load BPF programs, though root: a container or a locked-down "
		     "kernel; it takes CAP_BPF and CAP_PERFMON");
	else
		fail("cannot load or attach the BPF programs: %s; %s", strerror(-error),
		     why_no_bpf(error));
}

static int on_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	return verbose ? vfprintf(stderr, format, args) : 0;
}

void process_verbose(bool wanted)
{
	verbose = wanted;
	libbpf_set_print(on_libbpf);
}

/* Programs run with preemption disabled, which this waits out on every CPU. */
void drain(void)
{
	static const struct timespec long_enough = { .tv_nsec = 50 * 1000 * 1000 };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		nanosleep(&long_enough, NULL);
}

double parse_seconds(const char *option, const char *arg)
{
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(arg, &end);
	if (errno || end == arg || *end || !(seconds > 0 && seconds <= 1e9))
		refuse("%s %s: expected a number above 0, up to 1000000000", option, arg);
	return seconds;
}

unsigned long parse_number(const char *option, const char *arg, unsigned long least,
			   unsigned long most)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(arg, &end, 10);
	/* It takes signs and blanks as well, and makes a large number of -1. */
	if (errno || *arg < '0' || *arg > '9' || *end || number < least || number > most)
		refuse("%s %s: expected a number from %lu to %lu", option, arg, least, most);
	return number;
}

__u64 parse_time(const char *option, const char *arg)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	char *end;
	double value;

	errno = 0;
	value = strtod(arg, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!errno && end != arg && !strcmp(end, units[i].unit) &&
		    value * units[i].ns >= 1 && value * units[i].ns <= 1e12)
			return value * units[i].ns;
	refuse("%s %s: expected a time from 1ns to 1000s with its unit, such as 250us or 1.5ms",
	       option, arg);
	return 0;
}

error_t parse_rest(int key, const char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		refuse("%s: no argument expected besides options", arg);
		break;
	case ARGP_KEY_INIT:
		/* What getopt says of an unknown option is one line; argp adds where help is. */
		state->err_stream = NULL;
		break;
	case ARGP_KEY_ERROR:
		exit(EXIT_BAD);
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int open_signals(void)
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

/* Fires after so long, again and again if @repeat. */
static int open_timer(double seconds, bool repeat)
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
	if (repeat)
		when.it_interval = when.it_value;
	if (fd >= 0 && timerfd_settime(fd, 0, &when, NULL)) {
		close(fd);
		return -1;
	}
	return fd;
}

int ending_input(void)
{
	struct stat input;

	if (fstat(STDIN_FILENO, &input) || !(S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode)))
		return -1;
	return STDIN_FILENO;
}

int waits_open(struct waits *waits, double seconds, double interval, pid_t parent)
{
	waits->parent = watch_parent(parent);
	waits->limit = seconds > 0 ? open_timer(seconds, false) : -1;
	waits->interval = interval > 0 ? open_timer(interval, true) : -1;
	if ((seconds > 0 && waits->limit < 0) || (interval > 0 && waits->interval < 0))
		return fail("cannot set a timer: %s", strerror(errno));
	return 0;
}

void waits_close(const struct waits *waits)
{
	if (waits->parent >= 0)
		close(waits->parent);
	if (waits->limit >= 0)
		close(waits->limit);
	if (waits->interval >= 0)
		close(waits->interval);
}

/* Whether there is no more to come; what comes is nothing to us. */
static bool has_ended(int input)
{
	char text[256];
	ssize_t size = read(input, text, sizeof(text));

	return size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN);
}

enum next wait_for_next(struct waits *waits)
{
	struct pollfd fds[] = {
		{ .fd = waits->signals, .events = POLLIN },
		{ .fd = waits->parent, .events = POLLIN },
		{ .fd = waits->limit, .events = POLLIN },
		{ .fd = waits->event, .events = POLLIN },
		{ .fd = waits->interval, .events = POLLIN },
		{ .fd = waits->input, .events = POLLIN },
	};
	__u64 fired;
	int ret;

	do {
		ret = poll(fds, sizeof(fds) / sizeof(*fds), -1);
		if (ret > 0 && fds[5].revents && has_ended(waits->input))
			return OVER;
	} while ((ret < 0 && errno == EINTR) || (ret == 1 && fds[5].revents));
	if (ret < 0) {
		fail("cannot wait: %s", strerror(errno));
		return FAILED;
	}
	if (fds[0].revents || fds[1].revents || fds[2].revents)
		return OVER;
	if (fds[3].revents)
		return EVENT;
	if (read(waits->interval, &fired, sizeof(fired)) == sizeof(fired))
		return DOCUMENT;
	fail("cannot read a timer: %s", strerror(errno));
	return FAILED;
}

int check_output(const char *output)
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

int write_document(struct json_object *document, const char *output)
{
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
