"""A profile of any size, with plans and estimates, made by hand: numbers follow from an operation's index."""

from __future__ import annotations

import dataclasses

from coremlscope.figures import Figure
from coremlscope.results.plan import DevicePlan, PlanReason, SettingEstimate, SettingPlan
from coremlscope.results.profile import Group, OpRow, OpTable, Profile
from tests.support.profiles import small_profile

_TYPES = ("conv", "linear", "add", "layer_norm", "softmax", "reshape", "matmul")


def large_profile(count: int, *, name: str = "model.layers.{layer}.block.{index}") -> Profile:
    """A profile of `count` operations in a row; two of them share a group and a kernel.

    Args:
        count: How many, an even number.
        name: What operations are called; their layer and index are filled in.
    """
    rows = [
        OpRow(
            f"main/{i}", _TYPES[i % len(_TYPES)], name.format(layer=i // 24, index=i), "main",
            (f"tensor<fp16, [1, {i % 512 + 1}, 64]>",), 1000 * i, 640, 640, 64 * (i % 3), i // 2, "fused",
            inputs=(i - 1,) if i else (), live_bytes=100_000 + 997 * (i * 7919 % 1000), kernel=i // 2,
        )
        for i in range(count)
    ]  # fmt: skip
    pairs = count // 2
    total = sum(range(1, pairs + 1))
    groups = tuple(
        Group(
            f"{rows[2 * k].type} + {rows[2 * k + 1].type}", (rows[2 * k].id, rows[2 * k + 1].id),
            (k * 7919 % pairs + 1) * 1e-7, (k * 7919 % pairs + 1) / total, ((f"node {k}", "Fused"),),
        )
        for k in range(pairs)
    )  # fmt: skip
    ops = OpTable.of(iter(rows))
    return dataclasses.replace(small_profile(), ops=ops, groups=groups, plans=(_plan(count),))


def _plan(count: int) -> DevicePlan:
    reasons = tuple(
        PlanReason(
            "neural_engine", f"rule-{n}", f"The Neural Engine takes no operation of kind {n}",
            f"use kind {n}b", "", "measured", "made by hand",
        )
        for n in range(5)
    )  # fmt: skip
    on_engine = [i % 10 != 0 for i in range(count)]
    costs = {
        "mps_graph": tuple(0.02 for _ in range(count)),
        "bnns": tuple(0.05 for _ in range(count)),
        "classic_cpu": tuple(0.06 for _ in range(count)),
        "ane": tuple(0.001 * (i % 7 + 1) if on else None for i, on in enumerate(on_engine)),
    }
    best = {
        "all": tuple(3 if on else 0 for on in on_engine),
        "cpu_and_ne": tuple(3 if on else 1 for on in on_engine),
        "cpu_and_gpu": (0,) * count, "cpu_only": (1,) * count,
    }  # fmt: skip
    unit_of = (1, 0, 0, 2)
    settings = tuple(
        SettingPlan(
            setting, 10.0 + place, 2 * place, column, {},
            SettingEstimate(
                Figure(0.002, 0.001, 0.003, "estimated"), "calibrated", "weights",
                {"weights": 0.002}, {"cpu": 1.0}, 0,
                tuple(1e-6 * (k % 9 + 1) for k in range(count // 2)),
                tuple(unit_of[column[2 * k]] for k in range(count // 2)),
                tuple(("weights", "compute")[k % 2] for k in range(count // 2)),
            ),
        )
        for place, (setting, column) in enumerate(best.items())
    )  # fmt: skip
    return DevicePlan(
        "M9", "m9", "macOS 99", "plans made by hand", (), ("cpu", "gpu", "neural_engine"),
        {"mps_graph": "gpu", "bnns": "cpu", "classic_cpu": "cpu", "ane": "neural_engine"}, (),
        {"cpu": (1,) * count, "gpu": (1,) * count, "neural_engine": tuple(map(int, on_engine))},
        costs, reasons, tuple(() if on else (i % 5,) for i, on in enumerate(on_engine)), ((),) * count,
        settings,
    )  # fmt: skip
