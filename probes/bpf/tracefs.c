// SPDX-License-Identifier: GPL-2.0-or-later
/* The tracer function_graph, set up, and everything as it was before when that is over. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "tracefs.h"

#define DEBUG_TRACING "/sys/kernel/debug/tracing"
#define TRACER	      "function_graph"
/* Instances of ours: with the number of the process behind it. */
#define OURS	    "skblab-"
#define MOST_DIGITS 10
/* An instance can be removed once all of its files are closed. */
#define TIDY_TRIES   500
#define TIDY_WAIT_NS (10 * 1000 * 1000)
/* Whoever sets up an instance is done sooner. */
#define SETUP_TRIES 100
#define PATH_ROOM   256

static void path_of(char *path, const char *folder, const char *name)
{
	snprintf(path, PATH_ROOM, "%s/%s", folder, name);
}

FILE *tracefs_read(const char *folder, const char *name)
{
	char path[PATH_ROOM];
	FILE *file;

	path_of(path, folder, name);
	file = fopen(path, "re");
	if (!file)
		fail("cannot read %s: %s", path, strerror(errno));
	return file;
}

/* The first line of a file without its end; 0 or EXIT_BAD. An empty file has an empty one. */
static int read_line(const char *folder, const char *name, char *text, size_t size)
{
	FILE *file = tracefs_read(folder, name);

	if (!file)
		return EXIT_BAD;
	if (!fgets(text, size, file))
		*text = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
	return 0;
}

/* 0 or an error. */
static int try_write(const char *folder, const char *name, const char *text)
{
	char path[PATH_ROOM];
	int fd, err = 0;

	path_of(path, folder, name);
	/* Of filters, this is what empties them. */
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (*text && write(fd, text, strlen(text)) < 0)
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

static int write_text(const char *folder, const char *name, const char *text)
{
	int err = try_write(folder, name, text);

	return err ? fail("cannot write %s/%s: %s", folder, name, strerror(-err)) : 0;
}

static int write_number(const char *folder, const char *name, unsigned int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	return write_text(folder, name, text);
}

/* Whether one of the words in a file is this one; also false if it cannot be read. */
static bool has_word(const char *folder, const char *name, const char *wanted)
{
	char path[PATH_ROOM], word[64];
	bool found = false;
	FILE *file;

	path_of(path, folder, name);
	file = fopen(path, "re");
	while (file && !found && fscanf(file, "%63s", word) == 1)
		found = !strcmp(word, wanted);
	if (file)
		fclose(file);
	return found;
}

static int find_top(struct tracefs *tracefs)
{
	static const char *const places[] = { TRACING, DEBUG_TRACING };

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char path[PATH_ROOM];

		path_of(path, places[i], "current_tracer");
		tracefs->top = places[i];
		if (!access(path, F_OK))
			return access(path, W_OK)
				       ? fail("no permission to trace (%s): run as root", places[i])
				       : 0;
		if (errno == EACCES)
			return fail("no permission to trace (%s): run as root", places[i]);
	}
	return fail("tracefs is not mounted: mount -t tracefs none " TRACING);
}

/* What a file must say for every call to be traced; NULL: comments alone, or nothing. */
struct needed {
	const char *file;
	const char *text;
	const char *mend;
};

/* They are the same for all instances. */
static const struct needed of_all[] = {
	{ "tracing_thresh", "0", "echo 0" },
	{ "max_graph_depth", "0", "echo 0" },
	{ "set_graph_function", NULL, "echo" },
	{ "set_graph_notrace", NULL, "echo" },
	{ 0 },
};

/* Of the tracer for all: what is set there is someone's who traces. */
static const struct needed of_shared[] = {
	{ "current_tracer", "nop", "echo nop" },
	{ "set_event", NULL, "echo" },
	{ "set_ftrace_filter", NULL, "echo" },
	{ "set_ftrace_notrace", NULL, "echo" },
	{ "set_ftrace_pid", "no pid", "echo" },
	{ "set_ftrace_notrace_pid", "no pid", "echo" },
	{ "trace", NULL, "echo" },
	{ 0 },
};

/* They are there once the tracer is. */
static const struct needed of_tracer[] = {
	{ "options/funcgraph-irqs", "1", "echo 1" },
	{ "options/sleep-time", "1", "echo 1" },
	{ 0 },
};

