# SPDX-License-Identifier: GPL-2.0-or-later
"""Calibrations in the store: one for each kernel, probe and way of measuring."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from skblab.lab import kernel, paths, store, tools
from skblab.lab.guest.chosen import make_spec
from skblab.lab.kernel import lines, names
from skblab.lab.kernel.names import Name
from skblab.lab.kernel.source import TARBALL_END
from skblab.lab.labroot import LabRoot
from skblab.lab.reporter import Reporter
from skblab.probe.cost import exact, wall
from skblab.probe.loads import Family, Load, Protocol
from skblab.probe.scripts import BACKENDS
from skblab.probe.targets import Target
from skblab_analysis.base import disk
from skblab_analysis.base.checked import RefusedError, read
from skblab_analysis.formats.cost import FILE, CostDocument, ExactCost, Probe, WallCost
from skblab_analysis.formats.pathlat import PathlatDocument
from skblab_analysis.formats.scripts import ScriptsDocument

KIND = "cost"
PROTOCOLS: tuple[Protocol, ...] = ("udp", "tcp", "sctp")
FAMILIES: tuple[Family, ...] = (4, 6)


def probe_of(document: PathlatDocument | ScriptsDocument, kprobes: bool) -> Probe:
    """Return which probe made a document; `kprobes` is what was asked for."""
    if isinstance(document, ScriptsDocument):
        by_name = {one.script: one for one in document.scripts}
        polls = by_name.pop("napi")
        (source,) = {one.source for one in by_name.values()}
        return Probe(backend=polls.backend, source=source, polls=polls.source)
    hooks = document.source == "hooks"
    return Probe(backend="bpf", source=document.source, kprobes=kprobes and hooks)


def of_run(
    folder: Path, probe: Probe, target: Target, load: Load, labroot: LabRoot, reporter: Reporter
) -> CostDocument:
    """Return what the probe of a run costs, and leave it in the run's folder.

    Nothing is measured on a machine whose kernel is not ours.
    """
    if target.built is None:
        found = known(target.release, probe, labroot, reporter)
    else:
        found = calibrated(target.built, probe, load, labroot, reporter)
    _write(folder, found)
    return found


def calibrated(
    built: kernel.Kernel, probe: Probe, load: Load, labroot: LabRoot, reporter: Reporter
) -> CostDocument:
    """Return what the probe costs on that kernel, measured when it has not been."""
    content = _content(probe, labroot, reporter)
    command = _again(probe, load, built)

    def run_pairs(folder: Path) -> None:
        reporter.say(f"{load} with and without the probe, {wall.PAIRS} pairs, this once")
        with reporter.step("cost: wall"):
            found = wall.measure(built, probe, load, labroot)
        _write(folder, found)

    counted: ExactCost | None = None
    refused = ""
    try:
        counted = count(built, probe, labroot, reporter)
    except RefusedError as refusal:
        # The run is none the worse for it, and its reader is told.
        refused = str(refusal)
    ran = store.ensure(KIND, _wall_key(built, content, load), reporter, run_pairs)
    return CostDocument(
        probe=probe,
        kernel=built.release,
        own=True,
        again=command,
        exact=counted,
        refused=refused,
        wall=read(WallCost, ran / FILE, "a calibration,"),
    )


def count(built: kernel.Kernel, probe: Probe, labroot: LabRoot, reporter: Reporter) -> ExactCost:
    """Return the instructions that the probe adds on that kernel, counted when they have not been.

    RefusedError if they cannot be told.
    """
    key = _exact_key(built, probe, _content(probe, labroot, reporter))
    command = _again(probe, Load(), built)

    def count_them(folder: Path) -> None:
        reporter.say(
            f"counting what the probe ({probe}) costs on {built.release}: some minutes, this once"
        )
        with reporter.step("cost: exact"):
            (folder / "logs").mkdir()
            found = exact.count(built, probe, labroot, folder / "logs", command)
        _write(folder, found)

    return read(ExactCost, store.ensure(KIND, key, reporter, count_them) / FILE, "a calibration,")


def known(release: str, probe: Probe, labroot: LabRoot, reporter: Reporter) -> CostDocument:
    """Return what is known of the probe's cost for a kernel that is not ours; measure nothing.

    What was counted on a kernel of its line goes before that of another line.
    """
    content = _content(probe, labroot, reporter)
    patched = probe.source != "hooks" or probe.polls == "samples"
    command = again(probe, Load(), Name(patches=patched))
    empty = CostDocument(probe=probe, kernel=release, own=False, again=command)
    line = lines.of_version(release)
    for built in sorted(kernel.readable(), key=lambda one: lines.of_version(one.release) != line):
        counted = store.entry(KIND, _exact_key(built, probe, content))
        like_it = built.record.flavour == "stock" and built.record.patched == patched
        # A tree of the user's own may be anything, and so may a kernel with options of theirs.
        like_it = like_it and _folder(built) is None and built.own is None
        if not (like_it and counted.is_dir()):
            continue
        ran = [store.entry(KIND, _wall_key(built, content, load)) for load in _loads()]
        pairs = [
            read(WallCost, folder / FILE, "a calibration,") for folder in ran if folder.is_dir()
        ][:1]
        found = read(ExactCost, counted / FILE, "a calibration,")
        return empty.model_copy(update={"exact": found, "wall": pairs[0] if pairs else None})
    return empty


def _again(probe: Probe, load: Load, built: kernel.Kernel) -> str:
    record = built.record
    if record.packages:
        return again(probe, load, names.of_packaged(record.source))
    line = lines.fitting(lines.of_version(built.release))
    name = Name(line, _folder(built), record.revision, patches=record.patched, own=built.own)
    return again(probe, load, name, flavour=record.flavour)


def _folder(built: kernel.Kernel) -> Path | None:
    """Return the folder that a kernel was built from; None where the source is Debian's."""
    source = built.record.source
    debian = source.endswith(TARBALL_END) or source.startswith(names.DEBIAN)
    return None if debian else Path(source.removeprefix(names.DEB))


