# SPDX-License-Identifier: GPL-2.0-or-later
"""Each form of each knob's values has a line on the page that says what sets it by hand."""

from __future__ import annotations

import contextlib
import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from skblab.knobs.page import values_page
from skblab.knobs.registry import KNOBS
from skblab.knobs.values import Value, literal
from skblab.sweep.experiment import knobs_of
from skblab.sweep.request import SHIPPED, read

NUMBERS = (0, 1, 2, 64, 100, 1280, 9000)
# What values are made of, whatever knob they are for.
NETFILTER = [
    f"{tool}-{hook}{kind} 7"
    for tool, hook, kind in product(
        ("nft", "iptables"), ("forward", "input", "output", "postrouting"), ("", "-set")
    )
]
WORDS = (
    *("in", "out", "both"),
    *("none", "all", "each", "off", "on", "busy-poll", "spread", "far", "irqbalance", "all 3"),
    *("equal 2", "equal 3 start 9", "symmetric", "aa:bb", "2", "0-2,7", "fifo 9", "rr 9", "other"),
    *(
        "64 on 2-3",
        "other 3",
        "other -3",
        "batch",
        "batch -3",
        "default",
        "noqueue",
        "pfifo",
        "bfifo",
        "fq",
    ),
    *(
        "pfifo_fast",
        "fq_codel",
        "codel",
        "sfq",
        "cake",
        "mq",
        "stock",
        "rt",
        "voluntary",
        "full",
        "lazy",
    ),
    *("auto", "auto,nosmt", "permissive", "enforcing", "performance", "powersave", "schedutil"),
    *("ondemand", "conservative", "conntrack", "flowtable", "masquerade", "iptables-masquerade"),
    *NETFILTER,
)


def shape(value: Value) -> str:
    """Return a value with numbers, bytes and lists of CPUs all alike."""
    if isinstance(value, tuple):
        return "a list"
    text = str(value)
    if re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2})+", text):
        return "bytes"
    return re.sub(r"-?\d+([,-]\d+)*", "N", text)


@cache
def tried() -> tuple[Value, ...]:
    """Return values of many kinds, each of which some knobs take."""
    experiments = [read(str(file)) for file in SHIPPED.glob("*.toml")]
    used = [
        value
        for experiment in experiments
        for setting in (None, *experiment.settings())
        for value in knobs_of(experiment, setting).values()
    ]
    lists = [(first, other) for first, other in product(("on", "each", "fifo 9"), ("off", "2"))]
    lists += [("on", "off"), ("all", "1"), ("rr 9", "batch")]
    return (False, True, *NUMBERS, *WORDS, *used, *lists)


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_every_form_that_a_knob_takes_has_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.txt").write_text("11.0.0.0/8\n" if name == "routes" else "2400::/12\n")
    Path("my-rules.nft").write_text("table inet filter {}\n")
    knob = KNOBS[name]
    forms = {shape(form.example) for form in knob.check.forms}
    taken = set()
    for value in (*tried(), "table.txt", "my-rules.nft"):
        with contextlib.suppress(ValueError):
            taken.add(shape(knob.check(value)))
            assert knob.by_hand(value)
    assert taken == forms
    for form in knob.check.forms:
        # An example is a value.
        assert knob.check(form.example) == form.example
        [line] = [
            line
            for line in values_page().splitlines()
            if line.startswith(f"| `{name}` | `{literal(form.example)}`")
        ]
        assert knob.by_hand(form.example).replace("|", "\\|") in line


@pytest.mark.parametrize(
    ("name", "value", "hand"),
    [
        ("netdev_budget", 300, "sysctl -w net.core.netdev_budget=300"),
        ("ring_rx", 512, "ethtool -G DEVICE rx 512"),
        ("gro", False, "ethtool -K DEVICE gro off"),
        ("mtu", 1400, "ip link set dev DEVICE mtu 1400"),
        (
            "netfilter",
            "nft-forward-set 9",
            "nft: set { type ipv4_addr . inet_service; } of 9 elements; chain { type filter hook "
            "forward priority 0; }: ip saddr . udp sport @SET drop",
        ),
        (
            "napi_policy",
            ("fifo 50", "other"),
            "; ".join(
                f"ynl --family netdev --do napi-set --json '{{\"id\": NAPI, {words}}}'"
                for words in ('"policy": 1, "priority": 50', '"policy": 0, "nice": 0')
            )
            + ", in turn",
        ),
    ],
)
def test_what_sets_a_value_by_hand(name: str, value: Value, hand: str) -> None:
    assert KNOBS[name].by_hand(KNOBS[name].check(value)) == hand
