# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions timed by function graph: the same calls as by fentry, and tracing as it was before.

Linux 6.12 has an instance for it; on 6.1 there is one tracer for all.
"""

from __future__ import annotations

import pytest

from skblab.lab.kernel import names
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.probe import loads
from skblab.probe.attached import attached
from skblab.probe.functions import PROGRAM, Tracing
from skblab.probe.guests import guest_of_ours
from skblab.probe.loads import Load
from skblab.probe.targets import Target
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.functimes import By, FunctimesDocument

PACKETS = 1003
# Each of them calls the next one, once for each packet.
NESTED = ("udp_rcv", "__udp_enqueue_schedule_skb")
GRAPH: By = "function-graph"
# Not all as a kernel boots.
SET = """
cd /sys/kernel/tracing
echo 1000 >buffer_size_kb
echo 0 >tracing_on
echo nooverwrite >trace_options
"""
STATE = """
cd /sys/kernel/tracing
for file in current_tracer set_ftrace_filter set_event set_ftrace_pid tracing_on trace_options \
    trace_clock buffer_size_kb trace; do
    echo "$file:"
    cat $file
done
ls instances
"""
# 200 000 calls take 14 MiB of a buffer that has 8.
STOPPED = """
rm -f /tmp/said
{program} vfs_write --by function-graph 2>/tmp/said >/tmp/document &
until grep -qs ready /tmp/said; do sleep 0.1; done
kill -STOP $!
dd if=/dev/zero of=/dev/null bs=1 count=200000 2>/tmp/dd
kill -CONT $!
kill -INT $!
status=0
wait $! || status=$?
echo "$status $(cat /tmp/document)$(tail -n 1 /tmp/said)"
"""
# What reading the trace calls. Others hardly call anything meanwhile.
ITSELF = """
timeout 20 {program} vfs_read mutex_lock _raw_spin_lock_irqsave --by function-graph --seconds 0.5 \
    2>/tmp/said
"""
# The compiler made it of another one, and the types name that one alone.
LAYER = """
name=$(grep -E '^[a-z0-9_]+[.]isra[.]0$' /sys/kernel/tracing/available_filter_functions | sort |
    uniq -u | head -n 1)
for by in auto fentry; do
    {program} --optional no_such --optional "$name" --by $by --seconds 0.1 2>&1 >/tmp/document ||
        true