/* Whether a file is as needed; else @line has what it says. */
static bool is_as_needed(const struct needed *needed, FILE *file, char *line, size_t size)
{
	while (fgets(line, size, file)) {
		line[strcspn(line, "\n")] = '\0';
		if (needed->text)
			return !strcmp(line, needed->text);
		if (*line && *line != '#')
			return false;
	}
	return !needed->text;
}

/* 0, or EXIT_BAD behind a message that says what is in use, and how to end that. */
static int check_needed(const char *folder, const struct needed *needed)
{
	for (; needed->file; needed++) {
		FILE *file = tracefs_read(folder, needed->file);
		char line[128] = "";
		bool good;

		if (!file)
			return EXIT_BAD;
		good = is_as_needed(needed, file, line, sizeof(line));
		fclose(file);
		if (!good)
			return fail("%s/%s says \"%s\": someone else traces, and not every call "
				    "would be seen; when that is over: %s >%s/%s",
				    folder, needed->file, line, needed->mend, folder, needed->file);
	}
	return 0;
}

/* A mask such as "ff,ffffffff" must have all CPUs. */
static int check_cpus(const char *folder, unsigned int cpus)
{
	unsigned int found = 0;
	char mask[4096];

	if (read_line(folder, "tracing_cpumask", mask, sizeof(mask)))
		return EXIT_BAD;
	for (const char *digit = mask; *digit; digit++)
		if (isxdigit(*digit))
			found += __builtin_popcount(strtoul((char[]){ *digit, 0 }, NULL, 16));
	return found >= cpus
		       ? 0
		       : fail("%s/tracing_cpumask has %u of %u CPUs: someone else traces, and "
			      "not every call would be seen",
			      folder, found, cpus);
}

/* What will have to be put back; 0 or EXIT_BAD. */
static int remember(struct tracefs *tracefs)
{
	char text[64];

	/* "7 (expanded: 1408)" before anyone has traced: it grows when somebody does. */
	if (read_line(tracefs->at, "buffer_size_kb", text, sizeof(text)))
		return EXIT_BAD;
	if (sscanf(text, "%*u (expanded: %u)", &tracefs->buffer_kb) != 1 &&
	    sscanf(text, "%u", &tracefs->buffer_kb) != 1)
		return fail("%s/buffer_size_kb says %s: expected one size for all CPUs",
			    tracefs->at, text);
	if (read_line(tracefs->at, "tracing_on", text, sizeof(text)))
		return EXIT_BAD;
	tracefs->on = *text != '0';
	tracefs->overwrite = has_word(tracefs->at, "trace_options", "overwrite");
	return 0;
}

static void wait_a_little(void)
{
	static const struct timespec little = { .tv_nsec = TIDY_WAIT_NS };

	nanosleep(&little, NULL);
}

/* Remove an instance, the files of which may be about to be closed; 0 or EXIT_BAD. */
static int remove_instance(const char *at)
{
	int err = 0;

	for (int i = 0; i < TIDY_TRIES; i++) {
		/* It was never made, or another one removed it. */
		if (!rmdir(at) || errno == ENOENT || errno == ENODEV)
			return 0;
		err = errno;
		if (err != EBUSY)
			break;
		try_write(at, "tracing_on", "0");
		try_write(at, "current_tracer", "nop");
		wait_a_little();
	}
	return fail("cannot remove %s: %s", at, strerror(err));
}

static int put_back(const struct tracefs *tracefs)
{
	const char *at = tracefs->at;
	int err = 0;

	if (tracefs->instance)
		return remove_instance(at);
	/* All of it, whatever fails. */
	err |= write_text(at, "tracing_on", "0");
	for (int i = 0; i < TIDY_TRIES && try_write(at, "current_tracer", "nop") == -EBUSY; i++)
		wait_a_little();
	err |= write_text(at, "current_tracer", "nop");
	err |= write_text(at, "set_ftrace_filter", "");
	err |= write_number(at, "buffer_size_kb", tracefs->buffer_kb);
	err |= write_text(at, "trace_options", tracefs->overwrite ? "overwrite" : "nooverwrite");
	err |= write_text(at, "trace", "");
	err |= write_number(at, "tracing_on", tracefs->on);
	return err ? EXIT_BAD : 0;
}

