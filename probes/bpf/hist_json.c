// SPDX-License-Identifier: GPL-2.0-or-later
/* Histograms joined, and as members of a document's object. */
#include <string.h>

#include "hist_json.h"
#include "json.h"

void hist_init(struct hist *hist)
{
	memset(hist, 0, sizeof(*hist));
	hist->low = HIST_EMPTY;
}

/* Values from @low to @high lie within it now. */
static void widen(struct hist *hist, __u32 low, __u32 high)
{
	__u32 highest = hist->low == HIST_EMPTY ? 0 : hist->low + hist->span;

	if (high > highest)
		highest = high;
	if (low < hist->low)
		hist->low = low;
	hist->span = highest - hist->low;
}

void hist_join(struct hist *sum, const struct hist *part)
{
	sum->sum += part->sum;
	sum->negative += part->negative;
	sum->overflow += part->overflow;
	for (int i = 0; i < LOGLINEAR_ROOM; i++)
		sum->buckets[i] += part->buckets[i];
	if (part->low == HIST_EMPTY)
		return;
	widen(sum, part->low, part->low + part->span);
}

void hist_place(struct hist *hist, __s64 value)
{
	if (value < 0) {
		hist->negative++;
	} else if (value > (__u32)-1) {
		hist->overflow++;
	} else {
		hist->buckets[loglinear_index(value)]++;
		hist->sum += value;
		widen(hist, value, value);
	}
}

__u64 hist_count(const struct hist *hist)
{
	__u64 count = 0;

	for (int i = 0; i < LOGLINEAR_ROOM; i++)
		count += hist->buckets[i];
	return count;
}

void hist_add_bucket(struct json_object *buckets, int number, __u64 count)
{
	struct json_object *pair = json_object_new_array_ext(2);

	json_object_array_add(pair, json_object_new_int(number));
	json_object_array_add(pair, json_object_new_uint64(count));
	json_object_array_add(buckets, pair);
}

void hist_add(struct json_object *to, const struct hist *hist)
{
	struct json_object *buckets = json_object_new_array();
	__u64 count = hist_count(hist);

	add_u64(to, "count", count);
	add_u64(to, "sum", hist->sum);
	add_u64(to, "min", count ? hist->low : 0);
	add_u64(to, "max", count ? (__u64)hist->low + hist->span : 0);
	add_u64(to, "negative", hist->negative);
	add_u64(to, "overflow", hist->overflow);
	for (int i = 0; i < LOGLINEAR_ROOM; i++)
		if (hist->buckets[i])
			hist_add_bucket(buckets, i, hist->buckets[i]);
	json_object_object_add(to, "buckets", buckets);
}
