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


def test_patched_points_are_those_of_the_probe() -> None:
    text = (TREE / "probes" / "bpf" / "kernel_types.h").read_text()
    enum = re.search(r"enum net_path_point \{(.*?)\}", text, re.S)
    assert enum
    names = re.findall(r"NET_PATH_([A-Z]+),", enum.group(1))
    catalogue = load()
    polls = {name for path in catalogue.paths if path.name == "poll" for name in path.points}
    assert {name.lower() for name in names} == {p.name for p in catalogue.points} - polls
    # The kernel numbers them in the order in which packets pass them.
    order = [name.lower() for name in names]
    for path in catalogue.paths:
        if path.name != "poll":
            assert list(path.points) == sorted(path.points, key=order.index)


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
