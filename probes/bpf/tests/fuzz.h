/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What libFuzzer calls with each input (runners/skblab/commands/fuzz.py). */
#ifndef SKBLAB_FUZZ_H
#define SKBLAB_FUZZ_H

#include <linux/types.h>
#include <stddef.h>

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

#endif /* SKBLAB_FUZZ_H */
