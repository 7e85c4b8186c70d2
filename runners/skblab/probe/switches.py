# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts of the shell that switch the patched kernel's histograms on and off, for all probes."""

STAMPS = "/proc/sys/net/core/path_trace"
NET_PATH = "/sys/kernel/debug/net_path"
# What a probe has switched on and others found so may be in use by several. Each that found it off,
# or switched on by a probe, holds a shared lock on it: the last of these switches it off again.
# Where it is on and nobody holds the lock, it is somebody else's wish. Lock 7 is for looking and
# switching at once.
#   9  histograms of packets
#   6  histograms of NAPI polls
COUNT = f"""free() {{ flock -n -x "$1" && flock -u "$1"; }}
exec 7</proc/sys/net/core 9<{STAMPS} 6<{NET_PATH}/napi
flock -x 7
if [ "$(cat {STAMPS})" = 0 ] || ! free 9; then
    flock -s 9
    stamps=ours
fi
[ "$(cat {STAMPS})" = 1 ] || echo 1 >{STAMPS}
if [ "$(cat {NET_PATH}/napi)" = 0 ] || ! free 6; then
    flock -s 6
    polls=ours
fi
[ "$(cat {NET_PATH}/napi)" = 1 ] || echo 1 >{NET_PATH}/napi
flock -u 7
echo on"""
UNCOUNT = f"""
flock -x 7
if [ "${{stamps:-}}" ] && flock -n -x 9; then
    echo 0 >{STAMPS}
fi
if [ "${{polls:-}}" ] && flock -n -x 6; then
    echo 0 >{NET_PATH}/napi
fi
"""
