# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job: the layer probe's run of known packets and an exact sweep, in one run folder."""

from __future__ import annotations

from dataclasses import dataclass

from skblab.bench import asked
from skblab.bench.asked import Asked as Profile
from skblab.bench.comparison import ONE_NAME, Comparison
from skblab.lab import kernel, paths
from skblab.lab.kernel.names import Name
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.environment import describe
from skblab.machine.recording import recording
from skblab.probe import request, targets
from skblab.probe.layers import Asked
from skblab.probe.loads import Load, Traffic
from skblab.sweep import session
from skblab.sweep.dryrun import commands
from skblab.sweep.request import Request
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RefusedError
from skblab_analysis.formats.ledger import MAX_UNACCOUNTED
from skblab_analysis.formats.run import Command, Environment, Plan
from skblab_analysis.load import load
from skblab_analysis.runfolder import RunFolder

NAME = "demo"
# Fast enough to be over soon, slow enough that an emulated receiver keeps up: the picture is of
# the path of a packet, not of a queue that grows.
RATE_PPS = 10_000
# A difference of an instruction in a function is seen in far fewer.
FUNCTION_PACKETS = 2000
GAPS = (
    "The two paths are joined by a veth pair: no hardware takes its time between them.",
    "Whether a packet waits for its reader to be woken or to get a processor is not told apart: "
    "both are in the layer socket to wake.",
    "The exact figures hold one frame size, one flow, one CPU and veth devices, no hardware.",
)


@dataclass(frozen=True)
class Demo:
    """`packets` of UDP to time at `rate` a second (0: unpaced), `exact_packets` a counted trial."""

    packets: int
    rate: int
    exact_packets: int
    chosen: Name

    @property
    def again(self) -> str:
        """The command that runs it."""
        words = [
            f"./skblab demo --packets {self.packets} --rate {self.rate}",
            f"--exact-packets {self.exact_packets}",
        ]
        words += self.chosen.words
        return " ".join(words)

    @property
    def counting(self) -> Request:
        """The sweep."""
        return Request(NAME, exact=True, packets=self.exact_packets, kernel=self.chosen)

    @property
    def timing(self) -> Asked:
        """The run of the layer probe."""
        return Asked(
            on=targets.GUEST,
            ssh_config=None,
            backend=request.BPF,
            request=request.Request(),
            sending=Traffic(Load("udp"), self.packets, self.rate),
            chosen=self.chosen.request(),
            max_unaccounted=MAX_UNACCOUNTED,
            again=self.again,
        )

    @property
    def by_function(self) -> Profile:
        """Where the instructions go, and those that rp_filter adds."""
        return asked.profile(
            *(self.chosen, None, "forward", 4, FUNCTION_PACKETS, 1), knobs={"rp_filter": 1}
        )

    def begin(self) -> RunFolder:
        """Make the run's folder."""
        sweep = self.counting.record(self.counting.plan())
        plan = Plan.model_validate(
            sweep.model_dump()
            | {
                "question": "Where does a UDP packet's time go, and what does rp_filter cost?",
                "packets": self.packets,
                "again": self.again,
                "parameters": sweep.parameters | {"rate_pps": self.rate},
            }
        )
        return RunFolder.create(paths.results(), NAME, plan)

    def run(
        self, folder: RunFolder, built: kernel.Kernel, root: LabRoot, reporter: Reporter
    ) -> None:
        """Measure, and finish the run; RefusedError if a trial is not good."""
        plan = self.counting.plan()
        sweep = session.prepared(plan, folder, root, reporter)
        known = describe(built, {})

        def learn(found: Environment | None) -> None:
            nonlocal known
            if found is not None:
                known = found.model_copy(update={"guests": known.guests | found.guests})

        def environment() -> Environment:
            learn(sweep.machines.environment())
            return known

        with recording(folder, environment, reporter):
            with reporter.step("layers: guest and packets"):
                learn(self.timing.run_in(folder, root, reporter))
            by_hand = commands(plan, self.counting.kind, self.exact_packets)
            disk.write(folder.logs / "exact.sh", "\n".join([*by_hand, ""]))
            sweep.measure()
            if void := [row for row in load(folder.path).trials if row.state == "invalid"]:
                raise RefusedError(f"{void[0].setting}: {void[0].reason}")
            Comparison(self.by_function, {}, reporter).written(folder)
        folder.finish(
            environment(),
            reporter.timings,
            versions=_versions(root),
            commands=[
                Command(where="guest, wall clock", command="sh logs/layers.sh"),
                Command(where="guests, exact", command=self.counting.record(plan).again),
                Command(where="guest, by function", command=self.by_function.again),
            ],
            gaps=(*GAPS, *sweep.gaps, ONE_NAME),
        )


def _versions(root: LabRoot) -> dict[str, str]:
    wanted = ("gcc", "bpftool", "libbpf1", "qemu-system-x86", "gnuplot-nox", "iproute2", "rustc")
    return {name: root.versions[name] for name in wanted if name in root.versions}
