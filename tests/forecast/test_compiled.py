"""A neural network and its compiled form: the same plan, and the same estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope import api
from coremlscope.devices import find_device
from coremlscope.devices.unit import SETTINGS
from coremlscope.model import ir
from coremlscope.planning.forecast.explain import explain
from coremlscope.planning.forecast.planner import place_functions
from tests.support import networks

_FOLDER = "models/getbouncer__cardscan-ios"
_SIZE = 32


def _add_convolution(
    builder: NeuralNetworkBuilder, name: str, given: str, result: str, **options: object
) -> None:
    weights, bias = networks.random(3, 3, 4, 4), networks.random(4)
    known = {"border_mode": "valid", "has_bias": False, **options}
    builder.add_convolution(
        name, 4, 4, 3, 3, 2, 2, groups=1, W=weights, b=bias, input_name=given, output_name=result, **known
    )


def _add_norm(builder: NeuralNetworkBuilder, given: str, result: str) -> None:
    ones = np.ones(4, np.float32)
    builder.add_batchnorm("norm", 4, ones, ones, ones, ones, input_name=given, output_name=result)


def _add_padding(builder: NeuralNetworkBuilder, given: str, result: str, value: float = 0.0) -> None:
    builder.add_padding("pad", 0, 1, 0, 1, value=value, input_name=given, output_name=result)


def _written(*, value: float = 0.0) -> ir.Model:
    """Padding, a convolution and a normalization, as exporters write them."""
    builder = networks.network({"x": (1, 4, _SIZE, _SIZE)}, exact=True)
    _add_padding(builder, "x", "padded", value)
    _add_convolution(builder, "conv", "padded", "sum")
    _add_norm(builder, "sum", "normal")
    builder.add_activation("relu", "RELU", "normal", "y")
    return networks.read(builder)


def _folded() -> ir.Model:
    """The same as one convolution."""
    builder = networks.network({"x": (1, 4, _SIZE, _SIZE)}, exact=True)
    padding = {"padding_top": 0, "padding_bottom": 1, "padding_left": 0, "padding_right": 1}
    _add_convolution(builder, "conv", "x", "normal", has_bias=True, **padding)
    builder.add_activation("relu", "RELU", "normal", "y")
    return networks.read(builder)


@pytest.mark.parametrize(
    ("wanted", "part"),
    [("conv", ""), ("sum", ""), ("norm", "norm"), ("batch_norm", "norm"), ("pad", "pad"), ("padded", "pad")],
)
def test_what_is_folded_is_explained_as_part_of_the_planned_operation(wanted: str, part: str) -> None:
    (found,) = explain(_written(), wanted, "m4").ops
    assert (found.name, found.part) == ("conv", part)
    assert found.unit is not None


def _types(model: ir.Model) -> list[str]:
    (placed,) = place_functions(model, find_device("m4")).values()
    return [op.type for op in placed.ops if not op.inserted]


def _answers(model: ir.Model) -> list[object]:
    """What does not name operations: planned costs by setting, and estimates."""
    found = api.estimate(model, ["m1", "m4", "a15", "a13"], compute_units=list(SETTINGS))
    planned = [
        (setting.compute_units, one.switches, pytest.approx(one.total_ms, rel=1e-6))
        for plan in found.plans
        for setting in plan.settings
        for one in setting.functions.values()
    ]
    return [planned, [(e.compute_units, e.latency, e.placement) for e in found.estimates]]


def test_padding_and_normalizations_fold_into_a_convolution() -> None:
    assert _types(_written()) == _types(_folded()) == ["conv", "relu"]
    assert _answers(_written()) == _answers(_folded())


def test_other_padding_and_shared_results_stay() -> None:
    assert _types(_written(value=1.0)) == ["pad", "conv", "relu"]
    builder = networks.network({"x": (1, 4, _SIZE, _SIZE)}, exact=True, outputs=("y", "sum", "padded"))
    _add_padding(builder, "x", "padded")
    _add_convolution(builder, "conv", "padded", "sum")
    _add_norm(builder, "sum", "y")
    assert _types(networks.read(builder)) == ["pad", "conv", "batch_norm"]


@pytest.mark.parametrize("name", ["FindFour", "FourRecognize", "SSDOcr"])
def test_published_networks_and_what_they_were_compiled_to(corpus: Path, name: str) -> None:
    written, compiled = (
        api.read(corpus / _FOLDER / f"{name}.{suffix}") for suffix in ("mlmodel", "mlmodelc")
    )
    assert _answers(written) == _answers(compiled)
