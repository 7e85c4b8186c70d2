# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab probe study`: experiment files, and what is refused about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import TREE, Skblab
from skblab.probe import study
from skblab_analysis.base.errors import EXIT_USAGE, UsageError

FOLDER = TREE / "runners" / "studies"
FILE = FOLDER / "murshed-2016.toml"


def test_every_study_file_is_good() -> None:
    # Those of traffic are read by test_traffic_run.py, and those of sweeps by test_sweep_plan.py.
    others = ("[[flow]]", "[study]")
    files = [
        file
        for file in FOLDER.glob("*.toml")
        if not any(word in file.read_text() for word in others)
    ]
    assert FILE in files
    for file in files:
        experiment, published = study.read(file)
        assert experiment.name == file.stem
        names = {f"{protocol}_{interval}" for protocol, interval in experiment.trials()}
        assert published and set(published) <= names


def test_the_study_is_run_whole() -> None:
    experiment, published = study.read(FILE)
    assert experiment.packets == 10_000 == published["udp_end_to_end"].samples
    assert len(experiment.trials()) == 6
    plan = study.plan(experiment, Path("some.toml"))
    assert plan.again == "./skblab probe study some.toml"
    assert plan.parameters["protocols"] == "udp, tcp"
    assert plan.parameters["rate"] == experiment.rate


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("packets = 10_000", "packets = 1", "packets: Input should be greater than or equal to 2"),
        ("packets = 10_000", 'packets = "many"', "packets: Input should be a valid integer"),
        (
            "packets = 10_000",
            "packet = 10_000",
            ":1: packets: is missing: write it; line 9: packet: there is no such key",
        ),
        ("bytes = 100", "bytes = 9000", "bytes: Input should be less than or equal to 1400"),
        ('"udp", "tcp"', '"udp", "sctp"', "protocols.1: Input should be 'udp' or 'tcp'"),
        ('"end_to_end", ', '"whole", ', "intervals.0: Input should be 'end_to_end', 'network"),
        ('"stock"', '"vanilla"', "flavour: Input should be 'stock'"),
        ("murshed-2016.csv", "absent.csv", "cannot read the published figures .*absent.csv"),
        ("packets = 10_000", "packets 10_000", "is no TOML: .*line"),
    ],
)
def test_a_file_with_a_fault_is_refused(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    (tmp_path / "published").symlink_to(FOLDER / "published")
    text = FILE.read_text()
    assert before in text
    file = tmp_path / "faulty.toml"
    file.write_text(text.replace(before, after))
    with pytest.raises(UsageError, match=complaint) as caught:
        study.read(file)
    assert str(tmp_path) in str(caught.value)


def test_no_file_is_bad_usage(skblab_here: Skblab, tmp_path: Path) -> None:
    done = skblab_here("probe", "study", str(tmp_path / "absent.toml"))
    assert done.returncode == EXIT_USAGE
    assert "cannot read the experiment" in done.stderr
