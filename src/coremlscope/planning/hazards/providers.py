"""What is known to go wrong in sessions of ONNX Runtime with its Core ML provider."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.base.arrays import np
from coremlscope.base.units import shown
from coremlscope.formats.onnx.graph import Node
from coremlscope.model.ir import DType, TensorType
from coremlscope.planning.hazards.hazard import KnownHazard, Lines, Session

_ONNX_RUNTIME = "microsoft/onnxruntime"
_STATIC = "make them static (--shape shows what that changes; onnxruntime.tools.make_dynamic_shape_fixed)"
#: The largest value of float16.
_LARGEST_HALF = 65504.0
#: Elements up to which a constant is examined, and constants that are named.
_MOST_ELEMENTS, _NAMED = 1024, 3
#: A limit beyond the range clips nothing.
_LIMITS = frozenset({"Clip"})


def _free_dimensions(session: Session) -> Iterator[str]:
    """Free dimensions."""
    names = [
        shown(one.name)
        for one in session.model.free_inputs
        if one.type is not None and not one.type.is_static
    ]
    if names and session.nodes and not session.is_static:
        yield f"sessions with free dimensions end or fail at run time: {', '.join(names[:_NAMED])}"


def _static_half(session: Session) -> Iterator[str]:
    """Floats of 16 bits as MLProgram with free dimensions, which an option keeps out."""
    has_free = any(one.type is not None and not one.type.is_static for one in session.model.free_inputs)
    if session.format == "mlprogram" and session.model.is_half and has_free:
        yield "on macOS 15, RequireStaticInputShapes=1 gave wrong values for a network of float16"


def _half_network(session: Session) -> Iterator[str]:
    """Floats of 16 bits as NeuralNetwork."""
    if session.format == "neuralnetwork" and session.model.is_half:
        yield "the format NeuralNetwork takes no operator of float16, so that all of it runs on the CPU"


def _large_constants(session: Session) -> Iterator[str]:
    """Constants beyond the range of float16 as NeuralNetwork, which computes in half precision."""
    if session.format != "neuralnetwork" or session.model.is_half:
        return
    names = dict.fromkeys(
        name
        for node in session.nodes
        if node.op not in _LIMITS
        for name in node.inputs
        if _is_beyond_half(session, name)
    )
    if names:
        given = ", ".join(map(shown, list(names)[:_NAMED]))
        yield f"NeuralNetwork computes in half precision, where these constants are infinite: {given}"


def _is_beyond_half(session: Session, name: str) -> bool:
    given = session.model.graph.constants.get(name)
    type_ = None if given is None else given.type
    if given is None or not isinstance(type_, TensorType) or type_.dtype is not DType.FP32:
        return False
    if not given.is_available or not 0 < (type_.elements or 0) <= _MOST_ELEMENTS:
        return False
    largest = float(np.max(np.abs(given.numpy())))
    return _LARGEST_HALF < largest < float("inf")


def _shape_to_the_end(session: Session) -> Iterator[str]:
    """A Shape up to the last axis as MLProgram."""
    if session.format != "mlprogram":
        return
    for node in session.nodes:
        if node.op == "Shape" and _ends_at_rank(node, session.model.graph.types.get(node.inputs[0])):
            yield f"{shown(node.label)} (Shape) ends at the rank, so that creating the session throws"
            return


def _ends_at_rank(node: Node, type_: TensorType | None) -> bool:
    if type_ is None or type_.shape is None:
        return False
    return not type_.shape or node.attributes.get("end") == len(type_.shape)


HAZARDS: tuple[KnownHazard, ...] = (
    KnownHazard(
        id="onnxruntime-free-dimensions",
        kind="crash",
        fix=_STATIC,
        source=f"{_ONNX_RUNTIME} #21227 (a free batch: SIGSEGV on M1), #14212, PR 16915",
        confidence="anecdotal",
        session=_free_dimensions,
    ),
    KnownHazard(
        id="onnxruntime-static-float16",
        kind="wrong values",
        fix="leave RequireStaticInputShapes at 0, or compare the outputs with those of the CPU provider",
        source=f"{_ONNX_RUNTIME} #32569 (1.30.0 on macOS 15; macOS 26 and the CPU provider are right)",
        confidence="anecdotal",
        session=_static_half,
    ),
    KnownHazard(
        id="onnxruntime-float16",
        kind="silent fallback",
        phase="load",
        fix="set ModelFormat to MLProgram",
        source=f"{_ONNX_RUNTIME} #17448; base_op_builder.cc",
        confidence="documented",
        session=_half_network,
    ),
    KnownHazard(
        id="onnxruntime-half-constants",
        kind="wrong values",
        fix="replace them by -10,000 or the like, or set ModelFormat to MLProgram",
        source="half precision of the format NeuralNetwork: Apple's specification (NeuralNetwork.proto)",
        confidence="static analysis",
        session=_large_constants,
    ),
    KnownHazard(
        id="onnxruntime-shape-end",
        kind="refused",
        phase="load",
        fix="leave the attribute end out",
        source=f"{_ONNX_RUNTIME}: shape_op_builder.cc, by reading",
        confidence="static analysis",
        session=_shape_to_the_end,
    ),
    KnownHazard(
        id="onnxruntime-options",
        kind="silent fallback",
        phase="load",
        text="a session that refuses its options goes on with the CPU provider",
        fix='check the names of the options; those that are on or off want exactly "1"',
        source=f"{_ONNX_RUNTIME}: onnxruntime_inference_collection.py, coreml_options.cc",
        confidence="documented",
        lines=Lines(
            texts=("ep error",),
            pattern=r"EP Error .{0,400}CoreML",
            examples=(
                "EP Error Unknown option: ModelFormt when using ['CoreMLExecutionProvider',"
                " 'CPUExecutionProvider']",
            ),
            negative_examples=("EP Error no CUDA device when using ['CUDAExecutionProvider']",),
        ),
    ),
)
