#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The sender and receiver in two network namespaces of their own: a clean link first, then one
# that loses and repeats packets (where the kernel has netem). Needs root, iproute2 and
# python3. Leaves no namespace behind, whatever happens.
#   usage: netns.sh SKBLAB-TRAFFIC-BINARY
set -eu
binary=$(readlink -f "${1:?usage: netns.sh SKBLAB-TRAFFIC-BINARY}")
a=skbt-a-$$ b=skbt-b-$$
work=$(mktemp -d)
receiver=

cleanup() {
	[ -z "$receiver" ] || kill "$receiver" 2>/dev/null || true
	ip netns del "$a" 2>/dev/null || true
	ip netns del "$b" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add veth0 type veth peer name veth0 netns "$b"
ip -n "$a" addr add 198.18.0.1/30 dev veth0
ip -n "$b" addr add 198.18.0.2/30 dev veth0
ip -n "$a" addr add 2001:2::1/64 dev veth0 nodad
ip -n "$b" addr add 2001:2::2/64 dev veth0 nodad
ip -n "$a" link set veth0 up
ip -n "$b" link set veth0 up

# pair NAME ADDRESS COUNT RATE FLOWS: reports land in $work/NAME.send and $work/NAME.receive
pair() {
	: >"$work/$1.ready"
	ip netns exec "$b" "$binary" receive --bind "$2:5000" --expect "$3" --idle 1 \
		--rcvbuf 67108864 >"$work/$1.receive" 2>"$work/$1.ready" &
	receiver=$!
	tries=0
	until grep -q '^ready$' "$work/$1.ready"; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || { echo "netns.sh: receiver not ready: $(cat "$work/$1.ready")" >&2; exit 1; }
		sleep 0.05
	done
	ip netns exec "$a" "$binary" send --to "$2:5000" --count "$3" --rate "$4" --flows "$5" \
		>"$work/$1.send"
	wait "$receiver"
	receiver=
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

clean='s["sent"] == r["distinct"] and r["lost"] == r["duplicates"] == r["reordered_in_flow"] == 0'
paced='abs(s["rate_reached"] / s["rate_asked"] - 1) < 0.01'
pair ipv4 198.18.0.2 100000 20000 1
check ipv4 "$clean and $paced and r['received'] == 100000"
pair ipv6 '[2001:2::2]' 100000 20000 8
check ipv6 "$clean and $paced and r['flows'] == 8"

if ip netns exec "$a" tc qdisc add dev veth0 root netem loss 5% duplicate 5% 2>/dev/null; then
	pair faulty 198.18.0.2 20000 20000 1
	check faulty '0 < r["lost"] < 3000 and 0 < r["duplicates"] < 3000'
	check faulty 'r["received"] == s["sent"] - r["lost"] + r["duplicates"]'
	ip netns exec "$a" tc qdisc change dev veth0 root netem delay 1ms reorder 10% gap 5
	pair mixed 198.18.0.2 20000 20000 1
	check mixed "0 < r['reordered'] and r['lost'] == r['duplicates'] == 0"
else
	echo "skip faulty, mixed: no netem in this kernel"
fi
