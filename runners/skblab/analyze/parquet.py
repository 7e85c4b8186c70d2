# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of files as Parquet tables: each column has its unit in the field's metadata.

Anomalies are as many as there are: they come as CSV, and go by pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from skblab.analyze import running
from skblab.analyze.running import Asked
from skblab_analysis.base.disk import explained
from skblab_analysis.base.errors import UsageError
from skblab_analysis.formats.analyze import PERCENTILES, FileFigures

Rows = list[dict[str, object]]
_TEXT, _WHOLE, _REAL, _TRUTH = pa.string(), pa.int64(), pa.float64(), pa.bool_()
# A number of a packet may have all 64 bits.
_NUMBER = pa.uint64()

_PERCENTILES = {f"p{name}": (_NUMBER, "ns") for name in PERCENTILES}

COLUMNS: Mapping[str, Mapping[str, tuple[pa.DataType, str]]] = {
    "figures": {
        "file": (_TEXT, ""),
        "of": (_TEXT, ""),
        "count": (_WHOLE, "by column `of`"),
        "negative": (_WHOLE, "by column `of`"),
        "min": (_NUMBER, "ns"),
        "mean": (_REAL, "ns"),
        "sd": (_REAL, "ns"),
        **_PERCENTILES,
        "max": (_NUMBER, "ns"),
    },
    "counts": {
        "file": (_TEXT, ""),
        "what": (_TEXT, ""),
        "packets": (_NUMBER, "packets"),
    },
    "histogram": {
        "file": (_TEXT, ""),
        "of": (_TEXT, ""),
        "low": (_NUMBER, "ns"),
        "high": (_NUMBER, "ns"),
        "count": (_WHOLE, "packets"),
    },
    "displacement": {
        "file": (_TEXT, ""),
        "places": (_WHOLE, "packets"),
        "packets": (_WHOLE, "packets"),
    },
    "occupancy": {
        "file": (_TEXT, ""),
        "waiting": (_WHOLE, "packets"),
        "arrivals": (_WHOLE, "packets"),
    },
    "over_time": {
        "file": (_TEXT, ""),
        "begin_ns": (_WHOLE, "ns"),
        "width_ns": (_WHOLE, "ns"),
        "packets": (_WHOLE, "packets"),
        "rate": (_REAL, "packets/s"),
        "min_ns": (_NUMBER, "ns"),
        "mean_ns": (_REAL, "ns"),
        "max_ns": (_NUMBER, "ns"),
    },
    "flows": {
        "file": (_TEXT, ""),
        "flow": (_WHOLE, ""),
        "packets": (_WHOLE, "packets"),
        "bytes": (_WHOLE, "bytes"),
        "seconds": (_REAL, "s"),
        "rate": (_REAL, "packets/s"),
        "min_ns": (_NUMBER, "ns"),
        "mean_ns": (_REAL, "ns"),
        "sd_ns": (_REAL, "ns"),
        "max_ns": (_NUMBER, "ns"),
        **_PERCENTILES,
    },
    "flow_histogram": {
        "file": (_TEXT, ""),
        "flow": (_WHOLE, ""),
        "low": (_NUMBER, "ns"),
        "high": (_NUMBER, "ns"),
        "count": (_WHOLE, "packets"),
    },
    "anomalies": {
        "file": (_TEXT, ""),
        "least": (_WHOLE, "packets"),
        "late_ns": (_NUMBER, "ns"),
        "place": (_WHOLE, "packets"),
        "sequence": (_NUMBER, ""),
        "packets": (_WHOLE, "packets"),
        "first_ns": (_WHOLE, "ns"),
        "last_ns": (_WHOLE, "ns"),
        "duration_ns": (_WHOLE, "ns"),
        "min_ns": (_NUMBER, "ns"),
        "mean_ns": (_REAL, "ns"),
        "max_ns": (_NUMBER, "ns"),
        "open_begin": (_TRUTH, ""),
        "open_end": (_TRUTH, ""),
    },
}
_KINDS = ("latency_ns", "jitter_ns", "inter_arrival_ns")
_COUNTS = (
    *("received", "packets", "duplicates", "too_old", "beyond", "other_transmission", "foreign"),
    *("not_by_kernel", "bad_times", "not_kept", "missing", "lost"),
)
_NS_PER_S = 1e9


