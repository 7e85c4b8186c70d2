# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# SELinux after a boot with it: its policy, and whether it is enforced.

LIVE=/sys/fs/selinux

there() {
	grep -qw selinuxfs /proc/filesystems
}

show() {
	if ! there; then
		echo off
		return
	fi
	mountpoint -q "$LIVE" || mount -t selinuxfs selinuxfs "$LIVE"
	if [ ! -d "$LIVE/class/file" ]; then
		echo 'skblab-unable: SELinux has no policy loaded, and none is installed to load'
	elif [ "$(cat "$LIVE/enforce")" = 1 ]; then
		echo enforcing
	else
		echo permissive
	fi
}

# What a distribution's init does. Without a policy nothing can be enforced: `show` says so.
begin() { # permissive|enforcing
	there || return 0
	mountpoint -q "$LIVE" || mount -t selinuxfs selinuxfs "$LIVE"
	if command -v load_policy >/dev/null && ls /etc/selinux/*/policy/policy.* >/dev/null 2>&1; then
		load_policy
		# The last step: from here on a policy that does not allow this session ends it.
		[ "$1" = permissive ] || setenforce 1
	fi
}
