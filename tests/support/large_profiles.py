"""Synthetic profiles of any size with plans and estimates; numbers depend on the operation's index only."""

from __future__ import annotations

import dataclasses

from coremlscope.devices import ComputeUnits
from coremlscope.figures import Figure
from coremlscope.results.plan import DevicePlan, PlanReason, SettingEstimate, SettingPlan
from coremlscope.results.profile import Group, OpRow, OpTable, Profile
from tests.support.profiles import small_profile

_TYPES = ("conv", "linear", "add", "layer_norm", "softmax", "reshape", "matmul")


def large_profile(count: int, *, name: str = "model.layers.{layer}.block.{index}") -> Profile:
    """A profile of a chain of `count` operations; each pair shares a group and a kernel.

    Args:
        count: How many, an even number.
        name: What operations are called; their layer and index are filled in.
    """
    rows = [
        OpRow(
            id=f"main/{i}",
            type=_TYPES[i % len(_TYPES)],
            name=name.format(layer=i // 24, index=i),
            function="main",
            outputs=(f"tensor<fp16, [1, {i % 512 + 1}, 64]>",),
            flops=1000 * i,
            read_bytes=640,
            written_bytes=640,
            weight_bytes=64 * (i % 3),
            group=i // 2,
            status="fused",
            inputs=(i - 1,) if i else (),
            live_bytes=100_000 + 997 * (i * 7919 % 1000),
            kernel=i // 2,
        )
        for i in range(count)
    ]
    pairs = count // 2
    total = sum(range(1, pairs + 1))
    groups = tuple(
        Group(
            label=f"{rows[2 * k].type} + {rows[2 * k + 1].type}",
            op_ids=(rows[2 * k].id, rows[2 * k + 1].id),
            wall_s=(k * 7919 % pairs + 1) * 1e-7,
            share=(k * 7919 % pairs + 1) / total,
            engine_nodes=((f"node {k}", "Fused"),),
        )
        for k in range(pairs)
    )
    ops = OpTable.of(iter(rows))
    return dataclasses.replace(small_profile(), ops=ops, groups=groups, plans=(_plan(count),))


def _plan(count: int) -> DevicePlan:
    reasons = tuple(
        PlanReason(
            unit="neural_engine",
            rule=f"rule-{n}",
            text=f"The Neural Engine takes no operation of kind {n}",
            fix=f"use kind {n}b",
            core_ml="",
            confidence="measured",
            source="made by hand",
        )
        for n in range(5)
    )
    on_engine = [i % 10 != 0 for i in range(count)]
    costs = {
        "mps_graph": tuple(0.02 for _ in range(count)),
        "bnns": tuple(0.05 for _ in range(count)),
        "classic_cpu": tuple(0.06 for _ in range(count)),
        "ane": tuple(0.001 * (i % 7 + 1) if on else None for i, on in enumerate(on_engine)),
    }
    best: dict[ComputeUnits, tuple[int, ...]] = {
        "all": tuple(3 if on else 0 for on in on_engine),
        "cpu_and_ne": tuple(3 if on else 1 for on in on_engine),
        "cpu_and_gpu": (0,) * count,
        "cpu_only": (1,) * count,
    }
    return DevicePlan(
        device="M9",
        chip="m9",
        os="macOS 99",
        cost_model="plans made by hand",
        notes=(),
        units=("cpu", "gpu", "neural_engine"),
        backends={"mps_graph": "gpu", "bnns": "cpu", "classic_cpu": "cpu", "ane": "neural_engine"},
        inserted=(),
        supported={"cpu": (1,) * count, "gpu": (1,) * count, "neural_engine": tuple(map(int, on_engine))},
        cost_ms=costs,
        reasons=reasons,
        why=tuple(() if on else (i % 5,) for i, on in enumerate(on_engine)),
        advice=((),) * count,
        settings=tuple(_setting(place, name, column) for place, (name, column) in enumerate(best.items())),
    )


def _setting(place: int, name: ComputeUnits, column: tuple[int, ...]) -> SettingPlan:
    kernels = range(len(column) // 2)
    unit_of_backend = (1, 0, 0, 2)
    return SettingPlan(
        compute_units=name,
        total_ms=10.0 + place,
        switches=2 * place,
        backend=column,
        detour_ms={},
        estimate=SettingEstimate(
            latency=Figure(0.002, 0.001, 0.003, "estimated"),
            basis="calibrated",
            bound="weights",
            parts={"weights": 0.002},
            placement={"cpu": 1.0},
            switches=0,
            kernel_s=tuple(1e-6 * (k % 9 + 1) for k in kernels),
            kernel_unit=tuple(unit_of_backend[column[2 * k]] for k in kernels),
            kernel_bound=tuple(("weights", "compute")[k % 2] for k in kernels),
        ),
    )