def schema(name: str) -> pa.Schema:
    """Return the columns of a table."""
    return pa.schema(
        pa.field(column, kind, metadata={"unit": unit})
        for column, (kind, unit) in COLUMNS[name].items()
    )


def write(
    program: Path, files: Sequence[Path], asked: Asked, folder: Path
) -> tuple[FileFigures, ...]:
    """Write all tables of files to a folder; return their figures."""
    if not folder.parent.is_dir():
        raise UsageError(f"--parquet: there is no folder {folder.parent}")
    with explained(folder):
        folder.mkdir(exist_ok=True)
    target = folder / "anomalies.parquet"
    found = []
    with running.beside(target) as part:
        with pq.ParquetWriter(part / target.name, schema("anomalies")) as writer:
            for file in files:
                found.append(running.figures(program, file, asked, part / "anomalies.csv"))
                _add_anomalies(writer, str(file), part / "anomalies.csv")
        for name in COLUMNS:
            if name != "anomalies":
                rows = [row for one in found for row in _rows(name, one)]
                pq.write_table(pa.Table.from_pylist(rows, schema(name)), part / f"{name}.parquet")
        for name in COLUMNS:
            (part / f"{name}.parquet").replace(folder / f"{name}.parquet")
    return tuple(found)


def _add_anomalies(writer: pq.ParquetWriter, file: str, listed: Path) -> None:
    """Add all anomalies of a list, a few at a time."""
    columns = schema("anomalies")
    types = {field.name: field.type for field in columns if field.name != "file"}
    convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    with pyarrow.csv.open_csv(listed, convert_options=convert) as batches:
        for batch in batches:
            names = pa.array([file] * batch.num_rows, _TEXT)
            made = pa.record_batch([names, *batch.columns], schema=columns)
            writer.write_batch(made)


def _rows(name: str, found: FileFigures) -> Iterator[dict[str, object]]:
    """Yield the rows of a table that are of a file."""
    file = {"file": found.file}
    if name == "counts":
        counts = {what: getattr(found, what) for what in _COUNTS}
        counts["reordered"] = found.reordered.count if found.reordered else None
        yield from ({**file, "what": what, "packets": count} for what, count in counts.items())
    elif name == "over_time":
        over_time = found.over_time
        for row in over_time.rows:
            yield {
                **file,
                **row.model_dump(),
                "width_ns": over_time.width_ns,
                "rate": row.packets / (over_time.width_ns / _NS_PER_S),
            }
    elif name == "displacement":
        density = found.reordered.density if found.reordered else None
        for places, packets in density.packets if density else ():
            yield {**file, "places": places, "packets": packets}
    elif name == "occupancy":
        density = found.reordered.density if found.reordered else None
        for waiting, arrivals in density.occupancy if density else ():
            yield {**file, "waiting": waiting, "arrivals": arrivals}
    elif name == "flows":
        for flow in found.flows or ():
            percentiles = {f"p{name}": value for name, value in (flow.percentiles or {}).items()}
            yield {**file, **flow.model_dump(), **percentiles}
    elif name == "flow_histogram":
        for flow in found.flows or ():
            for low, high, count in flow.histogram or ():
                yield {**file, "flow": flow.flow, "low": low, "high": high, "count": count}
    else:
        for of in _KINDS:
            times = getattr(found, of)
            if times is None:
                continue
            if name == "histogram":
                for low, high, count in times.histogram:
                    yield {**file, "of": of, "low": low, "high": high, "count": count}
            else:
                percentiles = {f"p{name}": value for name, value in times.percentiles.items()}
                yield {**file, "of": of, **times.model_dump(), **percentiles}
