"""Random tensors. With a seed, the sequence of values restarts each time a program is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.arrays import np
from coremlscope.model.ir import DType, TensorType, ValueType
from coremlscope.ops.emit import F32, I32, I64, Lowering, Tensor, carry
from coremlscope.ops.generation import shape_from
from coremlscope.ops.infer import first_known
from coremlscope.ops.spec import Infer, OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, OpView

#: The attribute of random numbers of static shape that stay the same, so that predictions do not draw them.
DRAWN_ONCE = "drawn once"


def _seed(view: OpView) -> float | None:
    """ONNX's seed; None, for a new one each time, where the program gives none."""
    seed = view.integer("seed", -1)
    return None if seed < 0 else float(seed)


def _infer_with(parameter: str) -> Infer:
    """A tensor of the shape that is asked for, in the element type of a parameter."""

    def infer(view: OpView) -> Sequence[ValueType]:
        dtype = view.type(parameter).dtype if view.has(parameter) else DType.FP32
        return [TensorType(dtype, shape_from(view))]

    return infer


def _drawn(op: Lowering, distribution: str) -> Tensor:
    """A tensor of ONNX's RandomUniform or RandomNormal, of a shape that may only be known at run time.

    The numbers follow the standard distribution: ONNX Runtime ends the process when asked for a standard
    deviation of zero, or for an upper bound below the lower one.
    """
    type_ = op.view.output_type()
    shape = [d for d in type_.shape or () if d is not None]
    if type_.is_static:
        return op.emit(distribution, dtype=F32, shape=shape, seed=_seed(op.view))
    reference = op.emit("Expand", op.const(0, F32), op.int64("shape"))
    return op.emit(f"{distribution}Like", reference, seed=_seed(op.view))


def _moved_to(op: Lowering, drawn: Tensor, scale: float, offset: float) -> Tensor:
    """`drawn · scale + offset`."""
    if scale != 1:
        drawn = op.emit("Mul", drawn, op.const(scale, F32))
    return op.emit("Add", drawn, op.const(offset, F32)) if offset else drawn


def _lower_uniform(op: Lowering) -> Tensor:
    low, high = op.view.real("low", 0.0), op.view.real("high", 1.0)
    if DRAWN_ONCE in op.view.op.attributes:
        generator = np.random.default_rng(op.view.integer("seed", 0))
        drawn = generator.uniform(low, high, [d or 0 for d in op.view.output_type().shape or ()])
        return op.emitter.default(drawn.astype(np.float32))
    return _moved_to(op, _drawn(op, "RandomUniform"), high - low, low)


def _lower_normal(op: Lowering) -> Tensor:
    mean, deviation = op.view.real("mean", 0.0), op.view.real("stddev", 1.0)
    return _moved_to(op, _drawn(op, "RandomNormal"), deviation, mean)


def _lower_bernoulli(op: Lowering) -> Tensor:
    drawn = _drawn(op, "RandomUniform")
    ones = op.emit("Less", drawn, op.const(op.view.real("prob", 0.5), F32), dtype=bool)
    return op.cast(ones, carry(op.view.output_type().dtype))


def _infer_categorical(view: OpView) -> Sequence[ValueType]:
    x = view.type("x")
    return [TensorType(x.dtype, (*view.shape("x")[:-1], view.integer("size", 1)))]


def _lower_categorical(op: Lowering) -> Tensor:
    view, x = op.view, op["x"]
    mode = view.text("mode", "logits")
    if mode not in ("logits", "probs"):
        raise CannotInfer(f"unknown mode {mode!r}")
    size, dims = view.integer("size", 1), view.shape("x")
    if mode == "probs":
        x = op.emit("Log", x)
    classes = first_known(dims[-1], -1)
    drawn = op.emit(
        "Multinomial",
        op.reshape(x, [-1, classes or 0]) if len(dims) != 2 else x,
        dtype=I32,
        sample_size=size,
        seed=_seed(view),
    )
    drawn = op.cast(drawn, carry(view.output_type().dtype))
    if len(dims) == 2:
        return drawn
    lead = op.emit("Shape", x, dtype=I64, start=0, end=len(dims) - 1)
    return op.emit("Reshape", drawn, op.emit("Concat", lead, op.const([size], I64), axis=0))


def _work(view: OpView) -> Work:
    """About ten operations per number: a step of the generator and the transformation of its distribution."""
    return moved(view, 10 * (view.output_type().elements or 0))


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="random_uniform",
        doc="Uniformly distributed random numbers between two bounds.",
        traits=Trait.RANDOM,
        infer=_infer_with("low"),
        lower=_lower_uniform,
        work=_work,
    ),
    OpSpec(
        name="random_normal",
        doc="Normally distributed random numbers.",
        traits=Trait.RANDOM,
        infer=_infer_with("mean"),
        lower=_lower_normal,
        work=_work,
    ),
    OpSpec(
        name="random_bernoulli",
        doc="Random zeros and ones, with a given probability of one.",
        traits=Trait.RANDOM,
        infer=_infer_with("prob"),
        lower=_lower_bernoulli,
        work=_work,
    ),
    OpSpec(
        name="random_categorical",
        doc="Random class indices, drawn by probabilities or logits.",
        traits=Trait.RANDOM,
        infer=_infer_categorical,
        lower=_lower_categorical,
        work=_work,
    ),
)
