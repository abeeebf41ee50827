"""Lowers a function of a model to ONNX: selects, checks, binds and lowers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from coremlscope.base.budget import Budget
from coremlscope.base.errors import CorruptModelError, MissingWeightsError
from coremlscope.base.units import shown
from coremlscope.model.ir import Classical, FunctionDescription, ImageFeature, Model
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.half_precision import in_half_precision
from coremlscope.ops.lower import lower, lower_classical
from coremlscope.ops.program import OnnxProgram, Precision
from coremlscope.ops.view import CONTRADICTIONS
from coremlscope.runtime.execution.binding import Chosen, bind_model, choose_function
from coremlscope.runtime.execution.random_weights import missing_weights, with_random_weights


class Lowered(msgspec.Struct, frozen=True):
    """A lowered function.

    Attributes:
        function: The function's name in the model's description.
        bound: The function with bound shapes.
        program: The ONNX program.
        random_weights: The seed of random weights; None if the model's own weights are used.
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
        function: The function's name; None selects the default function.
        shapes: Shapes of flexible inputs by name. The others get their default shapes.
        random_weights: The seed of the random weights that replace missing weights and those that cannot be
            read; None makes them an error.
        precision: `fp16` rounds every result that the program declares as fp16, and every floating-point
            result of a neural network, whose layers declare no type.

    Raises:
        MissingWeightsError: Weights are missing and `random_weights` is None.
        UnsupportedOpError: Operations cannot be lowered. The error lists all of them.
        UnsupportedModelError: Models of this kind cannot be run.
        UsageError: The function is unknown.
        InputError: A shape is not allowed.
        UnsupportedModelError: The weights exceed the model's budget or the memory of this machine.
        CorruptModelError: The function contradicts itself or its description.
    """
    chosen = choose_function(model, function)
    _check_interface(chosen)
    missing = missing_weights(chosen.function)
    if missing and random_weights is None:
        raise _missing_weights_error(model, missing)
    is_random = random_weights is not None and missing_weights(chosen.function, with_doubted=True) > 0
    if is_random and random_weights is not None:
        model = with_random_weights(model, random_weights)
        Budget.of_model().check_value(model.size_bytes, "the model with random weights")
    bound = bind_model(model, chosen.name, shapes)
    try:
        program = _lower(model, bound, precision, _half_images(chosen.description))
    except CONTRADICTIONS as error:
        raise CorruptModelError(
            f"the function {chosen.name!r} cannot be lowered: {error}",
            "an operation's arguments contradict its definition",
        ) from error
    return Lowered(chosen.name, bound, program, random_weights if is_random else None)


def _missing_weights_error(model: Model, count: int) -> MissingWeightsError:
    files = (
        ", ".join(shown(file.name) for file in model.weight_files if file.size is None) or "its weight file"
    )
    noun = "constant" if count == 1 else "constants"
    where = (
        "give the .mlpackage, of which the weights are files"
        if model.container == "mlmodel"
        else "fetch the weights (with Git LFS: `git lfs pull`)"
    )
    return MissingWeightsError(
        f"weights are missing: {count} {noun} cannot be read, because {files} is absent or truncated",
        f"{where}, or time the structure with --random-weights",
    )


def _half_images(interface: FunctionDescription) -> frozenset[str]:
    """Returns the names of images of half precision, which engines round faster than NumPy."""
    features = (*interface.inputs, *interface.outputs)
    spaces = {one.name: one.type.color_space for one in features if isinstance(one.type, ImageFeature)}
    return frozenset(name for name, space in spaces.items() if space == "GRAYSCALE_FLOAT16")


def _lower(model: Model, bound: BoundFunction, precision: Precision, halves: frozenset[str]) -> OnnxProgram:
    if isinstance(model.content, Classical):
        # Classical models compute in float64 at any precision: they declare no fp16 results.
        return lower_classical(model.content, bound)
    if precision == "fp16" and model.content.is_network:
        bound = in_half_precision(bound)
    return lower(bound, precision, halves=halves)


def _check_interface(chosen: Chosen) -> None:
    """Checks that the description and the function have the same inputs and outputs."""
    graph, interface = chosen.function.graph, chosen.description
    described = {feature.name for feature in (*interface.inputs, *interface.states)}
    computed = {value.name for value in graph.outputs}
    inputs = [value.name for value in graph.inputs if value.name not in described]
    outputs = [feature.name for feature in interface.outputs if feature.name not in computed]
    for names, problem in (
        (inputs, "has inputs that its description lacks"),
        (outputs, "lacks outputs of its description"),
    ):
        if names:
            raise CorruptModelError(
                f"the function {chosen.name!r} {problem}: {', '.join(map(repr, names))}",
                "the file is damaged; export or download the model again",
            )
