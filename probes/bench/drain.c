// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * drain: binds a UDP socket, or a packet socket to a device, that can hold many packets,
 * waits until told by a line on standard input, then reads what is queued, and says how
 * long that took. The loop does nothing but recv(), so that the time is the kernel's.
 *   usage: drain ADDRESS PORT [marked|remote]
 *          drain packet DEVICE [marked|remote]
 * Prints "ready" when bound; per line read, "PACKETS NANOSECONDS". What is timed is
 * section 1 for who counts instructions from outside (probes/functions/mark.h), if
 * "marked" is said. With "remote" it is section MARK_OTHER, and its memory is on node 1.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/mempolicy.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../functions/mark.h"

#define ROOM (256 << 20)

static long long now(void)
{
	struct timespec t;

	/* Of this thread alone: what else the guest does meanwhile is not a packet's. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int bind_packet(const char *device)
{
	struct sockaddr_ll from = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (!from.sll_ifindex || bind(fd, (struct sockaddr *)&from, sizeof(from)))
		err(1, "no packet socket for %s", device);
	return fd;
}

static int bind_udp(const char *address, const char *port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd, ret;

	in.sin_port = in6.sin6_port = htons(atoi(port));
	if (inet_pton(AF_INET, address, &in.sin_addr) == 1) {
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		ret = bind(fd, (struct sockaddr *)&in, sizeof(in));
	} else if (inet_pton(AF_INET6, address, &in6.sin6_addr) == 1) {
		fd = socket(AF_INET6, SOCK_DGRAM, 0);
		ret = bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	} else {
		errx(2, "%s is no address", address);
	}
	if (ret)
		err(1, "cannot bind %s port %s", address, port);
	return fd;
}

static int bind_socket(const char *address, const char *port)
{
	int room = ROOM, fd;

	fd = strcmp(address, "packet") ? bind_udp(address, port) : bind_packet(port);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		err(1, "cannot have a receive buffer of %d bytes", room);
	return fd;
}

int main(int argc, char **argv)
{
	/* A page that nothing else is on, and that nobody has asked for yet. */
	static char buffer[4096] __attribute__((aligned(4096)));
	const struct sched_param first = { .sched_priority = 1 };
	const bool remote = argc == 4 && !strcmp(argv[3], "remote");
	const unsigned long node = 1UL << 1;
	char line[16];
	int fd;

	if (argc != 3 && (argc != 4 || (strcmp(argv[3], "marked") && !remote)))
		errx(2, "usage: drain ADDRESS PORT|packet DEVICE [marked|remote]");
	if (remote && syscall(SYS_set_mempolicy, MPOL_BIND, &node, 8 * sizeof(node)))
		err(1, "there is no memory on NUMA node 1");
	fd = bind_socket(argv[1], argv[2]);
	if (argc == 4)
		mark_on();
	/* No other thread in between: who counts instructions from outside cannot tell it. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		err(1, "cannot run before all other threads");
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		long long packets = 0, begin = now(), took;

		if (remote)
			MARK_BEGIN(MARK_OTHER);
		else
			MARK_BEGIN(1);
		while (recv(fd, buffer, 2048, MSG_DONTWAIT) >= 0)
			packets++;
		if (remote)
			MARK_END(MARK_OTHER);
		else
			MARK_END(1);
		took = now() - begin;
		if (errno != EAGAIN)
			err(1, "cannot receive");
		printf("%lld %lld\n", packets, took);
	}
	if (argc == 4)
		mark_off();
	return 0;
}
