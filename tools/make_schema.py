"""Writes the message schemas that the package ships, from an installed coremltools and onnx.

    python tools/make_schema.py [coreml|onnx]

The results are serialised `FileDescriptorSet`s, dependencies first: the messages, fields, numbers and types
of Apple's published Core ML specification and of ONNX, without comments and options for generated code.

Map fields are turned into the repeated entries that they are on the wire: protobuf's maps have no order, so a
program would be read in a different order each time; repeated entries keep the order of the file.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor

SOURCES = Path(__file__).parents[1] / "src/coremlscope"
#: The module whose descriptor is written, and the file.
SCHEMAS = {
    "coreml": ("coremltools.proto.Model_pb2", SOURCES / "model/schema/coreml.binpb"),
    "onnx": ("onnx.onnx_ml_pb2", SOURCES / "formats/onnx/onnx.binpb"),
}


def collect_files(descriptor: FileDescriptor, into: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    """Adds a file and its imports to `into`, dependencies first."""
    if descriptor.name in into:
        return
    for dependency in descriptor.dependencies:
        collect_files(dependency, into)
    file = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(file)
    file.ClearField("options")
    file.ClearField("source_code_info")
    for message in file.message_type:
        strip_message(message)
    into[descriptor.name] = file


def strip_message(message: descriptor_pb2.DescriptorProto) -> None:
    """Makes map entries ordinary messages, including nested ones; removes options and derived JSON names."""
    message.ClearField("options")
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        strip_message(nested)


def main(names: Sequence[str]) -> int:
    """Writes the schemas; returns the exit code."""
    for name in names or SCHEMAS:
        module, output = SCHEMAS[name]
        files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        collect_files(importlib.import_module(module).DESCRIPTOR, files)
        schema = descriptor_pb2.FileDescriptorSet(file=files.values())
        output.write_bytes(schema.SerializeToString(deterministic=True))
        print(f"{output}: {len(files)} files, {output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
