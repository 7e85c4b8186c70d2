// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON document `skblab.pathlat/4`. */

#include <stdint.h>
#include <string.h>

#include "json.h"
#include "report.h"

void path_init(struct path_hists *hists)
{
	hist_init(&hists->only);
	hist_init(&hists->again);
	hist_init(&hists->again_total);
	for (int i = 0; i < INTERVALS; i++)
		hist_init(&hists->interval[i]);
}

void path_join(struct path_hists *sum, const struct path_hists *part)
{
	hist_join(&sum->only, &part->only);
	hist_join(&sum->again, &part->again);
	hist_join(&sum->again_total, &part->again_total);
	for (int i = 0; i < INTERVALS; i++)
		hist_join(&sum->interval[i], &part->interval[i]);
}

void napi_join(struct napi_hists *sum, const struct napi_hists *part)
{
	hist_join(&sum->delay, &part->delay);
	hist_join(&sum->time, &part->time);
	sum->work += part->work;
}

void report_init(struct report *report)
{
	memset(report, 0, sizeof(*report));
	for (int point = 0; point <= NET_PATH_ROUTE; point++)
		hist_init(&report->in[point]);
	for (int path = 0; path < NET_PATH_KINDS; path++)
		path_init(&report->paths[path]);
	for (int context = 0; context < MAX_CONTEXTS; context++) {
		hist_init(&report->napi[context].delay);
		hist_init(&report->napi[context].time);
	}
}

void counters_join(void *sum, const void *part, size_t size)
{
	const __u64 *from = part;
	__u64 *to = sum;

	for (size_t i = 0; i < size / sizeof(*to); i++)
		to[i] += from[i];
}

/* Times that came to this histogram, placed or not. */
static __u64 hist_times(const struct hist *hist)
{
	return hist_count(hist) + hist->negative + hist->overflow;
}

static bool of_histograms(const struct report *report)
{
	return !strcmp(report->source, "histograms");
}

/* The whole nanoseconds that a time in a bucket can be, rounded down. */
static __u64 lowest_in(const struct edge *edge)
{
	return edge->from / 1000;
}

static __u64 highest_in(const struct edge *edge)
{
	/* The largest number that a document may have. */
	return edge->below == EDGE_OPEN ? INT64_MAX : (edge->below - 1) / 1000;
}

/* The number of the bucket of loglinear.h with these edges, or -1. */
static int loglinear_of(const struct edge *edge)
{
	__u64 ns = edge->from / 1000;
	__u32 index = loglinear_index(ns);

	return !(ns >> 32) && edge->from == loglinear_lower(index) * 1000 &&
			       edge->below == loglinear_lower(index + 1) * 1000
		       ? (int)index
		       : -1;
}

/* A histogram of the kernel's own: with its edges, unless they are those of loglinear.h.
 * No single time is known.
 */
static void add_kernel_hist(struct json_object *to, const struct hist *hist,
			    const struct report *report)
{
	struct json_object *buckets = json_object_new_array(), *edges = json_object_new_array();
	struct json_object *plain = json_object_new_array();
	const struct edge *low = NULL, *high = NULL;
	bool is_plain = true;

	add_u64(to, "count", hist_count(hist));
	add_u64(to, "sum", hist->sum);
	for (int i = 0; i < report->edge_count; i++) {
		const struct edge *edge = &report->edges[i];
		struct json_object *pair;

		if (!hist->buckets[i])
			continue;
		high = edge;
		low = low ?: edge;
		is_plain &= loglinear_of(edge) >= 0;
		hist_add_bucket(plain, loglinear_of(edge), hist->buckets[i]);
		hist_add_bucket(buckets, json_object_array_length(edges), hist->buckets[i]);
		pair = json_object_new_array_ext(2);
		json_object_array_add(pair, json_object_new_uint64(lowest_in(edge)));
		json_object_array_add(pair, json_object_new_uint64(highest_in(edge)));
		json_object_array_add(edges, pair);
	}
	add_u64(to, "min", low ? lowest_in(low) : 0);
	add_u64(to, "max", high ? highest_in(high) : 0);
	json_object_object_add(to, "bounded", json_object_new_boolean(true));
	json_object_object_add(to, "buckets", is_plain ? plain : buckets);
	if (!is_plain)
		json_object_object_add(to, "edges", edges);
	json_object_put(is_plain ? buckets : plain);
	if (is_plain)
		json_object_put(edges);
}

