# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of a run folder: appended to line by line, each line flushed."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from skblab_analysis.base import disk
from skblab_analysis.base.checked import Model, RecordError, parse


class Event(BaseModel):
    """One line of the journal; the event's own data stands beside `at` and `event`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    at: AwareDatetime = Field(description="UTC")
    event: str = Field(description="what happened, in one word")

    def told(self, model: type[Model]) -> Model:
        """Return its data, as events of its name have it; RecordError if it has not."""
        what = f"the journal's event {self.event} of {self.at:%Y-%m-%d %H:%M:%S}"
        return parse(model, dict(self.model_extra or {}), what)


# Its name in a run folder.
JOURNAL = "journal.jsonl"


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
        line = json.dumps(
            {"at": disk.now().isoformat(), "event": event, **data}, ensure_ascii=False
        )
        with self._whole, disk.explained(self.path), self.path.open("ab") as handle:
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
