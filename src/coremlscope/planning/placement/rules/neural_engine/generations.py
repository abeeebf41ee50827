"""Neural Engine: what older generations and systems do not support."""

from __future__ import annotations

from functools import partial

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import always, extents
from coremlscope.planning.patterns.publications import (
    COMPILER_TEXTS,
    GUIDE_LIMITS,
    GUIDE_OPS,
    HOLLANCE,
    M4_PLANS,
    MOBIUS,
    RESAMPLE,
)
from coremlscope.planning.patterns.rule import (
    Example,
    ProgramFacts,
    Rule,
    RuleContext,
    Scope,
    fp16,
    tensor,
    weight,
)

#: A14 and M1.
_UP_TO_M1 = Scope(neural_engine=(None, 13))
#: A15 and M2.
_UP_TO_M2 = Scope(neural_engine=(None, 14))
_UP_TO_A12 = Scope(neural_engine=(None, 11))
_on_m1 = partial(Example, chip="m1", os="14.5")
_ENUMERATED = ProgramFacts(flexible_inputs={"x": "enumerated"})


def _padding(view: OpView) -> list[int]:
    """Elements added before and after each of the last axes."""
    return view.integers("pad")


def _pads_channels(view: OpView, context: RuleContext) -> bool:
    added = _padding(view)
    rank = len(view.shape("x"))
    axes = range(rank - len(added) // 2, rank)
    padded = {axis for k, axis in enumerate(axes) if added[2 * k] or added[2 * k + 1]}
    return rank >= 4 and bool(padded & set(range(rank - 2)))


def _gathers_batches(view: OpView, context: RuleContext) -> str:
    shape = view.shape("x")
    return f"x is {extents(view.type('x'))}" if len(shape) > 1 and (shape[0] or 1) > 1 else ""


def _depth(view: OpView, context: RuleContext) -> str:
    ranks = [len(view.shape(name)) for name in ("x", "y")]
    deepest = max(ranks)
    return f"an argument has rank {deepest}" if deepest >= 5 else ""


def _broadcasts_depth(view: OpView, context: RuleContext) -> bool:
    x, y = view.shape("x"), view.shape("y")
    # A single number does not count as a broadcast: PoolFormer subtracts its mean this way, and its published
    # latencies on A14 are those of the Neural Engine.
    single = 1 in (view.type("x").elements, view.type("y").elements)
    return len(x) == len(y) == 5 and x[2] != y[2] and not single


_SAMPLED = {"x": fp16(1, 3, 8, 8), "coordinates": fp16(1, 4, 4, 2)}
_RESIZED = {"x": fp16(1, 64, 16, 16), "scale_factor_height": 3.0, "scale_factor_width": 3.0}

RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-sine",
        unit=NEURAL_ENGINE,
        ops=("sin", "cos"),
        when=always,
        message="this Neural Engine has no sine and cosine; A16, M3 and later have",
        core_ml="This platform doesn't support Neuron ZinIrNeuronType::kSin (aka ZinIrNonLinearSin)",
        fix="pass tables of sines and cosines in (rotary embeddings), or use a polynomial; many of them break"
        " the graph into pieces and can make the compiler fail",
        source=f"{MOBIUS} (M2); {GUIDE_OPS}",
        confidence="measured",
        scope=_UP_TO_M2,
        applies_to=(
            Example("sin", {"x": fp16(1, 64)}, chip="m2", os="26"),
            _on_m1("cos", {"x": fp16(1, 64)}),
        ),
    ),
    Rule(
        id="ne-top-k-before-m2",
        unit=NEURAL_ENGINE,
        ops=("topk",),
        when=always,
        message="this Neural Engine does not sort, so top-k does not run on it; A15, M2 and later do",
        fix="return all scores and take the best in the app",
        source=GUIDE_OPS,
        confidence="measured",
        scope=_UP_TO_M1,
        applies_to=(_on_m1("topk", {"x": fp16(1, 64, 8), "k": 5, "axis": 1}),),
    ),
    Rule(
        id="ne-resample-before-ios-17",
        unit=NEURAL_ENGINE,
        ops=("resample",),
        when=always,
        message="before iOS 17 and macOS 14 only the CPU runs resample",
        fix="resize by whole factors with resize_nearest_neighbor or resize_bilinear, or warp in the app",
        source=RESAMPLE,
        confidence="measured",
        scope=Scope(before=(17, 0)),
        applies_to=(Example("resample", _SAMPLED, outputs=(fp16(1, 3, 4, 4),), chip="m2", os="13.4"),),
    ),
    Rule(
        id="ne-texture-before-m2",
        unit=NEURAL_ENGINE,
        ops=("resample", "affine"),
        when=always,
        message="this Neural Engine has no texture unit to sample with; A15, M2 and later have",
        fix="resize by whole factors with resize_nearest_neighbor or resize_bilinear, or warp in the app",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=_UP_TO_M1,
        applies_to=(
            _on_m1(
                "resample",
                _SAMPLED,
                outputs=(fp16(1, 3, 4, 4),),
            ),
        ),
    ),
    Rule(
        id="ne-pad-mode-before-m2",
        unit=NEURAL_ENGINE,
        ops=("pad",),
        when=lambda view, context: view.text("mode", "constant") in ("reflect", "symmetric", "reflection"),
        message="this Neural Engine does not pad by reflection; A15, M2 and later do",
        core_ml="Architecture does not support padding mode.",
        fix="pad with zeros or replicate the border",
        source=f"{GUIDE_LIMITS}; {M4_PLANS}",
        confidence="measured",
        scope=_UP_TO_M1,
        applies_to=(_on_m1("pad", {"x": fp16(1, 3, 8, 8), "pad": [1, 1, 1, 1], "mode": "reflect"}),),
        negative_examples=(
            _on_m1("pad", {"x": fp16(1, 3, 8, 8), "pad": [1, 1, 1, 1], "mode": "constant"}),
            _on_m1("pad", {"x": fp16(1, 3, 8, 8), "pad": [1, 1, 1, 1]}),
        ),
    ),
    Rule(
        id="ne-pad-channels-before-m2",
        unit=NEURAL_ENGINE,
        ops=("pad",),
        when=_pads_channels,
        message="this Neural Engine pads height and width only",
        core_ml="Channel padding is not supported on ANE",
        fix="concat constant channels, or give the convolution before it more output channels of zeros",
        source=GUIDE_LIMITS,
        confidence="static analysis",
        scope=_UP_TO_M1,
        applies_to=(_on_m1("pad", {"x": fp16(1, 3, 8, 8), "pad": [0, 1, 0, 0, 0, 0], "mode": "constant"}),),
        negative_examples=(_on_m1("pad", {"x": fp16(1, 3, 8, 8), "pad": [1, 1, 1, 1], "mode": "constant"}),),
    ),
    Rule(
        id="ne-gather-batch-before-m2",
        unit=NEURAL_ENGINE,
        ops=(Trait.GATHER,),
        when=_gathers_batches,
        message="this Neural Engine gathers from a batch of 1 only: {detail}",
        core_ml="Cannot decompose layer on this architecture",
        fix="use slice_by_index with constants, or gather before batching",
        source=GUIDE_LIMITS,
        confidence="measured",
        scope=_UP_TO_M1,
        applies_to=(_on_m1("gather", {"x": fp16(4, 64), "indices": [0, 3], "axis": 1}),),
        negative_examples=(_on_m1("gather", {"x": fp16(1, 64), "indices": [0, 3], "axis": 1}),),
    ),
    Rule(
        id="ne-matmul-rank-on-m1",
        unit=NEURAL_ENGINE,
        ops=("matmul",),
        when=_depth,
        message="this Neural Engine multiplies matrices of rank 4 at most: {detail}",
        core_ml="depth > 1 is not supported for MatMult",
        fix="fold the leading dimensions into two with reshape",
        source=GUIDE_LIMITS,
        confidence="measured",
        scope=_UP_TO_M1,
        applies_to=(_on_m1("matmul", {"x": fp16(1, 2, 3, 8, 8), "y": fp16(1, 2, 3, 8, 8)}),),
        negative_examples=(_on_m1("matmul", {"x": fp16(1, 6, 8, 8), "y": fp16(1, 6, 8, 8)}),),
    ),
    Rule(
        id="ne-depth-broadcast-on-m1",
        unit=NEURAL_ENGINE,
        ops=(Trait.ARITHMETIC, "pow", "floor_div"),
        when=_broadcasts_depth,
        message="this Neural Engine does not broadcast along the depth axis of 5-D tensors",
        core_ml="Broadcast along depth axis is not supported on this architecture",
        fix="fold the tensors to rank 4",
        source=GUIDE_LIMITS,
        confidence="static analysis",
        scope=_UP_TO_M1,
        applies_to=(_on_m1("add", {"x": fp16(1, 8, 4, 8, 8), "y": fp16(1, 8, 1, 8, 8)}),),
        negative_examples=(
            _on_m1("add", {"x": fp16(1, 8, 4, 8, 8), "y": fp16(1, 8, 4, 1, 1)}),
            _on_m1("sub", {"x": fp16(1, 1, 64, 8, 8), "y": fp16(1, 1, 1, 1, 1)}),
            _on_m1("add", {"x": fp16(1, 8, 4, 8), "y": fp16(1, 8, 1, 8)}),
        ),
    ),
    Rule(
        id="ne-logical-and-before-27",
        unit=NEURAL_ENGINE,
        ops=("logical_and",),
        when=always,
        message="the Neural Engine does not run logical_and before iOS 27 and macOS 27",
        core_ml='Unsupported MIL operation "logical_and".',
        fix="multiply float16 masks of 0 and 1",
        source=f"{MOBIUS}; {GUIDE_OPS}; runs in {M4_PLANS}",
        confidence="measured",
        scope=Scope(before=(27, 0)),
        applies_to=(
            Example(
                "logical_and",
                {"x": tensor(DType.BOOL, 1, 8), "y": tensor(DType.BOOL, 1, 8)},
                chip="m2",
                os="26",
            ),
        ),
    ),
    Rule(
        id="ne-layer-norm-enumerated",
        unit=NEURAL_ENGINE,
        ops=("layer_norm",),
        when=lambda view, context: "enumerated" in context.facts.flexible_inputs.values(),
        message="layer_norm did not run on the Neural Engine in models with enumerated input shapes",
        fix="convert with fixed shapes, or write the normalization as mean, difference and rsqrt",
        source="apple/coremltools issue 1909 (macOS 13 and 14)",
        confidence="measured",
        scope=Scope(since=(16, 0), before=(18, 0)),
        applies_to=(_on_m1("layer_norm", {"x": fp16(1, 8, 64), "axes": [-1]}, facts=_ENUMERATED),),
        negative_examples=(_on_m1("layer_norm", {"x": fp16(1, 8, 64), "axes": [-1]}),),
    ),
    Rule(
        id="ne-softmax-before-m1",
        unit=NEURAL_ENGINE,
        ops=("softmax",),
        when=always,
        message="this Neural Engine has no softmax; A14, M1 and later have",
        core_ml="Softmax is not supported by this ANE architecture",
        fix="where it is the last layer, return the scores and take the softmax in the app; inside a model"
        " nothing helps on these chips",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=Scope(neural_engine=(None, 12)),
        applies_to=(Example("softmax", {"x": fp16(1, 64), "axis": 1}, chip="a13", os="17"),),
    ),
    Rule(
        id="ne-upsample-on-a12",
        unit=NEURAL_ENGINE,
        ops=("upsample_nearest_neighbor",),
        when=lambda view, context: (
            max(view.real("scale_factor_height", 1.0), view.real("scale_factor_width", 1.0)) > 2
        ),
        message="the Neural Engine of A12 upsamples by a factor of 2 at most",
        fix="upsample by 2 twice",
        source=HOLLANCE,
        confidence="anecdotal",
        scope=_UP_TO_A12,
        applies_to=(Example("upsample_nearest_neighbor", _RESIZED, chip="a12", os="17"),),
        negative_examples=(
            Example(
                "upsample_nearest_neighbor",
                {**_RESIZED, "scale_factor_height": 2.0, "scale_factor_width": 2.0},
                chip="a12",
                os="17",
            ),
        ),
    ),
    Rule(
        id="ne-dilation-on-a12",
        unit=NEURAL_ENGINE,
        ops=("conv",),
        when=lambda view, context: max(view.integers("dilations", [1])) > 1,
        message="the Neural Engine of A12 does not run dilated convolutions",
        fix="use a larger kernel, or several layers of small ones",
        source=HOLLANCE,
        confidence="anecdotal",
        scope=_UP_TO_A12,
        applies_to=(
            Example(
                "conv",
                {
                    "x": fp16(1, 8, 8, 8),
                    "weight": weight(8, 8, 3, 3),
                    "dilations": [2, 2],
                    "pad_type": "same",
                },
                chip="a12",
                os="17",
            ),
        ),
        negative_examples=(
            Example("conv", {"x": fp16(1, 8, 8, 8), "weight": weight(8, 8, 3, 3)}, chip="a12", os="17"),
        ),
    ),
    Rule(
        id="ne-resize-axes-before-a15",
        unit=NEURAL_ENGINE,
        ops=("resize",),
        when=lambda view, context: view.has("resized_dims") and view.integer("resized_dims") > 2,
        message="this Neural Engine resizes two axes at most",
        fix="resize in two steps",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        scope=_UP_TO_M1,
        applies_to=(
            _on_m1(
                "resize",
                {"x": fp16(1, 2, 4, 8, 8), "resized_dims": 3, "shape": [8, 16, 16]},
                outputs=(fp16(1, 2, 8, 16, 16),),
            ),
        ),
        negative_examples=(
            _on_m1(
                "resize",
                {"x": fp16(1, 2, 8, 8), "resized_dims": 2, "shape": [16, 16]},
                outputs=(fp16(1, 2, 16, 16),),
            ),
        ),
    ),
)
