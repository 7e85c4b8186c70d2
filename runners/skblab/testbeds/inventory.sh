# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What a machine is, and how it is set up: facts that its figures depend on, a line each, its name and
# a tab before it. What a machine does not tell has no line. With irq.sh, of the knob.
#
# Few programs are started: each takes an emulated guest that counts instructions a thirtieth of a
# second, and a boot has this before its first trial.

fact() { # name words
	named=$1
	set -f
	# shellcheck disable=SC2086  # words
	set -- $2
	set +f
	[ $# = 0 ] || printf '%s\t%s\n' "$named" "$*"
}

# The kernel's configuration, as a digest.
config() {
	if [ -r /proc/config.gz ]; then
		gzip -dc </proc/config.gz
	elif [ -r "/boot/config-$(uname -r)" ]; then
		cat "/boot/config-$(uname -r)"
	fi | sha256sum
}

machine() {
	cpu=/sys/devices/system/cpu
	digest=$(config) || digest=
	fact config "${digest%"${digest#????????????????}"}"
	fact CPUs "$(nproc --all)"
	fact 'net.core' "$(sysctls net/core default_qdisc netdev_budget netdev_budget_usecs \
		netdev_max_backlog dev_weight busy_poll busy_read rps_sock_flow_entries bpf_jit_enable)"
	fact irqbalance "$(pgrep -x irqbalance >/dev/null && echo runs)"
	# A file that cannot be read, such as the governor of a CPU that is off, is left out.
	grep -sH . /proc/sys/kernel/osrelease /proc/sys/kernel/version /proc/cmdline /etc/os-release \
		/proc/cpuinfo /proc/meminfo /sys/devices/system/node/node*/cpulist \
		/sys/devices/system/clocksource/clocksource0/current_clocksource \
		"$cpu"/smt/control "$cpu"/isolated /sys/kernel/security/lsm "$cpu"/vulnerabilities/* \
		"$cpu"/cpu*/cpufreq/scaling_governor "$cpu"/cpu*/cpufreq/scaling_driver | awk '
		function add(name, more) {
			gsub(/[ \t]+/, " ", more)
			sub(/^ /, "", more)
			sub(/ $/, "", more)
			if (more != "") found[name] = found[name] (found[name] == "" ? "" : " ") more
		}
		# Values that are mostly all the same, in order.
		function once(name, more, at) {
			gsub(/^[ \t]+|[ \t]+$/, "", more)
			for (at = 1; at <= several[name]; at++) if (kept[name, at] == more) return
			for (at = several[name]++; at > 0 && kept[name, at] > more; at--)
				kept[name, at + 1] = kept[name, at]
			kept[name, at + 1] = more
		}
		BEGIN {
			names["osrelease"] = "release"
			names["version"] = "version"
			names["cmdline"] = "command line"
			names["current_clocksource"] = "clock source"
			names["control"] = "SMT"
			names["isolated"] = "isolated"
			names["lsm"] = "LSMs"
		}
		{
			line = $0
			sub(/^[^:]*:/, "", line)
			count = split(substr($0, 1, index($0, ":") - 1), part, "/")
			file = part[count]
			value = line
			sub(/^[^:=]*[:=]/, "", value)
			if (part[count - 1] == "vulnerabilities") {
				if (line !~ /Not affected/) add("mitigations", file ":" line ";")
			} else if (file in names) add(names[file], line)
			else if (file == "cpulist") add("CPUs of NUMA " part[count - 1], line)
			else if (file == "scaling_governor") once("governor", line)
			else if (file == "scaling_driver") once("frequency driver", line)
			else if (line ~ /^model name[ \t]*:/) {
				if (!("CPU" in found)) add("CPU", value)
			} else if (line ~ /^microcode[ \t]*:/) once("microcode", value)
			else if (line ~ /^MemTotal:/) add("memory", value)
			else if (line ~ /^PRETTY_NAME="/) {
				sub(/^"/, "", value)
				sub(/".*/, "", value)
				add("distribution", value)
			}
		}
		END {
			for (name in several) for (at = 1; at <= several[name]; at++) add(name, kept[name, at])
			for (name in found) print name "\t" found[name]
		}'
}

sysctls() { # folder name...
	folder=$1
	shift
	(cd "/proc/sys/$folder" 2>/dev/null && grep -sH . "$@") | while IFS=: read -r one value; do echo "$one $value;"; done
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

# What ethtool says of a device, as facts.
by_ethtool() { # device
	for about in -i '' -a -g -l -c -k -x; do
		echo "== $about"
		# shellcheck disable=SC2086  # none is no word
		ethtool $about "$1" 2>/dev/null || :
	done | awk -v device="$1" '
		function add(more) { found = found " " more ";" }
		function told() {
			if (name == "RSS")
				for (queue = 0; queue <= last; queue++)
					if (queue in entries) add(entries[queue] " entries to queue " queue)
			gsub(/[ \t]+/, " ", found)
			sub(/^ /, "", found)
			if (found != "") print device " " name "\t" found
			found = ""
		}
		/^== / || $0 == "==" {
			told()
			current = 0
			name = names[$2]
			next
		}
		BEGIN {
			names["-i"] = "driver"
			names[""] = "link"
			names["-a"] = "flow control"
			names["-g"] = "rings"
			names["-l"] = "queues"
			names["-c"] = "coalescing"
			names["-k"] = "offloads"
			names["-x"] = "RSS"
			last = -1
		}
		/^Current/ { current = 1 }
		{
			value = $0
			sub(/^[^:]*:[ \t]*/, "", value)
			key = $0
			sub(/:.*/, "", key)
		}
		name == "driver" && /^(driver|version|firmware-version|bus-info): ./ { add($0) }
		name == "link" && /Speed|Duplex/ { add($0) }
		name == "flow control" && /^[RT]X:[ \t]*(on|off)$/ { add(key " " value) }
		name == "rings" && current && /^[RT]X:[ \t]*[0-9]/ { add(key " " value) }
		name == "queues" && current && /^[RTC][a-zX]*:[ \t]*[1-9]/ { add(key " " value) }
		name == "coalescing" && /^[rt]x-(usecs|frames):[ \t]*[0-9]/ { add(key " " value) }
		name == "offloads" && /^[a-z-]*: on( \[fixed\])?$/ { found = found " " key }
		name == "RSS" && /^ *[0-9]+:/ {
			count = split(value, queues, " ")
			for (at = 1; at <= count; at++) {
				entries[queues[at]]++
				if (queues[at] + 0 > last) last = queues[at] + 0
			}
		}
		END { told() }'
}

# The CPU masks of queues that are not empty.
masks() { # device file
	for file in "/sys/class/net/$1/queues/"*/"$2"; do
		mask=
		[ ! -r "$file" ] || read -r mask 2>/dev/null <"$file" || :
		queue=${file%/*}
		case $mask in *[!0,]*) echo "${queue##*/}/$2:$mask" ;; esac
	done
}

# Of a device, in its namespace.
port() { # device
	by_ethtool "$1"
	[ ! -r "/sys/class/net/$1/device/numa_node" ] || fact "$1 NUMA node" "$(cat "/sys/class/net/$1/device/numa_node")"
	fact "$1 qdisc" "$(tc qdisc show dev "$1" 2>/dev/null | sed -n 's/^qdisc \([a-z_]*\) .*root.*/\1/p')"
	fact "$1 RPS" "$(masks "$1" rps_cpus)"
	fact "$1 IRQ affinity" "$(show "$1" | sed -n 's/^irq [0-9]* \([^ ]*\) \(.*\)$/\2 CPU \1;/p')"
	fact "$1 XPS" "$(masks "$1" xps_cpus)"
}
