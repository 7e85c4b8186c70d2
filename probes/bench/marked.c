// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * marked: writes a line of one word to a file, between marks for who counts
 * instructions from outside (probes/functions/mark.h): what the kernel does
 * meanwhile is section 0.
 *   usage: marked WORD FILE [BEGINS ENDS]
 * BEGINS and ENDS are names of kernel functions, separated by commas. Section 0 then
 * is from where the first one of BEGINS that the kernel has is called to the same of
 * ENDS, as soon as the word is written; a kernel that has none of one of them counts
 * the whole. What the compiler adds to a name (.isra.0) is not looked at. What was found
 * is kept in PLACES until the next boot: the kernel has a hundred thousand names.
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

#define LONGEST 256
#define PLACES	"/run/skblab-places"
/*
 * RCU frees what programs have left (inodes, areas of memory) when all of this is over,
 * after a few ticks, and in the softirq of whoever runs then.
 */
#define SETTLE_US 200000

/* The number of a function in a list, from 1; 0 if it is not there. */
static unsigned int place_in(const char *list, const char *function)
{
	unsigned int number = 1;
	size_t length;

	for (;; number++) {
		length = strcspn(list, ",");
		if (length == strlen(function) && !strncmp(list, function, length))
			return number;
		if (!list[length])
			return 0;
		list += length + 1;
	}
}

/*
 * Where the kernel has the first function of either list that it has, by
 * /proc/kallsyms; false if it has none of one. Of several of one name, the first.
 */
static bool find(char **lists, uint64_t *found)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	unsigned int best[2] = { 0, 0 }, number, i;
	char line[1024], name[LONGEST];
	uint64_t address;

	if (!symbols)
		err(1, "/proc/kallsyms");
	while (fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%lx %*c %255s", &address, name) != 2 || !address ||
		    strstr(name, ".cold"))
			continue;
		name[strcspn(name, ".")] = 0;
		for (i = 0; i < 2; i++) {
			number = place_in(lists[i], name);
			if (!number || (best[i] && best[i] <= number))
				continue;
			found[i] = address;
			best[i] = number;
		}
	}
	if (ferror(symbols))
		err(1, "/proc/kallsyms");
	fclose(symbols);
	return best[0] && best[1];
}

/* The same, of the last time if it was for the same lists; nothing found is 0 and 0. */
static bool look_up(char **lists, uint64_t *found)
{
	char begins[LONGEST], ends[LONGEST];
	FILE *places = fopen(PLACES, "r");
	int read = 0;

	if (places) {
		read = fscanf(places, "%255s %255s %lx %lx", begins, ends, &found[0], &found[1]);
		fclose(places);
	}
	if (read != 4 || strcmp(begins, lists[0]) || strcmp(ends, lists[1])) {
		if (!find(lists, found))
			found[0] = found[1] = 0;
		places = fopen(PLACES, "w");
		if (!places)
			err(1, PLACES);
		fprintf(places, "%s %s %lx %lx\n", lists[0], lists[1], found[0], found[1]);
		if (fclose(places))
			err(1, PLACES);
	}
	return found[0] && found[1];
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
	bool placed;
	int fd;

	if (argc != 3 && argc != 5)
		errx(2, "usage: marked WORD FILE [BEGINS ENDS]");
	length = snprintf(line, sizeof(line), "%s\n", argv[1]);
	if (length >= (ssize_t)sizeof(line))
		errx(2, "%s: too long", argv[1]);
	fd = open(argv[2], O_WRONLY);
	if (fd < 0)
		err(1, "%s", argv[2]);
	placed = argc == 5 && look_up(argv + 3, found);
	usleep(SETTLE_US);
	mark_on();
	if (placed)
		tell(found);
	MARK_BEGIN(0);
	wrote = write(fd, line, length);
	MARK_END(0);
	mark_off();
	if (wrote != length)
		err(1, "cannot write %s to %s", argv[1], argv[2]);
	return 0;
}
