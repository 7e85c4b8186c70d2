// SPDX-License-Identifier: GPL-2.0-or-later
/* Which headers a filter wants. */
#include <arpa/inet.h>
#include <string.h>

#include "check.h"
#include "filter.h"

static __u8 put(__u8 *address, const char *text)
{
	memset(address, 0, 16);
	if (inet_pton(AF_INET, text, address) == 1)
		return 4;
	check(inet_pton(AF_INET6, text, address) == 1, "%s", text);
	return 6;
}

static struct tuple tuple_of(const char *source, const char *target)
{
	struct tuple tuple = {
		.protocol = IPPROTO_UDP,
		.ports = true,
		.source_port = htons(5000),
		.target_port = htons(53),
	};

	tuple.family = put(tuple.source, source);
	check(put(tuple.target, target) == tuple.family, "%s, %s", source, target);
	return tuple;
}

static bool has_address(const struct tuple *tuple, const char *address)
{
	struct config config = {};

	config.address_family = put(config.address, address);
	return is_tuple_wanted(tuple, &config);
}

static void check_addresses(void)
{
	struct tuple four = tuple_of("198.18.0.1", "32.1.0.2"), six = tuple_of("2001:2::", "::1");
	struct tuple discover = tuple_of("0.0.0.0", "255.255.255.255"), arp = {};
	struct tuple solicit = tuple_of("::", "ff02::1");

	check(has_address(&four, "198.18.0.1"), "the source");
	check(has_address(&four, "32.1.0.2"), "the target");
	check(!has_address(&four, "198.18.0.2"), "neither");
	check(has_address(&six, "::1"), "the target of IPv6");
	/* The same bytes. */
	check(has_address(&six, "2001:2::"), "the source of IPv6");
	check(!has_address(&four, "2001:2::"), "an IPv6 address in IPv4");
	check(!has_address(&six, "32.1.0.2"), "an IPv4 address in IPv6");
	check(has_address(&discover, "0.0.0.0"), "no address yet");
	check(!has_address(&discover, "::"), "no address yet of IPv6");
	check(has_address(&solicit, "::"), "none of IPv6");
	check(!has_address(&solicit, "0.0.0.0"), "none of IPv4");
	check(!has_address(&arp, "0.0.0.0") && !has_address(&arp, "::"), "no IP at all");
}

static void check_others(void)
{
	struct tuple four = tuple_of("198.18.0.1", "198.18.0.2"), other = four, arp = {};
	struct config config = {};

	check(is_tuple_wanted(&arp, &config), "anything");
	config.family = 4;
	check(is_tuple_wanted(&four, &config) && !is_tuple_wanted(&arp, &config), "IPv4");
	config.protocol = IPPROTO_UDP;
	other.protocol = IPPROTO_TCP;
	check(is_tuple_wanted(&four, &config) && !is_tuple_wanted(&other, &config), "UDP");
	config.port = htons(53);
	other = four;
	other.target_port = htons(54);
	check(is_tuple_wanted(&four, &config) && !is_tuple_wanted(&other, &config), "the port");
	other = four;
	other.ports = false;
	check(!is_tuple_wanted(&other, &config), "a fragment without its port");
	config.family = 6;
	check(!is_tuple_wanted(&four, &config), "IPv6");
}

int main(void)
{
	check_addresses();
	check_others();
	puts("ok filter");
	return 0;
}
