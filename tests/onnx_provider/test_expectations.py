"""What the provider's own tests state, by case and format.

(Source: `coreml_basic_test.cc` and `dynamic_input_test.cc` of microsoft/onnxruntime, MIT.) `all` is every
operator in Core ML, `some` at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.rules.rule import NEWEST
from tests.onnx_provider.build import BOOL, FLOAT, HALF, INT32, INT64, Built

IMAGE = [1, 1, 3, 4]
Build = Callable[[], Built]


def _chain(
    *ops: tuple[str, Mapping[str, Any]], start: list[int | None] | None = None, opset: int = 17
) -> Build:
    """A chain of operators; `more` are the constants that one reads after the value."""

    def build() -> Built:
        built = Built(opset)
        value = built.input(start or [1, 1, 4, 4])
        for op, about in ops:
            given = dict(about)
            more = [built.constant(one) for one in given.pop("more", ())]
            value = built.node(op, value, *more, **{"shape": start or [1, 1, 4, 4], **given})
        return built

    return build


def _two_adds() -> Built:
    built = Built()
    first = built.node("Add", built.input(IMAGE), built.input(IMAGE), shape=IMAGE)
    built.node("Add", first, built.input(IMAGE), shape=IMAGE)
    return built


def _argmax(to: int) -> Build:
    def build() -> Built:
        built = Built()
        found = built.node("ArgMax", built.input([3, 2, 2]), shape=[3, 1, 2], dtype=INT64, axis=1)
        built.node("Cast", found, shape=[3, 1, 2], dtype=INT32, to=to)
        return built

    return build


def _scalar_gather_then_shape() -> Built:
    built = Built()
    gathered = built.node("Gather", built.input([None, 4]), built.input([], INT64), shape=[4])
    built.node("Shape", gathered, shape=[1], dtype=INT64)
    return built


def _shape_then_gather_and_slice() -> Built:
    built = Built()
    shape = built.node("Shape", built.input([None] * 5), shape=[5], dtype=INT64)
    built.node("Gather", shape, built.constant([0, 1]), shape=[2], dtype=INT64)
    built.node("Slice", shape, built.constant([0]), built.constant([2]), shape=[2], dtype=INT64)
    return built


def _external_add() -> Built:
    built = Built()
    built.node("Add", built.input([4]), built.constant([0.5] * 4, external=True), shape=[4])
    return built


def _matmul() -> Built:
    built = Built()
    built.node("MatMul", built.input([None, 2]), built.constant(np.zeros((2, 4))), shape=[None, 4])
    return built


def _mobilenet() -> Built:
    built = Built(12)
    shape = [None, 4, 8, 8]
    x = built.node("Conv", built.input(shape), built.constant(np.zeros((4, 4, 1, 1))), shape=shape)
    sum_ = built.node("Add", x, built.constant(np.float64(3.0), FLOAT), shape=shape)
    low, high = built.constant(np.float64(0), FLOAT), built.constant(np.float64(6), FLOAT)
    ratio = built.node("Div", built.node("Clip", sum_, low, high, shape=shape), high, shape=shape)
    built.node("Mul", x, ratio, shape=shape)
    return built


def _pad(shape: list[int], pads: list[int], **attributes: Any) -> Build:
    return _chain(("Pad", {"more": [pads], **attributes}), start=shape)  # type: ignore[arg-type]


CONV = ("Conv", {"more": [np.zeros((1, 1, 1, 1))]})
FUSED = {"domain": "com.microsoft", "more": [np.zeros((1, 1, 1, 1))]}
RESHAPE = ("Reshape", {"more": [[1, 1, 4, 4]]})
TRANSPOSE = ("Transpose", {"perm": [0, 1, 2, 3]})
IDENTITY, CAST = ("Identity", {}), ("Cast", {"to": 1})


def _fused_with_sum() -> Built:
    built = Built()
    x = built.input([1, 1, 4, 4])
    weight, bias = built.constant(np.zeros((1, 1, 1, 1))), built.constant([0.0])
    built.node("FusedConv", x, weight, bias, x, domain="com.microsoft", activation="Relu", shape=[1, 1, 4, 4])
    return built


def _split(opset: int, count: int, sizes: list[int] | None, total: int = 6) -> Build:
    def build() -> Built:
        built = Built(opset)
        inputs = [built.input([total, 2])]
        attributes: dict[str, Any] = {}
        if sizes is not None and opset >= 13:
            inputs.append(built.constant(sizes))
        elif sizes is not None:
            attributes["split"] = sizes
        built.node("Split", *inputs, shape=[2, 2], outputs=count, **attributes)
        return built

    return build


def _bool_casts(*, root: bool) -> Build:
    def build() -> Built:
        built = Built()
        flags = built.node("Cast", built.input([2, 3], INT64), shape=[2, 3], dtype=BOOL, to=9)
        value = built.node("Cast", flags, shape=[2, 3], to=1)
        if root:
            built.node("Sqrt", value, shape=[2, 3])
        return built

    return build


def _gather_nd(dtype: DType = FLOAT, batch: int = 0) -> Build:
    def build() -> Built:
        built = Built()
        x = built.input([2, 3, 4], INT64 if dtype is BOOL else dtype)
        if dtype is BOOL:
            x = built.node("Cast", x, shape=[2, 3, 4], dtype=BOOL, to=9)
        found = built.node(
            "GatherND", x, built.constant([[0, 1], [1, 2]]), shape=[2, 4], dtype=dtype, batch_dims=batch
        )
        if dtype is BOOL:
            built.node("Cast", found, shape=[2, 4], to=1)
        return built

    return build


def _scalar_gather(
    shape: list[int | None], axis: int = 0, dtype: DType = FLOAT, indices: DType = INT64
) -> Build:
    def build() -> Built:
        built = Built()
        built.node(
            "Gather", built.input(shape, dtype), built.constant(1, indices), shape=[3], dtype=dtype, axis=axis
        )
        return built

    return build


def _where(dtype: DType, *, constant: bool) -> Build:
    def build() -> Built:
        built = Built()
        chosen = built.constant([[1, 0]], BOOL) if constant else built.input([1, 2], BOOL)
        built.node(
            "Where", chosen, built.input([1, 2], dtype), built.input([1, 2], dtype), shape=[1, 2], dtype=dtype
        )
        return built

    return build


def _and() -> Built:
    built = Built()
    flags = [built.node("Cast", built.input([2, 3], INT64), shape=[2, 3], dtype=BOOL, to=9) for _ in range(2)]
    built.node("Cast", built.node("And", *flags, shape=[2, 3], dtype=BOOL), shape=[2, 3], to=1)
    return built


def _half(op: str, **attributes: Any) -> Build:
    def build() -> Built:
        built = Built()
        built.node(op, built.input(IMAGE, HALF), shape=IMAGE, dtype=HALF, **attributes)
        return built

    return build


def _fused(activation: str, *parameters: float) -> Build:
    about = {**FUSED, "activation": activation}
    return _chain(("FusedConv", {**about, "activation_params": list(parameters)} if parameters else about))


#: The case, what builds it, and what is expected of each format; an empty text where nothing is stated.
CASES: tuple[tuple[str, Build, str, str], ...] = (
    ("two adds", _two_adds, "some", ""),
    ("argmax and cast", _argmax(6), "all", "all"),
    ("argmax and cast to uint32", _argmax(12), "some", "some"),
    ("scalar gather then shape", _scalar_gather_then_shape, "some", ""),
    ("shape, gather and slice", _shape_then_gather_and_slice, "all", ""),
    ("external initializer", _external_add, "all", ""),
    ("matmul with free rows", _matmul, "all", ""),
    ("mobilenet v3 excerpt", _mobilenet, "all", ""),
    ("pad reflect", _pad([1, 1, 3, 4], [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"), "", "all"),
    ("pad constant without value", _pad([1, 1, 3, 4], [0, 0, 1, 1, 0, 0, 1, 1]), "", "all"),
    ("pad dimension 0", _pad([2, 3, 4], [1, 0, 0, 1, 0, 0]), "", "all"),
    ("pad 1-D", _pad([4], [1, 1]), "", "all"),
    ("HardSigmoid", _chain(("HardSigmoid", {})), "all", "all"),
    ("QuickGelu 1.5", _chain(("QuickGelu", {"domain": "com.microsoft", "alpha": 1.5})), "", "all"),
    ("QuickGelu 1.0", _chain(("QuickGelu", {"domain": "com.microsoft", "alpha": 1.0})), "", "all"),
    ("QuickGelu half", _half("QuickGelu", domain="com.microsoft"), "", "all"),
    ("conv, identity", _chain(CONV, IDENTITY), "", "all"),
    ("conv, ceil", _chain(CONV, ("Ceil", {})), "", "all"),
    ("conv, tile 1", _chain(CONV, ("Tile", {"more": [[1, 1, 1, 1]]})), "", "all"),
    ("conv, tile 2", _chain(CONV, ("Tile", {"more": [[1, 1, 2, 2]]})), "", "all"),
    ("three identities", _chain(IDENTITY, IDENTITY, IDENTITY), "", "none"),
    ("two reshapes", _chain(RESHAPE, RESHAPE), "", "none"),
    ("two transposes", _chain(TRANSPOSE, TRANSPOSE), "", "none"),
    ("tile", _chain(("Tile", {"more": [[1, 1, 2, 2]]})), "", "none"),
    ("ceil", _chain(("Ceil", {})), "", "none"),
    ("four trivial ones", _chain(IDENTITY, CAST, RESHAPE, TRANSPOSE), "", "none"),
    ("conv, trivial ones, conv", _chain(CONV, IDENTITY, CAST, RESHAPE, CONV), "", "all"),
    ("fused relu", _fused("Relu"), "none", "all"),
    ("fused hard sigmoid", _fused("HardSigmoid", 0.2, 0.5), "", "all"),
    ("fused clip", _fused("Clip", 0.0, 6.0), "", "all"),
    ("fused leaky relu", _fused("LeakyRelu", 0.1), "", "all"),
    ("fused sigmoid", _fused("Sigmoid"), "", "all"),
    ("fused tanh", _fused("Tanh"), "", "all"),
    ("fused with sum", _fused_with_sum, "", "none"),
    ("split-11 uneven", _split(11, 2, [2, 4]), "all", "all"),
    ("split-11 even", _split(11, 2, [3, 3]), "all", "all"),
    ("split-11 without sizes", _split(11, 2, None), "all", "all"),
    ("split-13 uneven", _split(13, 2, [2, 4]), "all", "all"),
    ("split-13 even", _split(13, 2, [3, 3]), "all", "all"),
    ("split-13 without sizes", _split(13, 2, None), "all", "all"),
    ("split-7 uneven", _split(7, 2, [2, 4]), "all", "all"),
    ("split-11 with a zero", _split(11, 3, [3, 0, 6], 9), "none", "none"),
    ("split-11 single", _split(11, 1, [6]), "none", "none"),
    ("bool casts", _bool_casts(root=False), "none", ""),
    ("bool casts and sqrt", _bool_casts(root=True), "", "all"),
    ("GatherND", _gather_nd(), "none", "all"),
    ("GatherND batch", _gather_nd(batch=1), "", "none"),
    ("GatherND bool", _gather_nd(BOOL), "", "all"),
    ("sin and cos", _chain(("Sin", {}), ("Cos", {})), "none", "all"),
    ("scalar gather axis 1", _scalar_gather([2, 3], 1), "all", "all"),
    ("scalar gather axis 0", _scalar_gather([2, 3], 0), "all", "all"),
    ("scalar gather axis -1", _scalar_gather([2, 3], -1), "all", "all"),
    ("scalar gather int64", _scalar_gather([2, 3], dtype=INT64), "all", "all"),
    ("scalar gather int32 indices", _scalar_gather([2, 3], indices=INT32), "all", "all"),
    ("scalar gather rank 4", _scalar_gather([2, 3, 4, 5]), "all", "all"),
    ("scalar gather rank 1", _scalar_gather([6]), "all", "all"),
    ("scalar gather half", _scalar_gather([2, 3], dtype=HALF), "", "all"),
    ("scalar gather dynamic", _scalar_gather([None, 3]), "none", "none"),
    ("scalar gather rank 5", _scalar_gather([2, 3, 4, 5, 6]), "none", "none"),
    ("where", _where(FLOAT, constant=True), "none", "all"),
    ("where half", _where(HALF, constant=True), "", "all"),
    ("where input", _where(FLOAT, constant=False), "", "all"),
    ("where int32", _where(INT32, constant=True), "", "none"),
    ("and", _and, "none", "all"),
)


def _expected(word: str, nodes: int) -> range:
    return {"all": range(nodes, nodes + 1), "some": range(1, nodes + 1), "none": range(1)}[word]


@pytest.mark.parametrize(("name", "build", "network", "program"), CASES, ids=[case[0] for case in CASES])
def test_expectations(name: str, build: Build, network: str, program: str) -> None:
    for format_, word in (("neuralnetwork", network), ("mlprogram", program)):
        if word:
            report = build().divide(format_, NEWEST).report  # type: ignore[arg-type]
            assert report.supported in _expected(word, report.nodes), (format_, report.left)


def test_a_required_static_shape() -> None:
    assert _matmul().divide("neuralnetwork", is_static=True).report.supported == 0
