#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# pathlat with real packets: counts must be exact. Run it as root inside a guest; it makes
# namespaces of its own and removes them. All kernels have hooks, with the option --kprobes or
# without; if this one has histograms of its own, these are read at the end.
#   usage: guest.sh PATHLAT SKBLAB-TRAFFIC [PACKETS [--kprobes]]
set -eu
usage="usage: guest.sh PATHLAT SKBLAB-TRAFFIC [PACKETS [--kprobes]]"
pathlat=$(readlink -f "${1:?$usage}")
traffic=$(readlink -f "${2:?$usage}")
packets=${3:-100003}
shift "$(($# < 3 ? $# : 3))"
options="--source hooks $*"
histograms=/sys/kernel/debug/net_path/histograms
a=skbp-a-$$ b=skbp-b-$$ c=skbp-c-$$
work=$(mktemp -d)
running=

cleanup() {
	for pid in $running; do
		kill "$pid" 2>/dev/null || true
	done
	ip netns del "$a" 2>/dev/null || true
	ip netns del "$b" 2>/dev/null || true
	ip netns del "$c" 2>/dev/null || true
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
		[ "$tries" -lt 1200 ] || die "no \"ready\": $(cat "$1")"
		sleep 0.1
	done
}

# gone PID: wait until a process has ended
gone() {
	tries=0
	while kill -0 "$1" 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -lt 1200 ] || die "process $1 still runs"
		sleep 0.1
	done
}

icmpv6_sent() {
	for ns in "$a" "$b"; do
		ip netns exec "$ns" grep '^Icmp6OutMsgs' /proc/net/snmp6
	done
}

# until_quiet: wait until the devices of a and b have said all they say of themselves (listeners,
# duplicate addresses). Solicitations of routers, which never end, are switched off.
until_quiet() {
	tries=0
	before=
	now=$(icmpv6_sent)
	while [ "$now" != "$before" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 40 ] || die "the devices go on sending ICMPv6: $now"
		before=$now
		sleep 3
		now=$(icmpv6_sent)
	done
}

nothing_attached() {
	tries=0
	while bpftool prog show | grep -qE 'name (on_poll_sample|fentry_|kprobe_|netif_rx_entry)'; do
		tries=$((tries + 1))
		[ "$tries" -lt 1200 ] || die "a program is still loaded $1"
		sleep 0.1
	done
	echo "ok nothing attached $1"
}

# probe NAME OPTION...: start pathlat; its document lands in $work/NAME.json
probe() {
	name=$1
	shift
	: >"$work/$name.err"
	# shellcheck disable=SC2086  # several words
	"$pathlat" $options "$@" >"$work/$name.json" 2>"$work/$name.err" &
	probe=$!
	running="$running $probe"
	until_line "$work/$name.err"
}

end_probe() {
	kill -INT "$probe"
	wait "$probe" || die "pathlat ended with $?: $(cat "$work/$name.err")"
}

