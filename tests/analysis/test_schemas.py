# SPDX-License-Identifier: GPL-2.0-or-later
"""results-schema/ is current, and what the package writes and ships validates against it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import synthetic_run

from skblab_analysis import schemas
from skblab_analysis.columns import TABLES
from skblab_analysis.records import load

FOLDER = Path(__file__).parents[2] / "results-schema"
EXAMPLE = FOLDER / "example"


def schema(name: str) -> jsonschema.Draft202012Validator:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(
        document, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def test_schemas_are_current() -> None:
    for name, text in schemas.documents().items():
        assert (FOLDER / name).read_text() == text, (
            f"{name}: write it anew by skblab_analysis.schemas"
        )


def test_command_names_what_is_not_current(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "skblab_analysis.schemas", str(tmp_path)]
    subprocess.run(command, check=True)
    subprocess.run([*command, "--check"], check=True)
    (tmp_path / "run.schema.json").write_text("{}\n")
    result = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "run.schema.json" in result.stderr
    assert "columns" not in result.stderr


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("pathlat", synthetic_run.pathlat(200)),
        ("traffic-sender", synthetic_run.sender()),
        ("traffic-receiver", synthetic_run.receiver()),
    ],
)
def test_schema_takes_what_the_tools_print_and_no_less(name: str, document: dict[str, Any]) -> None:
    validator = schema(name)
    validator.validate(document)
    for field in ("sent", "received", "paths"):
        if field in document:
            missing = {key: value for key, value in document.items() if key != field}
            assert not validator.is_valid(missing)


def validate_folder(path: Path) -> None:
    schema("run").validate(json.loads((path / "run.json").read_text()))
    for line in (path / "journal.jsonl").read_text().splitlines():
        schema("journal-event").validate(json.loads(line))
    for kind in ("pathlat", "traffic-sender", "traffic-receiver"):
        stem = kind.removeprefix("traffic-")
        for document in (path / "logs").glob(f"{stem}-*.json"):
            schema(kind).validate(json.loads(document.read_text()))
    load(path)


def test_what_is_written_validates(tmp_path: Path) -> None:
    validate_folder(synthetic_run.finished_run(tmp_path, 2_000))


def test_shipped_example_validates_and_is_real() -> None:
    validate_folder(EXAMPLE)
    run = load(EXAMPLE)
    assert not run.document.synthetic
    ledger = run.ledger("wall")
    assert ledger is not None
    assert ledger.sent == run.document.plan.packets
    [exact] = run.exact()
    assert all(cost.repeats for cost in exact.costs)


def test_shipped_example_has_the_columns_of_now() -> None:
    for table in TABLES:
        found = pq.read_schema(EXAMPLE / f"{table.file}.parquet")
        assert found.equals(table.schema(), check_metadata=True), f"make {table.file} anew"
