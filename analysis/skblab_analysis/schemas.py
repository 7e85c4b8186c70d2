# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes results-schema/ from the models and column tables, so that they cannot drift apart.

python -m skblab_analysis.schemas FOLDER            write, and new tables to its example/
python -m skblab_analysis.schemas FOLDER --check    exit 1 and name what is not current
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from skblab_analysis.base.arrow import pq
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.rows import Stored
from skblab_analysis.comparison.rows import COMPARISON
from skblab_analysis.formats.bench import BenchDocument
from skblab_analysis.formats.bisect import BisectDocument
from skblab_analysis.formats.catalogue import Catalogue
from skblab_analysis.formats.compare import CompareDocument
from skblab_analysis.formats.cost import CostDocument
from skblab_analysis.formats.functimes import FunctimesDocument
from skblab_analysis.formats.functions import FunctionsDocument
from skblab_analysis.formats.journal import Event
from skblab_analysis.formats.pathlat import PathlatDocument, ReceiverDocument, SenderDocument
from skblab_analysis.formats.pktsink import ArrivalsDocument, CountsDocument
from skblab_analysis.formats.run import RunDocument
from skblab_analysis.formats.scripts import ScriptsDocument
from skblab_analysis.formats.sender import SenderAnswer, SenderRequest
from skblab_analysis.formats.summary import SummaryDocument
from skblab_analysis.formats.tcp import (
    TcpExchangeDocument,
    TcpServeDocument,
    TcpStreamDocument,
)
from skblab_analysis.formats.traces.document import ImportDocument
from skblab_analysis.formats.traffic import (
    ClockDocument,
    EchoDocument,
    RoundTripDocument,
    WakeupDocument,
)
from skblab_analysis.functions.rows import FUNCTIONS
from skblab_analysis.tables import TABLES, Part
from skblab_analysis.warehouse.rows import STORE
from skblab_analysis.warehouse.store import StoreDocument

LICENCE = "SPDX-License-Identifier: GPL-2.0-or-later"

DEFAULT = Path(__file__).resolve().parents[2] / "results-schema"

MODELS: dict[str, type[BaseModel]] = {
    "run": RunDocument,
    "catalogue": Catalogue,
    "bench": BenchDocument,
    "bisect": BisectDocument,
    "cost": CostDocument,
    "compare": CompareDocument,
    "functimes": FunctimesDocument,
    "functions": FunctionsDocument,
    "journal-event": Event,
    "part": Part,
    "pathlat": PathlatDocument,
    "pktsink": ArrivalsDocument,
    "pktsink-counts": CountsDocument,
    "scripts": ScriptsDocument,
    "sender-answer": SenderAnswer,
    "sender-request": SenderRequest,
    "store": StoreDocument,
    "summary": SummaryDocument,
    "traffic-echo": EchoDocument,
    "traffic-import": ImportDocument,
    "traffic-clock": ClockDocument,
    "traffic-round-trip": RoundTripDocument,
    "traffic-wakeup": WakeupDocument,
    "traffic-sender": SenderDocument,
    "traffic-receiver": ReceiverDocument,
    "traffic-tcp-exchange": TcpExchangeDocument,
    "traffic-tcp-serve": TcpServeDocument,
    "traffic-tcp-stream": TcpStreamDocument,
}


# Those that a run is recorded in, and those made of them.
ALL: tuple[Stored, ...] = (*TABLES, COMPARISON, FUNCTIONS)

COLUMNS = ("# Columns of the parquet files",)
STORE_COLUMNS = (
    "# Columns of a store of many runs",
    "",
    "`skblab runs pack` makes it: [keep many runs](../docs/howto/keep-many-runs.md). A table of",
    "figures, blocks or functions is a folder with files of one clock each, such as",
    "`figures/exact-0.parquet`. `skblab runs query` has each table as a view of that name.",
)


def documents() -> dict[str, str]:
    """Return every file of results-schema/ that is made here: name to text."""
    made = {f"{name}.schema.json": _schema(model) for name, model in MODELS.items()}
    made["columns.json"] = _json(
        {"$comment": LICENCE, "tables": [_table_json(table) for table in ALL]}
    )
    made["columns.md"] = _markdown(COLUMNS, ALL)
    made["store-columns.json"] = _json(
        {"$comment": LICENCE, "tables": [_table_json(table) for table in STORE]}
    )
    made["store-columns.md"] = _markdown(STORE_COLUMNS, STORE)
    return made


def _schema(model: type[BaseModel]) -> str:
    return _json(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$comment": LICENCE,
            **model.model_json_schema(by_alias=True),
        }
    )


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _table_json(table: Stored) -> dict[str, object]:
    return {
        "file": f"{table.file}.parquet",
        "version": table.version,
        "row": table.row,
        "columns": [
            {
                "name": column.name,
                "type": str(column.type),
                "unit": column.unit,
                "null": column.null,
                "about": column.about,
            }
            for column in table.columns
        ],
    }


def _markdown(head: tuple[str, ...], tables: tuple[Stored, ...]) -> str:
    lines = [
        f"<!-- {LICENCE} -->",
        "<!-- Made by `python -m skblab_analysis.schemas`; change analysis/ instead. -->",
        *head,
        "",
        "Unit and sentence are also in each file, as the field metadata `unit` and `about`; all",
        "units as the file's metadata `units`, a JSON object.",
    ]
    for table in tables:
        lines += [
            "",
            f"## {table.file}.parquet",
            "",
            f"One row is {table.row}.",
            "",
            "| column | type | unit | what it says |",
            "| --- | --- | --- | --- |",
        ]
        lines += [
            f"| `{column.name}` | {column.type}{', may be null' if column.null else ''} "
            f"| {column.unit or '–'} | {column.about} |"
            for column in table.columns
        ]
    return "\n".join(lines) + "\n"


def _fill(example: Path) -> None:
    """Write a table without rows for each that the stored example has not, if it is there."""
    for table in ALL if example.is_dir() else ():
        if not (file := example / f"{table.file}.parquet").exists():
            pq.write_table(table.schema.empty_table(), file, compression="zstd")


def main(
    folder: Annotated[Path, typer.Argument(help="the folder results-schema/")] = DEFAULT,
    check: Annotated[bool, typer.Option(help="change nothing, say what is not current")] = False,
) -> None:
    """Write the JSON Schemas and column tables, or check that they are current."""
    made = documents()
    if not check:
        for name, text in made.items():
            write_whole(folder / name, text)
        _fill(folder / "example")
        return
    stale = [
        name
        for name, text in made.items()
        if not (folder / name).is_file() or (folder / name).read_text() != text
    ]
    if stale:
        typer.echo(
            f"not current in {folder}: {', '.join(stale)}; "
            f"run: python -m skblab_analysis.schemas {folder}",
            err=True,
        )
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
