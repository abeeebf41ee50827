"""From a function of a model to its ONNX program: chosen, checked, bound and lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coremlscope.errors import CorruptModelError, MissingWeightsError
from coremlscope.execution.binding import Chosen, bind_model, choose_function
from coremlscope.execution.random_weights import missing_weights, with_random_weights
from coremlscope.ir import Classical, Model
from coremlscope.lower import lower, lower_classical
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.program import OnnxProgram, Precision

__all__ = ["Lowered", "lower_function"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A function, ready for an engine.

    Attributes:
        function: The name by which the description knows it.
        bound: The function with bound shapes.
        program: What it was lowered to.
        random_weights: The seed of made-up weights; None where the model's own are used.
    """

    function: str
    bound: BoundFunction
    program: OnnxProgram
    random_weights: int | None


def lower_function(
    model: Model,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    random_weights: int | None = None,
    precision: Precision = "fp32",
) -> Lowered:
    """Lowers a function of a model.

    Args:
        model: The model.
        function: The function's name; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        random_weights: A seed: weights whose file is absent are made up. None: they are an error.
        precision: `fp16` rounds every result that is declared as fp16.

    Raises:
        MissingWeightsError: Weights are absent and `random_weights` is not given.
        UnsupportedOpError: Names every operation that cannot be lowered.
        UnsupportedModelError: The model is of a kind that cannot be run.
        UsageError: There is no such function.
        InputError: A shape is not allowed.
        CorruptModelError: The function contradicts itself or its description.
    """
    chosen = choose_function(model, function)
    _check_interface(chosen)
    missing = missing_weights(chosen.function)
    if missing and random_weights is None:
        files = ", ".join(w.name for w in model.weight_files if w.size is None) or "its weight file"
        raise MissingWeightsError(
            f"{missing} weights of the model cannot be read: {files} is absent or too short",
            "fetch the weights (with Git LFS: `git lfs pull`), or time the structure with --random-weights",
        )
    if missing and random_weights is not None:
        model = with_random_weights(model, random_weights)
    bound = bind_model(model, chosen.name, shapes)
    try:
        program = _lower(model, bound, precision)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise CorruptModelError(
            f"the function {chosen.name!r} cannot be lowered: {error}",
            "an operation's arguments contradict its definition",
        ) from error
    return Lowered(chosen.name, bound, program, random_weights if missing else None)


def _lower(model: Model, bound: BoundFunction, precision: Precision) -> OnnxProgram:
    if isinstance(
        model.content, Classical
    ):  # in doubles, whatever the precision: nothing is declared as fp16
        return lower_classical(model.content, bound)
    return lower(bound, precision)


def _check_interface(chosen: Chosen) -> None:
    """Holds what the description promises against what the function takes and gives."""
    graph, interface = chosen.function.graph, chosen.description
    described = {feature.name for feature in (*interface.inputs, *interface.states)}
    given = {value.name for value in graph.outputs}
    unfed = [value.name for value in graph.inputs if value.name not in described]
    unmade = [feature.name for feature in interface.outputs if feature.name not in given]
    for name, what in ((unfed, "takes an input that its description lacks"),
                       (unmade, "does not give an output that its description promises")):  # fmt: skip
        if name:
            raise CorruptModelError(
                f"the function {chosen.name!r} {what}: {', '.join(map(repr, name))}",
                "the file is damaged; export or download the model again",
            )
