// SPDX-License-Identifier: GPL-2.0-or-later
/* Network namespaces made by `ip netns`, and the devices in them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "netns.h"
#include "process.h"

/* Opens a namespace made by `ip netns`. */
static int open_netns(const char *netns)
{
	char path[NAME_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

int enter_netns(const char *netns)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int there = here < 0 ? -1 : open_netns(netns);
	int ret = there < 0 ? -1 : setns(there, CLONE_NEWNET), error = errno;

	if (there >= 0)
		close(there);
	if (ret && here >= 0)
		close(here);
	errno = error;
	return ret ? -1 : here;
}

int leave_netns(int here)
{
	int ret = setns(here, CLONE_NEWNET);

	close(here);
	return ret;
}

int fail_netns(const char *option, const char *netns)
{
	return fail("%s %s: cannot enter it: %s; `ip netns list` shows what there is", option,
		    netns, errno == EINVAL ? "No network namespace" : strerror(errno));
}

int index_of_device(const char *device)
{
	char name[IF_NAMESIZE], *end;
	int index = if_nametoindex(device);
	long number;

	if (index)
		return index;
	number = strtol(device, &end, 10);
	if (!*device || *end || number < 1 || number > INT_MAX)
		return 0;
	return if_indextoname(number, name) ? number : 0;
}
