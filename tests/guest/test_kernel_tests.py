# SPDX-License-Identifier: GPL-2.0-or-later
"""The series' selftests and a short soak, as `make kselftest` and `make kernel-soak` run them."""

from __future__ import annotations

import json

import pytest

from conftest import Skblab
from skblab.lab.kernel import Kernel
from skblab.lab.kernel.model import Flavour
from skblab.lab.kernel.registry import last_build
from skblab.soak.plan import ACTIONS

pytestmark = pytest.mark.guest
QUICK = "net_path.py"
# Only the debug kernel has WireGuard.
WITHOUT = {"net_path.wireguard", "net_path.wireguard_segments"}


def test_the_quick_selftest_passes(skblab: Skblab, stock: Kernel) -> None:
    done = skblab("kselftest", QUICK, "--json")
    document = json.loads(done.stdout)
    # The kernel and the lab root have all that the other cases need: none is left out.
    others = [
        (case["name"], case["result"])
        for test in document["tests"]
        for case in test["cases"]
        if case["result"] != "pass" and case["name"] not in WITHOUT
    ]
    assert others == [], document["tests"][0]["log"]
    assert (done.returncode, document["passed"]) == (0, True), document["tests"][0]["why"]
    assert document["kernel"] == stock.release
    assert len(document["tests"][0]["cases"]) > 10


def test_the_list_names_the_tests_of_the_patches(skblab: Skblab) -> None:
    done = skblab("kselftest", "--list")
    assert done.returncode == 0
    assert QUICK in done.stdout.split()


def test_an_unknown_selftest_is_one_line_and_exit_2(skblab: Skblab) -> None:
    done = skblab("kselftest", "nonsense.py")
    assert done.returncode == 2
    assert "unknown selftest 'nonsense.py'; known are: " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flavour", ["stock", "rt", "debug"])
def test_all_selftests_pass(
    skblab: Skblab, flavour: Flavour, full: bool, pytestconfig: pytest.Config
) -> None:
    """On the debug kernel, which takes ten times as long, the quick one stands for all but once."""
    if pytestconfig.getoption("--budget") is not None and last_build(flavour) is None:
        # No estimate has it, and a slice would end that much later.
        pytest.skip(f"there is no {flavour} kernel yet, which takes half an hour to build")
    chosen = () if full or flavour != "debug" else (QUICK,)
    done = skblab("kselftest", *chosen, "--flavour", flavour, "--json", timeout=7000)
    document = json.loads(done.stdout)
    assert {
        test["test"]: [test["why"], *(case for case in test["cases"] if case["result"] == "fail")]
        for test in document["tests"]
        if test["verdict"] != "pass"
    } == {}
    assert (done.returncode, document["passed"], document["flavour"]) == (0, True, flavour)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_kernels_own_selftests_say_the_same_with_and_without_our_series(
    skblab: Skblab, full: bool
) -> None:
    listed = skblab("kselftest", "--compare", "--list").stdout.split()
    chosen = listed if full else listed[:2]
    done = skblab("kselftest", "--compare", *chosen, "--json", timeout=7000)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_soak_is_good(skblab: Skblab, stock: Kernel, full: bool) -> None:
    how = ("debug", "90") if full else ("stock", "20")
    done = skblab("soak", "--flavour", how[0], "--seconds", how[1], "--json", timeout=3500)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["complaints"] == []
    assert done.returncode == 0
    result = document["result"]
    assert set(result["done"]) == set(ACTIONS), (result["refused"], result["examples"])
    assert result["calm"]["received"] == result["calm"]["sent"]


@pytest.mark.slow
@pytest.mark.timeout(9200)
@pytest.mark.parametrize("flavour", ["kcsan", "kmsan"])
def test_a_soak_on_a_kernel_with_a_sanitizer_is_good(
    skblab: Skblab, flavour: str, full: bool
) -> None:
    if not full:
        pytest.skip("only make test-all has the half hour that its kernel takes to build")
    done = skblab("soak", "--flavour", flavour, "--seconds", "60", "--json", timeout=9000)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["complaints"] == []
    assert (document["result"]["watched"] is not None) == (flavour == "kcsan")
