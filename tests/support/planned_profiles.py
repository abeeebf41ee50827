"""Profiles with a device's plan and its estimates, made by hand."""

from __future__ import annotations

import msgspec.structs

from coremlscope.base.figures import Figure
from coremlscope.devices import ComputeUnit, ComputeUnits
from coremlscope.devices.app_limits import AppLimit
from coremlscope.results.calibration import OwnCalibration
from coremlscope.results.estimate import Estimate, Kernel, LoadEstimate, MemoryEstimate, NearRow, UnitTerms
from coremlscope.results.generation import TokenRate
from coremlscope.results.plan import FunctionCost, Plan, Reason, SettingPlan, WhatIf
from coremlscope.results.plan_encoding import ChoiceColumns, InsertedOp, PlanColumns, decode_ops
from coremlscope.results.profile import Profile
from tests.support.profiles import small_profile

__all__ = ["BACKENDS", "KERNELS", "device_estimates", "device_plan", "planned_profile"]

BACKENDS: dict[str, ComputeUnit] = {"ane": "neural_engine", "mps_graph": "gpu", "bnns": "cpu"}
#: The operations of the small profile that run as one: the product, the convolution with its clip, `linear`.
KERNELS = (
    Kernel("image_scaled", "elementwise", (0,)),
    Kernel("stem", "conv", (2, 3)),
    Kernel("classifier", "linear", (4,)),
)


#: The plan of `device_plan` as if the only rule were gone.
_WITHOUT = WhatIf(
    hypothesis="without",
    unit="neural_engine",
    function="main",
    rule="ne-odd",
    reason="too odd",
    fix="make it even",
    source="somewhere",
    ops=(1, 5),
    moved={"neural_engine": 3},
    planned_ms=1.5,
    saved_ms=0.75,
    switches=0,
    saved_s=Figure(0.0004, 0.0001, 0.0007, "estimated"),
    effect="without it 3 operations move to the Neural Engine: planned cost 33 % less,"
    " estimated 400 µs less (100 µs to 700 µs)",
)


def device_plan(device: str = "M1", *, slow: float = 1.0) -> Plan:
    """Six operations and an inserted one: the convolution and its clip on the Neural Engine, the rest on the
    CPU, the last cast unknown. Costs on the Neural Engine grow with `slow`."""
    reason = Reason(
        unit="neural_engine", rule="ne-odd", text="too odd", fix="make it even", source="somewhere"
    )
    inserted = InsertedOp(
        id="main/input",
        type="tensor_buffer_to_tensor",
        function="main",
        outputs=("tensor<fp32, [1]>",),
        output_names=("image",),
    )
    table = small_profile().ops
    #      inserted mul cast conv         clip          linear cast
    ane = (None, None, None, 0.25 * slow, 0.125 * slow, None, None)
    bnns = (0.0, 0.5, 0.0, 4.0, 2.0, 1.0, None)
    ops = decode_ops(
        PlanColumns(
            id=("main/input", *table.id),
            inserted=(inserted,),
            backends=BACKENDS,
            supported={
                "cpu": (1, 1, 1, 1, 1, 1, -1),
                "gpu": (0,) * 7,
                "neural_engine": (0, 0, 0, 1, 1, 0, -1),
            },
            cost_ms={"ane": ane, "bnns": bnns},
            reasons=(reason,),
            why=((), (0,), (), (), (), (0,), ()),
            choices={
                "all": ChoiceColumns(backend=(2, 2, 2, 0, 0, 2, -1)),
                "cpu_only": ChoiceColumns(backend=(2, 2, 2, 2, 2, 2, -1)),
            },
        )
    )
    ops.over(table)
    return Plan(
        device=device,
        chip=device.lower(),
        os="macOS 15",
        cost_model="M1, macOS 14.5",
        backends=BACKENDS,
        ops=ops,
        settings=(
            msgspec.structs.replace(_setting("all", 1.875 + 0.375 * slow, 2), what_ifs=(_WITHOUT,)),
            _setting("cpu_only", 7.5, 0),
        ),
    )


def _setting(name: ComputeUnits, total_ms: float, switches: int) -> SettingPlan:
    return SettingPlan(compute_units=name, functions={"main": FunctionCost(total_ms, switches)})


def device_estimates(device: str = "M1", *, slow: float = 1.0) -> tuple[Estimate, ...]:
    """The estimates under the settings of `device_plan`."""
    return _estimate(device, "all", 0.00025 * slow, 2), _estimate(device, "cpu_only", 0.004, 0)


def _estimate(device: str, setting: ComputeUnits, conv_s: float, switches: int) -> Estimate:
    seconds = (0.0005, conv_s, 0.001)
    total = sum(seconds)
    return Estimate(
        device=device,
        chip=device.lower(),
        os="macOS 15",
        compute_units=setting,
        latency=Figure(total, total * 0.9, total * 1.1, "estimated"),
        basis="calibrated",
        bound="compute",
        parts={"compute": total},
        placement={"cpu": 0.8, "neural_engine": 0.2},
        switches=switches,
        terms=(
            UnitTerms(
                unit="cpu",
                compute_s=total * 0.9,
                weights_s=total * 0.1,
                activations_s=0.0,
                operations_s=0.0,
                launch_s=0.0,
            ),
        ),
        own=None
        if setting == "all"
        else OwnCalibration(measurements=12, models=5, factors={"cpu": 1.25, "neural_engine": 0.75}),
        load=LoadEstimate(
            first_s=Figure(20, 5, 80, "estimated"),
            cached_s=Figure(0.5, 0.1, 2.5, "estimated"),
            publications=3,
        ),
        memory=_memory(device),
        near=(
            NearRow(
                network="small-8",
                family="small",
                publication="somebody",
                url="https://example.com/small",
                chip="m1",
                unit="cpu",
                precision="fp16",
                measured_s=total,
                estimated_s=total * 1.25,
                distance=0.25,
            ),
        ),
        kernel_s=seconds,
        kernel_unit=(0, 2 if setting == "all" else 0, 0),
        kernel_bound=("compute", "weights", "compute"),
    )


def _memory(device: str) -> MemoryEstimate:
    return MemoryEstimate(
        weights_bytes=2000,
        expanded_bytes=4000,
        activations_bytes=1000,
        peak_op="main/1",
        weights_by_unit={"cpu": 4000},
        activations_by_unit={"cpu": 1000},
        peak=Figure(3000.0, 1000.0, 8000.0, "estimated"),
        basis="live ranges",
        limit=AppLimit(device=device, limit_bytes=2_000_000, source="somebody", url="https://example.com"),
    )


def _rate(device: str) -> TokenRate:
    return TokenRate(
        device=device,
        chip=device.lower(),
        os="macOS 15",
        compute_units="all",
        function="main",
        phase="decode",
        tokens=1,
        context=512,
        cache_bytes=2**20,
        step_s=Figure(0.02, 0.016, 0.025, "estimated"),
        tokens_per_s=Figure(50, 40, 62.5, "estimated"),
        bound="weights",
        basis="calibrated",
        unit="gpu",
    )


def planned_profile(device: str = "M1", *, slow: float = 1.0) -> Profile:
    """The small profile with a plan, kernels and estimates."""
    return msgspec.structs.replace(
        small_profile(),
        plans=(device_plan(device, slow=slow),),
        kernels=KERNELS,
        estimates=device_estimates(device, slow=slow),
        rates=(_rate(device),),
    )
