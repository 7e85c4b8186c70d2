# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages: the user's configuration, what is made of it, keys, and what is put where."""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from pathlib import Path

import pytest

from conftest import Skblab
from skblab.lab.kernel import config, ownconfig, package, source
from skblab.lab.kernel.model import Request
from skblab.lab.kernel.ownconfig import Change
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError

OWN = """\
#
# Automatically generated file; DO NOT EDIT.
# Linux/x86 6.12.50 Kernel Configuration
#
CONFIG_X86_64=y
# CONFIG_NET_PATH_TRACE is not set
CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/debian-uefi-certs.pem"
CONFIG_MODULE_SIG_KEY="/root/key.pem"
CONFIG_KERNEL_LZ4=y
# CONFIG_KERNEL_ZSTD is not set
CONFIG_GCC_VERSION=120200
CONFIG_VERSION_SIGNATURE="Ubuntu"
CONFIG_VETH=m
"""


@pytest.fixture
def own(tmp_path: Path) -> ownconfig.OwnConfig:
    file = tmp_path / "config-6.12.50"
    file.write_text(OWN)
    return ownconfig.read(file)


def test_reads_plain_and_compressed(own: ownconfig.OwnConfig, tmp_path: Path) -> None:
    assert own.values["VETH"] == "m"
    assert own.values["NET_PATH_TRACE"] == "n"
    packed = tmp_path / "config.gz"
    packed.write_bytes(gzip.compress(OWN.encode()))
    assert ownconfig.read(packed).values == own.values


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty of options"),
        (b"# only a comment\n", "is empty of options"),
        (b"root:x:0:0\n", "bad:1: 'root:x:0:0' is no line of a kernel configuration"),
        (b"CONFIG_X86_64=y\nNET=y\n", "bad:2: 'NET=y' is no line"),
        (b"\x7fELF\xff\xfe", "is no text"),
        (b"\x1f\x8bnot really", "is no text"),
        (b"CONFIG_ARM64=y\n", "is a configuration for arm64: expected CONFIG_X86_64=y"),
        (b"CONFIG_X86_32=y\nCONFIG_X86=y\n", "is a configuration for 32-bit x86"),
        (b"CONFIG_NET=y\n", "names no architecture"),
    ],
)
def test_what_is_no_configuration_for_us(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        ownconfig.read(file)
    assert told in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none: No such file or directory; expected a kernel"):
        ownconfig.read(tmp_path / "none")
    with pytest.raises(UsageError, match="Is a directory"):
        ownconfig.read(tmp_path)


def test_files_of_another_machine_are_cleared_and_told(
    own: ownconfig.OwnConfig, tmp_path: Path
) -> None:
    text, changes = own.buildable(tmp_path, ["zstd"])
    values = config.parse(text)
    assert values["SYSTEM_TRUSTED_KEYS"] == '""'
    assert values["MODULE_SIG_KEY"] == '"certs/signing_key.pem"'
    assert (values["KERNEL_LZ4"], values["KERNEL_ZSTD"]) == ("n", "y")
    assert [change.option for change in changes] == [
        *("SYSTEM_TRUSTED_KEYS", "MODULE_SIG_KEY", "KERNEL_LZ4", "KERNEL_ZSTD")
    ]
    assert str(changes[0]) == (
        'CONFIG_SYSTEM_TRUSTED_KEYS: "debian/certs/debian-uefi-certs.pem" -> "" '
        "(no such file where the kernel is built)"
    )
    # Each option is in the text once: the kernel would warn of a second.
    named = [line for line in text.splitlines() if "KERNEL_LZ4" in line]
    assert len(named) == 1


def test_files_of_the_source_tree_stay(own: ownconfig.OwnConfig, tmp_path: Path) -> None:
    certs = tmp_path / "debian" / "certs" / "debian-uefi-certs.pem"
    certs.parent.mkdir(parents=True)
    certs.touch()
    _, changes = own.buildable(tmp_path, ["lz4"])
    assert [change.option for change in changes] == ["MODULE_SIG_KEY"]


def test_tells_our_changes_from_those_of_linux(own: ownconfig.OwnConfig, tmp_path: Path) -> None:
    fragment = tmp_path / "skblab.config"
    fragment.write_text("CONFIG_NET_PATH_TRACE=y\n")
    _, made = own.buildable(tmp_path, [])
    result = {"X86_64": "y", "NET_PATH_TRACE": "y", "VETH": "y", "GCC_VERSION": "140200"}
    ours, theirs = own.contrast(result, config.wanted([fragment]), made)
    assert ours == [Change(option="NET_PATH_TRACE", before="n", after="y", why="skblab.config:1")]
    assert [(change.option, change.after, change.why) for change in theirs] == [
        ("VERSION_SIGNATURE", "n", "not available in this Linux"),
        ("VETH", "y", "set by Linux"),
    ]


def test_the_users_configuration_takes_the_place_of_base(own: ownconfig.OwnConfig) -> None:
    ours = package.PackageRequest(Request())
    assert ours.fragments == ("base", "skblab")
    assert package.PackageRequest(Request(), own).fragments == ("skblab",)
    assert package.PackageRequest(Request(flavour="rt"), own).fragments == ("rt", "skblab")


def test_space_grows_with_options_and_debug_information() -> None:
    values = {f"O{n}": "m" for n in range(7000)}
    small, large = package.free_gib(values), package.free_gib({**values, "DEBUG_INFO": "y"})
    assert package.free_gib({}) < small < large
    assert large > 25


def record(**more: object) -> package.Record:
    values: dict[str, object] = {
        "key": "0123456789abcdef",
        "release": "6.12.5-skblab",
        "version": "6.12.5+skblab.01234567-1",
        "flavour": "stock",
        "source": "/linux",
        "source_version": "6.12.5",
        "series": "v6.12",
        "patches": (),
        "fragments": ("base", "skblab"),
        "config": None,
        "cleared": (),
        "changed": (),
        "otherwise": (),
        "files": tuple(
            package.PackageFile(name=name, size_bytes=1, sha256="0")
            for name in (
                "linux-headers-6.12.5-skblab_1_amd64.deb",
                "linux-image-6.12.5-skblab-dbg_1_amd64.deb",
                "linux-image-6.12.5-skblab_1_amd64.deb",
                "linux-libc-dev_1_amd64.deb",
            )
        ),
        "seconds": 1.0,
    }
    return package.Record.model_validate({**values, **more})


def test_howto_names_what_to_install() -> None:
    text = package.howto(record())
    line = next(line for line in text.splitlines() if "apt install" in line)
    assert line.split()[-2:] == [
        "./linux-image-6.12.5-skblab_1_amd64.deb",
        "./linux-headers-6.12.5-skblab_1_amd64.deb",
    ]
    assert "@" not in text


GRUB = """\
menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-simple-aa-bb' {
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-aa-bb' {
	menuentry 'new' $menuentry_id_option 'gnulinux-6.12.5-skblab-advanced-aa-bb' {
	menuentry 'new (recovery)' $menuentry_id_option 'gnulinux-6.12.5-skblab-recovery-aa-bb' {
	menuentry 'today' $menuentry_id_option 'gnulinux-6.12.57+deb13-amd64-advanced-aa-bb' {
"""


@pytest.mark.parametrize("release", ["6.12.5-skblab", "6.12.57+deb13-amd64"])
def test_howto_finds_the_entry_in_grubs_menu(tmp_path: Path, release: str) -> None:
    menu = tmp_path / "grub.cfg"
    menu.write_text(GRUB)
    text = package.howto(record(release=release)).replace("/boot/grub/grub.cfg", str(menu))
    command = re.search(r"grub-reboot (\"\$\(.*?\)\")\n", text, re.S)
    assert command
    done = subprocess.run(
        ["sh", "-c", f"echo {command[1]}"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"gnulinux-advanced-aa-bb>gnulinux-{release}-advanced-aa-bb\n"


def test_export_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    made = tmp_path / "cache"
    made.mkdir()
    (made / "a.deb").write_text("new")
    (made / "package.json").write_text("{}")
    out = tmp_path / "out" / "packages"
    out.mkdir(parents=True)
    (out / "a.deb").write_text("old")
    files = package.Packages(made, record()).export(out)
    assert [file.name for file in files] == ["a.deb", "package.json"]
    assert (out / "a.deb").read_text() == "new"
    assert sorted(path.name for path in out.iterdir()) == ["a.deb", "package.json"]


def test_export_to_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--output .*file: .*expected a folder"):
        package.Packages(tmp_path, record()).export(tmp_path / "file")


@pytest.mark.labroot
def test_debians_configuration_takes_our_options(lab: LabRoot, tmp_path: Path) -> None:
    reporter = Reporter(quiet=True)
    origin = source.find(None, lab)
    packed = lab.path / "usr/src/linux-config-6.12/config.amd64_none_amd64.xz"
    file = tmp_path / "config-6.12-amd64"
    keys = 'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/debian-uefi-certs.pem"'
    theirs = lzma.decompress(packed.read_bytes()).decode()
    file.write_text(theirs.replace('CONFIG_SYSTEM_TRUSTED_KEYS=""', "") + keys + "\n")
    given = ownconfig.read(file)
    output = tmp_path / "output"
    output.mkdir()
    with source.tree(origin, source.series_for(origin), lab, reporter) as tree:
        text, cleared = given.buildable(tree, lab.versions)
        config.merge(["skblab"], tree, output, lab, tmp_path / "log", own=text)
    result = config.parse((output / ".config").read_text())
    asked = config.wanted([config.fragment("skblab")])
    ours, theirs_ = given.contrast(result, asked, cleared)
    assert [change.option for change in cleared] == ["SYSTEM_TRUSTED_KEYS"]
    assert [change.option for change in ours] == list(asked)
    assert (result["SYSTEM_TRUSTED_KEYS"], result["DEBUG_INFO_BTF"]) == ('""', "y")
    # It is the configuration of this very kernel: nothing else has a reason to change.
    assert theirs_ == []
    assert package.free_gib(result) > 25


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("package", "--config", "/nonexistent"), "--config /nonexistent: No such file"),
        (("package", "--config", "/etc/passwd"), "/etc/passwd:1:"),
        (("package", "--flavour", "real"), "unknown kernel flavour 'real'"),
        (("package", "--jobs", "0"), "Invalid value for '--jobs'"),
        (("patches-check", "--patch", "many"), "--patch"),
    ],
)
def test_command_with_bad_input(skblab_here: Skblab, arguments: tuple[str, ...], told: str) -> None:
    done = skblab_here("kernel", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
