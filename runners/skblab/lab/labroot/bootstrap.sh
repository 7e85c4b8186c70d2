#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A guest's first process: mount the folder that its parent made for it, go on with the init there.
# Copied into the lab root as /skblab/bootstrap; raise RECIPE in root.py when this changes.
set -e
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 run /skblab/run
exec /bin/sh /skblab/run/init
