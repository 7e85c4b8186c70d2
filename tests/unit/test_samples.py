# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of perf in a sweep: stacks folded by awk of what perf prints, functions, tables, gaps."""

from __future__ import annotations

import io
import math
import random
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import searches
import synthetic_run
from hypothesis import given
from pydantic import ValidationError
from rich.console import Console

from mutated import examples, texts, value_or_line
from skblab.machine.collectors import Sampler, chosen, collecting
from skblab.machine.collectors.samples import FOLD
from skblab.machine.transport import LocalTransport
from skblab.sweep.measure.base import Attempt
from skblab.sweep.measure.samples import Samples, SamplesMeasure
from skblab.sweep.progress import Key
from skblab_analysis.base.certainty import AGAIN
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.load import Run, load
from skblab_analysis.report import findings
from skblab_analysis.report.page import build_report
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.samples.rows import Sampled, Stack, StackRow
from skblab_analysis.samples.summary import idle, of
from skblab_analysis.samples.view import VIEW, tables

# As perf 6.12 prints it in a guest (perf script -F cpu,period,ip,sym), and a frame of a program, a
# stack of one alone, and what is said of lost samples.
PRINTED = """\
 [000]    1003009
\tffffffff8578faff pv_native_safe_halt
\tffffffff85791659 default_idle
\tffffffff84cf679f do_idle
\tffffffff84c2f2c3 common_startup_64

 [001]    1003009
\tffffffff8579d875 ip_rcv
\tffffffff84d9efc6 __netif_receive_skb
\t    7f2a8579d875 main

 [001]    1003009
\tffffffff8579d875 ip_rcv
\tffffffff84d9efc6 __netif_receive_skb

 [001]    2000000
\t    7f2a8579d875 main

"""
# As its statistics say it (perf report --stats), where samples were lost.
LOST = "    LOST_SAMPLES events:          2  ( 0.1%)\n"
# Says what it is asked for, counts cycles unless there is no processor's counter, and has PRINTED.
PERF = r"""#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/called"
case $1 in
stat)
	[ ! -e "$here/uncounted" ] || value='<not supported>'
	printf '{"counter-value" : "%s", "unit" : "", "event" : "%s", ' "${value:-5.0}" cycles
	printf '"event-runtime" : 5, "pcnt-running" : 100.00}\n' ;;
record)
	[ ! -e "$here/broken" ] || { echo 'no permission' >&2; exit 255; }
	case $* in *'-o /dev/null'*)
		[ ! -e "$here/silent" ] || { echo 'no interrupt' >&2; exit 1; } ;;
	esac
	while [ "$1" != -- ]; do shift; done
	shift
	"$@" ;;
report) cat "$here/lost" ;;
script)
	[ ! -e "$here/unread" ] || { echo 'data is damaged' >&2; exit 255; }
	cat "$here/printed" ;;
esac
"""


def folded(printed: str) -> str:
    """Return what comes from the machine."""
    done = subprocess.run(["awk", FOLD], input=printed, capture_output=True, text=True, check=True)
    return done.stdout


SAMPLER = Sampler("cycles", 997)


def counting() -> AbstractContextManager[Any]:
    """Have this machine's perf sample."""
    return collecting(SAMPLER, LocalTransport())


