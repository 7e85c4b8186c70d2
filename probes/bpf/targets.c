// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions by name: whether the running kernel has them, and whether they can be traced. */
#include <bpf/btf.h>
#include <stdlib.h>
#include <string.h>

#include "targets.h"

/* As KSYM_NAME_LEN was for long. */
#define LONGEST_NAME 128
#define SIMILAR	     3

static void note_symbol(struct target *target, const char *address, const char *name,
			const char *module)
{
	size_t size = strlen(target->name);

	if (strncmp(name, target->name, size))
		return;
	if (name[size] == '.') {
		target->cloned = true;
	} else if (!name[size]) {
		target->symbols++;
		target->address = strtoull(address, NULL, 16);
		snprintf(target->module, sizeof(target->module), "%s", module);
	}
}

void targets_read_symbols(struct target *targets, size_t count, FILE *file)
{
	char *line = NULL;
	size_t room = 0;

	/* address type name [module] */
	while (getline(&line, &room, file) > 0) {
		char *rest = line, *address, *type, *name, *module = "";

		address = strsep(&rest, " ");
		type = strsep(&rest, " ");
		name = strsep(&rest, "\t\n");
		if (!name || !type || !strchr("tTwW", *type))
			continue;
		if (rest && *rest == '[') {
			module = rest + 1;
			module[strcspn(module, "]\n")] = '\0';
		}
		for (size_t i = 0; i < count; i++)
			note_symbol(&targets[i], address, name, module);
	}
	free(line);
}

void targets_read_listed(struct target *targets, size_t count, FILE *file)
{
	char *line = NULL;
	size_t room = 0;

	for (size_t i = 0; i < count; i++)
		targets[i].listed = !file;
	/* name [module] */
	while (file && getline(&line, &room, file) > 0) {
		line[strcspn(line, " \t\n")] = '\0';
		for (size_t i = 0; i < count; i++)
			targets[i].listed |= !strcmp(targets[i].name, line);
	}
	free(line);
}

static bool has_function(const struct btf *btf, const char *name)
{
	return btf && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
}

void target_read_types(struct target *target, const struct btf *kernel)
{
	struct btf *module;

	target->typed = has_function(kernel, target->name);
	if (target->typed || !kernel || !*target->module)
		return;
	module = btf__load_module_btf(target->module, (struct btf *)kernel);
	target->typed = has_function(module, target->name);
	btf__free(module);
}

unsigned int letters_apart(const char *one, const char *other, unsigned int limit)
{
	size_t width = strlen(other);
	unsigned int row[LONGEST_NAME + 1], diagonal, least = 0;

	if (width > LONGEST_NAME)
		return limit;
	for (size_t i = 0; i <= width; i++)
		row[i] = i;
	for (; *one && least < limit; one++) {
		diagonal = row[0];
		least = ++row[0];
		for (size_t i = 1; i <= width; i++) {
			unsigned int best = diagonal + (*one != other[i - 1]);

			if (row[i] + 1 < best)
				best = row[i] + 1;
			if (row[i - 1] + 1 < best)
				best = row[i - 1] + 1;
			diagonal = row[i];
			row[i] = best;
			if (best < least)
				least = best;
		}
	}
	return least < limit && row[width] < limit ? row[width] : limit;
}

/* Write "; similar: a, b", or nothing. */
static void similar(const struct btf *kernel, const char *name, char *text, size_t size)
{
	/* A third of the letters at most: else anything is similar to a short name. */
	unsigned int limit = strlen(name) / 3 + 1, apart[SIMILAR];
	const char *found[SIMILAR];
	size_t count = 0, written = 0;

	for (__u32 id = 1; id < btf__type_cnt(kernel); id++) {
		const struct btf_type *type = btf__type_by_id(kernel, id);
		const char *other =
			btf_is_func(type) ? btf__name_by_offset(kernel, type->name_off) : NULL;
		unsigned int worst = count < SIMILAR ? limit : apart[SIMILAR - 1];
		unsigned int distance = other ? letters_apart(name, other, worst) : worst;
		size_t place;

		if (distance >= worst || (count && !strcmp(found[count - 1], other)))
			continue;
		count += count < SIMILAR;
		for (place = count - 1; place > 0 && apart[place - 1] > distance; place--) {
			apart[place] = apart[place - 1];
			found[place] = found[place - 1];
		}
		apart[place] = distance;
		found[place] = other;
	}
	*text = '\0';
	for (size_t i = 0; i < count && written < size; i++)
		written += snprintf(text + written, size - written, "%s%s",
				    i ? ", " : "; similar: ", found[i]);
}

bool target_fault_of_ftrace(const struct target *target, const struct btf *kernel, char *text,
			    size_t size)
{
	char others[SIMILAR * (LONGEST_NAME + 2) + 16] = "";

	if (target->symbols > 1)
		snprintf(text, size,
			 "this kernel has %u functions of that name, and which of them "
			 "would be traced is not known",
			 target->symbols);
	else if (!target->symbols && target->cloned)
		snprintf(text, size,
			 "the compiler made a function of another name of it, which "
			 "/proc/kallsyms has (%s.…): name that one",
			 target->name);
	else if (!target->symbols && target->typed)
		snprintf(text, size,
			 "the compiler inlined it wherever it is called, so that there "
			 "is nothing to trace");
	else if (!target->symbols) {
		/* Whoever named it may have meant another one. */
		if (!target->optional && kernel)
			similar(kernel, target->name, others, sizeof(others));
		snprintf(text, size, "this kernel has no such function%s", others);
	} else if (!target->listed)
		snprintf(text, size, "this kernel lets nobody trace it (notrace)");
	else
		return false;
	return true;
}

bool target_fault(const struct target *target, const struct btf *kernel, char *text, size_t size)
{
	if (target_fault_of_ftrace(target, kernel, text, size))
		return true;
	if (target->typed)
		return false;
	snprintf(text, size,
		 "this kernel has no types (BTF) of it, without which programs "
		 "cannot be attached to it");
	return true;
}
