"""Conversion of model specifications, the content of `.mlmodel` files, from and to `ir.Model`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from coremlscope.base.budget import return_memory
from coremlscope.base.errors import CorruptModelError, NotAModelError, UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.formats.description import read_description, read_metadata, write_description
from coremlscope.formats.external import EXTERNAL_READERS, read_external
from coremlscope.formats.program import ValueWriter, read_program, write_program
from coremlscope.formats.weights import BlobData, WeightStorage
from coremlscope.model import ir, schema
from coremlscope.model.schema import Message

#: The name of the model specification's folder in programs.
MODEL_PATH = "@model_path"

#: protobuf's size limit for a message.
MAX_SPEC_BYTES = 2**31 - 1
#: The memory of the messages of larger specifications is returned to the system before models are bound.
_LARGE_SPEC_BYTES = 4 * 2**20
_DAMAGED = "the file is damaged or incomplete; export or download the model again"
_NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
_PIPELINES = {"pipeline": None, "pipelineClassifier": "pipeline", "pipelineRegressor": "pipeline"}

#: Tags of the fields that may follow the version, and of the fields of a description.
_DESCRIPTION_TAG, _CONTENT_TAGS = 0x12, (0x50, 0xB2, 0xC2, 0xCA)
_DESCRIPTION_FIELD_TAGS = (0x0A, 0x52, 0x6A, 0xA2)

#: Opens a weight file by its name in the program.
StorageOpener = Callable[[str], WeightStorage]

#: First bytes and suffixes of other files, with descriptions and hints.
_OTHER_CONTENT = (
    (b"version https://git-lfs.", "a Git LFS pointer", "run `git lfs pull` to fetch the model itself"),
    (b"{", "JSON", "use the .mlpackage folder or the .mlmodel file"),
    (b"<", "XML or HTML", "the download may have failed; get the .mlmodel file itself"),
    (b"bplist", "a property list", "use the .mlpackage folder or the .mlmodel file"),
    (b"\x89HDF", "an HDF5 file", "convert the Keras model with coremltools first"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"PK", "a zip archive", "unpack it and use the model in it"),
)
#: What coremltools converts: networks of PyTorch and TensorFlow. Version 5.2 was the last to convert ONNX
#: (apple/coremltools #1864).
_NETWORK = "convert the network that it was made from with coremltools, which reads PyTorch and TensorFlow, "
_TRACE = "convert the network with coremltools, from torch.export or torch.jit.trace"
_WEIGHTS = (
    "it contains weights alone: load them into the network in PyTorch, and convert that with coremltools"
)
_OTHER_SUFFIXES = {
    ".pt": ("a PyTorch model", _TRACE),
    ".pt2": ("a PyTorch model", _TRACE),
    ".pth": ("a PyTorch model", _TRACE),
    ".tflite": ("a TensorFlow Lite model", f"{_NETWORK}but not TensorFlow Lite"),
    ".ort": ("a model in ONNX Runtime's own format", "use the .onnx file that it was made from"),
    ".safetensors": ("a safetensors file", _WEIGHTS),
    ".gguf": ("a GGUF model", _WEIGHTS),
}


def read_mlmodel(path: Path) -> ir.Model:
    """Reads a single-file model. An ML Program's weights are read from its folder."""
    if path.stat().st_size > MAX_SPEC_BYTES:
        raise NotAModelError(
            f"{path} is larger than 2 GB, the limit of model specifications", _other_hint(path)[1]
        )

    def open_storage(name: str) -> WeightStorage:
        return WeightStorage(name, path.parent / resolve_weight_name(name))

    return read_spec(path.read_bytes(), open_storage, source=path)


