# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# title: forwarding, IPv4, 500 000 routes, destinations at random
# knobs: router

# All of 11.0.0.0 to 99.255.255.255, where the destinations are: 229 088 routes of a /20 and then 270 912
# of a /21, each of which has as many destinations as it has addresses.
prepare() {
	lay_out
	seq 0 499999 | awk '{
		of = $1 < 229088 ? 16 * $1 : 16 * 229088 + 8 * ($1 - 229088)
		of += 720896
		printf "route add %d.%d.%d.0/%d via 198.19.0.2 dev r1\n",
			of / 65536, of / 256 % 256, of % 256, $1 < 229088 ? 20 : 21
	}' | $IN_ROUTER ip -batch -
}

load() { sent_family 4 destinations=random; }