/* Wait until the other process closes its end, which it does last, or is killed. */
static void keep(const struct tracefs *tracefs, int alive)
{
	sigset_t all;
	char none;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	/* What is sent to its group is not for us. */
	setsid();
	/* Whoever waits for the end of its output does not wait for us. */
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	while (read(alive, &none, 1) < 0 && errno == EINTR)
		;
	_exit(put_back(tracefs));
}

static int start_keeper(struct tracefs *tracefs)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return fail("cannot make a pipe: %s", strerror(errno));
	tracefs->keeper = fork();
	if (!tracefs->keeper) {
		close(ends[1]);
		keep(tracefs, ends[0]);
	}
	close(ends[0]);
	tracefs->alive = ends[1];
	if (tracefs->keeper > 0)
		return 0;
	close(ends[1]);
	return fail("cannot start a process: %s", strerror(errno));
}

/* Let nobody else set it up; 0 or EXIT_BAD. It ends with the last process that has it. */
static int hold(struct tracefs *tracefs)
{
	tracefs->setup = open(tracefs->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tracefs->setup < 0)
		return fail("cannot read %s: %s", tracefs->top, strerror(errno));
	for (int i = 0; i < SETUP_TRIES; i++) {
		if (!flock(tracefs->setup, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK)
			return fail("cannot lock %s: %s", tracefs->top, strerror(errno));
		wait_a_little();
	}
	return fail("%s is in use: another funclat traces there by " TRACER
		    "; begin when that is over",
		    tracefs->top);
}

/* Whether an instance is one of ours: others may begin their names like that. */
static bool is_ours(const char *name)
{
	size_t size = strlen(name), begin = strlen(OURS);

	return size > begin && size <= begin + MOST_DIGITS && !strncmp(name, OURS, begin) &&
	       strspn(name + begin, "0123456789") == size - begin;
}

/* Those of processes that were killed together with their keepers. */
static void remove_stale(const char *folder)
{
	DIR *instances = opendir(folder);
	struct dirent *entry;

	while (instances && (entry = readdir(instances))) {
		char path[PATH_ROOM];
		int fd;

		if (!is_ours(entry->d_name))
			continue;
		path_of(path, folder, entry->d_name);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!flock(fd, LOCK_EX | LOCK_NB))
			remove_instance(path);
		close(fd);
	}
	if (instances)
		closedir(instances);
}

/* An instance with the tracer; false if this kernel has none for instances, and nothing was made. */
static bool has_instances(const char *folder)
{
	char path[PATH_ROOM];
	bool has;

	snprintf(path, sizeof(path), "%s/" OURS "%d", folder, getpid());
	if (mkdir(path, 0700))
		return false;
	has = has_word(path, "available_tracers", TRACER);
	rmdir(path);
	return has;
}

/* By what clock events are put into one order: that which the kernel took for all, if it is one of its own
 * choices; 0 or EXIT_BAD.
 */
static int choose_clock(const struct tracefs *tracefs)
{
	bool local = has_word(tracefs->top, "trace_clock", "[local]");

	return write_text(tracefs->at, "trace_clock", local ? "local" : "global");
}

static int make_instance(struct tracefs *tracefs)
{
	/* Before it is made: so it never stays. */
	if (start_keeper(tracefs))
		return EXIT_BAD;
	if (mkdir(tracefs->at, 0700))
		return fail("cannot make %s: %s", tracefs->at, strerror(errno));
	tracefs->lock = open(tracefs->at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tracefs->lock < 0 || flock(tracefs->lock, LOCK_EX | LOCK_NB))
		return fail("cannot hold %s: %s", tracefs->at, strerror(errno));
	/* From here on it is held by itself; the keeper has no part in this lock any more. */
	flock(tracefs->setup, LOCK_UN);
	return choose_clock(tracefs);
}

static int take_shared(struct tracefs *tracefs, unsigned int cpus)
{
	return check_needed(tracefs->at, of_shared) ?:
	       check_cpus(tracefs->at, cpus) ?:
	       remember(tracefs) ?:
	       start_keeper(tracefs);
}

