#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Install what only tests need of the host: Slurm. Its daemons are started by tests, and not at boot.
set -eu
# shellcheck source=runners/setup/packages.sh
. "$(dirname "$0")/packages.sh"

missing=
for pair in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086  # a list of packages
can_install $missing
# Its daemons would be of that cluster, and begin at once.
if [ -e /etc/slurm/slurm.conf ]; then
	echo "skblab: this machine belongs to a cluster (/etc/slurm/slurm.conf); run these tests elsewhere" >&2
	exit 2
fi
# shellcheck disable=SC2086
install_packages $missing
# Slurm's own are not started without a slurm.conf; nobody here needs munge's.
case $missing in *munge*)
	if [ -d /run/systemd/system ]; then systemctl disable --now --quiet munge || true; fi
	;;
esac
