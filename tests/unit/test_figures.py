# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of the documents' figures: complete, where it says, and compared as it says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from skblab.figures import __main__ as program
from skblab.figures import listing, printed
from skblab.figures.comparing import compare
from skblab.figures.listing import Figure, Within
from skblab.lab import paths
from skblab_analysis.base.errors import UsageError

TABLE = """
Forwarding (exact)
row       µs     µs      more   +-
──────────────────────────────────
IPv4
plain  6 168  2 648  baseline  4.2
on     6 530  2 902      +255  9.0

IPv6
plain  6 596  3 139  baseline  8.4
on     6 953  3 385      +247   20
"""
LISTING = """
[command.short]
run = "cat {file}; echo took 12 s, 1 200 packets"
seconds = 1
date = 2026-01-01
kernel = "6.12"

[command.long]
run = "false"
seconds = 61
date = 2026-01-01
kernel = "6.12"

[command.own]
run = "false"
seconds = 1
date = 2026-01-01
kernel = "6.12"
needs = "a tree of yours"

[[figure]]
document = "page.md"
command = "short"
after = "prints"
within = {{ percent = 1 }}
columns = {{ "+-" = {{}} }}

[[figure]]
document = "page.md"
command = "short"
text = "in 12 s for 1 200 packets"
within = {{ number = 2 }}
read = "took # s, # packets"

[[figure]]
document = "page.md"
command = "long"
text = "slept 8 hours"
within = {{}}
by_hand = "a clock"

[[figure]]
document = "page.md"
command = "own"
text = "weighs 3 kB"
within = {{}}
by_hand = "scales"
"""
PAGE = """# A page

It ran in 12 s for 1 200 packets,
slept 8
hours, weighs 3 kB, and prints
{table}
That is all.
"""


@cache
def listed() -> listing.Listing:
    return listing.read()


@pytest.mark.parametrize("document", listing.documents())
def test_what_looks_like_a_measurement_is_listed(document: str) -> None:
    unlisted = list(listed().unlisted(document))
    assert unlisted == [], f"{listing.FILE} is to have each: a figure, or exempt with a reason"


def test_what_is_listed_stands_there() -> None:
    assert list(listing.read().lost()) == []


def test_each_table_is_found_in_itself() -> None:
    for figure in listing.read().figure:
        if figure.after and figure.within.compared and not figure.by_hand:
            found = list(compare(figure, figure.content))
            assert len(found) > 5, figure.after
            assert [result for result in found if not result.holds] == []


