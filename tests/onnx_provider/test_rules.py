"""An accept and a reject example for each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.rules.general import CONDITIONS, EARLY_INT64
from coremlscope.planning.onnxruntime.rules.table import OPERATORS
from tests.onnx_provider.build import BOOL, HALF, INT32, INT64, Built

N, M = "neuralnetwork", "mlprogram"
IMAGE = [1, 4, 8, 8]


def _op(op: str, *inputs: Any, opset: int = 17, **attributes: Any) -> Callable[[], Built]:
    """Returns what builds one operator: inputs are shapes, (shape, type) or arrays of constants."""

    def build() -> Built:
        built = Built(opset)
        names = []
        for one in inputs:
            if one is None:
                names.append("")
            elif isinstance(one, np.ndarray):
                names.append(built.constant(one))
            elif isinstance(one, tuple):
                names.append(built.input(*one))
            else:
                names.append(built.input(one))
        built.node(op, *names, **{"shape": IMAGE, **attributes})
        return built

    return build


def _constant(*shape: int, value: float = 0.5) -> np.ndarray[Any, Any]:
    return np.full(shape, value, np.float32)


def _ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _argmax(casts: int) -> Callable[[], Built]:
    def build() -> Built:
        built = Built()
        found = built.node("ArgMax", built.input([3, 2]), shape=[1, 2], dtype=INT64)
        for to in [6, 1][:casts]:
            built.node("Cast", found, shape=[1, 2], dtype=INT32, to=to)
        return built

    return build


def _cast(dtype: DType, to: int, *, of_input: bool = False) -> Callable[[], Built]:
    def build() -> Built:
        built = Built()
        value = built.input([3, 2], dtype)
        if not of_input:
            value = built.node("Relu", built.input([3, 2]), shape=[3, 2], dtype=dtype)
        built.node("Cast", value, shape=[3, 2], to=to)
        return built

    return build


def _weights(*, external: bool) -> Callable[[], Built]:
    def build() -> Built:
        built = Built()
        weight = built.constant(_constant(4, 4, 1, 1), external=external)
        built.node("Conv", built.input(IMAGE), weight, shape=IMAGE)
        return built

    return build


def _reduce(axes: Any, *, raw: bool = False) -> Callable[[], Built]:
    def build() -> Built:
        built = Built(18)
        built.node(
            "ReduceMean",
            built.input(IMAGE),
            built.constant(axes, raw=raw) if axes is not None else built.input([1], INT64),
            shape=IMAGE,
            noop_with_empty_axes=0 if axes is None else 1,
        )
        return built

    return build


CONV = (IMAGE, _constant(4, 4, 3, 3))
SCALE = _constant(4, value=1.0)
RESIZE: Mapping[str, Any] = {
    "mode": "nearest",
    "nearest_mode": "floor",
    "coordinate_transformation_mode": "asymmetric",
}
SCALES = (IMAGE, None, np.array([1, 1, 2, 2], np.float32))
SIZES = (IMAGE, None, None, _ints(1, 4, 16, 16))
LINEAR = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}

#: For each rule: the format, the release, the version of Core ML; what it accepts and what it rejects.
CASES: Mapping[str, tuple[str, tuple[int, int], Callable[[], Built], Callable[[], Built]]] = {
    "no-builder": (M, (1, 32), _op("Relu", IMAGE), _op("Abs", IMAGE)),
    "other-format": (M, (1, 32), _op("Reshape", IMAGE, _ints(1, 256)), _op("Flatten", IMAGE)),
    "newer-release": (M, (1, 25), _op("Sigmoid", IMAGE), _op("HardSigmoid", IMAGE)),
    "opset-too-old": (M, (1, 32), _op("Add", IMAGE, IMAGE, opset=7), _op("Add", IMAGE, IMAGE, opset=6)),
    "opset-too-new": (M, (1, 22), _op("Transpose", IMAGE, opset=21), _op("Transpose", IMAGE, opset=23)),
    "shape-unknown": (M, (1, 32), _op("Relu", IMAGE), _op("Relu", (None,))),
    "empty-input": (M, (1, 32), _op("Relu", IMAGE), _op("Relu", [1, 0])),
    "rank-above-5": (M, (1, 32), _op("Relu", [1] * 5), _op("Relu", [1] * 6)),
    "dimension-above-16384": (M, (1, 22), _op("Relu", [16384]), _op("Relu", [16385])),
    "external-weights": (M, (1, 22), _weights(external=False), _weights(external=True)),
    "int64-early": (M, (1, 22), _op("Add", IMAGE, IMAGE), _op("Add", (IMAGE, INT64), (IMAGE, INT64))),
    "input-type": (N, (1, 32), _op("Relu", IMAGE), _op("Relu", (IMAGE, HALF))),
    "prelu-rank": (M, (1, 32), _op("PRelu", IMAGE, _constant(1)), _op("PRelu", [1, 4], _constant(1))),
    "prelu-slope": (
        M,
        (1, 32),
        _op("PRelu", IMAGE, _constant(4, 1, 1)),
        _op("PRelu", IMAGE, _constant(4, 1, 8)),
    ),
    "pow-types": (M, (1, 32), _op("Pow", IMAGE, IMAGE), _op("Pow", IMAGE, (IMAGE, INT32))),
    "cast-of-input": (M, (1, 26), _cast(INT64, 1), _cast(INT64, 1, of_input=True)),
    "cast-types-early": (M, (1, 26), _cast(INT64, 1), _cast(BOOL, 1)),
    "cast-types": (M, (1, 32), _cast(BOOL, 1), _cast(DType.FP64, 1)),
    "cast-network": (N, (1, 32), _argmax(1), _cast(INT64, 6)),
    "argmax-last": (M, (1, 32), _op("ArgMax", IMAGE), _op("ArgMax", IMAGE, select_last_index=1)),
    "argmax-casts": (N, (1, 32), _argmax(1), _argmax(2)),
    "clip-limits": (M, (1, 32), _op("Clip", IMAGE, _constant()), _op("Clip", IMAGE, [])),
    "clip-types": (M, (1, 32), _op("Clip", IMAGE, _constant()), _op("Clip", (IMAGE, INT64), _ints(1)[0:1])),
    "clip-equal": (
        M,
        (1, 32),
        _op("Clip", IMAGE, _constant(), _constant(value=2)),
        _op("Clip", IMAGE, _constant(), _constant()),
    ),
    "where-condition": (
        M,
        (1, 28),
        _op("Where", (IMAGE, BOOL), IMAGE, IMAGE),
        _op("Where", IMAGE, IMAGE, IMAGE),
    ),
    "where-types": (
        M,
        (1, 28),
        _op("Where", (IMAGE, BOOL), (IMAGE, HALF), (IMAGE, HALF)),
        _op("Where", (IMAGE, BOOL), (IMAGE, INT32), (IMAGE, INT32)),
    ),
    "and-types": (
        M,
        (1, 28),
        _op("And", (IMAGE, BOOL), (IMAGE, BOOL)),
        _op("And", (IMAGE, BOOL), (IMAGE, INT32)),
    ),
    "softmax-early-static": (M, (1, 22), _op("Softmax", IMAGE), _op("Softmax", [None, 4])),
    "softmax-static": (M, (1, 23), _op("Softmax", [None, 4]), _op("Softmax", [None, 4], opset=12)),
    "tile-network-repeats": (
        N,
        (1, 27),
        _op("Tile", IMAGE, _ints(1, 1, 2, 2)),
        _op("Tile", IMAGE, ([4], INT64)),
    ),
    "tile-repeats": (M, (1, 27), _op("Tile", IMAGE, ([4], INT64)), _op("Tile", IMAGE, _ints(1, 1, 0, 2))),
    "concat-single": (M, (1, 32), _op("Concat", IMAGE, IMAGE, axis=0), _op("Concat", IMAGE, axis=0)),
    "concat-axis": (N, (1, 32), _op("Concat", IMAGE, IMAGE, axis=-3), _op("Concat", IMAGE, IMAGE, axis=2)),
    "flatten-scalar": (N, (1, 32), _op("Flatten", [1]), _op("Flatten", [])),
    "gather-indices": (
        M,
        (1, 27),
        _op("Gather", IMAGE, ([2], INT32)),
        _op("Gather", IMAGE, ([2], DType.INT16)),
    ),
    "gather-rank": (
        M,
        (1, 32),
        _op("Gather", IMAGE, ([2, 2], INT64)),
        _op("Gather", IMAGE, ([2, 2, 2], INT64)),
    ),
    "gather-scalar-early": (
        M,
        (1, 26),
        _op("Gather", IMAGE, ([1], INT64)),
        _op("Gather", IMAGE, ([], INT64)),
    ),
    "gather-scalar": (M, (1, 27), _op("Gather", IMAGE, ([], INT64)), _op("Gather", [None, 4], ([], INT64))),
    "gather-nd-form": (M, (1, 27), _op("GatherND", IMAGE, _ints(0, 1)), _op("GatherND", IMAGE, ([2], INT64))),
    "depth-to-space-network": (
        N,
        (1, 32),
        _op("DepthToSpace", IMAGE, blocksize=2),
        _op("DepthToSpace", IMAGE, blocksize=2, mode="CRD"),
    ),
    "depth-to-space-dynamic": (
        M,
        (1, 32),
        _op("DepthToSpace", IMAGE, blocksize=2, mode="CRD"),
        _op("DepthToSpace", [None, 4, 8, 8], blocksize=2, mode="CRD"),
    ),
    "pad-rank": (
        N,
        (1, 32),
        _op("Pad", [3, 3], _ints(0, 1, 0, 1), _constant()),
        _op("Pad", [3], _ints(1, 1)),
    ),
    "pad-mode": (
        M,
        (1, 26),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1), mode="edge"),
    ),
    "pad-value-network": (
        N,
        (1, 32),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1), _constant()),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1)),
    ),
    "pad-value": (
        M,
        (1, 26),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1)),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1), []),
    ),
    "pad-amounts": (
        M,
        (1, 26),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1)),
        _op("Pad", IMAGE, _ints(0, 0, -1, 1, 0, 0, 1, 1)),
    ),
    "pad-leading": (
        N,
        (1, 32),
        _op("Pad", IMAGE, _ints(0, 0, 1, 1, 0, 0, 1, 1), _constant()),
        _op("Pad", IMAGE, _ints(0, 1, 0, 0, 0, 1, 0, 0), _constant()),
    ),
    "pad-reflect": (
        M,
        (1, 26),
        _op("Pad", IMAGE, _ints(0, 0, 7, 1, 0, 0, 1, 1), mode="reflect"),
        _op("Pad", [None, 4, 8, 8], _ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"),
    ),
    "reshape-target": (M, (1, 32), _op("Reshape", IMAGE, _ints(1, -1)), _op("Reshape", IMAGE, ([2], INT64))),
    "reshape-dynamic": (
        M,
        (1, 32),
        _op("Reshape", IMAGE, _ints(1, -1)),
        _op("Reshape", [None, 4], _ints(0, 4)),
    ),
    "reshape-zero": (
        M,
        (1, 32),
        _op("Reshape", IMAGE, _ints(0, -1)),
        _op("Reshape", IMAGE, _ints(0, 4), allowzero=1),
    ),
    "shape-part": (N, (1, 32), _op("Shape", IMAGE), _op("Shape", IMAGE, start=1)),
    "shape-empty": (M, (1, 32), _op("Shape", IMAGE, start=1, end=3), _op("Shape", IMAGE, start=2, end=2)),
    "slice-dynamic": (
        M,
        (1, 32),
        _op("Slice", IMAGE, _ints(0), _ints(1)),
        _op("Slice", [None, 4], _ints(0), _ints(1)),
    ),
    "slice-constants": (
        M,
        (1, 32),
        _op("Slice", IMAGE, _ints(7), _ints(-99), _ints(3), _ints(-1)),
        _op("Slice", IMAGE, ([1], INT64), _ints(1)),
    ),
    "slice-empty": (
        M,
        (1, 32),
        _op("Slice", IMAGE, _ints(0), _ints(2**62), _ints(-1)),
        _op("Slice", IMAGE, _ints(3), _ints(2), _ints(3)),
    ),
    "split-early": (
        M,
        (1, 26),
        _op("Split", IMAGE, axis=1, outputs=2),
        _op("Split", IMAGE, axis=1, outputs=2, opset=11),
    ),
    "split-sizes": (
        M,
        (1, 32),
        _op("Split", IMAGE, _ints(1, 3), axis=1, outputs=2),
        _op("Split", IMAGE, _ints(0, 4), axis=1, outputs=2),
    ),
    "split-even": (
        M,
        (1, 32),
        _op("Split", IMAGE, axis=1, outputs=2),
        _op("Split", IMAGE, axis=1, outputs=3),
    ),
    "squeeze-axes": (M, (1, 32), _op("Squeeze", IMAGE, _ints(0)), _op("Squeeze", IMAGE, ([1], INT64))),
    "unsqueeze-axes": (M, (1, 32), _op("Unsqueeze", IMAGE, _ints(0)), _op("Unsqueeze", IMAGE, ([1], INT64))),
    "unsqueeze-rank": (M, (1, 32), _op("Unsqueeze", IMAGE, _ints(0)), _op("Unsqueeze", IMAGE, _ints(0, 1))),
    "rank-3-4": (N, (1, 32), _op("LRN", IMAGE, size=3), _op("LRN", [1, 4], size=3)),
    "rank-4": (
        M,
        (1, 32),
        _op("GlobalAveragePool", IMAGE),
        _op("GlobalAveragePool", [1, 4, 8]),
    ),
    "constant-weight": (N, (1, 32), _op("Conv", *CONV), _op("Conv", IMAGE, [4, 4, 3, 3])),
    "conv-rank": (M, (1, 32), _op("Conv", *CONV), _op("Conv", [1, 4, 8, 8, 8], _constant(4, 4, 3, 3, 3))),
    "constant-bias": (M, (1, 32), _op("Conv", *CONV, _constant(4)), _op("Conv", *CONV, [4])),
    "conv-kernel": (
        M,
        (1, 32),
        _op("Conv", *CONV, kernel_shape=[3, 3]),
        _op("Conv", *CONV, kernel_shape=[3, 5]),
    ),
    "conv-dimensions": (M, (1, 23), _op("Conv", *CONV), _op("Conv", *CONV, shape=[1, 4, 8, 16385])),
    "fused-conv-sum": (
        M,
        (1, 27),
        _op("FusedConv", *CONV, domain="com.microsoft", activation="Relu"),
        _op("FusedConv", *CONV, _constant(4), IMAGE, domain="com.microsoft", activation="Relu"),
    ),
    "fused-conv-activation": (
        M,
        (1, 27),
        _op("FusedConv", *CONV, domain="com.microsoft", activation="LeakyRelu", activation_params=[0.1]),
        _op("FusedConv", *CONV, domain="com.microsoft", activation="Elu"),
    ),
    "deconv-dimensions": (
        M,
        (1, 23),
        _op("ConvTranspose", *CONV, pads=[1, 1, 1, 1]),
        _op("ConvTranspose", [1, 4, 8, 16385], CONV[1]),
    ),
    "deconv-padding": (
        M,
        (1, 32),
        _op("ConvTranspose", *CONV, pads=[1, 1, 1, 1]),
        _op("ConvTranspose", *CONV, pads=[1, 0, 1, 0]),
    ),
    "deconv-output": (
        M,
        (1, 32),
        _op("ConvTranspose", *CONV, output_padding=[0, 0]),
        _op("ConvTranspose", *CONV, output_padding=[1, 1]),
    ),
    "deconv-kernel": (
        M,
        (1, 32),
        _op("ConvTranspose", *CONV, kernel_shape=[3, 3]),
        _op("ConvTranspose", *CONV, kernel_shape=[3, 4]),
    ),
    "constant-matrix": (M, (1, 32), _op("Gemm", [1, 4], _constant(4, 5)), _op("Gemm", [1, 4], [4, 5])),
    "gemm-form": (
        M,
        (1, 32),
        _op("Gemm", [1, 4], _constant(5, 4), transB=1),
        _op("Gemm", [4, 1], _constant(4, 5), transA=1),
    ),
    "gemm-bias": (
        M,
        (1, 32),
        _op("Gemm", [1, 4], _constant(5, 4), _constant(1, 5), transB=1),
        _op("Gemm", [1, 4], _constant(5, 4), _constant(4), transB=1),
    ),
    "matmul-network": (
        N,
        (1, 32),
        _op("MatMul", [1, 4], _constant(4, 5)),
        _op("MatMul", [2, 1, 4], _constant(4, 5)),
    ),
    "matmul-vector": (M, (1, 32), _op("MatMul", [4], [4]), _op("MatMul", [1, 4], [4])),
    "batch-norm-spatial": (
        M,
        (1, 32),
        _op("BatchNormalization", IMAGE, SCALE, SCALE, SCALE, SCALE),
        _op("BatchNormalization", IMAGE, SCALE, SCALE, SCALE, SCALE, spatial=0, opset=8),
    ),
    "batch-norm-parameters": (
        M,
        (1, 32),
        _op("BatchNormalization", IMAGE, SCALE, SCALE, SCALE, SCALE),
        _op("BatchNormalization", IMAGE, [4], SCALE, SCALE, SCALE),
    ),
    "one-output": (
        M,
        (1, 32),
        _op("BatchNormalization", IMAGE, SCALE, SCALE, SCALE, SCALE),
        _op("BatchNormalization", IMAGE, SCALE, SCALE, SCALE, SCALE, outputs=3),
    ),
    "norm-types": (
        M,
        (1, 32),
        _op("LayerNormalization", IMAGE, SCALE),
        _op("LayerNormalization", (IMAGE, HALF), SCALE),
    ),
    "norm-stash": (
        M,
        (1, 32),
        _op("LayerNormalization", IMAGE, SCALE),
        _op("LayerNormalization", IMAGE, SCALE, stash_type=10),
    ),
    "constant-scale": (
        M,
        (1, 32),
        _op("LayerNormalization", IMAGE, SCALE),
        _op("LayerNormalization", IMAGE, [4]),
    ),
    "pool-form": (
        M,
        (1, 32),
        _op("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[1, 1]),
        _op("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2]),
    ),
    "pool-ceil": (
        N,
        (1, 32),
        _op("MaxPool", IMAGE, kernel_shape=[2, 2]),
        _op("MaxPool", IMAGE, kernel_shape=[2, 2], ceil_mode=1),
    ),
    "reduce-axes": (M, (1, 32), _reduce([1]), _reduce(None)),
    "reduce-no-axes": (N, (1, 32), _reduce([1]), _reduce([1], raw=True)),
    "grid-form": (
        M,
        (1, 32),
        _op("GridSample", IMAGE, [1, 2, 2, 2], mode="bilinear"),
        _op("GridSample", IMAGE, [1, 2, 2, 2], mode="nearest"),
    ),
    "grid-reflection": (
        M,
        (1, 32),
        _op("GridSample", IMAGE, [1, 2, 2, 2], padding_mode="reflection", align_corners=1),
        _op("GridSample", IMAGE, [1, 2, 2, 2], padding_mode="reflection"),
    ),
    "resize-rank": (
        N,
        (1, 32),
        _op("Resize", *SCALES, **RESIZE),
        _op("Resize", [4, 8, 8], None, SCALES[2], **RESIZE),
    ),
    "resize-form": (M, (1, 32), _op("Resize", *SCALES, **LINEAR), _op("Resize", *SCALES, mode="cubic")),
    "resize-rounding": (M, (1, 32), _op("Resize", *SCALES, **RESIZE), _op("Resize", *SCALES)),
    "resize-constant": (
        M,
        (1, 32),
        _op("Resize", *SCALES, **RESIZE),
        _op("Resize", IMAGE, None, [4], **RESIZE),
    ),
    "resize-axes": (
        M,
        (1, 32),
        _op("Resize", [None, 4, 8, 8], None, None, _ints(16, 16), axes=[2, 3], **RESIZE),
        _op("Resize", [None, 4, 8, 8], None, None, SIZES[3], **RESIZE),
    ),
    "resize-scales": (
        M,
        (1, 32),
        _op("Resize", IMAGE, None, np.array([1, 1, 0.5, 0.5], np.float32), **LINEAR),
        _op("Resize", IMAGE, None, np.array([1, 1, 1.5, 1.5], np.float32), **LINEAR),
    ),
    "resize-multiples": (
        N,
        (1, 32),
        _op("Resize", *SIZES, **RESIZE),
        _op("Resize", IMAGE, None, None, _ints(1, 4, 12, 12), **RESIZE),
    ),
    "resize-coordinates-network": (
        N,
        (1, 32),
        _op("Resize", *SCALES, **RESIZE),
        _op("Resize", *SCALES, **LINEAR),
    ),
    "resize-coordinates": (
        M,
        (1, 32),
        _op("Resize", *SCALES, **LINEAR),
        _op("Resize", *SCALES, **{**LINEAR, "coordinate_transformation_mode": "asymmetric"}),
    ),
}
#: Rules of sessions of older systems, or with an option.
OTHERS = ("static-required", "half-core-ml-6", "half-core-ml-7", "conv-same-lower")


@pytest.mark.parametrize("rule", CASES)
def test_accept_and_reject(rule: str) -> None:
    format_, release, accepted, rejected = CASES[rule]
    for build, expected in ((accepted, []), (rejected, [rule])):
        left = build().divide(format_, release).report.left  # type: ignore[arg-type]
        assert [one.rule for one in left if one.rule != "trivial-group"][:1] == expected


def test_every_rule_has_examples() -> None:
    ids = {condition.id for condition in (*CONDITIONS, EARLY_INT64)}
    ids |= {condition.id for row in OPERATORS.values() for condition in row.conditions}
    assert ids <= CASES.keys() | set(OTHERS)


def test_static_shapes_can_be_required() -> None:
    build = _op("Relu", [None, 4])
    assert build().divide().report.supported == 1
    assert [one.rule for one in build().divide(is_static=True).report.left] == ["static-required"]


@pytest.mark.parametrize(
    ("build", "rule", "core_ml"),
    [
        (_op("Slice", (IMAGE, HALF), _ints(0), _ints(1)), "half-core-ml-6", 6),
        (_op("DepthToSpace", (IMAGE, HALF), blocksize=2), "half-core-ml-7", 7),
        (_op("Conv", *CONV, auto_pad="SAME_LOWER"), "conv-same-lower", 6),
    ],
)
def test_older_systems(build: Callable[[], Built], rule: str, core_ml: int) -> None:
    assert build().divide(core_ml=core_ml).report.supported == 1
    assert [one.rule for one in build().divide(core_ml=core_ml - 1).report.left] == [rule]
