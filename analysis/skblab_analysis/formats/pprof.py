# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions by stack as pprof, Grafana Pyroscope and Perfetto read them: profile.proto, gzipped.

The format is https://github.com/google/pprof/blob/main/proto/profile.proto; of it stands here what
has a name and no address: a stack of ours is of functions.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from skblab_analysis.formats.stacks import BETWEEN, PACKETS

_PACKAGE = "perftools.profiles"
_Field = descriptor_pb2.FieldDescriptorProto
# By message: the fields' names, numbers and types; a list has several of them.
_MESSAGES: Mapping[str, Sequence[tuple[str, int, str | list[str]]]] = {
    "ValueType": (("type", 1, "int64"), ("unit", 2, "int64")),
    "Sample": (("location_id", 1, ["uint64"]), ("value", 2, ["int64"])),
    "Line": (("function_id", 1, "uint64"),),
    "Location": (("id", 1, "uint64"), ("line", 4, ["Line"])),
    "Function": (("id", 1, "uint64"), ("name", 2, "int64"), ("system_name", 3, "int64")),
    "Profile": (
        ("sample_type", 1, ["ValueType"]),
        ("sample", 2, ["Sample"]),
        ("location", 4, ["Location"]),
        ("function", 5, ["Function"]),
        ("string_table", 6, ["string"]),
        ("comment", 13, ["int64"]),
    ),
}
_PLAIN = {
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "string": _Field.TYPE_STRING,
}


def file_of(row: str) -> str:
    """Return the name of a row's file."""
    return f"stacks-{row}.pb.gz"


def profile() -> Any:  # noqa: ANN401 - its class is made here
    """Return an empty profile; its fields are those of profile.proto."""
    file = descriptor_pb2.FileDescriptorProto(
        name="skblab/profile.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for called, number, kind in fields:
            several, of = isinstance(kind, list), kind[0] if isinstance(kind, list) else kind
            message.field.add(
                name=called,
                number=number,
                label=_Field.LABEL_REPEATED if several else _Field.LABEL_OPTIONAL,
                type=_PLAIN.get(of, _Field.TYPE_MESSAGE),
                type_name=None if of in _PLAIN else f".{_PACKAGE}.{of}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.Profile")
    return message_factory.GetMessageClass(found)()


def encoded(stacks: Mapping[str, float], title: str) -> bytes:
    """Return a file's content, of stacks with instructions a packet; `title` is its comment.

    The values are instructions per 1 000 packets, as in folded stacks: the format has no fractions.
    """
    made = profile()
    strings: dict[str, int] = {"": 0}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    made.sample_type.add(type=string(f"instructions_per_{PACKETS}_packets"), unit=string("count"))
    made.comment.append(string(title))
    numbers: dict[str, int] = {}
    for stack, value in sorted(stacks.items()):
        if (count := round(value * PACKETS)) > 0:
            names = stack.split(BETWEEN)
            # The innermost comes first.
            of = [numbers.setdefault(name, len(numbers) + 1) for name in reversed(names)]
            made.sample.add(location_id=of, value=[count])
    for name, number in numbers.items():
        made.function.add(id=number, name=string(name), system_name=string(name))
        made.location.add(id=number).line.add(function_id=number)
    made.string_table.extend(strings)
    return gzip.compress(made.SerializeToString(deterministic=True), mtime=0)