def read_spec(
    data: bytes,
    open_storage: StorageOpener,
    *,
    source: Path | None = None,
    container: str = "mlmodel",
    size_bytes: int | None = None,
) -> ir.Model:
    """Reads the bytes of a model specification.

    Args:
        data: A serialised `Model` message.
        open_storage: Opens a weight file by its name in the program; called once per file.
        source: The path of the model, for error messages and the result.
        container: The name of the container.
        size_bytes: Total size of the model's files; by default, that of the specification and the weights.

    Raises:
        NotAModelError: The bytes are not a model specification.
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The type of the model is unknown.
    """
    from google.protobuf.message import DecodeError

    try:
        model = _read_bytes(data, open_storage, source)
    except (DecodeError, UnicodeDecodeError):  # the latter is raised by protobuf's Python backend
        raise _cannot_parse(data, source) from None
    except RecursionError:
        raise CorruptModelError(
            f"the messages in {_display_name(source)} are nested too deeply", _DAMAGED
        ) from None
    if len(data) > _LARGE_SPEC_BYTES:
        return_memory()
    weights_bytes = sum(file.size or 0 for file in model.weight_files)
    return replace(
        model,
        source=source,
        container=container,
        size_bytes=len(data) + weights_bytes if size_bytes is None else size_bytes,
    )


def _read_bytes(data: bytes, open_storage: StorageOpener, source: Path | None) -> ir.Model:
    spec = schema.message_class("Model").FromString(data)
    if spec.WhichOneof("Type") is None:
        raise _no_content(spec, data, source)
    return _read_model(spec, open_storage)


def _read_model(spec: Message, open_storage: StorageOpener) -> ir.Model:
    """Reads a model, or a stage of a pipeline."""
    storages: dict[str, WeightStorage] = {}

    def open_blob(name: str, offset: int, type_: ir.TensorType) -> BlobData:
        if name not in storages:
            storages[name] = open_storage(name)
        return BlobData(storages[name], offset, type_)

    kind = spec.WhichOneof("Type") or ""
    functions: tuple[str, ...] = ()
    content: ir.Program | ir.Pipeline | ir.Classical | ir.External | ir.Opaque
    if kind == "mlProgram":
        content = read_program(spec.mlProgram, open_blob)
        functions = tuple(content.functions)
    elif kind in _PIPELINES:
        content = _read_pipeline(spec, kind, open_storage)
    elif kind in EXTERNAL_READERS:
        content = read_external(kind, getattr(spec, kind), [one.name for one in spec.description.output])
    elif kind in _NETWORKS:
        # Imports the operations, which take long to load.
        from coremlscope.formats.neuralnetwork import read_network, with_sequences

        description = with_sequences(read_description(spec.description), getattr(spec, kind))
        content = read_network(kind, getattr(spec, kind), description.default, description.main)
    else:
        # Imports the operations, which take long to load.
        from coremlscope.ops.classical import classical_types

        row = classical_types().get(kind)
        content = ir.Opaque(kind) if row is None else row.read(getattr(spec, kind))
    if kind not in _NETWORKS:
        description = read_description(spec.description, functions)
    files = {str(resolve_weight_name(s.name)): s.size for s in storages.values()}
    if content.models:
        files = {file.name: file.size for stage in content.models for file in stage.weight_files}
    return ir.Model(
        spec_version=spec.specificationVersion,
        description=description,
        content=content,
        metadata=read_metadata(spec.description.metadata),
        is_updatable=spec.isUpdatable,
        weight_files=tuple(map(ir.WeightFile, files, files.values())),
    )


def write_spec(model: ir.Model, write_value: ValueWriter) -> bytes:
    """Serialises the specification of an ML Program; the inverse of `read_spec`."""
    assert isinstance(model.content, ir.Program)
    spec = schema.message_class("Model")(
        specificationVersion=model.spec_version, isUpdatable=model.is_updatable
    )
    write_description(model.description, model.metadata, spec.description)
    write_program(model.content, spec.mlProgram, write_value)
    data: bytes = spec.SerializeToString(deterministic=True)
    return data


def resolve_weight_name(name: str) -> PurePosixPath:
    """Returns the path of a weight file relative to the folder of the model specification.

    Raises:
        CorruptModelError: The path leads outside the folder.
    """
    path = PurePosixPath(name.removeprefix(MODEL_PATH + "/"))
    if not is_inside(path):
        raise CorruptModelError(
            f"the program refers to the weight file '{shown(name)}', which is outside the model",
            "do not use this file unless you trust its author; export or download the model again",
        )
    return path


