// SPDX-License-Identifier: GPL-2.0-or-later
/* Hooks on functions and tracepoints as a source: hooks.bpf.c, loaded as far as the kernel has them. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hooks.h"
#include "source.h"
#include "tracing.h"

#include "hooks.skel.h"

struct attachment {
	struct bpf_link *link;
	bool polls; /* of NAPI, not of packets */
	bool frees; /* of packets' memory */
};

/* Calls that were not seen: of packets, of polls of NAPI, of the freeing of packets. */
struct unseen {
	__u64 packets, polls, frees;
};

struct state {
	struct hooks_bpf *probe;
	struct placing placing;
	struct attachment *links;
	/* Calls that kprobes did not see, by those that are detached. */
	struct unseen unseen;
	size_t begins; /* the first so many links are of programs where a path begins */
	size_t attached;
	size_t flight_sets;
};

/* A program and what it is hooked to. */
enum kind { TRACEPOINT, ENTRY, RETURN, UNKNOWN };

struct hook {
	enum kind kind;
	bool kprobe;
	const char *target;
};

static struct hook hook_of(const struct bpf_program *program)
{
	static const struct {
		const char *prefix;
		enum kind kind;
		bool kprobe;
	} kinds[] = {
		{ "tp_btf/", TRACEPOINT, false }, { "fentry/", ENTRY, false },
		{ "fexit/", RETURN, false },	  { "kprobe/", ENTRY, true },
		{ "kretprobe/", RETURN, true },
	};
	const char *section = bpf_program__section_name(program);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t size = strlen(kinds[i].prefix);

		if (!strncmp(section, kinds[i].prefix, size))
			return (struct hook){ kinds[i].kind, kinds[i].kprobe, section + size };
	}
	return (struct hook){ UNKNOWN, false, section };
}

static size_t count_programs(const struct bpf_object *object)
{
	struct bpf_program *program;
	size_t count = 0;

	bpf_object__for_each_program(program, object) count++;
	return count;
}

/* Modules in which hooked functions may lie, unless they are built in. */
static const char *const modules[] = { "ipv6", "sctp" };
#define MODULES (sizeof(modules) / sizeof(*modules))

/* The functions that there are programs for, sorted, and which of them the running
 * kernel has as they are named; none if that is not known.
 */
struct symbols {
	size_t count;
	const char **names;
	bool *found;
};

struct types {
	const struct btf *kernel;
	struct btf *module[MODULES];
	struct symbols symbols;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool *symbol(const struct symbols *symbols, const char *name)
{
	const char **at = bsearch(&name, symbols->names, symbols->count, sizeof(*symbols->names),
				  compare_names);

	return at ? &symbols->found[at - symbols->names] : NULL;
}

static void symbols_free(struct symbols *symbols)
{
	free(symbols->names);
	free(symbols->found);
	*symbols = (struct symbols){ 0 };
}

/* Types list a function even if the compiler has inlined or cloned it. */
static void symbols_load(struct symbols *symbols, const struct bpf_object *object)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	struct bpf_program *program;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return;
	symbols->names = calloc(count_programs(object), sizeof(*symbols->names));
	symbols->found = calloc(count_programs(object), sizeof(*symbols->found));
	if (!symbols->names || !symbols->found)
		symbols_free(symbols);
	else
		bpf_object__for_each_program(program, object) symbols->names[symbols->count++] =
			hook_of(program).target;
	if (symbols->count)
		qsort(symbols->names, symbols->count, sizeof(*symbols->names), compare_names);
	/* address type name [module] */
	while (symbols->count && getline(&line, &size, file) > 0) {
		char *rest = line, *name;
		bool *found;

		strsep(&rest, " ");
		strsep(&rest, " ");
		name = strsep(&rest, "\t\n");
		found = name ? symbol(symbols, name) : NULL;
		if (found)
			*found = true;
	}
	free(line);
	fclose(file);
}

/* @object: NULL unless the types are those of the running kernel. */
static void types_load(struct types *types, const struct btf *kernel,
		       const struct bpf_object *object)
{
	*types = (struct types){ .kernel = kernel };
	for (size_t i = 0; i < MODULES; i++)
		types->module[i] = btf__load_module_btf(modules[i], (struct btf *)kernel);
	if (object)
		symbols_load(&types->symbols, object);
}

