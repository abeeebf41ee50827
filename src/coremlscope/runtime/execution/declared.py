"""Results of predictions next to what a model declares of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coremlscope.model.features import describe_shape
from coremlscope.model.ir import Array, ArrayFeature, FunctionDescription, Model


def find_contradictions(
    model: Model, description: FunctionDescription, results: Mapping[str, Array]
) -> Iterator[str]:
    """Yields a sentence for each array that has another shape or kind of number than its description.

    Core ML gives an app buffers of the declared shape: a result of another one is cut, or ends the app.
    Shapes are compared where no input or output is flexible; those of neural networks without axes of one,
    which old ones declare in several ways.

    Args:
        model: The model.
        description: Its function.
        results: The results by output name.
    """
    features = (*description.inputs, *description.outputs)
    is_fixed = all(
        getattr(feature.type, "flexibility", None) is None
        and not (isinstance(feature.type, ArrayFeature) and feature.type.takes_sequences)
        for feature in features
    )
    is_exact = model.content.is_typed
    for feature in description.outputs:
        type_, result = feature.type, results.get(feature.name)
        if not isinstance(type_, ArrayFeature) or result is None or result.dtype.kind not in "fiub":
            continue
        shapes = [tuple(shape) for shape in (type_.shape, result.shape)]
        given, computed = shapes if is_exact else (tuple(n for n in shape if n != 1) for shape in shapes)
        if is_fixed and type_.shape and given != computed:
            yield (
                f"The output {feature.name!r} has the shape {describe_shape(shapes[1])}, and its description"
                f" declares {describe_shape(shapes[0])}."
            )
        elif is_exact and type_.dtype.is_float != (result.dtype.kind == "f"):
            kind, declared = "floats" if result.dtype.kind == "f" else "integers", type_.dtype.value
            yield f"The output {feature.name!r} holds {kind}, and its description declares {declared}."
