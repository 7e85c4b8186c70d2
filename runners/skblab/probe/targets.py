# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a probe runs: this machine, a guest of ours with its own traffic, a host over SSH."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skblab.lab import kernel, portable
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.transport import LocalTransport, Transport
from skblab.machine.transport.host import brought, connected, is_host, kept
from skblab.machine.watch import HostLog, Source
from skblab.probe.request import HISTOGRAMS
from skblab_analysis.base.errors import UsageError

HERE = "here"
GUEST = "guest"
STAMPS = "/proc/sys/net/core/path_trace"
NET_PATH = "/sys/kernel/debug/net_path"
# What a probe has switched on and others found so may be in use by several. Each that found it off,
# or switched on by a probe, holds a shared lock on it: the last of these switches it off again.
# Where it is on and nobody holds the lock, it is somebody else's wish. Lock 7 is for looking and
# switching at once.
#   9  stamps, off before
#   8  histograms, that is 2 where before there was 0 or 1
#   6  histograms of NAPI polls
# While others read samples 2 is left to them, if stamps are theirs to switch off: they see the
# same, and lose none of the packets under way as they would by a further switching.
TAKE = f"""free() {{ flock -n -x "$1" && flock -u "$1"; }}
exec 7</proc/sys/net/core 9<{STAMPS}
flock -x 7
level=$(cat {STAMPS})
if [ "$level" = 0 ] || ! free 9; then
    flock -s 9
    stamps=ours
fi
"""
GIVE = f"""
flock -x 7
if [ "${{stamps:-}}" ]; then
    ! flock -n -x 9 || echo 0 >{STAMPS}
elif [ "${{histograms:-}}" ] && flock -n -x 8; then
    echo 1 >{STAMPS}
fi
"""
STAMP = f"""{TAKE}
[ "$level" != 0 ] || echo 1 >{STAMPS}
flock -u 7
echo on"""
UNSTAMP = GIVE
COUNT = f"""{TAKE}
exec 8<{NET_PATH}/histograms 6<{NET_PATH}/napi
if [ "$level" != 2 ] || ! free 8; then
    flock -s 8
    histograms=ours
fi
[ "$level" = 2 ] || echo 2 >{STAMPS}
if [ "$(cat {NET_PATH}/napi)" = 0 ] || ! free 6; then
    flock -s 6
    polls=ours
fi
[ "$(cat {NET_PATH}/napi)" = 1 ] || echo 1 >{NET_PATH}/napi
flock -u 7
echo on"""
UNCOUNT = f"""{GIVE}
if [ "${{polls:-}}" ] && flock -n -x 6; then
    echo 0 >{NET_PATH}/napi
fi
"""


@dataclass(frozen=True)
class Target:
    """A machine that a probe can run on, and the program there."""

    name: str
    transport: Transport
    program: str
    release: str
    built: kernel.Kernel | None = None
    guest: Guest | None = None

    def kernel_log(self, reporter: Reporter) -> Source:
        """Return where its kernel says what it complains of, from now on if it is no guest."""
        if self.guest is not None:
            return self.guest.console
        log = HostLog(self.transport)
        if not log.readable:
            reporter.say(
                f"the kernel log of {self.name} cannot be read (dmesg): the kernel's warnings are "
                "not looked for"
            )
        return log


def check(on: str, ssh_config: Path | None = None) -> None:
    """Raise UsageError unless `on` names a target, and --ssh-config goes with a host."""
    if not is_host(on):
        raise UsageError(f"--on {on}: expected here, guest, or a host such as root@router")
    if ssh_config is None:
        return
    if on in (HERE, GUEST):
        raise UsageError(f"--ssh-config is only for --on HOST, and --on is {on}")
    if not ssh_config.is_file():
        raise UsageError(f"--ssh-config {ssh_config}: no such file")


@contextlib.contextmanager
def machine(
    on: str, labroot: LabRoot, program: Path, reporter: Reporter, ssh_config: Path | None = None
) -> Iterator[Target]:
    """Give this machine or a host, with the program brought there; nothing stays behind."""
    bundle = portable.ensure(labroot, program, reporter)
    if on == HERE:
        transport = LocalTransport()
        yield Target(on, transport, str(bundle / program.name), _release(transport))
        return
    with connected(on, ssh_config) as ssh, brought(ssh, bundle) as folder:
        yield Target(on, ssh, f"{folder}/{program.name}", _release(ssh))


def _release(transport: Transport) -> str:
    return transport.run(["uname", "-r"]).check("uname").stdout.strip()


@contextlib.contextmanager
def stamps(target: Target, wanted: bool, *, histograms: bool = False) -> Iterator[None]:
    """Have the kernel stamp packets, if it can and is `wanted`; then as it was before.

    With `histograms` it also keeps its own of these and of NAPI polls, if it has any.
    """
    there = f"{NET_PATH}/histograms" if histograms else STAMPS
    if not wanted or target.transport.run(["test", "-e", there]).status != 0:
        yield
        return
    do, undo = (COUNT, UNCOUNT) if histograms else (STAMP, UNSTAMP)
    with kept(target.transport, do, "switching stamps on", undo):
        yield


def stamps_for(target: Target, source: str | None) -> contextlib.AbstractContextManager[None]:
    """Have the kernel stamp packets as a probe's source needs it."""
    return stamps(target, source != "hooks", histograms=source == HISTOGRAMS)