static void types_free(struct types *types)
{
	for (size_t i = 0; i < MODULES; i++)
		btf__free(types->module[i]);
	symbols_free(&types->symbols);
}

/* The number of a function's arguments, or -1 if there is no such function. */
static int function_arguments(const struct types *types, const char *name)
{
	const struct btf *btf = types->kernel;

	for (size_t i = 0;; btf = types->module[i++]) {
		int id = btf ? btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) : -1;

		if (id > 0)
			return btf_vlen(btf__type_by_id(btf, btf__type_by_id(btf, id)->type));
		if (i == MODULES)
			return -1;
	}
}

/* The number of a tracepoint's arguments, or -1. */
static int tracepoint_arguments(const struct btf *btf, const char *name)
{
	const struct btf_type *type;
	char text[80];
	int id;

	snprintf(text, sizeof(text), "btf_trace_%s", name);
	id = btf__find_by_name_kind(btf, text, BTF_KIND_TYPEDEF);
	if (id < 0)
		return -1;
	/* typedef → pointer → prototype, of which the first argument is the tracepoint's own */
	type = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	return btf_vlen(btf__type_by_id(btf, type->type)) - 1;
}

static bool is_there(const struct types *types, const struct hook *hook)
{
	if (hook->kind == TRACEPOINT)
		return tracepoint_arguments(types->kernel, hook->target) > 0;
	return function_arguments(types, hook->target) > 0 &&
	       (!types->symbols.count || *symbol(&types->symbols, hook->target));
}

/* Hooks of which the kernel has one or the other. */
static const char *const optional[] = { "netif_rx_ni_entry", "do_tcp_sendpages",
					"skb_attempt_defer_free" };
/* Without these, one packet would be taken for another. */
static const char *const required[] = { "skb_release_data", "kfree_skb", "netif_receive_skb" };

static bool is_among(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}
#define IS_AMONG(name, names) is_among(name, names, sizeof(names) / sizeof(*(names)))

static bool begins(const struct hook *hook)
{
	static const char *const names[] = {
		"napi_gro_receive_entry",
		"napi_gro_frags_entry",
		"netif_receive_skb_entry",
		"netif_receive_skb_list_entry",
		"netif_rx_entry",
		"netif_rx_ni_entry",
		"udp_sendmsg",
		"udpv6_sendmsg",
		"tcp_sendmsg_locked",
		"do_tcp_sendpages",
	};

	return IS_AMONG(hook->target, names);
}

static bool is_of_frees(const struct hook *hook)
{
	return !strcmp(hook->target, "skb_release_data");
}

static bool is_of_polls(const struct hook *hook)
{
	return strstr(hook->target, "napi_schedule") || strstr(hook->target, "napi_poll");
}

/* The other programs for polls are only for kernels without it. */
static bool is_poll_sample(const struct hook *hook)
{
	return !strcmp(hook->target, "napi_poll_sample");
}

/* Where what a program sends begins. */
static bool is_of_sends(const struct hook *hook)
{
	static const char *const names[] = {
		"udp_sendmsg",	"udpv6_sendmsg",   "tcp_sendmsg_locked", "do_tcp_sendpages",
		"udp_send_skb", "udp_v6_send_skb", "tcp_skb_entail",	 "__tcp_transmit_skb",
	};

	return IS_AMONG(hook->target, names);
}

/* Where what is received ends in a program. */
static bool is_of_reads(const struct hook *hook)
{
	static const char *const names[] = { "skb_consume_udp", "skb_copy_datagram_iter" };

	return IS_AMONG(hook->target, names);
}

/* What only packets for this machine come to, before that. */
static bool is_of_receives(const struct hook *hook)
{
	static const char *const names[] = {
		"ip_local_deliver", "ip6_input",  "ip_local_deliver_finish",
		"ip6_input_finish", "udp_rcv",	  "udpv6_rcv",
		"tcp_v4_rcv",	    "tcp_v6_rcv", "sctp_rcv",
	};

	return IS_AMONG(hook->target, names);
}

