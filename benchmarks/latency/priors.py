"""The prior of each parameter, from micro-benchmarks and specifications.

`spread` is the standard deviation of the parameter's logarithm; zero fixes the parameter.
"""

from __future__ import annotations

from typing import NamedTuple

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit


class Prior(NamedTuple):
    """A prior value, its spread and its source."""

    value: float
    spread: float
    source: str = ""


#: The chip that each unit's parameters are for: the one with the most measurements.
REFERENCES: dict[ComputeUnit, str] = {NEURAL_ENGINE: "a14", GPU: "a13", CPU: "a13"}

_NEURAL_ENGINE = {
    "dispatch_s": Prior(0.35e-3, 0.3, "0.27 ms through Core ML on M1; published minima on A14 are 0.6 ms"),
    "kernel_s": Prior(40e-9, 0, "44 cycles per layer (ane-guide)"),
    "dense_FLOPps": Prior(6e12, 0.7, "5-12e12 on M1 in chains (ane-guide, EKS-A9)"),
    "window_gain": Prior(2.25, 0, "F(2x2, 3x3), as the compiler does it (ane-guide)"),
    "channels_step": Prior(16, 0, "the number of cores"),
    "pointwise_FLOPps": Prior(8e12, 0.7, "7e12 on M1 (ane-guide)"),
    "depthwise_FLOPps": Prior(0.5e12, 0.7, "0.47e12 in Core ML's own cost model"),
    "grouped_FLOPps": Prior(2e12, 0.2, "between dense and depthwise; few networks have them"),
    "linear_share": Prior(0.9, 0.15, "the same arithmetic as a convolution of 1x1"),
    "flat_share": Prior(0.67, 0.25, "(B, C, 8, 8) is 1.5 times as fast as (B, C, 1, 64) (smpanaro)"),
    "product_FLOPps": Prior(1.5e12, 0.5, "self-attention of 4096 tokens on M4 Pro"),
    "activation_Bps": Prior(60e9, 0.7, "of the order of weight streaming"),
    "elementwise_Bps": Prior(60e9, 0.7, "10e9 alone on M1 (ane-guide), more within a program"),
    "norm_Bps": Prior(20e9, 0.8, "several passes of element-wise speed"),
    "softmax_Bps": Prior(15e9, 0.5, "self-attention of 4096 tokens on M4 Pro"),
    "pool_Bps": Prior(30e9, 0.8),
    "reduce_Bps": Prior(60e9, 0.8),
    "copy_Bps": Prior(60e9, 0.8),
    "channels_Bps": Prior(100e9, 0.8),
    "reshape_Bps": Prior(300e9, 0.3, "no data moves without padding"),
    "layout_Bps": Prior(10e9, 0.7, "10e9 alone on M1 (ane-guide)"),
    "resize_Bps": Prior(60e9, 0.3),
    "weights_Bps": Prior(29e9, 0.1, "85 % of the memory's 34e9: 51-61e9 of M1's 68e9 (ane-guide, EKS-A9)"),
    "prefetch_bytes": Prior(0.5e6, 0.7, "part of the 2 MB per operand"),
    "spill_Bps": Prior(70e9, 0.4, "85e9 by counters (ane-guide)"),
    "on_chip_bytes": Prior(2e6, 0, "2 MB per operand (ane-guide)"),
    "function_Bps": Prior(100e9, 0.8),
    "gate_Bps": Prior(60e9, 0.8),
    "int8_gain": Prior(1.9, 0, "1.9 on M4, M5 Max (maderix) and A17 Pro"),
    "progress": Prior(0.6, 0.3, "UNet steps from A14 to A17 Pro; networks of 1 ms do not gain"),
    "dispatch_share": Prior(0.45, 0.2, "0.23 ms on M1, 0.11 on M5 Pro (ane-guide), 0.095 on M4 (maderix)"),
}

_CPU = {
    "dispatch_s": Prior(0.04e-3, 0, "0.036 ms on M1 (EKS-A9)"),
    "kernel_s": Prior(20e-6, 0.3),
    "dense_FLOPps": Prior(150e9, 0.3, "127e9 from the clocks of two cores' vector units, plus matrix units"),
    "window_gain": Prior(2.25, 0, "F(2x2, 3x3)"),
    "channels_step": Prior(16, 0, "blocks of channels"),
    "pointwise_FLOPps": Prior(120e9, 0.4),
    "depthwise_FLOPps": Prior(30e9, 0.5),
    "grouped_FLOPps": Prior(100e9, 0.3),
    "linear_share": Prior(0.9, 0.15),
    "flat_share": Prior(1.0, 0),
    "product_FLOPps": Prior(100e9, 0.3),
    "activation_Bps": Prior(6e9, 0.4, "20e9 for element-wise operations, and windows are read repeatedly"),
    "elementwise_Bps": Prior(20e9, 0.3, "28-32e9 in Core ML's own cost model"),
    "norm_Bps": Prior(8e9, 0.3),
    "softmax_Bps": Prior(4e9, 0.3),
    "pool_Bps": Prior(10e9, 0.3),
    "reduce_Bps": Prior(20e9, 0.3),
    "copy_Bps": Prior(20e9, 0.3, "20-23e9 in Core ML's own cost model"),
    "channels_Bps": Prior(10e9, 0.3),
    "reshape_Bps": Prior(300e9, 0.3),
    "layout_Bps": Prior(8e9, 0.3),
    "resize_Bps": Prior(8e9, 0.3),
    "weights_Bps": Prior(25e9, 0.3, "memory of 34e9"),
    "prefetch_bytes": Prior(1.0, 0, "no prefetching: caches are too small"),
    "spill_Bps": Prior(30e9, 0.3),
    "on_chip_bytes": Prior(4e6, 0, "half of the second-level cache"),
    "function_Bps": Prior(25e9, 0.3),
    "gate_Bps": Prior(10e9, 0.3),
    "int8_gain": Prior(1.0, 0),
    "progress": Prior(1.0, 0.2),
    "dispatch_share": Prior(1.0, 0),
}

_GPU = {
    **_CPU,
    "dispatch_s": Prior(1.5e-3, 0.3, "launch and transfer are expensive in Core ML's own cost model, too"),
    "kernel_s": Prior(50e-6, 0.3, "one command encoder per kernel"),
    "dense_FLOPps": Prior(250e9, 0.3, "0.63e12 by specification"),
    "pointwise_FLOPps": Prior(400e9, 0.3),
    "depthwise_FLOPps": Prior(100e9, 0.3),
    "product_FLOPps": Prior(300e9, 0.3),
    "activation_Bps": Prior(8e9, 0.5),
    "elementwise_Bps": Prior(8e9, 0.5),
    "copy_Bps": Prior(8e9, 0.5),
    "weights_Bps": Prior(18e9, 0.2, "half of the memory's 34e9"),
    "on_chip_bytes": Prior(1e12, 0),
}

PRIORS: dict[ComputeUnit, dict[str, Prior]] = {NEURAL_ENGINE: _NEURAL_ENGINE, CPU: _CPU, GPU: _GPU}
