"""Compiled ML Programs: folders with `model.mil`, and such files alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.formats.compiled.interface import find_interface
from coremlscope.formats.compiled.marker import PROGRAM_TEXT
from coremlscope.formats.miltext import parse_program
from coremlscope.formats.mlmodel import MODEL_PATH, resolve_weight_name
from coremlscope.formats.platforms import NEWEST_VERSION, oldest_version
from coremlscope.formats.weights import BlobData, WeightStorage
from coremlscope.model import ir

# The interface of a program without a description: from the signatures of its functions.
#
# Apple's compiler adds the attribute `FlexibleShapeInformation` to functions with flexible inputs: a tuple
# of pairs with a name (`DefaultShapes`, `RangeDims` or `EnumeratedShapes`) and a dictionary. It is as in
# published compiled models. Images and the author's descriptions are not in a program.

_FLEXIBLE_SHAPES = "FlexibleShapeInformation"
_ARRAY_DTYPES = (ir.DType.FP16, ir.DType.FP32, ir.DType.FP64, ir.DType.INT32, ir.DType.INT8)


def read_signature(program: ir.Program) -> ir.Description:
    """Derives the interface of a program. The default function is `main`, or else the first one."""
    functions = {name: _function(function) for name, function in program.functions.items()}
    return ir.Description(functions, "main" if "main" in functions else next(iter(functions)))


def _function(function: ir.Function) -> ir.FunctionDescription:
    information = function.attributes.get(_FLEXIBLE_SHAPES)
    shapes = _plain(information) if information is not None else ()
    flexible = {key: value for key, value in shapes if isinstance(value, dict)} if _are_pairs(shapes) else {}
    inputs, states = [], []
    for value in function.graph.inputs:
        if isinstance(value.type, ir.StateType):
            states.append(ir.Feature(value.name, ir.StateFeature(_array(value.type.wrapped))))
        else:
            inputs.append(ir.Feature(value.name, _input(value, flexible)))
    outputs = tuple(ir.Feature(value.name, _array(value.type)) for value in function.graph.outputs)
    return ir.FunctionDescription(inputs=tuple(inputs), outputs=outputs, states=tuple(states))


def _are_pairs(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, tuple) and len(item) == 2 for item in value)


def _input(value: ir.Value, flexible: Mapping[str, dict[Any, Any]]) -> ir.ArrayFeature:
    array = _array(value.type)
    if not isinstance(value.type, ir.TensorType) or value.type.is_static or value.type.shape is None:
        return array
    shape = value.type.shape
    default = _sizes(flexible.get("DefaultShapes", {}).get(value.name), shape)
    entries = flexible.get("EnumeratedShapes", {}).values()
    choices = [_sizes(entry.get(value.name), shape) for entry in entries if isinstance(entry, dict)]
    known = tuple(choice for choice in choices if choice is not None)
    flexibility: ir.ShapeFlexibility
    if known and len(known) == len(choices):
        flexibility = ir.EnumeratedShapes(known)
    else:
        unknown = tuple((1, -1) if size is None else (size, size) for size in shape)
        bounds = _bounds(flexible.get("RangeDims", {}).get(value.name), shape)
        flexibility = ir.RangeShapes(bounds or unknown)
    return ir.ArrayFeature(dtype=array.dtype, shape=default or array.shape, flexibility=flexibility)


def _sizes(found: Any, shape: ir.Shape) -> tuple[int, ...] | None:
    """Returns a list of sizes as a shape; None if it is not one of the rank of `shape`."""
    if not isinstance(found, list) or len(found) != len(shape) or not _are_integers(found):
        return None
    return tuple(found) if min(found, default=0) >= 0 else None


def _bounds(found: Any, shape: ir.Shape) -> tuple[tuple[int, int], ...] | None:
    """Returns a list of pairs as bounds of dimensions; None if it is not one for the rank of `shape`."""
    if not isinstance(found, list) or len(found) != len(shape):
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 and _are_integers(pair) for pair in found):
        return None
    return tuple((low, max(high, -1)) for low, high in found)


def _are_integers(values: list[Any]) -> bool:
    return all(isinstance(value, int) for value in values)


def _array(type_: ir.ValueType) -> ir.ArrayFeature:
    """Returns the feature of a tensor, in which unknown dimensions are 1."""
    if not isinstance(type_, ir.TensorType):
        return ir.ArrayFeature(dtype=ir.DType.FP32, shape=())
    dtype = type_.dtype if type_.dtype in _ARRAY_DTYPES else ir.DType.FP32
    return ir.ArrayFeature(
        dtype=dtype, shape=tuple(1 if size is None else size for size in type_.shape or ())
    )


def _plain(constant: ir.Constant) -> Any:
    """Converts a constant to Python tuples, lists, dictionaries and scalars."""
    if not isinstance(constant.data, ir.Nested):
        return constant.numpy().tolist()
    members = [_plain(item) for item in constant.data.items]
    match constant.type:
        case ir.DictType():
            keys = (key if isinstance(key, str | int | float) else str(key) for key in members[::2])
            return dict(zip(keys, members[1::2], strict=True))
        case ir.TupleType():
            return tuple(members)
        case _:
            return members


_PARENT = f"{MODEL_PATH}/../"
_POINTER = b"version https://git-lfs."


def read_program_file(path: Path) -> ir.Model:
    """Reads the text of a program, and the other files of a compiled model beside it, if there are any.

    Args:
        path: The file.

    Raises:
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The model cannot be read.
        OSError: A file cannot be read.
    """
    model = _read(path, None)
    size = path.stat().st_size + sum(file.size or 0 for file in model.weight_files)
    return replace(model, source=path, container="mil", size_bytes=size)


def read_ml_program(folder: Path, pipeline: Path | None = None) -> ir.Model:
    """Reads a folder with `model.mil`.

    Args:
        folder: The compiled model.
        pipeline: The folder of the pipeline that contains the model, with which it may share weight files.

    Raises:
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The model cannot be read.
        OSError: A file cannot be read.
    """
    return _read(folder / PROGRAM_TEXT, pipeline)


def _read(path: Path, pipeline: Path | None) -> ir.Model:
    folder = path.parent
    files = _WeightFiles(folder, pipeline)
    text = path.read_bytes()
    if text.startswith(_POINTER):
        raise CorruptModelError(f"{path} is a Git LFS pointer", "run `git lfs pull` to fetch its content")
    program = parse_program(text, files.open_blob, str(path))
    interface = find_interface(folder, tuple(program.functions))
    weights = {str(resolve_weight_name(s.name)): s.size for s in files.storages.values()}
    weight_files = tuple(map(ir.WeightFile, weights, weights.values()))
    if interface is None:
        return ir.Model(
            spec_version=max(
                oldest_version(one.opset) or NEWEST_VERSION for one in program.functions.values()
            ),
            description=read_signature(program),
            content=program,
            weight_files=weight_files,
        )
    return ir.Model(
        spec_version=interface.spec_version,
        description=_matching(interface.description, program, path),
        content=program,
        metadata=interface.metadata,
        is_updatable=interface.is_updatable,
        weight_files=weight_files,
    )


def _matching(description: ir.Description, program: ir.Program, path: Path) -> ir.Description:
    """Returns an interface with the program's names of functions. `metadata.json` does not name a single one.

    Raises:
        CorruptModelError: The program lacks a function of the interface.
    """
    if len(description.functions) == len(program.functions) == 1:
        (name,) = program.functions
        return ir.Description({name: description.main}, name)
    for name in description.functions:
        if name not in program.functions:
            raise CorruptModelError(
                f"{path} lacks the function '{shown(name)}' of the model's interface",
                "the files in the folder belong to different models; copy or download the whole folder again",
            )
    return description


class _WeightFiles:
    """The weight files of a folder, each opened once."""

    def __init__(self, folder: Path, pipeline: Path | None) -> None:
        self._folder = folder
        self._pipeline = pipeline
        self.storages: dict[str, WeightStorage] = {}

    def open_blob(self, name: str, offset: int, type_: ir.TensorType) -> BlobData:
        """Returns a constant's data in a file that the program names."""
        if name not in self.storages:
            self.storages[name] = self._open(name)
        return BlobData(self.storages[name], offset, type_)

    def _open(self, name: str) -> WeightStorage:
        folder = self._folder
        if self._pipeline is not None and name.startswith(_PARENT):
            folder, name = self._pipeline, f"{MODEL_PATH}/{name.removeprefix(_PARENT)}"
        relative = resolve_weight_name(name)
        path = folder / relative
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise CorruptModelError(
                f"{shown(str(relative))} in {folder} is a link to outside the compiled model",
                "do not use this model unless you trust its author; export or download the model again",
            )
        return WeightStorage(name, path)
