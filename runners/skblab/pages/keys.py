# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of a file's keys, made of the pydantic model that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel

Schema = Mapping[str, Any]
HEAD = "| key | value | default | what it is |\n| --- | --- | --- | --- |\n"
_WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true, false"}
# From, to; those that are not reached.
_BOUNDS = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "to {}"),
    ("exclusiveMaximum", "below {}"),
)


def cell(text: object) -> str:
    """Return a text as a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(model: type[BaseModel], *, without: tuple[str, ...] = ()) -> str:
    """Return the table of a model's keys, but for some; ValueError if a key has no description."""
    schema = model.model_json_schema(by_alias=True)
    return HEAD + "".join(_rows(model.__name__, schema, without))


def _rows(name: str, schema: Schema, without: tuple[str, ...]) -> Iterator[str]:
    required = schema.get("required", ())
    for key, found in cast(Schema, schema["properties"]).items():
        if key in without:
            continue
        if not (about := found.get("description")):
            raise ValueError(f"{name}.{key} has no description, which its page needs")
        default = "required" if key in required else _toml(found.get("default"))
        yield f"| `{key}` | {cell(_value(found))} | {cell(default)} | {cell(about)} |\n"


def _toml(value: object) -> str:
    """Return a default as a file has it."""
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return f"`[{', '.join(_toml(item).strip('`') for item in value)}]`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{str(value).lower()}`"


def _value(schema: Schema) -> str:
    """Return in words what a key takes."""
    if choices := schema.get("anyOf"):
        return " or ".join(_value(choice) for choice in choices if choice.get("type") != "null")
    if "const" in schema:
        return _toml(schema["const"])
    if "enum" in schema:
        return " or ".join(_toml(item) for item in schema["enum"])
    if schema.get("type") == "array":
        kind = schema.get("items")
        return f"a list: {_value(kind)}" if kind else "a list"
    if schema.get("type") == "object":
        return "a table"
    said = [_WORDS[schema["type"]]]
    said += [words.format(schema[bound]) for bound, words in _BOUNDS if bound in schema]
    if "maxLength" in schema:
        said.append(f"of at most {schema['maxLength']} characters")
    return " ".join(said)
