// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plain loop that `make bench-analysis` compares with: least, mean and largest latency, and
 * anomalies, of a file of pairs of nanoseconds. It reads into one buffer, and does nothing else.
 *
 * usage: loop FILE LEAST LATE_NS
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct pair {
	uint64_t sent;
	uint64_t received;
};

static struct pair buffer[1 << 14];

int main(int argc, char **argv)
{
	uint64_t min = UINT64_MAX, max = 0, sum = 0, count = 0, run = 0, anomalies = 0;
	uint64_t least, late;
	ssize_t got;
	int file;

	if (argc != 4)
		return 2;
	file = open(argv[1], O_RDONLY);
	if (file < 0) {
		perror(argv[1]);
		return 1;
	}
	least = strtoull(argv[2], NULL, 10);
	late = strtoull(argv[3], NULL, 10);
	while ((got = read(file, buffer, sizeof(buffer))) > 0) {
		size_t end = (size_t)got / sizeof(*buffer);

		for (size_t at = 0; at < end; at++) {
			uint64_t latency = buffer[at].received - buffer[at].sent;

			if (latency < min)
				min = latency;
			if (latency > max)
				max = latency;
			sum += latency;
			if (latency >= late) {
				run++;
			} else {
				anomalies += run >= least;
				run = 0;
			}
		}
		count += end;
	}
	anomalies += run >= least;
	printf("%" PRIu64 " packets, min %" PRIu64 ", mean %.3f, max %" PRIu64 ", %" PRIu64
	       " anomalies\n",
	       count, min, count ? (double)sum / (double)count : 0.0, max, anomalies);
	return got < 0;
}
