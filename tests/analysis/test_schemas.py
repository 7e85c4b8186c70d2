# SPDX-License-Identifier: GPL-2.0-or-later
"""results-schema/ is current, and what the package writes and ships validates against it."""

from __future__ import annotations

import hashlib
import json
import operator
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import golden_files
import pyarrow.parquet as pq
import pytest
import schema_checks
import synthetic_run
import test_readers
from schema_checks import FOLDER

from skblab_analysis import schemas
from skblab_analysis.exact import summary as exact_summary
from skblab_analysis.formats.catalogue import FILE as CATALOGUE
from skblab_analysis.load import load

EXAMPLE = FOLDER / "example"
# Name, version and digest of each form of now: `make golden` writes it.
FORMS = golden_files.FOLDER / "forms.txt"
OF_A_DEMO = {"run", "journal-event", "pathlat", "traffic-sender", "traffic-receiver"}


def test_schemas_are_current() -> None:
    for name, text in schemas.documents().items():
        assert (FOLDER / name).read_text() == text, (
            f"{name}: write it anew by skblab_analysis.schemas"
        )


@pytest.mark.process
def test_command_names_what_is_not_current(tmp_path: Path) -> None:
    schemas.main(tmp_path)
    schemas.main(tmp_path, check=True)
    (tmp_path / "run.schema.json").write_text("{}\n")
    command = [sys.executable, "-m", "skblab_analysis.schemas", str(tmp_path), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "run.schema.json" in result.stderr
    assert "columns" not in result.stderr


def forms() -> dict[str, str]:
    """Return the form of each document and table of now: by name and version, without sentences."""
    found = {}
    for file in sorted(FOLDER.glob("*.schema.json")):
        text = file.read_text()
        versions = ",".join(sorted(set(re.findall(r"skblab\.([a-z-]+/[0-9]+)", text))))
        found[f"{file.name} {versions}"] = _digest(_form(json.loads(text)))
    for of, where in (("columns", ""), ("store-columns", "store/")):
        for table in json.loads((FOLDER / f"{of}.json").read_text())["tables"]:
            # Where a column stands, no reader by name sees.
            columns = sorted(table["columns"], key=operator.itemgetter("name"))
            found[f"{where}{table['file']} {table['version']}"] = _digest(_form(columns))
    return found


def _form(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Return what a program sees of a schema: names, types, values and units."""
    if isinstance(value, dict):
        said = {"description", "title", "about", "$comment"}
        # In "properties" and "$defs" the keys are names, and a name may be any of these.
        return {
            key: {name: _form(one) for name, one in part.items()}
            if key in ("properties", "$defs")
            else _form(part)
            for key, part in value.items()
            if key not in said
        }
    return [_form(part) for part in value] if isinstance(value, list) else value


def _digest(form: object) -> str:
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()[:12]


def test_no_form_changes_within_a_version_golden() -> None:
    """`exact` was once named `instructions`, and the version of the document stayed."""
    now = forms()
    held = dict(line.rsplit(" ", 1) for line in FORMS.read_text().splitlines())
    changed = [name for name in now if held.get(name, now[name]) != now[name]]
    assert not changed, (
        f"{', '.join(changed)}: the form is another. Raise the version, unless readers of the old "
        f"form read the new one; then delete these lines of {FORMS}. `make golden` writes them"
    )
    golden_files.check(FORMS.name, "".join(f"{name} {form}\n" for name, form in now.items()))


def test_a_form_is_what_a_program_sees() -> None:
    schema = {"title": "A", "properties": {"title": {"description": "what", "type": "string"}}}
    assert _form(schema) == {"properties": {"title": {"type": "string"}}}


def example(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((EXAMPLE / "logs" / f"{name}-0.json").read_text())
    return document


@pytest.mark.parametrize("name", ["pathlat", "sender", "receiver"])
def test_made_up_documents_are_like_real_ones(name: str) -> None:
    """Others' tests are of made-up ones: no field of them may be one that no tool prints."""
    real = example(name)
    made: dict[str, Any] = getattr(synthetic_run, name)(200)
    assert made.keys() <= real.keys()
    assert schema_checks.said(made) == schema_checks.said(real)
    schema_checks.schema(schema_checks.said(real)).validate(made)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("pathlat", {"schema": "skblab.pathlat/1"}),
        ("pathlat", {"clock_unit": "ms"}),
        ("sender", {"sent": -1}),
        ("sender", {"role": "receive"}),
        ("receiver", {"received": 1.5}),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, fault: dict[str, object]) -> None:
    real = example(name)
    validator = schema_checks.schema(schema_checks.said(real))
    validator.validate(real)
    assert not validator.is_valid(real | fault)


@pytest.mark.parametrize(
    ("name", "needed"),
    [("pathlat", "paths"), ("sender", "sent"), ("receiver", "received")],
)
def test_what_is_needed_cannot_be_left_out(name: str, needed: str) -> None:
    real = example(name)
    validator = schema_checks.schema(schema_checks.said(real))
    assert not validator.is_valid({key: value for key, value in real.items() if key != needed})


def test_the_catalogue_fits() -> None:
    schema_checks.fits("catalogue", tomllib.loads(CATALOGUE.read_text()))


def test_what_is_written_validates(tmp_path: Path) -> None:
    path = synthetic_run.finished_run(tmp_path, 2_000)
    assert schema_checks.folder_fits(path) == OF_A_DEMO
    load(path)


def test_parts_validate(tmp_path: Path) -> None:
    parts = sorted((test_readers.unfinished_run(tmp_path) / "parts").iterdir())
    assert len(parts) > 1
    for part in parts:
        schema_checks.schema("part").validate(json.loads(part.read_text()))


def test_shipped_example_validates_and_is_real() -> None:
    assert schema_checks.folder_fits(EXAMPLE) == OF_A_DEMO
    run = load(EXAMPLE)
    assert not run.document.synthetic
    exchange = run.exchange("wall")
    assert exchange is not None
    assert exchange.sent == run.document.plan.packets
    [exact] = exact_summary.of(run)
    assert len(exact.costs) == 2
    assert all(cost.repeats for cost in exact.costs)


def test_shipped_example_has_the_columns_of_now() -> None:
    for table in schemas.ALL:
        found = pq.read_schema(EXAMPLE / f"{table.file}.parquet")
        assert found.equals(table.schema, check_metadata=True), f"make {table.file} anew"
