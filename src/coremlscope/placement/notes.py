"""What was published about placement and speed that no single operation or function shows.

Notes are shown by `coremlscope rules`; nothing is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass

from coremlscope.devices.unit import GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.placement.publications import (
    ANE_BOOK,
    ANEFORGE,
    ANEMLL,
    APPLE_LOADING,
    APPLE_MODELS,
    APPLE_QUANTIZATION,
    APPLE_TRANSFORMERS,
    APPLE_WINDOWS,
    COREML_LLM,
    FLUID_AUDIO,
    GUIDE_GATES,
    GUIDE_LIMITS,
    GUIDE_OPS,
    HOLLANCE,
    MOBIUS,
)
from coremlscope.placement.verdict import Confidence

__all__ = ["NOTES", "Note"]

_STUDY = "751K/Apple-Neural-Engine-Microarchitecture-Study-M6: notes"


@dataclass(frozen=True, slots=True)
class Note:
    """A fact for people.

    Attributes:
        id: Stable, in kebab case; begins with the unit.
        unit: The compute unit.
        topic: What it is about, in a word: `weights`, `precision`, `shapes`, `attention`, …
        ops: Operations that it speaks of; may be empty.
        text: What is so.
        fix: What to do about it; may be empty.
        source: Who published it.
        confidence: How it is known.
    """

    id: str
    unit: ComputeUnit
    topic: str
    ops: tuple[str, ...]
    text: str
    fix: str
    source: str
    confidence: Confidence


def _ne(
    id_: str, topic: str, ops: tuple[str, ...], text: str, fix: str, source: str, confidence: Confidence
) -> Note:
    return Note(id_, NEURAL_ENGINE, topic, ops, text, fix, source, confidence)


NOTES: tuple[Note, ...] = (
    _ne(
        "ne-note-int8-weights",
        "weights",
        ("constexpr_affine_dequantize",),
        "symmetric int8 weights per channel are read as int8 from A15 and M2 on; M1 unpacks them to float16,"
        " so that they save file size only; weights with a zero point are slower or refused",
        "quantize with mode='linear_symmetric'",
        f"{ANE_BOOK}; {GUIDE_GATES}",
        "measured",
    ),
    _ne(
        "ne-note-palettes",
        "weights",
        ("constexpr_lut_to_dense",),
        "palettes of 1, 2, 4, 6 and 8 bits are the Neural Engine's own compression: they are read packed on"
        " every generation, and unpacked just in time from iOS 17 on; strides above 2 leave the fast path",
        "palettize to 4 or 6 bits with groups of 8 or 16 channels; every palette more costs time, and"
        " palettes of vectors need newer systems",
        f"{APPLE_QUANTIZATION}; {APPLE_MODELS}",
        "documented",
    ),
    _ne(
        "ne-note-sparse-weights",
        "weights",
        ("constexpr_sparse_to_dense",),
        "sparse weights with half of the elements zero or more are read packed on every generation from M1"
        " on",
        "",
        GUIDE_GATES,
        "measured",
    ),
    _ne(
        "ne-note-activations-int8",
        "weights",
        ("quantize", "dequantize"),
        "int8 weights with int8 activations run up to 1.9 times as fast on A17 Pro, M4 and later where most"
        " of the model is on the Neural Engine; CPU and GPU become slower; chains of 1x1 convolutions gain"
        " nothing",
        "use it for convolutional networks that stay on the Neural Engine",
        f"{APPLE_QUANTIZATION}; {_STUDY}",
        "documented",
    ),
    _ne(
        "ne-note-split-weights",
        "weights",
        ("conv", "linear", "matmul"),
        "weights above 64 KB that are not compressed, and all above 16 MB, are split into parts",
        "palettize large weights",
        GUIDE_GATES,
        "static analysis",
    ),
    _ne(
        "ne-note-kernel-reads-on-m3",
        "weights",
        ("conv", "linear"),
        "on M3, weights of exactly 1 MiB a core (sizes that are multiples of 2048) are read at 17 to 19 GB/s",
        "choose other sizes, or split the layer",
        "llms-on-apple-neural-engine, chapter 6",
        "anecdotal",
    ),
    _ne(
        "ne-note-float16",
        "precision",
        (),
        "the Neural Engine computes in float16: values above 65504 overflow, partial sums above 32768 become"
        " infinite, and NaN behaves as a large number",
        "scale inputs, clamp, and normalise before squaring",
        f"{_STUDY}; {FLUID_AUDIO}",
        "measured",
    ),
    _ne(
        "ne-note-rms-norm",
        "precision",
        ("reduce_mean", "reduce_sum_square"),
        "the squares of an RMS norm overflow float16; a fused norm was placed where the same steps one by"
        " one were not",
        "divide by the square root of the width first, or use layer_norm on concat(x, -x)",
        f"{ANE_BOOK}; {ANEMLL}; {COREML_LLM}",
        "measured",
    ),
    _ne(
        "ne-note-mish",
        "precision",
        ("softplus",),
        "mish (x * tanh(softplus(x))) overflows to NaN in float16",
        "clamp the softplus",
        "apple/coremltools issue 2359",
        "anecdotal",
    ),
    _ne(
        "ne-note-attention",
        "attention",
        ("matmul", "softmax", "einsum"),
        "there is no fused attention; one product of all heads does not fit the unit's memory, and softmax"
        " over a long last axis cannot be split",
        "split by heads, use einsum bchq,bkhc->bkhq and softmax over the channels, scale queries first, and"
        " lay causal masks as (1, keys, 1, queries)",
        f"{APPLE_MODELS}; {APPLE_TRANSFORMERS}",
        "documented",
    ),
    _ne(
        "ne-note-rotary",
        "attention",
        ("gather", "sin", "cos"),
        "rotary embeddings that gather from tables inside the graph leave the Neural Engine",
        "pass cosines and sines in as (1, size, 1, length)",
        APPLE_MODELS,
        "documented",
    ),
    _ne(
        "ne-note-key-value-cache",
        "attention",
        ("read_state", "write_state", "slice_update"),
        "states run on the Neural Engine in some models and fail in others; updates at places that are only"
        " known at run time crashed compilers",
        "read the cache as an input, return the new keys and values, and let the app write them",
        f"{APPLE_MODELS}; apple/coremltools issue 2553",
        "documented",
    ),
    _ne(
        "ne-note-windows",
        "attention",
        (),
        "shifted windows have no native form",
        "use windows without a shift, partitioned by two 5-D reshapes",
        APPLE_WINDOWS,
        "documented",
    ),
    _ne(
        "ne-note-dilated-vocoders",
        "layers",
        ("conv",),
        "some dilated 1-D convolutions of vocoders stay on the CPU; large dilations are fastest as chains of"
        " 2 and 3",
        "chain convolutions with dilations of 2 and 3",
        f"{MOBIUS}; {APPLE_MODELS}",
        "measured",
    ),
    _ne(
        "ne-note-channels",
        "shapes",
        (),
        "channels that are no multiple of the interleaving (a power of two) are padded, and rows to 16 bytes",
        "use multiples of 16 or 32",
        GUIDE_LIMITS,
        "measured",
    ),
    _ne(
        "ne-note-factors",
        "shapes",
        ("tile", "pixel_shuffle", "space_to_depth", "depth_to_space"),
        "tiles and pixel shuffles are native with factors of 2, 3, 4 and 8",
        "use these factors, and broadcasting in place of tile",
        GUIDE_OPS,
        "static analysis",
    ),
    _ne(
        "ne-note-neural-networks",
        "layers",
        (),
        "in neural networks of iOS 13 to 15, batched matmul, broadcasting layers, ND concats, and inner"
        " products over more than one position left the Neural Engine; M4 with macOS 27 runs all of them as"
        " ML Programs",
        "convert to an ML Program",
        f"{HOLLANCE}; apple/coremltools issue 1196",
        "anecdotal",
    ),
    _ne(
        "ne-note-direct-programs",
        "layers",
        ("scaled_dot_product_attention", "topk", "local_response_norm", "gelu", "concat"),
        "programs that bypass Core ML meet other limits: attention masks are ignored, gelu and concat are"
        " refused, top-k fails with k of 3 and 4",
        "",
        ANEFORGE,
        "measured",
    ),
    _ne(
        "ne-note-small-models",
        "size",
        (),
        "small models stay on the CPU though every operation could run: the Neural Engine must save 0.25 ms"
        " of planned cost at the start or end of a network, 0.375 ms in the middle",
        "put more work into one model",
        f"{_STUDY}; LuuOW/meridian-mcp; {ANE_BOOK}",
        "measured",
    ),
    _ne(
        "ne-note-many-operations",
        "size",
        ("einsum",),
        "very long programs (15,849 operations) take the compiler tens of gigabytes, and twelve parallel"
        " branches that join in one operation very long",
        "split the model, and attention into fewer pieces",
        _STUDY,
        "measured",
    ),
    _ne(
        "ne-note-first-load",
        "loading",
        (),
        "the first load compiles for the Neural Engine: seconds to minutes, kept by the path of the compiled"
        " model",
        "ship a compiled model, keep it at one path, and load it before it is needed",
        APPLE_LOADING,
        "documented",
    ),
    _ne(
        "ne-note-hints",
        "loading",
        (),
        "the hints for infrequent reshaping and fast prediction together cost 26 % on a model with fixed"
        " shapes",
        "measure with and without",
        FLUID_AUDIO,
        "measured",
    ),
    _ne(
        "ne-note-background",
        "settings",
        (),
        "iOS 27 and macOS 27 run the Neural Engine for apps in the background only with the entitlement for"
        " continued inference",
        "add com.apple.developer.background-tasks.continued-processing.inference",
        "Apple's documentation of entitlements",
        "documented",
    ),
    _ne(
        "ne-note-anchors",
        "settings",
        (),
        "one more output, taken from where the Neural Engine computes, kept a model on it (353 ms became 44"
        " ms)",
        "try a second output that the app ignores",
        "laishere/kokoro-coreml",
        "measured",
    ),
    _ne(
        "ne-note-onnx-runtime",
        "settings",
        (),
        "ONNX Runtime's provider for Core ML hands over fewer operations: no matmul by a computed matrix, no"
        " DequantizeLinear",
        "convert with coremltools",
        "ekhodzitsky/gigastt; tienshen/coreml-ep-performance-study",
        "measured",
    ),
    _ne(
        "ne-note-core-ai",
        "settings",
        (),
        "exports for Core AI have limits of their own: Python floats become float32 constants, silu computes"
        " in float32, int4 weights by blocks leave the Neural Engine",
        "use float16 constants, x * sigmoid(x), and scales per channel",
        f"{APPLE_MODELS}; apple/coreai-models issue 205",
        "documented",
    ),
    Note(
        "gpu-note-large-macs",
        GPU,
        "settings",
        (),
        "with all units allowed, Macs with large GPUs (M5 Max) plan whole models on the GPU",
        "look at CPU_AND_NE to see what the Neural Engine can run, and choose units by time",
        "erwinzhang7/coreml-compute-placement",
        "measured",
    ),
    _ne(
        "ne-note-failures-of-26",
        "crash",
        (),
        "on macOS 26 large models that the compiler for the Neural Engine refuses ended the app at the first"
        " prediction, and enumerated shapes failed with arrays of given strides",
        "allow CPU_AND_GPU there, and let Core ML choose the strides",
        "apple/coremltools issues 2758 and 2730",
        "anecdotal",
    ),
    Note(
        "gpu-note-slices-on-iphones",
        GPU,
        "layers",
        ("slice_by_index",),
        "slices went to the CPU on an iPhone where M4 ran them on the GPU",
        "look at a plan for the iPhone",
        "apple/coremltools issue 2550",
        "anecdotal",
    ),
    Note(
        "gpu-note-two-ranges",
        GPU,
        "settings",
        (),
        "two inputs with ranges of shapes that meet sent 141 operations to the GPU, six times slower",
        "use fixed or enumerated shapes, or split the model",
        "laishere/kokoro-coreml",
        "measured",
    ),
    Note(
        "gpu-note-crashes",
        GPU,
        "crash",
        (),
        "mixed CPU and GPU plans crashed on macOS 26.4 and 26.5, some GPU stages end the app on iOS 27 and"
        " macOS 27, and palettes with scales per channel crash on macOS 26",
        "update to macOS 26.6, or use CPU_ONLY for these stages",
        f"{FLUID_AUDIO}; apple/coremltools issue 2688",
        "measured",
    ),
)
