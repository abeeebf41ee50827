"""Rules about whole functions: limits of the model, and where an operation's inputs come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coremlscope.base.units import format_bytes
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType, TensorType, Value
from coremlscope.ops import has_traits
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.publications import (
    ANE_BOOK,
    ANEMLL,
    APPLE_FAQ,
    MOBIUS,
)
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    GraphContext,
    GraphExample,
    GraphRule,
    ProgramFacts,
    Result,
    Scope,
    boolean,
    fp16,
    int32,
)

_GIGABYTE = 10**9


def _first(context: GraphContext, detail: str) -> Mapping[str, str]:
    """Reports what concerns the whole function at its first operation."""
    return {context.ops[0][0]: detail} if context.ops else {}


def _everywhere(context: GraphContext, detail: str) -> Mapping[str, str]:
    """Reports what concerns the whole function at each operation that the Neural Engine runs."""
    return {id_: detail for id_, by in context.verdicts.items() if by[NEURAL_ENGINE].supported == "yes"}


def _masks(ops: Sequence[tuple[str, OpView]]) -> list[tuple[str, str, str]]:
    """Returns the booleans that operations read at run time: id, parameter and value."""
    return [
        (id_, parameter, argument.name)
        for id_, view in ops
        for parameter, given in view.inputs.items()
        for bound, argument in zip(given, view.op.inputs[parameter], strict=True)
        if isinstance(bound.type, TensorType) and bound.type.dtype is DType.BOOL
        if bound.constant is None and isinstance(argument, Value)
    ]


def _runs_elsewhere(context: GraphContext) -> Mapping[str, str]:
    """Operations with a mask from an operation that the unit does not run."""
    masks = context.remember(_masks)
    if not masks:
        return {}
    makers = {value.name: view.op for _, view in context.ops for value in view.op.outputs}
    lost = {id_ for id_, by_unit in context.verdicts.items() if by_unit[NEURAL_ENGINE].supported != "yes"}
    rejected = {
        id_
        for id_, by_unit in context.verdicts.items()
        if any(reason.effect == "rejects" for reason in by_unit[NEURAL_ENGINE].reasons)
    }
    hits: dict[str, str] = {}
    for id_, parameter, name in masks:
        maker = makers.get(name)
        if maker is not None and maker.id in lost and id_ not in rejected:
            hits[id_] = f"{parameter} comes from {maker.name}"
            lost.add(id_)
    return hits


def _standalone_updates(context: GraphContext) -> Mapping[str, str]:
    updates = [(id_, view) for id_, view in context.ops if has_traits(view.op.type, Trait.UPDATE)]
    if not updates:
        return {}
    kept = {
        argument.name
        for _, view in context.ops
        if has_traits(view.op.type, Trait.STATE_WRITE)
        for argument in view.op.inputs.get("data", ())
        if isinstance(argument, Value)
    }
    return {id_: "" for id_, view in updates if not any(value.name in kept for value in view.op.outputs)}


def _large_on_macos(context: GraphContext) -> Mapping[str, str]:
    size = context.facts.weights_bytes
    if context.device.os.platform != "macOS" or size <= _GIGABYTE:
        return {}
    return _everywhere(context, f"the weights take {format_bytes(size)}")


def _ranges(context: GraphContext) -> Mapping[str, str]:
    names = [name for name, kind in context.facts.flexible_inputs.items() if kind != "enumerated"]
    return _everywhere(context, ", ".join(names)) if names else {}


def _resized_ranges(context: GraphContext) -> Mapping[str, str]:
    kinds, resized = context.facts.flexible_inputs, context.facts.resized_inputs
    found = [
        f"{name} is {'x'.join(map(str, shape))}"
        for name, shape in resized.items()
        if kinds.get(name) != "enumerated"
    ]
    return _everywhere(context, ", ".join(found)) if found else {}


def _used_positions(context: GraphContext) -> Mapping[str, str]:
    """Operations that pass 32-bit positions on; those of which only the values are read run."""
    made = [(id_, v) for id_, v in context.ops if v.op.type == "topk" and len(v.outputs) > 1]
    if not made:
        return {}
    read = {
        argument.name
        for _, view in context.ops
        for given in view.op.inputs.values()
        for argument in given
        if isinstance(argument, Value)
    }
    used = read | set(context.facts.outputs)
    found = {}
    for id_, view in made:
        value, type_ = view.op.outputs[1], view.outputs[1].type
        if isinstance(type_, TensorType) and type_.dtype is DType.INT32 and value.name in used:
            found[id_] = value.name
    return found


_RELU = Example("relu", {"x": fp16(1, 8)})
_READ = Example("read_state", {"input": fp16(1, 8, 64)}, outputs=(fp16(1, 8, 64),))
_UPDATE = Example(
    "slice_update",
    {"x": Result(0), "update": fp16(1, 1, 64), "begin": [0, 2, 0], "end": [1, 3, 64]},
    outputs=(fp16(1, 8, 64),),
)
_WRITE = Example("write_state", {"input": fp16(1, 8, 64), "data": Result(1)}, outputs=())


GRAPH_RULES: tuple[GraphRule, ...] = (
    GraphRule(
        id="ne-mask-from-elsewhere",
        unit=NEURAL_ENGINE,
        find=_runs_elsewhere,
        message="a boolean mask that another unit computes does not reach the Neural Engine: {detail}",
        core_ml='Unable to resolve operation input "cond".',
        fix="make the mask from float16 values, or add a float16 mask of 0 and -10000 that is passed in",
        source=f"{MOBIUS}: GLiClass (M5 Pro, macOS 27), where comparisons fed by integers say so",
        confidence="anecdotal",
        ops=EVERY_OP,
        examples=(
            GraphExample(
                ops=(
                    Example("equal", {"x": int32(1, 8), "y": 0}),
                    Example("select", {"cond": Result(0), "a": fp16(1, 8), "b": fp16(1, 8)}),
                    Example("relu", {"x": Result(1)}),
                ),
                hits=(1,),
            ),
            GraphExample(
                ops=(
                    Example("greater", {"x": fp16(1, 8), "y": fp16(1, 8)}),
                    Example("select", {"cond": Result(0), "a": fp16(1, 8), "b": fp16(1, 8)}),
                ),
            ),
            GraphExample(
                ops=(
                    Example("equal", {"x": int32(1, 8), "y": 0}),
                    Example("logical_not", {"x": Result(0)}, outputs=(boolean(1, 8),)),
                    Example("cast", {"x": Result(1), "dtype": "fp16"}),
                ),
                hits=(1, 2),
            ),
        ),
    ),
    GraphRule(
        id="ne-used-positions",
        unit=NEURAL_ENGINE,
        find=_used_positions,
        message="the Neural Engine does not run an operation whose 32-bit positions are used: {detail}",
        core_ml="Output type int32 is not supported.",
        fix="take the positions in the app: return the scores; or convert for iOS 17 and ask for uint16"
        " (output_indices_dtype)",
        source=f"roboflow/rf-detr pull request 1495 (M3 Pro, macOS 27.0); {ANE_BOOK} (M4 Max)",
        confidence="measured",
        ops=("topk",),
        examples=(
            GraphExample(
                ops=(
                    Example("topk", {"x": fp16(1, 64, 8), "k": 5, "axis": 1}),
                    Example("cast", {"x": Result(0, 1), "dtype": "fp16"}),
                ),
                hits=(0,),
            ),
            GraphExample(
                ops=(
                    Example("topk", {"x": fp16(1, 64, 8), "k": 5, "axis": 1}),
                    Example("relu", {"x": Result(0)}),
                ),
            ),
        ),
    ),
    GraphRule(
        id="ne-slice-update",
        unit=NEURAL_ENGINE,
        find=_standalone_updates,
        message="slice_update runs on the Neural Engine only where it updates a state",
        core_ml="Cannot support standalone slice_update",
        fix="keep the tensor in a state (ct.StateType) and write the result back, or join parts with concat",
        source=ANEMLL,
        confidence="measured",
        ops=(Trait.UPDATE,),
        examples=(
            GraphExample(
                ops=(_RELU, Example("slice_update", {**_UPDATE.arguments, "x": fp16(1, 8, 64)})), hits=(1,)
            ),
            GraphExample(ops=(_READ, _UPDATE, _WRITE)),
        ),
    ),
    GraphRule(
        id="ne-model-size-macos",
        unit=NEURAL_ENGINE,
        find=_large_on_macos,
        effect="advises",
        message="the compiler for the Neural Engine of macOS begins to fail between 1 and 2 GB of weights:"
        " {detail}",
        fix="split the model into parts of 250 to 900 MB, or palettize the weights",
        source=f"{ANE_BOOK} (M4 Max, macOS 15 and 26)",
        confidence="measured",
        examples=(
            GraphExample(ops=(_RELU,), hits=(0,), facts=ProgramFacts(weights_bytes=1_200_000_000)),
            GraphExample(ops=(_RELU,), hits=(), facts=ProgramFacts(weights_bytes=900_000_000)),
        ),
    ),
    GraphRule(
        id="ne-range-shapes-before-26",
        unit=NEURAL_ENGINE,
        find=_resized_ranges,
        message="before iOS 26 and macOS 26 inputs with a range of shapes run on the Neural Engine with their"
        " default shape only: {detail}",
        fix="use fixed shapes or ct.EnumeratedShapes (128 at most), or make this shape the default",
        source=f"{APPLE_FAQ}; apple/coremltools issue 2370; Apple's forum, thread 724930",
        confidence="documented",
        scope=Scope(before=(26, 0)),
        examples=(
            GraphExample(
                ops=(Example("tan", {"x": fp16(1, 8)}), _RELU, _RELU),
                hits=(1, 2),
                facts=ProgramFacts(flexible_inputs={"x": "range"}, resized_inputs={"x": (1, 8)}),
                chip="a13",
                os="16",
            ),
            GraphExample(
                ops=(_RELU,), facts=ProgramFacts(flexible_inputs={"x": "range"}), chip="a13", os="16"
            ),
            GraphExample(
                ops=(_RELU,),
                facts=ProgramFacts(flexible_inputs={"x": "enumerated"}, resized_inputs={"x": (1, 8)}),
                chip="a13",
                os="16",
            ),
        ),
    ),
    GraphRule(
        id="ne-range-shapes",
        unit=NEURAL_ENGINE,
        find=_ranges,
        effect="advises",
        message="inputs with a range of shapes may run on the Neural Engine with their default shape only, on"
        " iOS 26 and macOS 26 too: {detail}",
        core_ml="not supported for range shape",
        fix="use fixed shapes or ct.EnumeratedShapes (128 at most)",
        source=f"{APPLE_FAQ}; apple/coremltools issues 1764 and 2370; {MOBIUS}",
        confidence="documented",
        examples=(
            GraphExample(
                ops=(Example("tan", {"x": fp16(1, 8)}), _RELU, _RELU),
                hits=(1, 2),
                facts=ProgramFacts(flexible_inputs={"x": "range"}),
            ),
            GraphExample(ops=(_RELU,), hits=(), facts=ProgramFacts(flexible_inputs={"x": "enumerated"})),
        ),
    ),
)
