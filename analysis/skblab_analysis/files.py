# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of a run folder: each whole or as it was before, and the journal.

All but the journal are written beside their place, flushed and renamed, so a full disk or a
kill leaves what was there. The journal is appended to line by line, each line flushed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from skblab_analysis.base.checked import Model, RecordError, parse
from skblab_analysis.base.disk import write_whole
from skblab_analysis.base.errors import SkblabError


def now() -> datetime:
    """Return the time in UTC, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Turn a full disk or another refusal of the file system into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free / 2**20
            raise SkblabError(
                f"the disk is full: {free:.0f} MiB free, cannot write {path}; what the run "
                "folder already holds stays readable; free some space and run again (a sweep: "
                "skblab resume)"
            ) from error
        raise SkblabError(f"cannot write {path}: {error.strerror}") from error


def write(path: Path, data: str | bytes) -> None:
    """Write a file whole; SkblabError in one line when the disk says no."""
    with _disk(path):
        write_whole(path, data)


class Event(BaseModel):
    """One line of the journal; the event's own data stands beside `at` and `event`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    at: AwareDatetime = Field(description="UTC")
    event: str = Field(description="what happened, in one word")

    def told(self, model: type[Model]) -> Model:
        """Return its data, as events of its name have it; RecordError if it has not."""
        what = f"the journal's event {self.event} of {self.at:%Y-%m-%d %H:%M:%S}"
        return parse(model, dict(self.model_extra or {}), what)


class Journal:
    """`journal.jsonl`: one JSON object a line, `at` (UTC), `event`, then the event's data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A long line is several writes.
        self._whole = threading.Lock()

    def mend(self) -> None:
        """Cut off a last line that a kill left half written, so the next starts afresh."""
        with contextlib.suppress(FileNotFoundError), self.path.open("r+b") as handle:
            data = handle.read()
            handle.truncate(data.rfind(b"\n") + 1)

    def append(self, event: str, data: Mapping[str, JsonValue]) -> None:
        """Add a line and flush it to disk before returning."""
        reserved = {"at", "event"} & data.keys()
        if reserved:
            raise ValueError(f"journal data may not be named {sorted(reserved)}")
        line = json.dumps({"at": now().isoformat(), "event": event, **data}, ensure_ascii=False)
        with self._whole, _disk(self.path), self.path.open("ab") as handle:
            handle.write(line.encode() + b"\n")
            handle.flush()
            os.fsync(handle.fileno())

    def read(self) -> list[Event]:
        """Return all whole lines; a torn last line is left out, any other is a RecordError."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError as error:
            raise RecordError(f"{self.path} is missing: not a whole run folder") from error
        lines = text.split(b"\n")[:-1]
        events = []
        for number, line in enumerate(lines, 1):
            events.append(parse(Event, line, f"{self.path} line {number}, an event,"))
        return events
