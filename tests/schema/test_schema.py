"""The shipped message schema."""

from __future__ import annotations

import subprocess
import sys

from coremlscope.model import schema


def test_messages_are_those_of_coremltools() -> None:
    from coremltools.proto import Model_pb2

    theirs = Model_pb2.Model.DESCRIPTOR
    ours = schema.message_class("Model").DESCRIPTOR
    assert {(f.name, f.number) for f in ours.fields} == {(f.name, f.number) for f in theirs.fields}
    assert ours.full_name == theirs.full_name
    assert ours.file.pool is not theirs.file.pool


def test_map_entries_keep_the_order_of_the_file() -> None:
    program = schema.message_class("MILSpec.Program")()
    names = [f"function_{index}" for index in range(50, 0, -1)]
    for name in names:
        program.functions.add(key=name)
    again = schema.message_class("MILSpec.Program").FromString(program.SerializeToString())
    assert [entry.key for entry in again.functions] == names


def test_enumerations() -> None:
    assert schema.enum_names("MILSpec.DataType")[25] == "INT4"


def test_importing_formats_loads_no_protobuf() -> None:
    code = "import sys, coremlscope.formats; print({'google.protobuf', 'numpy'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "set()"
