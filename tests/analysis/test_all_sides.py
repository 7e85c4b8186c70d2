# SPDX-License-Identifier: GPL-2.0-or-later
"""All sides of a comparison beside each other: what each costs, and what each step adds."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic_run
from made_up_comparison import document, figure, without
from rich.console import Console
from test_labels import boxes, overlapping

from skblab.lab.drawing import gnuplot
from skblab.lab.labroot import LabRoot
from skblab_analysis.formats.compare import CompareDocument, Figure, Measured
from skblab_analysis.load import load
from skblab_analysis.report import pictures
from skblab_analysis.runfolder import RunFolder
from skblab_analysis.verdicts import all_sides, beside, view


def boots(*figures: Figure | None, workload: str) -> list[Measured]:
    """Return what was measured of three sides: A, B, C, and A again."""
    lacks = without(0, 0, "lacking", "it has no VLANs")
    return [
        Measured(workload=workload, side=side, boot=boot, figure=of)
        if of is not None
        else lacks.model_copy(update={"workload": workload, "side": side, "boot": boot})
        for boot, (side, of) in enumerate(zip((0, 1, 2, 0), figures, strict=True))
    ]


def three_sides() -> CompareDocument:
    """Return 6.12, 7.3 and debian:6.1 on three workloads, of which 7.3 cannot do one."""
    return document(
        *boots(
            figure(1000.0, ip_rcv=100.0),
            figure(1200.0, ip_rcv=290.0),
            figure(1201.0, ip_rcv=290.0),
            figure(1002.0, ip_rcv=102.0),
            workload="forward4",
        ),
        *boots(
            figure(500.0, ip_rcv=100.0, udp_rcv=40.0),
            figure(600.0, ip_rcv=250.0, udp_rcv=40.0),
            figure(550.0, ip_rcv=250.0, udp_rcv=5.0),
            figure(500.0, ip_rcv=100.0, udp_rcv=40.0),
            workload="udp-receive4",
        ),
        *boots(figure(800.0), None, figure(808.0), figure(800.0), workload="forward4-vlan"),
        sides=3,
    )


def test_each_side_has_its_cost_and_a_the_mean_of_its_boots() -> None:
    found = {one.workload.name: one.values for one in all_sides.costs(three_sides())}
    assert found == {
        "forward4": (1001.0, 1200.0, 1201.0),
        "udp-receive4": (500.0, 600.0, 550.0),
        "forward4-vlan": (800.0, None, 808.0),
    }


def test_a_step_is_what_a_side_adds_to_the_one_before_it() -> None:
    first, second = (all_sides.steps(three_sides(), side) for side in (1, 2))
    assert [(one.workload, one.difference, one.judged) for one in first] == [
        ("forward4", 199.0, "more"),
        ("udp-receive4", 100.0, "more"),
        ("forward4-vlan", 0.0, "lacking"),
    ]
    assert [(one.workload, one.difference, one.judged) for one in second[:2]] == [
        ("forward4", 1.0, "same"),
        ("udp-receive4", -50.0, "less"),
    ]
    assert second[1].share == pytest.approx(-1 / 12)
    assert dict(second[1].functions)["udp_rcv"] == -35.0
    assert all_sides.differing(second) == [second[1]]


def test_no_step_is_told_of_what_does_not_repeat() -> None:
    """Where A's two boots are as far apart as the sides, nothing came with a version."""
    found = document(
        *boots(
            figure(1000.0, ip_rcv=100.0),
            figure(1000.0, ip_rcv=100.0),
            figure(1030.0, ip_rcv=130.0),
            figure(1030.0, ip_rcv=130.0),
            workload="bridge",
        ),
        sides=3,
    )
    for side in (1, 2):
        [step] = all_sides.steps(found, side)
        assert step.judged == "unstable" and all_sides.changed([step]) == []
        assert beside.sentences("A", "B", "C", [step]) == (
            "No verdict, since two boots of A differ by more than the threshold: bridge."
        )


