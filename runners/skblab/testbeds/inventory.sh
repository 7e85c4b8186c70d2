# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What a machine is, and how it is set up: facts that its figures depend on, a line each, its name and
# a tab before it. What a machine does not tell has no line. With irq.sh, of the knob.

fact() { # name value
	[ -z "$2" ] || printf '%s\t%s\n' "$1" "$(echo "$2" | tr -s '\n\t ' '   ' | sed 's/ $//')"
}

content() { # name file...
	name=$1
	shift
	fact "$name" "$(cat "$@" 2>/dev/null | sort -u)"
}

# The kernel's configuration, as a digest.
config() {
	if [ -r /proc/config.gz ]; then
		zcat /proc/config.gz
	elif [ -r "/boot/config-$(uname -r)" ]; then
		cat "/boot/config-$(uname -r)"
	fi | sha256sum | cut -c 1-16
}

machine() {
	cpu=/sys/devices/system/cpu
	fact release "$(uname -r)"
	fact version "$(uname -v)"
	fact config "$(config)"
	fact distribution "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null)"
	fact CPU "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
	fact CPUs "$(nproc --all)"
	fact microcode "$(sed -n 's/^microcode[[:space:]]*: //p' /proc/cpuinfo | sort -u)"
	fact memory "$(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
	for node in /sys/devices/system/node/node*/cpulist; do
		content "CPUs of NUMA $(basename "$(dirname "$node")")" "$node"
	done
	fact 'command line' "$(cat /proc/cmdline)"
	content 'clock source' /sys/devices/system/clocksource/clocksource0/current_clocksource
	content governor "$cpu"/cpu*/cpufreq/scaling_governor
	content 'frequency driver' "$cpu"/cpu*/cpufreq/scaling_driver
	content SMT "$cpu/smt/control"
	content isolated "$cpu/isolated"
	fact mitigations "$(cd "$cpu/vulnerabilities" 2>/dev/null && grep -v 'Not affected' ./* | sed 's|^\./||; s/$/;/')"
	content LSMs /sys/kernel/security/lsm
	fact 'net.core' "$(sysctls net/core default_qdisc netdev_budget netdev_budget_usecs \
		netdev_max_backlog dev_weight busy_poll busy_read rps_sock_flow_entries bpf_jit_enable)"
	fact irqbalance "$(pgrep -x irqbalance >/dev/null && echo runs)"
}

sysctls() { # folder name...
	folder=$1
	shift
	for one; do
		[ ! -r "/proc/sys/$folder/$one" ] || echo "$one $(cat "/proc/sys/$folder/$one");"
	done
}

# Of what forwards, in its namespace: before a setting of the sweep is made.
stack() {
	fact 'net.ipv4' "$(sysctls net/ipv4 ip_forward conf/all/rp_filter conf/default/rp_filter ip_early_demux fib_multipath_hash_policy)"
	fact 'net.ipv6' "$(sysctls net/ipv6 conf/all/forwarding)"
	for family in 4 6; do
		fact "routes of IPv$family" "$(ip "-$family" route show table all | wc -l)"
	done
	rules=$(nft list ruleset 2>/dev/null) || rules=
	[ -z "$rules" ] || fact 'nftables rules' "$(echo "$rules" | wc -l) lines, SHA-256 $(echo "$rules" | sha256sum | cut -c 1-16)"
}

# Of a device, in its namespace.
port() { # device
	fact "$1 driver" "$(ethtool -i "$1" 2>/dev/null | sed -n '/^\(driver\|version\|firmware-version\|bus-info\): ./s/$/;/p')"
	content "$1 NUMA node" "/sys/class/net/$1/device/numa_node"
	fact "$1 link" "$(ethtool "$1" 2>/dev/null | sed -n '/Speed\|Duplex/s/^[[:space:]]*\(.*\)$/\1;/p')"
	fact "$1 flow control" "$(ethtool -a "$1" 2>/dev/null | sed -n 's/^\([RT]X\):[[:space:]]*\(on\|off\)$/\1 \2;/p')"
	fact "$1 rings" "$(ethtool -g "$1" 2>/dev/null | sed -n '/^Current/,$s/^\([RT]X\):[[:space:]]*\([0-9].*\)$/\1 \2;/p')"
	fact "$1 queues" "$(ethtool -l "$1" 2>/dev/null | sed -n '/^Current/,$s/^\([RTC][a-zX]*\):[[:space:]]*\([1-9].*\)$/\1 \2;/p')"
	fact "$1 coalescing" "$(ethtool -c "$1" 2>/dev/null | sed -n 's/^\([rt]x-\(usecs\|frames\)\):[[:space:]]*\([0-9].*\)$/\1 \3;/p')"
	fact "$1 offloads" "$(ethtool -k "$1" 2>/dev/null | sed -n 's/^\([a-z-]*\): on$/\1/p; s/^\([a-z-]*\): on \[fixed\]$/\1/p')"
	fact "$1 RSS" "$(ethtool -x "$1" 2>/dev/null | sed -n '/^ *[0-9][0-9]*:/{s/^ *[0-9]*://;p}' | tr -s ' \n' '\n' | sort -n | uniq -c | awk 'NF == 2 { print $1 " entries to queue " $2 ";" }')"
	fact "$1 qdisc" "$(tc qdisc show dev "$1" 2>/dev/null | sed -n 's/^qdisc \([a-z_]*\) .*root.*/\1/p')"
	fact "$1 RPS" "$(cd "/sys/class/net/$1/queues" && grep . rx-*/rps_cpus 2>/dev/null | grep -v ':[0,]*$')"
	fact "$1 IRQ affinity" "$(show "$1" | sed -n 's/^irq [0-9]* \([^ ]*\) \(.*\)$/\2 CPU \1;/p')"
	fact "$1 XPS" "$(cd "/sys/class/net/$1/queues" && grep . tx-*/xps_cpus 2>/dev/null | grep -v ':[0,]*$')"
}
