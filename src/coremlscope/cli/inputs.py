"""Input values from `--input NAME=FILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.errors import InputError
from coremlscope.features import bind_shapes, parse_input
from coremlscope.features.names import suggest_name
from coremlscope.ir import FunctionDescription

__all__ = ["read_inputs"]


def read_inputs(
    description: FunctionDescription,
    given: Sequence[tuple[str, str]],
    shapes: Mapping[str, Sequence[int]],
    resize: str,
) -> dict[str, Any]:
    """Reads values of inputs from files, or from what was typed.

    Args:
        description: The interface of the function.
        given: Names, and the file or value of each, in order; the last one of a name counts.
        shapes: Requested shapes; images are resized to them.
        resize: How images of another size are resized.

    Raises:
        InputError: A name is unknown, or a file does not hold a value of its input.
    """
    features = {feature.name: feature for feature in description.inputs}
    bound = bind_shapes(description, shapes)
    values = {}
    for name, text in given:
        if name not in features:
            raise InputError(f"unknown input {name!r}", suggest_name(name, features, "input"))
        shape = bound[name] if name in shapes else None
        values[name] = parse_input(features[name], text, resize, shape)
    return values
