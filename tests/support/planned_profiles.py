"""A profile with a device's plan beside it, made by hand."""

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
    reason = PlanReason("neural_engine", "ne-odd", "too odd", "make it even", "", "measured", "somewhere")
    #          mul   cast  conv  clip  linear cast  inserted
    ane = (None, None, 0.25 * slow, 0.125 * slow, None, None, None)
    bnns = (0.5, 0.0, 4.0, 2.0, 1.0, None, 0.0)
    settings = [
        _setting("all", (2, 2, 0, 0, 2, -1, 2), 1.875 + 0.375 * slow, 2, slow),
        _setting("cpu_only", (2, 2, 2, 2, 2, -1, 2), 7.5, 0, slow),
    ]
    yes_on_engine = (0, 0, 1, 1, 0, -1, 0)
    return DevicePlan(
        device, device.lower(), "macOS 15", "M1, macOS 14.5", (), ("cpu", "gpu", "neural_engine"),
        BACKENDS, (InsertedOp("main/input", "tensor_buffer_to_tensor", "main", ("tensor<fp32, [1]>",), 0),),
        {"cpu": (1, 1, 1, 1, 1, -1, 1), "gpu": (0,) * 7, "neural_engine": yes_on_engine},
        {"ane": ane, "mps_graph": (None,) * 7, "bnns": bnns}, (reason,), ((0,), (), (), (), (0,), (), ()),
        ((),) * 7, tuple(settings),
    )  # fmt: skip


def _setting(
    name: ComputeUnits, backend: tuple[int, ...], total_ms: float, switches: int, slow: float
) -> SettingPlan:
    seconds = (0.0005, 0.00025 * slow if name == "all" else 0.004, 0.001)
    total = sum(seconds)
    estimate = SettingEstimate(
        Figure(total, total * 0.9, total * 1.1, "estimated"), "calibrated", "compute",
        {"compute": total}, {"cpu": 0.8, "neural_engine": 0.2}, switches, seconds,
        (0, 2 if name == "all" else 0, 0), ("compute", "weights", "compute"),
    )  # fmt: skip
    return SettingPlan(name, total_ms, switches, backend, {"cpu": (None,) * 7}, estimate)


def planned_profile(device: str = "M1", *, slow: float = 1.0) -> Profile:
    """The made-up profile with a plan."""
    profile = small_profile()
    ops = dataclasses.replace(profile.ops, kernel=(0, None, 1, 1, 2, None))
    return dataclasses.replace(profile, ops=ops, plans=(device_plan(device, slow=slow),))
