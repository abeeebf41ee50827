"""The file `coremldata.bin` of Apple's compiled models: the model type, the interface and class labels.

All numbers are little-endian. A string is its length as a 64-bit number, followed by its bytes. The layout is
inferred from published compiled models:

    uint32      number of the model type in `Model.proto`
    uint64 x 3  version of the layout: 5.0.0 in recent files, 1.3.0 and 1.2.1 in older ones
    string      `generic` or `spec`; in pipelines `generic.model0v9.0.0generic.model1v9.0.0generic`, with the
                specification version of each model
    uint64      specification version
    uint64 x 3  0

Files of Xcode 9's first betas, with version 1.0.0, have three numbers between an empty string and this one:
the specification version, and 0 twice.

A `spec` file, which text classifiers have, ends with the whole `Model` message. A `generic` file continues:

    string      the `ModelDescription` message
    uint64      pipelines only: number of models
    uint64      number of the model type again
    uint64      classifiers only: field number of the class labels (100: strings, 101: integers)
    uint64      classifiers only: number of labels
    labels      strings, or signed 64-bit numbers
    uint64      number of output names; 0 in ML Programs
    strings     the output names of the network
"""

from __future__ import annotations

import base64
import functools
import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.model import schema
from coremlscope.model.schema import Message

_GENERIC, _SPEC = "generic", "spec"
_RESERVED, _RESERVED_EARLY = 24, 16
#: The version of the layout that is written.
_VERSION = (5, 0, 0)
_STRING_LABELS, _INT64_LABELS = 100, 101
_CLASSIFIERS = ("neuralNetworkClassifier",)
_PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")
#: The model types whose content after the description is known.
_KNOWN = ("mlProgram", "neuralNetwork", "neuralNetworkRegressor", *_CLASSIFIERS, *_PIPELINES)
_HINT = "the file is damaged or incomplete; copy or download the whole folder again"
_MAX_BYTES = 2**31 - 1

_T = TypeVar("_T")