/* The point that a program is for, or -1: where paths begin and end, and where memory goes. */
static int point_of(const struct hook *hook)
{
#define ROW(function, number, point, protocol) { #function, point },
	static const struct {
		const char *target;
		int point;
	} rows[] = {
		POINT_HOOKS(ROW){ "netif_receive_skb", NET_PATH_STACK },
		{ "skb_condense", NET_PATH_SOCKET },
		{ "sctp_ulpq_tail_event", NET_PATH_SOCKET },
		{ "__skb_recv_udp", NET_PATH_WAKE },
		{ "__skb_try_recv_from_queue", NET_PATH_WAKE },
		{ "skb_copy_datagram_iovec", NET_PATH_WAKE },
		{ "sch_direct_xmit", NET_PATH_DEQUEUE },
		{ "net_dev_start_xmit", NET_PATH_XMIT },
	};
#undef ROW

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(hook->target, rows[i].target))
			return rows[i].point;
	return -1;
}

/* Whether packets of other points need it: it tells what a packet is. */
static bool is_telling(const struct hook *hook, int point, bool receive, bool forward, bool kprobes)
{
	static const char *const received[] = { "tcp_v4_rcv", "tcp_v6_rcv", "sctp_rcv",
						"ip_forward", "ip6_forward" };
	static const char *const forwarded[] = { "ip_forward_finish", "__dev_queue_xmit" };

	if (receive && IS_AMONG(hook->target, received))
		return true;
	if (forward && IS_AMONG(hook->target, forwarded))
		return true;
	/* Where no return is seen: merged by GRO, and read. */
	return receive && kprobes && (point == NET_PATH_STACK || point == NET_PATH_WAKE);
}

static bool is_asked_for(const struct hook *hook, const struct config *config, bool kprobes)
{
	__u8 paths = config->paths ?: (1 << NET_PATH_KINDS) - 1;
	bool receive = paths & 1 << NET_PATH_RECEIVE, forward = paths & 1 << NET_PATH_FORWARDING;
	int point = point_of(hook);

	/* A packet's context is that of the poll that it came by. */
	if (is_of_polls(hook))
		return !config->points || config->points & POLLS || config->by == BY_CONTEXT;
	if (is_of_sends(hook))
		return paths & 1 << NET_PATH_SENDING;
	if (is_of_reads(hook))
		return receive;
	if (is_of_receives(hook) && !receive)
		return false;
	if (point < 0 || is_telling(hook, point, receive, forward, kprobes))
		return true;
	if (config->points && !(config->points & 1u << point))
		return false;
	for (int path = 0; path < NET_PATH_KINDS; path++)
		if (paths >> path & 1 && path_points[path] >> point & 1)
			return true;
	return false;
}

static bool is_for_late(const struct bpf_program *program)
{
	return !strncmp(bpf_program__name(program), "late_", 5);
}

/* Note a hook that the kernel lacks; returns EXIT_BAD if nothing goes without it. */
static int note_absent(struct report *report, const struct hook *hook)
{
	static const char *const words[] = {
		[TRACEPOINT] = "tracepoint",
		[ENTRY] = "entry",
		[RETURN] = "return",
	};

	if (IS_AMONG(hook->target, optional))
		return 0;
	if (IS_AMONG(hook->target, required))
		return fail("this kernel has no %s %s to hook; without it one packet would be "
			    "taken for another",
			    hook->kind == TRACEPOINT ? "tracepoint" : "function", hook->target);
	if (report->absent_count < MAX_ABSENT)
		snprintf(report->absent[report->absent_count++], sizeof(*report->absent), "%s:%s",
			 words[hook->kind], hook->target);
	return 0;
}

/* Choose the programs to load. */
static int choose(struct hooks_bpf *probe, const struct types *types, bool kprobes,
		  const struct config *config, struct report *report)
{
	bool samples = kernel_samples_polls(types->kernel);
	struct bpf_program *program;

	report->absent_count = 0;
	bpf_object__for_each_program(program, probe->obj)
	{
		struct hook hook = hook_of(program);
		bool wanted = hook.kind == TRACEPOINT ? config->late_ns || !is_for_late(program)
						      : hook.kprobe == kprobes;
		bool found = is_there(types, &hook);

		if (hook.kind == UNKNOWN)
			continue;
		if (is_of_polls(&hook))
			wanted &= is_poll_sample(&hook) == samples;
		wanted &= is_asked_for(&hook, config, kprobes);
		bpf_program__set_autoload(program, wanted && found);
		if (wanted && !found && note_absent(report, &hook))
			return EXIT_BAD;
	}
	return 0;
}

