# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that complains while it is measured: the trial is invalid, and everybody is told so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skblab.cli import app
from skblab.lab.kernel import Kernel
from skblab.machine.counters import Values
from skblab.machine.transport import Transport
from skblab.machine.watch import HostLog
from skblab.probe import loads
from skblab.testbeds.netns import Netns
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.load import Run, load

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.console(r"by_a_test\+")]

WARNING = "WARNING: CPU: 0 PID: 1 at net/core/asked_for.c:1 by_a_test+0x1/0x2"
FILE = """
name = "complaints"
question = "Which trial is it?"
[traffic]
frame = [128]
[[setting]]
name = "strict"
knobs = { rp_filter = 1 }
[measure.throughput]
[repeats]
least = 1
most = 1
"""


def warn(transport: Transport) -> None:
    """Have the kernel print what it prints of a WARN."""
    transport.script(f"echo '<4>{WARNING}' >/dev/kmsg").check("a made-up warning")


def command(arguments: Sequence[str], results: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("SKBLAB_RESULTS", str(results))
    return CliRunner().invoke(app, list(arguments))


def shown(done: Result, results: Path) -> Run:
    """Return the run; terminal, page and the last word of the command name the warning."""
    assert done.exit_code == 1, done.output
    [folder] = results.iterdir()
    page = (folder / "report" / "index.html").read_text()
    for text in (done.stdout, page):
        assert "What kernels complained of" in text
    assert WARNING in page
    assert f"Report: {folder}/report/index.html" in done.stdout
    assert WARNING in str(done.exception)
    return load(folder)


def test_the_demo(stock: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send, heard = loads.Traffic.run, []

    def warned(
        sending: loads.Traffic, transport: Transport, meanwhile: Callable[[], object]
    ) -> loads.Sent:
        log = HostLog(transport)
        found = send(sending, transport, meanwhile)
        log.poll()
        before = list(log.findings)
        warn(transport)
        log.poll()
        heard.append((before, [finding.text for finding in log.findings]))
        return found

    monkeypatch.setattr(loads.Traffic, "run", warned)
    done = command(["demo", "--packets", "1009", "--exact-packets", "1000"], tmp_path, monkeypatch)
    run = shown(done, tmp_path)
    assert [(row.state, row.reason) for row in run.trials] == [
        ("invalid", f"kernel warning (guest): {WARNING}")
    ]
    assert run.document.state == "failed"
    assert run.ledgers() == []
    assert [complaint.trials for complaint in run.complaints()] == [(0,)]
    # The same kernel, heard as a host's is.
    assert heard == [([], [WARNING])]


def test_a_sweep(stock: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters, asked = Netns.counters, []

    def warned(testbed: Netns) -> Values:
        asked.append(testbed)
        # Before and after each trial: tester, then three settings. The second one.
        if len(asked) == 4:
            warn(testbed.transport)
        return counters(testbed)

    file = tmp_path / "complaints.toml"
    file.write_text(FILE)
    monkeypatch.setattr(Netns, "counters", warned)
    results = tmp_path / "results"
    done = command(["sweep", str(file), "--exact", "--packets", "1000"], results, monkeypatch)
    run = shown(done, results)
    assert len(asked) == 2 * 4
    assert [row.state for row in run.trials] == ["good", "invalid", "good", "good"]
    assert run.trials[1].reason == f"kernel warning (guest): {WARNING}"
    assert run.document.state == "finished"
    [complaint] = run.complaints()
    assert complaint.trials == (1,)
    assert [(line.line, line.count) for line in complaint.lines] == [(WARNING, 1)]
    [summary] = exact_summary.of(run)
    assert run.trials[1].setting not in {cost.setting for cost in summary.costs}
