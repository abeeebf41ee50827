"""Folding by Apple's compiler, in comparisons of source and compiled neural networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.describe.comparison.folding import describe_folding
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.reports.difference import describe_operations
from coremlscope.results.operations import OpTable
from tests.support.compiled_networks import WeightTable, shape, write_network


def _source() -> ir.Model:
    """Padding, a convolution, a normalization, a ReLU and an addition."""
    builder = NeuralNetworkBuilder([("x", datatypes.Array(1, 4, 4))], [("y", None)])
    builder.add_padding("pad", 1, 1, 1, 1, 0, "x", "padded")
    kernel = np.ones((3, 3, 1, 2), np.float32)
    builder.add_convolution(
        "conv", 1, 2, 3, 3, 1, 1, "valid", 1, kernel, None, False, input_name="padded", output_name="a"
    )
    ones = np.ones(2)
    builder.add_batchnorm("norm", 2, ones, ones, ones, ones, input_name="a", output_name="b")
    builder.add_activation("relu", "RELU", "b", "c")
    builder.add_elementwise("sum", ["c", "c"], "y", "ADD")
    return container.read(builder.spec.SerializeToString())


def _compiled(folder: Path) -> ir.Model:
    """The same network with all of it in the convolution but the addition."""
    weights = WeightTable()
    convolution = {
        "type": "convolution",
        "name": "conv",
        "C": 2,
        "K": 1,
        "Nx": 3,
        "Ny": 3,
        **dict.fromkeys(("pad_t", "pad_b", "pad_l", "pad_r"), 1),
        "has_biases": 1,
        "fused_relu": 1,
        "blob_weights": weights.add(np.ones(18)),
        "blob_biases": weights.add([0, 0]),
    }
    layers = [
        {**convolution, "top": "c"},
        {"type": "elementwise", "name": "sum", "operation": 0, "bottom": "c,c"},
    ]
    shapes = {"x": shape(1, 4, 4), "c": shape(2, 4, 4), "y": shape(2, 4, 4)}
    return container.read(write_network(folder, layers, shapes, weights))


def test_comparison_of_a_source_and_its_compiled_form(tmp_path: Path) -> None:
    (difference,) = coremlscope.compare(
        _source(), _compiled(tmp_path / "m.mlmodelc"), iterations=1
    ).differences
    assert set(difference.compiled) == {
        "1 pad folded into conv",
        "1 batch_norm folded into conv",
        "1 relu fused into the layer before",
    }
    assert "Apple's compiler: 1 " in describe_operations(difference)


def test_other_comparisons_have_no_compiler(tmp_path: Path) -> None:
    compiled = _compiled(tmp_path / "m.mlmodelc")
    for pair in ((compiled, _source()), (compiled, compiled)):
        (difference,) = coremlscope.compare(*pair, iterations=1).differences
        assert difference.compiled == ()


def test_operations_without_a_neighbour_to_fold_into() -> None:
    columns = {
        "id": ("main/0", "main/1"),
        "type": ("relu", "tanh"),
        "name": ("a", "b"),
        "function": ("main", "main"),
        "outputs": (("x",), ("x",)),
        "output_names": ((), ()),
        **dict.fromkeys(("flops", "read_bytes", "written_bytes", "weight_bytes", "live_bytes"), (None, None)),
        "work_is_complete": (True, True),
        "layer": ("a", "b"),
        "layer_type": ("activation", "activation"),
    }
    before = OpTable(**columns, inputs=((), (0,)))
    circular = OpTable(**columns, inputs=((1,), (0,)))
    assert describe_folding(before, before, {0: 0}) == ("1 tanh left out", "1 tanh added")
    assert set(describe_folding(circular, before, {})) == {
        "1 relu left out",
        "1 tanh left out",
        "1 relu added",
        "1 tanh added",
    }