def test_each_text_has_as_many_numbers_as_are_read() -> None:
    for figure in listing.read().figure:
        if figure.read:
            assert figure.pattern.groups == len(printed.numbers(figure.text)) > 0, figure.text


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a page, its list, and a file `now` that the command prints."""
    indented = "".join(f"    {line}\n" if line else "\n" for line in TABLE.splitlines())
    (tmp_path / "page.md").write_text(PAGE.format(table=indented))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "figures.toml").write_text(LISTING.format(file=tmp_path / "now"))
    (tmp_path / "now").write_text(TABLE)
    monkeypatch.setattr(paths, "tree", lambda: tmp_path)
    return tmp_path


def test_a_page_whose_figures_hold(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([]) == 0
    out = capsys.readouterr().out
    # Two, three, two and three of the table without +-, and two of the text.
    assert "12 figures compared, 0 differ; 0 commands failed" in out
    assert "not run (61 s): false    # FIGURES=long" in out
    # Whoever asks for all has not what it needs, either.
    assert "not run (it needs a tree of yours): false\n" in out
    assert "own" not in program.chosen(listing.read(), ["all"])
    assert program.chosen(listing.read(), ["own"]) == ["own"]
    assert "a clock" not in out


@pytest.mark.parametrize(
    ("old", "new", "differing"),
    [
        ("6 953", "6 999", 0),
        ("6 953", "6\u00a0953", 0),
        ("6 953", "6\u202f953", 0),
        ("6 953", "7 030", 1),
        ("  20\n", "  99\n", 0),
        ("IPv6\nplain", "IPv6\nrenamed", 2),
        ("row       µs", "row       ns", 8),
    ],
)
def test_what_differs_is_seen(
    tree: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, differing: int
) -> None:
    assert old in TABLE
    (tree / "now").write_text(TABLE.replace(old, new))
    assert program.main([]) == (1 if differing else 0)
    assert f"12 figures compared, {differing} differ" in capsys.readouterr().out


def test_a_failing_command_is_said_and_ends_in_1(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["long"]) == 1
    captured = capsys.readouterr()
    assert "skblab: false: exit status 1: it said nothing" in captured.err
    assert "0 figures compared, 0 differ; 1 commands failed" in captured.out
    assert "to be read by hand: page.md: slept 8 hours: a clock" in captured.out


def test_a_command_that_is_none_is_bad_usage(tree: Path) -> None:
    with pytest.raises(UsageError, match=r"^FIGURES=lnog: no such command; expected all, or of: "):
        program.main(["lnog"])


def test_a_new_measurement_and_one_that_is_gone_are_seen(tree: Path) -> None:
    page = tree / "page.md"
    read = listing.read()
    assert (list(read.unlisted("page.md")), list(read.lost())) == ([], [])
    page.write_text(page.read_text().replace("A page", "A page of +17 and 3.5 ms"))
    found = listing.read().unlisted("page.md")
    assert sorted(found) == ["page.md:1: +17", "page.md:1: 3.5 ms"]
    page.write_text(
        page.read_text().replace("12 s", "13 s").replace("all.", "all:\n\n    a  1  2\n")
    )
    row = ": a 1 2"
    assert any(row_of.endswith(row) for row_of in listing.read().unlisted("page.md"))
    assert list(listing.read().lost()) == ["page.md: in 12 s for 1 200 packets"]


@pytest.mark.parametrize(
    ("within", "then", "now", "holds"),
    [
        (Within(percent=1), 1000, 1010, True),
        (Within(percent=1), 1000, 1011, False),
        (Within(percent=1, number=25), 100, 125, True),
        (Within(percent=1, number=25), 100, 126, False),
        (Within(factor=5), 10, 50, True),
        (Within(factor=5), 10, 1.9, False),
        (Within(factor=5), 10, -10, False),
        (Within(factor=5), 0, 0, True),
    ],
)
def test_what_a_figure_may_differ_by(
    within: Within, then: float, now: float, *, holds: bool
) -> None:
    assert within.holds(then, now) is holds


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2 648", [2648]),
        ("+10 046 of 1.5", [10046, 1.5]),
        ("−0.2", [-0.2]),
        ("1 280…1 343", [1280, 1343]),
        ("IPv4 6.1×", [6.1]),
        ("0.0093 %", [0.0093]),
        ("–", []),
    ],
)
def test_numbers_as_we_print_them(text: str, numbers: list[float]) -> None:
    assert printed.numbers(text) == numbers


def test_where_the_numbers_of_a_text_are_read() -> None:
    figure = Figure(
        document="page.md",
        command="short",
        text="6 168 and 3 139",
        within=Within(percent=1),
        read="IPv4 … plain # … IPv6 … plain ~ #",
    )
    assert [(change.then, change.now) for change in compare(figure, TABLE)] == [
        (6168, 6168),
        (3139, 3139),
    ]
    assert [change.now for change in compare(figure, "another text")] == [None, None]


def test_a_figure_says_how_it_is_read() -> None:
    with pytest.raises(ValueError, match="expected read, or by_hand"):
        Figure(document="README.md", command="demo", text="5 ms", within=Within())
    with pytest.raises(ValueError, match="expected either text, or after"):
        Figure(document="README.md", command="demo", within=Within())
