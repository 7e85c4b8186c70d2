# SPDX-License-Identifier: GPL-2.0-or-later
"""What a soak runs in its guest: loads, stirring by a plan, faults, and the reckoning at the end.

usage: python3 -m skblab.soak.guest.soak PLAN KERNEL-TREE, where PLAN is the JSON of
`skblab.soak.plan`. Progress goes to standard error, one line a phase; the result is JSON on
standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

from skblab.soak.guest import topology
from skblab.soak.guest.loads import Load, all_loads, stop
from skblab.soak.guest.stir import HISTOGRAMS, PATH_TRACE, Stirrer

DEBUG = Path("/sys/kernel/debug")
KMEMLEAK = DEBUG / "kmemleak"
KCSAN = DEBUG / "kcsan"
# Of 100 allocations how many fail while faults are injected.
PROBABILITY = 5
# Objects younger than this are never reported by kmemleak (it says 5 s).
LEAK_AGE = 6
CALM_PACKETS = 500
# A device whose references are not given back is reported by the kernel after ten seconds.
UNREGISTER_SECONDS = 12
SKB_CACHES = ("skbuff_head_cache", "skbuff_fclone_cache", "skbuff_small_head", "skbuff_ext_cache")


def say(text: str) -> None:
    """Tell the one who waits."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def links() -> list[str]:
    """Return the devices of the first namespace."""
    return sorted(entry.name for entry in Path("/sys/class/net").iterdir())


def faults(phase: str) -> str:
    """Set what fails in a phase; return what was set, in words."""
    slab, page = DEBUG / "failslab", DEBUG / "fail_page_alloc"
    for folder in (slab, page):
        if folder.exists():
            _set(folder, {"probability": "0"})
    if phase == "fail slab" and slab.exists():
        # Only packets' own caches, in every context: the softirq is where they are needed most.
        for name in SKB_CACHES:
            with contextlib.suppress(OSError):
                Path(f"/sys/kernel/slab/{name}/failslab").write_text("1")
        common = {"cache-filter": "Y", "task-filter": "N", "interval": "1", "verbose": "0"}
        # Allocations that may sleep, too: sendmsg() then says so, and the loads count it.
        common["ignore-gfp-wait"] = "N"
        _set(slab, {**common, "times": "-1", "probability": str(PROBABILITY)})
        return f"{PROBABILITY} % of the packets' slab objects"
    if phase == "fail pages" and page.exists():
        common = {"task-filter": "Y", "min-order": "0", "interval": "1", "verbose": "0"}
        _set(page, {**common, "times": "-1", "probability": str(PROBABILITY)})
        return f"{PROBABILITY} % of the pages that the loads ask for"
    return "" if not phase.startswith("fail") else "nothing: this kernel injects no faults"


def _set(folder: Path, values: dict[str, str]) -> None:
    for name, value in values.items():
        with contextlib.suppress(FileNotFoundError):
            (folder / name).write_text(value)


def counts(loads: list[Load]) -> dict[str, dict[str, int]]:
    """Return the counters of all loads."""
    names = ("sent", "received", "errors")
    return {load.name: dict(zip(names, load.counts(), strict=True)) for load in loads}


