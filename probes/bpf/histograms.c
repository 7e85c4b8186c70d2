// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The patched kernel's own histograms as a source: read at the beginning and again for
 * each document, of which the difference is told. They are never set to zero: others may
 * be reading. Nothing is attached, so neither BPF nor types of the kernel are needed.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "snapshot.h"
#include "source.h"

#define NET_PATH "/sys/kernel/debug/net_path"
#define NAPI	 NET_PATH "/napi"
#define RESET	 NET_PATH "/reset"
#define NETNS	 NET_PATH "/netns"

/* Readings that are tried until no packet has passed a point between two. */
#define SETTLE 8

struct state {
	struct snapshot before;
	bool polls; /* were counted at the beginning */
	bool over;
	int resets;   /* of RESET */
	int switches; /* of STAMPS_SYSCTL */
};

/* Why the file cannot be opened, and how to mend it; EXIT_BAD. */
static int fail_open(int error)
{
	if (error == EACCES || error == EPERM)
		return fail("no permission to read " HISTOGRAMS "; run as root");
	if (!access(STAMPS_SYSCTL, F_OK))
		return fail("no " HISTOGRAMS ", though this kernel has net.core.path_trace; mount "
			    "debugfs there: mount -t debugfs none /sys/kernel/debug");
	return fail("no " HISTOGRAMS "; boot a kernel with the skblab patches and "
		    "CONFIG_NET_PATH_TRACE=y, or use --source hooks");
}

static int read_now(struct snapshot *snapshot)
{
	FILE *file = fopen(HISTOGRAMS, "re");
	char why[128];
	int ret = 0;

	if (!file)
		return fail_open(errno);
	if (snapshot_read(snapshot, file, why, sizeof(why)))
		ret = fail(HISTOGRAMS " has \"%s\", which is not as expected; build the probe and "
				      "the kernel from the same skblab",
			   why);
	else if (ferror(file))
		ret = fail("cannot read " HISTOGRAMS ": %s", strerror(errno));
	if (ret)
		snapshot_free(snapshot);
	fclose(file);
	return ret;
}

/* Read until nothing has changed from one reading to the next: then what it begins with and
 * what it ends with are of the same packets. While packets come all the time that may never be:
 * then the quickest reading has the fewest that came meanwhile.
 */
static int read_settled(struct snapshot *best)
{
	struct snapshot last = {};
	double least = INFINITY;

	memset(best, 0, sizeof(*best));
	for (int i = 0; i <= SETTLE; i++) {
		struct snapshot next;
		double took = now_seconds();
		bool settled;

		if (read_now(&next)) {
			snapshot_free(best);
			return EXIT_BAD;
		}
		took = now_seconds() - took;
		settled = i && snapshot_same(&last, &next);
		/* Its buckets are not looked at. */
		last = next;
		if (settled || took < least) {
			snapshot_free(best);
			*best = next;
			least = took;
		} else {
			snapshot_free(&next);
		}
		if (settled)
			break;
	}
	return 0;
}

static bool is_one(const char *path)
{
	FILE *file = fopen(path, "re");
	bool one = file && fgetc(file) == '1';

	if (file)
		fclose(file);
	return one;
}

static bool polls_counted(void)
{
	return is_one(NAPI);
}

static int check(const struct btf *btf, bool running, struct report *report)
{
	struct snapshot snapshot;
	int ret;

	(void)btf;
	(void)running;
	(void)report;
	ret = read_now(&snapshot);
	if (ret)
		return ret;
	snapshot_free(&snapshot);
	puts("histograms");
	return 0;
}

static void destroy(void *opaque)
{
	struct state *state = opaque;

	if (state->resets >= 0)
		close(state->resets);
	if (state->switches >= 0)
		close(state->switches);
	snapshot_free(&state->before);
	free(state);
}

/* Tells of writes to a file, or is -1. */
static int watch(const char *path)
{
	int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (events >= 0)
		inotify_add_watch(events, path, IN_MODIFY);
	return events;
}

static bool was_written(int events)
{
	char event[sizeof(struct inotify_event) + NAME_MAX + 1];

	return events >= 0 && read(events, event, sizeof(event)) > 0;
}

/* Whether packets of all namespaces are counted; if not, the reason is printed. */
static bool of_all(void)
{
	FILE *file = fopen(NETNS, "re");
	unsigned long long cookie = 0;
	bool known = file && fscanf(file, "%llu", &cookie) == 1;

	if (file)
		fclose(file);
	if (!known || !cookie)
		return true;
	fail(NETNS " is %llu: the kernel counts packets of one namespace alone; write 0 to it, or "
		   "use --source hooks --netns",
	     cookie);
	return false;
}

static void *start(const struct settings *settings, const struct btf *btf, struct report *report)
{
	struct state *state = calloc(1, sizeof(*state));

	(void)settings;
	(void)btf;
	(void)report;
	if (!state) {
		fail("out of memory");
		return NULL;
	}
	state->resets = watch(RESET);
	state->switches = watch(STAMPS_SYSCTL);
	state->polls = polls_counted();
	if (of_all() && !read_settled(&state->before))
		return state;
	destroy(state);
	return NULL;
}

/* The kernel goes on, for others or for nobody. */
static void stop(void *opaque)
{
	struct state *state = opaque;

	state->over = true;
}

/* By a write, or because stamps were switched off and on again. */
static bool was_reset(const struct state *state)
{
	bool switched = was_written(state->switches);

	return was_written(state->resets) || (switched && is_one(STAMPS_SYSCTL));
}

static int read_all(void *opaque, struct report *report)
{
	struct state *state = opaque;
	struct snapshot now;
	int ret = state->over ? read_settled(&now) : read_now(&now);

	if (ret)
		return ret;
	if (was_reset(state) || !snapshot_subtract(&now, &state->before))
		ret = fail(
			"the kernel's histograms were set to zero meanwhile, by a write to " RESET
			" or by a change of net.core.path_trace; measure again");
	else if (snapshot_report(&now, report))
		ret = fail("no room for so many kinds of buckets");
	report->has_polls = state->polls && polls_counted();
	snapshot_free(&now);
	return ret;
}

const struct source histograms_source = {
	.name = "histograms",
	.stamps = 1,
	.no_bpf = true,
	.check = check,
	.start = start,
	.stop = stop,
	.read = read_all,
	.destroy = destroy,
};
