# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings that no knob of skblab's knows, in a guest: set, read back, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skblab.knobs import rules
from skblab.knobs.applying import Applied, Applier, Undo, applying
from skblab.knobs.commands import Commands
from skblab.knobs.netfilter import Netfilter
from skblab.knobs.registry import KNOBS
from skblab.knobs.rules import Texts
from skblab.knobs.values import Value
from skblab.machine.device import Device, Machine
from skblab.machine.guest import Guest
from skblab.machine.transport import Transport, staying
from skblab.probe import loads
from skblab_analysis.base.errors import SkblabError

pytestmark = pytest.mark.guest

MACHINE = Machine((Device("r0", "router"), Device("r1", "router")), "router", cpus=2)
EARLIER = "table inet earlier { set a { type ipv4_addr; elements = { 192.0.2.1 }; }; }"
RULES = {
    # As a distribution's file begins: what is there goes.
    "mine.nft": """#!/usr/sbin/nft -f
flush ruleset
define bad = { 203.0.113.5, 203.0.113.6 }
table inet mine {
	map ports { type inet_service : verdict; elements = { 9 : drop }; }
	set seen { type ipv4_addr; flags dynamic; timeout 1h; }
	chain forward {
		type filter hook forward priority 0; policy accept;
		ct state established,related accept
		udp dport vmap @ports
		ip saddr $bad counter drop
		update @seen { ip saddr limit rate 5/second }
	}
}
""",
    "wrong.nft": "table inet x {\n\tchain y {\n\t\tudp dprot 4 accept\n\t}\n}\n",
    "nowhere.nft": "table inet x {\n\tchain y {\n\t\tjump nowhere\n\t}\n}\n",
}


@pytest.fixture(scope="module")
def router(guest: Guest) -> Iterator[Transport]:
    loads.prepare(guest.transport, napi=True)
    with staying(guest.transport) as transport:
        yield transport


def said(transport: Transport, script: str, *, netns: str = "router") -> str:
    call = f"ip netns exec {netns} {script}" if netns else script
    return transport.script(call).check(script).stdout


def good(found: list[Applied]) -> dict[str, str]:
    """Return what was read after it was set, of settings that hold."""
    assert [one for one in found if one.invalid] == []
    return {one.knob: one.after for one in found}


def test_sysctls_of_the_namespace_and_of_the_machine(router: Transport, tmp_path: Path) -> None:
    def now() -> list[str]:
        own, everywhere = "net.ipv4.ip_early_demux net.ipv4.tcp_rmem", "net.core.rmem_max"
        ports = "net.ipv4.conf.r0.proxy_arp net.ipv4.conf.r1.proxy_arp"
        return [
            said(router, f"sysctl -n {own} {ports}"),
            # The root namespace has its own.
            said(router, f"sysctl -n {own} {everywhere} vm.swappiness", netns=""),
        ]

    before = now()
    wanted: dict[str, Value] = {
        "sysctl.net.ipv4.ip_early_demux": False,
        "sysctl.net.ipv4.tcp_rmem": "4096 10000 20000",
        "sysctl.net.ipv4.conf.{port}.proxy_arp": 1,
        "sysctl.net.core.rmem_max": 4194304,
        "sysctl.vm.swappiness": 11,
    }
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        assert good(applier.apply(wanted)) == {
            "sysctl.net.ipv4.ip_early_demux": "0",
            "sysctl.net.ipv4.tcp_rmem": "4096 10000 20000",
            "sysctl.net.ipv4.conf.{port}.proxy_arp": "r0=1 r1=1",
            "sysctl.net.core.rmem_max": "4194304",
            "sysctl.vm.swappiness": "11",
        }
        own, everywhere = now()
        assert own.split() == ["0", "4096", "10000", "20000", "1", "1"]
        assert everywhere.split()[-2:] == ["4194304", "11"]
        # The namespace's are not the machine's.
        assert everywhere.split()[:4] == before[1].split()[:4]
    assert now() == before


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("net.ipv4.nothing", 1, r"net\.ipv4\.nothing: /proc/sys/net/ipv4/nothing: No such file"),
        (
            "net.ipv4.route.flush",
            1,
            "sysctl.net.ipv4.route.flush: /proc/sys/net/ipv4/route/flush: Permission denied$",
        ),
        ("net.ipv4.ip_forward", "x", 'not set: sysctl.* the kernel refuses "x"'),
        ("kernel.ostype", "x", "sysctl.kernel.ostype: /proc/sys/kernel/ostype: it is read-only$"),
    ],
)
def test_sysctls_that_cannot_be_set_are_said(
    router: Transport, tmp_path: Path, name: str, value: Value, what: str
) -> None:
    undo = tmp_path / "undo.jsonl"
    with (
        applying(router, MACHINE, undo) as applier,
        pytest.raises(SkblabError, match=what),
    ):
        applier.apply({f"sysctl.{name}": value})


