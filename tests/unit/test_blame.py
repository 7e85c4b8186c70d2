# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a build fails because of its source or because of the machine, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from skblab.lab.kernel import blame, config
from skblab.lab.kernel.blame import SourceError
from skblab.lab.labroot import LabRoot
from skblab_analysis.base.errors import SkblabError

MAKE = "make[3]: *** [scripts/Makefile.build:243: net/a.o] Error {}\n"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            "  CC      net/error.o\n/skblab/src/net/a.c:3:5: error: no x\n",
            "net/a.c:3:5: error: no x",
        ),
        (
            "  LD      vmlinux\nld: a.o: undefined reference to `f'\n",
            "ld: a.o: undefined reference",
        ),
        ("error: cannot open x\n", "error: cannot open x"),
        ("make[3]: *** No rule to make target 'net/x.o'", "make[3]: *** No rule to make target"),
        ("net/Kconfig:7:warning: odd\nnet/Kconfig:9: syntax error\n", "net/Kconfig:9: syntax"),
        ('net/Kconfig.x:9: unknown statement "a"\n', "net/Kconfig.x:9: unknown statement"),
        ("net/Kconfig:2:error: recursive dependency detected!\n", "net/Kconfig:2:error: rec"),
        ("net/Kconfig:7:warning: odd\n", None),
        ("net/Kconfig:7: warning: menuconfig statement without prompt\n", None),
        ("././include/linux/kconfig.h:45:25: note: in expansion of macro 'x'\n", None),
        ("Makefile:12: *** missing separator.  Stop.\n", "Makefile:12: *** missing separator"),
        ("  CC      lib/error.o\nmake: *** [Makefile:1: all] Killed\n", None),
    ],
)
def test_first_error(output: str, told: str | None) -> None:
    found = blame.first_error(output)
    assert (found is None) if told is None else (found is not None and found.startswith(told))


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("net/a.c:3:5: error: no x\n" + MAKE.format(1), True),
        ('  123 | pr_err("Killed process");\nnet/a.c:3:5: error: no x\n' + MAKE.format(1), True),
        # A script or a host tool that says nothing of its own.
        (MAKE.format(1), False),
        (MAKE.format(127), False),
        ("Makefile:12: *** missing separator.  Stop.\n", True),
        ("net/Kconfig:9: syntax error\n" + MAKE.format(1), True),
        (MAKE.format(137), False),
        ("gcc: fatal error: Killed signal terminated program cc1\n" + MAKE.format(1), False),
        ("as: cannot fork: Resource temporarily unavailable\n" + MAKE.format(1), False),
        ("a.c:1:1: internal compiler error: Segmentation fault\n" + MAKE.format(1), False),
        ("No space left on device\n" + MAKE.format(1), False),
        *(
            (f"net/a.c:3:5: error: no x\n{said}\n{MAKE.format(1)}", False)
            for said in (
                "sh: 1: Cannot fork",
                "cc1: out of memory allocating 65536 bytes",
                "ld: final link failed: memory exhausted",
                "make[2]: *** [Makefile:1: vmlinux] Bus error",
                "collect2: fatal error: ld terminated with signal 7 [Bus error]",
                "ccache: error: failed to create: Read-only file system",
                "make: *** [Makefile:1: vmlinux] Error 143",
            )
        ),
        ("unshare: cannot do that here\n", False),
        ("", False),
    ],
)
def test_who_is_at_fault(output: str, source: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(output)
    was = SkblabError("as it was said")
    made = blame.explained("compiling it", was, log)
    assert isinstance(made, SourceError) == source
    telling = blame.first_error(output)
    if telling is None or "No space" in output:
        assert str(made) == str(was)
    else:
        assert str(made) == f"compiling it failed: {telling}; whole output: {log}"


def test_what_ended_the_command_counts(tmp_path: Path) -> None:
    """Also where make itself was killed, and nobody was left to say so."""
    log = tmp_path / "log"
    log.write_text("net/a.c:3:5: error: no x\n")
    made = blame.explained("compiling it", SkblabError("failed (exit -9): killed by SIGKILL"), log)
    assert not isinstance(made, SourceError)


def test_without_a_log_nobody_is(tmp_path: Path) -> None:
    made = blame.explained("compiling it", SkblabError("no such root"), tmp_path / "log")
    assert (type(made), str(made)) == (SkblabError, "no such root")


class Refusing:
    """A lab root in which Kconfig refuses the tree."""

    def run(self, *_words: object, log: Path, **_more: object) -> str:
        log.write_text("net/Kconfig:9: syntax error\n" + MAKE.format(1))
        raise SkblabError("configuring the kernel failed (exit 2)")


def test_a_tree_that_cannot_be_configured(tmp_path: Path) -> None:
    root = cast("LabRoot", Refusing())
    with pytest.raises(SourceError, match=r"^configuring the kernel failed: net/Kconfig:9: syn"):
        config.merge(["base"], tmp_path, tmp_path, root, tmp_path / "log")
