"""Synthetic profiles with the plan of a device."""

from __future__ import annotations

import dataclasses

from coremlscope.devices import ComputeUnits
from coremlscope.figures import Figure
from coremlscope.results.plan import DevicePlan, InsertedOp, PlanReason, SettingEstimate, SettingPlan
from coremlscope.results.profile import Profile
from tests.support.profiles import small_profile

BACKENDS = {"ane": "neural_engine", "mps_graph": "gpu", "bnns": "cpu"}


def device_plan(device: str = "M1", *, slow: float = 1.0) -> DevicePlan:
    """Six operations and an inserted one: the convolution and its clip on the Neural Engine, the rest on the
    CPU, the cast behind it unknown. Costs there grow with `slow`."""
    reason = PlanReason(
        unit="neural_engine",
        rule="ne-odd",
        text="too odd",
        fix="make it even",
        core_ml="",
        confidence="measured",
        source="somewhere",
    )
    #          mul   cast  conv  clip  linear cast  inserted
    ane = (None, None, 0.25 * slow, 0.125 * slow, None, None, None)
    bnns = (0.5, 0.0, 4.0, 2.0, 1.0, None, 0.0)
    settings = [
        _setting("all", (2, 2, 0, 0, 2, -1, 2), 1.875 + 0.375 * slow, 2, slow),
        _setting("cpu_only", (2, 2, 2, 2, 2, -1, 2), 7.5, 0, slow),
    ]
    yes_on_engine = (0, 0, 1, 1, 0, -1, 0)
    return DevicePlan(
        device=device,
        chip=device.lower(),
        os="macOS 15",
        cost_model="M1, macOS 14.5",
        notes=(),
        units=("cpu", "gpu", "neural_engine"),
        backends=BACKENDS,
        inserted=(
            InsertedOp(
                id="main/input",
                type="tensor_buffer_to_tensor",
                function="main",
                outputs=("tensor<fp32, [1]>",),
                before=0,
            ),
        ),
        supported={"cpu": (1, 1, 1, 1, 1, -1, 1), "gpu": (0,) * 7, "neural_engine": yes_on_engine},
        cost_ms={"ane": ane, "mps_graph": (None,) * 7, "bnns": bnns},
        reasons=(reason,),
        why=((0,), (), (), (), (0,), (), ()),
        advice=((),) * 7,
        settings=tuple(settings),
    )


def _setting(
    name: ComputeUnits, backend: tuple[int, ...], total_ms: float, switches: int, slow: float
) -> SettingPlan:
    seconds = (0.0005, 0.00025 * slow if name == "all" else 0.004, 0.001)
    total = sum(seconds)
    estimate = SettingEstimate(
        latency=Figure(total, total * 0.9, total * 1.1, "estimated"),
        basis="calibrated",
        bound="compute",
        parts={"compute": total},
        placement={"cpu": 0.8, "neural_engine": 0.2},
        switches=switches,
        kernel_s=seconds,
        kernel_unit=(0, 2 if name == "all" else 0, 0),
        kernel_bound=("compute", "weights", "compute"),
    )
    return SettingPlan(
        compute_units=name,
        total_ms=total_ms,
        switches=switches,
        backend=backend,
        detour_ms={"cpu": (None,) * 7},
        estimate=estimate,
    )


def planned_profile(device: str = "M1", *, slow: float = 1.0) -> Profile:
    """The synthetic profile with a plan."""
    profile = small_profile()
    ops = dataclasses.replace(profile.ops, kernel=(0, None, 1, 1, 2, None))
    return dataclasses.replace(profile, ops=ops, plans=(device_plan(device, slow=slow),))
