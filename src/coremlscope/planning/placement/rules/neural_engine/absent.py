"""Neural Engine: operations that it does not run in any form."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coremlscope.base.findings import Confidence
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType, TensorType
from coremlscope.ops import OPS
from coremlscope.ops.traits import Trait
from coremlscope.planning.patterns.forms import always
from coremlscope.planning.patterns.publications import APPLE_KERNELS, COREML_LLM, GUIDE_OPS, M4_PLANS
from coremlscope.planning.patterns.rule import Example, Rule, fp16, int32, tensor

_BOTH = f"{M4_PLANS}; {GUIDE_OPS}"
_X = {"x": fp16(1, 64)}
_IMAGE = {"x": fp16(1, 64, 32, 32)}


class _Absent(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that the unit does not have: its name, what to do, an example, the source."""

    op: str
    fix: str
    arguments: Mapping[str, object]
    outputs: tuple[TensorType, ...] = ()
    source: str = _BOTH
    confidence: Confidence = "measured"
    why: str = ""
    core_ml: str = ""


_RANDOM_FIX = "draw the numbers in the app and pass them in as an input"
_RECURRENT_FIX = (
    "unroll a short sequence into linear, sigmoid and tanh, use convolutions or attention, or keep the"
    " recurrent part in a model of its own"
)
_SCATTER_FIX = "write with a one-hot mask (x * (1 - mask) + update * mask), with concat, or into a state"
#: Published for `scatter`. `scatter_along_axis` is an unsupported operation like others.
_SCATTER_MESSAGE = "{} MIL op is currently only supported on uANE targets (u1-u4)"
_CONTROL_FIX = "unroll the loop, compute both branches and use select, or split the model there"
_LIST_FIX = "unroll the loop that fills the list and use stack or concat"
_POLYNOMIAL = "approximate it by a polynomial, or compute it in the app"

_LSTM = {
    "x": fp16(16, 1, 64),
    "initial_h": fp16(1, 64),
    "initial_c": fp16(1, 64),
    "weight_ih": fp16(256, 64),
    "weight_hh": fp16(256, 64),
}
_SCATTERED = {"data": fp16(1, 64, 8), "indices": [0, 2], "updates": fp16(1, 2, 8), "axis": 1}


def _all(trait: Trait) -> list[str]:
    """The names of all operations with a trait."""
    return [name for name, spec in OPS.items() if trait in spec.traits]


