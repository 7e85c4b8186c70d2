# SPDX-License-Identifier: GPL-2.0-or-later
"""What the probe costs, in words, from calibrations that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from made_up_cost import AGAIN, HOOKS, KERNEL, document, exact, wall
from skblab_analysis.base.checked import RecordError
from skblab_analysis.cost import summary
from skblab_analysis.formats.cost import FILE, WITH, ExactCost, Probe


def test_instructions_are_of_the_least_trials_and_without_the_sinks_path() -> None:
    found = exact(forward=2155, receive=3554)
    assert (found.forward, found.receive) == (2155, 3554)


def test_both_figures_with_their_clocks() -> None:
    said = summary.sentence(
        document(exact=exact(2950, 5040), wall=wall(0.99, 0.88, 0.93, 0.94, 0.90))
    )
    assert said == (
        "What the probe itself costs (hooks): +2 950 instructions per forwarded packet, +5 040 per "
        "received one (exact, IPv4, on this kernel); throughput of udp with it 0.93 of without "
        "(wall, 95 % interval 0.88 to 0.98, 5 pairs, under emulation). "
        "docs/explain/probe-cost.md has the method."
    )


def test_singular() -> None:
    said = summary.sentence(document(exact=exact(1, 0.4), wall=wall(0.5, accel="kvm")))
    assert "+1 instruction per forwarded packet, 0 per received one" in said
    assert "0.50 of without (wall, 1 pair, in a guest with KVM)" in said


def test_a_ratio_is_the_geometric_mean() -> None:
    assert "with it 0.85 of" in summary.sentence(document(wall=wall(0.9, 0.8)))


def test_stamps_are_named_where_they_are_in_the_figure() -> None:
    said = summary.sentence(document(exact=exact(stamps=True)))
    assert "(exact, IPv4, on this kernel, the kernel's stamps included)" in said
    assert "wall" not in said


def test_another_kernel_is_named() -> None:
    found = document(kernel="5.15.0-1-amd64", own=False, exact=exact(), wall=wall(0.9, 0.8, 0.7))
    said = summary.sentence(found)
    assert f"on {KERNEL} in a guest)" in said
    assert f"(wall, 95 % interval 0.58 to 1.09, 3 pairs, on {KERNEL}, under emulation)" in said
    assert "this kernel" not in said


def test_nothing_known_tells_how_to_know() -> None:
    said = summary.sentence(document(kernel="5.15.0-1-amd64", own=False))
    assert "is not known" in said
    assert said.endswith(AGAIN)


def test_a_refusal_is_told_instead_of_figures() -> None:
    said = summary.sentence(document(refused="it saw 1 of 2 packets", wall=wall(0.9)))
    assert "(hooks): it saw 1 of 2 packets; throughput of udp" in said
    assert "instruction" not in said


def test_the_cost_of_something_else_is_refused() -> None:
    other = Probe(backend="bpf", source="samples")
    with pytest.raises(ValidationError, match="the cost of hooks, expected that of samples"):
        document(probe=other, exact=exact())
    with pytest.raises(ValidationError, match=r"measured on 6\.12\.0-plain, expected 6\.1\.0"):
        document(kernel="6.1.0", exact=exact())


def test_a_calibration_without_one_of_its_rows_is_refused() -> None:
    found = exact()
    trials = [trial for trial in found.bench.trials if trial.row != WITH]
    half = found.bench.model_copy(update={"trials": tuple(trials)})
    with pytest.raises(ValidationError, match="have figures, expected"):
        ExactCost(probe=HOOKS, kernel=KERNEL, stamps=False, bench=half)


@pytest.mark.parametrize("other", [{"backend": "stap"}, {"source": "samples"}])
def test_kprobes_are_for_hooks_of_bpf(other: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="kprobes are a choice for the hooks of bpf alone"):
        Probe.model_validate({"backend": "bpf", "source": "hooks", "kprobes": True, **other})


def test_polls_of_their_own_source_are_for_scripts() -> None:
    with pytest.raises(ValidationError, match="in scripts alone"):
        Probe(backend="bpf", source="hooks", polls="samples")


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (Probe(backend="bpf", source="samples"), "samples"),
        (Probe(backend="bpf", source="hooks", kprobes=True), "hooks by kprobe"),
        (Probe(backend="stap", source="hooks"), "scripts of stap on hooks"),
        (Probe(backend="stap", source="hooks", polls="hooks"), "scripts of stap on hooks"),
        (
            Probe(backend="stap", source="hooks", polls="samples"),
            "scripts of stap on hooks, NAPI polls by samples",
        ),
    ],
)
def test_probes_in_words(probe: Probe, words: str) -> None:
    assert str(probe) == words


def test_a_run_folder_keeps_it(tmp_path: Path) -> None:
    assert summary.load(tmp_path) is None
    found = document(exact=exact(), wall=wall(0.9))
    (tmp_path / FILE).write_text(found.model_dump_json(by_alias=True))
    assert summary.load(tmp_path) == found
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(RecordError, match=r"cost\.json"):
        summary.load(tmp_path)
