# SPDX-License-Identifier: GPL-2.0-or-later
"""The testbed of hosts, which are guests reached by real SSH: a sweep leaves them as they were."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import schema_checks

from conftest import Skblab
from delivered import delivered
from retries import no_retries
from skblab.lab import portable, tools
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.transport.host import brought
from skblab.testbeds import hostsfile
from skblab.testbeds.native import NAME
from skblab_analysis.events import summary as events_summary
from skblab_analysis.latency import summary as latency_summary
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings
from skblab_analysis.samples import summary as samples_summary
from skblab_analysis.work import summary as work_summary
from two_hosts import Hosts

pytestmark = pytest.mark.guest

EVENTS = """
[measure.events]
rates = [200]
seconds = 1
perf = ["cycles", "software"]
pcm = ["pcm"]

# Of 200 packets a function is in a few samples, and now and then in none.
[measure.samples]
rates = [1_000]
seconds = 3
"""
# Counts for as long as its command runs, and prints what is recorded of a machine with two sockets.
PCM = """cat >/usr/local/sbin/pcm <<'END'
#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
"$@"
cat /usr/local/sbin/pcm.csv
END
chmod +x /usr/local/sbin/pcm
cat >/usr/local/sbin/pcm.csv <<'END'
"""
RECORDED = Path(__file__).resolve().parents[1] / "analysis" / "pcm" / "pcm-202604.csv"
# As DPDK's drivers would have it: ports that skblab does not find, and who counts their packets.
APART = """#!/usr/bin/python3
import json, subprocess, sys, time

asked = json.load(sys.stdin)
assert asked["device"] is None and asked["namespace"] is None, asked
device, sink = ("g0", "s0") if asked["path"] == "router" else ("c0", "s1")
inside = ["ip", "netns", "exec", "dpdk"]


def came():
    counter = f"/sys/class/net/{sink}/statistics/rx_packets"
    return int(subprocess.run([*inside, "cat", counter], stdout=subprocess.PIPE).stdout)


seen = before = came()
text = json.dumps({**asked, "device": device})
call = [*inside, *sys.argv[1:]]
done = subprocess.run(call, input=text, stdout=subprocess.PIPE, text=True)
if done.returncode:
    sys.exit(done.returncode)
while time.sleep(0.5) or came() != seen:
    seen = came()
print(json.dumps({**json.loads(done.stdout), "received": seen - before}))
"""
HIDE = """
ip netns add dpdk
ip netns exec dpdk sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 \\
    net.ipv6.conf.default.disable_ipv6=1
for pair; do
    ip link set "${pair%=*}" netns dpdk name "${pair#*=}"
    ip -n dpdk link set "${pair#*=}" up
