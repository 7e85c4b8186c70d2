#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The sender and receiver in two network namespaces: over a clean link, or over one that loses,
# repeats and reorders packets (netem). Needs root, iproute2 and python3. All is in namespaces of
# its own, files too: however it ends, nothing is left behind.
#   usage: netns.sh SKBLAB-TRAFFIC-BINARY clean|faulty
set -eu
usage='usage: netns.sh SKBLAB-TRAFFIC-BINARY clean|faulty'
binary=$(readlink -f "${1:?$usage}")
link=${2:?$usage}

if [ "${3:-}" != inside ]; then
	exec unshare --net --mount --pid --fork --kill-child=KILL --mount-proc \
		sh "$0" "$binary" "$link" inside
fi
# The binary may lie below it.
exec 9<"$binary"
mount -t tmpfs tmpfs /run
binary=/run/skblab-traffic
cat <&9 >$binary
chmod +x $binary
a=skbt-a b=skbt-b work=/run/work
mkdir $work

ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add veth0 type veth peer name veth0 netns "$b"
ip -n "$a" addr add 198.18.0.1/30 dev veth0
ip -n "$b" addr add 198.18.0.2/30 dev veth0
ip -n "$a" addr add 2001:2::1/64 dev veth0 nodad
ip -n "$b" addr add 2001:2::2/64 dev veth0 nodad
ip -n "$a" link set veth0 up
ip -n "$b" link set veth0 up
# A lost question for an address is asked again after a second, and what waits for it is dropped.
mac=$(ip netns exec "$b" cat /sys/class/net/veth0/address)
for address in 198.18.0.2 2001:2::2; do
	ip -n "$a" neigh replace "$address" lladdr "$mac" nud permanent dev veth0
done

# pair NAME ADDRESS COUNT RATE FLOWS: reports land in $work/NAME.send and $work/NAME.receive
pair() {
	: >"$work/$1.ready"
	ip netns exec "$b" "$binary" receive --bind "$2:5000" --expect "$3" --idle 5 \
		--rcvbuf 67108864 >"$work/$1.receive" 2>"$work/$1.ready" &
	receiver=$!
	tries=0
	until grep -q '^ready$' "$work/$1.ready"; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || { echo "netns.sh: receiver not ready: $(cat "$work/$1.ready")" >&2; exit 1; }
		sleep 0.05
	done
	ip netns exec "$a" "$binary" send --to "$2:5000" --count "$3" --rate "$4" --flows "$5" \
		>"$work/$1.send"
	wait "$receiver"
}

# check NAME EXPRESSION: a Python expression over the two reports s and r must hold
check() {
	python3 - "$work/$1" "$2" <<'PYTHON'
import json, sys
from pathlib import Path

name, expression = sys.argv[1:]
s = json.loads(Path(name + ".send").read_text())
r = json.loads(Path(name + ".receive").read_text())
closed = r["received"] == (
    r["distinct"] + r["duplicates"] + r["too_old"] + r["beyond"] + r["foreign"]["total"]
)
if not (closed and eval(expression)):
    sys.exit(f"netns.sh: {Path(name).name}: not true: {expression}\n  {s}\n  {r}")
print(f"ok {Path(name).name}: sent {s['sent']} at {s['rate_reached']:.0f}/s, distinct {r['distinct']}, "
      f"lost {r['lost']}, duplicates {r['duplicates']}, reordered {r['reordered']}, "
      f"late {s['late'] and s['late']['count']}")
PYTHON
}

# As pair, again if this machine stood still meanwhile: it does not three times.
in_time() {
	for tries in 1 2 3; do
		pair "$@"
		! (check "$1" "$paced") >/dev/null 2>&1 || break
		echo "netns.sh: $1: this machine stood still in try $tries of 3" >&2
	done
}

case $link in
clean)
	all='s["sent"] == r["distinct"] and r["lost"] == r["duplicates"] == r["reordered_in_flow"] == 0'
	# Late packets are made up for; a busy machine still delays the last, now and then.
	paced='abs(s["rate_reached"] / s["rate_asked"] - 1) < 0.25'
	in_time ipv4 198.18.0.2 30000 20000 1
	check ipv4 "$all and $paced and r['received'] == 30000"
	in_time ipv6 '[2001:2::2]' 30000 20000 8
	check ipv6 "$all and $paced and r['flows'] == 8"
	;;
faulty)
	ip netns exec "$a" tc qdisc add dev veth0 root netem loss 5% duplicate 5%
	pair faulty 198.18.0.2 20000 20000 1
	check faulty '500 < r["lost"] < 2000 and 500 < r["duplicates"] < 2000'
	check faulty 'r["received"] == s["sent"] - r["lost"] + r["duplicates"]'
	ip netns exec "$a" tc qdisc change dev veth0 root netem delay 1ms reorder 10% gap 5
	pair mixed 198.18.0.2 20000 20000 1
	check mixed "0 < r['reordered'] and r['lost'] == r['duplicates'] == 0"
	;;
*)
	echo "$usage" >&2
	exit 2
	;;
esac
