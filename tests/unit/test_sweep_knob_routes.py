# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs that are routes: sets that are made, those of files, and what is in their way."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skblab.knobs import routefile, routeset
from skblab.knobs.base import Unable
from skblab.knobs.registry import KNOBS
from skblab.lab import paths
from skblab.machine.device import Device, Machine
from skblab.testbeds import NETNS, netns

MACHINE = NETNS.machine(2)
TESTBED = ("198.18.0.0/15", "2001:db8::/32", "2001:2::/48")
FAMILIES = st.sampled_from([4, 6])


@given(FAMILIES, st.integers(0, 3000), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_every_set_is_as_large_as_asked_and_in_nobodys_way(
    family: int, count: int, seed: int
) -> None:
    found = list(routeset.prefixes(family, count, seed))
    assert len(found) == len(set(found)) == count
    assert list(routeset.prefixes(family, count, seed)) == found
    kept = [ipaddress.ip_network(prefix) for prefix in TESTBED]
    for prefix in found:
        # Strict: no bit is set behind the prefix.
        network = ipaddress.ip_network(prefix)
        assert network.version == family
        assert network.is_global
        assert not any(
            network.version == other.version and network.overlaps(other) for other in kept
        )
        assert routefile.usual(network)


@given(FAMILIES, st.data())
def test_lengths_have_their_shares(family: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, routeset.MOST[family]))
    counts = routeset.counts(family, count)
    whole = sum(routeset.SHARES[family].values())
    assert sum(counts.values()) == count
    for length, some in counts.items():
        assert abs(some - count * routeset.SHARES[family][length] / whole) < 1


def test_a_large_set_is_like_the_internets() -> None:
    found = [int(prefix.partition("/")[2]) for prefix in routeset.prefixes(4, 50_000)]
    assert 0.59 < Counter(found)[24] / len(found) < 0.63
    found = [int(prefix.partition("/")[2]) for prefix in routeset.prefixes(6, 50_000)]
    # The mean of the public table at the end of 2024 was 42.9.
    assert abs(sum(found) / len(found) - 42.9) < 0.2


def test_another_seed_is_another_set() -> None:
    assert set(routeset.prefixes(4, 500, 1)) != set(routeset.prefixes(4, 500, 2))


def test_a_set_stays_the_same_with_every_python() -> None:
    text = "\n".join(prefix for family in (4, 6) for prefix in routeset.prefixes(family, 2000))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "07e23fd726d4f8cc"


def test_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="200001 routes of IPv6: expected 0 to 200000"):
        routeset.counts(6, 200_001)


def test_it_runs_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-", "6", "3", "1"],
        input=Path(routeset.__file__).read_text(),
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.split() == list(routeset.prefixes(6, 3, 1))


DUMP = """# Of two peers.
TABLE_DUMP2|1400000000|B|192.0.2.1|65001|8.8.8.0/24|65001 15169|IGP
TABLE_DUMP2|1400000000|B|192.0.2.2|65002|8.8.8.0/24|65002 15169|IGP
2a00:1450::/32
9.0.0.0/8

0.0.0.0/0
198.18.0.0/24
10.1.0.0/16
"""


