// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's own samples as a source. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "source.h"

#include "samples.skel.h"

struct state {
	struct samples_bpf *probe;
	struct placing placing;
};

/* The form of the samples has been compared already. */
static int check(const struct btf *btf, bool running, struct report *report)
{
	(void)btf;
	(void)running;
	(void)report;
	puts("samples");
	return 0;
}

static void destroy(void *opaque)
{
	struct state *state = opaque;

	samples_bpf__destroy(state->probe);
	free(state);
}

static void *start(const struct settings *settings, const struct btf *btf, struct report *report)
{
	struct state *state = calloc(1, sizeof(*state));
	struct bpf_program *program;
	struct samples_bpf *probe;
	int err;

	(void)btf;
	(void)report;
	probe = state ? samples_bpf__open() : NULL;
	if (!probe) {
		fail_bpf(-errno);
		free(state);
		return NULL;
	}
	state->probe = probe;
	bpf_object__for_each_program(program, probe->obj) if (is_for_late(program))
		bpf_program__set_autoload(program, settings->config.late_ns);
	bpf_program__set_autoattach(probe->progs.late_reader, false);
	*(struct config *)&probe->rodata->config = settings->config;
	err = placing_open(&state->placing, probe->obj, &settings->config)
		      ?: samples_bpf__load(probe);
	if (!err) {
		placing_init(&state->placing);
		err = samples_bpf__attach(probe);
	}
	/* Where functions cannot be hooked the socket's figures are missing, and nothing else. */
	if (!err && settings->config.late_ns)
		probe->links.late_reader = bpf_program__attach(probe->progs.late_reader);
	if (!err)
		return state;
	fail_bpf(err);
	destroy(state);
	return NULL;
}

static const struct bpf_map *late_packets(void *opaque)
{
	struct state *state = opaque;

	return state->probe->maps.late_packets;
}

static void stop(void *opaque)
{
	struct state *state = opaque;

	samples_bpf__detach(state->probe);
	drain();
}

static int read_all(void *opaque, struct report *report)
{
	struct state *state = opaque;
	struct samples_bpf *probe = state->probe;

	return placing_read(&state->placing, report)
		       ?: read_missed(probe->progs.on_path_sample, &report->missed)
		       ?: read_missed(probe->progs.on_poll_sample, &report->polls_missed);
}

const struct source samples_source = {
	.name = "samples",
	.stamps = 1,
	.check = check,
	.start = start,
	.late_packets = late_packets,
	.stop = stop,
	.read = read_all,
	.destroy = destroy,
};