done
"""
KILLED = """
rm -f /tmp/said
{program} udp_rcv --by function-graph 2>/tmp/said >/tmp/document &
until grep -qs ready /tmp/said; do sleep 0.1; done
cat /sys/kernel/tracing/current_tracer /sys/kernel/tracing/instances/*/current_tracer 2>/dev/null |
    grep -c function_graph
kill -{signal} $!
wait $! || true
for wait in $(seq 100); do
    case "$(ls /sys/kernel/tracing/instances)$(cat /sys/kernel/tracing/current_tracer)" in
    nop) break ;;
    esac
    sleep 0.1
done
"""
# An instance of a user's, and one that stayed.
AT_ONCE = """
cd /sys/kernel/tracing/instances
mkdir skblab-mine skblab-4000000
for one in 1 2; do
    {program} udp_rcv --by function-graph --seconds 2 2>/tmp/said$one >/tmp/document$one &
done
wait
ls
rmdir skblab-mine
sort /tmp/said1 /tmp/said2
"""
# Nobody is left who could put anything back.
ALL_KILLED = """
rm -f /tmp/said
{program} udp_rcv --by function-graph 2>/tmp/said >/tmp/document &
until grep -qs ready /tmp/said; do sleep 0.1; done
kill -KILL $! $(pgrep -P $!)
wait $! || true
{program} udp_rcv --by function-graph --seconds 0.1 2>&1 >/tmp/document | tail -n 1
"""
# As docs/howto/time-kernel-functions.md has it.
RESET = """
cd /sys/kernel/tracing && echo nop >current_tracer && echo >set_ftrace_filter && echo 1 >tracing_on
echo overwrite >trace_options && echo 1408 >buffer_size_kb && echo >trace
"""


def timed(target: Target, by: By | None) -> FunctimesDocument:
    with attached(target, Tracing(NESTED, by=by), lambda text: None) as probing:
        sent = loads.run(target.transport, Load(), PACKETS, 5000, probing.look)
        assert sent.sent == sent.received == PACKETS
        return FunctimesDocument.model_validate_json(probing.end())


def said(target: Target, script: str) -> str:
    return target.transport.script(script).check("a script of this test").stdout


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "instances"), [("6.12", True), ("debian:6.1", False)])
def test_the_same_calls_as_by_fentry(lab: LabRoot, kernel: str, instances: bool) -> None:
    with guest_of_ours(
        *(names.parse(kernel).request("stock"), lab, Reporter()),
        lambda target: loads.prepare(target.transport),
        program=PROGRAM,
    ) as target:
        # A kernel's own size, in the way in which it says it once somebody traced.
        assert "(expanded: 1408)" in said(target, "cat /sys/kernel/tracing/buffer_size_kb")
        said(target, "echo 1408 >/sys/kernel/tracing/buffer_size_kb")
        booted = said(target, STATE)
        said(target, SET)
        before = said(target, STATE)
        fentry = timed(target, None)
        # As on a kernel without types.
        said(target, "mount -t tmpfs none /sys/kernel/btf")
        graph = timed(target, None)
        with (
            pytest.raises(UsageError, match="shows no types"),
            attached(target, Tracing(NESTED, by="fentry"), lambda text: None),
        ):
            pytest.fail("it was not refused")
        said(target, "umount /sys/kernel/btf")
        assert said(target, STATE) == before
        assert (fentry.by, fentry.why, graph.by) == ("fentry", None, GRAPH)
        assert graph.why is not None
        assert "shows no types in /sys/kernel/btf/vmlinux" in graph.why
        for document in (fentry, graph):
            assert [(one.name, one.calls) for one in document.functions] == [
                (name, PACKETS) for name in NESTED
            ]
        outer, inner = graph.functions
        assert (outer.untimed, inner.untimed) == (0, 0)
        assert outer.self_.sum == outer.inclusive.sum - inner.inclusive.sum
        assert inner.self_ == inner.inclusive
        assert graph.probe is not None
        assert (graph.probe.own, graph.probe.calls) == (0, 1000)
        assert graph.probe.cost > 0

        itself = FunctimesDocument.model_validate_json(
            said(target, ITSELF.format(program=target.program))
        )
        assert itself.final
        assert sum(one.calls for one in itself.functions) < 20000

        layer = said(target, LAYER.format(program=target.program)).splitlines()
        assert "timed by function graph, not by fentry: " in layer[0]
        assert "no types (BTF) of it" in layer[0]
        assert "none of these functions can be traced here" in layer[-1]

        for signal in ("TERM", "KILL"):
            killed = said(target, KILLED.format(program=target.program, signal=signal))
            assert killed.split() == ["1"]
            assert said(target, STATE) == before
        at_once = said(target, AT_ONCE.format(program=target.program)).splitlines()
        assert at_once[0] == "skblab-mine"
        if instances:
            assert at_once[1:] == ["ready", "ready"]
        else:
            refused, ready = at_once[1:]
            assert refused.startswith("funclat: /sys/kernel/tracing is in use: another funclat")
            assert ready == "ready"
        assert said(target, STATE) == before
        next_run = said(target, ALL_KILLED.format(program=target.program))
        if instances:
            assert next_run == "ready\n"
        else:
            assert 'current_tracer says "function_graph": someone else traces' in next_run
            said(target, RESET)
        assert said(target, STATE) == (before if instances else booted)

        # Someone else who traces, of which nothing changes while it is looked at.
        said(
            target,
            "cd /sys/kernel/tracing && echo 0 >tracing_on && echo function >current_tracer",
        )
        theirs = said(target, STATE)
        if instances:
            # What is lost is told, and there is no document.
            lost = said(target, STOPPED.format(program=target.program))
            assert lost.startswith("2 funclat: ")
            assert "events of function_graph were lost" in lost
        else:
            with (
                pytest.raises(UsageError, match='current_tracer says "function": someone else'),
                attached(target, Tracing(NESTED, by=GRAPH), lambda text: None),
            ):
                pytest.fail("it was not refused")
        assert said(target, STATE) == theirs
        assert target.guest is not None
        assert target.guest.console.warnings() == []