def is_inside(path: PurePosixPath) -> bool:
    """True for a relative path that stays inside its folder on every operating system."""
    return (
        bool(path.parts)
        and not path.is_absolute()
        and not any(part == ".." or set(part) & set("\\:\0") for part in path.parts)
    )


def looks_like_spec(head: bytes) -> bool:
    """True if the first bytes are those of a specification: a version, then a description or content.

    ONNX files also start with a version, but continue with the name of their producer.
    """
    if len(head) < 3 or head[0] != 0x08 or not 0 < head[1] < 0x80:
        return False
    if head[2] != _DESCRIPTION_TAG:
        return head[2] in _CONTENT_TAGS
    start = 3
    while start < len(head) and head[start] & 0x80:  # the length, with seven bits per byte
        start += 1
    return start + 1 >= len(head) or head[start] == 0 or head[start + 1] in _DESCRIPTION_FIELD_TAGS


def is_other_model(path: Path) -> bool:
    """True if the name is that of a model of another framework."""
    return path.suffix.lower() in _OTHER_SUFFIXES


def is_pointer(data: bytes) -> bool:
    """True for the content of a Git LFS pointer, which stands for a file that was not fetched."""
    return data.startswith(_OTHER_CONTENT[0][0])


def _cannot_parse(data: bytes, source: Path | None) -> CorruptModelError | NotAModelError:
    """Returns the error for bytes that cannot be parsed."""
    what, hint = _other_content(data, source)
    if what:
        return NotAModelError(f"{_display_name(source)} is {what}, not a Core ML model", hint)
    if looks_like_spec(data[:16]):
        return CorruptModelError(
            f"{_display_name(source)} starts like a Core ML model, but its content is damaged, truncated or "
            "in an unpublished format",
            _DAMAGED,
        )
    return NotAModelError(f"{_display_name(source)} is not a Core ML model", hint)


def _no_content(
    spec: Message, data: bytes, source: Path | None
) -> CorruptModelError | NotAModelError | UnsupportedModelError:
    """Returns the error for bytes that can be parsed, but do not contain a model type."""
    what, hint = _other_content(data, source)
    if not data:
        return NotAModelError(f"{_display_name(source)} is empty", hint)
    if what:
        return NotAModelError(f"{_display_name(source)} is {what}, not a Core ML model", hint)
    if not looks_like_spec(data[:16]):
        return NotAModelError(f"{_display_name(source)} is not a Core ML model", hint)
    if spec.description.input or spec.description.output:
        return UnsupportedModelError(
            f"the content of {_display_name(source)} (specification version {spec.specificationVersion}) is "
            "unknown",
            "the file is truncated, or newer than this version of coremlscope",
        )
    return CorruptModelError(f"{_display_name(source)} contains a version number, but no model", _DAMAGED)


def _other_content(data: bytes, source: Path | None) -> tuple[str, str]:
    if data[:4] == b"book" and data[8:12] == b"mark":
        return "a Finder alias to a file of another Mac", "commit or copy the model itself"
    for start, what, hint in _OTHER_CONTENT:
        if data.lstrip()[: len(start)] == start:
            return what, hint
    return _other_hint(source)


def _other_hint(source: Path | None) -> tuple[str, str]:
    if source is not None and is_other_model(source):
        return _OTHER_SUFFIXES[source.suffix.lower()]
    return "", "use a .mlpackage folder, a zip archive of one, or a .mlmodel file"


def _display_name(source: Path | None) -> str:
    return "the data" if source is None else str(source)


def _read_pipeline(spec: Message, kind: str, open_storage: StorageOpener) -> ir.Pipeline:
    inner = _PIPELINES[kind]
    pipeline = getattr(spec, kind) if inner is None else getattr(getattr(spec, kind), inner)
    models = tuple(_read_model(stage, open_storage) for stage in pipeline.models)
    names = [*pipeline.names, *[""] * len(models)][: len(models)]
    return ir.Pipeline(kind, tuple(names), models)
