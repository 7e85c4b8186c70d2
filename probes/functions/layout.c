// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Print where the running kernel has what tells of which type an object is, for
 * objects.h: addresses of variables, by /proc/kallsyms, and places in structures,
 * by BTF. A line each: NAME HEX. It ends with 1 where the kernel lacks one of
 * them. Of structures that are named, and that the kernel has, these lines follow:
 *   struct NAME SIZE
 *   field NAME FIRST END      its first byte, and the one behind it
 *   usage: layout [STRUCTURE...]
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
/* Structures inside of structures are told by their fields so deep, if they are larger than a word. */
enum { DEPTH = 2, WORD = 8 };
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
	bool known[VARIABLES] = { false };
	uint64_t address;
	FILE *file = fopen("/proc/kallsyms", "r");

	while (file && found < VARIABLES && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 " %c %255s", &address, &kind, name) != 3 || !address)
			continue;
		/* A module may have one of that name. */
		if (strchr(line, '['))
			continue;
		for (i = 0; i < VARIABLES; i++)
			if (!known[i] && !strcmp(name, variables[i])) {
				printf("%s %" PRIx64 "\n", name, address);
				known[i] = true;
				found++;
			}
	}
	if (file)
		fclose(file);
	return found == VARIABLES;
}

/* Whether a member is the name that struct_group() gives to those of the one before it. */
static bool is_group(const struct btf *btf, const struct btf_type *type, unsigned int i)
{
	const struct btf_type *one, *other;
	const struct btf_member *members = btf_members(type);

	if (!i || !btf_is_union(type) || btf_vlen(type) != 2 ||
	    *btf__name_by_offset(btf, members[i - 1].name_off))
		return false;
	one = btf__type_by_id(btf, members[i - 1].type);
	other = btf__type_by_id(btf, members[i].type);
	return one && other && btf_is_struct(one) && btf_is_struct(other) && btf_vlen(one) &&
	       btf_vlen(one) == btf_vlen(other) &&
	       btf_members(one)->name_off == btf_members(other)->name_off;
}

/*
 * Print the fields of a structure that is at `bits`, and has `inside` before their names. What has
 * no name is what it has, and so is a structure in it, down to some depth.
 */
static void print_fields(const struct btf *btf, unsigned int id, unsigned int bits,
			 const char *inside, int depth)
{
	const struct btf_type *type = btf__type_by_id(btf, btf__resolve_type(btf, id));
	unsigned int i;
	char path[256];

	if (!type || !btf_is_composite(type))
		return;
	for (i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;
		const char *called = btf__name_by_offset(btf, member->name_off);
		unsigned int first = bits + btf_member_bit_offset(type, i);
		long length = btf_member_bitfield_size(type, i);

		const struct btf_type *own =
			btf__type_by_id(btf, btf__resolve_type(btf, member->type));

		if (!*called) {
			print_fields(btf, member->type, first, inside, depth);
			continue;
		}
		if (!length)
			length = 8 * (long)btf__resolve_size(btf, member->type);
		/* Marks of groups, and arrays at an end, have none. */
		if (length <= 0 || is_group(btf, type, i))
			continue;
		if (depth < DEPTH && own && btf_is_struct(own) && own->size > WORD) {
			snprintf(path, sizeof(path), "%s%s.", inside, called);
			print_fields(btf, member->type, first, path, depth + 1);
			continue;
		}
		printf("field %s%s %u %lu\n", inside, called, first / 8, (first + length + 7) / 8);
	}
}

static void print_structure(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	if (id < 0)
		return;
	printf("struct %s %u\n", name, btf__type_by_id(btf, id)->size);
	print_fields(btf, id, 0, "", 0);
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

int main(int argc, char **argv)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *page;
	int id, i;

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
	for (i = 1; i < argc; i++)
		print_structure(btf, argv[i]);
	return 0;
}