IDLE = "common_startup_64;do_idle;default_idle;pv_native_safe_halt"
PATH = "__netif_receive_skb;ip_rcv"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that go before the machine's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "perf").write_text(PERF)
    (folder / "perf").chmod(0o755)
    (folder / "printed").write_text(PRINTED)
    (folder / "lost").write_text("       LOST events:          0  ( 0.0%)\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return folder


def test_stacks_are_added_up() -> None:
    assert sorted(SAMPLER.read(folded(PRINTED)), key=lambda stack: stack.stack) == [
        Stack(cpu=1, stack="[user]", samples=1, weight=2_000_000, spread=2_000_000),
        Stack(cpu=1, stack=PATH, samples=2, weight=2_006_018, spread=1_418_469),
        Stack(cpu=0, stack=IDLE, samples=1, weight=1_003_009, spread=1_003_009),
    ]


def test_lost_samples_are_no_result(there: Path) -> None:
    (there / "lost").write_text(LOST)
    with pytest.raises(SkblabError, match="perf lost samples"), counting():
        pass
    with pytest.raises(SkblabError, match="took no sample of cycles"):
        SAMPLER.read(folded(""))


def test_a_kernel_at_other_addresses_is_refused() -> None:
    with pytest.raises(SkblabError, match="saw no function of the kernel"):
        SAMPLER.read(folded(PRINTED.replace("\tffffffff", "\tc0000000")))


def test_deep_stacks_keep_what_is_innermost() -> None:
    frames = "".join(f"\tffffffff8579d875 f{number}\n" for number in range(300))
    [stack] = SAMPLER.read(folded(f" [000]    1003009\n{frames}\n"))
    assert stack.stack.split(";") == [f"f{number}" for number in reversed(range(100))]


@examples
@given(texts(f"lost\t0\n1\t{PATH}\t2\t2006018\t1418469\n0\t{IDLE}\t1\t1003009\t1003009\n"))
def test_any_output_gives_stacks_or_a_line(printed: str) -> None:
    value_or_line(lambda: SAMPLER.read(printed))


def test_perf_samples_while_something_goes_on(there: Path) -> None:
    with collecting(chosen(None, 499, LocalTransport()), LocalTransport()) as found:
        assert found.found is None
    assert {stack.stack for stack in found.result} == {PATH, IDLE, "[user]"}
    called = (there / "called").read_text()
    options = "--call-graph fp --kernel-callchains -N -e cycles -F 499 -o /dev/fd/4 -- sh"
    assert f"record -q -a {options}" in called
    # Not of a vmlinux that lies about.
    assert "--kallsyms=/proc/kallsyms" in called
    # The file of samples has no name.
    assert [path.name for path in there.parent.iterdir()] == ["bin"]


def test_the_clock_is_sampled_where_no_cycles_are_counted(there: Path) -> None:
    (there / "uncounted").touch()
    assert chosen(None, 997, LocalTransport()) == Sampler("cpu-clock", 997)
    with pytest.raises(SkblabError, match="perf cannot sample cycles here: not supported"):
        chosen("cycles", 997, LocalTransport())


def test_a_counter_without_interrupts_is_not_sampled(there: Path) -> None:
    (there / "silent").touch()
    assert chosen(None, 997, LocalTransport()) == Sampler("cpu-clock", 997)
    with pytest.raises(SkblabError, match="perf cannot sample cycles here: no interrupt"):
        chosen("cycles", 997, LocalTransport())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"event": "cycles,instructions"}, "are several; expected one"),
        ({"seconds": 600, "frequency": 1000}, "more than can be read, 250000 of each CPU"),
    ],
)
def test_a_section_that_is_none(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Samples(rates=(10,), **more)
    assert Samples(rates=(10,), event="cpu/event=0x3c,umask=0/").event


@pytest.mark.parametrize(("fault", "said"), [("broken", "no permission"), ("unread", "damaged")])
def test_perf_that_fails_is_told(there: Path, fault: str, said: str) -> None:
    (there / fault).touch()
    with pytest.raises(SkblabError, match=said), collecting(SAMPLER, LocalTransport()):
        pass


class Bed:
    """Forwards 500 of 500 packets."""

    def __init__(self, forwarded: int) -> None:
        self.transport, self.forwarded = LocalTransport(), forwarded

    def offer(self, sending: object) -> SimpleNamespace:
        return SimpleNamespace(tried=500, forwarded=self.forwarded, microseconds=1e6)


def trial(folder: RunFolder, forwarded: int = 500) -> Callable[[], None]:
    """Have a trial measured; what is returned records it."""
    attempt: Any = SimpleNamespace(
        asked={Samples: Samples(rates=(500,))},
        key=Key("baseline", 0, "IPv4", "samples", 500),
        measurement=SimpleNamespace(rate=500, stream=SimpleNamespace(), tester=False),
        testbed=Bed(forwarded),
        folder=folder,
        reporter=SimpleNamespace(say=lambda text: None),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skblab.sweep.measure.samples._sending", lambda asked, measurement: None)
        measured: Attempt = attempt
        return SamplesMeasure().measure(measured)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "samples", searches.plan(), synthetic=True)


def test_a_trial_of_samples(there: Path, folder: RunFolder) -> None:
    trial(folder)()
    run = load(folder.path)
    [row] = run.trials
    assert (row.measure, row.state, row.forwarded) == ("samples", "good", 500)
    assert {one.event for one in run.rows(StackRow)} == {"cycles"}
    [summary] = of(run)
    [sampling] = summary.settings
    # Of a packet, and of CPUs that are not idle.
    assert sampling.own == {"ip_rcv": 2_006_018 / 500, "[user]": 2_000_000 / 500}
    assert sampling.inclusive["__netif_receive_skb"] == 2_006_018 / 500
    assert sampling.idle == pytest.approx(1_003_009 / (1_003_009 + 4_006_018))


def test_a_trial_in_which_nothing_was_forwarded_is_invalid(there: Path, folder: RunFolder) -> None:
    with pytest.raises(SkblabError, match="of 500 packets none was forwarded"):
        trial(folder, forwarded=0)()
    assert [row.state for row in load(folder.path).trials] == ["invalid"]


def sampled(setting: str, block: int, event: str, **functions: int) -> Sampled:
    """Return a trial of functions that were found so often, each sample a million of the event."""
    stacks = [
        Stack(
            cpu=0,
            stack=f"do_softirq;{name}",
            samples=count,
            weight=1_000_000 * count,
            spread=round(1_000_000 * math.sqrt(count)),
        )
        for name, count in functions.items()
    ]
    stacks.append(Stack(cpu=1, stack=IDLE, samples=900, weight=900_000_000, spread=30_000_000))
    return Sampled(
        setting=setting,
        block=block,
        traffic="IPv4",
        rate=1000,
        tried=10_000,
        forwarded=10_000,
        offered_rate=1000.0,
        event=event,
        stacks=tuple(stacks),
    )


def recorded(folder: RunFolder, event: str = "cpu-clock", blocks: int = 3) -> RunFolder:
    """Record a setting in which one function takes twice as long as with the baseline."""
    for block in range(blocks):
        usual = {"ip_forward": 400 + block, "ip_rcv": 300 - block}
        folder.record(sampled("baseline", block, event, fib_validate_source=200, **usual))
        folder.record(sampled(AGAIN, block, event, fib_validate_source=201 - block, **usual))
        folder.record(sampled("strict", block, event, fib_validate_source=400, **usual))
    return folder


def shown(run: Run) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=120, color_system=None).print(
        *(table for summary in of(run) for table in tables(summary))
    )
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_functions_that_differ_are_told(folder: RunFolder) -> None:
    run = load(recorded(folder).path)
    text = shown(run)
    assert "Functions that run with baseline (ns per packet, IPv4, 1" in text
    # 401 samples in a block of 10 000 packets, each of a millisecond; ip_rcv has 299.
    assert "ip_forward 40 100 44.6 % 40 100 1 203" in text
    assert "do_softirq 0 0.0 % 90 000 0" not in text
    begins = "fib_validate_source strict 20 000 40 000 +20 000 ±"
    assert any(line.startswith(begins) for line in text)
    # What chance alone may leave is no difference.
    assert any(line.startswith(f"ip_rcv {AGAIN} 29 900 29 900 (0.0) ±") for line in text)
    told = VIEW.sentences(run)
    assert (
        "With strict instead of baseline, in ns per packet: fib_validate_source() "
        "+20\u202f000." in told
    )
    assert any("interrupts off" in sentence for sentence in findings.unseen(run))
    changes = {
        (found.part, change.setting): change.difference.significant
        for found in VIEW.compared(run)
        for change in found.changes
    }
    assert changes["fib_validate_source", "strict"] is True
    assert not changes["fib_validate_source", AGAIN]
    assert not changes["ip_rcv", "strict"]