# pair NAME ADDRESS COUNT RATE RCVBUF [OPTION...]: packets from a to $reader
reader=$b
pair() {
	pair=$1 address=$2 count=$3 rate=$4 rcvbuf=$5
	shift 5
	: >"$work/$pair.ready"
	ip netns exec "$reader" "$traffic" receive --bind "$address:5000" --expect "$count" --idle 2 \
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
for path in p["paths"]:
    parts, whole, points = path["layers"], path["path_time"], path["seen"]
    # Every interval is rounded for itself.
    slack = (len(parts) + 1) * whole["count"]
    if p["source"] == "hooks" and abs(sum(row["sum"] for row in parts) - whole["sum"]) > slack:
        sys.exit(f"guest.sh: {Path(name).name}: the layers do not add up to the path time: {path}")
    for row in parts + [whole, path["since_entry"]]:
        row["buckets"] = len(row["buckets"])
receive, forward, send = p["paths"]

def grouped(path):
    """What of a path is in groups, as it is in the whole: packets and time at each point."""
    sums = {}
    for one in p["groups"]:
        for row in one["paths"]:
            for part in [*row["layers"], {**row["path_time"], "to": "path_time"}] * (row["path"] == path["path"]):
                count, time = sums.get(part["to"], (0, 0))
                sums[part["to"]] = count + part["count"], time + part["sum"]
    return sums

def whole(path):
    parts = [*path["layers"], {**path["path_time"], "to": "path_time"}] if path["path_time"]["count"] else []
    return {part["to"]: (part["count"], part["sum"]) for part in parts}

def names(path):
    return {g["name"] for g in p["groups"] if path["path"] in [row["path"] for row in g["paths"]]}

ended = sum(count for path in p["paths"] for count in path["ends"].values())
lost = {
    f"{where} {key}": path[key]
    for path in p["paths"] for where in [path["path"]] for key in ("negative", "overflow")
    if path.get(key)
} | {key: count for key, count in (p["samples"] or {}).items() if key != "filtered" and count} | {
    key: p["hooks"][key]
    for key in (
        *("replaced", "refused", "sends_refused", "napis_refused", "bulk_cut", "in_flight"),
        "kprobes_missed",
    )
    if p["hooks"] and p["hooks"][key]
}
for row in p["napi"]:
    row["buckets"] = len(row["buckets"])
for expression in expressions:
    if not eval(expression):
        sys.exit(f"guest.sh: {Path(name).name}: not true: {expression}\n  {p}\n  {s}\n  {r}")
    print(f"ok {Path(name).name}: {' '.join(expression.split())}")
PYTHON
}

ip netns add "$a"
ip netns add "$b"
for ns in "$a" "$b"; do
	ip netns exec "$ns" sysctl -q -w net.ipv6.conf.default.router_solicitations=0
done
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
big=134217728

all='receive["ends"]["delivered"] == r["received"] == s["sent"] and not lost'
each='set(receive["seen"].values()) == {r["received"]} and len(receive["seen"]) == 9'
counts='[row["count"] for row in receive["layers"]] == [r["received"]] * 8'
# They come by veth, so the sender's path ends where theirs begins, and is in their total.
sent='send["ends"]["transmitted"] == s["sent"] == receive["reentered"]'
way='[row["to"] for row in send["layers"]] == ["transport", "output", "queue", "xmit", "done"]'
longest='receive["since_entry"]["sum"] > receive["path_time"]["sum"] + 0.9 * send["path_time"]["sum"]'
# What they saw begin they saw end.
over='p["hooks"]["entered"] + p["hooks"]["began"] == ended + p["merged"]'
# veth polls by the backlog, which has no device.
polled='p["polls"]["counted"] > 0 and p["polls"]["missed"] == p["polls"]["filtered"] == 0'
figures='sum(row["work"] for row in p["napi"] if row["name"] == "time") >= r["received"]'
filtered='p["polls"]["filtered"] > 0 and p["polls"]["counted"] == 0'

# Nothing else sends UDP here, so the filter must not make a difference.
probe ipv4
pair ipv4 198.18.0.2 "$packets" 20000 "$big" --flows 8
end_probe
check ipv4 "$all" "$each" "$counts" "$sent" "$way" "$longest" "$over" "$polled" "$figures"
# What is sent from here came in by no device.
unsent='not any(send["ends"].values()) and p["samples"]["filtered"] == s["sent"]'
until_quiet
probe ipv6 --device peer0 --netns "$b"
pair ipv6 '[2001:2::2]' "$packets" 20000 "$big" --flows 8
end_probe
check ipv6 "$all" "$each" "$counts" "$unsent" "$over" "$filtered"

# The rest is IPv4: with no IPv6 no device sends anything of its own.
# Through b to c: three paths, each of which ends where the next begins.
for ns in "$a" "$b"; do
	ip netns exec "$ns" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1
