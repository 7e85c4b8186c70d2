# SPDX-License-Identifier: GPL-2.0-or-later
"""Configuration fragments: reading, merging, refused options; the comparison with Debian's."""

from __future__ import annotations

from pathlib import Path

import pytest

from skblab.lab import paths
from skblab.lab.kernel import config, debian, source
from skblab.lab.kernel.debian import Reason, Reasons
from skblab.lab.kernel.lines import LINES, Line
from skblab.lab.kernel.model import CHECKING, FLAVOURS, Flavour, Own, Request
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab_analysis.base.errors import SkblabError, UsageError


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_reads_a_fragment(tmp_path: Path) -> None:
    text = '# SPDX\n\nCONFIG_NET=y\n# CONFIG_UPROBES is not set\nCONFIG_LSM="a,b"\n# prose\n'
    asks = config.read_fragment(write(tmp_path, "base.config", text))
    assert [(ask.option, ask.value, ask.where) for ask in asks] == [
        ("NET", "y", "base.config:3"),
        ("UPROBES", "n", "base.config:4"),
        ("LSM", '"a,b"', "base.config:5"),
    ]


@pytest.mark.parametrize(
    "line", ["CONFIG_NET", "#CONFIG_NET is not set", "# CONFIG_NET isn't set", "NET=y", "CONFIG_X="]
)
def test_line_that_would_be_lost(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match=r"bad\.config:2"):
        config.read_fragment(write(tmp_path, "bad.config", f"# ok\n{line}\n"))


def test_option_twice_in_one_fragment(tmp_path: Path) -> None:
    file = write(tmp_path, "bad.config", "CONFIG_NET=y\n# CONFIG_NET is not set\n")
    with pytest.raises(UsageError, match=r"bad\.config:2: CONFIG_NET is in bad\.config:1 already"):
        config.read_fragment(file)


def test_later_fragment_wins(tmp_path: Path) -> None:
    base = write(tmp_path, "base.config", "CONFIG_PREEMPT_VOLUNTARY=y\n")
    rt = write(tmp_path, "rt.config", "# CONFIG_PREEMPT_VOLUNTARY is not set\n")
    assert config.wanted([base, rt])["PREEMPT_VOLUNTARY"].where == "rt.config:1"


def test_refused_option_is_named(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").write_text('config NET_PKTGEN\n\tbool "x"\n')
    text = "CONFIG_NET_PKTGEN=y\nCONFIG_INVENTED=y\n# CONFIG_UPROBES is not set\nCONFIG_HZ=250\n"
    asked = config.wanted([write(tmp_path, "base.config", text)])
    with pytest.raises(SkblabError) as caught:
        config.check(asked, {"NET_PKTGEN": "n", "HZ": "250"}, tmp_path)
    told = str(caught.value)
    assert "CONFIG_NET_PKTGEN of base.config:1: wanted y, got n;" in told
    assert "CONFIG_INVENTED of base.config:2: wanted y, got n (this kernel has no such" in told
    assert "UPROBES" not in told
    assert "HZ" not in told


def test_many_refused_are_counted(tmp_path: Path) -> None:
    text = "".join(f"CONFIG_X{n}=y\n" for n in range(8))
    asked = config.wanted([write(tmp_path, "base.config", text)])
    with pytest.raises(SkblabError, match="; and 3 more; "):
        config.check(asked, {}, tmp_path)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "1 option: CONFIG_A; it is built without"),
        (5, "5 options: CONFIG_A, CONFIG_B, CONFIG_C, CONFIG_D, CONFIG_E; it is built without"),
        (6, "6 options: CONFIG_A, CONFIG_B, CONFIG_C, CONFIG_D, CONFIG_E …; it is built without"),
    ],
)
def test_what_a_kernel_lacks_is_named(count: int, said: str) -> None:
    assert config.told("ABCDEF"[:count], "6.1").endswith(said)


def test_our_fragments_are_well_formed() -> None:
    files = sorted((paths.tree() / "kconfig").rglob("*.config"))
    assert {"base", "rt", "debug", "skblab"} <= {file.stem for file in files}
    for file in files:
        assert config.read_fragment(file), file


