// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Print where the running kernel has what tells of which type an object is, for
 * objects.h: addresses of variables, by /proc/kallsyms, and places in structures,
 * by BTF. A line each: NAME HEX. It ends with 1 where the kernel lacks one of them.
 *   usage: layout
 */
#include <bpf/btf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const variables[] = {
	"init_top_pgt", "page_offset_base", "vmemmap_base",
	"slab_caches",	"pcpu_base_addr",   "pcpu_unit_size",
};
enum { VARIABLES = sizeof(variables) / sizeof(*variables) };

/* Return whether a member is in a structure, also in one without a name; its place in bytes. */
static bool find_member(const struct btf *btf, unsigned int id, const char *name, unsigned int *at)
{
	const struct btf_type *type;
	unsigned int i, within;

	type = btf__type_by_id(btf, btf__resolve_type(btf, id));
	if (!type || !btf_is_composite(type))
		return false;
	for (i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;
		const char *called = btf__name_by_offset(btf, member->name_off);

		*at = btf_member_bit_offset(type, i) / 8;
		if (!strcmp(called, name))
			return true;
		if (!*called && find_member(btf, member->type, name, &within)) {
			*at += within;
			return true;
		}
	}
	return false;
}

static bool print_member(const struct btf *btf, const char *structure, const char *name)
{
	int id = btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT);
	unsigned int at;

	if (id < 0 || !find_member(btf, id, name, &at))
		return false;
	printf("%s %x\n", name, at);
	return true;
}

static bool print_variables(void)
{
	char line[512], name[256], kind;
	unsigned int i, found = 0;
	uint64_t address;
	FILE *file = fopen("/proc/kallsyms", "r");

	while (file && found < VARIABLES && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 " %c %255s", &address, &kind, name) != 3 || !address)
			continue;
		for (i = 0; i < VARIABLES; i++)
			if (!strcmp(name, variables[i])) {
				printf("%s %" PRIx64 "\n", name, address);
				found++;
			}
	}
	if (file)
		fclose(file);
	return found == VARIABLES;
}

/* The end of memory below 4 GiB: what is above is somewhere else for QEMU. */
static bool print_memory(void)
{
	FILE *file = fopen("/proc/iomem", "r");
	uint64_t first, last, end = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " : System RAM", &first, &last) == 2 &&
		    strstr(line, "System RAM") && last < 1ULL << 32 && last + 1 > end)
			end = last + 1;
	if (file)
		fclose(file);
	printf("memory_end %" PRIx64 "\n", end);
	return end;
}

int main(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *page;
	int id;

	if (!btf) {
		fputs("layout: the kernel does not tell its types\n", stderr);
		return 1;
	}
	id = btf__find_by_name_kind(btf, "page", BTF_KIND_STRUCT);
	page = id < 0 ? NULL : btf__type_by_id(btf, id);
	if (page)
		printf("page %x\n", page->size);
	/* Until 5.16 a slab was a page. */
	if (!page ||
	    !(print_member(btf, "slab", "slab_cache") || print_member(btf, "page", "slab_cache")) ||
	    !print_member(btf, "kmem_cache", "name") || !print_member(btf, "kmem_cache", "size") ||
	    !print_member(btf, "kmem_cache", "object_size") ||
	    !print_member(btf, "kmem_cache", "list") || !print_variables() || !print_memory()) {
		fputs("layout: the kernel lacks a variable or a member that is looked for\n",
		      stderr);
		return 1;
	}
	return 0;
}
