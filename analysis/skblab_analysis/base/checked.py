# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents, the two ways records say no, and how such a failure becomes one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from skblab_analysis.base.errors import SkblabError, UsageError, one_line

Model = TypeVar("Model", bound=BaseModel)

SHOWN_FAULTS = 3


class Closed(BaseModel):
    """Part of a document: it never changes, and a field that is not known is a fault."""

    # What checks a document is made when the first one comes: a command has few of the hundred.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Finite(Closed):
    """Part of a document without infinite numbers, and where each number is one."""

    model_config = ConfigDict(allow_inf_nan=False)


class RecordError(UsageError):
    """A document or a file of a run folder is not what it has to be (exit code 2)."""


class RefusedError(SkblabError):
    """The numbers contradict each other or fall short: no result is given (exit code 1)."""


def parse(
    model: type[Model], document: object, what: str, *, context: Mapping[str, bool] | None = None
) -> Model:
    """Validate `document` (a dict, or JSON text or bytes) or raise RecordError in one line.

    `what` names the document in the message, such as "the pathlat document". `context` is for the
    model's validators.
    """
    try:
        if isinstance(document, str | bytes):
            return model.model_validate_json(document, context=context)
        # By way of JSON: the same strictness whether a caller parsed the text or not.
        return model.model_validate_json(json.dumps(document), context=context)
    except ValidationError as error:
        raise RecordError(f"{what} is not as expected: {faults(error)}") from error
    except (TypeError, ValueError, RecursionError) as error:
        # Text with half a character in it, or a dict that JSON has no words for.
        raise RecordError(f"{what} is no JSON document: {one_line(str(error), 120)}") from error


def read(model: type[Model], path: Path, what: str) -> Model:
    """Read and validate the JSON file `path`; RecordError names the file."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot read {what} {path}: {error.strerror}") from error
    return parse(model, text, f"{what} {path}")


@contextlib.contextmanager
def measured_well(what: str) -> Iterator[None]:
    """Have a model that is made of what was measured be made, or SkblabError in one line."""
    try:
        yield
    except ValidationError as error:
        raise SkblabError(f"{what} is not as expected: {faults(error)}") from error


def faults(error: ValidationError) -> str:
    """Return what is wrong in which places, in one line."""
    found = error.errors(include_url=False, include_context=False)
    shown = []
    for fault in found[:SHOWN_FAULTS]:
        place = one_line(".".join(str(part) for part in fault["loc"]), 100)
        reason = one_line(fault["msg"].removeprefix("Value error, "), 160)
        shown.append(f"{place}: {reason}" if place else reason)
    if len(found) > SHOWN_FAULTS:
        shown.append(f"and {len(found) - SHOWN_FAULTS} more faults")
    return "; ".join(shown)