def again(probe: Probe, load: Load, name: Name, *, flavour: str = "stock") -> str:
    """Return the command that measures it on such a kernel."""
    words = ["./skblab probe layers --on guest"]
    words += [f"--flavour {flavour}"] if flavour != "stock" else []
    words += name.words
    # The patched kernel's histograms are what it would be otherwise, with scripts its NAPI samples.
    words += ["--source hooks"] if name.patches and (probe.polls or probe.source) == "hooks" else []
    words += [f"--backend {probe.backend}"] if probe.backend != "bpf" else []
    words += ["--kprobes"] if probe.kprobes else []
    return " ".join([*words, f"--load {load}"])


def _loads() -> Iterator[Load]:
    for protocol, family, forward in product(PROTOCOLS, FAMILIES, (False, True)):
        yield Load(protocol, family, forward)


def _content(probe: Probe, labroot: LabRoot, reporter: Reporter) -> str:
    """Return a key over the probe itself: its program, or its scripts and their tool."""
    if probe.backend == "bpf":
        parts = [(tools.ensure_probe(labroot, reporter) / "pathlat").read_bytes()]
    else:
        tool = BACKENDS[probe.backend]
        folder = paths.tree() / tool.FOLDER
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        parts = [labroot.key.encode(), *(file.read_bytes() for file in files)]
    return store.digest([probe.model_dump_json(), *parts])


def _exact_key(built: kernel.Kernel, probe: Probe, content: str) -> str:
    return store.digest(["exact", built.key, content, exact.script(exact.rows(built, probe))])


def _wall_key(built: kernel.Kernel, content: str, load: Load) -> str:
    method = (make_spec().accel, str(wall.PACKETS), str(wall.PAIRS))
    return store.digest(["wall", built.key, content, str(load), *method])


def _write(folder: Path, found: CostDocument | ExactCost | WallCost) -> None:
    disk.write_whole(folder / FILE, found.model_dump_json(by_alias=True, indent=1) + "\n")
