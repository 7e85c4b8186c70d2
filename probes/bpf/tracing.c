// SPDX-License-Identifier: GPL-2.0-or-later
/* Programs on the kernel's functions: whether they are called, and how often they were not. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "tracing.h"

#define FTRACE_SYSCTL "/proc/sys/kernel/ftrace_enabled"

int check_ftrace(void)
{
	char text = 0;
	int fd = open(FTRACE_SYSCTL, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (read(fd, &text, 1) != 1)
		text = 0;
	close(fd);
	return text != '0' ? 0
			   : fail("kernel.ftrace_enabled is 0: no hook on a function is called; "
				  "switch it on (sysctl -w kernel.ftrace_enabled=1)");
}

int read_missed(const struct bpf_program *program, __u64 *missed)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size))
		return fail("cannot read how often a program was missed: %s", strerror(errno));
	*missed += info.recursion_misses;
	return 0;
}
