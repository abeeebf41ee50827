"""Columns of plans beside the op table: the same as what was placed."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.devices import SETTINGS, UNITS, ComputeUnits, find_device
from coremlscope.measure.effort import Effort
from coremlscope.model import ir
from coremlscope.planning.cost.latency.kernels import fuse
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.placement.place import PlacedFunction
from coremlscope.results.plan import Plan, segments, unit_costs_ms, unit_counts
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.binding import bind_model
from tests.support import programs
from tests.support.large_profiles import large_profile

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


def test_columns_are_what_was_placed(profile: Profile, placed: PlacedFunction) -> None:
    table, plan = profile.ops, profile.plans[1]
    by_id = {op.id: op for op in placed.ops}
    ids = [*table.id, *(op.id for op in plan.inserted)]
    assert set(by_id) <= set(ids)
    backends = list(plan.backends)
    for setting in plan.settings:
        name = setting.compute_units
        assert set(setting.functions) == {"main"}
        assert setting.functions["main"].total_ms == setting.total_ms == placed.total_ms[name]
        assert setting.functions["main"].switches == setting.switches == placed.switches(name)
        for column, id_ in enumerate(ids):
            op = by_id.get(id_)
            if op is None:
                assert setting.backend[column] == -1
                assert all(plan.supported[unit][column] is None for unit in UNITS)
                continue
            choice = op.choices[name]
            assert (backends[setting.backend[column]] if choice.backend else None) == choice.backend
            for unit, more in choice.detour_ms.items():
                assert setting.detour_ms[unit][column] == more
    for column, id_ in enumerate(ids):
        if (op := by_id.get(id_)) is None:
            continue
        assert {b: c[column] for b, c in plan.cost_ms.items() if c[column] is not None} == {
            backend: cost.ms for backend, cost in op.costs.items()
        }
        assert {b: plan.bases[c[column]] for b, c in plan.cost_basis.items() if c[column] >= 0} == {
            backend: cost.basis for backend, cost in op.costs.items()
        }
        verdicts = op.verdicts.values()
        reasons = [plan.reasons[index] for index in plan.why[column]]
        assert reasons == [reason for verdict in verdicts for reason in verdict.reasons]
        advice = [plan.reasons[index] for index in plan.advice[column]]
        assert advice == [reason for verdict in verdicts for reason in verdict.advice]


@pytest.mark.parametrize("setting", EVERY)
def test_rows_are_what_was_placed(profile: Profile, placed: PlacedFunction, setting: ComputeUnits) -> None:
    """Every operation of the view, with every figure, in the same order."""
    plan = profile.plans[1]
    view = plan.view(profile.ops, plan.setting(setting))
    assert view.compute_units == setting
    for ours, op in zip(view.ops, placed.ops, strict=True):
        choice = op.choices[setting]
        assert (ours.id, ours.type, ours.name, ours.function) == (op.id, op.type, op.name, "main")
        assert (ours.outputs, ours.output_names) == (op.types, op.outputs)
        assert (ours.inserted, ours.depth) == (op.inserted, op.depth)
        assert (ours.backend, ours.unit) == (choice.backend, choice.unit)
        assert ours.planned_ms == op.cost_ms(setting)
        assert ours.weight == pytest.approx(choice.weight)
        assert ours.supported == {unit: op.supported(unit) for unit in UNITS}
        assert ours.cost_ms == {backend: cost.ms for backend, cost in op.costs.items()}
        assert ours.cost_basis == {backend: cost.basis for backend, cost in op.costs.items()}
        assert ours.detour_ms == choice.detour_ms
        assert ours.why == tuple(r for verdict in op.verdicts.values() for r in verdict.reasons)
        assert ours.advice == tuple(r for verdict in op.verdicts.values() for r in verdict.advice)
    assert unit_counts(view.ops) == Counter(op.choices[setting].unit for op in placed.ops)
    assert unit_costs_ms(view.ops, setting) == pytest.approx(
        {
            unit: sum(op.cost_ms(setting) or 0.0 for op in placed.ops if op.choices[setting].unit == unit)
            for unit in SETTINGS[setting]
        }
    )
    assert view.functions() == {"main": view.ops}


@pytest.mark.parametrize("setting", EVERY)
def test_segments_are_those_of_the_path(
    profile: Profile, placed: PlacedFunction, setting: ComputeUnits
) -> None:
    plan = profile.plans[1]
    view = plan.view(profile.ops, plan.setting(setting))
    ours = [
        view.plan.backends[backend] if backend else None for backend, run in segments(view.ops) for _ in run
    ]
    assert ours == [op.choices[setting].unit for op in placed.ops]


def test_nested_operations_are_graphs_of_their_own(profile: Profile) -> None:
    plan = profile.plans[0]
    view = plan.view(profile.ops)
    depths = {op.name: op.depth for op in view.ops}
    assert (depths["gate"], depths["inner"]) == (0, 1)
    weights: dict[str, float] = {}
    for op in view.ops:
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
    places = {op.id: op.before for op in profile.plans[0].inserted}
    assert places["main/input"] == 0
    assert places["main/output"] == len(profile.ops)
    assert {op.function for op in profile.plans[0].inserted} == {"main"}


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
