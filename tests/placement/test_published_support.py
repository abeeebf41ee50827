"""The rules compared with published plans: which units Core ML reports for an operation."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from coremlscope.devices import GPU, NEURAL_ENGINE, ComputeUnit, find_device
from coremlscope.model.ir import DType, TensorType
from coremlscope.planning.patterns.rule import Example, ProgramFacts, example_view, fp16, fp32
from coremlscope.planning.placement.coreml_view import CoreMLGraph, Node
from coremlscope.planning.placement.eligibility import Verdicts, judge
from tests.support.published_ops import MODELS

_SWEEPS = {
    "conv_groups_2..32": [name for name in MODELS if name.startswith("conv_groups_")],
    "conv_1x9..1x15": [f"conv_1x{k}" for k in (9, 11, 13, 15)],
    "conv_strides_2_3_4_6_8": [name for name in MODELS if name.startswith("conv_stride_")],
}


@pytest.fixture(scope="module")
def published(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.rootpath / "tests" / "data" / "plans"


def _judge(ops: tuple[Example, ...], chip: str = "m4", os: str = "27") -> Verdicts:
    views = []
    for position, op in enumerate(ops):
        views.append(example_view(op, f"main/{position}", views))
    graph = CoreMLGraph("main", tuple(map(Node, views)))
    return judge(graph, find_device(chip, os), ProgramFacts())


def _support(verdicts: Verdicts, unit: ComputeUnit) -> str:
    """`yes` where it can run all operations of a model, `partial` where it can run the first or the last."""
    supported = [by_unit[unit].supported for by_unit in verdicts.values()]
    assert "unknown" not in supported
    if "no" not in supported:
        return "yes"
    return "partial" if supported[0] == "yes" or supported[-1] == "yes" else "no"


def _rows(path: Path) -> list[Mapping[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_single_operations_on_m4(published: Path) -> None:
    misses, count = [], 0
    for row in _rows(published / "m4_isolated_support.csv"):
        name = row["model"]
        if row["ane_supported(CPU_AND_NE)"].startswith("n/a"):
            continue  # Core ML could not read these models, or nothing was left of them
        for model in _SWEEPS.get(name, [name]):
            count += 1
            verdicts = _judge(MODELS[model])
            ours = _support(verdicts, NEURAL_ENGINE), _support(verdicts, GPU)
            theirs = row["ane_supported(CPU_AND_NE)"], row["gpu_supported(ALL)"]
            if name == "random_normal":
                ours = (verdicts["main/0"][NEURAL_ENGINE].supported, ours[1])  # a sum follows it
            if ours != theirs:
                misses.append((model, ours, theirs))
    assert count > 120
    assert misses == []


#: What published plans report for an operation, and the rules that agree.
_SAME = {
    "Unsupported tensor data type: int32": {"ne-int32"},
    'Unable to resolve operation input "y".': {"ne-int32"},
    "Unsupported gather index type": {"ne-gather-indices"},
    "Output type int32 is not supported.": {"ne-argument-place"},
    "Error: conv with large kernel does not meet decomposition preconditions": {"ne-conv-width"},
    "Invalid Pool kernel width (15), must be [1-8] or 32.": {"ne-max-pool-width"},
    "Error: the output channel of input A (80000 kB) can not fit the Kmem (65536 kB)": {"ne-long-sum"},
    'type int32 for "box_indices" is not supported. only support UInt16.': {"ne-crop-resize"},
    "scatter MIL op is currently only supported on uANE targets (u1-u4)": {"ne-scatter"},
}


def _reasons(by_unit: Mapping[ComputeUnit, object]) -> set[str]:
    verdict = by_unit[NEURAL_ENGINE]
    return {reason.rule for reason in verdict.reasons}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("file", "model"),
    [
        *[(name, name) for name in ("cast_f16_i8", "conv_k17", "crop_resize", "cumsum_c", "gather_dyn")],
        *[(name, name) for name in ("random_normal", "reduce_argmax_c", "scatter")],
        ("sw_conv_k1x16", "conv_1x24"),
        ("sw_matmul_k40000", "matmul_K65535"),
        ("max_pool_k15", "maxpool_9x9"),
    ],
)
def test_reasons_on_m4(published: Path, file: str, model: str) -> None:
    rows = [r for r in _rows(published / "m4_derived_ops.csv") if r["file"] == f"iso/{file}.analytics.mil"]
    verdicts = _judge(MODELS[model])
    assert [r["op"] for r in rows] == [op.type for op in MODELS[model]]
    for row, by_unit in zip(rows, verdicts.values(), strict=True):
        message = row["ane_validation_message"]
        unsupported = re.fullmatch(r'Unsupported MIL operation "(\w+)"\.', message)
        expected = {f"ne-{unsupported[1].replace('_', '-')}"} if unsupported else _SAME.get(message, set())
        assert bool(expected) == bool(message), f"no rule for {message!r}"
        assert _reasons(by_unit) == expected, row


def test_the_first_operations_on_m1(published: Path) -> None:
    """The fp32 start of a network on macOS 14.5: what is rejected, and with which messages."""
    with (published / "m1_mobilenet_edgetpu.csv").open(encoding="utf-8") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file, skipinitialspace=True)][1:6]
    single = fp32(1, 224, 224, 3)
    front = (
        Example("tensor_buffer_to_tensor", {"input": single}, outputs=(single,)),
        Example("mul", {"x": single, "y": 0.0078125}),
        Example("add", {"x": single, "y": -1.0}),
        Example("cast", {"x": single, "dtype": "fp16"}),
        Example("conv", {"x": fp16(1, 3, 224, 224), "weight": fp16(32, 3, 3, 3), "strides": [2, 2]}),
    )
    verdicts = _judge(front, "m1", "14.5")
    for row, (id_, by_unit) in zip(rows, verdicts.items(), strict=True):
        name, message = row[1].partition(".")[2], row[11]
        assert name == front[int(id_.partition("/")[2])].type
        assert [r.core_ml for r in by_unit[NEURAL_ENGINE].reasons] == ([message] if message else [])
        assert by_unit[GPU].supported == ("yes" if row[6] == "mps_graph" else "no")


def test_everything_else_of_the_network_runs_on_m1(published: Path) -> None:
    with (published / "m1_mobilenet_edgetpu.csv").open(encoding="utf-8") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file, skipinitialspace=True)][5:]
    refused = {row[1].partition(".")[2] for row in rows if row[11]}
    x = TensorType(DType.FP16, (1, 8, 7, 7))
    examples = {
        "conv": Example("conv", {"x": x, "weight": fp16(8, 8, 1, 1)}),
        "relu": Example("relu", {"x": x}),
        "add": Example("add", {"x": x, "y": x}),
        "avg_pool": Example(
            "avg_pool", {"x": x, "kernel_sizes": [7, 7], "strides": [1, 1], "pad_type": "valid"}
        ),
        "transpose": Example("transpose", {"x": x, "perm": [0, 2, 3, 1]}),
        "squeeze": Example("squeeze", {"x": fp16(1, 1, 1, 8), "axes": [1, 2]}),
        "softmax": Example("softmax", {"x": fp16(1, 8), "axis": -1}),
        "reshape": Example("reshape", {"x": x, "shape": [1, 392]}),
    }
    for name in {row[1].partition(".")[2] for row in rows} - refused - {"cast"}:
        verdicts = _judge((examples[name],), "m1", "14.5")["main/0"]
        assert verdicts[NEURAL_ENGINE].supported == "yes", name
        assert verdicts[GPU].supported == "yes", name
