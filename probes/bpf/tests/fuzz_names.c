// SPDX-License-Identifier: GPL-2.0-or-later
/* Any bytes in place of a kernel's types: names are taken out of them. */
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "check.h"
#include "fuzz.h"
#include "names.h"

static void check_names(const struct names *names)
{
	char room[32];

	for (size_t value = 0; value <= names->room; value++)
		check(*names_get(names, value, room, sizeof(room)) || value < names->room,
		      "no name for %zu", value);
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	struct kernel_names names;
	struct btf *btf;

	libbpf_set_print(NULL);
	btf = btf__new(data, size);
	if (!btf)
		return 0;
	if (!kernel_names_read(&names, btf)) {
		check_names(&names.contexts);
		check_names(&names.reasons);
		kernel_names_free(&names);
	}
	btf__free(btf);
	return 0;
}