done
ip netns add "$c"
ip netns exec "$c" sysctl -q -w net.ipv6.conf.default.disable_ipv6=1
ip netns exec "$b" sysctl -q -w net.ipv6.conf.default.disable_ipv6=1
ip -n "$b" link add veth1 type veth peer name peer1 netns "$c"
ip -n "$b" addr add 198.18.0.5/30 dev veth1
ip -n "$c" addr add 198.18.0.6/30 dev peer1
ip -n "$b" link set veth1 up
ip -n "$c" link set peer1 up
ip -n "$a" route add 198.18.0.4/30 via 198.18.0.2
ip -n "$b" neighbour replace 198.18.0.6 lladdr "$(mac "$c" peer1)" nud permanent dev veth1
ip netns exec "$b" sysctl -q -w net.ipv4.ip_forward=1
forwarded='forward["ends"]["transmitted"] == forward["reentered"] == r["received"]'
through='[row["to"] for row in forward["layers"]] == ["stack", "ip", "route", "forward", "output", "queue", "xmit", "done"]'
eight='[row["count"] for row in forward["layers"]] == [r["received"]] * 8'
mostly='receive["ends"]["delivered"] == r["received"] == s["sent"] == send["ends"]["transmitted"]'
longer='receive["since_entry"]["sum"] > receive["path_time"]["sum"] + 0.9 * (send["path_time"]["sum"] + forward["path_time"]["sum"])'
reader=$c
probe forward
pair forward 198.18.0.6 "$packets" 10000 "$big"
end_probe
check forward "$mostly" "$forwarded" "$through" "$eight" "$each" "$longer" 'not lost'
reader=$b

# Many that wait in recv() must not keep the probe from seeing the one that reads.
: >"$work/waiting.ready"
ip netns exec "$b" python3 -c '
import socket, threading, time
for _ in range(30):
    one = socket.socket(type=socket.SOCK_DGRAM)
    one.bind(("198.18.0.2", 0))
    threading.Thread(target=one.recv, args=[1], daemon=True).start()
time.sleep(1)
print("ready", flush=True)
time.sleep(600)
' >"$work/waiting.ready" &
waiting=$!
running="$running $waiting"
probe waiting
until_line "$work/waiting.ready"
pair waiting 198.18.0.2 500 2000 "$big"
end_probe
kill "$waiting"
check waiting "$all" "$each" "$counts"

# A receiver with a tiny buffer: what the socket drops must be told, and why.
probe drops --device peer0 --netns "$b"
pair drops 198.18.0.2 20000 0 4096
end_probe
# A drop may interrupt the program at work on a delivery: then it is missed, and counted as that.
rcvbuff='receive["drop_reasons"]["SOCKET_RCVBUFF"]'
check drops \
	"0 < $rcvbuff == receive['seen_dropped']['transport']" \
	'receive["ends"]["dropped"] == sum(receive["drop_reasons"].values())' \
	"r['lost'] == $rcvbuff + p['samples']['missed']" \
	'r["lost"] == r["socket"]["drops"]' \
	'receive["ends"]["delivered"] == r["received"]' \
	'receive["seen_dropped"]["user"] == receive["seen_dropped"]["wake"] == 0' \
	'receive["seen_dropped"]["socket"] == r["lost"]'

# Groups add up to the whole, and are those that there have to be.
grouped='p["groups_others"] == 0 and all(grouped(path) == whole(path) for path in p["paths"])'
for by in cpu queue context protocol; do
	probe "by-$by" --by "$by"
	pair "by-$by" 198.18.0.2 2000 20000 "$big"
	end_probe
	case $by in
	cpu) names='set() < names(receive) <= {"0", "1"} and set() < names(send) <= {"0", "1"}' ;;
	queue) names='names(receive) == {"none"} and names(send) == {"0"}' ;;
	context) names='names(receive) == {"backlog"} and "task" in names(send)' ;;
	protocol) names='names(receive) == names(send) == {"udp4"}' ;;
	esac
	check "by-$by" "$all" "$sent" "$grouped" "$names"
done

