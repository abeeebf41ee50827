"""Apple's published Core ML messages, without coremltools.

The schema lies beside this file as one serialised `FileDescriptorSet` (made by `tools/make_schema.py`; see
`NOTICE`). It is loaded once, on first use, into a descriptor pool of its own, so it never clashes with
coremltools' registration of the same names in protobuf's default pool.

Map fields are declared as the repeated entries that they are on the wire (`entry.key`, `entry.value`): so the
file's order is kept.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

__all__ = ["Message", "enum_names", "message_class"]

#: An instance of a class made at run time from the schema; its fields are not known to the type checker.
Message = Any

_PACKAGE = "CoreML.Specification."


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    schema = descriptor_pb2.FileDescriptorSet.FromString(
        (resources.files(__package__) / "coreml.binpb").read_bytes()
    )
    pool = descriptor_pool.DescriptorPool()
    for file in schema.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def message_class(name: str) -> Any:
    """The class of one message, by its name in the specification: `Model`, `MILSpec.Program`."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(_PACKAGE + name))


@functools.cache
def enum_names(name: str) -> dict[int, str]:
    """Number to name of one enumeration: `MILSpec.DataType`, `ImageFeatureType.ColorSpace`."""
    return {value.number: value.name for value in _pool().FindEnumTypeByName(_PACKAGE + name).values}
