# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of kernel functions: the document, the table, the report, and what is said beside them."""

from __future__ import annotations

import json
from pathlib import Path

import page_checks
import pytest
import synthetic_run
from hypothesis import given
from rich.console import Console

import made_up_functimes
from made_up_functimes import Json, function
from mutated import examples, json_texts, value_or_line
from skblab_analysis.base.checked import RecordError, parse
from skblab_analysis.formats.functimes import FILE, FunctimesDocument
from skblab_analysis.formats.pathlat import COUNTING
from skblab_analysis.functimes.view import VIEW, notes, of_functions
from skblab_analysis.load import load
from skblab_analysis.report.page import build_report


def read(document: Json) -> FunctimesDocument:
    return parse(FunctimesDocument, json.dumps(document), "the document")


def plain(text: str) -> str:
    """Return a text with usual spaces alone."""
    return text.replace("\u202f", " ").replace("\xa0", " ")


def shown(document: FunctimesDocument) -> list[str]:
    console = Console(width=100, record=True, quiet=False)
    with console.capture() as captured:
        console.print(of_functions(document))
    return plain(captured.get()).splitlines()


def test_what_takes_most_by_itself_is_first() -> None:
    lines = shown(read(made_up_functimes.document()))
    names = [line.split()[0] for line in lines[3:] if line.strip()]
    assert names == ["__udp_enqueue_schedule_skb", "udp_rcv", "ip6_input"]
    assert "66.7 %" in lines[3] and "33.3 %" in lines[4]
    assert lines[5].split()[1:] == ["0", "–", "–", "–", "–", "–", "–"]


def test_what_the_probe_takes_stands_beside() -> None:
    said = plain(" ".join(notes(read(made_up_functimes.document()))))
    assert "makes a call 250 ns longer" in said
    assert "180 ns of that are taken off" in said and "70 ns remain" in said
    assert "Not traced: ip_rcv_finish_core: this kernel has no such function." in said
    unmeasured = " ".join(notes(read(made_up_functimes.document(probe=None))))
    assert "could not be measured here" in unmeasured


def test_by_function_graph_and_why() -> None:
    probe = made_up_functimes.document()["probe"] | {"own": 0}

    def said(**more: object) -> str:
        made = made_up_functimes.document(by="function-graph", **more)
        return plain(" ".join(notes(read(made))))

    asked = said(why=None, probe=probe)
    assert "Timed by function graph, as was asked for." in asked
    assert "The tracer makes a call 250 ns longer" in asked
    assert "None of that is taken off" in asked
    instead = said(why="6.12.0 shows no types", probe=None)
    assert "Timed by function graph, not by fentry: 6.12.0 shows no types." in instead
    assert "None of it is taken off" in instead
    with pytest.raises(RecordError, match="a reason why not by fentry"):
        read(made_up_functimes.document(why="no types"))
    with pytest.raises(RecordError, match="taken off"):
        read(made_up_functimes.document(by="function-graph"))


def test_the_first_form_was_by_fentry() -> None:
    made = made_up_functimes.document(schema="skblab.functimes/1")
    del made["by"], made["why"]
    document = read(made)
    assert (document.by, document.why) == ("fentry", None)


def test_calls_without_a_time_are_told_by_cause() -> None:
    counts = {"calls": 110, "missed_entries": 1, "refused": 2, "lost": 3, "under_way": 4}
    document = read(
        made_up_functimes.document(functions=[function("kfree", [9] * 100, [9] * 100, **counts)])
    )
    [one] = document.functions
    assert (one.timed, one.untimed) == (100, 10)
    [said] = [note for note in notes(document) if note.startswith("kfree")]
    for part in ("of 110 calls", "1 were missed", "2 found no memory", "3 were not seen", "4 had"):
        assert part in said


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (function("f", [1, 2], [1]), "2 calls with, 1 without callees"),
        (function("f", [1, 2], [1, 2], calls=1), "of 1 calls 2 are timed"),
        (function("f", [1], [1], calls=9, under_way=3), "of 9 calls 1 are timed and 3 not"),
        (function("f g", [], []), "pattern"),
    ],
)
def test_calls_that_do_not_add_up_are_refused(made: Json, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        read(made_up_functimes.document(functions=[made]))


def test_what_is_written_meanwhile_need_not_add_up() -> None:
    made = function("f", [1, 2], [1], calls=1)
    document = read(made_up_functimes.document(functions=[made], final=False))
    assert document.functions[0].calls == 1


def test_a_function_given_twice_is_refused() -> None:
    made = function("f", [], [])
    with pytest.raises(RecordError, match="given twice"):
        read(made_up_functimes.document(functions=[made, made]))


@examples
@given(json_texts(made_up_functimes.document()))
def test_any_document(text: str) -> None:
    def turn() -> None:
        for context in (None, COUNTING):
            document = parse(FunctimesDocument, text, "the document", context=context)
            assert notes(document)
            assert of_functions(document).row_count == len(document.functions)

    value_or_line(turn)


def test_the_report_has_a_section(tmp_path: Path) -> None:
    folder = synthetic_run.finished_run(tmp_path, 200)
    assert not VIEW.sections(load(folder))
    (folder / FILE).write_text(json.dumps(made_up_functimes.document()))
    run = load(folder)
    assert plain(VIEW.headline(run) or "") == (
        "200 calls of 3 functions; by self time __udp_enqueue_schedule_skb() 66.7 %, "
        "udp_rcv() 33.3 % and ip6_input() 0.0 %"
    )
    page = build_report(folder, None)
    page_checks.check(page)
    assert "How long calls of kernel functions take" in page.read_text()
    [section] = VIEW.sections(run)
    [picture] = section.pictures
    # A function that was not called has no curve.
    assert picture.variables["series"] == 2
    uncalled = made_up_functimes.document(functions=[function("f", [], [])])
    (folder / FILE).write_text(json.dumps(uncalled))
    assert VIEW.sections(run)[0].pictures == ()
    assert VIEW.headline(run) == "0 calls of 1 function; by self time f() –"
    (folder / FILE).write_text("{}")
    with pytest.raises(RecordError, match=FILE):
        VIEW.tables(run)
