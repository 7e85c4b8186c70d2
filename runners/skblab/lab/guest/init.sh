# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154  # `shares` is set by the line that spec.py puts before.
# The guest's init, process 1: a writable view over the read-only root, the usual file systems,
# then one sshd on a virtio port. When that connection ends, so does the guest.
set -e
# A failing line must not be silent: process 1 going away is a panic, and this is its cause.
trap 'echo "skblab-init: failed" >/dev/ttyS0' EXIT

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS0 2>&1

# Writes go to memory and are gone with the guest.
mount -t tmpfs tmpfs /tmp
mkdir /tmp/upper /tmp/work /tmp/root
mount -t overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work overlay /tmp/root
options=trans=virtio,version=9p2000.L,msize=262144
for share in $shares; do
	point=${share%:*}
	case $share in
	run:*) mount --bind /skblab/run "/tmp/root/skblab/run" ;;
	# What the guest may write goes to the host at once; what it only reads is cached.
	*:rw) mount -t 9p -o "$options" "$point" "/tmp/root/skblab/$point" ;;
	*) mount -t 9p -o "$options,cache=loose,ro" "$point" "/tmp/root/skblab/$point" ;;
	esac
done
for tree in /proc /sys /dev; do
	mount --rbind "$tree" "/tmp/root$tree"
done
cd /tmp/root
pivot_root . mnt
exec chroot . /bin/sh -e /proc/self/fd/3 3<<'INIT'
trap 'echo "skblab-init: failed" >/dev/ttyS0' EXIT
umount -R -l /mnt
mkdir -p /dev/pts /dev/shm
ln -sf /proc/self/fd /dev/fd
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The modules of a kernel that came with them; nothing asks for the generator's by itself.
if [ -d /skblab/kernel/modules ]; then
	modules=/lib/modules/$(uname -r)
	mkdir -p "$modules"
	ln -s "/skblab/kernel/modules/${modules##*/}"/* "$modules"
	modprobe pktgen || echo "<4>skblab-init: this kernel has no pktgen" >/dev/kmsg
fi
mkdir -p /run/sshd /run/netns
mkfifo /run/never
hostname skblab
ip link set lo up

# The kernel makes the port, its name and its device when QEMU has told it, which may be later than
# this where the host is busy.
device=
looks=0
while [ ! "$device" ]; do
	for port in /sys/class/virtio-ports/*; do
		if [ "$(cat "$port/name" 2>/dev/null)" = skblab.ssh ] && [ -c "/dev/${port##*/}" ]; then
			device=/dev/${port##*/}
		fi
	done
	if [ ! "$device" ]; then
		looks=$((looks + 1))
		if [ $looks = 600 ]; then
			echo "<3>skblab-init: there is no virtio port skblab.ssh" >/dev/kmsg
			exit 1
		fi
		sleep 0.1
	fi
done
# From here on process 1 has nothing left to fail at: whatever ends the connection ends the guest,
# once there was one.
trap - EXIT
set +e
cr=$(printf '\r')
for try in 1 2 3; do
	/usr/sbin/sshd -i -e -f /skblab/run/sshd_config 2>/run/sshd.log <>"$device" >&0
	status=$?
	accepted=
	before=
	last=
	while read -r line; do
		case $line in Accepted*) accepted=yes ;; esac
		before=$last
		last=${line%"$cr"}
	done </run/sshd.log
	# By the kernel's console, which has it before the power goes: what is a tty's is lost then.
	echo "<3>skblab-init: sshd ended (exit $status): ${before:+$before / }${last:-it said nothing}" >/dev/kmsg
	if [ "$accepted" ] || [ $try = 3 ]; then
		break
	fi
	# Nobody has logged in: a handshake that failed is no reason to end. What the host still sends
	# was for the old sshd; a read has an end once the host has let go.
	cat <"$device" >/dev/null
	echo "<3>skblab-init: sshd starts again" >/dev/kmsg
done
sync
echo o >/proc/sysrq-trigger
# No program can be started any more once the root's device is off, and an end would be a panic.
read -r _ </run/never
INIT
