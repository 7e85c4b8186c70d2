// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether the clock of stamps can be relied upon. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "process.h"

/* In the year 2242, and before what timers can hold. */
#define FAR_AWAY (1LL << 33)

static __s64 read_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Both clocks run at one rate, so this changes when one is set, and by reading them: the
 * quickest of some readings is the best.
 */
static __s64 realtime_ahead(void)
{
	__s64 ahead = 0, least = INT64_MAX;

	for (int i = 0; i < 16; i++) {
		__s64 before = read_ns(CLOCK_MONOTONIC), now = read_ns(CLOCK_REALTIME);
		__s64 took = read_ns(CLOCK_MONOTONIC) - before;

		if (took < least) {
			least = took;
			ahead = now - before - took / 2;
		}
	}
	return ahead;
}

static int read_tai(int *seconds)
{
	struct timex timex = {};

	if (adjtimex(&timex) < 0)
		return fail("cannot read by what CLOCK_TAI is ahead (adjtimex): %s",
			    strerror(errno));
	*seconds = timex.tai;
	return 0;
}

int clock_begin(struct clock_watch *watch, struct clock_report *report)
{
	struct itimerspec when = { .it_value.tv_sec = FAR_AWAY };

	*report = (struct clock_report){};
	watch->fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (watch->fd < 0 ||
	    timerfd_settime(watch->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL)) {
		fail("cannot watch the clock: %s", strerror(errno));
		if (watch->fd >= 0)
			close(watch->fd);
		return EXIT_BAD;
	}
	watch->ahead_ns = realtime_ahead();
	return read_tai(&report->tai_start);
}

int clock_look(const struct clock_watch *watch, struct clock_report *report)
{
	__u64 fired;

	if (read(watch->fd, &fired, sizeof(fired)) == sizeof(fired) || errno == EAGAIN)
		return 0;
	if (errno != ECANCELED)
		return fail("cannot watch the clock: %s", strerror(errno));
	report->steps++;
	return 0;
}

int clock_end(struct clock_watch *watch, struct clock_report *report)
{
	int ret = clock_look(watch, report);

	close(watch->fd);
	if (report->steps)
		report->stepped_ns = realtime_ahead() - watch->ahead_ns;
	return ret ?: read_tai(&report->tai_end);
}
