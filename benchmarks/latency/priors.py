"""The prior of each parameter, from micro-benchmarks and specifications.

`spread` is the standard deviation of the parameter's logarithm; zero fixes the parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit


class Prior(NamedTuple):
    """A prior value, its spread and its source."""

    value: float
    spread: float
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPriors:
    """The priors of a unit.

    Attributes:
        reference: The chip that the parameters are for.
        priors: The priors by name of the parameter.
    """

    reference: str
    priors: Mapping[str, Prior]


_NEURAL_ENGINE = {
    "dispatch_s": Prior(0.35e-3, 0.3, "0.27 ms through Core ML on M1; published minima on A14 are 0.6 ms"),
    "kernel_s": Prior(0.6e-6, 0.35, "44 cycles per layer (ane-guide), and what Core ML's programs add"),
    "light_share": Prior(1.0, 0),
    "dense_FLOPps": Prior(6e12, 0.7, "5-12e12 on M1 in chains (ane-guide, EKS-A9)"),
    "window_gain": Prior(2.25, 0, "F(2x2, 3x3), as the compiler does it (ane-guide)"),
    "channels_step": Prior(16, 0, "the number of cores"),
    "pointwise_FLOPps": Prior(8e12, 0.5, "7e12 on M1 (ane-guide)"),
    "depthwise_FLOPps": Prior(0.5e12, 0.7, "0.47e12 in Core ML's own cost model"),
    "grouped_FLOPps": Prior(2e12, 0.2, "between dense and depthwise; few networks have them"),
    "linear_share": Prior(0.9, 0.15, "the same arithmetic as a convolution of 1x1"),
    "flat_rows": Prior(
        96, 0.1, "64 rows as (B, C, 1, 64) take 1.5 times as long as (B, C, 8, 8) (smpanaro); 94 (EKS-A9)"
    ),
    "product_FLOPps": Prior(1.5e12, 0.5, "self-attention of 4096 tokens on M4 Pro"),
    "batch_share": Prior(
        0.6, 0.15, "SigLIP at batch 16 on M4 Pro (E. Zhang) against ViT-B/16 alone on M4 (UForm)"
    ),
    "attention_gain": Prior(
        2.0, 0.1, "59 ms of attention in SD-Turbo on M4 Pro with macOS 26; 117 ms from rates of older systems"
    ),
    "single_share": Prior(1.0, 0, "the Neural Engine computes in half precision"),
    "half_bytes": Prior(2, 0, "on every system"),
    "activation_Bps": Prior(60e9, 0.7, "of the order of weight streaming"),
    "elementwise_Bps": Prior(60e9, 0.7, "10e9 alone on M1 (ane-guide), more within a program"),
    "norm_Bps": Prior(20e9, 0.8, "several passes of element-wise speed"),
    "softmax_Bps": Prior(15e9, 0.5, "self-attention of 4096 tokens on M4 Pro"),
    "attention_Bps": Prior(15e9, 0.5, "self-attention of 4096 tokens on M4 Pro"),
    "pool_Bps": Prior(30e9, 0.8),
    "reduce_Bps": Prior(60e9, 0.8),
    "copy_Bps": Prior(60e9, 0.8),
    "channels_Bps": Prior(100e9, 0.8),
    "reshape_Bps": Prior(300e9, 0.3, "no data moves without padding"),
    "layout_Bps": Prior(20e9, 0.7, "10e9 alone on M1 (ane-guide), more within a program"),
    "layout_gain": Prior(2.5, 0.5, "between 1, and 6 where nothing but traffic is left (60e9)"),
    "resize_Bps": Prior(60e9, 0.3),
    "weights_Bps": Prior(29e9, 0.1, "85 % of the memory's 34e9: 51-61e9 of M1's 68e9 (ane-guide, EKS-A9)"),
    "weights_hidden": Prior(1.0, 0, "weights are prefetched"),
    "prefetch_bytes": Prior(0.5e6, 0.7, "part of the 2 MB per operand"),
    "spill_Bps": Prior(70e9, 0.4, "85e9 by counters (ane-guide)"),
    "on_chip_bytes": Prior(2e6, 0, "2 MB per operand (ane-guide)"),
    "on_chip_gain": Prior(2.36, 0.5, "4.72 MB on M5 Pro (ane-guide); up to 32 MB on M4 (maderix)"),
    "function_Bps": Prior(100e9, 0.8),
    "gate_Bps": Prior(60e9, 0.8),
    "int8_gain": Prior(1.9, 0, "1.9 on M4, M5 Max (maderix) and A17 Pro"),
    "progress": Prior(0.5, 0.2, "UNet steps from A14 to A17 Pro; networks of 1 ms do not gain"),
    "generation_gain": Prior(1.07, 0.03, "of Macs: clocks rise with each generation"),
    "kernel_gain": Prior(1.1, 0.1),
    "matrix_gain": Prior(1.0, 0),
    "window_matrix_gain": Prior(1.0, 0),
    "dispatch_share": Prior(0.45, 0.2, "0.23 ms on M1, 0.11 on M5 Pro (ane-guide), 0.095 on M4 (maderix)"),
    "second_gain": Prior(0.0, 0, "of a dual Neural Engine: its own"),
}

_CPU = {
    "dispatch_s": Prior(0.036e-3, 0, "a linear layer of 64 outputs on M1 (EKS-A9)"),
    "kernel_s": Prior(2e-6, 0.5, "of the order of a barrier of all cores"),
    "light_share": Prior(1.0, 0),
    "dense_FLOPps": Prior(1.2e12, 0.2, "0.85e12 in windows of 12x12 on A15, in single precision"),
    "window_gain": Prior(2.25, 0, "F(2x2, 3x3): networks of 3x3 do 3.1e12 on M4 Max, twice what others do"),
    "channels_step": Prior(16, 0, "blocks of channels"),
    "pointwise_FLOPps": Prior(2.0e12, 0.2, "between convolutions with windows and linear layers"),
    "depthwise_FLOPps": Prior(0.07e12, 0.3, "no sums over channels: vector units only"),
    "grouped_FLOPps": Prior(0.4e12, 0.3),
    "linear_share": Prior(1.25, 0.1, "2.6e12 on M1: 512 rows of 1024 × 1024 (EKS-A9)"),
    "flat_rows": Prior(0, 0),
    "product_FLOPps": Prior(0.7e12, 0.7),
    "batch_share": Prior(1.0, 0),
    "attention_gain": Prior(1.0, 0),
    "single_share": Prior(0.62, 0.15, "1.6 times slower"),
    "half_bytes": Prior(4, 0, "single precision, as Core ML's graphs of BNNS date from macOS 15"),
    "activation_Bps": Prior(40e9, 0.7, "second-level caches"),
    "elementwise_Bps": Prior(60e9, 0.7, "twice Core ML's planned 28-32e9, which is no rate of hardware"),
    "norm_Bps": Prior(30e9, 0.7, "two passes"),
    "softmax_Bps": Prior(6e9, 0.4, "exponentials"),
    "attention_Bps": Prior(6e9, 0.7, "exponentials"),
    "pool_Bps": Prior(20e9, 0.3),
    "reduce_Bps": Prior(30e9, 0.3),
    "copy_Bps": Prior(60e9, 0.7, "twice Core ML's planned costs and more; of the order of one unit's memory"),
    "channels_Bps": Prior(24e9, 0.3, "twice Core ML's planned costs"),
    "reshape_Bps": Prior(300e9, 0),
    "layout_Bps": Prior(24e9, 0.7, "twice Core ML's planned costs"),
    "layout_gain": Prior(1.0, 0, "no system is known to differ"),
    "resize_Bps": Prior(12e9, 0.3),
    "weights_Bps": Prior(53e9, 0.1, "single rows of linear layers on M1 (EKS-A9)"),
    "weights_hidden": Prior(
        0.0, 0, "weights are read before they are used: the sum fits EKS-A9, the maximum not"
    ),
    "prefetch_bytes": Prior(1.0, 0, "no prefetching"),
    "spill_Bps": Prior(60e9, 0, "memory of 68e9"),
    "on_chip_bytes": Prior(12e6, 0, "the second-level cache"),
    "on_chip_gain": Prior(1.0, 0),
    "function_Bps": Prior(20e9, 0.7),
    "gate_Bps": Prior(15e9, 0.4),
    "int8_gain": Prior(1.0, 0),
    "progress": Prior(
        0.6, 0.15, "more cores help large operations only: DenseNet takes 17 ms on M1 and M1 Max"
    ),
    "generation_gain": Prior(1.08, 0.03, "clocks from M1 to M2: 1.09"),
    "kernel_gain": Prior(1.08, 0),
    "matrix_gain": Prior(1.0, 0),
    "window_matrix_gain": Prior(1.0, 0),
    "dispatch_share": Prior(1.0, 0),
    "second_gain": Prior(0.0, 0),
}

_GPU = {
    **_CPU,
    "window_gain": Prior(1.0, 0, "part of the rate above"),
    "copy_Bps": Prior(30e9, 0.3),
    "dispatch_s": Prior(
        1.1e-3, 0.2, "whole predictions go down to 1.5 ms on M5 Max, 1.9 ms on M4 and M1 Pro"
    ),
    "kernel_s": Prior(20e-6, 0.2, "one command encoder per kernel"),
    "light_share": Prior(0.12, 0.3, "Metal stitches elementwise operations, and folds moves into others"),
    "dense_FLOPps": Prior(1.4e12, 0.2, "between DenseNet on M1 (1.2e12) and two thirds of its 2.6e12"),
    "pointwise_FLOPps": Prior(1.64e12, 0.2, "1.8e12 in linear layers on M1 (EKS-A9)"),
    "depthwise_FLOPps": Prior(0.25e12, 0.3),
    "grouped_FLOPps": Prior(0.6e12, 0.3),
    "linear_share": Prior(1.1, 0.1, "1.8e12 on M1 (EKS-A9)"),
    "product_FLOPps": Prior(1.0e12, 0.2),
    "batch_share": Prior(1.0, 0),
    "attention_gain": Prior(1.0, 0),
    "single_share": Prior(1.0, 0, "both precisions take the same time on these GPUs"),
    "half_bytes": Prior(2, 0, "on every system"),
    "activation_Bps": Prior(45e9, 0.3, "two thirds of M1's memory"),
    "elementwise_Bps": Prior(50e9, 0.3, "two thirds of M1's memory"),
    "norm_Bps": Prior(20e9, 0.3, "two passes"),
    "softmax_Bps": Prior(15e9, 0.3, "three passes"),
    "attention_Bps": Prior(50e9, 0.4, "scores stay in registers"),
    "pool_Bps": Prior(30e9, 0.3),
    "reduce_Bps": Prior(30e9, 0.3),
    "channels_Bps": Prior(50e9, 0.3, "moves fold into the operations around them"),
    "layout_Bps": Prior(50e9, 0.3, "moves fold into the operations around them"),
    "resize_Bps": Prior(25e9, 0.3),
    "weights_Bps": Prior(45e9, 0.15, "two thirds of M1's memory"),
    "weights_hidden": Prior(1.0, 0, "weights are read while others are used"),
    "on_chip_bytes": Prior(1e12, 0, "the rates above include the memory"),
    "function_Bps": Prior(60e9, 0.3),
    "gate_Bps": Prior(60e9, 0.3),
    "progress": Prior(0.8, 0.08, "DenseNet is 1.6 times as fast on M1 Max, with four times the cores of M1"),
    "generation_gain": Prior(
        1.18, 0.03, "M4 Pro is 4 times as fast as M1 on convolutions, 3.5 by specification"
    ),
    "kernel_gain": Prior(1.2, 0.05, "systems and chips: DenseNet's 250 kernels on M1, 617 kernels on M5 Pro"),
    "matrix_gain": Prior(3.8, 0.15, "M5 Max: 6 × M4 Pro on products, 1.6 of which by specification"),
    "window_matrix_gain": Prior(2.8, 0.2, "M5 Max: 5 × M4 Pro on ResNet50"),
}

PRIORS: Mapping[ComputeUnit, UnitPriors] = {
    NEURAL_ENGINE: UnitPriors(reference="a14", priors=_NEURAL_ENGINE),
    CPU: UnitPriors(reference="m1", priors=_CPU),
    GPU: UnitPriors(reference="m1", priors=_GPU),
}
