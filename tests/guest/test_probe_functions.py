# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe functions` as a user runs it, with a guest's own traffic: every call is counted."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from conftest import Skblab
from skblab.lab.kernel import names
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.probe import loads
from skblab.probe.attached import attached
from skblab.probe.functions import PROGRAM, Tracing
from skblab.probe.guests import guest_of_ours
from skblab.probe.loads import Load
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.functimes import FILE, FunctimesDocument

PACKETS = 3003
# Each of them calls the next one, once for each packet.
NESTED = (
    *("net_rx_action", "__netif_receive_skb_one_core", "ip_rcv", "udp_rcv"),
    "__udp_enqueue_schedule_skb",
)
INNER = "ip_rcv_core"


@pytest.mark.guest
def test_every_call_is_counted(run_skblab: Skblab, tmp_path: Path) -> None:
    done = run_skblab(
        *("probe", "functions", *NESTED, INNER, "--layer", "done", "--layer", "local"),
        *("--on", "guest", "--kernel", "6.12+skblab", "--packets", str(PACKETS), "--rate", "3000"),
        "--json",
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    document = FunctimesDocument.model_validate_json(done.stdout)
    [folder] = tmp_path.glob("functions-*")
    assert FunctimesDocument.model_validate_json((folder / FILE).read_text()) == document
    assert (folder / "report" / "index.html").exists()
    assert json.loads((folder / "run.json").read_text())["state"] == "finished"

    found = {one.name: one for one in document.functions}
    left_out = {one.name for one in document.absent}
    assert {"dev_hard_start_xmit", "ip_local_deliver", "ip6_input"} <= {*found, *left_out}
    # Nothing else sends UDP there.
    for name in ("udp_rcv", "__udp_enqueue_schedule_skb"):
        assert found[name].calls == PACKETS
    for name in (*NESTED, INNER):
        one = found[name]
        assert one.calls >= PACKETS
        # What has no time is told, and next to nothing.
        causes = one.missed_entries + one.refused + one.lost + one.under_way
        assert one.untimed == causes <= PACKETS / 100
        assert one.self_.sum <= one.inclusive.sum
        assert one.inclusive.min > 0
    for outer, inner in itertools.pairwise(NESTED):
        assert found[outer].inclusive.sum > found[inner].inclusive.sum
        # Self time is without it.
        assert found[outer].self_.sum < found[outer].inclusive.sum
    of_ip = found["ip_rcv"]
    callees = found["udp_rcv"].inclusive.sum + found[INNER].inclusive.sum
    assert of_ip.self_.sum <= of_ip.inclusive.sum - 0.9 * callees
    assert document.probe is not None
    assert 0 < document.probe.own < document.probe.cost


@pytest.mark.guest
@pytest.mark.slow
def test_by_hand_in_a_guest(lab: LabRoot) -> None:
    """In instructions, which repeat: what the probe takes; what it refuses; how it ends."""
    chosen = names.parse("6.12").request("stock")
    with guest_of_ours(
        *(chosen, lab, Reporter(), lambda target: loads.prepare(target.transport)),
        exact=True,
        program=PROGRAM,
    ) as target:

        def timed(*functions: str) -> FunctimesDocument:
            with attached(target, Tracing(functions), lambda text: None) as probing:
                sent = loads.run(target.transport, Load(), 503, 2000, probing.look)
                assert sent.sent == sent.received == 503
                document = FunctimesDocument.model_validate_json(probing.end())
            assert [one.calls for one in document.functions] == [503] * len(functions)
            return document

        alone, both = timed("udp_rcv"), timed("udp_rcv", "__udp_enqueue_schedule_skb")
        assert both.probe is not None
        means = [one.functions[0].inclusive.histogram().mean or 0.0 for one in (alone, both)]
        # What of the probe remains in a traced callee is what was measured with an empty function.
        assert means[1] - means[0] == pytest.approx(both.probe.remains, rel=0.2)

        for function, words in (
            ("udp_rvc", "udp_rvc: this kernel has no such function; similar: udp_rcv"),
            ("do_syscall_64", "lets nobody trace it"),
        ):
            with (
                pytest.raises(UsageError, match=words),
                attached(target, Tracing((function,)), lambda text: None),
            ):
                pytest.fail("it was not refused")

        killed = target.transport.script(
            "rm -f /tmp/said\n"
            f"{target.program} udp_rcv 2>/tmp/said &\n"
            "until grep -qs ready /tmp/said; do sleep 0.1; done\n"
            "bpftool prog show | grep -c 'name on_entry'\nkill -9 $!\n"
            "until ! bpftool prog show | grep -q 'name on_entry'; do sleep 0.1; done\n"
        )
        # One of the function, and one of the empty one.
        assert (killed.status, killed.stdout.split()) == (0, ["2"])
