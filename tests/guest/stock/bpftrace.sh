#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The bpftrace scripts by hand, as their heads say, with known packets; for a guest.
#   usage: bpftrace.sh TREE SKBLAB-TRAFFIC PACKETS POLLS      POLLS: napi or napi-hooks
set -eu
tree=$1 traffic=$2 packets=$3 polls=$4
bt=$tree/probes/bpftrace
# shellcheck source=/dev/null
. "$tree/runners/skblab/testbeds/net.sh"
# shellcheck source=/dev/null
. "$tree/runners/skblab/probe/guest/topology.sh"

# run SCRIPT NAMESPACE ADDRESS: what the script prints while packets go there
run() {
	: >/tmp/out
	: >/tmp/ready
	bpftrace "$bt/$1.bt" >/tmp/out 2>&1 &
	script=$!
	until grep -q '^ready' /tmp/out; do
		kill -0 "$script" || { cat /tmp/out; exit 1; }
		sleep 0.2
	done
	ip netns exec "$2" "$traffic" receive --bind "$3:5001" --expect "$packets" --idle 60 \
		--rcvbuf 134217728 >/tmp/receive 2>/tmp/ready &
	receiver=$!
	until grep -q '^ready' /tmp/ready; do sleep 0.1; done
	ip netns exec source "$traffic" send --to "$3:5001" --count "$packets" --rate 5000 --size 64 \
		>/tmp/send
	wait "$receiver"
	kill -INT "$script"
	wait "$script" || true
	cat /tmp/out
}

# expect TEXT...: a line of the output must begin so
expect() {
	for text in "$@"; do
		grep -q "^$text" /tmp/out || { echo "bpftrace.sh: no line begins \"$text\""; exit 1; }
	done
	# Warnings would be about the script.
	if grep -E 'WARNING|ERROR' /tmp/out; then
		exit 1
	fi
}

run receive-hooks router 198.18.1.2
for point in stack ip route local transport socket wake user total; do
	expect "@$point: count $packets, "
done
run forward-hooks target 198.18.2.2
for point in forward output queue xmit "done" total; do
	expect "@$point: count $packets, "
done
run "$polls" router 198.18.1.2
expect "@polls\[(backlog)"
polled=$(sed -n 's/^@work\[(backlog)[^]]*\]: //p' /tmp/out | awk '{ sum += $1 } END { print sum }')
[ "$polled" = "$packets" ] || { echo "bpftrace.sh: $polled packets polled, not $packets"; exit 1; }
echo "ok all"
