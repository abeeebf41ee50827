"""Neural Engine: ranks and extents of tensors."""

from __future__ import annotations

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import extents, is_fixed, lanes, run_time_tensors
from coremlscope.planning.patterns.publications import (
    A15_PLANS,
    APPLE_FAQ,
    APPLE_MODELS,
    COMPILER_TEXTS,
    GUIDE_LIMITS,
    GUIDE_OPS,
    M4_PLANS,
    MOBIUS,
)
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    Rule,
    RuleContext,
    Scope,
    fp16,
    int32,
    weight,
)

_HIGHEST_RANK = 5
_WIDEST = 65536
#: Of depth, height and width up to the generation of M3.
_WIDEST_BEFORE = 16384
_LARGEST_BATCH_BEFORE = 4096
#: The last axis of a state: 270 fails and 256 runs. That it is rows of 64 bytes of float16 is inferred.
_ROW = 32
#: From this version on, flexible programs were observed to run on the Neural Engine.
_FLEXIBLE = (26, 0)


def _rank(view: OpView, context: RuleContext) -> str:
    for name, type_ in run_time_tensors(view):
        if type_.rank is not None and type_.rank > _HIGHEST_RANK:
            return f"{name} has rank {type_.rank}"
    return ""


def _beyond(view: OpView, limits: dict[str, int]) -> str:
    """The first extent above its limit, as text."""
    for name, type_ in run_time_tensors(view, indices=False):
        for axis, size in lanes(type_).items():
            if size > limits[axis]:
                return f"{name} is {extents(type_)}, and {axis} may be {limits[axis]} at most"
    return ""


def _extent(view: OpView, context: RuleContext) -> str:
    return _beyond(view, dict.fromkeys("NCDHW", _WIDEST))


def _extent_before(view: OpView, context: RuleContext) -> str:
    """Additions of two long tensors run: 33 of a HiFi-GAN on an A15, of up to 67,072 elements in a row."""
    if view.op.type == "add" and not view.is_known("x") and not view.is_known("y"):
        return ""
    spatial = dict.fromkeys("DHW", _WIDEST_BEFORE)
    batch = _LARGEST_BATCH_BEFORE if context.neural_engine_generation < 13 else _WIDEST
    return _beyond(view, {"N": batch, "C": _WIDEST, **spatial})


def _transposed_extent(view: OpView, context: RuleContext) -> str:
    type_ = view.type("x")
    largest = max((size for size in type_.shape or () if size is not None), default=0)
    return f"x is {extents(type_)}" if largest > _WIDEST_BEFORE else ""


def _unknown_extent(view: OpView, context: RuleContext) -> str:
    if context.facts.flexible_inputs and context.core_ml >= _FLEXIBLE:
        return ""
    for name, type_ in run_time_tensors(view):
        if not type_.is_static:
            return f"{name} is {extents(type_)}" if type_.shape else f"{name} has an unknown rank"
    return ""


def _computed_shape(view: OpView, context: RuleContext) -> bool:
    return not is_fixed(view, "shape")


RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-rank",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_rank,
        message="the Neural Engine takes tensors of rank 5 at most: {detail}",
        core_ml="Cannot reshape a tensor of rank > 5",
        fix="fold dimensions: a 6-D window partition becomes two 5-D reshapes with a transpose each",
        source=f"{APPLE_MODELS}; {M4_PLANS}; {GUIDE_LIMITS}",
        confidence="measured",
        applies_to=(
            Example("relu", {"x": fp16(1, 2, 2, 2, 2, 2)}),
            Example("reshape", {"x": fp16(1, 64, 8, 8), "shape": [1, 64, 2, 4, 2, 4]}),
        ),
        negative_examples=(
            Example("relu", {"x": fp16(1, 2, 2, 2, 2)}),
            Example("reshape", {"x": fp16(1, 64, 8, 8), "shape": [1, 64, 2, 4, 8]}),
        ),
    ),
    Rule(
        id="ne-extent",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_extent,
        message="a tensor is too long for the Neural Engine: {detail}",
        core_ml=(
            "Tensor dimensions N1D1C65537H1W1 are not within supported range,"
            " N[1-65536]D[1-65536]C[1-65536]H[1-65536]W[1-65536]."
        ),
        fix="fold the long axis into two, or split the tensor: a large vocabulary into 16 products",
        source=M4_PLANS,
        confidence="measured",
        scope=Scope(neural_engine=(16, None)),
        applies_to=(
            Example("relu", {"x": fp16(1, 1, 65537, 1)}),
            Example("relu", {"x": fp16(1, 65537, 1, 1)}),
            Example("linear", {"x": fp16(1, 512), "weight": weight(128256, 512)}),
        ),
        negative_examples=(
            Example("relu", {"x": fp16(1, 1, 65536, 1)}),
            Example("relu", {"x": fp16(1, 1, 1, 65536)}),
        ),
    ),
    Rule(
        id="ne-extent-16384",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_extent_before,
        message="a tensor is too long for this Neural Engine: {detail}",
        core_ml="Tensor dimensions N1D1C27H1W16386 are not within supported range",
        fix="move the long axis to the channels (65536 at most), fold it into two, or work in chunks",
        source=f"{MOBIUS} (M2, A15); {GUIDE_LIMITS} (M1); {A15_PLANS}",
        confidence="measured",
        scope=Scope(neural_engine=(None, 15)),
        applies_to=(
            Example("relu", {"x": fp16(1, 1, 1, 16385)}, chip="m1", os="14.5"),
            Example("relu", {"x": fp16(1, 240000)}, chip="a15", os="26"),
            Example("relu", {"x": fp16(5000, 8, 1, 8)}, chip="a12", os="17"),
        ),
        negative_examples=(
            Example("relu", {"x": fp16(1, 1, 1, 16384)}, chip="m1", os="14.5"),
            Example("relu", {"x": fp16(1, 40000, 1, 8)}, chip="m1", os="14.5"),
            Example("add", {"x": fp16(1, 32, 67072), "y": fp16(1, 32, 67072)}, chip="a15", os="18"),
        ),
    ),
    Rule(
        id="ne-transpose-extent",
        unit=NEURAL_ENGINE,
        ops=("transpose",),
        when=_transposed_extent,
        message="this Neural Engine transposes axes of 16384 elements at most: {detail}",
        fix="transpose in parts, or keep one layout through the network",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=Scope(neural_engine=(None, 15)),
        applies_to=(
            Example("transpose", {"x": fp16(1, 20000, 1, 8), "perm": [0, 3, 2, 1]}, chip="m2", os="15"),
        ),
        negative_examples=(
            Example("transpose", {"x": fp16(1, 512, 1, 8), "perm": [0, 3, 2, 1]}, chip="m2", os="15"),
        ),
    ),
    Rule(
        id="ne-unknown-extent",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_unknown_extent,
        message="the Neural Engine needs shapes that are known before run time: {detail}",
        core_ml=(
            "One or more network operations are not ANE-resident - Marking all operations as non ANE-resident"
        ),
        fix="convert with fixed shapes or ct.EnumeratedShapes, and avoid operations whose result has a"
        " data-dependent shape (non_zero, boolean indexing)",
        source=f"{APPLE_FAQ}; {COMPILER_TEXTS}",
        confidence="documented",
        applies_to=(
            Example("relu", {"x": fp16(1, None)}),
            Example("relu", {"x": fp16(None, 8)}, chip="m1", os="14.5"),
        ),
        negative_examples=(Example("relu", {"x": fp16(1, 8)}),),
    ),
    Rule(
        id="ne-computed-shape",
        unit=NEURAL_ENGINE,
        ops=("reshape",),
        when=_computed_shape,
        message="a reshape to a shape that is computed at run time does not run on the Neural Engine",
        fix="give the shape as constants: use fixed or enumerated input shapes, and no tensor.shape",
        source=APPLE_FAQ,
        confidence="documented",
        applies_to=(
            Example(
                "reshape",
                {"x": fp16(1, 64, 8, 8), "shape": int32(3)},
                outputs=(fp16(1, 64, 64),),
            ),
        ),
        negative_examples=(Example("reshape", {"x": fp16(1, 64, 8, 8), "shape": [1, 64, 64]}),),
    ),
)