class CompiledData(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `coremldata.bin`.

    Attributes:
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, `textClassifier`, …
        version: The version of the layout.
        spec_version: Core ML's specification version.
        description: The `ModelDescription` message.
        spec: The serialised `Model` message, of which compiled text classifiers consist; None for others.
        class_labels: The labels of a classifier, in order; empty if the file does not list them.
        output_names: The names of a network's outputs; empty if the file does not list them.
        stages: The number of models of a pipeline; 0 for other models.
        rest: The bytes after the description whose meaning is unknown.
    """

    kind: str
    version: tuple[int, int, int]
    spec_version: int
    description: Message
    spec: bytes | None = None
    class_labels: tuple[str, ...] | tuple[int, ...] = ()
    output_names: tuple[str, ...] = ()
    stages: int = 0
    rest: bytes = b""


def read_compiled_data(path: Path) -> CompiledData:
    """Reads a `coremldata.bin` file.

    Raises:
        NotAModelError: The file is a Git LFS pointer.
        CorruptModelError: The file is damaged.
        OSError: The file cannot be read.
    """
    if path.stat().st_size > _MAX_BYTES:
        raise CorruptModelError(f"{path} is larger than 2 GB", _HINT)
    return parse_compiled_data(path.read_bytes(), str(path))


def parse_compiled_data(data: bytes, name: str) -> CompiledData:
    """Reads the bytes of a `coremldata.bin` file; see `read_compiled_data`.

    Args:
        data: The bytes.
        name: The name of the file in error messages.
    """
    if data.startswith(b"version https://git-lfs."):
        raise NotAModelError(f"{name} is a Git LFS pointer", "run `git lfs pull` to fetch the model itself")
    try:
        return _parse(_Cursor(data))
    except _DamageError as damage:
        raise CorruptModelError(f"{name} is damaged: {damage}", _HINT) from None


class _DamageError(Exception):
    """The bytes are damaged; the message says how."""


class _Cursor:
    """Reads numbers and strings of checked length from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        """The number of bytes after the position."""
        return len(self._data) - self.position

    def take(self, count: int) -> bytes:
        """Returns the next bytes."""
        if count > self.remaining:
            raise _DamageError(f"it ends {count - self.remaining} bytes after byte {self.position} too early")
        self.position += count
        return self._data[self.position - count : self.position]

    def number(self, format_: str = "<Q") -> int:
        """Returns the next number."""
        (value,) = struct.unpack(format_, self.take(struct.calcsize(format_)))
        return int(value)

    def blob(self) -> bytes:
        """Returns the bytes of the next string."""
        return self.take(self.number())

    def string(self) -> str:
        """Returns the next string."""
        try:
            return self.blob().decode()
        except UnicodeDecodeError:
            raise _DamageError(f"the text that ends at byte {self.position} is not valid UTF-8") from None

    def integer(self) -> int:
        """Returns the next signed number."""
        return self.number("<q")

    def sequence(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        """Returns a counted sequence of strings or numbers."""
        count = self.number()
        if count > self.remaining // 8:  # Each item has at least eight bytes.
            raise _DamageError(f"a list of {count} items at byte {self.position} does not fit into the file")
        return tuple(item() for _ in range(count))


def _parse(cursor: _Cursor) -> CompiledData:
    type_number = cursor.number("<I")
    kind = _kinds().get(type_number)
    if kind is None:
        raise _DamageError(f"the model type {type_number} is unknown")
    major, minor, patch = cursor.number(), cursor.number(), cursor.number()
    layout = cursor.blob()
    is_first = not layout
    if is_first:
        spec_version = cursor.number()
        cursor.take(_RESERVED_EARLY)
        layout = cursor.blob()
    if layout != _SPEC.encode() and not layout.startswith(_GENERIC.encode()):
        raise _DamageError("its layout is unknown")
    if not is_first:
        spec_version = cursor.number()
        cursor.take(_RESERVED)
    common = functools.partial(
        CompiledData, kind=kind, version=(major, minor, patch), spec_version=spec_version
    )
    if layout == _SPEC.encode():
        data = cursor.take(cursor.remaining)
        spec = _message("Model", data)
        if spec.WhichOneof("Type") != kind:
            raise _DamageError(f"it says that the model is a {kind}, but contains another model")
        return common(description=spec.description, spec=data)
    description = _message("ModelDescription", cursor.blob())
    start = cursor.position
    stages = 0
    try:
        stages = cursor.number() if kind in _PIPELINES else 0
        labels, outputs = _parse_content(cursor, type_number, kind)
    except _DamageError:
        cursor.position = start  # What follows the description is not needed to read a model.
        labels, outputs = (), ()
    return common(
        description=description,
        class_labels=labels,
        output_names=outputs,
        stages=stages,
        rest=cursor.take(cursor.remaining),
    )


def _parse_content(
    cursor: _Cursor, type_number: int, kind: str
) -> tuple[tuple[str, ...] | tuple[int, ...], tuple[str, ...]]:
    """Reads class labels and output names."""
    if kind not in _KNOWN or cursor.number() != type_number:
        raise _DamageError("the content is unknown")
    labels: tuple[str, ...] | tuple[int, ...] = ()
    if kind in _CLASSIFIERS:
        match cursor.number():
            case tag if tag == _STRING_LABELS:
                labels = cursor.sequence(cursor.string)
            case tag if tag == _INT64_LABELS:
                labels = cursor.sequence(cursor.integer)
            case tag:
                raise _DamageError(f"the type {tag} of class labels is unknown")
    start = cursor.position
    try:
        return labels, cursor.sequence(cursor.string)
    except _DamageError:
        cursor.position = start
        return labels, ()


def _message(name: str, data: bytes) -> Message:
    from google.protobuf.message import DecodeError

    try:
        return schema.message_class(name).FromString(data)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        raise _DamageError("the description of the interface in it cannot be parsed") from None


@functools.cache
def _kinds() -> dict[int, str]:
    """The names of model types by their number in `Model.proto`."""
    oneof = schema.message_class("Model").DESCRIPTOR.oneofs_by_name["Type"]
    return {field.number: field.name for field in oneof.fields}


def format_program_data(spec_version: int, description: Message) -> bytes:
    """Returns the bytes of `coremldata.bin` for an ML Program.

    Args:
        spec_version: Core ML's specification version.
        description: The `ModelDescription` message.
    """
    number = next(number for number, kind in _kinds().items() if kind == "mlProgram")
    described: bytes = description.SerializeToString(deterministic=True)
    return b"".join(
        (
            struct.pack("<I3Q", number, *_VERSION),
            _string(_GENERIC.encode()),
            struct.pack("<Q", spec_version),
            bytes(_RESERVED),
            _string(described),
            struct.pack("<QQ", number, 0),
        )
    )


def format_analytics(specification: bytes, name: str) -> bytes:
    """Returns the bytes of `analytics/coremldata.bin` for an ML Program.

    Args:
        specification: The serialised model, whose hash the file contains.
        name: The model's name.
    """
    digest = base64.b64encode(hashlib.sha256(specification).digest()).decode()
    sections = {
        "NeuralNetworkModelDetails": {"containsCustomLayer": "0", "modelDimension": "0"},
        "SpecificationDetails": {"modelHash": digest, "modelName": name},
    }
    parts = []
    for title, entries in sections.items():
        parts += [_string(title.encode()), struct.pack("<Q", len(entries))]
        parts += [_string(text.encode()) for entry in entries.items() for text in entry]
    return b"".join(parts)


def _string(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content
