"""The kinds of layers that an expression can name: one row each, with options and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.formats.expressions.building import LayerBuilder, Parameter
from coremlscope.formats.expressions.parsing import OptionValue, describe_value
from coremlscope.model.ir import DType, TensorType, Value, constant
from coremlscope.ops import OPS

_IMAGE = (1, 64, 56, 56)
_TOKENS = (1, 128, 768)


class Options(msgspec.Struct, frozen=True):
    """The options of one layer, checked when they are read.

    Attributes:
        kind: The kind of layer, for errors.
        values: All options, with defaults.
    """

    kind: str
    values: Mapping[str, OptionValue]

    def integer(self, name: str) -> int:
        """Returns a whole number."""
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "a whole number")
        return value

    def number(self, name: str) -> float:
        """Returns a number."""
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """Returns true or false."""
        value = self.values[name]
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def word(self, name: str, *words: str) -> str:
        """Returns one of several words."""
        value = self.values[name]
        if value not in words:
            raise self._wrong(name, " or ".join(words))
        return str(value)

    def sizes(self, name: str) -> list[int]:
        """Returns numbers that are joined by `x`; a single number is a list of one."""
        value = self.values[name]
        if isinstance(value, tuple):
            return list(value)
        return [self.integer(name)]

    def each(self, name: str, count: int, *, least: int = 0) -> list[int]:
        """Returns a number for each of some dimensions; a single one is for all."""
        sizes = self.sizes(name)
        if len(sizes) not in (1, count):
            raise self._wrong(name, f"a number, or {count} joined by x")
        if min(sizes) < least:
            raise self._wrong(name, f"{least} or more")
        return sizes * count if len(sizes) == 1 else sizes

    def _wrong(self, name: str, expected: str) -> UsageError:
        value = describe_value(self.values[name])
        return UsageError(f"{name}={value} of {self.kind} is not {expected}", f"give {expected}")


#: Adds a layer to a program and returns its results.
Build = Callable[[LayerBuilder, Value, Options], list[Value]]


class LayerKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of layer.

    Attributes:
        name: Its name; that of the operation where there is one.
        doc: What it computes.
        shape: The default shape of its input.
        options: Its options with their defaults, besides `shape`, `dtype` and `repeat`.
        build: Adds a layer.
        takes: The element type of its input; None for that of the layer.
    """

    name: str
    doc: str
    shape: tuple[int, ...] = _IMAGE
    options: Mapping[str, OptionValue] = msgspec.field(default_factory=dict)
    build: Build
    takes: DType | None = None


def _shape(value: Value) -> list[int]:
    assert isinstance(value.type, TensorType)
    return [d or 1 for d in value.type.shape or ()]


def _spatial(b: Value, o: Options) -> int:
    rank = len(_shape(b))
    if not 3 <= rank <= 5:
        raise UsageError(
            f"{o.kind} takes batch, channels and 1 to 3 further dimensions, not {rank} in all",
            "write the shape as 1x64x56x56",
        )
    return rank - 2


def _padding(o: Options, spatial: int) -> dict[str, Parameter]:
    """The padding of a window: `same`, `valid`, or a number on every side."""
    value = o.values["pad"]
    if value in ("same", "valid"):
        return {"pad_type": str(value), "pad": [0] * 2 * spatial}
    if isinstance(value, str):
        o.word("pad", "same", "valid", "a number")
    return {"pad_type": "custom", "pad": [side for side in o.each("pad", spatial) for _ in range(2)]}


