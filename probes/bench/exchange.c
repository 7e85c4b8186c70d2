// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exchange: sends, and where there is a far end takes what it has sent itself, so that
 * nobody waits for another process. It enters the network namespace of each end.
 *   usage: exchange send NETNS ADDRESS SIZE COUNT [SEGMENT]
 *          exchange udp NETNS FAR_NETNS ADDRESS SIZE COUNT [SEGMENT]
 *          exchange tcp|request NETNS FAR_NETNS ADDRESS SIZE COUNT
 *          exchange packet NETNS DEVICE SIZE COUNT
 * send: datagrams that nobody here receives; request: as tcp, and the far end sends as
 * much back; packet: frames by a packet socket. SIZE is
 * the bytes of each call of send(); with SEGMENT the kernel cuts them into datagrams of
 * that many bytes (UDP_SEGMENT), which the far end takes together (UDP_GRO).
 * It goes through WARM_UP calls first. Then it prints "COUNT TAKEN NANOSECONDS", where
 * TAKEN are the calls whose bytes came (send, packet: that the kernel took), and the time
 * is the thread's own. That is section 0 for who counts instructions from outside
 * (probes/functions/mark.h), if the environment has MARKED.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../functions/mark.h"

#define PORT	1024
#define WARM_UP 200
#define LARGEST 65000
#define ROOM	(8 << 20)
/* Of no protocol that a kernel knows: IEEE 802's for local experiments. */
#define EXPERIMENT 0x88b5

static char buffer[LARGEST];

static long long now(void)
{
	struct timespec t;

	/* As in drain.c: of this thread alone. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long number(const char *text, long most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value < 1 || value > most)
		errx(2, "%s: expected a whole number from 1 to %ld", text, most);
	return value;
}

static void enter(const char *netns)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", path);
	close(fd);
}

struct place {
	struct sockaddr_storage address;
	socklen_t length;
	int family;
};

static struct place parse(const char *text)
{
	struct sockaddr_in6 *in6;
	struct place found = {};
	struct sockaddr_in *in;

	in = (struct sockaddr_in *)&found.address;
	in6 = (struct sockaddr_in6 *)&found.address;
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		found.family = in->sin_family = AF_INET;
		in->sin_port = htons(PORT);
		found.length = sizeof(*in);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		found.family = in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(PORT);
		found.length = sizeof(*in6);
	} else {
		errx(2, "%s is no address", text);
	}
	return found;
}

static int make(int family, int type)
{
	int fd = socket(family, type, 0), room = ROOM;

	if (fd < 0)
		err(1, "no socket");
	/* Of datagrams, none may get lost for want of room. */
	if (type != SOCK_STREAM &&
	    (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	     setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room))))
		err(1, "cannot have a buffer of %d bytes", room);
	return fd;
}

static int bound(const struct place *place, int type)
{
	int fd = make(place->family, type), one = 1;

	/* The last one's connection is still known for a while. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (const struct sockaddr *)&place->address, place->length))
		err(1, "cannot bind");
	if (type == SOCK_STREAM && listen(fd, 1))
		err(1, "cannot listen");
	return fd;
}

static int connected(const struct place *place, int type)
{
	int fd = make(place->family, type);

	if (connect(fd, (const struct sockaddr *)&place->address, place->length))
		err(1, "cannot connect");
	return fd;
}

static int open_packet(const char *device)
{
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(EXPERIMENT),
		.sll_ifindex = if_nametoindex(device),
	};
	static const unsigned char head[] = {
		2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98, EXPERIMENT >> 8, EXPERIMENT & 0xff
	};
	int fd;

	if (!to.sll_ifindex)
		err(1, "%s", device);
	/* Protocol 0: it takes nothing that comes in. */
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)))
		err(1, "no packet socket for %s", device);
	memcpy(buffer, head, sizeof(head));
	return fd;
}

