# SPDX-License-Identifier: GPL-2.0-or-later
"""How a selftest is judged, which tests are ours, and when two kernels differ."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from skblab.lab.guest.console import Console
from skblab.machine.guest import Guest
from skblab.selftests import compare, guestrun, tree
from skblab.selftests.guestrun import Said, judge
from skblab.selftests.ktap import Result

GOOD = "KTAP version 1\n1..2\nok 1 a\nok 2 b # SKIP no sctp\n"
BAD = "KTAP version 1\n1..2\nok 1 a\nnot ok 2 b\n"
SKIPPED = "KTAP version 1\n1..1\nok 1 a # SKIP no stamps here\n"


@pytest.mark.parametrize(
    ("said", "verdict", "why"),
    [
        (Said(0, GOOD), "pass", ""),
        (Said(1, BAD), "fail", "1 of 2 cases failed"),
        (Said(0, BAD), "fail", "it ended with status 0, but cases failed"),
        (Said(1, GOOD), "fail", "it ended with status 1, but no case failed"),
        (Said(0, ""), "fail", "it printed no KTAP"),
        (Said(139, GOOD), "fail", "it ended with status 139"),
        (Said(124, "KTAP version 1\n1..2\nok 1 a\n"), "fail", "it did not end within 300 s"),
        (Said(0, "KTAP version 1\n1..2\nok 1 a\n"), "fail", "planned 2 cases and reported 1"),
        (Said(0, "KTAP version 1\n1..0\n"), "skip", "no reason given"),
        (Said(0, SKIPPED), "skip", "no stamps here"),
        (Said(4, "# needs root\n"), "skip", "needs root"),
        (Said(0, GOOD, warnings=("WARNING: CPU: 0",)), "fail", "the kernel warned"),
        (Said(0, GOOD, left=("namespace a",)), "fail", "left behind: namespace a"),
    ],
)
def test_a_test_is_judged_by_all_that_can_be_seen(said: Said, verdict: str, why: str) -> None:
    outcome = judge("x.py", said, 1.0, 300, Path("log"))
    assert outcome.verdict == verdict, outcome.why
    assert why in outcome.why


def test_what_a_guests_death_adds() -> None:
    outcome = judge("x.py", Said(0, GOOD), 1.0, 300, Path("log")).failed("afterwards: panic")
    assert (outcome.verdict, outcome.why) == ("fail", "afterwards: panic")
    assert outcome.count(Result.SKIP) == 1


def test_our_tests_are_those_that_patches_add_to_the_makefile() -> None:
    patch = (
        f"diff --git a/{tree.NET}/Makefile b/{tree.NET}/Makefile\nindex 1..2 100644\n"
        "@@ -1,3 +1,5 @@\n TEST_PROGS += old.sh\n+TEST_PROGS += net_path.py napi.sh\n"
        "+TEST_PROGS += more.py\n+TEST_FILES += net_path_lib.py\n"
        f"diff --git a/{tree.NET}/net_path.py b/{tree.NET}/net_path.py\n"
        "new file mode 100755\n+TEST_PROGS += said.in.a.test\n"
    )
    assert tree.added_by(patch) == ["net_path.py", "napi.sh", "more.py"]


# As Linux has it since its lists have one test in a line.
LISTED = """diff --git a/tools/testing/selftests/net/Makefile b/tools/testing/selftests/net/Makefile
--- a/tools/testing/selftests/net/Makefile
+++ b/tools/testing/selftests/net/Makefile
@@ -60,6 +60,7 @@ TEST_PROGS := \\
 \tmsg_zerocopy.sh \\
+\tnapi_thread.py \\
 \tnat6to4.sh \\
@@ -136,9 +137,11 @@ TEST_PROGS := \\
 \txfrm_policy.sh \\
+\tzz_last.py \\
 # end of TEST_PROGS
\x20
 TEST_PROGS_EXTENDED := \\
+\tlib.sh \\
 \txfrm_policy_add_speed.sh \\
 # end of TEST_PROGS_EXTENDED
@@ -205,4 +208,5 @@ TEST_GEN_PROGS := \\
+\ttun \\
 \tudpgso \\
"""


def test_tests_that_a_patch_adds_to_a_list() -> None:
    assert tree.added_by(LISTED) == ["napi_thread.py", "zz_last.py"]
    assert tree.added_by(LISTED.replace("net/Makefile", "net/lib/Makefile")) == []


def test_equal_results_make_no_difference() -> None:
    same = {"": "status 0", "a": "pass", "b": "fail"}
    assert compare.differences("t", same, dict(same)) == []


def test_each_difference_is_named_and_absence_is_one() -> None:
    found = compare.differences("t", {"": "status 0", "a": "pass"}, {"": "status 1", "b": "pass"})
    assert [(d.name, d.unpatched, d.patched) for d in found] == [
        ("", "status 0", "status 1"),
        ("a", "pass", "absent"),
        ("b", "absent", "pass"),
    ]


def test_only_what_differs_in_every_run_counts() -> None:
    flaky = [({"a": "pass"}, {"a": "fail"}), ({"a": "fail"}, {"a": "fail"})]
    real = [({"a": "pass"}, {"a": "fail"}), ({"a": "pass"}, {"a": "fail"})]
    assert compare.steady("t", flaky) == []
    assert [d.name for d in compare.steady("t", real)] == ["a"]


def test_the_list_of_own_tests_is_whole() -> None:
    names = compare.tests()
    assert len(names) == len(set(names)) > 40
    limits = compare.limits()
    text = resources.files("skblab.selftests").joinpath(compare.LIST).read_text()
    classes = tomllib.loads(text)["excluded"]
    reasons = {name: group["reason"] for group in classes for name in group["names"]}
    assert limits.keys() == set(names) and min(limits.values()) > 0
    assert min(len(reason) for reason in reasons.values()) > 20
    assert not reasons.keys() & set(names)


def test_each_guest_has_what_netdevsim_waits_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel's own tests call udevadm, too: without it all that make a netdevsim fail."""
    scripts: list[str] = []

    class Transport:
        def script(self, text: str) -> SimpleNamespace:
            scripts.append(text)
            return SimpleNamespace(check=lambda _: None)

    @contextlib.contextmanager
    def boot(console: Path) -> Iterator[Guest]:
        said = Console(console)
        yield cast(Guest, SimpleNamespace(console=said, transport=Transport()))

    outcome = judge("a", Said(0, GOOD), 1.0, 300, Path("log"))
    monkeypatch.setattr(guestrun, "_run", lambda *_: outcome)
    (found,) = guestrun.run_all(["a"], boot, tmp_path, "", lambda _: 300.0, "prepared\n")
    assert found == outcome
    (script,) = scripts
    assert "/usr/local/bin/udevadm" in script
    assert script.endswith("prepared\n")
