/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms joined, and as members of a document's object. */
#ifndef SKBLAB_HIST_JSON_H
#define SKBLAB_HIST_JSON_H

#include <json-c/json.h>

#include "hist.h"

/* A histogram without values is not all zero. */
void hist_init(struct hist *hist);
/* Add one CPU's part. */
void hist_join(struct hist *sum, const struct hist *part);
/* Count a value, as programs do (hist.bpf.h). */
void hist_place(struct hist *hist, __s64 value);
/* Values placed. */
__u64 hist_count(const struct hist *hist);
/* [number, count] of a bucket. */
void hist_add_bucket(struct json_object *buckets, int number, __u64 count);
/* All figures of it. */
void hist_add(struct json_object *to, const struct hist *hist);

#endif /* SKBLAB_HIST_JSON_H */
