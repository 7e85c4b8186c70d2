// SPDX-License-Identifier: GPL-2.0-or-later
/* The JSON document `skblab.pathlat/1`. */

#include <string.h>

#include "report.h"

void hist_init(struct hist *hist)
{
	memset(hist, 0, sizeof(*hist));
	hist->low = HIST_EMPTY;
}

void hist_join(struct hist *sum, const struct hist *part)
{
	__u32 high = sum->low == HIST_EMPTY ? 0 : sum->low + sum->span;

	sum->sum += part->sum;
	sum->negative += part->negative;
	sum->overflow += part->overflow;
	for (int i = 0; i < LOGLINEAR_ROOM; i++)
		sum->buckets[i] += part->buckets[i];
	if (part->low == HIST_EMPTY)
		return;
	if (part->low + part->span > high)
		high = part->low + part->span;
	if (part->low < sum->low)
		sum->low = part->low;
	sum->span = high - sum->low;
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
	for (int i = 0; i < PATH_SLOTS_MAX; i++)
		hist_init(&report->path[i]);
	for (int context = 0; context < MAX_CONTEXTS; context++) {
		hist_init(&report->napi[context].delay);
		hist_init(&report->napi[context].time);
	}
}

void counts_join(struct counts *sum, const struct counts *part)
{
	/* All members are __u64 counters. */
	const __u64 *from = (const __u64 *)part;
	__u64 *to = (__u64 *)sum;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

static __u64 hist_count(const struct hist *hist)
{
	__u64 count = 0;

	for (int i = 0; i < LOGLINEAR_ROOM; i++)
		count += hist->buckets[i];
	return count;
}

/* Samples that came to this histogram, placed or not. */
static __u64 hist_samples(const struct hist *hist)
{
	return hist_count(hist) + hist->negative + hist->overflow;
}

static void add_u64(struct json_object *to, const char *key, __u64 value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

static void add_text(struct json_object *to, const char *key, const char *value)
{
	json_object_object_add(to, key, json_object_new_string(value));
}

static void add_hist(struct json_object *to, const struct hist *hist)
{
	struct json_object *buckets = json_object_new_array();
	__u64 count = hist_count(hist);

	add_u64(to, "count", count);
	add_u64(to, "sum", hist->sum);
	add_u64(to, "min", count ? hist->low : 0);
	add_u64(to, "max", count ? (__u64)hist->low + hist->span : 0);
	add_u64(to, "negative", hist->negative);
	add_u64(to, "overflow", hist->overflow);
	for (int i = 0; i < LOGLINEAR_ROOM; i++) {
		struct json_object *pair;

		if (!hist->buckets[i])
			continue;
		pair = json_object_new_array_ext(2);
		json_object_array_add(pair, json_object_new_int(i));
		json_object_array_add(pair, json_object_new_uint64(hist->buckets[i]));
		json_object_array_add(buckets, pair);
	}
	json_object_object_add(to, "buckets", buckets);
}

static const struct hist *path_hist(const struct report *report, int from, int to)
{
	return &report->path[PATH_SLOT(from, to)];
}

static const char *point_name(const struct report *report, int point, char *room, size_t size)
{
	return names_get(&report->names->points, point, room, size);
}

static struct json_object *layer(const struct report *report, int from, int to,
				 const struct hist *hist)
{
	struct json_object *row = json_object_new_object();
	char room[32];

	add_text(row, "from", point_name(report, from, room, sizeof(room)));
	add_text(row, "to", point_name(report, to, room, sizeof(room)));
	add_hist(row, hist);
	return row;
}

/* Intervals between neighbours always, others where a packet skipped a point,
 * the total last. A packet that skipped all between is in the total only.
 */
static struct json_object *layers(const struct report *report)
{
	int user = report->names->user_point;
	struct json_object *rows = json_object_new_array();
	struct json_object *total;

	for (int to = 1; to < report->names->nr_points; to++) {
		for (int from = 0; from < to; from++) {
			const struct hist *hist = path_hist(report, from, to);

			if (from == 0 && to == user)
				continue;
			if (from == to - 1 || hist_samples(hist))
				json_object_array_add(rows, layer(report, from, to, hist));
		}
	}
	total = layer(report, 0, user, &report->path[PATH_TOTAL]);
	json_object_object_add(total, "total", json_object_new_boolean(1));
	add_u64(total, "direct", hist_samples(path_hist(report, 0, user)));
	json_object_array_add(rows, total);
	return rows;
}

/* Whole packets with a point are those of which an interval ends there. */
static __u64 seen(const struct report *report, int point)
{
	__u64 count = report->counts.incomplete_seen[point];

	if (point == 0)
		return count + hist_samples(&report->path[PATH_TOTAL]);
	for (int from = 0; from < point; from++)
		count += hist_samples(path_hist(report, from, point));
	return count;
}

static struct json_object *samples(const struct report *report)
{
	const struct counts *c = &report->counts;
	struct json_object *o = json_object_new_object();

	add_u64(o, "delivered", hist_samples(&report->path[PATH_TOTAL]) + c->incomplete);
	add_u64(o, "dropped", c->dropped);
	add_u64(o, "other_end", c->other_end);
	add_u64(o, "filtered", c->filtered);
	add_u64(o, "incomplete", c->incomplete);
	return o;
}

static struct json_object *flags(const struct counts *c)
{
	struct json_object *o = json_object_new_object();

	add_u64(o, "negative", c->flag_negative);
	add_u64(o, "overflow", c->flag_overflow);
	add_u64(o, "copy", c->flag_copy);
	add_u64(o, "reentered", c->flag_reentered);
	return o;
}

static struct json_object *unplaced(const struct report *report)
{
	struct json_object *o = json_object_new_object();
	__u64 negative = 0, overflow = 0;

	for (int i = 0; i < PATH_SLOTS(report->names->nr_points); i++) {
		negative += report->path[i].negative;
		overflow += report->path[i].overflow;
	}
	add_u64(o, "negative", negative);
	add_u64(o, "no_entry", report->counts.no_entry);
	add_u64(o, "overflow", overflow);
	add_u64(o, "missed", report->missed);
	return o;
}

static struct json_object *drop_reasons(const struct report *report)
{
	struct json_object *o = json_object_new_object();
	char room[32];

	for (int i = 0; i < MAX_REASONS - 1; i++)
		if (report->counts.reasons[i])
			add_u64(o, names_get(&report->names->reasons, i, room, sizeof(room)),
				report->counts.reasons[i]);
	if (report->counts.reasons[MAX_REASONS - 1])
		add_u64(o, "other", report->counts.reasons[MAX_REASONS - 1]);
	return o;
}

static struct json_object *napi_row(const char *name, const char *context, const struct hist *hist)
{
	struct json_object *row = json_object_new_object();

	add_text(row, "name", name);
	add_text(row, "context", context);
	add_hist(row, hist);
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

		if (!hist_samples(&hists->time))
			continue;
		context = names_get(&report->names->contexts, i, room, sizeof(room));
		json_object_array_add(rows, napi_row("delay", context, &hists->delay));
		row = napi_row("time", context, &hists->time);
		add_u64(row, "work", hists->work);
		json_object_array_add(rows, row);
	}
	return rows;
}

static struct json_object *polls(const struct report *report)
{
	const struct counts *c = &report->counts;
	struct json_object *o = json_object_new_object();
	__u64 counted = 0;

	for (int context = 0; context < MAX_CONTEXTS; context++)
		counted += hist_samples(&report->napi[context].time);
	add_u64(o, "counted", counted);
	add_u64(o, "again", c->polls_again);
	add_u64(o, "without_delay", c->polls_without_delay);
	add_u64(o, "unknown_context", c->polls_unknown_context);
	add_u64(o, "filtered", c->polls_filtered);
	add_u64(o, "missed", report->polls_missed);
	return o;
}

static struct json_object *flag_or_null(int value)
{
	return value < 0 ? NULL : json_object_new_boolean(value);
}

static struct json_object *seconds(double value)
{
	struct json_object *o = json_object_new_double(value);

	json_object_set_serializer(o, json_object_double_to_json_string, (void *)"%.6f", NULL);
	return o;
}

struct json_object *report_json(const struct report *report)
{
	struct json_object *o = json_object_new_object();
	struct json_object *by_point = json_object_new_object();
	struct json_object *by_point_dropped = json_object_new_object();
	struct json_object *stamps = json_object_new_object();

	for (int point = 0; point < report->names->nr_points; point++) {
		char room[32];
		const char *name = point_name(report, point, room, sizeof(room));

		add_u64(by_point, name, seen(report, point));
		add_u64(by_point_dropped, name, report->counts.dropped_seen[point]);
	}
	json_object_object_add(stamps, "start", flag_or_null(report->stamps_on_start));
	json_object_object_add(stamps, "end", flag_or_null(report->stamps_on_end));

	add_text(o, "schema", REPORT_SCHEMA);
	add_text(o, "kernel", report->kernel);
	add_text(o, "clock_unit", "ns");
	json_object_object_add(o, "sub_buckets", json_object_new_int(LOGLINEAR_SUB));
	json_object_object_add(o, "seconds", seconds(report->seconds));
	json_object_object_add(o, "ifindex",
			       report->ifindex ? json_object_new_int(report->ifindex) : NULL);
	json_object_object_add(o, "stamps_on", stamps);
	json_object_object_add(o, "samples", samples(report));
	json_object_object_add(o, "seen", by_point);
	json_object_object_add(o, "seen_dropped", by_point_dropped);
	json_object_object_add(o, "drop_reasons", drop_reasons(report));
	json_object_object_add(o, "flags", flags(&report->counts));
	json_object_object_add(o, "unplaced", unplaced(report));
	json_object_object_add(o, "layers", layers(report));
	json_object_object_add(o, "polls", polls(report));
	json_object_object_add(o, "napi", napi(report));
	return o;
}
