# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels as packages: names, which of Debian's is meant, what a file needs beside it, refusals."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import pytest

from conftest import Skblab
from skblab.lab.kernel import names, packaged, source
from skblab.lab.kernel.model import Kernel, Packaged
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import UsageError

QUIET = Reporter(quiet=True)
NO_ROOT = LabRoot(Path("/nonexistent"), "key")


@dataclasses.dataclass(frozen=True)
class HostRoot(LabRoot):
    """A lab root whose commands run on the host, with what they are shown as it is there."""

    def run(  # type: ignore[override]
        self, argv: list[str], *, binds: Sequence[Bind], what: str
    ) -> str:
        """Run a command whose paths are those of its one bind."""
        (shown,) = binds
        words = [word.replace(shown.inside, str(shown.source)) for word in argv]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def told(*offers: tuple[str, str]) -> str:
    """Return what fetch-binary.sh says of packages."""
    lines = []
    for release, version in offers:
        depends = f"kmod, linux-base (>= 4.3~), linux-modules-{release} (= {version}) | nothing"
        lines.append(f"offer\t{version}\tlinux-image-{release}\tab\t{depends}")
    return "\n".join(lines)


ARCHIVE = told(
    ("6.1.0-9-amd64", "6.1.90-1"),
    ("6.1.0-50-amd64", "6.1.176-1"),
    ("6.12.95+deb12-amd64", "6.12.95-1~bpo12+1"),
    ("6.12.95+deb13-amd64", "6.12.95-1"),
    ("6.12.118+deb13-amd64", "6.12.118-1"),
    ("6.12.118+deb13-cloud-amd64", "6.12.118-1"),
    ("6.12.118+deb13-rt-amd64", "6.12.118-1"),
    ("7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"),
)


@pytest.mark.parametrize(
    ("wanted", "release"),
    [
        ("6.1", "6.1.0-50-amd64"),
        ("6.1.90", "6.1.0-9-amd64"),
        ("6.12", "6.12.118+deb13-amd64"),
        # That of the newer Debian, not its backport to the older one.
        ("6.12.95", "6.12.95+deb13-amd64"),
        ("6.12.95+deb12-amd64", "6.12.95+deb12-amd64"),
        ("6.12.118+deb13-rt-amd64", "6.12.118+deb13-rt-amd64"),
        ("7.3", "7.3.4+deb13-amd64"),
    ],
)
def test_the_package_that_is_meant(wanted: str, release: str) -> None:
    chosen = packaged.choose(Packaged(wanted), packaged.parse(ARCHIVE))
    assert chosen.name == f"linux-image-{release}"
    assert chosen.depends[:3] == ("kmod", "linux-base", f"linux-modules-{release}")


@pytest.mark.parametrize("wanted", ["6.13", "6.12.1", "7.3.40", "6.12.118+deb13-arm64"])
def test_one_that_the_archive_has_not_names_those_that_it_has(wanted: str) -> None:
    with pytest.raises(UsageError, match=r"no such kernel; .*6\.1\.0-50-amd64, 6\.12\.118\+deb13"):
        packaged.choose(Packaged(wanted), packaged.parse(ARCHIVE))


def test_what_is_told_has_the_oldest_first() -> None:
    """The script's own order, by GNU sort: a backport comes before what it is of."""
    script = resources.files(packaged.__package__).joinpath("fetch-binary.sh").read_text()
    function = script[script.index("told() {") : script.index("case $does")]
    shown = "".join(
        f"Package: {name}\nVersion: {version}\nSHA256: ab\n\n"
        for _, version, name, *_ in (line.split("\t") for line in reversed(ARCHIVE.splitlines()))
    )
    call = f"xargs() {{ cat; }}\n{function}\ntold"
    done = subprocess.run(
        ["sh", "-ec", call], input=shown, check=True, capture_output=True, text=True
    )
    ordered = [offer.name for offer in packaged.parse(done.stdout)]
    assert ordered[:4] == [offer.name for offer in packaged.parse(ARCHIVE)][:4]


