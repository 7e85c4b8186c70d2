#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# TCP through a router that masquerades: a client, a router and a server, each in a network namespace,
# in both families. The router's own counts must say what both ends say. Needs root, iproute2, nft
# and python3, and a kernel with nf_tables and connection tracking. All is in namespaces of its own,
# files too: however it ends, nothing is left behind.
#   usage: nat.sh SKBLAB-TRAFFIC-BINARY CONNECTIONS
set -eu
usage='usage: nat.sh SKBLAB-TRAFFIC-BINARY CONNECTIONS'
binary=$(readlink -f "${1:?$usage}")
connections=${2:?$usage}

if [ "${3:-}" != inside ]; then
	exec unshare --net --mount --pid --fork --kill-child=KILL --mount-proc \
		sh "$0" "$binary" "$connections" inside
fi
# The binary may lie below it.
exec 9<"$binary"
mount -t tmpfs tmpfs /run
binary=/run/skblab-traffic
cat <&9 >$binary
chmod +x $binary
work=/run/work
mkdir $work

for host in client router server; do
	ip netns add $host
	ip -n $host link set lo up
done
ip -n client link add eth0 type veth peer name inside netns router
ip -n server link add eth0 type veth peer name outside netns router
give() { # namespace device address...
	namespace=$1 device=$2
	shift 2
	for address; do
		case $address in *:*) nodad=nodad ;; *) nodad= ;; esac
		# shellcheck disable=SC2086 # a word or none
		ip -n "$namespace" address add "$address" dev "$device" $nodad
	done
	ip -n "$namespace" link set "$device" up
}
give client eth0 198.18.1.2/24 198.18.1.3/24 2001:db8:1::2/64
give router inside 198.18.1.1/24 2001:db8:1::1/64
give router outside 198.18.2.1/24 2001:db8:2::1/64
give server eth0 198.18.2.2/24 2001:db8:2::2/64
ip -n client route add 198.18.2.0/24 via 198.18.1.1
ip -n client route add 2001:db8:2::/64 via 2001:db8:1::1
# The server has no way to the client: only what comes from the router's own address is answered.
in_router='ip netns exec router'
$in_router sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
$in_router nft 'table inet nat {
	counter begun { }
	chain count { type filter hook forward priority 0; ct state new counter name begun; }
	chain nat { type nat hook postrouting priority 100; oifname "outside" masquerade; }
}'

begun() { $in_router nft -j list counter inet nat begun | tr ',' '\n' | sed -n 's/.*"packets": *//p'; }
# Entries of the table; reading the table itself may miss some while others come and go.
entries() { $in_router cat /proc/sys/net/netfilter/nf_conntrack_count; }
# None of them goes while this runs.
for state in close time_wait; do
	$in_router sysctl -q -w net.netfilter.nf_conntrack_tcp_timeout_$state=86400
done

serve() { # bind
	# Or the last one's word counts until the new one's shell has opened the file.
	: >$work/ready
	ip netns exec server $binary tcp-serve --bind "$1" >$work/serve 2>$work/ready &
	server=$!
	tries=0
	until grep -q '^ready$' $work/ready; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { echo "nat.sh: the server is not ready: $(cat $work/ready)" >&2; exit 1; }
		sleep 0.05
	done
}

served() {
	kill $server
	wait $server
}

# check NAME EXPRESSION: a Python expression of the client's report c, the server's s, the router's
# counter `begun` and the new `entries` of its table must hold
check() {
	python3 - "$work" "$1" "$begun" "$entries" "$2" <<'PYTHON'
import json, sys
from pathlib import Path

work, name, begun, entries, expression = sys.argv[1:]
begun, entries = int(begun), int(entries)
c, s = (json.loads((Path(work) / one).read_text()) for one in ("client", "serve"))
if not eval(expression):
    sys.exit(f"nat.sh: {name}: not true: {expression}\n  {c}\n  {s}\n  begun {begun}, "
             f"entries {entries}")
print(f"ok {name}: {c['connections']['completed']} connections, {begun} begun, "
      f"{entries} in the table, {c.get('received_rate') or c['rate_reached'] or 0:.0f}/s")
PYTHON
}

# through NAME SERVER EXPRESSION command…: what a client does, and what the router counts of it
through() {
	name=$1 to=$2 expression=$3
	shift 3
	# Of each its own, so that no entry is used again.
	port=$((port + 1))
	serve "$to:$port"
	$in_router nft reset counter inet nat begun >/dev/null
	before=$(entries)
	ip netns exec client $binary "$@" --to "$to:$port" >$work/client
	begun=$(begun)
	entries=$(($(entries) - before))
	served
	check "$name" "$expression"
}

# A machine that stands still for a second has a first packet sent again, which begins it again.
all='begun * 0.9 <= c["transactions"]["completed"] == s["accepted"] <= begun and s["accepted"]'
# A connection may have the port of an earlier one, whose entry is used again: of many some do.
few() { echo "$1 * 0.97 <= entries <= $1"; }
held=$(few "$connections")
[ "$connections" -le 1000 ] || held="1000 < entries <= $connections"
port=5000
for family in ipv4 ipv6; do
	case $family in
	ipv4) to=198.18.2.2 ;;
	ipv6) to='[2001:db8:2::2]' ;;
	esac
	through "$family crr" "$to" "$all == $connections == c['asked'] and $held" \
		tcp-crr --count "$connections" --flows 16 --seconds 300
	through "$family rate" "$to" "$all == 200 and $(few 200) and c['late'] and c['rate_planned'] == 400" \
		tcp-crr --count 200 --rate 400 --flows 64 --close reset --seconds 60
	through "$family rr" "$to" \
		"c['transactions']['completed'] == 1000 and s['accepted'] == entries == 8 <= begun" \
		tcp-rr --count 1000 --flows 8 --seconds 60
	through "$family stream" "$to" \
		"c['sent_bytes'] == c['received_bytes'] == 6553600 and s['streams'] == entries == 4" \
		tcp-stream --count 100 --size 65536 --flows 4 --seconds 60
	through "$family reverse" "$to" \
		"c['sent_bytes'] == c['received_bytes'] > 0 and s['streams'] == entries == 4" \
		tcp-stream --reverse --flows 4 --seconds 0.3
done
# Two addresses of the client, which are one of the router's.
through "ipv4 from two" 198.18.2.2 "$all == 100 and $(few 100)" \
	tcp-crr --count 100 --from 198.18.1.2-198.18.1.3 --seconds 60
