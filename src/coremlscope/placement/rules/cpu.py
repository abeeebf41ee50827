"""CPU: it runs every operation of Core ML."""

from __future__ import annotations

from coremlscope.devices.unit import CPU
from coremlscope.ops import OPS
from coremlscope.placement.forms import always
from coremlscope.placement.publications import M1_PLAN, M4_PLANS
from coremlscope.placement.rule import Example, Rule, fp16, int32

__all__ = ["RULES"]

_BUFFERS = ("tensor_buffer_to_tensor", "tensor_to_tensor_buffer")

RULES: tuple[Rule, ...] = (
    Rule(
        id="cpu-runs",
        unit=CPU,
        ops=(*OPS, *_BUFFERS),
        when=always,
        effect="runs",
        message="the CPU runs every operation of Core ML, in float16 and float32",
        source=f"{M4_PLANS}; {M1_PLAN}",
        confidence="measured",
        applies_to=(
            Example("conv", {"x": fp16(1, 8, 8, 8), "weight": fp16(8, 8, 3, 3)}),
            Example("add", {"x": int32(1, 64), "y": int32(1, 64)}),
        ),
    ),
)