_TABLE: tuple[_Absent, ...] = (
    _Absent(op="acos", fix=_POLYNOMIAL, arguments=_X),
    _Absent(op="asin", fix=_POLYNOMIAL, arguments=_X),
    _Absent(op="atanh", fix="write it as 0.5 * log((1 + x) / (1 - x))", arguments=_X),
    _Absent(op="tan", fix="write it as sin(x) / cos(x), which A16, M3 and later run", arguments=_X),
    _Absent(op="sinh", fix="write it as (exp(x) - exp(-x)) / 2", arguments=_X),
    _Absent(op="cosh", fix="write it as (exp(x) + exp(-x)) / 2", arguments=_X),
    _Absent(
        op="mod",
        fix="write it as x - floor_div(x, y) * y; float16 counts exactly up to 2048",
        arguments={**_X, "y": 2.0},
    ),
    _Absent(
        op="cumsum",
        fix="multiply by a constant triangular matrix of ones, or compute it in the app",
        arguments={**_IMAGE, "axis": 1},
        source=f"{M4_PLANS}; {COREML_LLM}",
    ),
    _Absent(
        op="reduce_prod",
        fix="for positive numbers: exp(reduce_sum(log(x)))",
        arguments={**_IMAGE, "axes": [1]},
    ),
    _Absent(
        op="one_hot",
        fix="gather rows of a constant identity matrix, or pass the one-hot vector in",
        arguments={"indices": int32(8), "one_hot_vector_size": 10},
        outputs=(fp16(8, 10),),
    ),
    _Absent(
        op="non_zero",
        fix="keep all elements and a mask, or take a fixed number with topk",
        arguments=_X,
        outputs=(int32(None, 2),),
        why="its result has a data-dependent shape",
    ),
    _Absent(
        op="range_1d",
        fix="make it a constant, or pass it in",
        arguments={"start": int32(), "end": 64, "step": 1},
        outputs=(int32(None),),
        why="its result has int32 elements and a shape only known at run time",
    ),
    _Absent(
        op="shape",
        fix="convert with fixed or enumerated shapes, so that shapes become constants",
        arguments=_X,
        outputs=(int32(2),),
        source=GUIDE_OPS,
        confidence="static analysis",
    ),
    _Absent(
        op="sliding_windows",
        fix="unfold with slices, or with a convolution by an identity kernel",
        arguments={**_X, "axis": 1, "size": 4},
        outputs=(fp16(1, 61, 4),),
        core_ml="MIL converter not implemented.",
    ),
    _Absent(
        op="band_part",
        fix="multiply by a constant mask",
        arguments={"x": fp16(8, 8), "lower": -1, "upper": 0},
        outputs=(fp16(8, 8),),
    ),
    *(
        _Absent(
            op=op,
            fix=_RANDOM_FIX,
            arguments=_X if op == "random_categorical" else {"shape": [1, 64]},
            outputs=(fp16(1, 1),) if op == "random_categorical" else (fp16(1, 64),),
        )
        for op in _all(Trait.RANDOM)
    ),
    _Absent(
        op="crop_resize",
        fix="crop in the app, or use resize_bilinear on crops with constant corners",
        arguments={"x": fp16(1, 64, 32, 32), "boxes": fp16(4, 4)},
        outputs=(fp16(4, 64, 8, 8),),
        source=M4_PLANS,
        core_ml='type int32 for "box_indices" is not supported. only support UInt16.',
    ),
    *(
        _Absent(
            op=op,
            fix=_SCATTER_FIX,
            arguments=_SCATTERED,
            outputs=(fp16(1, 64, 8),),
            core_ml="" if op == "scatter_along_axis" else _SCATTER_MESSAGE.format(op),
        )
        for op in _all(Trait.SCATTER)
    ),
    _Absent(
        op="argsort",
        fix="sort in the app, or take a small fixed number with topk",
        arguments={**_X, "axis": 1},
        outputs=(int32(1, 64),),
    ),
    _Absent(
        op="non_maximum_suppression",
        fix="return raw boxes and scores, and suppress in the app or in a second model of a pipeline",
        arguments={"boxes": fp16(1, 100, 4), "scores": fp16(1, 100, 8)},
        outputs=(fp16(1, 10, 4),),
        source=GUIDE_OPS,
        confidence="static analysis",
    ),
    *(
        _Absent(
            op=op,
            fix=_RECURRENT_FIX,
            arguments=_LSTM,
            outputs=(fp16(16, 1, 64),),
            source=f"{APPLE_KERNELS} (1780); {M4_PLANS}",
            why="it has no recurrent layers at any precision",
        )
        for op in _all(Trait.RECURRENCE)
    ),
    *(
        _Absent(
            op=op,
            fix=_CONTROL_FIX,
            arguments={"loop_vars": (fp16(1, 8),)} if op == "while_loop" else {"pred": tensor(DType.BOOL)},
            outputs=(fp16(1, 8),),
            source=f"apple/coremltools issue 2004; {GUIDE_OPS}",
            why="it has no control flow; a loop can keep the rest of the network off it as well",
        )
        for op in _all(Trait.CONTROL_FLOW)
    ),
    *(
        _Absent(
            op=op,
            fix=_LIST_FIX,
            arguments=_X,
            outputs=(fp16(1, 64),),
            source=GUIDE_OPS,
            confidence="static analysis",
        )
        for op in _all(Trait.LIST)
    ),
    _Absent(
        op="reverse_sequence",
        fix="reverse in the app, or use reverse on sequences of one length",
        arguments={"x": fp16(2, 8), "lengths": [4, 8], "seq_axis": 1, "batch_axis": 0},
        outputs=(fp16(2, 8),),
        source=GUIDE_OPS,
        confidence="static analysis",
    ),
    *(
        _Absent(
            op=op,
            fix="work with float16 masks of 0 and 1: maximum(a, b) for or, abs(a - b) for xor",
            arguments={"x": tensor(DType.BOOL, 1, 8), "y": tensor(DType.BOOL, 1, 8)},
            source=GUIDE_OPS,
            confidence="static analysis",
        )
        for op in ("logical_or", "logical_xor")
    ),
    _Absent(
        op="constexpr_cast",
        fix="store the weight as float16",
        arguments={"source_val": fp16(8)},
        outputs=(fp16(8),),
        source=GUIDE_OPS,
        confidence="static analysis",
    ),
    _Absent(
        op="custom_layer",
        fix="rewrite the layer with operations of Core ML, or split the model around it",
        arguments=_X,
        outputs=(fp16(1, 64),),
        source="Apple's documentation of MLCustomLayer: evaluate on the CPU, encode on the GPU",
        confidence="documented",
        why="a custom layer has code for the CPU and the GPU only",
    ),
)


def _rule(row: _Absent) -> Rule:
    because = f": {row.why}" if row.why else ""
    return Rule(
        id=f"ne-{row.op.replace('_', '-')}",
        unit=NEURAL_ENGINE,
        ops=(row.op,),
        when=always,
        message=f"the Neural Engine does not run {row.op}{because}",
        core_ml=row.core_ml or f'Unsupported MIL operation "{row.op}".',
        fix=row.fix,
        source=row.source,
        confidence=row.confidence,
        applies_to=(Example(row.op, row.arguments, outputs=row.outputs),),
    )


#: The operations, to be excluded from rules about traits.
ABSENT: frozenset[str] = frozenset(row.op for row in _TABLE)

RULES: tuple[Rule, ...] = tuple(map(_rule, _TABLE))
