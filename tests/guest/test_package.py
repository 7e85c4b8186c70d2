# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages as a real machine meets them: dpkg installs them, the machine boots, a module compiles.

The machine is a throw-away copy of the lab root, which is a Debian.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import Skblab
from skblab.lab import paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.model import RECORD
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.labroot.sandbox import kill_with_parent
from skblab.machine.guest import Guest

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(3600)]

# What Debian's own hooks (initramfs-tools, GRUB) are called with.
HOOK = '#!/bin/sh\necho "${0%/zz-test} $* initrd=$INITRD" >>/root/hooks\n'
MODULE = """\
#include <linux/module.h>
#include <net/sock.h>
static int __init hello(void)
{
	pr_info("hello %zu\\n", sizeof(struct sk_buff));
	return 0;
}
module_init(hello);
static void __exit bye(void)
{
}
module_exit(bye);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("says hello");
"""


@dataclass(frozen=True)
class Machine:
    """A Debian tree on the disk, that `dpkg` can be run in and that a guest can have as root."""

    root: LabRoot

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [*kill_with_parent(), "chroot", str(self.root.path), *command],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def has(self, path: str) -> bool:
        return (self.root.path / path).exists()


@pytest.fixture(scope="module")
def made(
    stock: Kernel, run_skblab: Skblab, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Packages from a user's configuration, which is in effect the stock kernel's.

    The compiler cache then has every object, and making them takes two minutes or three.
    """
    folder = tmp_path_factory.mktemp("packages")
    own = folder / "config-of-the-user"
    keys = 'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/debian-uefi-certs.pem"\n'
    text = stock.config.read_text().replace("CONFIG_NET_PATH_TRACE=y\n", "")
    own.write_text(text + keys)
    done = run_skblab(
        *("kernel", "package", "--config", str(own), "--output", str(folder / "out"), "--json"),
        timeout=3500,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    # If they were made before, the record names the file that they were made from then.
    return document | {"config": str(own)}


@pytest.fixture(scope="module")
def machine(lab: LabRoot) -> Iterator[Machine]:
    """A copy of the lab root: links, but for the folders in which dpkg writes to files in place."""
    folder = Path(tempfile.mkdtemp(prefix="machine-", dir=paths.cache()))
    try:
        tree = folder / "root"
        subprocess.run(["cp", "-al", str(lab.path), str(tree)], check=True)
        for name in ("etc", "var", "root"):
            shutil.rmtree(tree / name)
            subprocess.run(["cp", "-a", str(lab.path / name), str(tree / name)], check=True)
        for when in ("postinst", "postrm"):
            hook = tree / "etc" / "kernel" / f"{when}.d" / "zz-test"
            hook.parent.mkdir(parents=True, exist_ok=True)
            hook.write_text(HOOK)
            hook.chmod(0o755)
        yield Machine(LabRoot(tree, lab.key))
    finally:
        shutil.rmtree(folder)


def test_the_files_and_what_they_tell(made: dict[str, Any], stock: Kernel) -> None:
    assert made["release"] == stock.release
    out = Path(made["output"])
    names = sorted(path.name for path in out.iterdir())
    debs = [file["name"] for file in made["files"]]
    assert [name.split("_")[0] for name in debs] == [
        f"linux-headers-{stock.release}",
        f"linux-image-{stock.release}",
        "linux-libc-dev",
    ]
    assert names == sorted(["INSTALL.txt", f"config-{stock.release}", "package.json", *debs])
    changed = [(option["option"], option["before"], option["after"]) for option in made["changed"]]
    assert changed == [("NET_PATH_TRACE", "n", "y")]
    assert [option["option"] for option in made["cleared"]] == ["SYSTEM_TRUSTED_KEYS"]
    assert (out / f"config-{stock.release}").read_text() == stock.config.read_text()


def test_a_second_time_it_is_there_at_once(
    made: dict[str, Any], run_skblab: Skblab, tmp_path: Path
) -> None:
    own = Path(made["config"])
    done = run_skblab(
        "kernel", "package", "--config", str(own), "--output", str(tmp_path / "again")
    )
    assert done.returncode == 0, done.stderr
    assert "making packages" not in done.stderr
    assert "CONFIG_NET_PATH_TRACE: n -> y (skblab.config:" in done.stderr
    names = {Path(line).name for line in done.stdout.splitlines()}
    assert names == {file.name for file in Path(made["output"]).iterdir()}


def test_installs_boots_compiles_a_module_and_goes(
    made: dict[str, Any], stock: Kernel, machine: Machine, tmp_path: Path
) -> None:
    release = made["release"]
    for file in made["files"][:2]:
        shutil.copy2(Path(made["output"]) / file["name"], machine.root.path / "root")
    machine.run("sh", "-c", "dpkg -i /root/linux-image-*.deb /root/linux-headers-*.deb")
    hooks = (machine.root.path / "root" / "hooks").read_text()
    assert hooks.startswith(f"/etc/kernel/postinst.d {release} /boot/vmlinuz-{release} initrd=")
    # The same configuration makes the same kernel, however it is packed.
    image = machine.root.path / "boot" / f"vmlinuz-{release}"
    assert image.read_bytes() == stock.image.read_bytes()

    work = tmp_path / "module"
    work.mkdir()
    (work / "hello.c").write_text(MODULE)
    (work / "Makefile").write_text("obj-m := hello.o\n")
    machine.root.run(
        ["make", "-C", f"/lib/modules/{release}/build", "M=/skblab/out", "modules"],
        binds=[Bind(work, "out", writable=True)],
        log=tmp_path / "module.log",
        what="compiling a module with the installed headers",
    )

    folder = tmp_path / "kernel"
    folder.mkdir()
    shutil.copyfile(image, folder / "bzImage")
    # It is that kernel to the byte, and packages have no record of it.
    shutil.copyfile(stock.path / RECORD, folder / RECORD)
    script = """
        uname -r
        test -e /sys/kernel/btf/vmlinux
        test -d /sys/kernel/tracing/events/net_path
        cat /proc/sys/net/core/path_trace
        modprobe veth
        insmod /skblab/out/hello.ko
        dmesg | grep -o 'hello .*'
        rmmod hello
    """
    shares = [Bind(work, "out")]
    with Guest.boot(make_spec(), Kernel(folder, "installed"), machine.root, shares=shares) as guest:
        said = guest.transport.script(script).check("looking at the installed kernel").stdout
    assert said.splitlines()[:2] == [release, "0"]
    assert said.splitlines()[-1].startswith("hello ")

    machine.run("dpkg", "--purge", f"linux-image-{release}", f"linux-headers-{release}")
    assert f"/etc/kernel/postrm.d {release}" in (machine.root.path / "root" / "hooks").read_text()
    for left in (
        f"boot/vmlinuz-{release}",
        f"lib/modules/{release}",
        f"usr/src/linux-headers-{release}",
    ):
        assert not machine.has(left)
