"""Evaluates variants: size, plans, estimates, and differences of outputs."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.writing import write_file
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.formats import container
from coremlscope.model.ir import Graph, Model, Op, TensorType, Value
from coremlscope.planning.answer.answer import make_answers
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.planner import forecast
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import unit_counts
from coremlscope.results.variants import Variant, VariantDifference, VariantForecast
from coremlscope.runtime.execution.binding import choose_function, program_of
from coremlscope.studies.variants.differences import Differences

# Which outputs of a network are signals, such as sound, pictures or states, not scores of classes.

#: Operations that pass numbers on, in another shape, order or type.
_MOVING = frozenset(
    {"cast", "identity", "reshape", "squeeze", "expand_dims", "transpose", "slice_by_index", "quantize"}
    | {"dequantize", "flatten2d"}
)
#: Those that shift or scale all scores alike where the other operand is a constant.
_SCALING = frozenset({"add", "sub", "mul", "real_div"})
#: Results that are numbers by themselves: independent probabilities, waves, pixels and normalized features.
_SIGNALS = frozenset(
    {"sigmoid", "sigmoid_hard", "tanh", "scaled_tanh", "softsign", "relu", "relu6", "clamped_relu", "clip"}
    | {
        "leaky_relu",
        "elu",
        "gelu",
        "silu",
        "softplus",
        "sin",
        "cos",
        "exp",
        "sqrt",
        "pow",
        "abs",
        "sign",
        "round",
    }
    | {"conv_transpose", "upsample_bilinear", "upsample_nearest_neighbor", "resize_bilinear", "resize"}
    | {"pixel_shuffle", "layer_norm", "instance_norm", "l2_norm", "lstm", "gru", "rnn"}
)
#: Names of outputs of scores, by themselves independent or not.
_NAMED = re.compile(r"prob|logit|score|class", re.IGNORECASE)
#: The axis of the classes in results of layers that compute scores.
_CLASS_AXES: Mapping[str, int] = {"linear": -1, "matmul": -1, "einsum": -1, "conv": 1}


def find_signals(model: Model) -> frozenset[str]:
    """Returns the names of outputs whose largest element is not the best class.

    An output whose name tells of classes has scores. Else, the operation that computes it tells, behind those
    that only reshape, cast, shift or scale it: scores come from softmax, or from a layer whose channels are
    the last axis of the output. Where neither is found, an output is not a signal.
    """
    if program_of(model) is None:
        return frozenset()
    graph = choose_function(model).function.graph
    makers = {value.name: op for op in graph.ops for value in op.outputs}
    unnamed = (value for value in graph.outputs if not _NAMED.search(value.name))
    return frozenset(value.name for value in unnamed if _is_signal(value, graph, makers))


def _is_signal(output: Value, graph: Graph, makers: Mapping[str, Op]) -> bool:
    value = output
    for _ in range(len(graph.ops)):
        op = makers.get(value.name)
        if op is None:
            return False
        if op.type in _CLASS_AXES:
            return _classes_move(value, _CLASS_AXES[op.type], output)
        changing = list(_changing(op, makers))
        if len(changing) != 1 or op.type not in _MOVING | _SCALING:
            # A product of two results masks or gates.
            return op.type in _SIGNALS or op.type == "mul"
        value = changing[0]
    return False


def _changing(op: Op, makers: Mapping[str, Op]) -> Iterator[Value]:
    """Yields the arguments that are not constants."""
    for arguments in op.inputs.values():
        for argument in arguments:
            if isinstance(argument, Value):
                maker = makers.get(argument.name)
                if maker is None or not maker.type.startswith("const"):
                    yield argument


def _classes_move(value: Value, axis: int, output: Value) -> bool:
    """True where the last axis of the output is not that of the classes."""
    if not isinstance(value.type, TensorType) or not isinstance(output.type, TensorType):
        return False
    made, last = value.type.shape, output.type.shape
    if not made or not last or not isinstance(made[axis], int) or not isinstance(last[-1], int):
        return False
    return made[axis] != last[-1]


_Values = Mapping[str, Any]
#: Seconds between looks for the outputs of the original.
_POLL_S = 0.01


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """How every variant of a model is evaluated.

    Attributes:
        devices: Names of devices.
        os: Their system; None for the newest of each.
        compute_units: The settings.
        shapes: Shapes of flexible inputs, the default of each first.
        samples: The file of the inputs.
        sample_count: Their number.
        synthetic: How many of them are synthetic.
        outputs: The file of the original's outputs, which appears when it was predicted with; without any if
            that failed.
        own: The user's own measurements.
        threads: Threads that work on one operation.
    """

    devices: tuple[str, ...] = ()
    os: str | None = None
    compute_units: tuple[ComputeUnits, ...] = ("all",)
    shapes: Mapping[str, tuple[tuple[int, ...], ...]] = msgspec.field(default_factory=dict)
    samples: Path
    sample_count: int
    synthetic: int
    outputs: Path
    own: Own = NOTHING_OWN
    threads: int | None = None

    @property
    def default_shapes(self) -> dict[str, tuple[int, ...]]:
        """The first shape of each flexible input."""
        return {name: shapes[0] for name, shapes in self.shapes.items()}


def write_samples(path: Path, values: Sequence[_Values]) -> None:
    """Writes inputs or outputs to a private file, which appears when it is complete."""
    write_file(path, pickle.dumps(list(values)))


def read_samples(path: Path) -> list[_Values]:
    """Reads inputs or outputs from a private file that this program wrote."""
    found: list[_Values] = pickle.loads(path.read_bytes())
    return found


def evaluate(path: Path, question: Question, variant: Variant, *, is_original: bool, fp16: bool) -> Variant:
    """Describes, plans, estimates and runs a model. What fails of the latter three becomes a sentence.

    Args:
        path: The model.
        question: What is asked.
        variant: What is known of the variant already.
        is_original: Keeps the outputs instead of comparing them.
        fp16: Whether every fp16 result is rounded as on a device.

    Raises:
        ModelError: The model cannot be read.
        InputError: A shape is not allowed.
    """
    model = container.read(path)
    shapes = {
        name: shape
        for name, shape in question.default_shapes.items()
        if any(feature.name == name for feature in model.description.main.inputs)
    }
    summary = describe_model(model, shapes, list_ops=bool(question.devices))
    problems: list[CoremlscopeError] = []
    forecasts: tuple[VariantForecast, ...] = ()
    try:
        forecasts = tuple(_forecast(variant.name, model, summary, question, shapes))
    except CoremlscopeError as error:
        problems.append(error)
    difference = None
    try:
        difference = _run(model, question, is_original=is_original, fp16=fp16)
    except CoremlscopeError as error:
        problems.append(error)
        if is_original:
            write_samples(question.outputs, ())
    return replace(
        variant,
        size_bytes=summary.size_bytes,
        weights_bytes=summary.weights_bytes,
        storage=max(summary.weights, key=lambda group: group.parameters).storage if summary.weights else "",
        platforms=summary.platforms,
        forecasts=forecasts,
        difference=difference,
        failure="; ".join(error.message for error in problems),
        hint=problems[0].hint if problems else "",
    )


def _forecast(
    name: str, model: Model, summary: ModelSummary, question: Question, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[VariantForecast]:
    devices = [find_device(device, question.os) for device in question.devices]
    if not devices:
        return
    settings, own = question.compute_units, question.own
    found = forecast(model, summary.ops, devices, settings, shapes=shapes, advised=(), own=own)
    plans = {(plan.device, plan.os): plan for plan in found.plans}
    memory = {(one.device, one.os, one.compute_units): one.memory for one in found.estimates}
    for answer in make_answers(
        model, summary, found, devices, settings, asked=(), advised=(), shapes=shapes, own=own
    ):
        held = memory.get((answer.device, answer.os, answer.compute_units))
        if held is not None:
            counts = unit_counts(plans[answer.device, answer.os].ops, answer.compute_units)
            yield VariantForecast(
                answer=replace(answer, model=name, is_asked=True, headline="", time=(), why=(), changes=()),
                operations={unit: number for unit, number in counts.items() if unit is not None},
                memory=held,
            )


def _run(model: Model, question: Question, *, is_original: bool, fp16: bool) -> VariantDifference | None:
    from coremlscope.runtime.execution.pipeline import open_predictor

    samples = read_samples(question.samples)
    precision: Any = "fp16" if fp16 else "fp32"
    with open_predictor(model, precision=precision, threads=question.threads) as predictor:
        if is_original:
            write_samples(question.outputs, [predictor.predict(sample) for sample in samples])
            return None
        differences = Differences(find_signals(model))
        predicted = [predictor.predict(sample) for sample in samples]
    while not question.outputs.exists():  # another process predicts with the original meanwhile
        time.sleep(_POLL_S)
    expected = read_samples(question.outputs)
    if not expected:
        return None
    for outputs, others in zip(expected, predicted, strict=True):
        differences.add(outputs, others)
    return VariantDifference(
        samples=question.sample_count,
        synthetic=question.synthetic,
        precision=precision,
        outputs=differences.result(),
    )