# With GRO a veth device has a NAPI instance. A kernel that samples polls tells its context once a
# poll has ended.
ip netns exec "$a" ethtool -K veth0 tso off
ip netns exec "$b" ethtool -K peer0 gro on
for context in softirq kthread; do
	[ $context = softirq ] || ip netns exec "$b" sh -c 'echo 1 >/sys/class/net/peer0/threaded'
	probe "in-$context" --by context
	pair "in-$context" 198.18.0.2 2000 5000 "$big"
	end_probe
	early='set()'
	[ ! -e /sys/kernel/tracing/events/napi/napi_poll_sample ] || early='{"backlog"}'
	[ $context = kthread ] || early="$early | {'ksoftirqd'}"
	check "in-$context" "$all" "$grouped" "{'$context'} <= names(receive) <= {'$context'} | $early"
done
ip netns exec "$b" sh -c 'echo 0 >/sys/class/net/peer0/threaded'
ip netns exec "$b" ethtool -K peer0 gro off

# Another device: everything is filtered, nothing counted.
probe other --device lo
pair other 198.18.0.2 1000 20000 "$big"
end_probe
check other 'p["samples"] == {"filtered": s["sent"] + r["received"], "unknown": 0, "missed": 0}' \
	'not any(count for path in p["paths"] for count in path["ends"].values())'

# Almost no room: those that found none are counted, and the rest come to their ends.
probe room --room 4
pair room 198.18.0.2 5000 0 "$big"
end_probe
check room 'p["hooks"]["refused"] > 0 == p["hooks"]["in_flight"] == p["hooks"]["replaced"]' \
	'p["hooks"]["entered"] + p["hooks"]["began"] == ended + p["merged"] + p["hooks"]["refused"]'

# Through a bridge a packet enters twice. The second time it is unwanted, yet accounted for.
bridge() {
	ip -n "$b" link add br0 type bridge
	ip -n "$b" link set peer0 master br0
	ip -n "$b" addr del 198.18.0.2/30 dev peer0
	ip -n "$b" addr add 198.18.0.2/30 dev br0
	ip -n "$b" link set br0 up
}
no_bridge() {
	ip -n "$b" link del br0
	ip -n "$b" addr add 198.18.0.2/30 dev peer0
}
bridge
probe bridge --device peer0 --netns "$b"
pair bridge 198.18.0.2 1000 20000 "$big"
end_probe
check bridge 'r["received"] == p["hooks"]["entered"] == p["hooks"]["continued"]' \
	'ended == 0 and not lost'
no_bridge

nothing_attached "after the document"
probe killed
kill -9 "$probe"
wait "$probe" 2>/dev/null || true
nothing_attached "after kill -9"

sh -c '"$1" $3 --output "$2/orphan.json" 2>"$2/orphan.err" & echo $! >"$2/orphan.pid"
	while ! grep -q "^ready$" "$2/orphan.err"; do sleep 0.1; done' sh "$pathlat" "$work" "$options"
gone "$(cat "$work/orphan.pid")"
check orphan 'p["seconds"] > 0'
nothing_attached "after the parent ended"

# refuses TEXT OPTION...: pathlat must say TEXT and exit with 2
refuses() {
	text=$1
	shift
	status=0
	# shellcheck disable=SC2086
	said=$("$pathlat" $options --seconds 1 "$@" 2>&1 >/dev/null) || status=$?
	case "$status $said" in
	"2 pathlat: "*"$text"*) echo "ok refused: $said" ;;
	*) die "pathlat $*: exit $status: $said" ;;
	esac
}
refuses 'no such device' --device nosuch0
refuses 'no such device' --device 99999
refuses 'no such device' --device nosuch0 --netns "$b"
refuses 'no such device' --device 99999 --netns "$b"
refuses 'cannot enter it' --device peer0 --netns nosuch
refuses 'cannot enter it' --netns nosuch
refuses 'cannot write there' --output /proc/nosuch/file
nothing_attached "after refusals"

status=0
# shellcheck disable=SC2086
setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all \
	"$pathlat" $options --seconds 1 2>"$work/nobody.err" || status=$?
[ "$status" = 2 ] || die "exit $status without permission: $(cat "$work/nobody.err")"
grep -q 'no permission' "$work/nobody.err" || die "$(cat "$work/nobody.err")"
[ "$(wc -l <"$work/nobody.err")" = 1 ] || die "more than one line: $(cat "$work/nobody.err")"
echo "ok no permission: $(cat "$work/nobody.err")"

