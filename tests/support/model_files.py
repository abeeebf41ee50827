"""Small files of every form that is read, built in code: what an attack damages."""

from __future__ import annotations

import gzip
import io
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.formats import container, packaging
from coremlscope.formats.compiled.writing import compile_into
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.model import ir
from tests.support import classical_examples, foreign_files, recorded_files
from tests.support.compiled_networks import WeightTable, exact, write_classifier, write_network
from tests.support.constant_programs import linear_model
from tests.support.graphs import const, function, op, tensor, value

__all__ = [
    "Files",
    "all_seeds",
    "corpus_seeds",
    "model_of_function",
    "network_of_many_kinds",
    "program_of_many_kinds",
    "write_files",
]

#: The content of a file or folder by path; one path without a folder is a file.
Files = Mapping[str, bytes]

_DATA = Path(__file__).parents[1] / "data"
_EXECUTORCH = ("two_delegates.pte", "shared_functions.pte")
#: Files of the corpus up to this size are damaged: a larger one takes longer than it tells.
_LARGEST = 2 * 2**20


def _files_of(path: Path) -> Files:
    if path.is_file():
        return {path.name: path.read_bytes()}
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    return {f"{path.name}/{file.relative_to(path).as_posix()}": file.read_bytes() for file in inside}


def write_files(files: Files, folder: Path) -> Path:
    """Writes a file or folder, and returns its path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / next(iter(files)).partition("/")[0]


def model_of_function(main: ir.Function) -> ir.Model:
    """A program of one function, whose inputs and outputs are arrays."""

    def features(values: tuple[ir.Value, ...]) -> tuple[ir.Feature, ...]:
        types = (v.type for v in values)
        shapes = (tuple(d or 1 for d in t.shape or ()) for t in types if isinstance(t, ir.TensorType))
        arrays = (ir.ArrayFeature(dtype=ir.DType.FP32, shape=shape) for shape in shapes)
        return tuple(ir.Feature(v.name, array) for v, array in zip(values, arrays, strict=True))

    interface = ir.FunctionDescription(
        inputs=features(main.graph.inputs), outputs=features(main.graph.outputs)
    )
    return ir.Model(
        spec_version=9,
        description=ir.Description({"main": interface}, "main"),
        content=ir.Program(functions={"main": main}),
    )


_ROW, _IMAGE = tensor(1, 64), tensor(1, 4, 8, 8)
_WINDOW = {"strides": [1, 1], "pad_type": "same", "pad": [0, 0, 0, 0]}
_AVERAGE = {"kernel_sizes": [3, 3], "ceil_mode": False, "exclude_padding_from_average": True}
_LENGTH = np.array([64], np.uint32)
_PALETTE = {
    "indices": np.arange(32, dtype=np.uint8),
    "lut": np.arange(16, dtype=np.float32),
    "shape": _LENGTH,
}
_SPARSE = {
    "nonzero_data": np.ones(32, np.float32),
    "mask": np.full(8, 0x55, np.uint8),
    "shape": _LENGTH,
}
#: Operations: the kind, the results with their types, and the arguments. Texts of one letter are values.
_OPERATIONS: tuple[tuple[str, dict[str, ir.TensorType], dict[str, Any]], ...] = (
    ("conv", {"c": _IMAGE}, {"x": "x", "weight": "w", "dilations": [1, 1], "groups": 1, **_WINDOW}),
    ("avg_pool", {"p": _IMAGE}, {"x": "c", **_AVERAGE, **_WINDOW}),
    ("reduce_mean", {"m": tensor(1, 1, 8, 8)}, {"x": "p", "axes": [1], "keep_dims": True}),
    ("reshape", {"r": _ROW}, {"x": "m", "shape": [1, 64]}),
    ("constexpr_lut_to_dense", {"d": tensor(64)}, _PALETTE),
    ("constexpr_sparse_to_dense", {"s": tensor(64)}, _SPARSE),
    ("add", {"a": _ROW}, {"x": "r", "y": "d"}),
    ("mul", {"b": _ROW}, {"x": "a", "y": "s"}),
    ("split", {"g": tensor(1, 32), "h": tensor(1, 32)}, {"x": "b", "num_splits": 2, "axis": 1}),
    ("concat", {"j": _ROW}, {"values": ("h", "g"), "axis": 1, "interleave": False}),
    ("slice_by_index", {"k": tensor(1, 16)}, {"x": "j", "begin": [0, 0], "end": [1, 64], "stride": [1, 4]}),
    ("range_1d", {"n": tensor(16)}, {"start": 0.0, "end": 16.0, "step": 1.0}),
    ("add", {"z": tensor(1, 16)}, {"x": "k", "y": "n"}),
    ("tile", {"t": tensor(1, 32)}, {"x": "z", "reps": [1, 2]}),
    ("layer_norm", {"y": tensor(1, 32)}, {"x": "t", "axes": [1], "epsilon": 1e-5}),
)


def program_of_many_kinds() -> ir.Model:
    """Many kinds of operations: windows, reductions, shapes, slices, unpacked weights, lists of parts."""
    x = value("x", _IMAGE)
    weight = const("w", np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32))
    values = {"x": x, "w": weight.outputs[0]}

    def argument(given: Any) -> Any:
        if isinstance(given, tuple):
            return tuple(map(argument, given))
        return values[given] if isinstance(given, str) and len(given) == 1 else given

    ops = [weight]
    for kind, results, arguments in _OPERATIONS:
        given = {name: argument(content) for name, content in arguments.items()}
        values.update({name: value(name, type_) for name, type_ in results.items()})
        ops.append(op(kind, tuple(values[name] for name in results), **given))
    return model_of_function(function((x,), tuple(ops), (values["y"],)))


def network_of_many_kinds() -> bytes:
    """A neural network of old and new layers, with a recurrent one and a table that is quantised."""
    from tests.support.networks import network, random

    builder = network({"x": (3, 8, 8)})
    builder.add_convolution(
        "conv",
        3,
        4,
        3,
        3,
        1,
        1,
        "same",
        1,
        random(3, 3, 3, 4),
        random(4),
        True,
        input_name="x",
        output_name="c",
    )
    builder.add_pooling("pool", 2, 2, 2, 2, "MAX", "VALID", "c", "p")
    builder.add_elementwise("concat", ["p", "p"], "e", "CONCAT")
    builder.add_flatten("flatten", 0, "e", "f")
    builder.add_inner_product("dense", random(6, 128), random(6), 128, 6, True, "f", "d")
    weights = [random(6, 6, seed=index) for index in range(4)]
    biases = [random(6, seed=index) for index in range(4)]
    builder.add_unilstm("lstm", weights, weights, biases, 6, 6, ["d", "h", "s"], ["l", "h2", "s2"])
    builder.add_softmax("softmax", "l", "y")
    for name in ("h", "s"):
        array = builder.spec.description.input.add(name=name).type.multiArrayType
        array.shape.append(6)
        array.dataType = 65568
    content: bytes = builder.spec.SerializeToString()
    return content


def _zipped(files: Files, method: int) -> Files:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return {"m.zip": buffer.getvalue()}


def _in_folder(write: Callable[[Path], Path]) -> Files:
    folder = Path(tempfile.mkdtemp())
    try:
        return _files_of(write(folder))
    finally:
        shutil.rmtree(folder)


def _package(model: ir.Model) -> Files:
    def write(folder: Path) -> Path:
        packaging.write_mlpackage(model, folder / "m.mlpackage")
        return folder / "m.mlpackage"

    return _in_folder(write)


def _compiled(model: ir.Model) -> Files:
    def write(folder: Path) -> Path:
        packaging.write_mlpackage(model, folder / "m.mlpackage")
        (folder / "m.mlmodelc").mkdir()
        source = container.read(folder / "m.mlpackage")
        compile_into(source, folder / "m.mlpackage", folder / "m.mlmodelc", "m", shutil.copyfile)
        inner = [path for path in (folder / "m.mlmodelc").iterdir() if path.is_dir()]
        return inner[0] if len(inner) == 1 and inner[0].suffix else folder / "m.mlmodelc"

    return _in_folder(write)


def _espresso() -> Files:
    def write(folder: Path) -> Path:
        table = WeightTable()
        weights, biases = table.add(np.ones((4, 3))), table.add(np.zeros(4))
        dense = {"nC": 4, "nB": 3, "has_biases": 1, "blob_weights": weights, "blob_biases": biases}
        layers = [{"type": "inner_product", **dense}, {"type": "activation", "mode": 0}]
        shapes = {name: exact(size) for name, size in (("x", 3), ("b1", 4), ("y", 4))}
        write_network(folder / "m.mlmodelc", layers, shapes, table)
        write_classifier(folder / "m.mlmodelc", ["a", "b", "c", "d"], 3)
        return folder / "m.mlmodelc"

    return _in_folder(write)


def all_seeds() -> dict[str, Files]:
    """The files by name. Building them takes about a second."""
    network, linear = program_of_many_kinds(), linear_model()
    package = _package(network)
    spec = write_spec(network, write_immediate)
    seeds: dict[str, Files] = {
        "mlmodel": {"m.mlmodel": spec},
        "mlmodel of blocks": {"m.mlmodel": write_spec(linear, write_immediate)},
        "mlpackage": package,
        "gzip": {"m.mlmodel.gz": gzip.compress(spec)},
        "mlmodelc": _compiled(network),
        "espresso": _espresso(),
        "neural network": {"m.mlmodel": network_of_many_kinds()},
    }
    methods = {"stored": 0, "deflated": 8, "bzip2": 12, "lzma": 14}
    seeds |= {f"zip, {name}": _zipped(package, method) for name, method in methods.items()}
    for kind, message in classical_examples.EXAMPLES.items():
        seeds[kind] = {"m.mlmodel": message.SerializeToString()}
    seeds |= {name: _files_of(_DATA / "executorch" / name) for name in _EXECUTORCH}
    for name, text in foreign_files.FILES.items():
        seeds[f"import {name}"] = {name: text().encode()}
    for name, content in recorded_files.FILES.items():
        seeds[f"import {name}"] = {name: content()}
    return seeds


def corpus_seeds(corpus: Path) -> Iterator[tuple[str, Files]]:
    """Yields the models of a corpus that are small enough."""
    for suffix in ("mlmodel", "mlpackage", "mlmodelc"):
        for path in sorted(corpus.rglob(f"*.{suffix}")):
            files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
            if files and sum(file.stat().st_size for file in files) <= _LARGEST:
                yield str(path.relative_to(corpus)), _files_of(path)