def test_chance_alone_is_significant_as_seldom_as_promised(tmp_path: Path) -> None:
    """Those are shown that differ most, of a hundred functions that no setting changes."""
    draw = random.Random(4)
    found = 0
    for number in range(20):
        folder = RunFolder.create(
            tmp_path / str(number), "samples", searches.plan(), synthetic=True
        )
        for block in range(3):
            for setting in ("baseline", "strict"):
                counts = {f"f{name}": round(draw.gauss(100, 10)) for name in range(100)}
                folder.record(sampled(setting, block, "cycles", **counts))
        found += any(
            change.difference.significant
            for compared in VIEW.compared(load(folder.path))
            for change in compared.changes
        )
    # Each with 5 %.
    assert found <= 4


@pytest.mark.parametrize(
    ("stack", "waits"),
    [
        (IDLE, True),
        ("common_startup_64;do_idle;cpuidle_idle_call;cpuidle_enter_state;intel_idle", True),
        ("do_idle;default_idle_call;arch_cpu_idle;xen_safe_halt;xen_hypercall_sched_op", True),
        ("do_idle;cpuidle_enter;psci_cpu_suspend_enter;__arm_smccc_smc", True),
        ("pv_native_safe_halt", True),
        ("do_idle;default_idle;pv_native_safe_halt;asm_sysvec_call;handle_softirqs;ip_rcv", False),
        ("do_idle;default_idle;default_idle;asm_common_interrupt;x;idle_cpu", False),
        ("do_idle;tick_nohz_idle_stop_tick", False),
        ("do_idle;schedule_idle", False),
        ("ret_from_fork;kthread;ip_rcv", False),
    ],
)
def test_what_waits_is_no_work(stack: str, waits: bool) -> None:
    assert idle(stack) is waits


