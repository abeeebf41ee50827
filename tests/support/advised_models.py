"""Models that a finding is about, and models like them that it is not about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.planning.patterns.rule import weight

__all__ = [
    "ANSWERED_MODELS",
    "MODELS",
    "Builder",
    "few_values",
    "half_between_casts",
    "hard_swish",
    "interface",
    "relu6",
    "two_layers",
]

#: Smaller constants are arguments.
_INLINE = 10
F16, F32, I32 = ir.DType.FP16, ir.DType.FP32, ir.DType.INT32


class Builder:
    """Writes the function `main` of an ML Program, operation by operation.

    Args:
        inputs: The type and shape of each input.
        interface: Types in the interface that are not those of the program, by input.
    """

    def __init__(
        self,
        inputs: dict[str, tuple[ir.DType, tuple[int, ...]]],
        interface: dict[str, ir.FeatureType] | None = None,
    ) -> None:
        self.inputs = {name: ir.Value(name, ir.TensorType(*type_)) for name, type_ in inputs.items()}
        self.features = [
            ir.Feature(name, (interface or {}).get(name, ir.ArrayFeature(dtype=dtype, shape=shape)))
            for name, (dtype, shape) in inputs.items()
        ]
        self.ops: list[ir.Op] = []

    def __getitem__(self, name: str) -> ir.Value:
        return self.inputs[name]

    def op(
        self, kind: str, name: str, shape: Sequence[int], dtype: ir.DType = F16, /, **given: Any
    ) -> ir.Value:
        """Adds an operation with one result."""
        return self.ops_of(kind, [(name, shape)], dtype, **given)[0]

    def ops_of(
        self, kind: str, results: Sequence[tuple[str, Sequence[int]]], dtype: ir.DType = F16, /, **given: Any
    ) -> tuple[ir.Value, ...]:
        """Adds an operation with several results."""
        outputs = tuple(ir.Value(name, ir.TensorType(dtype, tuple(shape))) for name, shape in results)
        arguments: dict[str, tuple[ir.Argument, ...]] = {}
        for key, value in given.items():
            several = value if isinstance(value, tuple) else (value,)
            arguments[key] = tuple(self._argument(f"{results[0][0]}_{key}", one) for one in several)
        self.ops.append(
            ir.Op(
                id=f"main/{len(self.ops)}",
                type=kind,
                inputs=arguments,
                outputs=outputs,
                attributes={"name": ir.constant(results[0][0])},
            )
        )
        return outputs

    def _argument(self, name: str, given: Any) -> ir.Argument:
        """Returns an argument; weights become operations, as in files of coremltools."""
        if isinstance(given, ir.Value):
            return given
        content = given if isinstance(given, ir.Constant) else ir.constant(given)
        if not isinstance(content.type, ir.TensorType) or (content.type.elements or 0) < _INLINE:
            return content
        value = ir.Value(name, content.type)
        attributes = {"name": ir.constant(name), "val": content}
        self.ops.append(
            ir.Op(
                id=f"main/{len(self.ops)}", type="const", inputs={}, outputs=(value,), attributes=attributes
            )
        )
        return value

    def conv(self, name: str, x: ir.Value, channels: int, kernel: int = 3, dtype: ir.DType = F16) -> ir.Value:
        """Adds a convolution that keeps height and width."""
        assert isinstance(x.type, ir.TensorType)
        shape = x.type.shape or ()
        weight = _weights(channels, shape[1] or 0, kernel, kernel, dtype=dtype)
        pads: dict[str, Any] = {"strides": [1, 1], "pad_type": "same", "dilations": [1, 1], "groups": 1}
        result = (shape[0] or 0, channels, shape[2] or 0, shape[3] or 0)
        return self.op("conv", name, result, dtype, x=x, weight=weight, **pads)

    def model(self, *outputs: ir.Value) -> ir.Model:
        """Returns the model."""
        graph = ir.Graph(
            name="main", inputs=tuple(self.inputs.values()), ops=tuple(self.ops), outputs=tuple(outputs)
        )
        features = []
        for value in outputs:
            assert isinstance(value.type, ir.TensorType)
            shape = tuple(extent or 0 for extent in value.type.shape or ())
            features.append(ir.Feature(value.name, ir.ArrayFeature(dtype=value.type.dtype, shape=shape)))
        described = ir.FunctionDescription(inputs=tuple(self.features), outputs=tuple(features))
        program = ir.Program(functions={"main": ir.Function(name="main", opset="CoreML7", graph=graph)})
        return ir.Model(
            spec_version=8, description=ir.Description({"main": described}, "main"), content=program
        )


def _weights(*shape: int, dtype: ir.DType = F16) -> ir.Constant:
    values = np.random.default_rng(0).standard_normal(shape)
    return ir.constant(values.astype(dtype.numpy))


_MAP = (1, 64, 64, 64)


def _batch_norm(*, behind_activation: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    ones, y = ir.constant(np.ones(64, np.float16)), b["x"]
    for place in range(4):
        y = b.conv(f"c{place}", y, 64)
        y = b.op("relu", f"r{place}", _MAP, x=y) if behind_activation else y
        given = {"mean": ones, "variance": ones, "epsilon": np.float16(1e-3)}
        y = b.op("batch_norm", f"n{place}", _MAP, x=y, **given)
        y = y if behind_activation else b.op("relu", f"r{place}", _MAP, x=y)
    return b.model(y)


def _activation(*, late: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    shape = (1, 64, 64 * 64)
    if late:
        y = b.op("reshape", "flat", shape, x=y, shape=list(shape))
        return b.model(b.op("relu", "r", shape, x=y))
    y = b.op("relu", "r", _MAP, x=y)
    return b.model(b.op("reshape", "flat", shape, x=y, shape=list(shape)))


def _gelu(*, composed: bool, by_tanh: bool = False) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    x = b.conv("c", b["x"], 64)
    if not composed:
        return b.model(b.conv("c2", b.op("gelu", "g", _MAP, x=x, mode="EXACT"), 64))
    if by_tanh:
        p = b.op("pow", "cube", _MAP, x=x, y=np.float16(3))
        p = b.op("mul", "scaled_cube", _MAP, x=p, y=np.float16(0.044715))
        p = b.op("add", "polynomial", _MAP, x=x, y=p)
        p = b.op("mul", "argument", _MAP, x=p, y=np.float16(0.7978846))
        p = b.op("tanh", "t", _MAP, x=p)
    else:
        p = b.op("mul", "scaled", _MAP, x=x, y=np.float16(0.70710677))
        p = b.op("erf", "e", _MAP, x=p)
    p = b.op("add", "plus", _MAP, x=p, y=np.float16(1))
    h = b.op("mul", "half", _MAP, x=x, y=np.float16(0.5))
    return b.model(b.conv("c2", b.op("mul", "product", _MAP, x=h, y=p), 64))


def relu6(*, composed: bool) -> ir.Model:
    """A convolution with a ReLU6 behind it, as one operation or as four."""
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    if not composed:
        return b.model(b.conv("c2", b.op("relu6", "r", _MAP, x=y), 64))
    y = b.op("relu", "r", _MAP, x=y)
    negative = {"alpha": np.float16(-1), "beta": np.float16(0)}
    y = b.op("linear_activation", "negated", _MAP, x=y, **negative)
    y = b.op("threshold", "clipped", _MAP, x=y, alpha=np.float16(-6))
    return b.model(b.conv("c2", b.op("linear_activation", "again", _MAP, x=y, **negative), 64))


def interface(given: ir.DType, dtype: ir.DType = F16) -> ir.Model:
    """A convolution whose input has a type of its own."""
    b = Builder({"x": (given, _MAP)})
    x = b["x"] if given == dtype else b.op("cast", "half", _MAP, dtype, x=b["x"], dtype="fp16")
    return b.model(b.conv("c", x, 64, dtype=dtype))


def _transposes(*second: int) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 32)
    y = b.op("transpose", "t1", (1, 64, 64, 32), x=y, perm=[0, 2, 3, 1])
    shape = tuple((1, 64, 64, 32)[axis] for axis in second)
    if second == (0, 1, 2, 3):
        y = b.op("softmax", "s", shape, x=y, axis=-1)
        return b.model(b.op("transpose", "t2", (1, 32, 64, 64), x=y, perm=[0, 3, 1, 2]))
    y = b.op("transpose", "t2", shape, x=y, perm=list(second))
    return b.model(b.conv("c2", y, 32) if shape[1] == 32 else b.op("softsign", "q", shape, x=y))


def _reshapes(*, doubled: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    if doubled:
        y = b.op("reshape", "flat", (1, 64, 4096), x=y, shape=[1, 64, 4096])
    y = b.op("reshape", "rows", (1, 4096, 64), x=y, shape=[1, 4096, 64])
    return b.model(b.op("softmax", "s", (1, 4096, 64), x=y, axis=-1))


def _undone_reshape() -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.op("softmax", "s", _MAP, x=b.conv("c", b["x"], 64), axis=1)
    y = b.op("reshape", "flat", (1, 64, 4096), x=y, shape=[1, 64, 4096])
    y = b.op("reshape", "back", _MAP, x=y, shape=list(_MAP))
    return b.model(b.conv("c2", y, 64))


def _axes() -> ir.Model:
    """Axes that are inserted and removed again, also by a reshape, before an output, and for two readers."""
    deep = (1, *_MAP)
    b = Builder({"x": (F16, _MAP)})
    y = b.op("softmax", "s", _MAP, x=b.conv("c", b["x"], 64), axis=1)
    y = b.op("squeeze", "without", _MAP, x=b.op("expand_dims", "with", deep, x=y, axes=[0]), axes=[0])
    z = b.op("reshape", "flat", (1, 64, 4096), x=y, shape=[1, 64, 4096])
    z = b.op("softmax", "s2", (1, 1, 64, 4096), x=b.op("expand_dims", "f", (1, 1, 64, 4096), x=z, axes=[0]))
    last = b.conv("c2", y, 64)
    last = b.op("expand_dims", "before", deep, x=last, axes=[0])
    return b.model(b.op("squeeze", "last", _MAP, x=last, axes=[0]), z)


def _casts(*, lossless: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    if lossless:
        y = b.op("cast", "wide", _MAP, F32, x=y, dtype="fp32")
        y = b.op("cast", "narrow", _MAP, F16, x=y, dtype="fp16")
        return b.model(b.conv("c2", y, 64))
    y = b.op("cast", "integers", _MAP, I32, x=y, dtype="int32")
    y = b.op("cast", "back", _MAP, F16, x=y, dtype="fp16")
    return b.model(b.conv("c2", y, 64))


def _concats(*, nested: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    parts = [b.conv(f"c{place}", b["x"], 64) for place in range(3)]
    if nested:
        first = b.op("concat", "inner", (1, 128, 64, 64), values=tuple(parts[:2]), axis=1, interleave=False)
        parts = [first, parts[2]]
    y = b.op("concat", "outer", (1, 192, 64, 64), values=tuple(parts), axis=1, interleave=False)
    return b.model(b.conv("c9", y, 64))


def _undone_split() -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    halves = b.ops_of("split", [("s0", (1, 32, 64, 64)), ("s1", (1, 32, 64, 64))], x=y, num_splits=2, axis=1)
    y = b.op("concat", "joined", _MAP, values=halves, axis=1, interleave=False)
    return b.model(b.conv("c2", y, 64))


def _precision(*, island: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    if island:
        y = b.op("cast", "wide", _MAP, F32, x=y, dtype="fp32")
        y = b.conv("single", y, 64, dtype=F32)
        y = b.op("cast", "narrow", _MAP, F16, x=y, dtype="fp16")
    return b.model(b.conv("c2", y, 64))


def _scaled_image() -> ir.Model:
    """The scale of an image input in float32, as coremltools writes it."""
    b = Builder({"image": (F32, _MAP)})
    y = b.op("mul", "image__scaled__", _MAP, F32, x=b["image"], y=np.float32(1 / 255))
    return b.model(b.conv("c2", b.op("cast", "narrow", _MAP, F16, x=y, dtype="fp16"), 64))


def _program(dtype: ir.DType) -> ir.Model:
    b = Builder({"x": (dtype, _MAP)})
    y = b["x"]
    for place in range(4):
        y = b.conv(f"c{place}", y, 64, dtype=dtype)
    return b.model(y)


def _recurrent() -> ir.Model:
    """An LSTM in float32 between casts, as coremltools writes it."""
    b = Builder({"x": (F16, (16, 1, 64))})
    y = b.op("cast", "wide", (16, 1, 64), F32, x=b.op("relu", "r", (16, 1, 64), x=b["x"]), dtype="fp32")
    given = {"initial_h": np.zeros((1, 64), np.float32), "initial_c": np.zeros((1, 64), np.float32)}
    weights = {name: weight(256, 64, dtype=F32) for name in ("weight_ih", "weight_hh")}
    results = [("lstm", (1, 1, 64)), ("h", (1, 64)), ("c", (1, 64))]
    y = b.ops_of("lstm", results, F32, x=y, direction="forward", output_sequence=False, **given, **weights)[0]
    y = b.op("cast", "narrow", (1, 1, 64), x=y, dtype="fp16")
    return b.model(b.op("relu", "r2", (1, 1, 64), x=y))


def half_between_casts() -> ir.Model:
    """The program of float32 with its convolutions in float16 between two casts."""
    b = Builder({"x": (F32, _MAP)})
    y = b.op("cast", "half", _MAP, x=b["x"], dtype="fp16")
    for place in range(4):
        y = b.conv(f"c{place}", y, 64)
    return b.model(b.op("cast", "single", _MAP, F32, x=y, dtype="fp32"))


def _indices(*, computed: bool) -> ir.Model:
    b = Builder({"ids": (I32, (1, 4096)), "x": (F16, (1, 64, 64, 64))})
    ids = b["ids"]
    if computed:
        for place in range(6):
            ids = b.op("add", f"offset{place}", (1, 4096), I32, x=ids, y=1)
    rows = b.op("gather", "rows", (1, 4096, 64), x=_weights(5000, 64), indices=ids, axis=0)
    return b.model(rows, b.conv("c", b["x"], 64))


def _image(*, as_array: bool, dtype: ir.DType = F32) -> ir.Model:
    size = 512
    image = None if as_array else {"image": ir.ImageFeature("RGB", size, size)}
    b = Builder({"image": (dtype, (1, 3, size, size))}, image)
    x = b["image"] if dtype is F16 else b.op("cast", "half", (1, 3, size, size), x=b["image"], dtype="fp16")
    return b.model(b.conv("c", x, 8))


def _spectrogram() -> ir.Model:
    b = Builder({"mel": (F32, (1, 1, 512, 512))})
    x = b.op("cast", "half", (1, 1, 512, 512), x=b["mel"], dtype="fp16")
    return b.model(b.conv("c", x, 8))


def _channels(*, last: bool) -> ir.Model:
    shape = (1, 512, 512, 3) if last else (1, 3, 512, 512)
    b = Builder({"image": (F32, shape)})
    x = b.op("cast", "half", shape, x=b["image"], dtype="fp16")
    if last:
        x = b.op("transpose", "first", (1, 3, 512, 512), x=x, perm=[0, 3, 1, 2])
    return b.model(b.conv("c", x, 8))


def _swapped() -> ir.Model:
    b = Builder({"image": (F32, (1, 3, 512, 512))}, {"image": ir.ImageFeature("RGB", 512, 512)})
    x = b.op("reverse", "swap", (1, 3, 512, 512), F32, x=b["image"], axes=[1])
    x = b.op("cast", "half", (1, 3, 512, 512), x=x, dtype="fp16")
    return b.model(b.conv("c", x, 8))


def _flexible(flexibility: ir.ShapeFlexibility | None) -> ir.Model:
    feature = ir.ArrayFeature(dtype=F16, shape=_MAP, flexibility=flexibility)
    b = Builder({"x": (F16, _MAP)}, {"x": feature})
    ones = ir.constant(np.ones(64, np.float16))
    y = b.conv("c", b["x"], 64)
    y = b.op("layer_norm", "n", _MAP, x=y, axes=[3], gamma=ones, beta=ones, epsilon=np.float16(1e-3))
    return b.model(b.conv("c2", y, 64))


def _unused(*, has_unused: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.conv("c", b["x"], 64)
    if has_unused:
        b.conv("debug", y, 64)
    return b.model(b.conv("c2", y, 64))


def _outputs(*, repeated: bool) -> ir.Model:
    b = Builder({"x": (F16, _MAP)})
    y = b.op("cast", "y", _MAP, F32, x=b.conv("c", b["x"], 64), dtype="fp32")
    return b.model(y, b.op("identity" if repeated else "relu", "z", _MAP, F32, x=y))


def _sequence(*, positions: int, channels: int = 2048) -> ir.Model:
    shape = (1, positions, channels)
    b = Builder({"x": (F16, shape)})
    y = b["x"]
    for place in range(6):
        y = b.op("linear", f"l{place}", shape, x=y, weight=weight(channels, channels))
        y = b.op("relu", f"r{place}", shape, x=y)
    return b.model(y)


def _rank(*extents: int) -> ir.Model:
    b = Builder({"x": (F16, (1, 64, 64, 64))})
    y = b.conv("c", b["x"], 64)
    y = b.op("reshape", "parts", extents, x=y, shape=list(extents))
    for place in range(4):
        y = b.op("relu", f"r{place}", extents, x=y)
    y = b.op("reshape", "whole", _MAP, x=y, shape=list(_MAP))
    return b.model(b.conv("c2", y, 64))


def _axis(length: int) -> ir.Model:
    b = Builder({"x": (F16, (1, 64, 1, length))})
    y = b["x"]
    for place in range(3):
        y = b.conv(f"c{place}", y, 64, kernel=1)
    return b.model(y)


#: For each rule: models that show it, and models that must not.
MODELS: dict[str, tuple[list[ir.Model], list[ir.Model]]] = {
    "batch-norm-behind-activation": (
        [_batch_norm(behind_activation=True)],
        [_batch_norm(behind_activation=False)],
    ),
    "activation-behind-move": ([_activation(late=True)], [_activation(late=False)]),
    "composed-activation": (
        [_gelu(composed=True), _gelu(composed=True, by_tanh=True)],
        [_gelu(composed=False), relu6(composed=True)],
    ),
    "composed-relu6": ([relu6(composed=True)], [relu6(composed=False), _gelu(composed=True)]),
    "redundant-transposes": ([_transposes(0, 3, 1, 2), _transposes(0, 2, 3, 1)], [_transposes(0, 1, 2, 3)]),
    "redundant-reshapes": ([_undone_reshape(), _reshapes(doubled=True), _axes()], [_reshapes(doubled=False)]),
    "redundant-casts": ([_casts(lossless=True)], [_casts(lossless=False)]),
    "redundant-concats": ([_concats(nested=True), _undone_split()], [_concats(nested=False)]),
    "fp32-islands": (
        [_precision(island=True)],
        [_precision(island=False), _program(F32), _recurrent(), _scaled_image()],
    ),
    "fp32-program": ([_program(F32)], [_program(F16), _precision(island=True)]),
    "integer-indices": ([_indices(computed=True)], [_indices(computed=False)]),
    "image-as-array": (
        [_image(as_array=True), _image(as_array=True, dtype=F16)],
        [_image(as_array=False), _spectrogram()],
    ),
    "image-preparation": ([_channels(last=True), _swapped()], [_channels(last=False)]),
    "float32-interface": (
        [interface(F32)],
        [interface(F16), interface(F32, F32)],
    ),
    "flexible-shapes": (
        [
            _flexible(ir.EnumeratedShapes((_MAP, (1, 64, 32, 64)))),
            _flexible(ir.RangeShapes(((1, 1), (64, 64), (1, 64), (64, 64)))),
        ],
        [_flexible(None)],
    ),
    "unused-operations": ([_unused(has_unused=True)], [_unused(has_unused=False)]),
    "needless-outputs": ([_outputs(repeated=True)], [_outputs(repeated=False)]),
    "sequence-layout": ([_sequence(positions=128)], [_sequence(positions=1)]),
    "high-rank": ([_rank(1, 8, 8, 8, 8, 64)], [_rank(1, 64, 64, 64)]),
    "long-axes": ([_axis(20_000)], [_axis(4096)]),
}


def hard_swish(*, rank: int, dtype: ir.DType = F16, thresholded: bool = True) -> ir.Model:
    """A linear layer and a hardswish as coremltools writes it."""
    lead = (4,) * (rank - 1)
    b = Builder({"x": (dtype, (*lead, 16))})
    y = b.op("linear", "fc", (*lead, 32), dtype, x=b["x"], weight=_weights(32, 16, dtype=dtype))
    x = y
    if thresholded:
        x = b.op("thresholded_relu", "from_minus_3", (*lead, 32), dtype, x=y, alpha=dtype.numpy.type(-3))
    given = {"alpha": dtype.numpy.type(1 / 6), "beta": dtype.numpy.type(0.5)}
    gate = b.op("sigmoid_hard", "gate", (*lead, 32), dtype, x=x, **given)
    return b.model(b.op("mul", "swish", (*lead, 32), dtype, x=x, y=gate))


def two_layers() -> ir.Model:
    """Two linear layers with different weights of one shape."""
    b = Builder({"x": (F16, (1, 256))})
    first, second = (
        np.random.default_rng(seed).standard_normal((256, 256)).astype(np.float16) for seed in (0, 1)
    )
    y = b.op("linear", "l1", (1, 256), x=b["x"], weight=ir.constant(first))
    return b.model(b.op("linear", "l2", (1, 256), x=y, weight=ir.constant(second)))


def few_values(count: int) -> ir.Model:
    """A linear layer whose weight holds so many different values."""
    b = Builder({"x": (F16, (1, 256))})
    levels = np.linspace(-1, 1, count).astype(np.float16)
    weight = levels[np.arange(256 * 256) % count].reshape(256, 256)
    return b.model(b.op("linear", "l", (1, 256), x=b["x"], weight=ir.constant(weight)))


def _sums() -> ir.Model:
    """Two convolutions with sums between them that the Neural Engine does not run."""
    wide = (1, 256, 64, 64)
    b = Builder({"x": (F16, wide)})
    y = b.op("cumsum", "sums", wide, x=b.conv("c", b["x"], 256), axis=1, exclusive=False, reverse=False)
    return b.model(b.conv("c2", y, 256))


#: Eight models, by name, whose answers all reports give alike; each is built when a test needs it.
ANSWERED_MODELS: Mapping[str, Callable[[], ir.Model]] = {
    "relu6": partial(relu6, composed=True),
    "single": partial(relu6, composed=False),
    "half": partial(interface, F16),
    "full": partial(interface, F32),
    "sums": _sums,
    **{f"sample-{n}": partial(sample_model, size=n, width=n / 64, classes=10) for n in (32, 64, 128)},
}
