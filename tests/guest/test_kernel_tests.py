# SPDX-License-Identifier: GPL-2.0-or-later
"""The series' selftests and a short soak, as `make kselftest` and `make kernel-soak` run them."""

from __future__ import annotations

import json

import pytest

from conftest import Skblab
from skblab.kernel import Kernel
from skblab.soak.plan import ACTIONS

pytestmark = pytest.mark.guest
QUICK = "net_path_basic.py"


def test_the_quick_selftest_passes(skblab: Skblab, stock: Kernel) -> None:
    done = skblab("kselftest", QUICK, "--json")
    document = json.loads(done.stdout)
    failed = [
        case["name"]
        for test in document["tests"]
        for case in test["cases"]
        if case["result"] == "fail"
    ]
    assert failed == [], document["tests"][0]["log"]
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
def test_a_short_soak_is_good(skblab: Skblab, stock: Kernel) -> None:
    done = skblab("soak", "--flavour", "stock", "--seconds", "20", "--json")
    document = json.loads(done.stdout)
    assert document["complaints"] == []
    assert done.returncode == 0
    result = document["result"]
    assert set(result["done"]) == set(ACTIONS), (result["refused"], result["examples"])
    assert result["calm"]["received"] == result["calm"]["sent"]