def test_dropped_packets_and_idle_time_are_told(folder: RunFolder) -> None:
    for block in range(2):
        lossy = sampled("baseline", block, "cycles", ip_rcv=100)
        folder.record(lossy.model_copy(update={"forwarded": 3000}))
    unseen = [" ".join(said.split()) for said in VIEW.unseen(load(folder.path))]
    assert any("were dropped" in said and "70.0 % with baseline" in said for said in unseen)
    assert any("90 % with baseline" in said for said in unseen)


def test_rare_events_have_digits(folder: RunFolder) -> None:
    rare = sampled("baseline", 0, "cache-misses", ip_rcv=100)
    stack = rare.stacks[0].model_copy(update={"weight": 200, "spread": 20})
    folder.record(rare.model_copy(update={"stacks": (stack,)}))
    run = load(folder.path)
    assert "ip_rcv 0.0200 100.0 % 0.0200 100" in shown(run)
    [picture] = VIEW.sections(run)[0].pictures
    assert '"0.005" 0.005' in str(picture.variables["bar_ticks"])


def test_one_block_tells_no_significance(folder: RunFolder) -> None:
    run = load(recorded(folder, blocks=1).path)
    [strict] = [line for line in shown(run) if line.startswith("fib_validate_source strict")]
    assert strict.endswith("(+20 000)")


def test_events_are_not_mixed(folder: RunFolder) -> None:
    recorded(folder)
    run = load(recorded(folder, "cycles").path)
    assert [(summary.unit, len(summary.settings)) for summary in of(run)] == [
        ("ns", 3),
        ("cycles", 3),
    ]


def test_page_and_files_of_stacks(folder: RunFolder) -> None:
    recorded(folder)
    folder.finish(synthetic_run.environment(), {"measuring": 1.0})
    page = build_report(folder.path, None).read_text()
    assert "Functions that run: IPv4, 1 000 packets/s" in page
    assert 'class="flame"' in page
    assert "with baseline a packet takes 90\u202f000 ns of CPUs that are not idle" in page
    # The setting stands below the function's name; chance has no picture.
    assert "<small>with strict</small>" in page
    report = folder.path / "report"
    # By setting, in thousandths.
    lines = (report / "samples-3.folded").read_text().splitlines()
    assert "do_softirq;fib_validate_source 40000000" in lines
    assert (report / "samples.gp").exists() and (report / "samples-differ-2.dat").exists()
    assert not (report / "samples-differ-1.dat").exists()
    assert "fib_validate_source" in (report / "samples-differ-2.dat").read_text()
