#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The first process of a guest whose kernel has in modules what it needs to find its root: load them,
# mount the lab root, and go on as every other guest does.
PATH=/bin
fail() {
	echo "skblab-init: failed: $1, before there is a root" >/dev/console
	exit 1
}
/bin/busybox --install -s /bin
mkdir -p /dev /root
mount -t devtmpfs dev /dev
for module in /modules/*; do
	# None, where all is built in.
	[ -e "$module" ] || continue
	insmod "$module" || fail "insmod ${module##*/}"
done
looks=0
until mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro root /root; do
	looks=$((looks + 1))
	[ $looks -lt 100 ] || fail "mounting the root"
	sleep 0.1
done
umount /dev
# The programs of the root are elsewhere.
unset PATH
exec /bin/switch_root /root /skblab/bootstrap
