"""Published facts about placement and speed that do not depend on a single operation or function.

`coremlscope rules` shows notes; they have no effect on plans.
"""

from __future__ import annotations

from functools import partial

import msgspec

from coremlscope.base.findings import Confidence
from coremlscope.devices.unit import GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.placement.publications import (
    ANE_BOOK,
    ANEMLL,
    APPLE_LOADING,
    APPLE_MODELS,
    APPLE_QUANTIZATION,
    APPLE_TRANSFORMERS,
    COREML_LLM,
    FLUID_AUDIO,
    GUIDE_GATES,
    GUIDE_LIMITS,
    GUIDE_OPS,
    MOBIUS,
)

_STUDY = "751K/Apple-Neural-Engine-Microarchitecture-Study-M6: notes"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A fact for people.

    Attributes:
        id: Stable, in kebab case; begins with the unit.
        unit: The compute unit.
        ops: Operations that it is about; may be empty.
        text: The fact.
        fix: What to do about it; may be empty.
        source: Who published it.
        confidence: How the source knows.
    """

    id: str
    unit: ComputeUnit
    ops: tuple[str, ...]
    text: str
    fix: str
    source: str
    confidence: Confidence


_ne = partial(Note, unit=NEURAL_ENGINE)

NOTES: tuple[Note, ...] = (
    _ne(
        id="ne-note-int8-weights",
        ops=("constexpr_affine_dequantize",),
        text="symmetric int8 weights per channel are read as int8 from A15 and M2 on; M1 unpacks them to"
        " float16, so that they save file size only; weights with a zero point are slower or refused",
        fix="quantize with mode='linear_symmetric'",
        source=f"{ANE_BOOK}; {GUIDE_GATES}",
        confidence="measured",
    ),
    _ne(
        id="ne-note-palettes",
        ops=("constexpr_lut_to_dense",),
        text="palettes of 1, 2, 4, 6 and 8 bits are the Neural Engine's own compression: they are read"
        " packed on every generation, and unpacked just in time from iOS 17 on; strides above 2 leave the"
        " fast path",
        fix="palettize to 4 or 6 bits with groups of 8 or 16 channels; every palette more costs time, and"
        " palettes of vectors need newer systems",
        source=f"{APPLE_QUANTIZATION}; {APPLE_MODELS}",
        confidence="documented",
    ),
    _ne(
        id="ne-note-sparse-weights",
        ops=("constexpr_sparse_to_dense",),
        text="sparse weights with half of the elements zero or more are read packed on every generation from"
        " M1 on",
        fix="",
        source=GUIDE_GATES,
        confidence="measured",
    ),
    _ne(
        id="ne-note-activations-int8",
        ops=("quantize", "dequantize"),
        text="int8 weights with int8 activations run up to 1.9 times as fast on A17 Pro, M4 and later where"
        " most of the model is on the Neural Engine; CPU and GPU become slower; chains of 1x1 convolutions"
        " gain nothing",
        fix="use it for convolutional networks that stay on the Neural Engine",
        source=f"{APPLE_QUANTIZATION}; {_STUDY}",
        confidence="documented",
    ),
    _ne(
        id="ne-note-split-weights",
        ops=("conv", "linear", "matmul"),
        text="weights above 64 KB that are not compressed, and all above 16 MB, are split into parts",
        fix="palettize large weights",
        source=GUIDE_GATES,
        confidence="static analysis",
    ),
    _ne(
        id="ne-note-float16",
        ops=(),
        text="the Neural Engine computes in float16: values above 65504 overflow, partial sums above 32768"
        " become infinite, and NaN behaves as a large number",
        fix="scale inputs, clamp, and normalize before squaring",
        source=f"{_STUDY}; {FLUID_AUDIO}",
        confidence="measured",
    ),
    _ne(
        id="ne-note-rms-norm",
        ops=("reduce_mean", "reduce_sum_square"),
        text="the squares of an RMS norm overflow float16; a fused norm was placed where the same steps one"
        " by one were not",
        fix="divide by the square root of the width first, or use layer_norm on concat(x, -x)",
        source=f"{ANE_BOOK}; {ANEMLL}; {COREML_LLM}",
        confidence="measured",
    ),
    _ne(
        id="ne-note-mish",
        ops=("softplus",),
        text="mish (x * tanh(softplus(x))) overflows to NaN in float16",
        fix="clamp the softplus",
        source="apple/coremltools issue 2359",
        confidence="anecdotal",
    ),
    _ne(
        id="ne-note-attention",
        ops=("matmul", "softmax", "einsum"),
        text="there is no fused attention; one product of all heads does not fit the unit's memory, and"
        " softmax over a long last axis cannot be split",
        fix="split by heads, use einsum bchq,bkhc->bkhq and softmax over the channels, scale queries first,"
        " and lay causal masks as (1, keys, 1, queries)",
        source=f"{APPLE_MODELS}; {APPLE_TRANSFORMERS}",
        confidence="documented",
    ),
    _ne(
        id="ne-note-rotary",
        ops=("gather", "sin", "cos"),
        text="rotary embeddings that gather from tables inside the graph leave the Neural Engine",
        fix="pass cosines and sines in as (1, size, 1, length)",
        source=APPLE_MODELS,
        confidence="documented",
    ),
    _ne(
        id="ne-note-key-value-cache",
        ops=("read_state", "write_state", "slice_update"),
        text="states run on the Neural Engine in some models and fail in others; updates at places that are"
        " only known at run time crashed compilers",
        fix="read the cache as an input, return the new keys and values, and let the app write them",
        source=f"{APPLE_MODELS}; apple/coremltools issue 2553",
        confidence="documented",
    ),
    _ne(
        id="ne-note-dilated-vocoders",
        ops=("conv",),
        text="some dilated 1-D convolutions of vocoders stay on the CPU; large dilations are fastest as"
        " chains of 2 and 3",
        fix="chain convolutions with dilations of 2 and 3",
        source=f"{MOBIUS}; {APPLE_MODELS}",
        confidence="measured",
    ),
    _ne(
        id="ne-note-channels",
        ops=(),
        text="channels that are no multiple of the interleaving (a power of two) are padded, and rows to 16"
        " bytes",
        fix="use multiples of 16 or 32",
        source=GUIDE_LIMITS,
        confidence="measured",
    ),
    _ne(
        id="ne-note-factors",
        ops=("tile", "pixel_shuffle", "space_to_depth", "depth_to_space"),
        text="tiles and pixel shuffles are native with factors of 2, 3, 4 and 8",
        fix="use these factors, and broadcasting in place of tile",
        source=GUIDE_OPS,
        confidence="static analysis",
    ),
    _ne(
        id="ne-note-many-operations",
        ops=("einsum",),
        text="very long programs (15,849 operations) take the compiler tens of gigabytes, and twelve parallel"
        " branches that join in one operation very long",
        fix="split the model, and attention into fewer pieces",
        source=_STUDY,
        confidence="measured",
    ),
    _ne(
        id="ne-note-first-load",
        ops=(),
        text="the first load compiles for the Neural Engine: seconds to minutes, kept by the path of the"
        " compiled model",
        fix="ship a compiled model, keep it at one path, and load it before it is needed",
        source=APPLE_LOADING,
        confidence="documented",
    ),
    _ne(
        id="ne-note-hints",
        ops=(),
        text="the hints for infrequent reshaping and fast prediction together cost 26 % on a model with fixed"
        " shapes",
        fix="measure with and without",
        source=FLUID_AUDIO,
        confidence="measured",
    ),
    _ne(
        id="ne-note-background",
        ops=(),
        text="iOS 27 and macOS 27 run the Neural Engine for apps in the background only with the entitlement"
        " for continued inference",
        fix="add com.apple.developer.background-tasks.continued-processing.inference",
        source="Apple's documentation of entitlements",
        confidence="documented",
    ),
    _ne(
        id="ne-note-anchors",
        ops=(),
        text="one more output, taken from where the Neural Engine computes, kept a model on it (353 ms"
        " became 44 ms)",
        fix="try a second output that the app ignores",
        source="laishere/kokoro-coreml",
        confidence="measured",
    ),
    _ne(
        id="ne-note-failures-of-26",
        ops=(),
        text="on macOS 26 large models that the compiler for the Neural Engine refuses ended the app at the"
        " first prediction, and enumerated shapes failed with arrays of given strides",
        fix="allow CPU_AND_GPU there, and let Core ML choose the strides",
        source="apple/coremltools issues 2758 and 2730",
        confidence="anecdotal",
    ),
    Note(
        id="gpu-note-two-ranges",
        unit=GPU,
        ops=(),
        text="two inputs with ranges of shapes that meet sent 141 operations to the GPU, six times slower",
        fix="use fixed or enumerated shapes, or split the model",
        source="laishere/kokoro-coreml",
        confidence="measured",
    ),
    Note(
        id="gpu-note-crashes",
        unit=GPU,
        ops=(),
        text="mixed CPU and GPU plans crashed on macOS 26.4 and 26.5, and some GPU stages end the app on"
        " iOS 27 and macOS 27",
        fix="update to macOS 26.6, or use CPU_ONLY for these stages",
        source=FLUID_AUDIO,
        confidence="measured",
    ),
)