def test_missing_fragment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kconfig", "patches"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SKBLAB_TREE", str(tmp_path))
    with pytest.raises(UsageError, match=r"base\.config does not exist"):
        config.fragment("base")


KNOWN = Reasons(
    scope=("NET*", "HZ"),
    difference=(
        Reason(options=("NET_VENDOR_*",), ours="n", reason="no such hardware in a guest"),
        Reason(options=("HZ",), ours="100", reason="this one has become stale"),
    ),
)


def test_contrast() -> None:
    theirs = {"NET": "y", "NET_VENDOR_X": "m", "NETDEVSIM": "m", "HZ": "250", "USB": "y"}
    ours = {"NET": "y", "NETDEVSIM": "y", "NET_NEW": "y", "HZ": "250"}
    found = debian.contrast("stock", theirs, ours, KNOWN)
    assert [(row.option, row.debian, row.ours) for row in found.differences] == [
        ("NET_NEW", "n", "y"),
        ("NET_VENDOR_X", "m", "n"),
    ]
    assert [row.option for row in found.unexplained] == ["NET_NEW"]
    assert found.stale == ("HZ",)
    assert found.built_in == 1
    assert not found.clean


def test_reason_covers_one_kind_of_difference_only() -> None:
    found = debian.contrast("stock", {}, {"NET_VENDOR_X": "y"}, KNOWN)
    assert [row.option for row in found.unexplained] == ["NET_VENDOR_X"]


def test_reasons_file_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"d.toml:3: difference.0.options: "):
        debian.reasons(write(tmp_path, "d.toml", 'scope = ["NET"]\n[[difference]]\noptions = []\n'))


@pytest.mark.labroot
@pytest.mark.parametrize("flavour", ["stock", pytest.param("rt", marks=pytest.mark.slow)])
def test_no_unexplained_difference_from_debian(flavour: str, lab: LabRoot) -> None:
    known = next(name for name in FLAVOURS if name == flavour)
    found = debian.compare(known, lab, Reporter())
    assert found.compared > 1000
    assert [f"{row.option}: {row.debian} -> {row.ours}" for row in found.unexplained] == []
    assert found.stale == ()


@pytest.mark.labroot
@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("line", LINES, ids=str)
def test_fragments_of_another_line(
    line: Line, flavour: Flavour, lab: LabRoot, tmp_path: Path
) -> None:
    """Its kernel refuses no option, and where Debian has such a flavour, each difference is known.

    It fetches the line's source if that is not here.
    """
    if flavour not in CHECKING:
        found = debian.compare(flavour, lab, Reporter(), line)
        assert found.compared > 1000
        assert [f"{row.option}: {row.debian} -> {row.ours}" for row in found.unexplained] == []
        assert found.stale == ()
        return
    request = Request(flavour=flavour, patches=False, line=line)
    origin = source.find(None, lab, line, Reporter())
    with source.tree(origin, None, lab, Reporter()) as tree:
        log, compiler = tmp_path / "log", request.compiler
        config.merge(request.fragments, tree, tmp_path, lab, log, compiler=compiler)


def test_a_reason_is_of_the_lines_that_it_names() -> None:
    row = {"options": ["NET_X"], "reason": "of one line alone", "ours": "n", "kernels": ["6.12"]}
    known = Reasons.model_validate({"scope": ["NET_*"], "difference": [row]})
    theirs, ours = {"NET_X": "y"}, {"NET_X": "n"}
    assert debian.contrast("stock", theirs, ours, known).clean
    other = debian.contrast("stock", theirs, ours, known, LINES[1])
    assert [found.option for found in other.unexplained] == ["NET_X"]
    assert debian.contrast("stock", {}, {}, known, LINES[1]).clean
    assert debian.contrast("stock", {}, {}, known).stale == ("NET_X",)
    with pytest.raises(ValueError, match=r"no kernel 5\.4: expected 6\.12, 7\.3"):
        Reason.model_validate({**row, "kernels": ["5.4"]})


@pytest.mark.labroot
def test_debug_is_not_compared(lab: LabRoot) -> None:
    with pytest.raises(UsageError, match="no debug kernel to compare with"):
        debian.compare("debug", lab, Reporter())


