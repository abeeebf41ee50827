"""A row in the table of operations is all that an operation needs to be run, planned and estimated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from coremlscope.devices import UNITS, find_device
from coremlscope.model.ir import DType
from coremlscope.ops import OPS, traits_of
from coremlscope.ops.bind import BoundFunction, bind
from coremlscope.ops.emit import Lowering, Tensor
from coremlscope.ops.infer import same_as
from coremlscope.ops.lower import lower
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.traits import NO_TRAITS, Trait
from coremlscope.ops.work import per_element
from coremlscope.planning.cost.latency import geometry, kinds
from coremlscope.planning.cost.latency.kernels import fuse
from coremlscope.planning.cost.planned.prices import price
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.patterns.rule import ProgramFacts, selects
from coremlscope.planning.placement.coreml_view import view_function
from coremlscope.planning.placement.eligibility import judge
from coremlscope.planning.placement.rules import RULES
from tests.support import graphs, programs

_NAME = "squared_tanh"
_MAP = graphs.tensor(1, 8, 16, 16, dtype=DType.FP16)
_DEVICE = find_device("m4", "27")


def _lower(op: Lowering) -> Tensor:
    y = op.emit("Tanh", op["x"])
    return op.emit("Mul", y, y)


def _row(traits: Trait) -> OpSpec:
    return OpSpec(
        name=_NAME,
        doc="The square of tanh(x).",
        traits=traits,
        infer=same_as(),
        lower=_lower,
        work=per_element(2),
    )


@pytest.fixture(autouse=True)
def forget() -> None:
    """Forgets what was looked up for the name of the operation."""
    for known in (selects, geometry._measure_of, traits_of, kinds._kind_by_traits):
        known.cache_clear()


@pytest.fixture
def add_row(monkeypatch: pytest.MonkeyPatch):
    """Adds the row of an operation with some traits to the table, for one test."""
    assert isinstance(OPS, dict)
    return lambda traits: monkeypatch.setitem(OPS, _NAME, _row(traits))


def _function() -> BoundFunction:
    """A convolution and the new operation behind it."""
    x, y, z = (graphs.value(name, _MAP) for name in "xyz")
    kernel = np.full((8, 8, 1, 1), 0.01, np.float16)
    ops = (
        graphs.op("conv", y, x=x, weight=kernel, pad_type="valid"),
        graphs.op(_NAME, z, x=y),
    )
    return bind(graphs.function((x,), ops, (z,)), OPS)


def _verdicts(bound: BoundFunction) -> Mapping[str, str]:
    verdicts = judge(view_function(bound, _DEVICE.os), _DEVICE, ProgramFacts())["z"]
    return {unit: verdict.supported for unit, verdict in verdicts.items()}


def test_a_new_activation_is_bound_and_run(add_row) -> None:
    add_row(Trait.ACTIVATION)
    bound = _function()
    assert not bound.problems
    assert bound.graph.ops[-1].outputs[0].type == _MAP
    x = np.random.default_rng(0).standard_normal((1, 8, 16, 16)).astype(np.float16)
    (result,) = programs.run_onnx(lower(bound), {"x": x}).values()
    summed = 0.01 * x.astype(np.float32).sum(axis=1, keepdims=True).repeat(8, axis=1)
    np.testing.assert_allclose(result, np.tanh(summed) ** 2, atol=1e-3)


def test_a_new_activation_is_planned(add_row) -> None:
    add_row(Trait.ACTIVATION)
    bound = _function()
    assert _verdicts(bound) == dict.fromkeys(UNITS, "yes")
    prices = price(bound.graph.ops[-1], rate_table(_DEVICE))
    moved = 2 * 8 * 16 * 16 * 2
    assert prices["ane"].ms == pytest.approx(moved / (68 * 2**30) * 1e3)
    assert {known.basis for known in prices.values()} == {"assumed"}


def test_a_new_activation_is_estimated(add_row) -> None:
    add_row(Trait.ACTIVATION)
    (kernel,) = fuse(_function().graph)
    assert kernel.kind == "pointwise"
    assert kernel.ops == ["y", "z"]
    assert kernel.vector == 8 * 16 * 16


def test_rules_about_activations_concern_a_new_one(add_row) -> None:
    add_row(Trait.ACTIVATION)
    concerned = {rule.id for rule in RULES if rule.concerns(_NAME)}
    assert {"ne-runs-activations", "gpu-runs", "cpu-runs", "ne-rank"} <= concerned
    assert "ne-runs-elementwise" not in concerned


@pytest.mark.parametrize(
    ("traits", "kinds", "units"),
    [
        (Trait.FUNCTION, ["pointwise"], ["yes", "yes", "yes"]),
        (Trait.CONVERSION, ["pointwise"], ["yes", "yes", "yes"]),
        (Trait.CHANNEL_SCALE, ["pointwise"], ["yes", "yes", "yes"]),
        (Trait.ARITHMETIC, ["pointwise"], ["yes", "yes", "yes"]),
        (Trait.ELEMENTWISE, ["pointwise", "elementwise"], ["yes", "yes", "yes"]),
        (Trait.SOFTMAX, ["pointwise", "softmax"], ["yes", "yes", "yes"]),
        (Trait.VECTOR_NORMALIZATION, ["pointwise", "norm"], ["yes", "yes", "yes"]),
        (Trait.NORMALIZATION, ["pointwise", "map_norm"], ["yes", "yes", "yes"]),
        (Trait.POOLING, ["pointwise", "pool"], ["yes", "yes", "yes"]),
        (Trait.REDUCTION, ["pointwise", "reduce"], ["yes", "yes", "yes"]),
        (Trait.RESIZING, ["pointwise", "resize"], ["yes", "yes", "yes"]),
        (Trait.COPY, ["pointwise", "copy"], ["yes", "yes", "yes"]),
        (Trait.REARRANGEMENT, ["pointwise", "layout"], ["yes", "yes", "yes"]),
        (Trait.RESHAPE, ["pointwise"], ["yes", "yes", "yes"]),
        (Trait.RECURRENCE, ["pointwise", "recurrent"], ["yes", "yes", "unknown"]),
        (Trait.LIST, ["pointwise", "other"], ["yes", "unknown", "unknown"]),
        (NO_TRAITS, ["pointwise", "other"], ["yes", "unknown", "unknown"]),
    ],
    ids=str,
)
def test_traits_decide_about_kernels_and_placement(
    add_row, traits: Trait, kinds: list[str], units: list[str]
) -> None:
    add_row(traits)
    bound = _function()
    assert [kernel.kind for kernel in fuse(bound.graph)] == kinds
    assert _verdicts(bound) == dict(zip(("cpu", "gpu", "neural_engine"), units, strict=True))


def test_control_flow_is_free_by_its_trait(add_row) -> None:
    add_row(Trait.CONTROL_FLOW)
    assert {known.ms for known in price(_function().graph.ops[-1], rate_table(_DEVICE)).values()} == {0.0}


def test_without_a_row_nothing_is_known() -> None:
    assert _verdicts(_function()) == dict.fromkeys(UNITS, "unknown")
