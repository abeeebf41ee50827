"""Columns of plans beside the op table: the same as the plan itself says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api, ir
from coremlscope.devices import SETTINGS, UNITS
from coremlscope.render.json import plain
from coremlscope.results.plan import DevicePlan
from coremlscope.results.profile import Profile
from tests.support import programs

QUICK = {"iterations": 2, "compile_iterations": 1, "load_iterations": 1, "warmups": 0}


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


def test_columns_are_the_plan(model: ir.Model, profile: Profile) -> None:
    table, of_device = profile.ops, profile.plans[1]
    planned = api.plan(model, "iphone-15-pro", every_setting=True)
    by_id = {op.id: op for op in planned.functions["main"].ops}
    ids = [*table.id, *(op.id for op in of_device.inserted)]
    assert set(by_id) <= set(ids)
    backends = list(of_device.backends)
    for setting in of_device.settings:
        name = setting.compute_units
        assert setting.total_ms == pytest.approx(planned.functions["main"].total_ms[name])
        assert setting.switches == planned.functions["main"].switches(name)
        for column, id_ in enumerate(ids):
            op = by_id.get(id_)
            if op is None:
                assert setting.backend[column] == -1
                assert all(of_device.supported[unit][column] is None for unit in UNITS)
                continue
            choice = op.choices[name]
            assert (backends[setting.backend[column]] if choice.backend else None) == choice.backend
            for unit, more in choice.detour_ms.items():
                assert setting.detour_ms[unit][column] == pytest.approx(more, rel=1e-5)
    for column, id_ in enumerate(ids):
        if (op := by_id.get(id_)) is None:
            continue
        assert {b: c[column] for b, c in of_device.cost_ms.items() if c[column] is not None} == pytest.approx(
            {backend: cost.ms for backend, cost in op.costs.items()}, rel=1e-5
        )
        told = [of_device.reasons[index].text for index in of_device.why[column]]
        assert told == [reason.text for verdict in op.verdicts.values() for reason in verdict.reasons]


def test_every_setting_beginning_with_the_one_asked_for(profile: Profile) -> None:
    assert [plan.device for plan in profile.plans] == ["M1", "iPhone 15 Pro"]
    for plan, estimate in zip(profile.plans, profile.estimates, strict=True):
        assert plan.settings[0].compute_units == estimate.compute_units == "cpu_and_ne"
        assert {setting.compute_units for setting in plan.settings} == set(SETTINGS)
        assert plan.settings[0].estimate is not None
        assert plan.settings[0].estimate.latency == estimate.latency
        assert plan.origin == "planned"
        assert plan.settings[0].estimate.latency.origin == "estimated"


def test_kernels_hold_operations(model: ir.Model, profile: Profile) -> None:
    estimated = api.estimate(model, ["m1"], compute_units=["cpu_and_ne"])[0].estimate
    found = profile.plans[0].settings[0].estimate
    assert found is not None
    assert found.kernel_s == tuple(kernel.seconds for kernel in estimated.kernels)
    for place, kernel in enumerate(estimated.kernels):
        members = [
            id_ for id_, index in zip(profile.ops.id, profile.ops.kernel, strict=True) if index == place
        ]
        assert set(members) == set(kernel.ops)


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
    assert Profile.from_json(json.loads(json.dumps(plain(profile.to_json())))) == profile


def test_without_devices_there_are_no_plans(model: ir.Model) -> None:
    bare = api.profile(model, **QUICK)
    assert bare.plans == bare.estimates == ()
    assert set(bare.ops.kernel) == {None}


def test_plans_of_a_large_model_stay_small() -> None:
    """Columns of numbers, reasons once: a few hundred bytes an operation, for one device."""
    from tests.support.large_profiles import large_profile

    text = json.dumps(plain(large_profile(2000).to_json()), separators=(",", ":"))
    assert len(text) < 2000 * 450
    assert isinstance(large_profile(2).plans[0], DevicePlan)
