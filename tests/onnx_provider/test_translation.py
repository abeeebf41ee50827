"""Translated ONNX models next to ONNX Runtime on the models themselves, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from coremlscope import api
from coremlscope.base.errors import CorruptModelError, ModelError, NotAModelError
from coremlscope.formats.onnx.reader import read_onnx
from coremlscope.model.ir import ArrayFeature, Program

IMAGE = (1, 4, 6, 6)
_RANDOM = np.random.default_rng(0)


def _weights(*shape: int) -> np.ndarray[Any, Any]:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _write(
    path: Path,
    op: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    *,
    opset: int = 17,
    outputs: int = 1,
    domain: str = "",
) -> Path:
    """Writes a model of one operator: tuples are inputs, arrays are constants, None is left out."""
    names, given, constants = [], [], []
    for index, one in enumerate(inputs):
        name = f"i{index}"
        names.append("" if one is None else name)
        if isinstance(one, tuple):
            given.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, one))
        elif one is not None:
            constants.append(numpy_helper.from_array(one, name))
    results = [f"o{index}" for index in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    ends = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], "g", given, ends, constants)
    domains = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=domains, ir_version=8)
    if not domain:
        model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, path)
    return path


def _ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


CASES: Mapping[str, tuple[str, Sequence[Any], Mapping[str, Any]]] = {
    "add": ("Add", [IMAGE, _weights(4, 1, 1)], {}),
    "average pool": ("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "batch norm": ("BatchNormalization", [IMAGE, *[np.abs(_weights(4)) for _ in range(4)]], {}),
    "clip": ("Clip", [IMAGE, np.float32(-0.5), np.float32(0.5)], {}),
    "concat": ("Concat", [IMAGE, IMAGE], {"axis": 1}),
    "conv": ("Conv", [IMAGE, _weights(8, 2, 3, 3), _weights(8)], {"group": 2, "pads": [1, 0, 1, 2]}),
    "deconv": ("ConvTranspose", [IMAGE, _weights(4, 3, 2, 2)], {"strides": [2, 2]}),
    "depth to space": ("DepthToSpace", [IMAGE], {"blocksize": 2, "mode": "CRD"}),
    "expand": ("Expand", [(1, 4, 1, 6), _ints(2, 1, 3, 6)], {}),
    "flatten": ("Flatten", [IMAGE], {"axis": 2}),
    "gather": ("Gather", [IMAGE, _ints(2, 0)], {"axis": 1}),
    "gather scalar": ("Gather", [IMAGE, np.int64(-1)], {"axis": 2}),
    "gemm": ("Gemm", [(3, 4), _weights(5, 4), _weights(5)], {"transB": 1}),
    "gemm alpha": ("Gemm", [(3, 4), _weights(4, 5), _weights(1, 5)], {"alpha": 2.0}),
    "global pool": ("GlobalAveragePool", [IMAGE], {}),
    "hard swish": ("HardSwish", [IMAGE], {}),
    "instance norm": ("InstanceNormalization", [IMAGE, _weights(4), _weights(4)], {}),
    "layer norm": ("LayerNormalization", [IMAGE, _weights(6), _weights(6)], {"axis": -1}),
    "leaky relu": ("LeakyRelu", [IMAGE], {"alpha": 0.2}),
    "log softmax": ("LogSoftmax", [IMAGE], {"axis": 1}),
    "matmul": ("MatMul", [(2, 3, 4), _weights(4, 5)], {}),
    "matmul vector": ("MatMul", [(2, 3, 4), _weights(4)], {}),
    "max pool": ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "pad": ("Pad", [IMAGE, _ints(0, 0, 1, 2, 0, 1, 0, 1)], {}),
    "prelu": ("PRelu", [IMAGE, _weights(4, 1, 1)], {}),
    "reduce": ("ReduceMean", [IMAGE], {"axes": [2, 3], "keepdims": 0}),
    "reshape": ("Reshape", [IMAGE, _ints(0, 2, -1)], {}),
    "resize linear": (
        "Resize",
        [IMAGE, None, None, _ints(1, 4, 12, 9)],
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    ),
    "resize nearest": (
        "Resize",
        [IMAGE, None, np.array([1, 1, 2, 2], np.float32)],
        {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
    ),
    "slice": ("Slice", [IMAGE, _ints(5, 1), _ints(-99, 3), _ints(3, 2), _ints(-2, 1)], {}),
    "softmax": ("Softmax", [IMAGE], {"axis": -1}),
    "squeeze": ("Squeeze", [IMAGE, _ints(0)], {}),
    "sub": ("Sub", [np.float32(1.0), IMAGE], {}),
    "tile": ("Tile", [IMAGE, _ints(1, 2, 1, 1)], {}),
    "transpose": ("Transpose", [IMAGE], {"perm": [0, 2, 3, 1]}),
    "unsqueeze": ("Unsqueeze", [IMAGE, _ints(1)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str, tmp_path: Path) -> None:
    import onnxruntime

    op, inputs, attributes = CASES[name]
    path = _write(tmp_path / "m.onnx", op, inputs, attributes)
    feeds = {f"i{index}": _weights(*one) for index, one in enumerate(inputs) if isinstance(one, tuple)}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    found = api.predict(path, feeds)["o0"]
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_several_results(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.onnx", "Split", [IMAGE, _ints(1, 3)], {"axis": 1}, outputs=2)
    value = _weights(*IMAGE)
    found = api.predict(path, {"i0": value})
    np.testing.assert_array_equal(found["o1"], value[:, 1:])


def test_an_operator_without_a_translation_keeps_its_reason(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.onnx", "Det", [(2, 3, 3)], {})
    content = api.read(path).content
    assert isinstance(content, Program)
    (layer,) = content.functions["main"].layers
    assert (layer.type, bool(layer.problem)) == ("Det", True)


def test_free_dimensions(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.onnx", "Relu", [("batch", 3, "height", None)], {})
    (feature,) = api.read(path).description.main.inputs
    assert isinstance(feature.type, ArrayFeature)
    assert (feature.type.shape[:2], feature.type.flexibility is not None) == ((1, 3), True)
    summary = api.inspect(path, shapes={"i0": (2, 3, 8, 8)})
    assert [value.type for value in summary.functions[0].outputs] == ["float32 2×3×8×8"]


def _cycle(path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "b")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), path)


def _external(path: Path) -> None:
    _write(path, "Add", [(1024,), _weights(1024)], {})
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (path.parent / "w.bin").write_bytes(b"short")


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda path: path.write_bytes(b"\xff" * 99), CorruptModelError),
        (lambda path: path.write_bytes(b""), CorruptModelError),
        (lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), NotAModelError),
        (_cycle, CorruptModelError),
        (_external, CorruptModelError),
    ],
    ids=["noise", "empty", "pointer", "cycle", "truncated weights"],
)
def test_bad_files(write: Any, kind: type[ModelError], tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    write(path)
    with pytest.raises(kind):
        read_onnx(path)