static void add_times_of(struct json_object *to, const struct hist *hist,
			 const struct report *report)
{
	if (of_histograms(report))
		add_kernel_hist(to, hist, report);
	else
		hist_add(to, hist);
}

const __u16 path_points[NET_PATH_KINDS] = {
	[NET_PATH_RECEIVE] = 1 << NET_PATH_DRIVER | 1 << NET_PATH_STACK | 1 << NET_PATH_IP |
			     1 << NET_PATH_ROUTE | 1 << NET_PATH_LOCAL | 1 << NET_PATH_TRANSPORT |
			     1 << NET_PATH_SOCKET | 1 << NET_PATH_WAKE | 1 << NET_PATH_USER,
	[NET_PATH_FORWARDING] = 1 << NET_PATH_DRIVER | 1 << NET_PATH_STACK | 1 << NET_PATH_IP |
				1 << NET_PATH_ROUTE | 1 << NET_PATH_FORWARD | 1 << NET_PATH_OUTPUT |
				1 << NET_PATH_QUEUE | 1 << NET_PATH_DEQUEUE | 1 << NET_PATH_XMIT |
				1 << NET_PATH_DONE,
	[NET_PATH_SENDING] = 1 << NET_PATH_SEND | 1 << NET_PATH_TRANSPORT | 1 << NET_PATH_OUTPUT |
			     1 << NET_PATH_QUEUE | 1 << NET_PATH_DEQUEUE | 1 << NET_PATH_XMIT |
			     1 << NET_PATH_DONE,
};

static const enum net_path_end usual_ends[NET_PATH_KINDS] = {
	[NET_PATH_RECEIVE] = NET_PATH_DELIVERED,
	[NET_PATH_FORWARDING] = NET_PATH_TRANSMITTED,
	[NET_PATH_SENDING] = NET_PATH_TRANSMITTED,
};

static enum net_path_point first_point(int path)
{
	return path == NET_PATH_SENDING ? NET_PATH_SEND : NET_PATH_DRIVER;
}

/* The point from which on the kernel's own histograms know that it is this path. */
static enum net_path_point known_from(int path)
{
	return path == NET_PATH_SENDING ? NET_PATH_SEND : NET_PATH_ROUTE;
}

static enum net_path_point last_point(int path)
{
	return path == NET_PATH_RECEIVE ? NET_PATH_USER : NET_PATH_DONE;
}

static __u64 hists_placed(const struct path_hists *hists)
{
	return hist_count(&hists->only) + hist_count(&hists->again);
}

static __u64 placed(const struct report *report, int path)
{
	return hists_placed(&report->paths[path]);
}

/* Packets with the usual end that passed a point. */
static __u64 seen(const struct report *report, int path, int point)
{
	__u64 count = report->counts.paths[path].unplaced_seen[point];

	if (point == (int)first_point(path))
		return count + placed(report, path);
	if (point < FIRST_INTERVAL)
		return count;
	return count + hist_count(&report->paths[path].interval[point - FIRST_INTERVAL]);
}

static struct json_object *layer(int from, int to, const struct hist *hist,
				 const struct report *report)
{
	struct json_object *row = json_object_new_object();

	add_text(row, "from", point_names[from]);
	add_text(row, "to", point_names[to]);
	add_times_of(row, hist, report);
	return row;
}

/* Named by the point before in the order of the path, of those seen at all. */
static struct json_object *layers(const struct path_hists *hists, int path,
				  const struct report *report)
{
	struct json_object *rows = json_object_new_array();
	int from = of_histograms(report) ? known_from(path) : first_point(path);

	for (int to = FIRST_INTERVAL; to < NET_PATH_NR; to++) {
		const struct hist *hist = &hists->interval[to - FIRST_INTERVAL];

		if (!hist_count(hist))
			continue;
		json_object_array_add(rows, layer(from, to, hist, report));
		from = to;
	}
	return rows;
}

static struct json_object *ends(const struct report *report, int path)
{
	struct json_object *o = json_object_new_object();

	for (int end = 0; end < NET_PATH_ENDS; end++)
		add_u64(o, end_names[end],
			report->counts.paths[path].ends[end] +
				(end == (int)usual_ends[path] ? placed(report, path) : 0));
	return o;
}

static struct json_object *drop_reasons(const struct report *report, int path)
{
	const __u64 *counts = report->counts.paths[path].reasons;
	struct json_object *o = json_object_new_object();
	char room[32];

