/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The smallest test harness: a failed check says where, and ends the program. */
#ifndef SKBLAB_CHECK_H
#define SKBLAB_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define check(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, #condition);  \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif /* SKBLAB_CHECK_H */