static int check(const struct btf *btf, bool running, struct report *report)
{
	struct hooks_bpf *probe = hooks_bpf__open();
	struct bpf_program *program;
	const struct config all = { 0 };
	struct types types;
	size_t count = 0;
	int ret;

	if (!probe) {
		fail_bpf(-errno);
		return EXIT_BAD;
	}
	types_load(&types, btf, running ? probe->obj : NULL);
	ret = choose(probe, &types, false, &all, report);
	types_free(&types);
	bpf_object__for_each_program(program, probe->obj) count += bpf_program__autoload(program);
	hooks_bpf__destroy(probe);
	if (ret)
		return ret;
	printf("hooks: %zu; absent: %zu\n", count, report->absent_count);
	for (size_t i = 0; i < report->absent_count; i++)
		puts(report->absent[i]);
	return 0;
}

static int attach_all(struct state *state, bool begin)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, state->probe->obj)
	{
		struct hook hook = hook_of(program);
		struct bpf_link *link;

		if (!bpf_program__autoload(program) || begins(&hook) != begin)
			continue;
		link = bpf_program__attach(program);
		if (!link)
			return -errno;
		state->links[state->attached++] =
			(struct attachment){ link, is_of_polls(&hook), is_of_frees(&hook) };
	}
	return 0;
}

/* How often the kernel did not come to a kprobe, because it was at one already, or of a return
 * because too many calls of the function were on their way. Since 6.7; 0 before.
 */
static __u64 unseen_by(const struct bpf_link *link)
{
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);

	if (!link || bpf_link_get_info_by_fd(bpf_link__fd(link), &info, &size) ||
	    info.type != BPF_LINK_TYPE_PERF_EVENT)
		return 0;
	return info.perf_event.kprobe.missed;
}

static void add_unseen(struct unseen *unseen, const struct attachment *one)
{
	__u64 count = unseen_by(one->link);

	if (one->polls)
		unseen->polls += count;
	else if (one->frees)
		unseen->frees += count;
	else
		unseen->packets += count;
}

/* Last first: what TCP leaves to be freed is not to be noted any more when its freeing is not. */
static void detach(struct state *state, size_t from, size_t to)
{
	while (to-- > from) {
		struct attachment *one = &state->links[to];

		add_unseen(&state->unseen, one);
		bpf_link__destroy(one->link);
		one->link = NULL;
	}
}

static void destroy(void *opaque)
{
	struct state *state = opaque;

	if (state->links)
		detach(state, 0, state->attached);
	free(state->links);
	hooks_bpf__destroy(state->probe);
	free(state);
}

/* Load and attach; 0, EXIT_BAD with the reason printed, or a negative error. */
static int try(struct state *state, const struct settings *settings, const struct btf *btf,
	       bool kprobes, struct report *report)
{
	struct hooks_bpf *probe = hooks_bpf__open();
	size_t sets = (settings->flights + FLIGHT_SET - 1) / FLIGHT_SET;
	struct types types;
	int err;

	if (!probe)
		return -errno;
	state->probe = probe;
	state->flight_sets = sets;
	state->links = calloc(count_programs(probe->obj), sizeof(*state->links));
	if (!state->links)
		return -ENOMEM;

	types_load(&types, btf, probe->obj);
	*(struct config *)&probe->rodata->config = settings->config;
	probe->rodata->config.kprobes = kprobes;
	/* Without returns these two tell what was merged, and what was read. */
	if (kprobes && settings->config.points)
		probe->rodata->config.points |= 1u << NET_PATH_STACK | 1u << NET_PATH_WAKE;
	probe->rodata->config.flight_sets = sets;
	probe->rodata->config.recv_udp_arguments = function_arguments(&types, "__skb_recv_udp");
	probe->rodata->config.drop_reasons = tracepoint_arguments(btf, "kfree_skb") > 2;
	err = choose(probe, &types, kprobes, &settings->config, report);
	types_free(&types);
	if (err)
		return err;
	err = placing_open(&state->placing, probe->obj, &settings->config)
		      ?: bpf_map__set_value_size(probe->maps.bss_hooks,
						 settings->config.cpus *
							 sizeof(struct hook_counts))
		      ?: bpf_map__set_value_size(probe->maps.bss_polls,
						 settings->config.cpus * sizeof(struct polling))
		      ?: bpf_map__set_value_size(probe->maps.bss_flights,
						 sets * sizeof(struct flight_set))
		      ?: bpf_map__set_max_entries(probe->maps.spilled, settings->flights)
		      ?: hooks_bpf__load(probe);
	if (err)
		return err;
	placing_init(&state->placing);
	/* Paths begin last, so that nothing of them is missed. */
	err = attach_all(state, false);
	state->begins = state->attached;
	return err ?: attach_all(state, true);
}

