# SPDX-License-Identifier: GPL-2.0-or-later
"""Trouble for `skblab probe layers`: a clear line, a right count, and nothing left behind.

The machine is a guest of ours with and without the patches. `skblab` reaches it as any other host:
by ssh, whose proxy starts a further sshd in the guest.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import schema_checks

from conftest import TREE, Skblab, emulators, ssh_way
from skblab.lab import portable, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import Bind, LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.guest import Guest
from skblab.machine.transport import host
from skblab.probe import loads, targets
from skblab.probe.attached import attached
from skblab.probe.loads import Load, Traffic
from skblab.probe.request import HISTOGRAMS, HOOKS, Request
from skblab.probe.scripts import session, systemtap
from skblab.probe.switches import NET_PATH, STAMPS
from skblab.probe.targets import Target
from skblab_analysis.base.checked import parse
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.ledger import of_probe
from skblab_analysis.formats.pathlat import PathlatDocument, PathName
from skblab_analysis.load import Run, load
from waiting import PATIENCE

pytestmark = pytest.mark.guest

PATHLAT = "/skblab/tools/bin/pathlat"
NO_CAPABILITY = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
NOBODY = (*NO_CAPABILITY, "--reuid=65534", "--regid=65534", "--clear-groups")
# For the hopeless only: a busy machine takes its time.
SECONDS = 900
LONGEST_NS = 60_000_000_000


@dataclass
class Bed:
    """A guest with the loads' namespaces, and how `skblab` reaches it as a host."""

    guest: Guest
    target: Target
    config: Path
    source: str

    def sh(self, text: str) -> str:
        return self.target.transport.script(text).check("a script in the guest").stdout

    def state(self) -> str:
        """What a probe could leave behind."""
        return self.sh(
            "ls -d /tmp/skblab.* 2>/dev/null || :\n"
            f"cat {STAMPS} {NET_PATH}/napi 2>/dev/null || :\n"
            "bpftool prog show | grep netif_rx_entry || :\n"
        )

    @contextlib.contextmanager
    def probing(self, **options: object) -> Iterator[Callable[[], PathlatDocument]]:
        request = Request(source=self.source, **options)  # type: ignore[arg-type]
        with attached(self.target, request, lambda text: None) as reading:
            yield lambda: parse(PathlatDocument, reading.end(), "the probe's document")

    def send(self, count: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        sent = loads.run(self.target.transport, Load(), count, 10_000, meanwhile)
        assert (sent.sent, sent.received) == (count, count)


# Hooks have a guest of their own, of the kernel without our series: the gate has those tests that
# are of hooks alone.
@pytest.fixture(scope="module", params=[HISTOGRAMS, pytest.param(HOOKS, marks=pytest.mark.slow)])
def testbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with contextlib.ExitStack() as stack:
        if request.param == HISTOGRAMS:
            guest: Guest = request.getfixturevalue("guest")
        else:
            of = request.getfixturevalue
            shares = [Bind(of("programs"), "tools")]
            guest = stack.enter_context(
                Guest.boot(make_spec(), of("unpatched"), of("lab"), shares=shares)
            )
        loads.prepare(guest.transport)
        folder = tmp_path_factory.mktemp("ssh")
        config = folder / "config"
        config.write_text(ssh_way(guest, folder, "testbed"))
        target = Target("testbed", guest.transport, PATHLAT, guest.kernel.release, guest=guest)
        yield Bed(guest, target, config, request.param)
        assert guest.console.warnings() == []


only_hooks = pytest.mark.parametrize("testbed", [HOOKS], indirect=True)
only_histograms = pytest.mark.parametrize("testbed", [HISTOGRAMS], indirect=True)


@pytest.fixture(autouse=True)
def _nothing_stays_behind(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    if "testbed" not in request.fixturenames:
        yield
        return
    testbed: Bed = request.getfixturevalue("testbed")
    before = testbed.state()
    # Other workers' commands have folders in /tmp, too. The path of ssh's socket must be short.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="probe.") as folder:
        here = Path(folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if testbed.state() == before and not list(here.iterdir()):
                break
            time.sleep(0.2)
        assert testbed.state() == before
        assert list(here.iterdir()) == []


def _refused(testbed: Bed, *options: str, before: tuple[str, ...] = ()) -> str:
    call = [*before, PATHLAT, "--source", testbed.source, "--seconds", "1", *options]
    done = testbed.target.transport.run(call)
    assert (done.status, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def _exact(document: PathlatDocument, count: int) -> None:
    """All of so many packets are in it, at every point, with times that can be."""
    found = of_probe(0, "ns", document)
    assert found.missing == 0, found
    receive, send = document.path("receive"), document.path("send")
    assert (receive.ends.delivered, send.ends.transmitted) == (count, count)
    assert set(receive.seen.values()) == {count}
    for path in (receive, send):
        assert 0 < path.since_entry.max < LONGEST_NS
    assert all(
        times.negative == times.overflow == 0 and times.max < LONGEST_NS for times in document.napi
    )


@pytest.mark.slow
@only_hooks
def test_no_types(testbed: Bed) -> None:
    masked = 'mount -t tmpfs none /sys/kernel/btf; exec "$@"'
    said = _refused(testbed, before=("unshare", "--mount", "sh", "-c", masked, "sh"))
    assert "shows no types in /sys/kernel/btf/vmlinux; mount /sys, or build" in said


@pytest.mark.slow
@only_hooks
def test_no_permission(testbed: Bed) -> None:
    assert "no permission to load BPF programs; run as root" in _refused(testbed, before=NOBODY)
    said = _refused(testbed, before=NO_CAPABILITY)
    assert "though root: a container or a locked-down kernel" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("testbed", "name", "status", "words"),
    [
        ("hooks", "sctp_rcv", 0, "absent: 1\nentry:sctp_rcv\n"),
        ("hooks", "skb_release_data", 2, "no function skb_release_data to hook; without it"),
    ],
    indirect=["testbed"],
)
def test_a_function_without_its_symbol(testbed: Bed, name: str, status: int, words: str) -> None:
    # As when the compiler has made it another one's part: the types list it still.
    hide = (
        f"grep -v ' {name}\\b' /proc/kallsyms >/tmp/kallsyms\n"
        "mount --bind /tmp/kallsyms /proc/kallsyms\n"
        f"exec {PATHLAT} --source hooks --check"
    )
    done = testbed.target.transport.run(["unshare", "--mount", "sh", "-ec", hide])
    assert done.status == status
    assert words in done.stdout + done.stderr


@pytest.mark.slow
@only_histograms
def test_hooks_on_a_patched_kernel_lack_nothing(testbed: Bed) -> None:
    hooks = Bed(testbed.guest, testbed.target, testbed.config, HOOKS)
    with hooks.probing() as end:
        testbed.send(1009)
        document = end()
    assert document.hooks is not None
    # Whether or not the compiler has made __napi_poll() a function.
    assert document.hooks.absent == ()
    assert {times.name for times in document.napi if times.count} == {"delay", "time"}
    _exact(document, 1009)


@pytest.mark.slow
@only_histograms
@pytest.mark.parametrize("kprobes", [False, True], ids=["fentry", "kprobe"])
def test_the_verifier_is_far_from_its_limit(testbed: Bed, kprobes: bool) -> None:
    """It refuses a program after a million instructions (BPF_COMPLEXITY_LIMIT_INSNS)."""
    hooks = Bed(testbed.guest, testbed.target, testbed.config, HOOKS)
    with hooks.probing(kprobes=kprobes) as end:
        shown = testbed.sh("for pid in $(pidof pathlat); do cat /proc/$pid/fdinfo/*; done")
        end()
    verified = [int(found) for found in re.findall(r"verified_insns:\s*(\d+)", shown)]
    assert len(verified) > 40
    assert 0 < min(verified) <= max(verified) < 100_000


@pytest.mark.slow
@only_histograms
def test_a_module_of_another_kernel(testbed: Bed, lab: LabRoot, unpatched: Kernel) -> None:
    module = systemtap.ensure(lab, unpatched, "napi-hooks", Reporter(quiet=True))
    transport = testbed.target.transport
    with host.temporary(transport) as folder:
        argv = systemtap.bring_module(transport, folder, module)
        tool = session.BACKENDS[systemtap.NAME]
        with (
            pytest.raises(UsageError) as refused,
            session.running(tool, testbed.target, "napi", argv),
        ):
            raise AssertionError
    said = str(refused.value)
    assert said.startswith(
        f"stap could not attach napi on testbed, kernel {testbed.target.release}: ERROR: "
    )
    assert "Invalid module format" in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
@only_hooks
def test_hooks_that_are_not_called(testbed: Bed) -> None:
    testbed.sh("sysctl -q -w kernel.ftrace_enabled=0")
    try:
        assert "kernel.ftrace_enabled is 0" in _refused(testbed)
    finally:
        testbed.sh("sysctl -q -w kernel.ftrace_enabled=1")
    running = testbed.target.transport.start([PATHLAT, "--source", "hooks"])
    running.wait_for("ready", SECONDS)
    testbed.sh("sysctl -q -w kernel.ftrace_enabled=0")
    try:
        running.interrupt()
        done = running.wait(SECONDS)
    finally:
        testbed.sh("sysctl -q -w kernel.ftrace_enabled=1")
    assert (done.status, done.stdout) == (2, "")
    assert "kernel.ftrace_enabled is 0" in done.stderr


@pytest.mark.slow
@only_hooks
@pytest.mark.parametrize("options", [{"port": 9}, {"address": "0.0.0.0"}, {"address": "::"}])
def test_a_filter_that_matches_nothing(testbed: Bed, options: dict[str, object]) -> None:
    with testbed.probing(**options) as end:
        # Packets without addresses are not those with an address of zeros.
        testbed.sh(
            "for ns in $(ip netns list | cut -d ' ' -f 1); do ip -n $ns neigh flush all; done"
        )
        testbed.send(503)
        document = end()
    assert not any(sum(path.ends.model_dump().values()) for path in document.paths)
    assert document.samples is not None
    assert document.samples.filtered >= 2 * 503


@pytest.mark.slow
@only_hooks
def test_stop_without_a_way_to_stop_tracing(testbed: Bed) -> None:
    hidden = 'mount -t tmpfs none /sys/kernel/tracing; exec "$@"'
    before = ("unshare", "--mount", "sh", "-c", hidden, "sh")
    said = _refused(testbed, "--late", "1ms", "--stop", before=before)
    assert "--stop: cannot write to /sys/kernel/tracing/tracing_on: No such file" in said
    assert "mount -t tracefs none /sys/kernel/tracing" in said


@pytest.mark.slow
@only_hooks
def test_tracing_that_cannot_be_stopped_any_more(testbed: Bed) -> None:
    full = (
        "mount -t tmpfs none /sys/kernel/tracing\n"
        "touch /sys/kernel/tracing/tracing_on\n"
        "mount --bind /dev/full /sys/kernel/tracing/tracing_on\n"
        f"exec {PATHLAT} --source hooks --late 1ns --stop"
    )
    running = testbed.target.transport.start(["unshare", "--mount", "sh", "-ec", full])
    running.wait_for("ready", SECONDS)
    testbed.send(503)
    running.interrupt()
    done = running.wait(SECONDS)
    assert done.status == 0, done.stderr
    assert "tracing_on: No space left on device; tracing goes on" in done.stderr
    document = parse(PathlatDocument, done.stdout.splitlines()[-1], "the probe's document")
    assert document.late is not None
    assert document.late.recorded > 0
    assert not document.late.tracing_stopped
    _exact(document, 503)


def test_two_probes_at_once(testbed: Bed) -> None:
    on = [contextlib.ExitStack(), contextlib.ExitStack()]
    with on[1], on[0]:
        for stack in on:
            stack.enter_context(targets.stamps_for(testbed.target, testbed.source))
        with testbed.probing() as end_second:
            with testbed.probing() as end_first:
                testbed.send(2003)
                _exact(end_first(), 2003)
            # Whoever goes first leaves the stamps to the other.
            on[0].close()
            testbed.send(1009)
            document = end_second()
    _exact(document, 3012)
    assert document.stamps_on.end is not False


@pytest.mark.slow
@only_histograms
def test_stamps_that_were_on_stay_on(testbed: Bed) -> None:
    testbed.sh(f"echo 1 >{STAMPS}")
    try:
        with targets.stamps_for(testbed.target, testbed.source):
            pass
        assert testbed.sh(f"cat {STAMPS}") == "1\n"
    finally:
        testbed.sh(f"echo 0 >{STAMPS}")


def _histograms(testbed: Bed) -> Bed:
    return Bed(testbed.guest, testbed.target, testbed.config, HISTOGRAMS)


@pytest.mark.slow
@only_histograms
def test_histograms_and_hooks_see_the_same_packets(testbed: Bed) -> None:
    hooked = Bed(testbed.guest, testbed.target, testbed.config, HOOKS)
    with (
        targets.stamps_for(testbed.target, HISTOGRAMS),
        hooked.probing() as end_hooks,
        testbed.probing() as end_histograms,
    ):
        testbed.send(1009)
        time.sleep(0.5)
        histograms = end_histograms()
        hooks = end_hooks()
    _exact(histograms, 1009)
    _exact(hooks, 1009)
    # The lowest and the highest bucket bound all times, and hooks' own work is in both.
    assert histograms.in_ is not None
    assert histograms.in_.seen["stack"] >= 1009
    names: tuple[PathName, ...] = ("receive", "send")
    for name in names:
        ours, theirs = histograms.path(name), hooks.path(name)
        assert ours.path_time.count == theirs.path_time.count
        assert 0.5 < ours.path_time.sum / theirs.path_time.sum < 2
    assert [(times.name, times.context, times.work) for times in histograms.napi] == [
        *(("delay", "all", None), ("time", "all", None)),
    ]
    polls = sum(times.count for times in hooks.napi if times.name == "time")
    # The one goes on while the other's last document is written.
    assert polls > 0
    assert all(0 < times.count <= polls + 50 for times in histograms.napi)


@pytest.mark.slow
def test_no_histograms(testbed: Bed) -> None:
    kernels = _histograms(testbed)
    hide = 'mount -t tmpfs none /sys/kernel/debug; exec "$@"'
    said = _refused(kernels, before=("unshare", "--mount", "sh", "-c", hide, "sh"))
    if testbed.source == HOOKS:
        assert "boot a kernel with the skblab patches" in said
        return
    assert "mount debugfs there: mount -t debugfs none /sys/kernel/debug" in said
    assert "no permission to read" in _refused(kernels, before=NOBODY)
    # What the other sources need is not needed.
    bare = 'mount -t tmpfs none /sys/kernel/btf; exec "$@"'
    call = ["unshare", "--mount", "sh", "-c", bare, "sh", *NO_CAPABILITY]
    call += [PATHLAT, "--source", HISTOGRAMS, "--check"]
    done = testbed.target.transport.run(call)
    assert (done.status, done.stdout) == (0, "histograms\n"), done.stderr


@pytest.mark.slow
@only_histograms
def test_histograms_of_one_namespace_are_not_taken_for_all(testbed: Bed) -> None:
    with targets.stamps_for(testbed.target, HISTOGRAMS):
        testbed.sh(f"echo 1 >{NET_PATH}/netns")
        try:
            said = _refused(testbed)
        finally:
            testbed.sh(f"echo 0 >{NET_PATH}/netns")
    assert f"{NET_PATH}/netns is 1: the kernel counts packets of one namespace alone" in said
    assert "write 0 to it, or use --source hooks --netns" in said


@pytest.mark.slow
@only_histograms
@pytest.mark.parametrize("reset", ["reset", "path_trace"])
def test_histograms_set_to_zero_meanwhile(testbed: Bed, reset: str) -> None:
    kernels = _histograms(testbed)
    with targets.stamps_for(testbed.target, HISTOGRAMS):
        testbed.send(103)
        running = testbed.target.transport.start([PATHLAT, "--source", HISTOGRAMS])
        running.wait_for("ready", SECONDS)
        if reset == "reset":
            testbed.send(503)
            testbed.sh(f"echo 1 >{NET_PATH}/reset")
        else:
            testbed.sh(f"echo 0 >{STAMPS}; echo 1 >{STAMPS}")
        running.interrupt()
        done = running.wait(SECONDS)
        assert (done.status, done.stdout) == (2, "")
        assert "were set to zero meanwhile" in done.stderr.splitlines()[-1]
        with kernels.probing() as end:
            testbed.send(103)
            _exact(end(), 103)


def _steps(testbed: Bed, scripts: list[str]) -> Callable[[], None]:
    """Return what runs one script after the other, each time it is called."""
    left = list(scripts)

    def step() -> None:
        if left:
            testbed.sh(left.pop(0))

    return step


@pytest.mark.slow
def test_a_clock_that_steps(testbed: Bed) -> None:
    dates = [f"date -s {day}" for day in ("2001-01-01", "2037-12-12", "1999-01-01")]
    with targets.stamps_for(testbed.target, testbed.source), testbed.probing() as end:
        testbed.send(10_007, _steps(testbed, dates))
        document = end()
    testbed.sh(f"date -s @{time.time():.0f}")
    _exact(document, 10_007)


@pytest.mark.slow
def test_a_cpu_that_comes_and_goes(testbed: Bed) -> None:
    online = "/sys/devices/system/cpu/cpu1/online"
    switches = [f"echo {state} >{online}" for state in (0, 1, 0, 1)]
    with targets.stamps_for(testbed.target, testbed.source), testbed.probing() as end:
        testbed.send(20_011, _steps(testbed, switches))
        document = end()
    _exact(document, 20_011)


@pytest.mark.slow
def test_segments_out_of_order_have_every_point(testbed: Bed) -> None:
    counter = "ip netns exec router nstat -asz TcpExtTCPOFOQueue | awk '/OFO/ { print $2 }'"
    testbed.sh("ip netns exec source tc qdisc add dev s0 root netem delay 2ms reorder 30%")
    try:
        before = int(testbed.sh(counter))
        with targets.stamps_for(testbed.target, testbed.source), testbed.probing() as end:
            sent = loads.run(testbed.target.transport, Load("tcp"), 2003, 2000)
            document = end()
        queued = int(testbed.sh(counter)) - before
    finally:
        testbed.sh("ip netns exec source tc qdisc del dev s0 root")
    assert (sent.sent, sent.received) == (2003, 2003)
    assert queued > 100
    # A program that an interrupt finds at work misses a packet, and says so.
    missed = document.samples.missed if document.samples else 0
    assert of_probe(0, "ns", document).missing == missed <= 0.05 * sent.sent
    receive = document.path("receive")
    # Others were put into the one before, the more the longer their reader waits.
    assert receive.ended > 100
    if testbed.source == HOOKS:
        assert set(receive.seen.values()) == {receive.ended}
    else:
        # The histograms have those, too, that were put into the one before, and the FIN.
        assert receive.seen["socket"] - receive.ended - document.merged in (0, 1)
        assert receive.seen["wake"] == receive.seen["user"] == receive.ended


LOST = """
ip netns add lost
ip -n lost link set lo up
ip netns exec lost python3 -c '
import socket, sys, time
reader = socket.socket(type=socket.SOCK_DGRAM)
reader.bind(("127.0.0.1", 5001))
for _ in range(100):
    reader.sendto(bytes(64), reader.getsockname())
print("sent", flush=True)
time.sleep(60)
' >/tmp/lost &
until grep -q sent /tmp/lost; do sleep 0.05; done
ip netns del lost
kill $!
"""


@pytest.mark.slow
def test_a_namespace_deleted_with_packets_in_it(testbed: Bed) -> None:
    with targets.stamps_for(testbed.target, testbed.source), testbed.probing() as end:
        testbed.sh(LOST)
        deadline = time.monotonic() + PATIENCE
        while testbed.sh("ip netns list | grep lost || :") and time.monotonic() < deadline:
            time.sleep(0.1)
        testbed.send(503)
        document = end()
    found = of_probe(0, "ns", document)
    assert found.missing == found.in_flight == 0, found
    receive = document.path("receive")
    assert receive.ends.delivered == 503
    # Those that nobody read end with their socket, which histograms do not count.
    if testbed.source == HOOKS:
        assert receive.ends.dropped + receive.ends.consumed == 100, receive.ends
    else:
        assert receive.seen["socket"] == 603


@pytest.mark.slow
@only_hooks
def test_the_probed_namespace_deleted(testbed: Bed) -> None:
    testbed.sh("ip netns add gone")
    with testbed.probing(netns="gone") as end:
        testbed.sh("ip netns del gone")
        testbed.send(503)
        document = end()
    assert document.samples is not None and document.samples.filtered == 2 * 503
    for name in ("gone", "../../etc/passwd"):
        assert f"--netns {name}: cannot enter it" in _refused(testbed, "--netns", name)


AGAIN = """
ip netns del gone
tries=0
ip netns add anew
until [ "$(stat -c %i /run/netns/anew)" = "$0" ]; do
    tries=$((tries + 1)); [ $tries -lt 100 ] || exit 9
    ip netns del anew
    sleep 0.1
    ip netns add anew
done
ip -n anew link set lo up
ip netns exec anew python3 -c '
import socket
reader = socket.socket(type=socket.SOCK_DGRAM)
reader.bind(("127.0.0.1", 5001))
for _ in range(100):
    reader.sendto(bytes(64), reader.getsockname())
    reader.recv(64)
'
ip netns del anew
"""


@pytest.mark.slow
@only_hooks
def test_another_namespace_with_the_inode_of_the_probed(testbed: Bed) -> None:
    probed = testbed.sh("ip netns add gone; stat -c %i /run/netns/gone").strip()
    with testbed.probing(netns="gone") as end:
        testbed.target.transport.run(["sh", "-euc", AGAIN, probed]).check("a namespace anew")
        document = end()
    assert document.samples is not None
    assert document.samples.filtered >= 2 * 100
    assert not any(sum(path.ends.model_dump().values()) for path in document.paths)


# From here on `skblab` itself, over SSH.


@dataclass
class Command:
    """`skblab probe layers` on the testbed, which waits for packets."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def said(self) -> str:
        return (self.folder / "err").read_text()

    def run(self) -> Run:
        (path,) = self.folder.glob("layers-*")
        return load(path)

    def wait(self) -> int:
        return self.process.wait(SECONDS)


@pytest.fixture
def command(testbed: Bed, tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*options: str) -> Command:
        words = ["probe", "layers", "--on", "testbed", "--ssh-config", str(testbed.config)]
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            process = subprocess.Popen(
                [str(TREE / "skblab"), *words, *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "SKBLAB_RESULTS": str(tmp_path)},
            )
        one = Command(process, tmp_path)
        started.append(one)
        deadline = time.monotonic() + SECONDS
        while "timing packets" not in one.said:
            assert process.poll() is None, one.said
            assert time.monotonic() < deadline, one.said
            time.sleep(0.05)
        return one

    yield start
    for probe in started:
        probe.process.kill()
        probe.process.wait()


def test_another_machine_over_ssh_until_ctrl_c(
    testbed: Bed, command: Callable[..., Command]
) -> None:
    one = command(*(("--protocol", "udp") if testbed.source == HOOKS else ()))
    assert "/tmp/skblab." in testbed.state()
    testbed.send(2003)
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 0, one.said
    assert "socket→wake" in (one.folder / "out").read_text()
    found = one.run().document
    assert found.state == "finished"
    # Hooks were asked for these alone; histograms have neighbours' packets, too.
    ended, missing = found.ledgers[0].ended, found.ledgers[0].missing
    assert missing == 0
    assert ended == 2 * 2003 if testbed.source == HOOKS else ended >= 2 * 2003


@pytest.mark.slow
@only_histograms
def test_a_second_ctrl_c_stops_everything(testbed: Bed, command: Callable[..., Command]) -> None:
    one = command()
    one.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + SECONDS
    while one.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
        one.process.send_signal(signal.SIGINT)
    assert one.process.returncode == 130, one.said
    assert one.said.splitlines()[-1] == "skblab: stopped; what was finished is kept"
    assert one.run().document.state == "failed"


def test_kill_9_leaves_nothing(testbed: Bed, command: Callable[..., Command]) -> None:
    one = command()
    # What the fixture waits to see no more.
    for left in ("/tmp/skblab.", "1\n1\n" if testbed.source == HISTOGRAMS else "netif_rx_entry"):
        assert left in testbed.state()
    one.process.kill()
    one.wait()
    # The fixture waits until nothing is left, here or there.


@pytest.mark.slow
@only_histograms
def test_histograms_switched_off_meanwhile(testbed: Bed, command: Callable[..., Command]) -> None:
    one = command("--source", HISTOGRAMS)
    assert testbed.sh(f"cat {STAMPS} {NET_PATH}/napi") == "1\n1\n"
    testbed.sh(f"echo 0 >{STAMPS}")
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 1
    assert "net.core.path_trace was off" in one.said.splitlines()[-1]


@pytest.mark.slow
@only_histograms
def test_a_connection_that_breaks(testbed: Bed, command: Callable[..., Command]) -> None:
    one = command()
    children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text()
    calls = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children.split()}
    (master,) = [pid for pid, call in calls.items() if b"\0-M\0-N\0" in call]
    os.kill(master, signal.SIGKILL)
    assert one.wait() == 1
    assert one.said.splitlines()[-1] == "skblab: the connection to testbed broke"
    found = one.run().document
    assert (found.state, found.reason) == ("failed", "the connection to testbed broke")


@pytest.mark.slow
@only_hooks
def test_a_probe_that_is_killed(testbed: Bed, command: Callable[..., Command]) -> None:
    one = command()
    testbed.sh("kill -9 $(pgrep -f '^/tmp/skblab.*/lib/pathlat')")
    assert one.wait() == 1
    assert "the probe ended without a document" in one.said.splitlines()[-1]
    assert "it was killed" in one.said


@pytest.mark.slow
@only_hooks
def test_a_full_map_is_refused_with_its_count(
    testbed: Bed, command: Callable[..., Command]
) -> None:
    one = command("--room", "1")
    testbed.send(5003)
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 1
    said = one.said.splitlines()[-1]
    assert "refused), more than 0.1 % of the" in said
    assert "--room gives hooks more room" in said
    run = one.run()
    assert [row.state for row in run.trials] == ["invalid"]
    document = json.loads((run.folder / "logs" / "pathlat-0.json").read_text())
    assert document["hooks"]["refused"] > 0


@pytest.mark.slow
@only_histograms
def test_a_live_table_while_packets_come(testbed: Bed, tmp_path: Path) -> None:
    words = ["probe", "layers", "--on", "testbed", "--ssh-config", str(testbed.config)]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(TREE / "skblab"), *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "SKBLAB_RESULTS": str(tmp_path), "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        shown = bytearray()
        with contextlib.suppress(OSError):
            while b"timing packets" not in shown:
                shown += os.read(ours, 65536)
        os.set_blocking(ours, False)

        def look() -> None:
            with contextlib.suppress(BlockingIOError):
                shown.extend(os.read(ours, 65536))

        testbed.send(20_011, look)
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                look()
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            look()
    os.close(ours)
    text = shown.decode(errors="replace")
    assert process.returncode == 0, text[-2000:]
    # Several while it went on, and the last.
    assert text.count("socket→wake") >= 3
    assert text.count("Results: ") == 1


@pytest.mark.slow
def test_a_million_packets_of_a_thousand_flows_in_a_minute(testbed: Bed) -> None:
    kib: list[int] = []
    looked = time.monotonic()

    def look() -> None:
        nonlocal looked
        if time.monotonic() - looked > 5:
            looked = time.monotonic()
            kib.append(int(testbed.sh("ps -o rss= -C pathlat").strip()))

    stamps = targets.stamps_for(testbed.target, testbed.source)
    with stamps, testbed.probing() as document:
        traffic = Traffic(Load(), 1_000_000, 16_667, 1000)
        sent = traffic.run(testbed.target.transport, look)
        found = document()
    assert (sent.sent, sent.received) == (1_000_000, 1_000_000)
    known = of_probe(0, "ns", found)
    assert (known.missing, found.path("receive").ends.delivered) == (0, 1_000_000), known
    assert len(kib) > 5
    # What it reads at its end it has room for from the start.
    assert max(kib) - kib[0] < 1024, kib


@pytest.mark.slow
@only_hooks
def test_scripts_of_bpftrace_on_a_host(testbed: Bed, run_skblab: Skblab, tmp_path: Path) -> None:
    done = run_skblab(
        *("probe", "layers", "--on", "testbed", "--ssh-config", str(testbed.config)),
        *("--backend", "bpftrace", "--source", testbed.source, "--seconds", "1", "--no-cost"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "unaccounted for" in done.stdout
    (folder,) = tmp_path.iterdir()
    assert load(folder).trials[0].state == "good"
    assert "scripts" in schema_checks.folder_fits(folder)


@pytest.mark.slow
@only_hooks
def test_a_host_without_what_a_module_is_built_of(testbed: Bed, run_skblab: Skblab) -> None:
    done = run_skblab(
        *("probe", "layers", "--on", "testbed", "--ssh-config", str(testbed.config)),
        *("--backend", "stap", "--source", testbed.source, "--seconds", "1", "--no-cost"),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("skblab: stap could not attach receive on testbed, kernel ")
    assert "/build/.config" in done.stderr
    assert len(done.stderr.splitlines()) == 1


SMALL_DISK = """
mount -t tmpfs -o size=$0 none "$SKBLAB_RESULTS"
status=0
"$@" || status=$?
cat "$SKBLAB_RESULTS"/*/run.json
exit $status
"""


@pytest.mark.slow
@only_histograms
@pytest.mark.parametrize(("size", "readable"), [("12k", False), ("40k", True)])
def test_a_full_disk(
    testbed: Bed, run_skblab: Skblab, tmp_path: Path, size: str, readable: bool
) -> None:
    done = run_skblab(
        *("probe", "layers", "--on", "testbed", "--ssh-config", str(testbed.config)),
        *("--seconds", "0.2", "--json"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        prefix=("unshare", "--mount", "sh", "-ec", SMALL_DISK, size),
    )
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("skblab: ")]
    assert len(said) == 1
    assert "the disk is full" in said[0]
    assert "Traceback" not in done.stderr
    if readable:
        assert json.loads(done.stdout)["trials"] == 0


@pytest.mark.slow
@only_histograms
def test_an_unknown_device_is_no_run(testbed: Bed, run_skblab: Skblab, tmp_path: Path) -> None:
    done = run_skblab(
        *("probe", "layers", "--on", "testbed", "--ssh-config", str(testbed.config)),
        *("--device", "nosuch0", "--seconds", "1"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("skblab: --device nosuch0: no such device")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


# And without a testbed.


@pytest.mark.slow
def test_no_permission_here(lab: LabRoot, run_skblab: Skblab, tmp_path: Path) -> None:
    portable.ensure(lab, tools.ensure_probe(lab, Reporter()) / "pathlat", Reporter())
    done = run_skblab(
        *("probe", "layers", "--on", "here", "--seconds", "1"),
        env={"SKBLAB_RESULTS": str(tmp_path)},
        prefix=("setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all"),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("skblab: no permission to load BPF programs, though root")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_guest_killed_while_probed(unpatched: Kernel, programs: Path, tmp_path: Path) -> None:
    words = ("--on", "guest", "--kernel", "6.12", "--packets", "1000000", "--rate", "2000")
    with subprocess.Popen(
        [str(TREE / "skblab"), "probe", "layers", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SKBLAB_RESULTS": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        while "timing packets" not in (line := process.stderr.readline()):
            assert line, "it ended before it began"
        [found] = emulators(process.pid)
        os.kill(found, signal.SIGKILL)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 125
    assert "the guest was killed" in err.splitlines()[-1]
    (path,) = tmp_path.glob("layers-*")
    run = load(path)
    assert run.document.state == "failed"
    assert "the guest was killed" in run.document.reason