def test_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "table.txt"
    file.write_text(DUMP)
    assert routefile.read(file, 4) == ["8.8.8.0/24", "9.0.0.0/8"]
    assert routefile.read(file, 6) == ["2a00:1450::/32"]
    knob = KNOBS["routes"]
    assert knob.check(str(file)) == str(file)
    state = knob.wanted(MACHINE, str(file), "routes=7:7 all=12")
    assert state == f"routes={file}:2 all=7"
    script = knob.restore(MACHINE, state)
    assert f"mark {file}:2" in script
    assert (
        "cat <<'SKBLAB_ROUTES' | sed 's|.*|route add & via 198.19.0.2 dev r1 proto 83|'" in script
    )
    assert script.endswith("\n8.8.8.0/24\n9.0.0.0/8\nSKBLAB_ROUTES")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.2.3.4/24\n", "table.txt:1: 1.2.3.4/24 has host bits set; expected such as"),
        ("# none\n2a00::/16\n", "has no route of IPv4 that can be taken"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "table.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        KNOBS["routes"].check(str(file))


@pytest.mark.parametrize("value", [-1, 1_000_001, True, "1000", "no such; file", 1.5])
def test_numbers_that_there_are_not(value: int | str) -> None:
    with pytest.raises(ValueError, match="expected a whole number from 0 to 1000000, or a file"):
        KNOBS["routes"].check(value)


def printed(mark: str, *others: dict[str, str]) -> str:
    table = {"nftables": [{"table": {"comment": mark}}]} if mark else {}
    return f"{json.dumps(table)}\ntotal 9\ndevices r0 r1\n{json.dumps(others)}\n"


def test_a_state_says_which_and_how_many() -> None:
    knob = KNOBS["routes"]
    assert knob.state(printed("")) == "routes=0:0 all=9"
    assert knob.state(printed("5:5")) == "routes=5:5 all=9"
    assert knob.wanted(MACHINE, 100, "routes=5:5 all=9") == "routes=100:100 all=104"
    assert knob.wanted(MACHINE, 0, "routes=5:5 all=9") == "routes=0:0 all=4"
    made = knob.restore(MACHINE, "routes=100:100 all=104")
    assert "python3 - 4 100 1 <<'SKBLAB_ROUTES' | sed" in made
    assert "python3" not in knob.restore(MACHINE, "routes=0:0 all=4")


@pytest.mark.parametrize("destination", ["default", "8.8.0.0/16", "0.0.0.0/1", "8.8.8.8"])
def test_routes_that_the_machine_itself_needs_are_not_taken_over(destination: str) -> None:
    knob = KNOBS["routes"]
    own = {"dst": destination, "dev": "eth9"}
    with pytest.raises(Unable, match=f"the machine itself needs its route to {destination}"):
        knob.fits(printed("", own), 5)
    knob.fits(printed("", own), 0)
    knob.fits(printed("", {**own, "dev": "r1"}), 5)


@pytest.mark.parametrize("destination", ["10.0.0.0/24", "192.168.1.0/24", "198.18.0.0/24"])
def test_private_routes_are_in_nobodys_way(destination: str) -> None:
    KNOBS["routes"].fits(printed("", {"dst": destination, "dev": "eth9"}), 5)


def test_routes_have_to_lead_somewhere() -> None:
    machine = Machine((Device("r0"), Device("r1", beyond=("198.19.0.2",))))
    assert "skblab-unable: no address behind r1 that routes of IPv6 lead to" in KNOBS[
        "routes6"
    ].get(machine)
    assert "skblab-unable: no address" not in KNOBS["routes"].get(machine)


def _random_destinations(family: int) -> tuple[int, int]:
    """Return the first and the last one that the generator is asked for, as numbers."""
    prefix = "dst" if family == 4 else "dst6"
    text = netns.script("")
    ends = [re.findall(rf'"{prefix}_{end} ([0-9a-f.:]+)" ?', text) for end in ("min", "max")]
    [[first], [last]] = ends
    return int(ipaddress.ip_address(first)), int(ipaddress.ip_address(last))


@pytest.mark.parametrize(("family", "words"), [(4, "where 41 % of"), (6, "where 20 % of IPv6's")])
def test_random_destinations_reach_the_share_of_routes_that_is_said(
    family: int, words: str
) -> None:
    first, last = _random_destinations(family)
    shift = routeset.BITS[family] - routeset.HEAD[family]
    heads = set(range(first >> shift, (last >> shift) + 1))
    # All of it is where routes are, and nothing is special in it.
    assert heads <= set(routeset.HEADS[family])
    assert (first, last + 1) == (min(heads) << shift, (max(heads) + 1) << shift)
    found = [ipaddress.ip_network(prefix) for prefix in routeset.prefixes(family, 20_000)]
    share = sum(first <= int(network.network_address) <= last for network in found) / len(found)
    assert words in (paths.tree() / "docs" / "explain" / "sweep.md").read_text()
    assert share == pytest.approx(int(words.split()[1]) / 100, abs=0.01)