def _conv(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    spatial, channels = _spatial(x, o), _shape(x)[1]
    groups = channels if o.kind == "depthwise" else o.integer("groups")
    multiplier = o.integer("multiplier") if o.kind == "depthwise" else 1
    out = channels * multiplier if o.kind == "depthwise" else o.integer("channels")
    if groups < 1 or channels % groups or out % groups or out < 1:
        raise UsageError(
            f"{o.kind} cannot divide {channels} input and {out} output channels into {groups} groups",
            "give a number of groups that divides both",
        )
    bias: dict[str, Parameter] = {"bias": b.weight(out)} if o.flag("bias") else {}
    return b.op(
        "conv",
        x=x,
        weight=b.weight(out, channels // groups, *o.each("kernel", spatial, least=1)),
        **bias,
        strides=o.each("stride", spatial, least=1),
        dilations=o.each("dilations", spatial, least=1),
        groups=groups,
        **_padding(o, spatial),
    )


def _conv_transpose(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    spatial, channels, out, groups = _spatial(x, o), _shape(x)[1], o.integer("channels"), o.integer("groups")
    if groups < 1 or channels % groups or out % groups or out < 1:
        raise UsageError(f"{groups} groups do not divide {channels} and {out} channels", "change groups")
    bias: dict[str, Parameter] = {"bias": b.weight(out)} if o.flag("bias") else {}
    return b.op(
        "conv_transpose",
        x=x,
        weight=b.weight(channels, out // groups, *o.each("kernel", spatial, least=1)),
        **bias,
        strides=o.each("stride", spatial, least=1),
        dilations=o.each("dilations", spatial, least=1),
        groups=groups,
        **_padding(o, spatial),
    )


def _linear(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    out = o.integer("channels")
    bias: dict[str, Parameter] = {"bias": b.weight(out)} if o.flag("bias") else {}
    return b.op("linear", x=x, weight=b.weight(out, _shape(x)[-1]), **bias)


def _matmul(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    *outer, inner = _shape(x)
    is_turned, columns = o.flag("transpose_y"), o.integer("columns")
    sizes = (*outer[:-1], *((columns, inner) if is_turned else (inner, columns)))
    y = b.weight(*sizes) if o.flag("constant") else b.input("y", sizes)
    return b.op("matmul", x=x, y=y, transpose_x=False, transpose_y=is_turned)


def _einsum(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    shape = _shape(x)
    if len(shape) != 4:
        raise UsageError("einsum takes four dimensions", "write the shape as 1x64x128x56")
    y = b.input("y", (shape[0], shape[3], shape[2], o.integer("columns")))
    return b.op("einsum", values=[x, y], equation="nchw,nwhu->nchu")


def _sdpa(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    *outer, _, size = _shape(x)
    length = o.integer("keys")
    key, value = (b.input(name, (*outer, length, size)) for name in ("key", "value"))
    return b.op("scaled_dot_product_attention", query=x, key=key, value=value)


def _layer_norm(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    axes = o.sizes("axes")
    sizes = [_shape(x)[axis] for axis in axes if -len(_shape(x)) <= axis < len(_shape(x))]
    scale: dict[str, Parameter] = (
        {"gamma": b.weight(*sizes), "beta": b.weight(*sizes)} if o.flag("affine") else {}
    )
    return b.op("layer_norm", x=x, axes=axes, **scale, epsilon=o.number("epsilon"))


def _batch_norm(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    channels = _shape(x)[1]
    zeros, ones = ([value] * channels for value in (0.0, 1.0))
    return b.op(
        "batch_norm",
        x=x,
        mean=b.floats(zeros),
        variance=b.floats(ones),
        gamma=b.weight(channels),
        beta=b.weight(channels),
        epsilon=o.number("epsilon"),
    )


def _instance_norm(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    channels = _shape(x)[1]
    return b.op(
        "instance_norm", x=x, gamma=b.weight(channels), beta=b.weight(channels), epsilon=o.number("epsilon")
    )


def _pool(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    spatial = _spatial(x, o)
    extra: dict[str, Parameter] = {} if o.kind == "l2_pool" else {"ceil_mode": o.flag("ceil_mode")}
    if o.kind == "avg_pool":
        extra["exclude_padding_from_average"] = o.flag("exclude_padding")
    return b.op(
        o.kind,
        x=x,
        kernel_sizes=o.each("kernel", spatial, least=1),
        strides=o.each("stride", spatial, least=1),
        **_padding(o, spatial),
        **extra,
    )


def _upsample(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    across = {f"scale_factor_{name}": o.integer("scale") for name in ("height", "width")}
    if o.word("mode", "bilinear", "nearest") == "nearest":
        return b.op("upsample_nearest_neighbor", x=x, **across)
    factors = {name: constant(float(value)) for name, value in across.items()}
    return b.op("upsample_bilinear", x=x, **factors, align_corners=o.flag("align_corners"))


def _resize(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    height, width = o.each("size", 2)
    sizes: dict[str, Parameter] = {"target_size_height": height, "target_size_width": width}
    if o.word("mode", "bilinear", "nearest") == "nearest":
        return b.op("resize_nearest_neighbor", x=x, **sizes)
    sampling = o.word("sampling", "DEFAULT", "ALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS")
    return b.op("resize_bilinear", x=x, **sizes, sampling_mode=sampling)


def _gather(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    indices = b.input("indices", (o.integer("indices"),), DType.INT32)
    return b.op("gather", x=x, indices=indices, axis=o.integer("axis"), batch_dims=0, validate_indices=False)


def _embedding(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    table = b.weight(o.integer("rows"), o.integer("channels"))
    return b.op("gather", x=table, indices=x, axis=0, batch_dims=0, validate_indices=False)


def _recurrent(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[o.kind]
    shape, hidden = _shape(x), o.integer("hidden")
    if len(shape) != 3:
        raise UsageError(f"{o.kind} takes steps, batch and channels", "write the shape as 128x1x64")
    _, batch, channels = shape
    states: dict[str, Parameter] = {"initial_h": b.input("initial_h", (batch, hidden))}
    if o.kind == "lstm":
        states["initial_c"] = b.input("initial_c", (batch, hidden))
    parameters: dict[str, Parameter] = {
        "weight_ih": b.weight(gates * hidden, channels),
        "weight_hh": b.weight(gates * hidden, hidden),
        "bias": b.weight(gates * hidden),
        "direction": o.word("direction", "forward", "reverse"),
        "output_sequence": o.flag("sequence"),
    }
    return b.ops(o.kind, 1 + len(states), x=x, **states, **parameters)[:1]


def _unary(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    given: dict[str, Parameter] = {
        name: o.number(name) for name in ("alpha", "beta", "epsilon") if name in o.values
    }
    if "mode" in o.values:
        given["mode"] = o.word("mode", *_GELU)
    return b.op(o.kind, x=x, **given)


def _prelu(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    del o
    return b.op("prelu", x=x, alpha=b.weight(_shape(x)[1]))


def _binary(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    sizes = _shape(x)
    return b.op(o.kind, x=x, y=b.weight(*sizes) if o.flag("constant") else b.input("y", sizes))


def _select(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    del o
    y = b.input("y", _shape(x))
    (mask,) = b.op("greater", x=x, y=y)
    return b.op("select", cond=mask, a=x, b=y)


def _reduce(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    extra: dict[str, Parameter] = {"epsilon": o.number("epsilon")} if "epsilon" in o.values else {}
    return b.op(o.kind, x=x, axes=o.sizes("axes"), keep_dims=o.flag("keep_dims"), **extra)


def _arg_reduce(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    return b.op(o.kind, x=x, axis=o.integer("axis"), keep_dims=o.flag("keep_dims"))


def _topk(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    return b.ops("topk", 2, x=x, k=o.integer("k"), axis=o.integer("axis"), ascending=False)


def _concat(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    others = [b.input(f"x{index}", _shape(x)) for index in range(1, o.integer("count"))]
    extra: dict[str, Parameter] = {"interleave": False} if o.kind == "concat" else {}
    return b.op(o.kind, values=[x, *others], axis=o.integer("axis"), **extra)


def _split(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    count = o.integer("count")
    if not 1 <= count <= 64:
        raise UsageError(f"split gives 1 to 64 parts, not {count}", "give a smaller count")
    return b.ops("split", count, x=x, num_splits=count, axis=o.integer("axis"))


def _slice(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    return b.op("slice_by_size", x=x, begin=o.each("begin", len(_shape(x))), size=o.sizes("size"))


def _pad(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    sides = [0] * 2 * (len(_shape(x)) - 2) + [o.integer("amount")] * 4
    mode = o.word("mode", "constant", "reflect", "replicate")
    return b.op("pad", x=x, pad=sides, mode=mode, constant_val=0.0)


def _plain(**names: str) -> Build:
    """Returns what adds an operation with one parameter for each option: its name, and how it is read."""

    def build(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
        given: dict[str, Parameter] = {name: getattr(o, read)(name) for name, read in names.items()}
        return b.op(o.kind, x=x, **given)

    return build


def _reshape(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    return b.op("reshape", x=x, shape=o.sizes("to"))


def _cast(b: LayerBuilder, x: Value, o: Options) -> list[Value]:
    return b.op("cast", x=x, dtype=o.word("to", "fp16", "fp32", "int32", "bool", "int8", "uint8"))


def _kind(
    name: str,
    build: Build,
    options: Mapping[str, OptionValue] | None = None,
    *,
    shape: tuple[int, ...] = _IMAGE,
    doc: str = "",
    takes: DType | None = None,
) -> LayerKind:
    text = doc or OPS[name].doc
    return LayerKind(name=name, doc=text, shape=shape, options=options or {}, build=build, takes=takes)


_GELU = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
_WINDOW: Mapping[str, OptionValue] = {"kernel": 3, "stride": 1, "dilations": 1, "pad": "same"}
_POOL: Mapping[str, OptionValue] = {"kernel": 2, "stride": 2, "pad": "valid"}
_SCORES = (1, 12, 128, 128)
_PLAIN_UNARY = (
    *("relu", "relu6", "sigmoid", "tanh", "silu", "softplus", "softsign", "erf", "exp", "exp2", "sqrt"),
    *("abs", "square", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "floor", "ceil", "round"),
    *("sign", "identity"),
)
_BINARY = ("add", "sub", "mul", "real_div", "floor_div", "mod", "pow", "maximum", "minimum")
_COMPARE = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
_REDUCE = ("mean", "sum", "max", "min", "prod", "l1_norm", "l2_norm", "sum_square", "log_sum_exp")

_PRODUCTS = (
    _kind("conv", _conv, {**_WINDOW, "channels": 64, "groups": 1, "bias": True}),
    _kind(
        "depthwise",
        _conv,
        {**_WINDOW, "multiplier": 1, "bias": True},
        doc="A convolution of each channel alone.",
    ),
    _kind(
        "conv_transpose",
        _conv_transpose,
        {"kernel": 2, "stride": 2, "dilations": 1, "pad": "valid", "channels": 64, "groups": 1, "bias": True},
    ),
    _kind("linear", _linear, {"channels": 768, "bias": True}, shape=_TOKENS),
    _kind(
        "matmul",
        _matmul,
        {"columns": 128, "transpose_y": False, "constant": False},
        shape=(1, 12, 128, 64),
    ),
    _kind("einsum", _einsum, {"columns": 128}, shape=(1, 64, 12, 128)),
    _kind("sdpa", _sdpa, {"keys": 128}, shape=(1, 12, 128, 64), doc=OPS["scaled_dot_product_attention"].doc),
    *(
        _kind(name, _recurrent, {"hidden": 128, "direction": "forward", "sequence": True}, shape=(128, 1, 64))
        for name in ("lstm", "gru", "rnn")
    ),
)

_NORMS = (
    _kind("softmax", _plain(axis="integer"), {"axis": -1}, shape=_SCORES),
    _kind("layer_norm", _layer_norm, {"axes": -1, "affine": True, "epsilon": 1e-5}, shape=_TOKENS),
    _kind("batch_norm", _batch_norm, {"epsilon": 1e-5}),
    _kind("instance_norm", _instance_norm, {"epsilon": 1e-5}),
    _kind("l2_norm", _plain(epsilon="number"), {"epsilon": 1e-5}),
    _kind(
        "local_response_norm",
        _plain(size="integer", alpha="number", beta="number", k="number"),
        {"size": 5, "alpha": 1e-4, "beta": 0.75, "k": 1.0},
    ),
)

_MAPS = (
    _kind("max_pool", _pool, {**_POOL, "ceil_mode": False}),
    _kind("avg_pool", _pool, {**_POOL, "ceil_mode": False, "exclude_padding": False}),
    _kind("l2_pool", _pool, _POOL),
    _kind(
        "upsample",
        _upsample,
        {"scale": 2, "mode": "bilinear", "align_corners": False},
        doc="Enlarges images by a whole number.",
    ),
    _kind(
        "resize",
        _resize,
        {"size": (112, 112), "mode": "bilinear", "sampling": "DEFAULT"},
        doc="Resizes images to a height and width.",
    ),
    _kind("pixel_shuffle", _plain(upscale_factor="integer"), {"upscale_factor": 2}),
    _kind("depth_to_space", _plain(block_size="integer"), {"block_size": 2}),
    _kind("space_to_depth", _plain(block_size="integer"), {"block_size": 2}),
    _kind("pad", _pad, {"amount": 1, "mode": "constant"}),
)

_ELEMENTWISE = (
    *(_kind(name, _unary) for name in _PLAIN_UNARY),
    _kind("log", _unary, {"epsilon": 1e-6}),
    _kind("rsqrt", _unary, {"epsilon": 1e-6}),
    _kind("leaky_relu", _unary, {"alpha": 0.1}),
    _kind("elu", _unary, {"alpha": 1.0}),
    _kind("thresholded_relu", _unary, {"alpha": 1.0}),
    _kind("sigmoid_hard", _unary, {"alpha": 0.2, "beta": 0.5}),
    _kind("scaled_tanh", _unary, {"alpha": 1.7, "beta": 0.6}),
    _kind("clip", _unary, {"alpha": 0.0, "beta": 6.0}),
    _kind("gelu", _unary, {"mode": "EXACT"}, shape=_TOKENS),
    _kind("prelu", _prelu),
    *(_kind(name, _binary, {"constant": False}) for name in (*_BINARY, *_COMPARE)),
    _kind("select", _select),
    _kind("cast", _cast, {"to": "fp32"}),
)

_REDUCTIONS = (
    *(_kind(f"reduce_{name}", _reduce, {"axes": (2, 3), "keep_dims": True}) for name in _REDUCE),
    *(_kind(f"reduce_{name}", _arg_reduce, {"axis": 1, "keep_dims": False}) for name in ("argmax", "argmin")),
    _kind("topk", _topk, {"k": 5, "axis": -1}, shape=(1, 1000)),
    _kind("argsort", _plain(axis="integer"), {"axis": -1}, shape=(1, 1000)),
    _kind(
        "cumsum",
        _plain(axis="integer", exclusive="flag", reverse="flag"),
        {"axis": 1, "exclusive": False, "reverse": False},
    ),
)

_MOVES = (
    _kind("gather", _gather, {"indices": 16, "axis": 1}, shape=(1, 1000, 64)),
    _kind(
        "embedding",
        _embedding,
        {"rows": 30000, "channels": 768},
        shape=(1, 128),
        doc="Rows of a table.",
        takes=DType.INT32,
    ),
    _kind("reshape", _reshape, {"to": (1, 64, 3136)}),
    _kind("transpose", _plain(perm="sizes"), {"perm": (0, 2, 3, 1)}),
    _kind("concat", _concat, {"count": 2, "axis": 1}),
    _kind("stack", _concat, {"count": 2, "axis": 1}, shape=(1, 64, 56)),
    _kind("split", _split, {"count": 2, "axis": 1}),
    _kind("slice_by_size", _slice, {"begin": 0, "size": (1, 32, 56, 56)}),
    _kind("tile", _plain(reps="sizes"), {"reps": (1, 2, 1, 1)}),
    _kind("expand_dims", _plain(axes="sizes"), {"axes": 1}),
    _kind("squeeze", _plain(axes="sizes"), {"axes": 0}),
    _kind("reverse", _plain(axes="sizes"), {"axes": -1}),
    _kind("band_part", _plain(lower="integer", upper="integer"), {"lower": -1, "upper": 0}, shape=_SCORES),
)

_ROWS = (*_PRODUCTS, *_NORMS, *_MAPS, *_ELEMENTWISE, *_REDUCTIONS, *_MOVES)

#: Kinds of layers by name.
KINDS: Mapping[str, LayerKind] = {row.name: row for row in _ROWS}
assert len(KINDS) == len(_ROWS)
