# SPDX-License-Identifier: GPL-2.0-or-later
"""The catalogue of layers: it says what the probe and the kernel say, and bad ones are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skblab_analysis import catalogue_page
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.catalogue import FILE, load, version

TREE = Path(__file__).resolve().parents[2]


def kernel_intervals() -> dict[str, list[str]]:
    """Every interval that the kernel counts, by path in the order of its points, from its patch."""
    added = "".join(
        line.removeprefix("+") + "\n"
        for patch in sorted((TREE / "patches" / "v6.12" / "net_path").glob("*.patch"))
        for line in patch.read_text().splitlines()
        if line.startswith("+")
    )
    [enum] = re.findall(r"^enum net_path_hist_nr \{\n(.*?)^\};", added, re.DOTALL | re.MULTILINE)
    found: dict[str, list[str]] = {}
    for word in re.findall(r"^\tNET_PATH_(\w+)", enum, re.MULTILINE):
        path, _, point = word.lower().rpartition("_")
        # Those without a path of their own are of what is forwarded, and of what is sent.
        for name in [path] if path else ["forward", "send"]:
            found.setdefault(name, []).append(point)
    return found


def test_patched_points_are_those_that_the_kernel_counts() -> None:
    counted = kernel_intervals()
    coming = counted.pop("in")
    assert counted["receive"].pop() == "total"
    # Their number comes last in the enum.
    assert counted["forward"][-2:] == counted["send"][-2:] == ["total", "hists"]
    wanted = {
        "receive": [*coming, *counted["receive"]],
        "forward": [*coming, *counted["forward"][:-2]],
        # Where the path begins no interval ends.
        "send": ["send", *counted["send"][:-2]],
    }
    paths = load().paths
    assert {path.name: list(path.points) for path in paths if path.name != "poll"} == wanted
    assert all(point.patched for point in load().points)


def test_the_page_is_current() -> None:
    assert catalogue_page.PAGE.read_text() == catalogue_page.page(load()), "run: make schemas"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "stack"', 'name = "stck"', "unknown ['stack'], in no path ['stck']"),
        ('name = "ip"\n', 'name = "stack"\n', "more than one of points is named stack"),
        ("entry:ip_rcv_core", "probe:ip_rcv_core", "point.6.hooks.0.at: String should match"),
        ('unit = "poll"', 'unit = "polls"', "point.0.unit: Input should be"),
        ("families = [4]", "families = [5]", "families"),
        ('before = "5.18"', 'before = "5.10"', "before 5.10 is not after since 5.15"),
        (
            'entry:udp_sendmsg", task = true',
            'entry:udp_sendmsg"',
            "expected either skb, napi or task",
        ),
        (', name = "n" }', ', name = "return" }', "expected an index, or the name return"),
        ("usual_end", "usual", "usual_end: Field required"),
        (
            '{ at = "tracepoint:net:net_dev_start_xmit", skb = { index = 0, name = "skb" } },',
            "",
            "xmit: expected hooks, or the reason",
        ),
        ('paths = ["send"]', 'paths = ["forward"]', "the point is of receive, send"),
        ('layer = "The wait in', 'layer = ""\n# "', "is number 7 of path forward: expected what"),
    ],
)
def test_a_bad_catalogue_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = FILE.read_text()
    assert old in text
    bad = tmp_path / "catalogue.toml"
    bad.write_text(text.replace(old, new, 1))
    with pytest.raises(RecordError) as error:
        load(bad)
    assert complaint in str(error.value)
    assert str(bad) in str(error.value)
    assert "\n" not in str(error.value)


def test_no_catalogue_and_no_toml(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the catalogue"):
        load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[point\n")
    with pytest.raises(UsageError, match=r"is no TOML: .*line 1"):
        load(tmp_path / "bad.toml")


def test_an_unknown_point() -> None:
    with pytest.raises(RecordError, match="no point is named 'nosuch'; there are irq, poll"):
        load().point("nosuch")


@pytest.mark.parametrize(
    ("text", "numbers"), [("6.12", (6, 12)), ("6.12.117-skblab", (6, 12)), ("5.15-rc1", (5, 15))]
)
def test_versions(text: str, numbers: tuple[int, int]) -> None:
    assert version(text) == numbers


@pytest.mark.parametrize("text", ["", "6", "six.twelve", "v6.12"])
def test_no_version(text: str) -> None:
    with pytest.raises(RecordError, match="no kernel version"):
        version(text)


def test_hooks_by_version() -> None:
    hooks = load().point("driver").hooks
    old = {hook.target for hook in hooks if hook.fits(version("5.15"))}
    new = {hook.target for hook in hooks if hook.fits(version("6.12"))}
    assert old - new == {"netif_rx_ni_entry"}
    assert "netif_rx_entry" in new
