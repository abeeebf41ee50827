"""Groups the parameters of programs by precision and compression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.formats.weights import BlobData, WeightStorage
from coremlscope.model.ir import (
    Argument,
    Constant,
    EncodedSource,
    Function,
    Graph,
    Op,
    Program,
    TensorType,
    Value,
)
from coremlscope.results.model import WeightGroup


def group_weights(*programs: Program) -> tuple[WeightGroup, ...]:
    """Groups the weights of all functions of programs by how they are stored; most bytes first.

    A weight is a constant for which `Constant.is_weight` holds, or the result of a decompressing operation.
    Weights that functions share count once.
    """
    tally = _Tally()
    for program in programs:
        for function in program.functions.values():
            _collect(function, tally)
    groups = [
        WeightGroup(storage=storage, dtype=dtype, tensors=tensors, parameters=parameters, nbytes=nbytes)
        for (storage, dtype), (tensors, parameters, nbytes) in tally.sums.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.nbytes, group.storage)))


def find_short_files(blobs: Iterable[BlobData]) -> tuple[str, ...]:
    """Returns the names of the weight files that end before data that programs refer to.

    Only the sizes of the files are read; those that are absent are left out.
    """
    ends: dict[WeightStorage, int] = {}
    for blob in blobs:
        ends[blob.storage] = max(ends.get(blob.storage, 0), blob.least_end)
    short = (one.name for one, end in ends.items() if one.size is not None and one.size < end)
    return tuple(dict.fromkeys(str(resolve_weight_name(name)) for name in short))


def blobs_of(program: Program) -> Iterator[BlobData]:
    """Yields the data in weight files of every constant that a program refers to."""
    for function in program.functions.values():
        for op in function.graph.walk():
            for constant in chain(op.attributes.values(), *op.inputs.values()):
                if isinstance(constant, Constant) and isinstance(constant.data, BlobData):
                    yield constant.data


class _Tally(msgspec.Struct):
    sums: dict[tuple[str, str], list[int]] = msgspec.field(default_factory=dict)
    seen: set[object] = msgspec.field(default_factory=set)

    def add(self, storage: str, type_: TensorType, key: object, leaves: Iterable[Constant]) -> None:
        """Counts one weight, and the bytes of its constants, once each."""
        if key in self.seen:
            return
        self.seen.add(key)
        sums = self.sums.setdefault((storage, type_.dtype.value), [0, 0, 0])
        sums[0] += 1
        sums[1] += type_.elements or 0
        for leaf in leaves:
            part = ("part", identify(leaf))
            if part not in self.seen:
                self.seen.add(part)
                sums[2] += stored_bytes(leaf)


def identify(constant: Constant) -> object:
    """Returns a key that is equal for constants with the same data in a file."""
    if isinstance(constant.data, BlobData):
        return id(constant.data.storage), constant.data.offset
    return constant.data  # Data is equal only to itself.


def storage_of(constant: Constant) -> str:
    """Returns how the elements of a tensor are stored: `fp16`, `LUT 4-bit`."""
    if isinstance(constant.data, EncodedSource):
        return constant.data.storage
    return constant.type.dtype.value if isinstance(constant.type, TensorType) else ""


def stored_bytes(constant: Constant) -> int:
    """Returns the bytes of a constant in the file."""
    type_ = constant.type
    if isinstance(constant.data, EncodedSource):
        return constant.data.stored_bytes
    packed = type_.nbytes if isinstance(type_, TensorType) else None
    return constant.data.stored_bytes if packed is None else packed


class _Makers(msgspec.Struct, frozen=True):
    """Where the weights of a function come from.

    Attributes:
        constants: The values of constants that count as weights or are decompressed, by name.
        unpacking: The decompressing operations, by the names of their results.
    """

    constants: Mapping[str, Constant]
    unpacking: Mapping[str, Op]


def _find_makers(graph: Graph) -> _Makers:
    unpacking = {
        output.name: op for op in graph.walk() if _is_decompression(op.type) for output in op.outputs
    }
    read = {a.name for op in unpacking.values() for _, a in _sources(op) if isinstance(a, Value)}
    constants = {
        output.name: op.constant
        for op in graph.walk()
        if op.constant is not None
        for output in op.outputs
        if output.name in read or op.constant.is_weight
    }
    return _Makers(constants, unpacking)


def _collect(function: Function, tally: _Tally) -> None:
    makers = _find_makers(function.graph)
    for op in function.graph.walk():
        if not _is_constant(op.type):
            for arguments in op.inputs.values():
                for argument in arguments:
                    _count(argument, makers, tally)
    for result in function.graph.outputs:
        _count(result, makers, tally)


def _count(argument: Argument, makers: _Makers, tally: _Tally) -> None:
    unpacking = makers.unpacking.get(argument.name) if isinstance(argument, Value) else None
    if unpacking is not None:
        type_ = unpacking.outputs[0].type
        if isinstance(type_, TensorType):
            leaves = list(_leaves(unpacking, makers))
            key = tuple(identify(leaf) for leaf in leaves)
            tally.add(_describe(unpacking, makers), type_, key, leaves)
        return
    constant = argument if isinstance(argument, Constant) else makers.constants.get(argument.name)
    if constant is None or not isinstance(constant.type, TensorType) or not constant.is_weight:
        return
    tally.add(storage_of(constant), constant.type, identify(constant), [constant])


def _is_constant(type_: str) -> bool:
    return type_ == "const" or _is_decompression(type_)


def _is_decompression(type_: str) -> bool:
    return type_.startswith("constexpr_")


def _sources(op: Op) -> Iterator[tuple[str, Argument]]:
    """Returns the inputs of a decompressing operation; older operation sets store them as attributes."""
    for name, arguments in op.inputs.items():
        for argument in arguments:
            yield name, argument
    for name, constant in op.attributes.items():
        if name != "name":
            yield name, constant


def _leaves(op: Op, makers: _Makers) -> Iterator[Constant]:
    for _, argument in _sources(op):
        if isinstance(argument, Constant):
            yield argument
        elif argument.name in makers.constants:
            yield makers.constants[argument.name]
        elif argument.name in makers.unpacking:
            yield from _leaves(makers.unpacking[argument.name], makers)


def _describe(op: Op, makers: _Makers) -> str:
    """Names all compressions of a weight, in the order sparsity, table, scale: `sparse LUT 4-bit`."""
    parts = list(_parts(op, makers))
    kinds = {kind for kind, _ in parts}
    words = ["sparse"] if "sparse" in kinds else []
    words += [text for kind, text in parts if kind == "table"][:1]
    words += [text for kind, text in parts if kind == "scale"][:1]
    if not kinds & {"table", "scale"}:
        words += [text for kind, text in parts if kind == "dense"][:1]
    return " ".join(words) or op.type


def _parts(op: Op, makers: _Makers) -> Iterator[tuple[str, str]]:
    sources = dict(_sources(op))
    types = {
        name: argument.type for name, argument in sources.items() if isinstance(argument.type, TensorType)
    }
    if "sparse" in op.type:
        yield "sparse", ""
    if "lut" in op.type:
        yield "table", f"LUT {_table_bits(types)}-bit"
    elif "affine" in op.type or "shift_scale" in op.type:
        yield "scale", _describe_scale(types)
    elif "cast" in op.type and "source_val" in types:
        yield "dense", types["source_val"].dtype.value
    elif "nonzero_data" in types:
        yield "dense", types["nonzero_data"].dtype.value
    for argument in sources.values():
        maker = makers.unpacking.get(argument.name) if isinstance(argument, Value) else None
        if maker is not None:
            yield from _parts(maker, makers)


def _table_bits(types: Mapping[str, TensorType]) -> int:
    """Returns the bits of an index: of its type, or of the table's length where indices are packed."""
    indices = types.get("indices") or types.get("indices_nonzero_data")
    if indices is not None and indices.dtype.bits < 8:
        return indices.dtype.bits
    table = types.get("lut")
    if table is None or not table.shape:
        return indices.dtype.bits if indices is not None else 0
    # `[2^bits]` in the first operation set with tables, `[…, 2^bits, elements]` in later ones.
    entries = (table.shape[-2] if len(table.shape) > 1 else table.shape[0]) or 1
    return max(1, (entries - 1).bit_length())


def _describe_scale(types: Mapping[str, TensorType]) -> str:
    data = types.get("quantized_data") or types.get("data") or types.get("nonzero_data")
    scale = types.get("scale")
    name = f"affine {data.dtype.value}" if data is not None else "affine"
    if (
        data is None
        or scale is None
        or not data.shape
        or not scale.shape
        or len(data.shape) != len(scale.shape)
    ):
        return name
    blocks = [
        size // count
        for size, count in zip(data.shape, scale.shape, strict=True)
        if size and count and 1 < count < size
    ]
    return f"{name} in blocks of {max(blocks)}" if blocks else name