def test_a_value_that_the_kernel_shows_otherwise_is_seen(router: Transport, tmp_path: Path) -> None:
    with applying(router, MACHINE, tmp_path / "undo.jsonl") as applier:
        [found] = applier.apply({"sysctl.net.ipv4.ip_forward": "01"})
        assert found.invalid and (found.wanted, found.after) == ("01", "1")


def test_commands_are_run_in_the_namespace(router: Transport, tmp_path: Path) -> None:
    knob = Commands(
        "txqlen",
        "ip link set dev {port} txqueuelen {value}",
        "cat /sys/class/net/{port}/tx_queue_len",
        "ip link set dev {port} txqueuelen {value}; ip link set dev {port} alias back-{value}",
    )
    show = "sh -c 'cat /sys/class/net/r?/tx_queue_len'"
    alias = "sh -c 'cat /sys/class/net/r?/ifalias'"
    assert said(router, show).split() == ["1000", "1000"]
    knobs, file = KNOBS.having({"txqlen": knob}), tmp_path / "undo.jsonl"
    with applying(router, MACHINE, file, knobs) as applier:
        assert good(applier.apply({"txqlen": 5})) == {"txqlen": "r0=5 r1=5"}
        assert said(router, show).split() == ["5", "5"]
        assert good(applier.apply({"txqlen": 7})) == {"txqlen": "r0=7 r1=7"}
        with pytest.raises(SkblabError, match=r"^not set: txqlen: set for r0 failed, exit \d+: "):
            applier.apply({"txqlen": "many"})
    assert said(router, show).split() == ["1000", "1000"]
    assert said(router, alias).split() == ["back-1000", "back-1000"]
    # What a killed run left, by its journal alone.
    undo = Undo(file)
    Applier(router, MACHINE, undo, knobs).apply({"txqlen": 9})
    assert undo.replay(router) == []
    assert said(router, show).split() == ["1000", "1000"]


@pytest.fixture
def earlier(router: Transport) -> Iterator[str]:
    """Rules that are there before, which have to come back."""
    said(router, f"nft '{EARLIER}'")
    before = said(router, "nft list ruleset")
    yield before
    assert said(router, "nft list ruleset") == before
    assert "skblab-rules" not in said(router, "ls /run", netns="")
    said(router, "nft flush ruleset")


def test_rules_of_the_user(router: Transport, tmp_path: Path, earlier: str) -> None:
    knobs = KNOBS.having({"netfilter": Netfilter(Texts(RULES))})
    key = rules.key(RULES["mine.nft"])
    with applying(router, MACHINE, tmp_path / "undo", knobs) as applier:
        found = applier.apply({"netfilter": "mine.nft"})
        assert good(found) == {"netfilter": f"mine.nft {key}"}
        assert said(router, "nft list tables") == "table inet mine\ntable inet skblab\n"
        # What rules add to sets is theirs; rules that others add are seen.
        said(router, "nft add element inet mine seen '{ 203.0.113.77 }'")
        assert applier.look(found) == found
        said(router, "nft add rule inet mine forward accept")
        [drifted] = applier.look(found)
        assert drifted.invalid and drifted.after == f"mine.nft {key} with changed rules"
    assert said(router, "nft list ruleset") == earlier


@pytest.mark.slow
def test_rules_that_nft_refuses_and_those_of_a_killed_run(
    router: Transport, tmp_path: Path, earlier: str
) -> None:
    knobs, undo = KNOBS.having({"netfilter": Netfilter(Texts(RULES))}), Undo(tmp_path / "undo")
    with applying(router, MACHINE, undo.file, knobs) as applier:
        applier.apply({"netfilter": "mine.nft"})
        assert good(applier.apply({"netfilter": "conntrack"})) == {"netfilter": "conntrack 2"}
        assert said(router, "nft list tables") == "table inet earlier\ntable inet skblab\n"
        for value, what in (
            ("wrong.nft", "wrong.nft line 3: syntax error, unexpected string"),
            ("nowhere.nft", "nowhere.nft line 3: Could not process rule: No such file"),
        ):
            with pytest.raises(SkblabError, match=f"^not set: netfilter: {value} line 3: ") as no:
                applier.apply({"netfilter": value})
            assert what in str(no.value)
            assert said(router, "nft list tables") == "table inet earlier\n"
    # What a killed run left, by its journal alone.
    Applier(router, MACHINE, undo, knobs).apply({"netfilter": "mine.nft"})
    assert said(router, "nft list ruleset") != earlier
    assert undo.replay(router) == []
