"""CPU: runs every operation of Core ML."""

from __future__ import annotations

from coremlscope.devices.unit import CPU
from coremlscope.ops import OPS
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import BUFFERS
from coremlscope.planning.patterns.publications import M1_PLAN, M4_PLANS
from coremlscope.planning.patterns.rule import EVERY_OP, Example, Rule, RuleContext, fp16, int32


def _is_known(view: OpView, context: RuleContext) -> bool:
    return view.op.type in OPS or view.op.type in BUFFERS


RULES: tuple[Rule, ...] = (
    Rule(
        id="cpu-runs",
        unit=CPU,
        ops=EVERY_OP,
        when=_is_known,
        effect="runs",
        message="the CPU runs every operation of Core ML, in float16 and float32",
        source=f"{M4_PLANS}; {M1_PLAN}",
        confidence="measured",
        applies_to=(
            Example("conv", {"x": fp16(1, 8, 8, 8), "weight": fp16(8, 8, 3, 3)}),
            Example("add", {"x": int32(1, 64), "y": int32(1, 64)}),
        ),
        negative_examples=(Example("custom_layer", {"x": fp16(1, 64)}, outputs=(fp16(1, 64),)),),
    ),
)