	for (int i = 0; i < MAX_REASONS - 1; i++)
		if (counts[i])
			add_u64(o, names_get(&report->names->reasons, i, room, sizeof(room)),
				counts[i]);
	if (counts[MAX_REASONS - 1])
		add_u64(o, "other", counts[MAX_REASONS - 1]);
	return o;
}

static void add_joined(struct json_object *to, const char *key, int path, const struct hist *one,
		       const struct hist *other, const struct report *report)
{
	struct hist both = *one;

	hist_join(&both, other);
	json_object_object_add(to, key, layer(first_point(path), last_point(path), &both, report));
}

static void add_times(struct json_object *to, const struct path_hists *hists, int path,
		      const struct report *report)
{
	json_object_object_add(to, "layers", layers(hists, path, report));
	add_joined(to, "path_time", path, &hists->only, &hists->again, report);
	add_joined(to, "since_entry", path, &hists->only, &hists->again_total, report);
}

/* Packets at each point of a path. */
static struct json_object *kernel_seen(const struct report *report, int path)
{
	const struct hist *interval = report->paths[path].interval;
	struct json_object *o = json_object_new_object();
	__u64 first = 0;

	for (int i = 0; i < INTERVALS && !first; i++)
		first = hist_count(&interval[i]);
	add_u64(o, point_names[known_from(path)], first);
	for (int point = FIRST_INTERVAL; point < NET_PATH_NR; point++)
		if ((path_points[path] & ~IN_POINTS) >> point & 1)
			add_u64(o, point_names[point],
				hist_count(&interval[point - FIRST_INTERVAL]));
	return o;
}

/* Of all packets that passed each point, whatever became of them. */
static void add_kernel_path(struct json_object *to, const struct report *report, int path)
{
	json_object_object_add(to, "all_passed", json_object_new_boolean(true));
	json_object_object_add(to, "seen", kernel_seen(report, path));
}

/* Of packets with the usual end, and what is known of the others. */
static void add_path(struct json_object *to, const struct report *report, int path)
{
	__u32 asked = report->config && report->config->points ? report->config->points : ~0u;
	const struct path_counts *c = &report->counts.paths[path];
	struct json_object *by_point = json_object_new_object();
	struct json_object *by_point_dropped = json_object_new_object();

	for (int point = 0; point < NET_PATH_NR; point++) {
		__u64 count = seen(report, path, point);

		if (!(path_points[path] & asked & 1 << point) && !count && !c->dropped_seen[point])
			continue;
		add_u64(by_point, point_names[point], count);
		add_u64(by_point_dropped, point_names[point], c->dropped_seen[point]);
	}
	json_object_object_add(to, "seen", by_point);
	json_object_object_add(to, "seen_dropped", by_point_dropped);
	json_object_object_add(to, "drop_reasons", drop_reasons(report, path));
	add_u64(to, "negative", c->negative);
	add_u64(to, "overflow", c->overflow);
	add_u64(to, "reentered", c->reentered + hist_count(&report->paths[path].again));
}

static struct json_object *one_path(const struct report *report, int path)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "path", path_names[path]);
	add_text(o, "usual_end", end_names[usual_ends[path]]);
	json_object_object_add(o, "ends", ends(report, path));
	if (of_histograms(report))
		add_kernel_path(o, report, path);
	else
		add_path(o, report, path);
	add_times(o, &report->paths[path], path, report);
	return o;
}

static struct json_object *paths(const struct report *report)
{
	struct json_object *rows = json_object_new_array();

	for (int path = 0; path < NET_PATH_KINDS; path++)
		json_object_array_add(rows, one_path(report, path));
	return rows;
}

/* A group's paths, those that it has packets of. */
static struct json_object *group_paths(const struct path_hists *hists, const struct report *report)
{
	struct json_object *rows = json_object_new_array();

	for (int path = 0; path < NET_PATH_KINDS; path++) {
		struct json_object *o;

		if (!hists_placed(&hists[path]))
			continue;
		o = json_object_new_object();
		add_text(o, "path", path_names[path]);
		add_times(o, &hists[path], path, report);
		json_object_array_add(rows, o);
	}
	return rows;
}

/* NULL if none is asked for; else with the number of packets in none of them. */
static struct json_object *groups(const struct report *report, __u64 *others)
{
	int named = MAX_GROUPS, last = report->group_count - 1;
	enum group_by by = report->config ? report->config->by : BY_NOTHING;
	struct json_object *rows;
	char room[32];

