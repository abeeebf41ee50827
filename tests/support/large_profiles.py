"""A profile of any size, with plans and estimates, made by hand: numbers follow from an operation's index."""

from __future__ import annotations

import msgspec.structs

from coremlscope.base.figures import Figure
from coremlscope.devices import ComputeUnit, ComputeUnits
from coremlscope.results.estimate import Bound, Estimate, Kernel
from coremlscope.results.measurement import Group, Status
from coremlscope.results.operations import OpDetails, OpRow, OpTable, Signature, WeightKind, WeightTable
from coremlscope.results.plan import FunctionCost, Plan, Reason, SettingPlan
from coremlscope.results.plan_encoding import ChoiceColumns, PlanColumns, decode_ops
from coremlscope.results.profile import Profile
from tests.support.profiles import small_measurement, small_profile

__all__ = ["large_profile", "layered_profile"]

_TYPES = ("conv", "linear", "add", "layer_norm", "softmax", "reshape", "matmul")
_BOUNDS: tuple[Bound, Bound] = ("weights", "compute")
_BACKENDS: dict[str, ComputeUnit] = {
    "mps_graph": "gpu",
    "bnns": "cpu",
    "classic_cpu": "cpu",
    "ane": "neural_engine",
}
#: The unit of each backend, an index into the units.
_UNIT_OF = (1, 0, 0, 2)