def test_a_comparison_that_was_stopped_shows_what_it_is_done_with() -> None:
    whole = three_sides()
    done = tuple(one for one in whole.verdicts if one.workload == "forward4")
    stopped = whole.model_copy(update={"verdicts": done})
    assert [one.workload.name for one in all_sides.costs(stopped)] == ["forward4"]
    assert [len(all_sides.steps(stopped, side)) for side in (1, 2)] == [1, 1]
    none = whole.model_copy(update={"verdicts": ()})
    assert beside.section(none).pictures == () and len(beside.tables(none)) == 1


def test_functions_that_changed_most_come_first() -> None:
    [first, second] = all_sides.changed(all_sides.steps(three_sides(), 1))
    assert (first.name, first.differences) == ("ip_rcv", (150.0, 189.0))
    assert first.middle == 169.5
    # All that has no name: forward4's other functions cost 10 more, udp-receive4's 50 less.
    assert (second.name, second.differences) == ("others", (-50.0, 10.0))
    # In what differs by less than two boots may, nothing has changed.
    assert "others" not in {
        one.name for one in all_sides.changed(all_sides.steps(three_sides(), 2)[:1])
    }


def told(before: str, after: str, side: int) -> str:
    """Return what is said of a step, with plain spaces."""
    said = beside.sentences("6.12", before, after, all_sides.steps(three_sides(), side))
    return said.replace("\xa0", " ")


def test_a_step_is_told_in_sentences() -> None:
    assert told("6.12", "7.3", 1) == (
        "7.3 needs more instructions than 6.12 on 2 of 3 workloads: 19.9 % (forward4) to 20.0 % "
        "(udp-receive4). Not supported by both 6.12 and 7.3: forward4-vlan."
    )
    assert told("7.3", "debian:6.1", 2) == (
        "debian:6.1 needs fewer instructions than 7.3 on 1 of 3 workloads: 8.3 % (udp-receive4). "
        "No difference is above the threshold on forward4. Not supported by both 7.3 and "
        "debian:6.1: forward4-vlan."
    )
    assert beside.sentences("a", "a", "b", []) == "Nothing is known of b."
    both = [all_sides.Step("veth", "more", 10.0, 1.0), all_sides.Step("xdp", "less", 10.0, -2.0)]
    assert beside.sentences("a", "a", "b", both).replace("\xa0", " ") == (
        "b needs more instructions than a on 1 of 2 workloads: 10.0 % (veth). It needs fewer on 1 "
        "of 2 workloads: 20.0 % (xdp)."
    )
    lost = all_sides.Step("udp-stream4", "failed", why="whole: 64 of 1000 arrived")
    assert beside.sentences("a", "a", "b", [lost]) == (
        "No figure of both a and b: udp-stream4 (whole: 64 of 1000 arrived)."
    )
    same = [all_sides.Step("veth", "same", 10.0, 0.0)]
    assert beside.sentences("a", "a", "b", same) == (
        "No difference between a and b is above the threshold on veth."
    )


def test_a_change_is_weighed_by_what_its_workload_costs() -> None:
    """A call that copies 14 480 bytes costs ten times a packet."""
    found = [
        all_sides.Step("tcp-stream4", "more", 45_000.0, 300.0, functions=(("memset_orig", 300.0),)),
        all_sides.Step(
            "forward4", "more", 4_000.0, 100.0, functions=(("fib_table_lookup", 100.0),)
        ),
    ]
    assert [one.name for one in all_sides.changed(found)] == ["fib_table_lookup", "memset_orig"]
    nothing = all_sides.Step("veth", "more", 0.0, 5.0, functions=(("f", 5.0),))
    assert all_sides.changed([*found, nothing])[0].name == "f"


def printed(found: CompareDocument, width: int = 80) -> str:
    """Return what a terminal shows of all sides, with plain spaces."""
    console = Console(width=width, record=True, highlight=False)
    for table in beside.tables(found):
        console.print(table)
    return console.export_text().replace("\xa0", " ")


def test_a_table_of_all_sides_is_behind_those_of_pairs() -> None:
    said = printed(three_sides())
    assert "All sides (instructions per packet or unit)" in said
    assert [line.split() for line in said.splitlines() if line.startswith("forward4-vlan")] == [
        ["forward4-vlan", "800.0", "–", "808.0", "+1.00", "%"]
    ]
    assert len(view.tables(three_sides())) == 3
    assert len(view.tables(document(*three_sides().measured[:2]))) == 1


