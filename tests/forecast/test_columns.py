"""Columns of plans beside the op table: the same as what was placed."""

from __future__ import annotations

import json
from typing import Any

import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.devices import SETTINGS, UNITS, ComputeUnits, find_device
from coremlscope.measure.effort import Effort
from coremlscope.model import ir
from coremlscope.planning.cost.latency.kernels import fuse
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.placement.backend import UNIT_OF, named
from coremlscope.planning.placement.place import PlacedFunction
from coremlscope.results.plan import Plan, unit_costs_ms, unit_counts
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.binding import bind_model
from tests.support import programs
from tests.support.large_profiles import large_profile
from tests.support.planned_rows import rows

QUICK: dict[str, Any] = {
    "iterations": 2,
    "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0),
}
EVERY: tuple[ComputeUnits, ...] = tuple(SETTINGS)


def network(x: Any) -> Any:
    """Convolutions that the Neural Engine takes, something that it does not, and a loop."""
    for _ in range(8):
        x = mb.relu(x=mb.conv(x=x, weight=np.ones((32, 32, 3, 3), np.float16), pad_type="same"))
    x = mb.cumsum(x=x, axis=3, exclusive=False, reverse=False, name="running")
    counted = mb.while_loop(
        _cond=lambda i, y: mb.less(x=i, y=np.float16(3)),
        _body=lambda i, y: (mb.add(x=i, y=np.float16(1)), mb.relu(x=y, name="inner")),
        loop_vars=(np.float16(0), x),
    )
    return mb.sigmoid(x=counted[1], name="gate")


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return programs.build(network, {"x": np.zeros((1, 32, 56, 56), np.float16)})


@pytest.fixture(scope="module")
def profile(model: ir.Model) -> Profile:
    return api.profile(model, devices=["m1", "iphone-15-pro"], compute_units="cpu_and_ne", **QUICK)


@pytest.fixture(scope="module")
def placed(model: ir.Model) -> PlacedFunction:
    return place_functions(model, find_device("iphone-15-pro"), EVERY)["main"]


def test_rows_are_what_was_placed(profile: Profile, placed: PlacedFunction) -> None:
    """The plan has the very operations that were placed, in the same order, for each setting."""
    plan = profile.plans[1]
    assert [op.id for op in plan.ops] == [op.id for op in placed.ops]
    for ours, op in zip(plan.ops, placed.ops, strict=True):
        assert msgspec.structs.replace(ours, choices=op.choices) == op
        assert ours.choices == {name: op.choices[name] for name in ours.choices}
    assert plan.functions() == {"main": tuple(plan.ops)}
    for setting in plan.settings:
        name = setting.compute_units
        assert set(setting.functions) == {"main"}
        assert setting.functions["main"].total_ms == setting.total_ms == placed.total_ms[name]
        assert setting.functions["main"].switches == setting.switches == placed.switches(name)


@pytest.mark.parametrize("setting", EVERY)
def test_choices_are_a_backend_and_its_cost(placed: PlacedFunction, setting: ComputeUnits) -> None:
    for op in placed.ops:
        choice = op.choices[setting]
        assert choice.unit == (UNIT_OF[named(choice.backend)] if choice.backend else None)
        assert choice.planned_ms == (op.cost_ms.get(choice.backend) if choice.backend else None)
        assert set(op.supported) == set(UNITS)
    assert unit_counts(placed.ops, setting).total() == len(placed.ops)
    spent = sum(op.choices[setting].planned_ms or 0.0 for op in placed.ops)
    assert sum(unit_costs_ms(placed.ops, setting).values()) == pytest.approx(spent)
    ids = [id_ for segment in placed.segments(setting) for id_ in segment.ops]
    assert ids == [op.id for op in placed.ops if op.choices[setting].unit is not None]


def test_nested_operations_are_graphs_of_their_own(profile: Profile) -> None:
    plan = profile.plans[0]
    depths = {op.name: op.depth for op in plan.ops}
    assert (depths["gate"], depths["inner"]) == (0, 1)
    weights: dict[str, float] = {}
    for op in rows(plan):
        weights[op.graph] = weights.get(op.graph, 0.0) + op.weight
    assert len(weights) == 3
    assert all(total == pytest.approx(1.0) for total in weights.values())


def test_every_setting_beginning_with_the_one_asked_for(profile: Profile) -> None:
    assert [plan.device for plan in profile.plans] == ["M1", "iPhone 15 Pro"]
    for plan, headline in zip(profile.plans, profile.headline_estimates(), strict=True):
        assert plan.settings[0].compute_units == headline.compute_units == "cpu_and_ne"
        assert {setting.compute_units for setting in plan.settings} == set(SETTINGS)
        for setting in plan.settings:
            estimate = profile.estimate(plan.device, setting.compute_units)
            assert estimate is not None
            assert estimate.os == plan.os
            assert estimate.latency.origin == "estimated"
        assert profile.estimate(plan.device) == headline
        assert plan.origin == "planned"
        assert plan.setting("no such setting") is None


def test_kernels_hold_operations(model: ir.Model, profile: Profile) -> None:
    alone = api.estimate(model, ["m1"], compute_units=["cpu_and_ne"])
    found = profile.estimate("M1", "cpu_and_ne")
    assert found is not None
    assert found == alone.estimates[0]
    assert profile.kernels == alone.kernels
    kernels = profile.kernels_of(found)
    assert len(found.kernel_s) == len(found.kernel_unit) == len(found.kernel_bound) == len(kernels)
    fused = fuse(bind_model(model, None).graph)
    for kernel, expected in zip(profile.kernels, fused, strict=True):
        assert (kernel.name, kernel.kind) == (expected.name, expected.kind)
        assert [profile.ops.id[row] for row in kernel.ops] == [
            id_ for id_ in expected.ops if id_ in profile.ops.id
        ]


def test_inserted_operations_stand_at_the_edges(profile: Profile) -> None:
    ops = profile.plans[0].ops
    assert (ops[0].id, ops[-1].id) == ("main/input", "main/output")
    assert {op.function for op in ops if op.inserted} == {"main"}


def test_edges_and_live_memory(profile: Profile) -> None:
    table = profile.ops
    row = {name: index for index, name in enumerate(table.name)}
    inputs = table.inputs[row["gate"]]
    assert inputs is not None
    assert [table.type[maker] for maker in inputs] == ["while_loop"]
    assert max(size or 0 for size in table.live_bytes) >= 2 * 32 * 56 * 56 * 2


def test_json_there_and_back(profile: Profile) -> None:
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


def test_nothing_is_planned_without_devices(model: ir.Model) -> None:
    bare = api.profile(model, **QUICK)
    assert (bare.plans, bare.kernels, bare.estimates) == ((), (), ())


def test_plans_of_a_large_model_stay_small() -> None:
    """Columns of numbers, reasons once: a few hundred bytes an operation, for one device."""
    text = json.dumps(large_profile(2000).to_json(), separators=(",", ":"))
    assert len(text) < 2000 * 450
    assert isinstance(large_profile(2).plans[0], Plan)
