"""Whole programs written by coremltools, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import get_new_symbol

from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.lower import lower
from tests.support.programs import bind_main, run, run_onnx

RANDOM = np.random.default_rng(11)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape, scale=0.5).astype(np.float32)


def _read(program: Any, folder: Path, **options: Any) -> ir.Model:
    """Converts a program with coremltools' passes, saves and reads it."""
    converted = ct.convert(
        program,
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
        **options,
    )
    converted.save(str(folder / "m.mlpackage"))
    return container.read(folder / "m.mlpackage")


def test_a_perceptron() -> None:
    first, second, b1, b2 = _random(64, 10), _random(5, 64), _random(64), _random(5)

    def body(x: Any) -> Any:
        hidden = mb.relu(x=mb.linear(x=x, weight=first, bias=b1))
        return mb.softmax(x=mb.linear(x=hidden, weight=second, bias=b2), axis=-1)

    x = _random(7, 10)
    (result,) = run(body, {"x": x})
    scores = np.exp(np.maximum(x @ first.T + b1, 0) @ second.T + b2)
    np.testing.assert_allclose(result, scores / scores.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_a_classifier_with_an_lstm(tmp_path: Path) -> None:
    steps, features, hidden = 6, 4, 8
    w, r, out = _random(4 * hidden, features), _random(4 * hidden, hidden), _random(3, hidden)

    @mb.program(input_specs=[mb.TensorSpec((steps, 1, features))], opset_version=ct.target.iOS17)
    def program(x: Any) -> Any:
        zeros = np.zeros((1, hidden), np.float32)
        _, last, _ = mb.lstm(x=x, initial_h=zeros, initial_c=zeros, weight_ih=w, weight_hh=r)
        return mb.softmax(x=mb.matmul(x=last, y=out, transpose_y=True), axis=-1, name="scores")

    labels = ["cat", "dog", "owl"]
    model = _read(program, tmp_path, classifier_config=ct.ClassifierConfig(labels))
    lowered = lower(bind_main(model))
    x = _random(steps, 1, features)
    index, scores = (run_onnx(lowered, {"x": x})[port.name] for port in lowered.outputs)

    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    h = c = np.zeros((1, hidden))
    for step in x:
        i, f, o, z = np.split(step @ w.T + h @ r.T, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
        h = sigmoid(o) * np.tanh(c)
    expected = np.exp(h @ out.T)[0]
    expected /= expected.sum()
    if index.dtype == np.float32:
        index, scores = scores, index
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    assert index.tolist() == [int(expected.argmax())]
    for port, result in zip(lowered.outputs, run_onnx(lowered, {"x": x}).values(), strict=True):
        assert port.labels == tuple(labels)
        assert port.type.shape == result.shape


def test_a_flexible_dimension_is_lowered_once_for_all_sizes(tmp_path: Path) -> None:
    kernel, matrix = _random(6, 3, 1, 1), _random(6, 5)
    length = get_new_symbol()

    @mb.program(input_specs=[mb.TensorSpec((1, 3, length, 2))], opset_version=ct.target.iOS17)
    def program(x: Any) -> Any:
        y = mb.relu(x=mb.conv(x=x, weight=kernel))
        rows = mb.reshape(x=mb.transpose(x=y, perm=[0, 2, 3, 1]), shape=[-1, 6])
        return mb.matmul(x=rows, y=matrix, name="result")

    flexible = ct.TensorType("x", shape=(1, 3, ct.RangeDim(1, 64, default=8), 2))
    bound = bind_main(_read(program, tmp_path, inputs=[flexible]))
    assert bound.graph.inputs[0].type == ir.TensorType(ir.DType.FP32, (1, 3, None, 2))
    lowered = lower(bound)
    assert [port.type.shape for port in lowered.outputs] == [(None, 5)]
    for size in (4, 9):
        x = _random(1, 3, size, 2)
        (result,) = run_onnx(lowered, {"x": x}).values()
        convolved = np.maximum(np.einsum("oi,bihw->bhwo", kernel[:, :, 0, 0], x), 0)
        np.testing.assert_allclose(result, convolved.reshape(-1, 6) @ matrix, rtol=1e-4, atol=1e-5)


def _scaled(weight: np.ndarray, scale: float) -> Any:
    @mb.program(input_specs=[mb.TensorSpec((1, 30))], opset_version=ct.target.iOS18)
    def program(x: Any) -> Any:
        return mb.mul(x=mb.linear(x=x, weight=weight), y=scale, name="result")

    return ct.convert(
        program,
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    )


def test_every_function_of_a_program(tmp_path: Path) -> None:
    weight = _random(40, 30)
    scales = {"plain": 1.0, "doubled": 2.0}
    paths = {name: str(tmp_path / f"{name}.mlpackage") for name in scales}
    for name, scale in scales.items():
        _scaled(weight, scale).save(paths[name])
    described = ct.utils.MultiFunctionDescriptor()
    for name, path in paths.items():
        described.add_function(path, src_function_name="main", target_function_name=name)
    described.default_function_name = "plain"
    ct.utils.save_multifunction(described, str(tmp_path / "both.mlpackage"))

    model = container.read(tmp_path / "both.mlpackage")
    assert isinstance(model.content, ir.Program)
    assert model.description.default == "plain"
    x = _random(1, 30)
    for name, scale in scales.items():
        (result,) = run_onnx(lower(bind(model.content.functions[name], OPS)), {"x": x}).values()
        np.testing.assert_allclose(result, scale * x @ weight.T, rtol=1e-4, atol=1e-5)


def test_a_loop_counts_while_its_sum_is_small() -> None:
    def body(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda i, x: mb.less(x=mb.reduce_sum(x=x, keep_dims=False), y=100.0),
            _body=lambda i, x: (mb.add(x=i, y=1), mb.add(x=x, y=x)),
            loop_vars=(0, x),
        )

    count, result = run(body, {"x": np.array([1, 2], np.float32)})
    assert count == 6
    np.testing.assert_array_equal(result, [64, 128])