def since(now: dict[str, dict[str, int]], then: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return what was counted between two moments."""
    return {
        name: {key: value - then[name][key] for key, value in values.items()}
        for name, values in now.items()
    }


def stir(plan: dict[str, Any], loads: list[Load], stirrer: Stirrer) -> list[dict[str, Any]]:
    """Do the plan; return each phase with its counts."""
    phases: list[dict[str, Any]] = []
    for phase in plan["phases"]:
        steps = [step for step in plan["steps"] if phase["begin"] <= step["at"] < phase["end"]]
        injected = faults(phase["name"])
        before, done = counts(loads), 0
        for load in loads:
            if not load.alive():
                load.start()
        # Each phase has its whole length, however late the one before it ended.
        start = time.monotonic() - phase["begin"]
        # The plan begins with each action once: that much is done however slow the machine.
        while (now := time.monotonic() - start) < phase["end"] or (
            steps and not stirrer.tried(steps[0]["action"])
        ):
            if steps and steps[0]["at"] <= now:
                step = steps.pop(0)
                stirrer.step(step["action"], tuple(step["words"]))
                done += 1
            else:
                time.sleep(0.01)
        # Before a word is said, which may be one of the allocations that fail.
        faults("none")
        phases.append(
            {
                "name": phase["name"],
                "seconds": round(now - phase["begin"], 1),
                "faults": injected,
                "steps": done,
                # What had no time is left out, so that the next phase keeps its own.
                "left_out": len(steps),
                "loads": since(counts(loads), before),
            }
        )
        received = sum(values["received"] for values in phases[-1]["loads"].values())
        say(f"{phase['name']}: {done} steps, {received} received")
    return phases


def passed(text: str) -> dict[str, int]:
    """Return packets by path and point, from the kernel's histograms."""
    sums = re.findall(r"^sum (\w+) (\w+) (\d+) ", text, re.M)
    return {f"{path} {point}": int(packets) for path, point, packets in sums}


def calm() -> dict[str, Any]:
    """Count once more in peace: packets, and those that the kernel saw at each point."""
    topology.make()
    have = PATH_TRACE.exists()
    if have:
        # From zero: the stirrer has left it off.
        PATH_TRACE.write_text("1")
    with topology.Inside("sb"):
        reader = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with topology.Inside("sa"):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    received = 0
    with reader, sender:
        reader.bind(("", 5001))
        reader.settimeout(5)
        for _ in range(CALM_PACKETS):
            sender.sendto(b"calm", ("10.0.3.2", 5001))
            with contextlib.suppress(TimeoutError):
                received += len(reader.recv(100)) == 4
    found: dict[str, Any] = {"sent": CALM_PACKETS, "received": received, "passed": None}
    if have:
        found["passed"] = passed(HISTOGRAMS.read_text())
        PATH_TRACE.write_text("0")
    topology.remove()
    return found


def leaks() -> str | None:
    """Return what kmemleak reports; None where the kernel has none."""
    if not KMEMLEAK.exists():
        return None
    for _ in range(2):
        time.sleep(LEAK_AGE)
        KMEMLEAK.write_text("scan")
    return KMEMLEAK.read_text()


def watched() -> int | None:
    """Return for how many accesses KCSAN has looked out for another; None where there is none."""
    if not KCSAN.exists():
        return None
    found = re.search(r"^setup_watchpoints:\s*(\d+)$", KCSAN.read_text(), re.M)
    return int(found[1]) if found else 0


def main() -> None:
    """Do it all and print the result."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    # The stirring comes before the loads, on which it has to act.
    os.nice(-15)
    if KMEMLEAK.exists():
        KMEMLEAK.write_text("scan=off")
        KMEMLEAK.write_text("scan")
        KMEMLEAK.write_text("clear")
    if KCSAN.exists():
        KCSAN.write_text("on")
    taint, before = Path("/proc/sys/kernel/tainted").read_text().strip(), links()
    topology.make()
    stirrer = Stirrer(Path(sys.argv[2]))
    loads = all_loads(plan["longest_rest"])
    stuck: list[str] = []
    try:
        phases = stir(plan, loads, stirrer)
    finally:
        faults("none")
        stuck = stop(loads)
        topology.remove()
        stirrer.restore()
    say("counting in peace")
    quiet = calm()
    say("looking for leaks")
    time.sleep(UNREGISTER_SECONDS)
    result = {
        "phases": phases,
        "done": stirrer.done,
        "refused": stirrer.refused,
        "absent": stirrer.absent,
        "examples": stirrer.examples,
        "stuck": stuck,
        "calm": quiet,
        "left_devices": [name for name in links() if name not in before],
        "leaks": leaks(),
        "watched": watched(),
        "taint": [taint, Path("/proc/sys/kernel/tainted").read_text().strip()],
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