done
"""
SHOW = """
for pair; do ip netns exec dpdk ip link set "${pair#*=}" netns 1 name "${pair%=*}"; done
ip netns delete dpdk
"""
EXAMPLE = Path(__file__).resolve().parents[2] / "runners" / "adapters" / "skblab_traffic.py"


def swept(skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path) -> tuple[Run, str]:
    """Return the run of a sweep that left its hosts as they were, and what it printed."""
    before = hosts.state()
    results = tmp_path / "results"
    done = skblab(*hosts.options(experiment), env={"SKBLAB_RESULTS": str(results)}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert hosts.state() == before
    [folder] = results.iterdir()
    run = load(folder)
    assert {row.state for row in run.trials} == {"good"}
    schema_checks.folder_fits(folder)
    return run, done.stdout


def test_a_sweep_on_hosts_leaves_them_as_they_were(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    run, _ = swept(skblab, hosts, experiment, tmp_path)
    no_retries(run)
    works = {work.setting: work for work in work_summary.of(run)}
    assert works["NAPI threads"].napi_ns > 0 == works["baseline"].napi_ns
    [latency] = latency_summary.of(run)
    assert len(latency.delays) == 3
    for delay in (*latency.delays, latency.testers[0]):
        delivered(delay, 200)
    environment = run.document.environment
    assert environment is not None
    assert environment.kernel.release == hosts.router.kernel.release
    assert environment.more["router"] == "router"
    assert "virtio_net" in environment.more["router r0 driver"]
    assert environment.more["tester CPUs"] == "2"
    # As it was laid out, not as it was found.
    assert environment.more["router net.ipv6"] == "conf/all/forwarding 1;"
    assert environment.more["router NUMA allocations"] == "counted"
    # Our kernels have no CONFIG_SLUB_STATS, and what is not counted is said.
    assert any("did not count slab allocations" in sentence for sentence in findings.unseen(run))


@pytest.mark.slow
def test_a_doctor_looks_at_both_machines_and_leaves_them(skblab: Skblab, hosts: Hosts) -> None:
    before = hosts.state()
    done = skblab("doctor", "--hosts", str(hosts.file), "--json")
    assert hosts.state() == before
    document = json.loads(done.stdout)
    assert (done.returncode, document["ready"]) == (0, True), done.stderr
    found = {check["name"]: check for check in document["checks"]}
    ports = [f"router's {port}" for port in hosts.router_ports]
    assert [*found][:4] == ["router", "tester", *ports]
    assert hosts.router.kernel.release in found["router"]["found"]
    assert "2 CPUs" in found["tester"]["found"]
    assert "driver: virtio_net" in found[ports[0]]["found"]
    assert found["cables"]["status"] == "good"
    # A loop is there, and both rates are some packets a second of a real trial.
    rates = [
        int(re.sub(r"\D", "", words))
        for name in ("tester alone", "rate")
        for words in re.findall(r"([\d\s]+) packets/s", found[name]["found"])
    ]
    assert len(rates) == 3 and min(rates) > 1000
    assert rates[1] >= rates[2]
    # What is joined in another way is told, and all is given back.
    text = hosts.file.read_text()
    first, second = hosts.router_ports
    swapped = text.replace(f'"{first}"\nout', f'"{second}"\nout', 1)
    swapped = swapped.replace(f'out = "{second}"', f'out = "{first}"')
    assert swapped != text
    hosts.file.write_text(swapped)
    try:
        done = skblab("doctor", "--hosts", str(hosts.file))
    finally:
        hosts.file.write_text(text)
    assert done.returncode == 1 and "the router forwarded none of" in done.stdout
    assert hosts.state() == before


@pytest.mark.slow
def test_perf_and_pcm_count_on_a_host(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path
) -> None:
    # No guest has such counters: that a real pcm runs is not what this shows.
    hosts.sh(f"{PCM}{RECORDED.read_text()}END")
    text = experiment.read_text()
    head, tail = text.index("[measure.latency]"), text.index("[repeats]")
    experiment.write_text(f"{text[:head]}{EVENTS}{text[tail:]}")
    run, printed = swept(skblab, hosts, experiment, tmp_path)
    [events] = events_summary.of(run)
    assert [counts.setting for counts in events.settings] == [
        *("baseline", "baseline again", "NAPI threads")
    ]
    for counts in events.settings:
        switches = counts.of("perf: software", "context-switches")
        misses = counts.of("pcm", "L3MISS")
        assert switches is not None and switches.value is not None and switches.value > 0
        # As recorded, of each packet.
        assert misses is not None and misses.value == pytest.approx(39.77e6 / 200, rel=0.05)
    for title in ("perf, software", "pcm, what waits", "pcm, links between sockets"):
        assert title in printed
    [samples] = samples_summary.of(run)
    assert samples.unit == "ns" and "Functions that run with baseline" in printed
    for sampling in samples.settings:
        # The router forwards, and its interrupts are not waited for. ip_forward() itself ends in a
        # jump to ip_output(), so that it is in no stack of what it calls.
        assert {"ip_sublist_rcv", "ip_output"} <= set(sampling.inclusive)
        assert 0 < sampling.idle < 1
        assert not any("idle" in name for name in list(sampling.own)[:3])
    unseen = findings.unseen(run)
    assert any(sentence.startswith("perf: cycles: cycles, ") for sentence in unseen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sender", "name"),
    [("skblab-traffic", "skblab-traffic"), ("af_xdp", "skblab-traffic by AF_XDP")],
)
def test_our_own_sender_sends_from_a_host(
    skblab: Skblab, hosts: Hosts, experiment: Path, tmp_path: Path, sender: str, name: str
) -> None:
    asked = tmp_path / "own.toml"
    asked.write_text(f'{hosts.file.read_text()}sender = "{sender}"\n')
    before = hosts.state_of(hosts.tester)
    run, _ = swept(skblab, replace(hosts, file=asked), experiment, tmp_path)
    no_retries(run)
    environment = run.document.environment
    assert environment is not None
    assert environment.more["tester generator"] == name
    [latency] = latency_summary.of(run)
    for delay in (*latency.delays, latency.testers[0]):
        delivered(delay, 200)
    # Neither the program nor its folder stays there.
    assert hosts.state_of(hosts.tester) == before


@pytest.mark.slow
def test_a_command_of_the_users_sends_from_a_host(
    skblab: Skblab, hosts: Hosts, lab: LabRoot, experiment: Path, tmp_path: Path
) -> None:
    reporter, tester = Reporter(quiet=True), hosts.tester.transport
    bundle = portable.ensure(lab, tools.ensure_traffic(lab, reporter) / NAME, reporter)
    with brought(tester, bundle) as folder:
        program = f"{folder}/my-tester"
        tester.put(EXAMPLE, program)
        tester.run(["chmod", "+x", program]).check("the example")
        asked = tmp_path / "another.toml"
        asked.write_text(
            f'{hosts.file.read_text()}sender = "command"\n'
            f'command = ["{program}", "{folder}/{NAME}"]\n'
        )
        before = hosts.state_of(hosts.tester)
        run, _ = swept(skblab, replace(hosts, file=asked), experiment, tmp_path)
        assert hosts.state_of(hosts.tester) == before
    no_retries(run)
    environment = run.document.environment
    assert environment is not None
    assert environment.more["tester generator"] == f"{program} {folder}/{NAME}"
    [latency] = latency_summary.of(run)
    for delay in (*latency.delays, latency.testers[0]):
        delivered(delay, 200)


@pytest.mark.slow
def test_a_command_counts_at_ports_that_the_kernel_does_not_have(
    skblab: Skblab, hosts: Hosts, lab: LabRoot, experiment: Path, tmp_path: Path
) -> None:
    text = experiment.read_text()
    head, tail = text.index("[measure.latency]"), text.index("[repeats]")
    cpu = "[measure.cpu]\nrates = [200]\nseconds = 1\n"
    experiment.write_text(f"{text[:head]}{cpu}{text[tail:]}")
    reporter, tester = Reporter(quiet=True), hosts.tester.transport
    ports = hostsfile.read(hosts.file).tester.ports
    asked = hosts.file.read_text()
    for port in ports:
        address = tester.run(["cat", f"/sys/class/net/{port}/address"]).check("an address").stdout
        asked = asked.replace(f'"{port}"', f'"{address.strip()}"')
    # The router's ports have the same names.
    router = hosts.file.read_text().partition("[tester]")[0]
    file = tmp_path / "apart.toml"
    pairs = [f"{port}={name}" for port, name in zip(ports, ("g0", "s0", "c0", "s1"), strict=True)]
    bundle = portable.ensure(lab, tools.ensure_traffic(lab, reporter) / NAME, reporter)
    with brought(tester, bundle) as folder:
        for name, source in (("apart", APART), ("example", EXAMPLE.read_text())):
            (tmp_path / name).write_text(source)
            tester.put(tmp_path / name, f"{folder}/{name}")
            tester.run(["chmod", "+x", f"{folder}/{name}"]).check("a command")
        words = [f"{folder}/{name}" for name in ("apart", "example", NAME)]
        file.write_text(
            f"{router}[tester]{asked.partition('[tester]')[2]}"
            f'sender = "command"\ncommand = {json.dumps(words)}\n'
        )
        tester.run(["sh", "-euc", HIDE, "sh", *pairs]).check("hiding the ports")
        try:
            run, _ = swept(skblab, replace(hosts, file=file), experiment, tmp_path)
        finally:
            tester.run(["sh", "-euc", SHOW, "sh", *pairs]).check("giving the ports back")
    environment = run.document.environment
    assert environment is not None
    assert environment.more["tester sink"] == "counted by the generator"
    assert environment.more["tester generator"] == " ".join(words)
