#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Install what only tests need of the host: Slurm. Its daemons are started by tests, and not at boot.
set -eu

missing=
for pair in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "skblab: this machine lacks:$missing; as root, run: apt-get install$missing" >&2
	exit 2
fi
echo "skblab: installing$missing, for tests" >&2
# Its daemons would be of that cluster, and begin at once.
if [ -e /etc/slurm/slurm.conf ]; then
	echo "skblab: this machine belongs to a cluster (/etc/slurm/slurm.conf); run these tests elsewhere" >&2
	exit 2
fi
log=$(mktemp)
# shellcheck disable=SC2086  # a list of packages
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
	apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	echo "skblab: the packages could not be installed: $(grep '^E:' "$log" | head -n 1)" >&2
	echo "skblab: check the network and apt's sources, then run make again; whole log: $log" >&2
	exit 2
fi
rm -f "$log"
# Slurm's own are not started without a slurm.conf; nobody here needs munge's.
case $missing in *munge*)
	if [ -d /run/systemd/system ]; then systemctl disable --now --quiet munge || true; fi
	;;
esac
