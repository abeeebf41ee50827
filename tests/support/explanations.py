"""Explanations of one operation, made by hand."""

from __future__ import annotations

import msgspec.structs

from coremlscope.base.figures import Figure
from coremlscope.results.explanation import (
    AppliedRule,
    BackendCost,
    Explanation,
    Explanations,
    Forced,
    PathStep,
)
from coremlscope.results.plan import Reason

__all__ = ["EXPLANATIONS", "PATH", "REASON"]

REASON = Reason(
    unit="neural_engine",
    rule="ne-odd",
    text="odd | operations do not run",
    fix="take an even | one",
    core_ml="Unsupported",
    confidence="documented",
    source="a test",
)
PATH = (PathStep("cpu", 3, False), PathStep("neural_engine", 9, False), PathStep("cpu", 1, True))
_COST = BackendCost(
    backend="bnns",
    unit="cpu",
    is_supported=True,
    planned_ms=0.5,
    low_ms=0.4,
    high_ms=0.6,
    basis="fitted",
    rate="60.85 G bytes a second (bytes)",
    rate_source="plans on M9",
)
_ONE = Explanation(
    id="main/7",
    name="odd\x1b[2J",
    type="cumsum",
    function="main",
    outputs=("tensor<fp16, [1, 64]>",),
    output_names=("y",),
    unit="cpu",
    backend="bnns",
    alternatives={"gpu": "rates"},
    planned_ms=2.0,
    supported={"cpu": "yes", "gpu": "yes", "neural_engine": "no"},
    costs=(_COST, msgspec.structs.replace(_COST, backend="ane", unit="neural_engine", is_supported=False)),
    path=PATH,
    forced=(
        Forced(unit="cpu", is_chosen=True, is_supported=True, is_allowed=True),
        Forced(unit="gpu", is_chosen=False, is_supported=True, is_allowed=False),
        Forced(
            unit="neural_engine",
            is_chosen=False,
            is_supported=False,
            is_allowed=True,
            planned_ms=1.5,
            more_ms=-0.5,
            more_s=Figure(-0.002, -0.003, -0.001, "estimated"),
            moved=4,
            path=(PathStep("neural_engine", 13, True),),
        ),
    ),
    rules=(
        AppliedRule(reason=REASON, counts=True),
        AppliedRule(reason=msgspec.structs.replace(REASON, confidence="anecdotal"), counts=False),
        AppliedRule(reason=msgspec.structs.replace(REASON, effect="runs"), counts=False),
    ),
)
EXPLANATIONS = Explanations(
    path="folder/net.mlpackage",
    device="M9",
    os="macOS 99",
    compute_units="cpu_and_ne",
    cost_model="rates of M9",
    wanted="cumsum",
    ops=(_ONE,),
    left_out=2,
)
