# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest whose first CPU does nothing more while it boots, in a QEMU that goes on."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Kernel
from skblab.lab.labroot import LabRoot
from skblab.machine import halted, snapshot
from skblab.machine.guest import Guest
from skblab_analysis.base.errors import SkblabWarning

pytestmark = [pytest.mark.guest, pytest.mark.slow]

# include/uapi/linux/ptrace.h
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


def _thread(guest: Guest, name: str) -> int:
    """Return the thread of that name of the guest's QEMU."""
    assert guest._process is not None
    (qemu,) = (
        process
        for process in psutil.Process(guest._process.pid).children(recursive=True)
        if process.name().startswith("qemu-system")
    )
    for thread in qemu.threads():
        if Path(f"/proc/{qemu.pid}/task/{thread.id}/comm").read_text().strip() == name:
            return int(thread.id)
    raise AssertionError(name)


def _stop_first_cpu(guest: Guest, over: threading.Event, stopped: list[int]) -> None:
    """Stop the thread of the first CPU, and nothing else of QEMU, once the second one is up."""
    console = guest.folder / "console.log"
    while "Brought up 1 node, 2 CPUs" not in console.read_text(errors="replace"):
        time.sleep(0.01)
    libc = ctypes.CDLL(None, use_errno=True)
    thread = _thread(guest, halted.FIRST)
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    stopped.append(thread)
    # It would go on if this one ended.
    over.wait(300)


def test_it_is_booted_again(lab: LabRoot, stock: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(snapshot.VARIABLE, "off")
    monkeypatch.setattr(halted, "SECONDS", 5.0)
    over, stopped = threading.Event(), list[int]()
    with Guest.boot(make_spec(cpus=2), stock, lab, wait=False) as guest:
        stopper = threading.Thread(target=_stop_first_cpu, args=(guest, over, stopped))
        stopper.start()
        try:
            with pytest.warns(SkblabWarning, match="takes no interrupt any more") as warned:
                guest.connect()
        finally:
            over.set()
            stopper.join()
        assert (len(warned), len(stopped)) == (1, 1)
        assert guest.transport.run(["nproc"]).stdout == "2\n"
        assert guest.console.warnings() == []