def test_no_figure_is_folded_on_a_terminal_of_80_columns() -> None:
    whole = three_sides()
    names = [f"git:/home/max/net-next@v7.{number}-rc1" for number in range(10)]
    many = whole.model_copy(
        update={
            "sides": tuple(whole.sides[0].model_copy(update={"name": name}) for name in names),
            "measured": tuple(
                Measured(
                    workload="forward4", side=side % 10, boot=side, figure=figure(44302.1 + side)
                )
                for side in range(11)
            ),
        }
    )
    said = printed(many)
    for side in range(1, 10):
        assert f"44 {302.1 + side:.1f}" in said
    assert max(map(len, said.splitlines())) <= 80
    assert "Sides 9 to 10" in said


def with_settings(found: CompareDocument) -> CompareDocument:
    """Return the same of settings of one kernel."""
    sides = (
        one.model_copy(update={"settings": {knob: "1"}})
        for one, knob in zip(found.sides, ("rp_filter", "netdev_budget", "gro"), strict=True)
    )
    return found.model_copy(update={"sides": tuple(sides)})


def test_settings_are_no_steps_on_one_another() -> None:
    assert all_sides.has_steps(three_sides())
    assert not all_sides.has_steps(with_settings(three_sides()))


def test_the_headline_is_of_the_last_kernel_or_of_the_first_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder.create(tmp_path, "compare", synthetic_run.plan(1000), synthetic=True)
    whole = load(run.path)
    for found, begin in (
        (three_sides(), "debian:6.1 costs"),
        (with_settings(three_sides()), "7.3"),
    ):
        monkeypatch.setattr(view, "load", lambda _, found=found: found)
        told = view.VIEW.headline(whole)
        assert told is not None and told.startswith(begin)


def test_the_picture_has_a_row_for_each_workload_that_two_sides_can_do() -> None:
    section = beside.section(three_sides())
    [picture] = section.pictures
    assert picture.data.splitlines()[1:] == [
        '"forward4" 19.880 19.980',
        '"udp-receive4" 20.000 10.000',
        '"forward4-vlan" ? 1.000',
    ]
    assert picture.variables["titles"] == ["7.3", "debian:6.1"]
    assert "forward4-vlan: 7.3 –, debian:6.1 +1.0" in picture.description
    alone = document(*boots(figure(1.0), None, None, figure(1.0), workload="vlan"), sides=3)
    assert beside.section(alone).pictures == ()


def test_what_two_boots_differ_by_does_not_fill_the_picture() -> None:
    same = document(
        *boots(*map(figure, (1000.0, 1000.1, 999.9, 1000.0)), workload="forward4"), sides=3
    )
    [picture] = beside.section(same).pictures
    low, high = (picture.variables[name] for name in ("low", "high"))
    assert isinstance(low, float) and isinstance(high, float)
    assert low <= -0.5 and high >= 0.5


@pytest.mark.labroot
def test_gnuplot_draws_what_there_is_and_no_more(lab: LabRoot, tmp_path: Path) -> None:
    """A point for each figure, and a line to the last side where there is one."""
    whole = three_sides()
    # The last side cannot do the second workload.
    lacks = [
        one.model_copy(update={"figure": None, "why": "no", "cause": "lacking"})
        if (one.workload, one.side) == ("udp-receive4", 2)
        else one
        for one in whole.measured
    ]
    names = ("git:/home/max/work/kernel/net-next@v7.3-rc4-00123-gabcdef012345\n`", "a", "b" * 90)
    sides = [
        one.model_copy(update={"name": name}) for one, name in zip(whole.sides, names, strict=True)
    ]
    update = {"measured": tuple(lacks), "sides": tuple(sides)}
    [picture] = beside.section(whole.model_copy(update=update)).pictures
    pictures.draw(picture, tmp_path, gnuplot(lab))
    for suffix in ("", "-narrow"):
        texts = list(boxes(tmp_path / f"{picture.name}{suffix}.svg"))
        assert len(texts) >= 8 and list(overlapping(texts)) == []
    drawn = (tmp_path / f"{picture.name}.svg").read_text()
    # Five figures beside the first side's, and each kind of point once more in the legend.
    assert drawn.count("#gpPt6") == 4 + 2