def test_names_of_packages(tmp_path: Path) -> None:
    file = tmp_path / "linux-image-1_1_amd64.deb"
    file.touch()
    for text in ("debian:6.12", "debian:6.1.0-50-amd64", f"deb:{file}"):
        name = names.parse(text)
        assert (str(name), name.patches) == (text, False)
        assert names.parse(str(name)) == name
        with pytest.raises(UsageError, match=r"\+skblab: a package is a finished kernel"):
            names.parse(f"{text}+skblab").request()
        with pytest.raises(UsageError, match=r"has no flavour rt"):
            name.request("rt")
        with pytest.raises(UsageError, match="this needs a source"):
            source.asked_for(name.request(), NO_ROOT)
    assert str(names.parse("debian:7.2").line) == "6.12"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("debian:", "expected a version or what uname -r prints"),
        ("debian:newest", "expected a version or what uname -r prints"),
        ("debian:6.12;reboot", "expected a version or what uname -r prints"),
        ("deb:/nonexistent.deb", "no such package"),
        ("deb:", "no such package"),
        ("deb:/etc/hostname", "expected a file that ends in .deb"),
    ],
)
def test_names_that_are_refused(skblab_here: Skblab, text: str, said: str) -> None:
    done = skblab_here("boot", "--kernel", text, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def make_package(
    folder: Path, name: str, fields: Mapping[str, str], version: str = "7.3-9"
) -> Path:
    """Make a Debian package without any file in it."""
    control = folder / f"{name}-{version}" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    lines = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "a <a@b>",
        **fields,
        "Description": "a kernel",
    }
    control.write_text("".join(f"{field}: {text}\n" for field, text in lines.items()))
    file = folder / f"{name}_{version}_amd64.deb"
    call = ["dpkg-deb", "--build", str(control.parent.parent), str(file)]
    subprocess.run(call, check=True, capture_output=True)
    return file


def test_the_parts_of_a_kernel_are_beside_it(tmp_path: Path) -> None:
    root = HostRoot(Path("/"), "key")
    depends = {"Depends": "kmod, linux-modules-9.1-amd64 (= 7.3-9), linux-binary-9.1-amd64 | x"}
    image = make_package(tmp_path, "linux-image-9.1-amd64", depends)
    # Of another version, by letters the last one.
    make_package(tmp_path, "linux-modules-9.1-amd64", {}, "7.3-90")
    with pytest.raises(UsageError, match=r"needs linux-modules-9\.1-amd64 7\.3-9, too; put that"):
        packaged.files(image, root)
    modules = make_package(tmp_path, "linux-modules-9.1-amd64", {})
    binary = make_package(tmp_path, "linux-binary-9.1-amd64", {})
    found = packaged.files(image, root)
    assert list(found) == [image, modules, binary]
    assert {offer.package.version for offer in found.values()} == {"7.3-9"}
    with pytest.raises(UsageError, match="expected a package linux-image-RELEASE"):
        packaged.files(modules, root)


def test_a_link_has_its_companions_beside_it(tmp_path: Path) -> None:
    (pool := tmp_path / "pool").mkdir()
    root = HostRoot(Path("/"), "key")
    names_of = ("linux-image-9.1-amd64", "linux-modules-9.1-amd64")
    for name in names_of:
        depends = {"Depends": names_of[1]} if name == names_of[0] else {}
        make_package(pool, name, depends).rename(pool / name)
        (tmp_path / f"{name}_1_amd64.deb").symlink_to(pool / name)
    chosen = names.parse(f"deb:{tmp_path}/linux-image-9.1-amd64_1_amd64.deb").packaged
    assert chosen is not None
    assert chosen.file is not None
    assert [offer.name for offer in packaged.files(chosen.file, root).values()] == list(names_of)


def test_what_apt_says_is_no_package() -> None:
    noisy = f"W: Some index files failed to download.\n{ARCHIVE}\nN: and so on"
    assert packaged.parse(noisy) == packaged.parse(ARCHIVE)
    with pytest.raises(UsageError, match="told of no kernel at all: no network"):
        packaged.choose(Packaged("6.12"), packaged.parse("W: nothing"))


def test_what_needs_a_kernel_from_source_says_so(tmp_path: Path) -> None:
    record = {
        "schema_name": "skblab.kernel/1",
        "key": "k",
        "release": "6.1.0-50-amd64",
        "flavour": "stock",
        "patched": False,
        "series": None,
        "patches": [],
        "source": "debian:6.1.0-50-amd64",
        "source_version": "6.1.176-1",
        "source_digest": "d",
        "packages": {"linux-image-6.1.0-50-amd64": "ab"},
        "toolchain": {},
        "fragments": [],
        "config_sha256": "c",
        "image_sha256": "i",
        "made": "2026-11-26T07:00:00+00:00",
        "seconds": 1.0,
        "output_lines": 0,
    }
    (tmp_path / "kernel.json").write_text(json.dumps(record))
    kernel = Kernel(tmp_path, "k")
    assert (kernel.symbols, kernel.initrd) == (None, None)
    with pytest.raises(
        UsageError, match=r"6\.1\.0-50-amd64: SystemTap needs a kernel that is built"
    ):
        kernel.require_built("SystemTap")


def test_the_archive_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKBLAB_CACHE", str(tmp_path))
    asked: list[str] = []

    def answer(folder: Path, words: list[str], labroot: LabRoot, wanted: Packaged) -> str:
        asked.append(words[0])
        return ARCHIVE

    monkeypatch.setattr(packaged, "_apt", answer)
    for wanted in ("6.12", "6.12.118+deb13-amd64"):
        released = packaged.settled(Packaged(wanted), NO_ROOT, QUIET)
        assert released.wanted == "6.12.118+deb13-amd64"
    # What there is, and what the one that is meant depends on.
    assert asked == ["list", "needs"]