def large_profile(count: int, *, name: str = "model.layers.{layer}.block.{index}") -> Profile:
    """A profile of `count` operations in a row; two of them share a group and a kernel.

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
            output_names=(f"value_{i}",),
            flops=1000 * i,
            read_bytes=640,
            written_bytes=640,
            weight_bytes=64 * (i % 3),
            inputs=(i - 1,) if i else (),
            live_bytes=100_000 + 997 * (i * 7919 % 1000),
        )
        for i in range(count)
    ]
    pairs = count // 2
    total = sum(range(1, pairs + 1))
    groups = tuple(
        Group(
            label=f"{rows[2 * k].type} + {rows[2 * k + 1].type}",
            ops=(2 * k, 2 * k + 1),
            wall_s=(k * 7919 % pairs + 1) * 1e-7,
            share=(k * 7919 % pairs + 1) / total,
            engine_nodes=((f"node {k}", "Fused"),),
        )
        for k in range(pairs)
    )
    fused: Status = "fused"
    measured = msgspec.structs.replace(
        small_measurement(),
        groups=groups,
        status=(fused,) * count,
        group=tuple(i // 2 for i in range(count)),
    )
    best = _best(count)
    return msgspec.structs.replace(
        small_profile(),
        ops=msgspec.structs.replace(OpTable.of(rows), details=_details(count)),
        measurements=(measured,),
        plans=(_plan(count, best),),
        kernels=tuple(Kernel(rows[2 * k].name, "linear", (2 * k, 2 * k + 1)) for k in range(pairs)),
        estimates=tuple(_estimate(setting, column) for setting, column in best.items()),
    )


def _details(count: int) -> OpDetails:
    """Every operation reads the one before it; two of three also read a weight of their own."""
    weighted = [i for i in range(count) if i % 3]
    places = {i: place for place, i in enumerate(weighted)}
    number = len(weighted)
    return OpDetails(
        signatures=(
            Signature(parameters=("x",), attributes=(("axes", "[-1]"), ("epsilon", "1e-05"))),
            Signature(parameters=("weight", "x"), attributes=(("strides", "[1, 1]"),)),
        ),
        signature=tuple(int(i in places) for i in range(count)),
        arguments=tuple(
            (*((-1 - places[i],) if i in places else ()), i - 1 if i else "image") for i in range(count)
        ),
        weights=WeightTable(
            kinds=(
                WeightKind(type="tensor<fp16, [8, 4]>", storage="fp16"),
                WeightKind(type="tensor<fp16, [64, 4]>", storage="LUT 4-bit"),
            ),
            name=tuple(f"encoder_layers_{i // 24}_block_{i}_weight" for i in weighted),
            kind=tuple(i % 2 for i in weighted),
            stored_bytes=tuple(64 * (i % 3) for i in weighted),
            looked_at=(32,) * number,
            least=tuple(-0.5 - i for i in weighted),
            greatest=tuple(0.25 + i for i in weighted),
            histogram=((), (1, 2, 3, 997, *(0,) * 12)) * (number // 2) + ((),) * (number % 2),
        ),
    )


def _on_engine(count: int) -> list[bool]:
    return [i % 10 != 0 for i in range(count)]


def _best(count: int) -> dict[ComputeUnits, tuple[int, ...]]:
    """By setting the backend of each operation."""
    return {
        "all": tuple(3 if on else 0 for on in _on_engine(count)),
        "cpu_and_ne": tuple(3 if on else 1 for on in _on_engine(count)),
        "cpu_and_gpu": (0,) * count,
        "cpu_only": (1,) * count,
    }


def _plan(count: int, best: dict[ComputeUnits, tuple[int, ...]]) -> Plan:
    reasons = tuple(
        Reason(
            unit="neural_engine",
            rule=f"rule-{n}",
            text=f"The Neural Engine takes no operation of kind {n}",
            fix=f"use kind {n}b",
            source="made by hand",
        )
        for n in range(5)
    )
    on_engine = _on_engine(count)
    return Plan(
        device="M9",
        chip="m9",
        os="macOS 99",
        cost_model="plans made by hand",
        backends=_BACKENDS,
        ops=decode_ops(
            PlanColumns(
                id=tuple(f"main/{i}" for i in range(count)),
                backends=_BACKENDS,
                supported={
                    "cpu": (1,) * count,
                    "gpu": (1,) * count,
                    "neural_engine": tuple(map(int, on_engine)),
                },
                cost_ms={
                    "mps_graph": (0.02,) * count,
                    "bnns": (0.05,) * count,
                    "classic_cpu": (0.06,) * count,
                    "ane": tuple(0.001 * (i % 7 + 1) if on else None for i, on in enumerate(on_engine)),
                },
                reasons=reasons,
                why=tuple(() if on else (i % 5,) for i, on in enumerate(on_engine)),
                choices={name: ChoiceColumns(backend=column) for name, column in best.items()},
            )
        ),
        settings=tuple(
            SettingPlan(
                compute_units=setting,
                functions={"main": FunctionCost(10.0 + place, 2 * place)},
            )
            for place, setting in enumerate(best)
        ),
    )


def _estimate(setting: ComputeUnits, column: tuple[int, ...]) -> Estimate:
    pairs = len(column) // 2
    return Estimate(
        device="M9",
        chip="m9",
        os="macOS 99",
        compute_units=setting,
        latency=Figure(0.002, 0.001, 0.003, "estimated"),
        basis="calibrated",
        bound="weights",
        parts={"weights": 0.002},
        placement={"cpu": 1.0},
        switches=0,
        kernel_s=tuple(1e-6 * (k % 9 + 1) for k in range(pairs)),
        kernel_unit=tuple(_UNIT_OF[column[2 * k]] for k in range(pairs)),
        kernel_bound=tuple(_BOUNDS[k % 2] for k in range(pairs)),
    )


def layered_profile(count: int) -> Profile:
    """The same with layers of attention: values branch, join and pass around; each layer reads a mask."""
    profile = large_profile(count)
    inputs = tuple(_layered_inputs(i) for i in range(count))
    return msgspec.structs.replace(profile, ops=msgspec.structs.replace(profile.ops, inputs=inputs))


#: By the place of an operation in a layer of 24, the places that it reads; else the operation before it.
_READS = {2: (0,), 3: (0,), 4: (1,), 5: (2,), 6: (3,), 8: (5, 7), 12: (11, 4), 14: (13, 0), 23: (22, 14)}
#: The place that reads the mask, which is the first operation of all.
_MASKED = 10


def _layered_inputs(index: int) -> tuple[int, ...]:
    first, place = index - index % 24, index % 24
    if index == 0:
        return ()
    read = tuple(first + one for one in _READS[place]) if place in _READS else (index - 1,)
    return (*read, 0) if place == _MASKED else read
