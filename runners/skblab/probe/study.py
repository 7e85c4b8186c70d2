# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe study`: the experiments of a published study, run again as a file says.

Each experiment is one interval (a script of probes/systemtap/study/) with one protocol: the script
is loaded, known packets are sent, and every packet's time is read and kept.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from skblab.lab import kernel, paths
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import Flavour
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.machine.recording import begins, recording, watched
from skblab.machine.transport.host import temporary
from skblab.machine.watch import Watch
from skblab.probe import environment, loads
from skblab.probe.guests import guest_of_ours
from skblab.probe.loads import Load
from skblab.probe.scripts import session, systemtap
from skblab.probe.targets import Target
from skblab_analysis.base import disk, tomlfile
from skblab_analysis.base.checked import Closed, RefusedError
from skblab_analysis.base.errors import SkblabError
from skblab_analysis.formats import study
from skblab_analysis.formats.run import Plan, RunName
from skblab_analysis.formats.study import Figures, Printed
from skblab_analysis.runfolder import RunFolder

# Of output: many times what is printed between two looks of its reader.
BUFFER_MIB = 16
# Longer than a delayed acknowledgement: what a connection has to say after its last message.
QUIET_SECONDS = 0.5

Protocol = Literal["udp", "tcp"]
Interval = Literal["end_to_end", "network_layer", "transport_layer"]


class Experiment(Closed):
    """An experiment file."""

    name: RunName
    question: Annotated[str, Field(min_length=1)]
    packets: Annotated[int, Field(ge=2, le=1_000_000)]
    bytes: Annotated[int, Field(ge=64, le=1400, description="payload of a packet or message")]
    rate: Annotated[int, Field(ge=1, le=1_000_000, description="packets a second")]
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1)]
    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]
    flavour: Flavour
    patches: bool
    published: Annotated[str, Field(description="the study's figures, from this file's folder")]
    differs: Annotated[str, Field(description="what is not as in the study")]

    def trials(self) -> list[tuple[Protocol, Interval]]:
        """Return the protocol and the interval of each experiment, in the study's order."""
        return list(product(self.protocols, self.intervals))


def read(file: Path) -> tuple[Experiment, dict[str, Figures]]:
    """Read an experiment file and the published figures; UsageError says what is wrong where."""
    experiment = tomlfile.read(Experiment, file, "the experiment")
    return experiment, study.read_published(file.parent / experiment.published)


def plan(experiment: Experiment, file: Path) -> Plan:
    """Return what is asked for, as the run folder keeps it."""
    asked = experiment.model_dump(mode="json", exclude={"name", "question", "packets", "differs"})
    return Plan(
        experiment=experiment.name,
        question=experiment.question,
        seed=0,
        packets=experiment.packets,
        again=f"./skblab probe study {file}",
        parameters={
            name: ", ".join(value) if isinstance(value, list) else value
            for name, value in asked.items()
        },
    )


def recorded(
    experiment: Experiment, file: Path, root: LabRoot, max_unaccounted: float, reporter: Reporter
) -> tuple[RunFolder, list[Figures], str]:
    """Run a study's experiments in a guest; return their run, figures, and where they are of."""
    chosen = kernel.Request(flavour=experiment.flavour, patches=experiment.patches)
    with guest_of_ours(
        chosen, root, reporter, lambda guest: loads.prepare(guest.transport)
    ) as target:
        known = environment.describe(target)
        folder = RunFolder.create(paths.results(), "study", plan(experiment, file))
        with recording(folder, lambda: known, reporter):
            found = run(experiment, target, root, folder, max_unaccounted, reporter)
        folder.finish(known, reporter.timings, gaps=[experiment.differs])
        return folder, found, f"kernel {target.release}, {make_spec().accel}"


def run(
    experiment: Experiment,
    target: Target,
    labroot: LabRoot,
    folder: RunFolder,
    max_unaccounted: float,
    reporter: Reporter,
) -> list[Figures]:
    """Run every experiment; RefusedError if one does not account for its packets."""
    found: list[Figures] = []
    trials = experiment.trials()
    watch = Watch()
    begins(folder, watch, **{target.name: target.kernel_log(reporter)})
    with reporter.bar("experiments", len(trials)) as done:
        for trial, (protocol, interval) in enumerate(trials):
            name = f"{protocol}_{interval}"
            with reporter.step(name), watched(folder, watch, "wall", name):
                printed = _printed(experiment, target, labroot, protocol, interval, reporter)
            disk.write(folder.logs / f"{name}.txt", _text(printed))
            disk.write(folder.logs / f"{name}-said.txt", printed.said)
            ledger = study.ledger(
                trial,
                printed,
                protocol,
                experiment.packets,
                experiment.bytes,
                # What comes twice passes the network layer twice, and is read once.
                resent=interval == "network_layer",
            )
            folder.record_ledger(name, ledger, max_unaccounted)
            if protocol == "udp" and ledger.unaccounted["uncounted"]:
                raise RefusedError(
                    f"{name}: {len(printed.packets)} times of {experiment.packets} datagrams"
                )
            found.append(study.figures(name, [packet.ns for packet in printed.packets]))
            done(trial + 1)
    text = "".join(figures.model_dump_json() + "\n" for figures in found)
    disk.write(folder.path / "figures.jsonl", text)
    return found


def _text(printed: Printed) -> str:
    """Return a line for each packet, tab delimited: nanoseconds and bytes."""
    return "".join(f"{packet.ns}\t{packet.bytes}\n" for packet in printed.packets)


def _printed(
    experiment: Experiment,
    target: Target,
    labroot: LabRoot,
    protocol: Protocol,
    interval: Interval,
    reporter: Reporter,
) -> Printed:
    """Send the packets of one experiment while its script looks on; return what that printed."""
    transport = target.transport
    assert target.built is not None, "experiments run in a guest of ours"
    script = f"study/{interval.replace('_', '-')}"
    module = systemtap.ensure(labroot, target.built, script, reporter)
    with temporary(transport) as where:
        transport.put(module, f"{where}/{module.name}")
        command = ["staprun", "-b", str(BUFFER_MIB), f"{where}/{module.name}", f"port={loads.PORT}"]
        with session.running(session.BACKENDS[systemtap.NAME], target, script, command) as running:
            sent = loads.run(
                transport,
                Load(protocol),
                experiment.packets,
                experiment.rate,
                running.goes_on,
                size=experiment.bytes,
            )
            if not sent.sent == sent.received == experiment.packets:
                raise SkblabError(
                    f"{protocol}: sent {sent.sent} and received {sent.received} of "
                    f"{experiment.packets} packets"
                )
            time.sleep(QUIET_SECONDS)
            stderr = running.end()
    return study.read_printed(running.lines, stderr)
