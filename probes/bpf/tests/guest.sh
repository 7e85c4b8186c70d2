#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# pathlat on a patched kernel, with real packets: counts must be exact. Run it as root inside a
# guest; it makes namespaces of its own and removes them.
#   usage: guest.sh PATHLAT SKBLAB-TRAFFIC [PACKETS]
set -eu
pathlat=$(readlink -f "${1:?usage: guest.sh PATHLAT SKBLAB-TRAFFIC [PACKETS]}")
traffic=$(readlink -f "${2:?usage: guest.sh PATHLAT SKBLAB-TRAFFIC [PACKETS]}")
packets=${3:-100003}
a=skbp-a-$$ b=skbp-b-$$
work=$(mktemp -d)
running=

cleanup() {
	for pid in $running; do
		kill "$pid" 2>/dev/null || true
	done
	ip netns del "$a" 2>/dev/null || true
	ip netns del "$b" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
	echo "guest.sh: $*" >&2
	exit 1
}

# until_line FILE: wait for the line "ready"
until_line() {
	tries=0
	until grep -q '^ready$' "$1"; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || die "no \"ready\": $(cat "$1")"
		sleep 0.1
	done
}

# gone PID: wait until a process has ended
gone() {
	tries=0
	while kill -0 "$1" 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || die "process $1 still runs"
		sleep 0.1
	done
}

nothing_attached() {
	tries=0
	while bpftool prog show | grep -qE 'name on_(path|poll)_sample'; do
		tries=$((tries + 1))
		[ "$tries" -lt 50 ] || die "a program is still loaded $1"
		sleep 0.1
	done
	echo "ok nothing attached $1"
}

# probe NAME OPTION...: start pathlat; its document lands in $work/NAME.json
probe() {
	name=$1
	shift
	: >"$work/$name.err"
	"$pathlat" "$@" >"$work/$name.json" 2>"$work/$name.err" &
	probe=$!
	running="$running $probe"
	until_line "$work/$name.err"
}

end_probe() {
	kill -INT "$probe"
	wait "$probe" || die "pathlat ended with $?: $(cat "$work/$name.err")"
}

# pair NAME ADDRESS COUNT RATE RCVBUF [OPTION...]: packets from a to b
pair() {
	pair=$1 address=$2 count=$3 rate=$4 rcvbuf=$5
	shift 5
	: >"$work/$pair.ready"
	ip netns exec "$b" "$traffic" receive --bind "$address:5000" --expect "$count" --idle 2 \
		--rcvbuf "$rcvbuf" >"$work/$pair.receive" 2>"$work/$pair.ready" &
	receiver=$!
	running="$running $receiver"
	until_line "$work/$pair.ready"
	ip netns exec "$a" "$traffic" send --to "$address:5000" --count "$count" --rate "$rate" \
		--size 64 "$@" >"$work/$pair.send"
	wait "$receiver" || die "receiver ended with $?"
}

# check NAME EXPRESSION...: Python expressions over probe p, sender s and receiver r must hold
check() {
	checked=$1
	shift
	python3 - "$work/$checked" "$@" <<'PYTHON'
import json, sys
from pathlib import Path

name, *expressions = sys.argv[1:]
p, r, s = (
    json.loads(Path(name + end).read_text() or "{}") if Path(name + end).exists() else {}
    for end in (".json", ".receive", ".send")
)
total = next(row for row in p["layers"] if row.get("total"))
parts = [row for row in p["layers"] if not row.get("total")]
lost = {key: value for key, value in p["unplaced"].items() if value} | {
    key: value for key, value in p["flags"].items() if value
}
for row in p["layers"] + p["napi"]:
    row["buckets"] = len(row["buckets"])
for expression in expressions:
    if not eval(expression):
        sys.exit(f"guest.sh: {Path(name).name}: not true: {expression}\n  {p}\n  {s}\n  {r}")
    print(f"ok {Path(name).name}: {' '.join(expression.split())}")
PYTHON
}

ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add veth0 type veth peer name peer0 netns "$b"
ip -n "$a" addr add 198.18.0.1/30 dev veth0
ip -n "$b" addr add 198.18.0.2/30 dev peer0
ip -n "$a" addr add 2001:2::1/64 dev veth0 nodad
ip -n "$b" addr add 2001:2::2/64 dev peer0 nodad
ip -n "$a" link set veth0 up
ip -n "$b" link set peer0 up
# ARP and neighbour discovery are not to be among the packets counted.
mac() { ip netns exec "$1" cat "/sys/class/net/$2/address"; }
for address in 198.18.0.2 2001:2::2; do
	ip -n "$a" neighbour replace "$address" lladdr "$(mac "$b" peer0)" nud permanent dev veth0
