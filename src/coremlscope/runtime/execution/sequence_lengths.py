"""Shapes of inputs that follow from requested ones, and lengths of sequences that neural networks need.

In programs, inputs that share a dimension follow each other (`linked_inputs`). Neural networks with legacy
shape mapping may not run on a single step, and the file states no length: `[channels]` is one step. A
convolution over time needs as many steps as its window, and a dense layer after it an exact number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from coremlscope.base.findings import Finding
from coremlscope.model.ir import ArrayFeature, Function, Model, default_shape
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.linked_inputs import link_shapes

#: Every length up to this one is tried, then powers of two up to the longest.
_EVERY, _LONGEST = 256, 2**14
#: Limit of the layers that are translated in the search.
_MAX_LAYERS = 40_000
_CUSTOM = "custom"


def choose_lengths(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Chooses the shapes of inputs that follow from requested ones, or that a neural network needs.

    Inputs of a program that must agree with requested ones get their sizes. A neural network that a single
    step does not fit gets the shortest sequence that does.

    Args:
        model: The model.
        function: The function's name; None for the default one.
        shapes: The requested shapes of inputs, by name. If an input that takes sequences is among them, no
            length is chosen.

    Returns:
        The shapes, with those of the chosen length; the given shapes if the default shapes fit or no length
        does.

    Raises:
        InputError: The requested shapes of a program do not fit together, or are not allowed.
        UsageError: The model has no such function.
    """
    given = {name: tuple(shape) for name, shape in shapes.items()}
    if model.content.is_typed and given:
        return link_shapes(model, function, given)
    if not model.content.is_network:
        return given
    chosen = choose_function(model, function)
    arrays = {f.name: f.type for f in chosen.description.inputs if isinstance(f.type, ArrayFeature)}
    names = [name for name, type_ in arrays.items() if type_.takes_sequences]
    specialise = chosen.function.specialise
    if specialise is None or not names or set(names) & set(given) or _fits(chosen.function):
        return given
    for length, members in _candidates(names, len(chosen.function.layers)):
        longer = {name: _sequence(arrays[name], length) for name in members}
        if _fits(specialise({**given, **longer})):
            return {**given, **longer}
    return given


def _candidates(names: Sequence[str], layers: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields lengths and the inputs that have them: all inputs, or a single one, as others may be states."""
    groups = [names, *([name] for name in names if len(names) > 1)]
    lengths = [*range(2, _EVERY + 1), *(2**power for power in range(9, _LONGEST.bit_length()))]
    allowed = max(_MAX_LAYERS // max(layers, 1), len(groups))
    pairs = [(length, group) for length in lengths for group in groups]
    yield from pairs[:allowed]


def _fits(function: Function) -> bool:
    """True if every layer is translated, apart from custom layers."""
    return not any(layer.problem for layer in function.layers if layer.type != _CUSTOM)


def _sequence(type_: ArrayFeature, length: int) -> tuple[int, ...]:
    """Returns the shape `[sequence, batch, channels, height, width]` of a sequence in a batch of one."""
    step = default_shape(type_) or (1,)
    inner = (*step, 1, 1) if len(step) == 1 else (1,) * (3 - len(step)) + tuple(step)
    return (length, 1, *inner)


def length_findings(
    model: Model, given: Iterable[str], shapes: Mapping[str, Sequence[int]]
) -> tuple[Finding, ...]:
    """Returns a finding on chosen lengths and shapes, if any.

    Args:
        model: The model.
        given: The names of the inputs whose shapes were requested.
        shapes: The shapes that `choose_lengths` returned.
    """
    chosen = {name: shape for name, shape in shapes.items() if name not in set(given)}
    if not chosen:
        return ()
    listed = " and ".join(map(repr, chosen))
    name, shape = next(iter(chosen.items()))
    if model.content.is_typed:
        return (_linked_finding(chosen),)
    finding = Finding(
        id="sequence-length",
        severity="info",
        text=f"{listed} {'takes' if len(chosen) == 1 else 'take'} sequences of a length that is not in the "
        "file: one step is too short for this network, so the shortest length that fits was used, "
        f"{shape[0]}.",
        hint=f"--shape {name}={'x'.join(map(str, shape))} sets another length",
    )
    return (finding,)


def _linked_finding(chosen: Mapping[str, Sequence[int]]) -> Finding:
    listed = " and ".join(f"{name!r} to {'×'.join(map(str, shape))}" for name, shape in chosen.items())
    name, shape = next(iter(chosen.items()))
    return Finding(
        id="linked-shapes",
        severity="info",
        text="The inputs with requested shapes share dimensions with others, which therefore changed:"
        f" {listed}.",
        hint=f"--shape {name}={'x'.join(map(str, shape))} sets another shape",
    )
