# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# The interrupts of a network device, the CPUs that they may go to, and irqbalance, which moves them.

# What the device is a function of; of virtio that is its parent.
owner() { # device
	found=$(readlink -f "/sys/class/net/$1/device")
	case ${found##*/} in
	virtio*) found=${found%/*} ;;
	esac
	echo "$found"
}

interrupts() { # owner
	if [ -d "$1/msi_irqs" ]; then
		ls "$1/msi_irqs"
	elif [ -e "$1/irq" ]; then
		cat "$1/irq"
	fi
}

# Lines of one kind each: `node N CPUS`, `own NODE` of the device, `irq N CPUS NAME`.
show() { # device
	owner=$(owner "$1") had=
	echo "online $(cat /sys/devices/system/cpu/online)"
	if command -v irqbalance >/dev/null; then echo 'irqbalance installed'; fi
	if pgrep -x irqbalance >/dev/null; then echo 'irqbalance runs'; fi
	for node in /sys/devices/system/node/node*; do
		[ ! -e "$node/cpulist" ] || echo "node ${node##*/node} $(cat "$node/cpulist")"
	done
	[ ! -e "$owner/numa_node" ] || echo "own $(cat "$owner/numa_node")"
	for irq in $(interrupts "$owner"); do
		# Each handler has a folder of its name; one without has nothing that interrupts.
		for handler in "/proc/irq/$irq"/*/; do
			[ -d "$handler" ] || continue
			handler=${handler%/}
			echo "irq $irq $(cat "/proc/irq/$irq/smp_affinity_list") ${handler##*/}"
			had=yes
		done
	done
	[ "$had" ] || echo "skblab-unable: $1 has no interrupts of its own"
}

is_service() {
	[ -d /run/systemd/system ] && systemctl cat irqbalance >/dev/null 2>&1
}

start() {
	if is_service; then systemctl start irqbalance; else irqbalance; fi
}

stop() {
	if is_service; then systemctl stop irqbalance; else pkill -x irqbalance; fi
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		pgrep -x irqbalance >/dev/null || return 0
		sleep 0.2
	done
	echo 'irqbalance does not end' >&2
	return 1
}

balance() { # on|off
	if pgrep -x irqbalance >/dev/null; then
		[ "$1" = on ] || stop
	else
		[ "$1" = off ] || start
	fi
}

place() { # irq cpus
	echo "$2" >"/proc/irq/$1/smp_affinity_list"
}
