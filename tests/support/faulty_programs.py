"""Programs with one planted fault each, and the right ones: built by coremltools, verified against ONNX"
" or Core ML."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A program with one fault.

    Attributes:
        name: Its name in tables and test ids.
        build: Writes the model into a folder; returns its path and the reference: a path, a module or arrays.
        ops: Plain names of the operations at fault, any of which is right. For an operation that is missing,
            the ones before and behind it.
        causes: The causes that are right.
        inputs: Values of inputs.
        rtol: The tolerance; None for the default one.
    """

    name: str
    build: Callable[[Path], tuple[Path, Any]]
    ops: tuple[str, ...]
    causes: tuple[str, ...]
    inputs: Inputs = field(default_factory=dict)
    rtol: float | None = None


def save_program(program: Any, path: Path, *, fp16: bool) -> Path:
    """Converts a MIL program and saves it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools as ct

        precision = ct.precision.FLOAT16 if fp16 else ct.precision.FLOAT32
        model = ct.convert(
            program,
            convert_to="mlprogram",
            compute_precision=precision,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )
        model.save(str(path))
    return path


def _random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _save_onnx(
    path: Path, nodes: list[Any], weights: dict[str, np.ndarray], shape: list[int], out: Any
) -> Path:
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", out[0], out[1])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    onnx.save(model, str(path))
    return path


def _mb() -> Any:
    from coremltools.converters.mil import Builder

    return Builder


def _program(shape: tuple[int, ...], body: Callable[[Any, Any], Any]) -> Any:
    mb = _mb()

    @mb.program(input_specs=[mb.TensorSpec(shape=shape)], opset_version=_target())
    def program(x: Any) -> Any:
        return body(mb, x)

    return program


def _target() -> Any:
    import coremltools as ct

    return ct.target.iOS17


def _pair(
    shape: tuple[int, ...],
    wrong: Callable[[Any, Any], Any],
    right: Callable[[Any, Any], Any] | None = None,
    *,
    fp16: bool = False,
) -> Callable[[Path], tuple[Path, Path]]:
    """Builds a program and the right one, which is in float32."""

    def build(folder: Path) -> tuple[Path, Path]:
        model = save_program(_program(shape, wrong), folder / "model.mlpackage", fp16=fp16)
        other = _program(shape, right or wrong)
        return model, save_program(other, folder / "reference.mlpackage", fp16=False)

    return build


def _node(op_type: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs.split(), [output], name=f"/{output}/{op_type}", **attributes)


# Heads as many as steps, so that the wrong order has the right shape.
_HEADS = 4


def _heads(perm: list[int]) -> Callable[[Any, Any], Any]:
    weight, out = _random(32, 32, seed=1, scale=0.2), _random(32, 32, seed=2, scale=0.2)

    def body(mb: Any, x: Any) -> Any:
        projected = mb.linear(x=x, weight=weight, name="projected")
        split = mb.reshape(x=projected, shape=[1, _HEADS, _HEADS, 8], name="split")
        heads = mb.transpose(x=split, perm=perm, name="heads")
        active = mb.gelu(x=heads, name="active")
        joined = mb.reshape(x=active, shape=[1, _HEADS, 32], name="joined")
        return mb.linear(x=joined, weight=out, name="y")

    return body


def _layout_onnx(folder: Path) -> tuple[Path, Path]:
    model = save_program(
        _program((1, _HEADS, 32), _heads([0, 1, 2, 3])), folder / "model.mlpackage", fp16=False
    )
    nodes = [
        _node("MatMul", "x w", "h0"),
        _node("Reshape", "h0 s1", "h1"),
        _node("Transpose", "h1", "h2", perm=[0, 2, 1, 3]),
        _node("Div", "h2 r2", "h3"),
        _node("Erf", "h3", "h4"),
        _node("Add", "h4 one", "h5"),
        _node("Mul", "h5 h2", "h6"),
        _node("Mul", "h6 half", "h7"),
        _node("Reshape", "h7 s2", "h8"),
        _node("MatMul", "h8 o", "y"),
    ]
    weights = {
        "w": _random(32, 32, seed=1, scale=0.2).T.copy(),
        "o": _random(32, 32, seed=2, scale=0.2).T.copy(),
        "s1": np.array([1, 4, 4, 8]),
        "s2": np.array([1, 4, 32]),
        "r2": np.array(2**0.5, np.float32),
        "one": np.array(1, np.float32),
        "half": np.array(0.5, np.float32),
    }
    shape = [1, _HEADS, 32]
    return model, _save_onnx(folder / "reference.onnx", nodes, weights, shape, (TensorProto.FLOAT, shape))


def _conv_net(
    weights: list[np.ndarray], scale: float | None = None, bias: bool = True
) -> Callable[[Any, Any], Any]:
    offset = _random(8, seed=9)

    def body(mb: Any, x: Any) -> Any:
        first = mb.conv(x=x, weight=weights[0], pad_type="same", name="stem")
        active = mb.relu(x=first, name="stem_relu")
        second = mb.conv(x=active, weight=weights[1], pad_type="same", name="left")
        active = mb.relu(x=second, name="left_relu")
        third = mb.conv(x=active, weight=weights[2], pad_type="same", name="right")
        if scale is not None:
            third = mb.mul(x=third, y=np.float32(scale), name="scaled")
        if bias:
            third = mb.add(x=third, y=offset.reshape(1, 8, 1, 1), name="shifted")
        pooled = mb.reduce_mean(x=mb.relu(x=third, name="right_relu"), axes=[2, 3], name="pooled")
        return mb.linear(x=pooled, weight=_random(10, 8, seed=8), name="y")

    return body


def _conv_weights() -> list[np.ndarray]:
    return [
        _random(8, 3, 3, 3, seed=1, scale=0.3),
        _random(8, 8, 3, 3, seed=2, scale=0.2),
        _random(8, 8, 3, 3, seed=3, scale=0.2),
    ]


def _conv_onnx(folder: Path, scale: float | None = None) -> Path:
    stem, left, right = _conv_weights()
    nodes = [
        _node("Conv", "x stem.weight", "/stem", pads=[1, 1, 1, 1]),
        _node("Relu", "/stem", "/relu"),
        _node("Conv", "/relu left.weight", "/left", pads=[1, 1, 1, 1]),
        _node("Relu", "/left", "/relu_1"),
        _node("Conv", "/relu_1 right.weight", "/right", pads=[1, 1, 1, 1]),
    ]
    last = "/right"
    weights = {"stem.weight": stem, "left.weight": left, "right.weight": right}
    if scale is not None:
        nodes.append(_node("Mul", f"{last} scale", "/scaled"))
        weights["scale"], last = np.array(scale, np.float32), "/scaled"
    nodes += [
        _node("Add", f"{last} offset", "/shifted"),
        _node("Relu", "/shifted", "/relu_2"),
        _node("ReduceMean", "/relu_2 axes", "/pooled", keepdims=0),
        _node("MatMul", "/pooled fc.weight", "y"),
    ]
    weights["offset"] = _random(8, seed=9).reshape(1, 8, 1, 1)
    weights["fc.weight"] = _random(10, 8, seed=8).T.copy()
    weights["axes"] = np.array([2, 3])
    return _save_onnx(folder / "reference.onnx", nodes, weights, [1, 3, 16, 16], (TensorProto.FLOAT, [1, 10]))


def _against_onnx(body: Callable[[Any, Any], Any], scale: float | None = None, *, fp16: bool = False) -> Any:
    def build(folder: Path) -> tuple[Path, Path]:
        program = _program((1, 3, 16, 16), body)
        return save_program(program, folder / "model.mlpackage", fp16=fp16), _conv_onnx(folder, scale)

    return build


def _swapped_convs() -> Callable[[Any, Any], Any]:
    stem, left, right = _conv_weights()
    return _conv_net([stem, right, left])


def _transposed_weight() -> Callable[[Any, Any], Any]:
    stem, left, right = _conv_weights()
    return _conv_net([stem, left.transpose(1, 0, 2, 3).copy(), right])


def _norm(gamma: np.ndarray, beta: np.ndarray) -> Callable[[Any, Any], Any]:
    def body(mb: Any, x: Any) -> Any:
        projected = mb.linear(x=x, weight=_random(16, 16, seed=1), name="projected")
        normal = mb.layer_norm(
            x=projected, axes=[-1], gamma=gamma, beta=beta, epsilon=np.float32(1e-5), name="normal"
        )
        return mb.linear(x=mb.relu(x=normal, name="active"), weight=_random(4, 16, seed=2), name="y")

    return body


def _difference(is_wrong: bool) -> Callable[[Any, Any], Any]:
    def body(mb: Any, x: Any) -> Any:
        a = mb.linear(x=x, weight=_random(16, 16, seed=1), name="a")
        b = mb.linear(x=x, weight=_random(16, 16, seed=2), name="b")
        apart = mb.sub(x=b, y=a, name="apart") if is_wrong else mb.sub(x=a, y=b, name="apart")
        return mb.linear(x=mb.softplus(x=apart, name="soft"), weight=_random(4, 16, seed=3), name="y")

    return body


def _slope(alpha: float) -> Callable[[Any, Any], Any]:
    def body(mb: Any, x: Any) -> Any:
        a = mb.linear(x=x, weight=_random(16, 16, seed=1), name="a")
        leaky = mb.leaky_relu(x=a, alpha=np.float32(alpha), name="leaky")
        return mb.linear(x=leaky, weight=_random(4, 16, seed=3), name="y")

    return body


def _quantised(is_wrong: bool) -> Callable[[Any, Any], Any]:
    def body(mb: Any, x: Any) -> Any:
        a = mb.linear(x=x, weight=_random(16, 16, seed=1), name="a")
        if is_wrong:
            a = mb.cast(x=mb.cast(x=a, dtype="int32", name="whole"), dtype="fp32", name="back")
        return mb.linear(x=mb.tanh(x=a, name="bounded"), weight=_random(4, 16, seed=3), name="y")

    return body


def _rms(mb: Any, x: Any) -> Any:
    grown = mb.linear(x=x, weight=_random(64, 16, seed=1, scale=120), name="grown")
    squares = mb.mul(x=grown, y=grown, name="squares")
    mean = mb.reduce_mean(x=squares, axes=[-1], keep_dims=True, name="mean")
    normal = mb.mul(x=grown, y=mb.rsqrt(x=mean, epsilon=np.float32(1e-6), name="inverse"), name="normal")
    return mb.linear(x=normal, weight=_random(4, 64, seed=3), name="y")


def _added_epsilon(dtype: type) -> Callable[[Any, Any], Any]:
    """As converters before version 8 wrote it: the epsilon is zero in fp16."""

    def body(mb: Any, x: Any) -> Any:
        x = mb.cast(x=x, dtype="fp16", name="half") if dtype is np.float16 else x
        squares = mb.mul(x=x, y=x, name="squares")
        mean = mb.reduce_mean(x=squares, axes=[-1], keep_dims=True, name="mean")
        safe = mb.add(x=mean, y=dtype(1e-12), name="safe")
        root = mb.rsqrt(x=safe, epsilon=dtype(0), name="root")
        normal = mb.mul(x=x, y=root, name="normal")
        out = mb.linear(x=normal, weight=_random(4, 16, seed=3).astype(dtype), name="out")
        return mb.cast(x=out, dtype="fp32", name="y")

    return body


def _log_epsilon(dtype: type) -> Callable[[Any, Any], Any]:
    def body(mb: Any, x: Any) -> Any:
        x = mb.cast(x=x, dtype="fp16", name="half") if dtype is np.float16 else x
        a = mb.linear(x=x, weight=_random(16, 16, seed=1).astype(dtype), name="a")
        rectified = mb.relu(x=a, name="rectified")
        logged = mb.log(x=rectified, epsilon=dtype(1e-10), name="logged")
        out = mb.linear(x=logged, weight=_random(4, 16, seed=3).astype(dtype), name="out")
        return mb.cast(x=out, dtype="fp32", name="y")

    return body


def _near_tie(mb: Any, x: Any) -> Any:
    logits = mb.linear(x=x, weight=_random(16, 16, seed=1), name="logits")
    near = mb.add(x=logits, y=np.float32(500), name="near")
    return mb.reduce_argmax(x=near, axis=-1, name="y")


def _positions(mb: Any, x: Any) -> Any:
    places = mb.mul(x=x, y=np.float32(3000), name="places")
    angles = mb.add(x=places, y=_random(1, 64, seed=1), name="angles")
    waves = mb.sin(x=angles, name="waves")
    return mb.linear(x=waves, weight=_random(4, 64, seed=3), name="y")


def _log_complement(mb: Any, x: Any) -> Any:
    gate = mb.sigmoid(x=mb.mul(x=x, y=np.float32(4), name="steep"), name="gate")
    rest = mb.sub(x=np.float32(1), y=gate, name="rest")
    logged = mb.log(x=rest, epsilon=np.float32(0), name="logged")
    return mb.linear(x=logged, weight=_random(4, 16, seed=3), name="y")


def _log_softmax(mb: Any, x: Any) -> Any:
    logits = mb.mul(x=x, y=np.float32(9), name="logits")
    shares = mb.softmax(x=logits, axis=-1, name="shares")
    logged = mb.log(x=shares, epsilon=np.float32(0), name="logged")
    return mb.linear(x=logged, weight=_random(4, 16, seed=3), name="y")


def _variance(mb: Any, x: Any) -> Any:
    moved = mb.add(x=x, y=np.float32(40), name="moved")
    mean = mb.reduce_mean(x=moved, axes=[-1], keep_dims=True, name="mean")
    squares = mb.mul(x=moved, y=moved, name="squares")
    square = mb.reduce_mean(x=squares, axes=[-1], keep_dims=True, name="square")
    variance = mb.sub(x=square, y=mb.mul(x=mean, y=mean, name="mean_square"), name="variance")
    scaled = mb.real_div(x=x, y=mb.add(x=variance, y=np.float32(0.1), name="safe"), name="scaled")
    return mb.linear(x=scaled, weight=_random(4, 32, seed=3), name="y")


def _running_sum(mb: Any, x: Any) -> Any:
    total = mb.cumsum(x=x, axis=1, name="total")
    step = mb.sub(
        x=mb.slice_by_size(x=total, begin=[0, 1], size=[1, 4095], name="later"),
        y=mb.slice_by_size(x=total, begin=[0, 0], size=[1, 4095], name="earlier"),
        name="step",
    )
    return mb.reduce_max(x=mb.reshape(x=step, shape=[1, 63, 65], name="rows"), axes=[-1], name="y")


def _small_products(mb: Any, x: Any) -> Any:
    share = mb.softmax(x=mb.mul(x=x, y=np.float32(0.2), name="even"), axis=-1, name="share")
    squares = mb.mul(x=share, y=share, name="squares")
    product = mb.mul(x=squares, y=squares, name="product")
    total = mb.reduce_sum(x=product, axes=[-1], keep_dims=True, name="total")
    normal = mb.real_div(x=product, y=total, name="normal")
    return mb.linear(x=normal, weight=_random(4, 64, seed=3), name="y")


def _overflowing_attention(mb: Any, x: Any) -> Any:
    query = mb.linear(x=x, weight=_random(64, 64, seed=1, scale=10), name="query")
    key = mb.linear(x=x, weight=_random(64, 64, seed=2, scale=10), name="key")
    value = mb.linear(x=x, weight=_random(64, 64, seed=4, scale=0.2), name="value")
    scores = mb.matmul(x=query, y=key, transpose_y=True, name="scores")
    scaled = mb.mul(x=scores, y=np.float32(1 / 512), name="scaled")
    shares = mb.softmax(x=scaled, axis=-1, name="shares")
    return mb.matmul(x=shares, y=value, name="y")


def _swapped_norm() -> Callable[[Path], tuple[Path, Path]]:
    gamma, beta = _random(16, seed=5), _random(16, seed=6)
    return _pair((2, 16), _norm(beta, gamma), _norm(gamma, beta))


_ZERO_ROW = np.concatenate([_random(3, 16, seed=11), np.zeros((1, 16), np.float32)])


def _two_layers(folder: Path, body: Callable[[Any, Any], Any], *, norm: bool) -> tuple[Path, Path]:
    """Writes a program, and the reference: two convolutions with a normalization or ReLU between them."""
    weights = {"c.weight": _random(8, 3, 3, 3, seed=21), "d.weight": _random(4, 8, 1, 1, seed=22)}
    weights |= {name: array for name, array in _NORM.items() if norm}
    middle = _node("BatchNormalization", "/c n.weight n.bias n.mean n.var", "/m", epsilon=1e-3)
    nodes = [
        _node("Conv", "x c.weight", "/c"),
        middle if norm else _node("Relu", "/c", "/m"),
        _node("Conv", "/m d.weight", "y"),
    ]
    model = save_program(_program((1, 3, 8, 8), body), folder / "model.mlpackage", fp16=False)
    out = (TensorProto.FLOAT, [1, 4, 6, 6])
    return model, _save_onnx(folder / "reference.onnx", nodes, weights, [1, 3, 8, 8], out)


_NORM = {
    "n.weight": np.abs(_random(8, seed=23)) + 0.5,
    "n.bias": _random(8, seed=24),
    "n.mean": _random(8, seed=25),
    "n.var": np.abs(_random(8, seed=26)) + 0.5,
}


def _folded_norm(mb: Any, x: Any) -> Any:
    """The normalization is folded into the first layer, whose weight is too large."""
    scale = _NORM["n.weight"] / np.sqrt(_NORM["n.var"] + 1e-3)
    weight = _random(8, 3, 3, 3, seed=21) * scale.reshape(8, 1, 1, 1) * np.float32(1.5)
    bias = _NORM["n.bias"] - _NORM["n.mean"] * scale
    y = mb.conv(x=x, weight=weight, bias=bias, name="folded")
    return mb.conv(x=y, weight=_random(4, 8, 1, 1, seed=22), name="y")


def _without_relu(mb: Any, x: Any) -> Any:
    y = mb.conv(x=x, weight=_random(8, 3, 3, 3, seed=21), name="first")
    return mb.conv(x=y, weight=_random(4, 8, 1, 1, seed=22), name="y")


def _unbounded(factor: float) -> Callable[[Any, Any], Any]:
    """A bound that is infinite on purpose, behind a layer."""

    def body(mb: Any, x: Any) -> Any:
        y = mb.linear(x=x, weight=_random(8, 16, seed=27) * np.float32(factor), name="layer")
        return mb.mul(x=mb.clip(x=y, alpha=0.0, beta=np.float32(np.inf), name="bounded"), y=2.0, name="y")

    return body


PROGRAMS: tuple[Planted, ...] = (
    Planted(
        name="folded-norm",
        build=lambda folder: _two_layers(folder, _folded_norm, norm=True),
        ops=("folded",),
        causes=("weights",),
    ),
    Planted(
        name="missing-relu",
        build=lambda folder: _two_layers(folder, _without_relu, norm=False),
        ops=("first", "y"),
        causes=("missing operation",),
    ),
    Planted(
        name="infinite-bound",
        build=_pair((2, 16), _unbounded(1.5), _unbounded(1)),
        ops=("layer",),
        causes=("weights",),
    ),
    Planted(name="layout-heads", build=_layout_onnx, ops=("active", "joined"), causes=("layout",)),
    Planted(
        name="swapped-convolutions",
        build=_against_onnx(_swapped_convs()),
        ops=("left",),
        causes=("swapped weights",),
    ),
    Planted(
        name="transposed-weight", build=_against_onnx(_transposed_weight()), ops=("left",), causes=("layout",)
    ),
    Planted(
        name="dropped-scale",
        build=_against_onnx(_conv_net(_conv_weights()), 0.125),
        ops=("right", "shifted"),
        causes=("scale",),
    ),
    Planted(
        name="dropped-scale-fp16",
        build=_against_onnx(_conv_net(_conv_weights()), 0.125, fp16=True),
        ops=("right", "shifted"),
        causes=("scale",),
    ),
    Planted(name="swapped-gamma-beta", build=_swapped_norm(), ops=("normal",), causes=("swapped weights",)),
    Planted(
        name="sign",
        build=_pair((2, 16), _difference(True), _difference(False)),
        ops=("apart",),
        causes=("sign", "setting"),
    ),
    Planted(
        name="slope", build=_pair((2, 16), _slope(0.2), _slope(0.01)), ops=("leaky",), causes=("setting",)
    ),
    Planted(
        name="cast",
        build=_pair((2, 16), _quantised(True), _quantised(False)),
        ops=("whole", "cast_1"),
        causes=("cast",),
    ),
    Planted(
        name="overflow-squares", build=_pair((2, 16), _rms, fp16=True), ops=("squares",), causes=("overflow",)
    ),
    Planted(
        name="overflow-attention",
        build=_pair((1, 8, 64), _overflowing_attention, fp16=True),
        ops=("scores",),
        causes=("overflow",),
    ),
    Planted(
        name="epsilon-added",
        build=_pair((4, 16), _added_epsilon(np.float16), _added_epsilon(np.float32)),
        ops=("safe", "root"),
        causes=("epsilon",),
        inputs={"x": _ZERO_ROW},
    ),
    Planted(
        name="epsilon-log",
        build=_pair((4, 16), _log_epsilon(np.float16), _log_epsilon(np.float32)),
        ops=("logged",),
        causes=("epsilon",),
    ),
    Planted(name="tie", build=_pair((64, 16), _near_tie, fp16=True), ops=("y", "near"), causes=("tie",)),
    Planted(
        name="large-angles",
        build=_pair((2, 64), _positions, fp16=True),
        ops=("waves", "angles", "places"),
        causes=("integers",),
    ),
    Planted(
        name="saturating-sigmoid",
        build=_pair((4, 16), _log_complement, fp16=True),
        ops=("gate", "rest"),
        causes=("cancellation",),
    ),
    Planted(
        name="vanishing-softmax",
        build=_pair((4, 16), _log_softmax, fp16=True),
        ops=("shares",),
        causes=("underflow",),
    ),
    Planted(
        name="cancellation",
        build=_pair((4, 32), _variance, fp16=True),
        ops=("variance",),
        causes=("cancellation",),
    ),
    Planted(
        name="accumulation",
        build=_pair((1, 4096), _running_sum, fp16=True),
        ops=("total", "step"),
        causes=("accumulation", "cancellation"),
        inputs={"x": np.abs(_random(1, 4096, seed=12))},
    ),
    Planted(
        name="denormals",
        build=_pair((4, 64), _small_products, fp16=True),
        ops=("product", "squares"),
        causes=("underflow",),
    ),
)