done
for address in 198.18.0.1 2001:2::1; do
	ip -n "$b" neighbour replace "$address" lladdr "$(mac "$a" veth0)" nud permanent dev peer0
done
sysctl -q -w net.core.path_trace=1
big=134217728

all='p["samples"]["delivered"] == r["received"] == s["sent"] and not lost'
each='set(p["seen"].values()) == {r["received"]}'
closed='sum(row["sum"] for row in parts) == total["sum"]'
counts='{row["count"] for row in p["layers"]} == {r["received"]}'
on='p["stamps_on"] == {"start": True, "end": True}'
# veth polls by the backlog, which has no device.
polled='p["polls"]["counted"] > 0 and p["polls"]["missed"] == p["polls"]["filtered"] == 0'
figures='sum(row["work"] for row in p["napi"] if row["name"] == "time") >= r["received"]'
filtered='p["polls"]["filtered"] > 0 and p["polls"]["counted"] == 0'

# Nothing else sends UDP here, so the filter must not make a difference.
probe ipv4
pair ipv4 198.18.0.2 "$packets" 20000 "$big" --flows 8
end_probe
check ipv4 "$all" "$each" "$closed" "$counts" "$on" "$polled" "$figures"
probe ipv6 --device peer0 --netns "$b"
pair ipv6 '[2001:2::2]' "$packets" 20000 "$big" --flows 8
end_probe
check ipv6 "$all" "$each" "$closed" "$counts" "$on" "$filtered"

# A receiver with a tiny buffer: what the socket drops must be told, and why.
probe drops --device peer0 --netns "$b"
pair drops 198.18.0.2 20000 0 4096
end_probe
# A drop may interrupt the program at work on a delivery: then it is missed, and counted as that.
# The device's own ICMPv6 (neighbours, listeners) may end as drops too, with other reasons.
check drops \
	'0 < p["drop_reasons"]["SOCKET_RCVBUFF"] == p["seen_dropped"]["transport"]' \
	'p["samples"]["dropped"] == sum(p["drop_reasons"].values())' \
	'r["lost"] == p["drop_reasons"]["SOCKET_RCVBUFF"] + p["unplaced"]["missed"]' \
	'r["lost"] == r["socket"]["drops"]' \
	'p["samples"]["delivered"] == r["received"]' \
	'p["seen_dropped"]["user"] == 0'

# Another device: everything is filtered, nothing counted.
probe other --device lo
pair other 198.18.0.2 1000 20000 "$big"
end_probe
check other 'p["samples"] == dict.fromkeys(p["samples"], 0) | {"filtered": r["received"]}'

# Switched off, there is nothing to count, and the document says so.
sysctl -q -w net.core.path_trace=0
"$pathlat" --seconds 0.2 --output "$work/off.json" 2>"$work/off.err"
check off 'p["stamps_on"] == {"start": False, "end": False} and not any(p["seen"].values())'
grep -q 'path_trace is 0' "$work/off.err" || die "no warning: $(cat "$work/off.err")"
sysctl -q -w net.core.path_trace=1

nothing_attached "after the document"
probe killed
kill -9 "$probe"
wait "$probe" 2>/dev/null || true
nothing_attached "after kill -9"

sh -c '"$1" --output "$2/orphan.json" 2>"$2/orphan.err" & echo $! >"$2/orphan.pid"
	while ! grep -q "^ready$" "$2/orphan.err"; do sleep 0.1; done' sh "$pathlat" "$work"
gone "$(cat "$work/orphan.pid")"
check orphan 'p["seconds"] > 0'
nothing_attached "after the parent ended"

# refuses TEXT OPTION...: pathlat must say TEXT and exit with 2
refuses() {
	text=$1
	shift
	status=0
	said=$("$pathlat" --seconds 1 "$@" 2>&1 >/dev/null) || status=$?
	case "$status $said" in
	"2 pathlat: "*"$text"*) echo "ok refused: $said" ;;
	*) die "pathlat $*: exit $status: $said" ;;
	esac
}
refuses 'no such device' --device nosuch0
refuses 'no such device' --device nosuch0 --netns "$b"
refuses 'cannot enter it' --device peer0 --netns nosuch
refuses 'cannot write there' --output /proc/nosuch/file
nothing_attached "after refusals"

status=0
setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all \
	"$pathlat" --seconds 1 2>"$work/nobody.err" || status=$?
[ "$status" = 2 ] || die "exit $status without permission: $(cat "$work/nobody.err")"
grep -q 'no permission' "$work/nobody.err" || die "$(cat "$work/nobody.err")"
[ "$(wc -l <"$work/nobody.err")" = 1 ] || die "more than one line: $(cat "$work/nobody.err")"
echo "ok no permission: $(cat "$work/nobody.err")"
echo "ok all"
