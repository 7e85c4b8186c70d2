# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest begins with: its first command, and the files that it takes into its memory."""

from pathlib import Path

import pytest

from skblab.lab.guest.first import init_script, libraries, way
from skblab.lab.labroot import Bind

LDD = """\
/usr/bin/one:
\tlinux-vdso.so.1 (0x00007f)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f)
/usr/bin/two:
\tnot a dynamic executable
"""


def test_init_lists_the_shares() -> None:
    shares = [Bind(Path("/a"), "run", writable=True), Bind(Path("/b"), "tools")]
    assert init_script(shares) == "exec /skblab/run/first run:rw tools:ro\n"
    assert init_script(shares, hold=True) == "exec /skblab/run/first hold run:rw tools:ro\n"


def test_libraries_are_what_ldd_found() -> None:
    found = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
    assert list(libraries(LDD)) == found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("usr/bin", "usr/lib", "etc/alternatives"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr/bin/awk").symlink_to("/etc/alternatives/awk")
    (tmp_path / "etc/alternatives/awk").symlink_to("../../usr/bin/mawk")
    (tmp_path / "usr/bin/mawk").write_text("program")
    (tmp_path / "usr/bin/loop").symlink_to("loop")
    (tmp_path / "usr/bin/nowhere").symlink_to("/nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "passed"),
    [
        ("/usr/bin/mawk", ["usr/bin/mawk"]),
        ("/bin/awk", ["bin", "usr/bin/awk", "etc/alternatives/awk", "usr/bin/mawk"]),
        ("/usr/bin/none", []),
        ("/usr/bin/nowhere", []),
        ("/usr/bin/loop", []),
        ("/usr/bin", []),
    ],
)
def test_the_way_to_a_file_has_its_links(root: Path, path: str, passed: list[str]) -> None:
    assert list(way(root, path)) == passed