	if (!report->groups)
		return NULL;
	rows = json_object_new_array();
	for (int i = 0; i <= last; i++) {
		const struct path_hists *hists = &report->groups[i * NET_PATH_KINDS];
		struct json_object *row;
		__u64 count = 0;

		for (int path = 0; path < NET_PATH_KINDS; path++)
			count += hists_placed(&hists[path]);
		if (!count)
			continue;
		if (!named || (by != BY_CPU && i == last)) {
			*others += count;
			continue;
		}
		named--;
		row = json_object_new_object();
		add_text(row, "by", by_names[by]);
		add_text(row, "name", group_name(report->names, by, i, room, sizeof(room)));
		json_object_object_add(row, "paths", group_paths(hists, report));
		json_object_array_add(rows, row);
	}
	return rows;
}

static struct json_object *samples(const struct report *report)
{
	struct json_object *o = json_object_new_object();

	add_u64(o, "filtered",
		report->counts.filtered + report->hooks.filtered + report->hooks.filtered_late);
	add_u64(o, "unknown", report->counts.unknown);
	add_u64(o, "missed", report->missed);
	return o;
}

static struct json_object *flags(const struct report *report)
{
	const struct counts *c = &report->counts;
	struct json_object *o = json_object_new_object();
	__u64 reentered = 0;

	for (int path = 0; path < NET_PATH_KINDS; path++)
		reentered += c->paths[path].reentered + hist_count(&report->paths[path].again);
	add_u64(o, "negative", c->flag_negative);
	add_u64(o, "overflow", c->flag_overflow);
	add_u64(o, "reentered", reentered);
	return o;
}

/* Intervals, not packets: all that it counts. */
static struct json_object *kernel_flags(const struct report *report)
{
	struct json_object *o = json_object_new_object();

	add_u64(o, "negative", report->histograms.negative);
	return o;
}

static struct json_object *napi_row(const char *name, const char *context, const struct hist *hist,
				    const struct report *report)
{
	struct json_object *row = json_object_new_object();

	add_text(row, "name", name);
	add_text(row, "context", context);
	add_times_of(row, hist, report);
	return row;
}

static struct json_object *napi(const struct report *report)
{
	struct json_object *rows = json_object_new_array();

	for (int i = 0; i < MAX_CONTEXTS; i++) {
		const struct napi_hists *hists = &report->napi[i];
		struct json_object *row;
		const char *context;
		char room[32];

		if (!hist_times(&hists->time))
			continue;
		context = names_get(&report->names->contexts, i, room, sizeof(room));
		json_object_array_add(rows, napi_row("delay", context, &hists->delay, report));
		row = napi_row("time", context, &hists->time, report);
		add_u64(row, "work", hists->work);
		json_object_array_add(rows, row);
	}
	return rows;
}

/* Those of all contexts together. */
static struct json_object *kernel_napi(const struct report *report)
{
	struct json_object *rows = json_object_new_array();

	if (!report->has_polls)
		return rows;
	json_object_array_add(rows, napi_row("delay", "all", &report->napi[0].delay, report));
	json_object_array_add(rows, napi_row("time", "all", &report->napi[0].time, report));
	return rows;
}

static struct json_object *kernel_polls(const struct report *report)
{
	struct json_object *o = report->has_polls ? json_object_new_object() : NULL;

	if (o)
		add_u64(o, "counted", hist_count(&report->napi[0].time));
	return o;
}

static struct json_object *polls(const struct report *report)
{
	const struct counts *c = &report->counts;
	struct json_object *o = json_object_new_object();
	__u64 counted = 0;

	for (int context = 0; context < MAX_CONTEXTS; context++)
		counted += hist_times(&report->napi[context].time);
	add_u64(o, "counted", counted);
	add_u64(o, "again", c->polls_again);
	add_u64(o, "without_delay", c->polls_without_delay);
	add_u64(o, "unknown_context", c->polls_unknown_context);
	add_u64(o, "filtered", c->polls_filtered);
	add_u64(o, "contexts_refused", c->contexts_refused);
	add_u64(o, "missed", report->polls_missed);
	return o;
}

static struct json_object *flag_or_null(int value)
{
	return value < 0 ? NULL : json_object_new_boolean(value);
}

/* What only hooks have to tell. */
static struct json_object *hooks(const struct report *report)
{
	const struct hook_counts *c = &report->hooks;
	struct json_object *o = json_object_new_object();
	struct json_object *absent = json_object_new_array();