@pytest.fixture
def fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the fragments of a project that has no others."""
    project = tmp_path / "project"
    for name in ("kconfig", "patches"):
        (project / name).mkdir(parents=True)
    monkeypatch.setenv("SKBLAB_TREE", str(project))
    return project / "kconfig"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where a configuration is made."""
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


@pytest.mark.labroot
@pytest.mark.slow
def test_kernel_refuses_an_option(
    tmp_path: Path, lab: LabRoot, fragments: Path, output: Path
) -> None:
    """Through the kernel's own Kconfig: pktgen cannot be had without networking."""
    text = "# CONFIG_NET is not set\nCONFIG_NET_PKTGEN=y\nCONFIG_NO_SUCH_THING=y\n"
    write(fragments, "base.config", text)
    with (
        source.tree(source.find(None, lab), None, lab, Reporter()) as tree,
        pytest.raises(SkblabError) as caught,
    ):
        config.merge(Request(patches=False).fragments, tree, output, lab, tmp_path / "log")
    told = str(caught.value)
    assert "CONFIG_NET_PKTGEN of base.config:2: wanted y, got n;" in told
    assert "CONFIG_NO_SUCH_THING of base.config:3: wanted y, got n (this kernel has no" in told


@pytest.mark.labroot
@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param(
            "CONFIG_NO_SUCH_THING=y\n",
            r"CONFIG_NO_SUCH_THING of my:1: .*has no such option",
            marks=pytest.mark.slow,
        ),
        # Misspelt, it is off as asked, and costs nothing.
        ("CONFIG_PSI=n\nCONFIG_PSII=n\n", r"my:2: this kernel has no option CONFIG_PSII"),
        pytest.param(
            "CONFIG_SLUB=n\n", r"CONFIG_SLUB of my:1: wanted n, got y", marks=pytest.mark.slow
        ),
        ("CONFIG_SMP=n\n", r"my:1: CONFIG_SMP=n: rt\.config:1 has y, by which"),
    ],
)
def test_an_option_of_the_users_own_is_taken_or_refused(
    said: str, told: str, tmp_path: Path, lab: LabRoot, fragments: Path, output: Path
) -> None:
    write(fragments, "base.config", "CONFIG_NET=y\n")
    write(fragments, "rt.config", "CONFIG_SMP=y\n")
    own = Own(Path("my"), said)
    with (
        source.tree(source.find(None, lab), None, lab, Reporter()) as tree,
        pytest.raises(UsageError, match=told),
    ):
        config.merge(["base", "rt"], tree, output, lab, tmp_path / "log", added=own)


@pytest.mark.labroot
def test_what_options_of_the_users_own_take_away_is_lacking(
    tmp_path: Path, lab: LabRoot, fragments: Path, output: Path
) -> None:
    write(fragments, "base.config", "CONFIG_NET=y\nCONFIG_INET=y\nCONFIG_PSI=y\n")
    own = Own(Path("my"), "# CONFIG_NET is not set\n")
    with source.tree(source.find(None, lab), None, lab, Reporter()) as tree:
        lacking = config.merge(["base"], tree, output, lab, tmp_path / "log", added=own)
    assert [ask.option for ask in lacking] == ["INET"]
    got = config.parse((output / ".config").read_text())
    assert (got.get("NET", "n"), got["PSI"]) == ("n", "y")


@pytest.mark.labroot
@pytest.mark.slow
def test_only_base_may_be_lacking_in_a_foreign_kernel(
    tmp_path: Path, lab: LabRoot, fragments: Path, output: Path
) -> None:
    """Without what makes it so, a kernel of a flavour would be another one under its name."""
    write(fragments, "base.config", "CONFIG_NET=y\nCONFIG_NO_SUCH_THING=y\n")
    write(fragments, "rt.config", "CONFIG_NO_SUCH_FLAVOUR=y\n")
    log = tmp_path / "log"
    with source.tree(source.find(None, lab), None, lab, Reporter()) as tree:
        lacking = config.merge(["base"], tree, output, lab, log, foreign=True)
        assert [ask.option for ask in lacking] == ["NO_SUCH_THING"]
        with pytest.raises(SkblabError, match=r"CONFIG_NO_SUCH_FLAVOUR of rt\.config:1: want"):
            config.merge(["base", "rt"], tree, output, lab, log, foreign=True)
