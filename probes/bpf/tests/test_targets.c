// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions by name, in lists as a kernel has them. */
#include <bpf/btf.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "targets.h"

static const char symbols[] = "ffffffff81000010 T udp_rcv\n"
			      "0000000000000000 t twice\n"
			      "0000000000000000 t twice\n"
			      "0000000000000000 D udp_table\n"
			      "0000000000000000 t made.constprop.0\n"
			      "0000000000000000 t other.isra.0\n"
			      "0000000000000000 t veth_poll\t[veth]\n"
			      "0000000000000000 T do_syscall_64\n"
			      "0000000000000000 T memcpy\n"
			      "odd\n"
			      "\n";
static const char listed[] = "udp_rcv\ntwice\nveth_poll [veth]\nmemcpy\nother.isra.0\n";

static FILE *file_of(const char *text)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");

	check(file, "memory");
	return file;
}

static void add_function(struct btf *btf, const char *name)
{
	int prototype = btf__add_func_proto(btf, 0);

	check(prototype > 0 && btf__add_func(btf, name, BTF_FUNC_GLOBAL, prototype) > 0, "%s",
	      name);
}

static struct target look_up(const struct btf *btf, const char *name, const char *list)
{
	struct target target = { .name = name };
	FILE *file = file_of(symbols);

	targets_read_symbols(&target, 1, file);
	fclose(file);
	file = list ? file_of(list) : NULL;
	targets_read_listed(&target, 1, file);
	if (file)
		fclose(file);
	target_read_types(&target, btf);
	return target;
}

/* What is said of a name; NULL if nothing speaks against it. */
static const char *fault(const struct btf *btf, const char *name, const char *list)
{
	static char text[512];
	struct target target = look_up(btf, name, list);

	return target_fault(&target, btf, text, sizeof(text)) ? text : NULL;
}

static void check_fault(const struct btf *btf, const char *name, const char *expected)
{
	const char *said = fault(btf, name, listed);

	check(said && strstr(said, expected), "%s: %s", name, said ?: "nothing");
}

static void check_faults(void)
{
	static const char *const functions[] = { "udp_rcv", "twice",	     "inlined",
						 "made",    "do_syscall_64", "veth_poll" };
	struct btf *btf = btf__new_empty();

	check(btf, "memory");
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		add_function(btf, functions[i]);
	check(!fault(btf, "udp_rcv", listed), "it can be traced");
	check(!fault(btf, "veth_poll", listed), "one of a module can be traced");
	check(!fault(btf, "do_syscall_64", NULL), "without a list nothing is known");
	check_fault(btf, "twice", "2 functions of that name");
	check_fault(btf, "inlined", "inlined");
	check_fault(btf, "made", "of another name");
	check_fault(btf, "do_syscall_64", "notrace");
	check_fault(btf, "memcpy", "no types");
	check_fault(btf, "udp_table", "no such function");
	check_fault(btf, "udp_rvc", "no such function; similar: udp_rcv");
	check(!strstr(fault(btf, "xyz", listed), "similar"), "nothing is similar");
	btf__free(btf);
}

/* It needs no types, and takes what the compiler renamed. */
static void check_ftrace_faults(void)
{
	static const struct {
		const char *name;
		const char *expected;
	} faults[] = {
		{ "udp_rcv", NULL },
		{ "memcpy", NULL },
		{ "other.isra.0", NULL },
		{ "other", "/proc/kallsyms has (other.…)" },
		{ "twice", "2 functions of that name" },
		{ "do_syscall_64", "notrace" },
		{ "udp_rvc", "no such function" },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		struct target target = look_up(NULL, faults[i].name, listed);
		const char *expected = faults[i].expected;
		char text[512] = "";

		check(target_fault_of_ftrace(&target, NULL, text, sizeof(text)) == !!expected, "%s",
		      faults[i].name);
		check(!expected || strstr(text, expected), "%s: %s", faults[i].name, text);
	}
	check(look_up(NULL, "udp_rcv", listed).address == 0xffffffff81000010, "where it is");
}

static void check_module(void)
{
	struct target targets[] = { { .name = "veth_poll" }, { .name = "udp_rcv" } };
	FILE *file = file_of(symbols);

	targets_read_symbols(targets, 2, file);
	fclose(file);
	check(!strcmp(targets[0].module, "veth"), "its module is %s", targets[0].module);
	check(!*targets[1].module, "of the kernel itself");
}

static void check_letters(void)
{
	check(letters_apart("udp_rcv", "udp_rcv", 4) == 0, "the same");
	check(letters_apart("udp_rcv", "tcp_rcv", 4) == 2, "two of them");
	check(letters_apart("udp_rcv", "udprcv", 4) == 1, "one less");
	check(letters_apart("rcv", "udp_rcv", 9) == 4, "four more");
	check(letters_apart("", "abc", 9) == 3, "all of them");
	check(letters_apart("udp_rcv", "schedule", 3) == 3, "as far as is asked");
}

int main(void)
{
	check_faults();
	check_ftrace_faults();
	check_module();
	check_letters();
	puts("ok targets");
	return 0;
}
