# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of what versions of Linux cost: current, drawn, and made of what is stored."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from made_up_comparison import document, measured
from test_all_sides import three_sides

from skblab_analysis import versions_page
from skblab_analysis.base.checked import RecordError
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.compare import CompareDocument
from skblab_analysis.report import pictures
from skblab_analysis.versions_page import PARTS, Part

STORED = [part for part in PARTS if part.file.exists()]
MEND = "make versions-page"


def test_it_is_current() -> None:
    found = [(part, versions_page.stored(part)) for part in STORED]
    assert versions_page.PAGE.read_text() == versions_page.page(found), MEND


def test_runs_are_stored() -> None:
    assert STORED


@pytest.mark.parametrize("part", STORED, ids=[part.name for part in STORED])
def test_its_pictures_are_current(part: Part, tmp_path: Path) -> None:
    found = versions_page.stored(part)
    made = versions_page.picture_of(part, found)
    assert made is not None
    pictures.write(made, tmp_path)
    for file in tmp_path.iterdir():
        assert (versions_page.PICTURES / file.name).read_text() == file.read_text(), MEND
    assert (versions_page.PICTURES / f"{part.picture}.png").stat().st_size


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    monkeypatch.setattr(versions_page, "RUNS", tmp_path / "versions")
    return PARTS[0]


def written(tmp_path: Path, found: CompareDocument) -> Path:
    """Return the file of a comparison."""
    file = tmp_path / "compare.json"
    file.write_text(found.model_dump_json(by_alias=True))
    return file


def test_what_is_stored_is_read_again(tmp_path: Path, part: Part) -> None:
    versions_page.store(part, written(tmp_path, three_sides()))
    assert versions_page.stored(part) == three_sides()


def test_it_says_what_differs_and_which_functions_made_it(part: Part) -> None:
    options = {
        "1": ("EXT4: n -> y", "PREEMPT: n -> y"),
        "2": ("PREEMPT: n -> y",),
    }
    found = three_sides().model_copy(update={"configurations": options})
    said = versions_page.page([(part, found)]).replace("\xa0", " ")
    assert "| forward4 | packet | 1 001.0 | 1 200.0 | 1 201.0 | +19.98 % | 3.0 |" in said
    assert "| forward4-vlan | packet | 800.0 | – | 808.0 | +1.00 % |" in said
    # The largest steps, the largest first, and none that two boots may differ by.
    steps = [line for line in said.splitlines() if line.startswith("| ") and "`ip_rcv`" in line]
    assert steps[0] == (
        "| udp-receive4 | 6.12 | 7.3 | +100 | +20.0 % | `ip_rcv` +150, `others` −50 |"
    )
    assert "| forward4 | 7.3 | debian:6.1 |" not in said
    assert "| `ip_rcv` | 2 | +150 | +170 | +189 |" in said
    # Of options those that differ from the kernel before, not from the first.
    assert "| 7.3 | 7.3-plain, 6.12.1 | gcc 14 | 2 | `PREEMPT` n → y |" in said
    assert "| debian:6.1 | debian:6.1-plain, 6.12.1 | gcc 14 | 1 |  |" in said
    assert (
        f"![Change relative to 6.12, in per cent, by workload](../pictures/{part.picture}" in said
    )
    assert "    ./skblab compare 6.12 7.3\n" in said
    assert "These changed" not in said
    assert "of unknown" not in said and "PREEMPT` none" not in said


def test_string_instructions_that_move_less_are_told(part: Part) -> None:
    """A figure has each once: what they move may be more time than all that differs."""
    measured = tuple(
        one.model_copy(update={"figure": one.figure.model_copy(update={"iterations": 1465.0})})
        if one.figure is not None and one.side == 0 and one.workload == "forward4"
        else one
        for one in three_sides().measured
    )
    found = three_sides().model_copy(update={"measured": measured})
    said = " ".join(versions_page.page([(part, found)]).split())
    assert "These changed by more than 1 % of the cost: forward4 1 465 to 0 (7.3)." in said


def test_a_run_that_was_stopped_is_refused(tmp_path: Path, part: Part) -> None:
    whole = three_sides()
    done = tuple(one for one in whole.verdicts if one.workload == "forward4")
    file = written(tmp_path, whole.model_copy(update={"verdicts": done}))
    with pytest.raises(UsageError, match="it was stopped before forward4-vlan, udp-receive4"):
        versions_page.store(part, file)


def test_one_version_alone_is_no_step(tmp_path: Path, part: Part) -> None:
    first, _, again = measured(1000.0, 0.0, 1001.5)
    with pytest.raises(UsageError, match="one side alone; expected versions"):
        versions_page.store(part, written(tmp_path, document(first, again, sides=1)))
    assert not part.file.exists()


def test_a_file_that_is_no_run_is_told(part: Part) -> None:
    part.file.parent.mkdir()
    part.file.write_bytes(b"nothing")
    with pytest.raises(RecordError, match="no document of a comparison, compressed"):
        versions_page.stored(part)
    part.file.write_bytes(lzma.compress(b"{}"))
    with pytest.raises(RecordError, match=part.file.name):
        versions_page.stored(part)


def test_what_is_stored_has_a_name() -> None:
    with pytest.raises(
        UsageError, match=r"^other=x: expected NAME=FILE, NAME one of packets, sockets"
    ):
        versions_page.make(["other=x"], lambda arguments, folder: None)
