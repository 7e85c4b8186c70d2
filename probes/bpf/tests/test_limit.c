// SPDX-License-Identifier: GPL-2.0-or-later
/* So many and no more, however many CPUs ask at once. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "limit.h"

#define THREADS 4
#define SECOND	1000000000ULL

struct crowd {
	struct limit limit;
	__u64 most;
	__u32 rate;
	atomic_int waiting;
	atomic_int taken;
};

static void *ask(void *opaque)
{
	struct crowd *crowd = opaque;

	/* Begin at once, or whoever begins first has them all. */
	atomic_fetch_sub(&crowd->waiting, 1);
	while (atomic_load(&crowd->waiting))
		;
	for (int i = 0; i < 50; i++)
		if (limit_take(&crowd->limit, 7 * SECOND + i, crowd->most, crowd->rate))
			atomic_fetch_add(&crowd->taken, 1);
	return NULL;
}

static void check_crowd(__u64 most, __u32 rate, int expected)
{
	for (int round = 0; round < 300; round++) {
		struct crowd crowd = { .most = most, .rate = rate, .waiting = THREADS };
		pthread_t threads[THREADS];

		for (int i = 0; i < THREADS; i++)
			check(!pthread_create(&threads[i], NULL, ask, &crowd), "a thread");
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		check(crowd.taken == expected, "%d taken, not %d", crowd.taken, expected);
	}
}

static int take(struct limit *limit, __u64 now, int times, __u64 most, __u32 rate)
{
	int taken = 0;

	for (int i = 0; i < times; i++)
		taken += limit_take(limit, now, most, rate);
	return taken;
}

static void check_seconds(void)
{
	struct limit limit = {};

	check(take(&limit, 5 * SECOND, 100, 12, 5) == 5, "of one second");
	check(take(&limit, 6 * SECOND - 1, 100, 12, 5) == 0, "of the same");
	check(take(&limit, 6 * SECOND, 3, 12, 5) == 3, "of the next");
	check(take(&limit, 6 * SECOND - 1, 3, 12, 5) == 2, "by a clock that is behind");
	check(take(&limit, 9 * SECOND, 100, 12, 5) == 2, "of all");
	check(take(&limit, 10 * SECOND, 100, 12, 5) == 0, "of all, once more");
	limit_give(&limit);
	check(take(&limit, 11 * SECOND, 100, 12, 5) == 1, "given back");
	check(take(&limit, 11 * SECOND, 1000, 1000, 0) == 1000 - 12, "at any rate");
}

int main(void)
{
	check_seconds();
	check_crowd(20, 0, 20);
	check_crowd(1000, 20, 20);
	puts("ok limit");
	return 0;
}