/* The bytes that came of those that one call sent. */
static long take(int fd, long size, int flags)
{
	long got = 0;
	ssize_t some;

	while (got < size) {
		some = recv(fd, buffer, sizeof(buffer), flags);
		if (some < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (some <= 0)
			err(1, "cannot receive");
		got += some;
	}
	return got;
}

/* Whether the kernel took it all; a device without room is the only reason for it not to. */
static bool give(int fd, long size)
{
	ssize_t some;
	long left;

	for (left = size; left; left -= some) {
		some = send(fd, buffer, left, 0);
		if (some < 0 && errno == ENOBUFS)
			return false;
		if (some < 0)
			err(1, "cannot send");
	}
	return true;
}

/* Calls whose bytes came. A stream's may be on their way for a moment. */
static long go(int from, int to, long size, long count, bool stream, bool answered)
{
	int flags = stream ? 0 : MSG_DONTWAIT;
	long whole = 0, i;
	bool came;

	for (i = 0; i < count; i++) {
		came = give(from, size) && (to < 0 || take(to, size, flags) == size);
		if (answered)
			came = came && give(to, size) && take(from, size, flags) == size;
		whole += came;
	}
	return whole;
}

static const char usage[] = "usage: exchange send NETNS ADDRESS SIZE COUNT [SEGMENT]\n"
			    "       exchange udp NETNS FAR_NETNS ADDRESS SIZE COUNT [SEGMENT]\n"
			    "       exchange tcp|request NETNS FAR_NETNS ADDRESS SIZE COUNT\n"
			    "       exchange packet NETNS DEVICE SIZE COUNT";

int main(int argc, char **argv)
{
	const struct sched_param first = { .sched_priority = 1 };
	bool marked = getenv("MARKED") && *getenv("MARKED");
	int from, to = -1, listener, one = 1, segment = 0;
	long size, count, taken;
	long long begin, took;
	struct place place;
	const char *mode;
	bool far, stream, answered;

	mode = argc > 1 ? argv[1] : "";
	answered = !strcmp(mode, "request");
	stream = answered || !strcmp(mode, "tcp");
	far = stream || !strcmp(mode, "udp");
	if (!far && strcmp(mode, "send") && strcmp(mode, "packet"))
		errx(2, "%s", usage);
	argv += far ? 3 : 2;
	argc -= far ? 3 : 2;
	if (argc < 4 || argc > 5 || (argc == 5 && *mode != 'u' && *mode != 's'))
		errx(2, "%s", usage);
	size = number(argv[2], LARGEST);
	count = number(argv[3], 1L << 40);
	if (argc == 5)
		segment = number(argv[4], size);
	/* No other thread in between: who counts instructions from outside cannot tell it. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		err(1, "cannot run before all other threads");

	if (!strcmp(mode, "packet")) {
		enter(argv[0]);
		if (size < (long)sizeof(struct ether_header))
			errx(2, "%s: a frame has at least %zu bytes", argv[2],
			     sizeof(struct ether_header));
		from = open_packet(argv[1]);
	} else if (far) {
		int type = stream ? SOCK_STREAM : SOCK_DGRAM;

		place = parse(argv[1]);
		enter(argv[0]);
		listener = bound(&place, type);
		enter(argv[-1]);
		from = connected(&place, type);
		to = listener;
		if (type == SOCK_STREAM) {
			to = accept(listener, NULL, NULL);
			if (to < 0 ||
			    setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
			    setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
				err(1, "no connection");
		} else if (segment && setsockopt(to, IPPROTO_UDP, UDP_GRO, &one, sizeof(one))) {
			err(1, "cannot take datagrams together");
		}
	} else {
		place = parse(argv[1]);
		enter(argv[0]);
		from = connected(&place, SOCK_DGRAM);
	}
	if (segment && setsockopt(from, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
		err(1, "cannot have datagrams cut");

	go(from, to, size, WARM_UP, stream, answered);
	if (marked)
		mark_on();
	begin = now();
	MARK_BEGIN(0);
	taken = go(from, to, size, count, stream, answered);
	MARK_END(0);
	took = now() - begin;
	if (marked)
		mark_off();
	printf("%ld %ld %lld\n", count, taken, took);
	return 0;
}