	for (size_t i = 0; i < report->absent_count; i++)
		json_object_array_add(absent, json_object_new_string(report->absent[i]));
	add_text(o, "by", report->hooks_kprobes ? "kprobe" : "fentry");
	add_u64(o, "attached", report->hooks_attached);
	json_object_object_add(o, "absent", absent);
	add_u64(o, "entered", c->entered);
	add_u64(o, "began", c->began);
	add_u64(o, "continued", c->continued);
	add_u64(o, "filtered_late", c->filtered_late);
	add_u64(o, "in_flight", report->hooks_in_flight);
	add_u64(o, "replaced", c->replaced);
	add_u64(o, "refused", c->refused);
	add_u64(o, "sends_refused", c->sends_refused);
	add_u64(o, "napis_refused", c->napis_refused);
	add_u64(o, "bulk_cut", c->bulk_cut);
	add_u64(o, "kprobes_missed", report->kprobes_missed);
	add_u64(o, "frees_unseen", report->frees_unseen);
	return o;
}

/* What only the kernel's own histograms have to tell. */
static struct json_object *histograms(const struct report *report)
{
	const struct histogram_counts *c = &report->histograms;
	struct json_object *o = json_object_new_object();

	add_u64(o, "entered", c->entered);
	add_u64(o, "sent", c->sent);
	add_u64(o, "dropped", c->dropped);
	add_u64(o, "unclear", c->unclear);
	add_u64(o, "stale", c->stale);
	return o;
}

/* All packets that came in, until it is known where each of them goes. One that came back into
 * the stack by a tunnel or a bridge is at the driver again.
 */
static struct json_object *in(const struct report *report)
{
	struct json_object *o = json_object_new_object(), *by_point = json_object_new_object();
	const struct hist *again = &report->in[NET_PATH_DRIVER];
	struct json_object *rows = json_object_new_array();
	int from = NET_PATH_DRIVER;

	add_u64(by_point, point_names[from], report->histograms.entered + hist_count(again));
	if (hist_count(again))
		json_object_array_add(rows, layer(from, from, again, report));
	for (int to = FIRST_INTERVAL; to <= NET_PATH_ROUTE; to++) {
		const struct hist *hist = &report->in[to];

		add_u64(by_point, point_names[to], hist_count(hist));
		if (!hist_count(hist))
			continue;
		json_object_array_add(rows, layer(from, to, hist, report));
		from = to;
	}
	json_object_object_add(o, "seen", by_point);
	json_object_object_add(o, "layers", rows);
	return o;
}

struct json_object *report_json(const struct report *report)
{
	struct json_object *o = json_object_new_object();
	bool of_kernel = of_histograms(report);
	struct json_object *stamps = json_object_new_object();
	__u64 others = 0;

	json_object_object_add(stamps, "start", flag_or_null(report->stamps_on_start));
	json_object_object_add(stamps, "end", flag_or_null(report->stamps_on_end));

	add_text(o, "schema", REPORT_SCHEMA);
	add_text(o, "source", report->source);
	add_text(o, "kernel", report->kernel);
	add_text(o, "clock_unit", "ns");
	json_object_object_add(o, "sub_buckets", json_object_new_int(LOGLINEAR_SUB));
	add_seconds(o, "seconds", report->seconds);
	json_object_object_add(o, "ifindex",
			       report->ifindex ? json_object_new_int(report->ifindex) : NULL);
	json_object_object_add(o, "stamps_on", stamps);
	json_object_object_add(o, "samples", of_kernel ? NULL : samples(report));
	json_object_object_add(o, "hooks", of_kernel ? NULL : hooks(report));
	json_object_object_add(o, "histograms", of_kernel ? histograms(report) : NULL);
	add_u64(o, "merged", of_kernel ? report->histograms.merged : report->hooks.merged);
	json_object_object_add(o, "flags", of_kernel ? kernel_flags(report) : flags(report));
	json_object_object_add(o, "in", of_kernel ? in(report) : NULL);
	json_object_object_add(o, "paths", paths(report));
	json_object_object_add(o, "groups", groups(report, &others));
	add_u64(o, "groups_others", others);
	json_object_object_add(o, "late",
			       report->late_list ? late_list_json(report->late_list, &report->late,
								  report->config, report->names)
						 : NULL);
	json_object_object_add(o, "polls", of_kernel ? kernel_polls(report) : polls(report));
	json_object_object_add(o, "napi", of_kernel ? kernel_napi(report) : napi(report));
	return o;
}