static void *start(const struct settings *settings, const struct btf *btf, struct report *report)
{
	bool kprobes = settings->config.kprobes;
	struct state *state;
	int err;

	if (check_ftrace())
		return NULL;
	for (;; kprobes = true) {
		state = calloc(1, sizeof(*state));
		err = state ? try(state, settings, btf, kprobes, report) : -ENOMEM;
		if (!err) {
			report->hooks_kprobes = kprobes;
			report->hooks_attached = state->attached;
			return state;
		}
		if (state)
			destroy(state);
		/* There are architectures and kernels without fentry. */
		if (kprobes || (err != -ENOTSUP && err != -EOPNOTSUPP && err != -524))
			break;
	}
	if (err < 0)
		fail_bpf(err);
	return NULL;
}

static __u64 in_flight(const struct state *state)
{
	const struct flight_set *sets = state->probe->bss_flights->flight_sets;
	__u64 count = state->probe->bss->spills;

	for (size_t i = 0; i < state->flight_sets; i++)
		for (int way = 0; way < FLIGHT_SET; way++)
			count += sets[i].key[way] && sets[i].flight[way].seen;
	return count;
}

static const struct bpf_map *late_packets(void *opaque)
{
	struct state *state = opaque;

	return state->probe->maps.late_packets;
}

/* Paths begin no more; those under way may end, within a tenth of a second. */
static void stop(void *opaque)
{
	static const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	struct state *state = opaque;

	detach(state, state->begins, state->attached);
	for (int i = 0; i < 10 && in_flight(state); i++)
		nanosleep(&moment, NULL);
	detach(state, 0, state->begins);
	drain();
}

/* Of frees that were not seen, leave out as many as may be of packets that had ended: those that
 * are still to be freed, up to net.core.skb_defer_max for each CPU, are among these. A packet whose
 * own free was not seen is in flight for ever, or another one is found at its address.
 */
static __u64 harmful(__u64 frees, struct report *report)
{
	__u64 known = report->hooks.deferred_freed + report->frees_unseen;
	__u64 over = report->hooks.deferred > known ? report->hooks.deferred - known : 0;

	if (over > frees)
		over = frees;
	report->frees_unseen += over;
	return frees - over;
}

static void read_unseen(const struct state *state, struct report *report)
{
	struct unseen unseen = state->unseen;

	for (size_t i = 0; i < state->attached; i++)
		add_unseen(&unseen, &state->links[i]);
	report->polls_missed += unseen.polls;
	report->kprobes_missed += unseen.packets + harmful(unseen.frees, report);
}

static int read_all(void *opaque, struct report *report)
{
	struct state *state = opaque;
	struct hooks_bpf *probe = state->probe;
	struct bpf_program *program;
	__u64 frees = 0;

	if (check_ftrace())
		return EXIT_BAD;
	for (int cpu = 0; cpu < state->placing.cpus; cpu++)
		counters_join(&report->hooks, &probe->bss_hooks->hook_counts[cpu],
			      sizeof(report->hooks));
	report->hooks_in_flight = in_flight(state);
	bpf_object__for_each_program(program, probe->obj)
	{
		struct hook hook = hook_of(program);
		__u64 *missed = is_of_polls(&hook) ? &report->polls_missed : &report->missed;

		if (is_of_frees(&hook))
			missed = &frees;
		if (bpf_program__autoload(program) && read_missed(program, missed))
			return EXIT_BAD;
	}
	report->missed += harmful(frees, report);
	read_unseen(state, report);
	return placing_read(&state->placing, report);
}

const struct source hooks_source = {
	.name = "hooks",
	.check = check,
	.start = start,
	.late_packets = late_packets,
	.stop = stop,
	.read = read_all,
	.destroy = destroy,
};
