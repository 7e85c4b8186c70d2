# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest to work in by hand: what a person finds there, and what a shell says first.

Everything is a share that some other part has at the same place: the kernel's build folder, our
programs, this tree, and selftests where `skblab kselftest` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skblab.lab.guest import GuestSpec

NET_SELFTESTS = "/skblab/src/tools/testing/selftests/net"
# Where tools look for what a kernel was built from: SystemTap, perf, and who compiles a module. And
# what SystemTap has asked the compiler about this kernel on the host: it knows that again by the
# path of the build folder, and to ask takes an emulated CPU far more than ten minutes.
PREPARE = """
modules=/lib/modules/$(uname -r)
mkdir -p "$modules"
# A kernel that was packaged has neither.
if [ -e /skblab/kernel/build ]; then
	ln -s /skblab/kernel/build "$modules/build"
	ln -s /skblab/kernel/vmlinux "$modules/vmlinux"
fi
mkdir -p /root/.systemtap
if [ -d /skblab/build/cache ]; then
	new=/tmp/systemtap
	mkdir -p $new/upper $new/work
	mount -t overlay -o lowerdir=/skblab/build,upperdir=$new/upper,workdir=$new/work \\
		systemtap /root/.systemtap
fi
[ ! -e /skblab/kernel/build ] || echo '-r /skblab/kernel/build' >/root/.systemtap/rc
"""
MESSAGE = "login-message"
# A login shell, after the message of the guest if it has one.
_SHELL = f'[ ! -e /skblab/run/{MESSAGE} ] || cat /skblab/run/{MESSAGE}; exec "$SHELL" -l'


@dataclass(frozen=True)
class ByHand:
    """A guest for a person: its size, its kernel's release, and what it has beside the lab root.

    `out`: the host's folder that is /skblab/out; `selftests`: those of the series, None without any
    there.
    """

    spec: GuestSpec
    release: str
    out: Path | None = None
    selftests: Sequence[str] | None = None

    def message(self) -> str:
        """Return what a shell says first, line by line what is where."""
        lines = [
            f"Linux {self.release}, {self._size()}. Type exit to end the guest.",
            "On PATH: skblab-traffic pktsink ping iperf3 pathlat bpftrace stap perf trace-cmd",
            'Scripts: /skblab/tree/probes/{bpftrace,systemtap}; they count after "ready"',
            f"Selftests: {self._tests()}",
            "Kernel's build folder: /lib/modules/$(uname -r)/build",
            f"Results: {self._results()}",
            "Second shell: ./skblab ssh, in another terminal of the host",
            "Recipes: /skblab/tree/docs/howto/in-the-guest.md",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _size(self) -> str:
        cpus = f"{self.spec.cpus} CPU{'s' if self.spec.cpus > 1 else ''}"
        if self.spec.exact:
            how = "the clock counts instructions"
        else:
            how = "KVM" if self.spec.accel == "kvm" else "emulated"
        return f"{cpus}, {self.spec.memory} MiB, {how}"

    def _tests(self) -> str:
        if self.selftests is None:
            return "none here; boot with --selftests"
        first = f" && ./{self.selftests[0]}" if self.selftests else ""
        return f"cd {NET_SELFTESTS}{first}"

    def _results(self) -> str:
        if self.out is None:
            return "gone with the guest; boot with --share DIR to keep /skblab/out"
        return f"/skblab/out is {self.out} of the host, all else is gone with the guest"

    def greet(self, folder: Path) -> None:
        """Have the shells of the guest of this folder begin with the message."""
        (folder / MESSAGE).write_text(self.message())


def shell(*, tty: bool) -> list[str]:
    """Return the command of a shell: on a terminal with the message, else as it reads a script."""
    return ["sh", "-c", _SHELL] if tty else []