# The kernel's own histograms: of all packets of this machine, so nothing else may send.
if [ -e "$histograms" ]; then
	stamps() { sysctl -q -w net.core.path_trace="$1"; }
	options=
	through='list(p["in"]["seen"].values()) == [2 * r["received"]] * 4'
	# All intervals of a packet are its total, but for less than 64 units of the clock.
	closed='0 <= receive["path_time"]["sum"] + forward["path_time"]["sum"] - sum(row["sum"] for one in [p["in"], receive, forward] for row in one["layers"]) < 200 * r["received"]'
	sent='abs(send["path_time"]["sum"] - sum(row["sum"] for row in send["layers"])) < 100 * s["sent"]'

	# Without a word about it histograms are the source, unless they do not tell what is asked for.
	[ "$("$pathlat" --check)" = histograms ] || die "another source than histograms"
	"$pathlat" --check --family 4 | grep -q '^hooks: ' || die "another source than hooks"

	stamps 1
	reader=$c
	probe own
	pair own 198.18.0.6 2000 10000 "$big"
	end_probe
	check own 'p["source"] == "histograms" and p["samples"] is p["hooks"] is None' \
		'p["stamps_on"] == {"start": True, "end": True} and p["flags"] == {"negative": 0}' \
		'all(path["all_passed"] for path in p["paths"])' \
		'p["histograms"]["entered"] == 2 * r["received"] == 2 * p["histograms"]["sent"]' \
		"$through" "$closed" "$sent" \
		'receive["ends"]["delivered"] == forward["ends"]["transmitted"] == send["ends"]["transmitted"] == s["sent"] == r["received"]' \
		'[row["to"] for row in p["in"]["layers"]] == ["stack", "ip", "route"]' \
		'[row["from"] for row in receive["layers"]] == ["route", "local", "transport", "socket", "wake"]' \
		'[row["to"] for row in forward["layers"]] == ["forward", "output", "queue", "xmit", "done"]' \
		'[row["to"] for row in send["layers"]] == ["transport", "output", "queue", "xmit", "done"]' \
		'{row["count"] for path in p["paths"] for row in path["layers"]} == {r["received"]}'
	reader=$b

	# Through a bridge a packet comes in twice. The bridge says something of itself, too.
	bridge
	probe again
	pair again 198.18.0.2 1000 10000 "$big"
	end_probe
	check again '0 <= p["histograms"]["entered"] - r["received"] < 10' \
		'p["in"]["seen"]["driver"] == p["histograms"]["entered"] + r["received"]' \
		'p["in"]["layers"][0]["from"] == p["in"]["layers"][0]["to"] == "driver"' \
		'p["in"]["layers"][0]["count"] == receive["ends"]["delivered"] == r["received"]'
	no_bridge

	# Switched off, there is nothing to count, and the document says so.
	stamps 0
	"$pathlat" --seconds 0.2 --output "$work/off.json" 2>"$work/off.err"
	check off \
		'p["stamps_on"] == {"start": False, "end": False} and not any(receive["seen"].values())'
	grep -q 'path_trace is not 1' "$work/off.err" || die "no warning: $(cat "$work/off.err")"

	# All has to be of one beginning.
	for meanwhile in 'set to zero:echo 1 >/sys/kernel/debug/net_path/reset' \
		'set to zero:sysctl -q -w net.core.path_trace=0 net.core.path_trace=1'; do
		stamps 1
		pair few 198.18.0.2 100 10000 "$big"
		probe meanwhile
		sh -c "${meanwhile#*:}"
		pair few 198.18.0.2 10 10000 "$big"
		kill -INT "$probe"
		! wait "$probe" || die "not noticed: ${meanwhile#*:}"
		grep -q "${meanwhile%%:*}" "$work/meanwhile.err" || die "$(cat "$work/meanwhile.err")"
		echo "ok noticed: ${meanwhile#*:}"
	done
	stamps 0
fi
echo "ok all"
