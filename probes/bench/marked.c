// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * marked: writes a line of one word to a file, between marks for who counts
 * instructions from outside (probes/functions/mark.h): what the kernel does
 * meanwhile is section 0.
 *   usage: marked WORD FILE [FUNCTION FUNCTION]
 * With two functions of the kernel, section 0 is from the first one's begin to the
 * second one's; a kernel that has not exactly one of each counts the whole. What
 * the compiler adds to a name (.isra.0) is not looked at.
 */
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../functions/mark.h"

/* Where each of two functions begins, by /proc/kallsyms; false unless each is there once. */
static bool find(char **functions, uint64_t *found)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	int seen[2] = { 0, 0 }, i;
	uint64_t address;
	char line[1024], name[256];

	if (!symbols)
		err(1, "/proc/kallsyms");
	while (fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%lx %*c %255s", &address, name) != 2 || !address ||
		    strstr(name, ".cold"))
			continue;
		name[strcspn(name, ".")] = 0;
		for (i = 0; i < 2; i++) {
			if (strcmp(name, functions[i]))
				continue;
			found[i] = address;
			seen[i]++;
		}
	}
	if (ferror(symbols))
		err(1, "/proc/kallsyms");
	fclose(symbols);
	return seen[0] == 1 && seen[1] == 1;
}

static void tell(const uint64_t *addresses)
{
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		err(1, "no memory for code");
	mark_place(code, MARK_PLACE_BEGIN(0), addresses[0]);
	mark_place(code + 64, MARK_PLACE_END(0), addresses[1]);
}

int main(int argc, char **argv)
{
	ssize_t length, wrote;
	uint64_t found[2];
	char line[64];
	int fd;

	if (argc != 3 && argc != 5)
		errx(2, "usage: marked WORD FILE [FUNCTION FUNCTION]");
	length = snprintf(line, sizeof(line), "%s\n", argv[1]);
	if (length >= (ssize_t)sizeof(line))
		errx(2, "%s: too long", argv[1]);
	fd = open(argv[2], O_WRONLY);
	if (fd < 0)
		err(1, "%s", argv[2]);
	if (argc == 5 && find(argv + 3, found))
		tell(found);
	MARK_BEGIN(0);
	wrote = write(fd, line, length);
	MARK_END(0);
	if (wrote != length)
		err(1, "cannot write %s to %s", argv[1], argv[2]);
	return 0;
}
