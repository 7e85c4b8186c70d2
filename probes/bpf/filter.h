/* SPDX-License-Identifier: GPL-2.0 */
/* The part of a packet's headers that filters and late packets look at, and the filters. */
#ifndef SKBLAB_FILTER_H
#define SKBLAB_FILTER_H

#include <stdbool.h>

#include "pathlat.h"

struct tuple {
	__u8 family; /* 4, 6, or 0 for neither */
	__u8 protocol;
	bool ports;
	__be16 source_port;
	__be16 target_port;
	__u8 source[16]; /* IPv4: the first four */
	__u8 target[16];
};

static inline __attribute__((always_inline)) bool
is_address_wanted(const __u8 *address, const volatile struct config *config)
{
	for (int i = 0; i < 16; i++)
		if (address[i] != config->address[i])
			return false;
	return true;
}

/* As far as the headers tell. */
static inline __attribute__((always_inline)) bool
is_tuple_wanted(const struct tuple *tuple, const volatile struct config *config)
{
	if (config->family && tuple->family != config->family)
		return false;
	if (config->protocol && tuple->protocol != config->protocol)
		return false;
	if (config->port && !(tuple->ports && (tuple->source_port == config->port ||
					       tuple->target_port == config->port)))
		return false;
	if (!config->address_family)
		return true;
	/* The rest of an IPv4 address is zero, as it may be in one of IPv6, or without any. */
	return tuple->family == config->address_family &&
	       (is_address_wanted(tuple->source, config) ||
		is_address_wanted(tuple->target, config));
}

#endif /* SKBLAB_FILTER_H */
