"""Converts errors to those of Core ML: RuntimeErrors, some with Core ML's own messages."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from coremlscope.base.errors import (
    CoremlscopeError,
    EngineError,
    InputError,
    UnsupportedModelError,
    reason_of,
)
from coremlscope.model import ir
from coremlscope.model.features.images import is_image
from coremlscope.model.features.shapes import as_sequence

#: What Core ML says of an image for an array (apple/coremltools #301).
_NO_ARRAY = "MultiArrayConstraint only allows MultiArrays."


@contextlib.contextmanager
def as_runtime_error(prefix: str = "") -> Iterator[None]:
    """Converts coremlscope's errors and file system errors to RuntimeError."""
    try:
        yield
    except CoremlscopeError as error:
        raise RuntimeError(prefix + _sentence(error)) from error
    except OSError as error:
        raise RuntimeError(f"{prefix}{error.filename or 'a file'}: {reason_of(error)}") from error


def check_accepted(model: ir.Model, *, loads: bool) -> None:
    """Raises UnsupportedModelError for a model that Core ML does not compile, or that no unit loads.

    Args:
        model: The model.
        loads: Whether it is loaded; a load also warns once of each other hazard that every unit meets.
    """
    from coremlscope.planning.hazards.find import find_everywhere, find_in_model

    for hazard in (find_everywhere if loads else find_in_model)(model):
        if hazard.kind == "refused":
            raise UnsupportedModelError(f"{hazard.text}.", f"{hazard.fix}; see {hazard.source}")
        if loads:
            text = f"{hazard.text}: {hazard.fix} ({hazard.source})"
            warnings.warn(text, RuntimeWarning, stacklevel=4)


def check_state(description: ir.FunctionDescription, state: object) -> None:
    """Raises RuntimeError for a prediction of a model with states without one, as Core ML does.

    The text is that of apple/coremltools #2519.
    """
    if state is None and description.states:
        name = description.states[0].name
        raise RuntimeError(f"The input feature for {name} must be an MLState, but it was not.")


@contextlib.contextmanager
def prediction_errors(
    model: ir.Model, description: ir.FunctionDescription, values: Mapping[str, Any]
) -> Iterator[None]:
    """Converts the errors of a prediction to RuntimeError, with Core ML's messages that scripts match."""
    try:
        with as_runtime_error():
            yield
    except RuntimeError as error:
        match error.__cause__:
            case EngineError():
                what = "a neural network model" if model.kind.startswith("neuralNetwork") else "ML Program"
                message = f"Unable to compute the prediction using {what}: {error}"
            case InputError():
                message = " ".join(filter(None, (_shape_sentence(description, values), str(error))))
            case _:
                raise
        raise RuntimeError(message) from error.__cause__


def _sentence(error: CoremlscopeError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _shape_sentence(description: ir.FunctionDescription, values: Mapping[str, Any]) -> str:
    """Core ML's message about the first array or image of a disallowed size; empty if all are allowed."""
    for feature in description.inputs:
        value: Any = values.get(feature.name)
        type_ = feature.type
        if isinstance(type_, ir.ImageFeature) and is_image(value):
            size = ir.ArrayFeature(
                dtype=ir.DType.FP32, shape=(type_.height, type_.width), flexibility=type_.flexibility
            )
            if _compare(size, value.size[::-1]):
                # apple/coremltools #1345, huggingface/coreml-examples #5
                return "Image size {} x {} not in allowed set of image sizes.".format(*value.size)
        if not isinstance(type_, ir.ArrayFeature):
            continue
        if is_image(value):
            return _NO_ARRAY
        if not isinstance(value, np.ndarray):
            continue
        sentence = _compare(type_, value.shape)
        if sentence:
            return sentence
    return ""


def _compare(type_: ir.ArrayFeature, shape: tuple[int, ...]) -> str:
    given = " x ".join(map(str, shape))
    match type_.flexibility:
        case ir.RangeShapes(bounds) if len(bounds) == len(shape):
            for axis, (size, (low, high)) in enumerate(zip(shape, bounds, strict=True)):
                if size < low or 0 <= high < size:
                    upper = "" if high < 0 else high
                    return f"Size ({size}) of dimension ({axis}) is not in allowed range ({low}..{upper})."
        case ir.EnumeratedShapes(shapes) if shape not in shapes:
            return f"MultiArray Shape ({given}) was not in enumerated set of allowed shapes."
        case None if (
            type_.shape
            and shape != type_.shape
            and not (type_.takes_sequences and len(as_sequence(type_, shape)) == 5)
        ):
            wanted = " x ".join(map(str, type_.shape))
            return (
                f"MultiArray shape ({given}) does not match the shape ({wanted}) "
                "specified in the model description."
            )
    return ""
