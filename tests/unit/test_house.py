# SPDX-License-Identifier: GPL-2.0-or-later
"""The house: which package may import which, read from the sources."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
RUNNER = TREE / "runners" / "skblab"
ANALYSIS = TREE / "analysis" / "skblab_analysis"

# From the top: a package imports itself and those of lower floors, never one of its own floor.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__main__", "pages"),
    ("manual",),
    ("cli",),
    ("commands",),
    (
        *("analyze", "bundle", "calibrate", "compare", "demo", "doctor", "figures"),
        *("selftests", "soak", "tune"),
    ),
    ("sweep", "traffic"),
    ("probe",),
    ("bench",),
    ("testbeds",),
    ("knobs",),
    ("machine",),
    ("jobs",),
    ("lab",),
)
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
# What any floor may use of the analysis, beside each measure's `rows`; what shows is for commands.
FOR_ALL = frozenset(("base", "formats", "load", "runfolder"))
FOR_COMMANDS = FOR_ALL | {"report", "warehouse"}
FOR_PAGES = FOR_ALL | {"versions_page"}
OF_A_MEASURE = frozenset(("rows",))
SHOWS = OF_A_MEASURE | {"late", "series", "summary", "tables", "trial_view", "view"}
MAY_USE = {
    "commands": (FOR_COMMANDS, SHOWS),
    "pages": (FOR_PAGES, OF_A_MEASURE),
    # It goes on with what a report advises.
    "tune": (FOR_COMMANDS, OF_A_MEASURE),
}


def imported(file: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield line and dotted name of whatever a file imports, also inside of functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, tuple(name.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: an import by dots"
            for name in node.names:
                yield node.lineno, (*(node.module or "").split("."), name.name)


def package(file: Path) -> str:
    """Return the name of the runner's package, or module, that a file is of."""
    return file.relative_to(RUNNER).parts[0].removesuffix(".py")


def runner_faults(file: Path) -> Iterator[str]:
    """Yield what a file of the runner imports and may not."""
    own = package(file)
    where = file.relative_to(TREE)
    for line, name in imported(file):
        if name[0] == "skblab" and name[1] in FLOOR and name[1] != own:
            if FLOOR[name[1]] <= FLOOR[own]:
                yield f"{where}:{line}: {own} imports {'.'.join(name)}, which is no lower floor"
        elif name[0] == "skblab_analysis":
            whole, parts = MAY_USE.get(own, (FOR_ALL, OF_A_MEASURE))
            if name[1] not in whole and parts.isdisjoint(name[2:3]):
                yield f"{where}:{line}: {own} imports {'.'.join(name)} of the analysis"


def sources(folder: Path) -> list[Path]:
    """Return the Python files of a folder, which is not empty."""
    found = sorted(folder.rglob("*.py"))
    assert found
    return found


def test_every_package_has_its_floor() -> None:
    there = {package(file) for file in sources(RUNNER)} - {"__init__"}
    assert there == set(FLOOR)


def test_runners_import_lower_floors_only() -> None:
    assert [fault for file in sources(RUNNER) for fault in runner_faults(file)] == []


def test_the_analysis_imports_nothing_of_the_runner() -> None:
    faults = [
        f"{file.relative_to(TREE)}:{line}"
        for file in sources(ANALYSIS)
        for line, name in imported(file)
        if name[0] == "skblab"
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        ("lab/new.py", "from skblab.machine import device", "no lower floor"),
        ("lab/new.py", "def late():\n    import skblab.sweep.plan", "no lower floor"),
        ("doctor/new.py", "from skblab.soak import plan", "no lower floor"),
        ("sweep/new.py", "from skblab_analysis.exact.summary import summarise", "of the analysis"),
        ("sweep/new.py", "from skblab_analysis import report", "of the analysis"),
        ("commands/new.py", "from skblab_analysis.rfc2544 import picture", "of the analysis"),
    ],
)
def test_a_wrong_import_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str, said: str
) -> None:
    monkeypatch.setitem(globals(), "TREE", tmp_path)
    monkeypatch.setitem(globals(), "RUNNER", tmp_path)
    file = tmp_path / place
    file.parent.mkdir()
    file.write_text(text)
    [fault] = runner_faults(file)
    assert said in fault


def test_what_make_runs_of_the_tests_has_the_tools_of_development() -> None:
    """On a fresh clone, too, where nobody has installed them yet."""
    own: dict[str, str] = {}
    target = ""
    for line in (TREE / "Makefile").read_text().splitlines():
        if rule := re.match(r"([a-z-]+):(?!=) *([a-z -]*)", line):
            target = rule[1]
            own[target] = rule[2]
        elif re.search(r"PYTHONPATH=\S*\btests\b", line):
            assert "dev" in own[target].split(), target
    assert "bench-report" in own