int tracefs_open(struct tracefs *tracefs, unsigned int cpus, unsigned int buffer_kb)
{
	char folder[128];

	*tracefs = (struct tracefs){ .setup = -1, .lock = -1, .alive = -1 };
	if (find_top(tracefs))
		return EXIT_BAD;
	if (!has_word(tracefs->top, "available_tracers", TRACER))
		return fail("this kernel has no tracer " TRACER
			    ": boot one with CONFIG_FUNCTION_GRAPH_TRACER");
	if (check_needed(tracefs->top, of_all) || hold(tracefs))
		return EXIT_BAD;
	snprintf(folder, sizeof(folder), "%s/instances", tracefs->top);
	remove_stale(folder);
	tracefs->instance = has_instances(folder);
	if (tracefs->instance)
		snprintf(tracefs->at, sizeof(tracefs->at), "%s/instances/" OURS "%d", tracefs->top,
			 getpid());
	else
		snprintf(tracefs->at, sizeof(tracefs->at), "%s", tracefs->top);
	/* What finds no room is left out, and counted: what was written before stays. */
	return (tracefs->instance ? make_instance(tracefs) : take_shared(tracefs, cpus)) ?:
	       write_text(tracefs->at, "tracing_on", "0") ?:
	       write_text(tracefs->at, "trace_options", "nooverwrite") ?:
	       write_number(tracefs->at, "buffer_size_kb", buffer_kb);
}

int tracefs_trace(const struct tracefs *tracefs, const char *const *names, size_t count)
{
	char path[PATH_ROOM], text[PATH_ROOM];
	int fd, ret = 0;

	path_of(path, tracefs->at, "set_ftrace_filter");
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return fail("cannot write %s: %s", path, strerror(errno));
	/* It takes one word at a time, and all of them when it is closed. */
	for (size_t i = 0; i < count && !ret; i++) {
		snprintf(text, sizeof(text), "%s\n", names[i]);
		if (write(fd, text, strlen(text)) < 0)
			ret = fail("%s: this kernel does not trace it by " TRACER ": %s", names[i],
				   strerror(errno));
	}
	if (close(fd) && !ret)
		ret = fail("cannot write %s: %s", path, strerror(errno));
	return ret ?:
	       write_text(tracefs->at, "current_tracer", TRACER) ?:
	       check_needed(tracefs->at, of_tracer);
}

int tracefs_switch(const struct tracefs *tracefs, bool on)
{
	return write_number(tracefs->at, "tracing_on", on);
}

int tracefs_close(struct tracefs *tracefs)
{
	int status = 0;

	if (tracefs->keeper > 0) {
		close(tracefs->alive);
		while (waitpid(tracefs->keeper, &status, 0) < 0 && errno == EINTR)
			;
	}
	tracefs->keeper = 0;
	if (tracefs->lock >= 0)
		close(tracefs->lock);
	if (tracefs->setup >= 0)
		close(tracefs->setup);
	return WIFEXITED(status) && !WEXITSTATUS(status)
		       ? 0
		       : fail("%s is not as it was before", tracefs->at);
}

int tracefs_open_buffer(const struct tracefs *tracefs, unsigned int cpu, int *fd)
{
	char path[PATH_ROOM];

	snprintf(path, sizeof(path), "%s/per_cpu/cpu%u/trace_pipe_raw", tracefs->at, cpu);
	*fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	/* Numbers of CPUs may have gaps. */
	if (*fd >= 0 || errno == ENOENT)
		return 0;
	return fail("cannot read %s: %s", path, strerror(errno));
}

int tracefs_lost(const struct tracefs *tracefs, unsigned int cpu, unsigned long long *lost)
{
	static const char *const counts[] = { "overrun: %llu", "commit overrun: %llu",
					      "dropped events: %llu" };
	char name[64], line[128];
	size_t found = 0;
	FILE *file;

	snprintf(name, sizeof(name), "per_cpu/cpu%u/stats", cpu);
	file = tracefs_read(tracefs->at, name);
	if (!file)
		return EXIT_BAD;
	*lost = 0;
	while (fgets(line, sizeof(line), file))
		for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
			unsigned long long count;

			if (sscanf(line, counts[i], &count) != 1)
				continue;
			*lost += count;
			found++;
		}
	fclose(file);
	return found == sizeof(counts) / sizeof(*counts)
		       ? 0
		       : fail("%s/%s: expected what was lost", tracefs->at, name);
}
