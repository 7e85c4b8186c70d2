/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Members of the document's objects. */
#ifndef SKBLAB_JSON_H
#define SKBLAB_JSON_H

#include <json-c/json.h>
#include <linux/types.h>

static inline void add_u64(struct json_object *to, const char *key, __u64 value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

static inline void add_text(struct json_object *to, const char *key, const char *value)
{
	json_object_object_add(to, key, json_object_new_string(value));
}

/* To the microsecond. */
static inline void add_seconds(struct json_object *to, const char *key, double value)
{
	struct json_object *o = json_object_new_double(value);

	json_object_set_serializer(o, json_object_double_to_json_string, (void *)"%.6f", NULL);
	json_object_object_add(to, key, o);
}

#endif /* SKBLAB_JSON_H */
