"""Language models: how many tokens a prediction processes, and tokens per second of prefill and decode.

A decoder keeps keys and values of earlier tokens, in states or in inputs and outputs that it extends. The
number of rows that a prediction adds to this cache is the number of tokens that it processes: one when it
decodes, many when it prefills. Decoding streams all weights and the cache for one token, so it waits for
memory; prefill uses the weights for many tokens, so it waits for arithmetic. Both are estimates of a
prediction, divided by its tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coremlscope.cost.latency.own import NOTHING_OWN, Own
from coremlscope.devices import ComputeUnits, Device
from coremlscope.errors import CoremlscopeError
from coremlscope.execution.binding import bind_model, choose_function
from coremlscope.figures import Figure
from coremlscope.forecast.planner import forecast
from coremlscope.ir import (
    ArrayFeature,
    EnumeratedShapes,
    Function,
    Model,
    Program,
    RangeShapes,
    Value,
    default_shape,
)
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundGraph, CannotInfer, OpView
from coremlscope.results.estimate import Estimate
from coremlscope.results.generation import TokenRate
from coremlscope.results.operations import OpTable

__all__ = ["Step", "estimate_generation", "find_step"]

#: Tokens of a prefill that shapes allow, where they allow any number.
_PREFILL = 512
#: A cache has keys and values.
_LEAST_CACHES = 2

_Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """What one prediction of a decoder does.

    Attributes:
        tokens: Tokens that it processes.
        context: Tokens that its cache has room for.
        cache_bytes: Bytes of the cache.
    """

    tokens: int
    context: int
    cache_bytes: int


@dataclass(frozen=True, slots=True)
class _Write:
    """Rows that are written into a cache: shapes of the rows and of the cache, and the cache's bytes."""

    cache: str
    rows: tuple[int, ...]
    whole: tuple[int, ...]
    nbytes: int


def find_step(graph: BoundGraph) -> Step | None:
    """Returns what a prediction of a decoder does; None for other models, and where a shape is not known."""
    writes = list(_state_writes(graph.ops)) or list(_extended_inputs(graph))
    by_cache: dict[str, list[_Write]] = defaultdict(list)
    for write in writes:
        by_cache[write.cache].append(write)
    steps = Counter(axis for found in by_cache.values() if (axis := _tokens(found)) is not None)
    if len(writes) < _LEAST_CACHES or not steps:
        return None
    (tokens, context), _ = steps.most_common(1)[0]
    return Step(tokens, context, sum(found[0].nbytes for found in by_cache.values()))


def _tokens(writes: Sequence[_Write]) -> tuple[int, int] | None:
    """Tokens of the rows and of the whole cache: along the axis that rows do not fill, and layers do not."""
    first = writes[0]
    apart = [axis for axis, (a, b) in enumerate(zip(first.rows, first.whole, strict=True)) if a < b]
    layers = [axis for axis in apart if first.rows[axis] * len(writes) == first.whole[axis]]
    if len(apart) > 1 and layers:
        apart.remove(layers[0])
    return (first.rows[apart[0]], first.whole[apart[0]]) if len(apart) == 1 else None


def _state_writes(views: Iterable[OpView]) -> Iterator[_Write]:
    """Yields the parts of states that are replaced."""
    content: dict[str, str] = {}
    for view in views:
        traits, op = traits_of(view.op.type), view.op
        if not op.outputs:
            continue
        if Trait.STATE_READ in traits:
            content[op.outputs[0].name] = _argument(view, "input")
        elif Trait.UPDATE in traits and _argument(view, "x") in content:
            state = content[_argument(view, "x")]
            content[op.outputs[0].name] = state
            try:
                rows, whole = view.static_shape("update"), view.static_shape("x")
                yield _Write(state, rows, whole, view.type("x").nbytes or 0)
            except CannotInfer:
                continue


def _extended_inputs(graph: BoundGraph) -> Iterator[_Write]:
    """Yields the outputs that are inputs with more rows behind them."""
    inputs = {value.name for value in graph.graph.inputs}
    outputs = {value.name for value in graph.graph.outputs}
    for view in graph.ops:
        op = view.op
        if op.type != "concat" or not outputs & {value.name for value in op.outputs}:
            continue
        given = [one.name if isinstance(one, Value) else "" for one in op.inputs.get("values", ())]
        kept = [place for place, name in enumerate(given) if name in inputs]
        if len(given) != _LEAST_CACHES or len(kept) != 1:
            continue
        try:
            past, rows = (view.static_shape("values", place) for place in (kept[0], 1 - kept[0]))
        except CannotInfer:
            continue
        whole = tuple(a + b if a != b else a for a, b in zip(past, rows, strict=True))
        yield _Write(given[kept[0]], rows, whole, view.type("values", kept[0]).nbytes or 0)


def _argument(view: OpView, name: str) -> str:
    given = view.op.inputs.get(name, ())
    return given[0].name if given and isinstance(given[0], Value) else ""


def estimate_generation(
    model: Model,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    own: Own = NOTHING_OWN,
    known: Sequence[Estimate] = (),
) -> tuple[TokenRate, ...]:
    """Estimates tokens per second of a language model; empty for other models.

    All functions are looked at, unless one is named; and with flexible inputs both one token and many.

    Args:
        model: The model.
        devices: The chips and systems.
        settings: The settings of compute units.
        function: The function; None for all of them.
        shapes: Shapes of flexible inputs of the function, instead of the defaults.
        own: A user's own measurements, which refine estimates.
        known: Estimates of the function, or the default one, with these shapes, if they were made already.
    """
    if not isinstance(model.content, Program) or model.content.is_network:
        return ()
    default = function or model.description.default
    names = [function] if function else list(model.description.functions)
    rates: list[TokenRate] = []
    for name in names:
        if not _may_have_cache(model.content.functions[name]):
            continue
        for step, bound in _steps(model, name, shapes or {}):
            found = known if name == default and bound == dict(shapes or {}) else ()
            if not found:
                found = forecast(
                    model,
                    OpTable(),
                    devices,
                    settings,
                    function=name,
                    shapes=bound,
                    with_advice=False,
                    own=own,
                ).estimates
            rates += (_rate(name, step, one) for one in found)
    return tuple(sorted(rates, key=lambda rate: (rate.device, rate.os, rate.tokens)))


def _may_have_cache(function: Function) -> bool:
    """Whether a function replaces parts of states, or gives back concatenated values, by its operations."""
    outputs = {value.name for value in function.graph.outputs}
    ops = function.graph.ops
    return (
        any(Trait.STATE_WRITE in traits_of(op.type) for op in ops)
        or sum(op.type == "concat" and bool(outputs & {value.name for value in op.outputs}) for op in ops)
        >= _LEAST_CACHES
    )


def _steps(model: Model, name: str, shapes: Mapping[str, Sequence[int]]) -> Iterator[tuple[Step, _Shapes]]:
    """Yields the steps of a function with the shapes of its inputs: as given, for one token, for many."""
    given = {key: tuple(shape) for key, shape in shapes.items()}
    first = _step(model, name, given)
    if first is None:
        return
    yield first, given
    for wanted in (1, _PREFILL):
        if wanted == first.tokens:
            continue
        changed = _with_tokens(model, name, given, first.tokens, wanted)
        step = _step(model, name, changed) if changed is not None else None
        # The same number of rows as before: the inputs that were changed are not those of tokens.
        if step is not None and step.tokens != first.tokens and (wanted == 1) == (step.tokens == 1):
            yield step, changed or {}


def _step(model: Model, name: str, shapes: _Shapes) -> Step | None:
    try:
        return find_step(bind_model(model, name, shapes).graph)
    except CoremlscopeError:
        return None


def _with_tokens(model: Model, name: str, shapes: _Shapes, tokens: int, wanted: int) -> _Shapes | None:
    """Shapes with as many tokens as wanted along flexible dimensions; None if nothing changes."""
    changed = dict(shapes)
    for feature in choose_function(model, name).description.inputs:
        type_ = feature.type
        if not isinstance(type_, ArrayFeature) or feature.name in shapes:
            continue
        shape = default_shape(type_)
        if shape is None:
            continue
        new = _nearest_shape(shape, type_, tokens, wanted)
        if new is not None:
            changed[feature.name] = new
    return changed if changed != shapes else None


def _nearest_shape(
    shape: tuple[int, ...], type_: ArrayFeature, tokens: int, wanted: int
) -> tuple[int, ...] | None:
    """The allowed shape with about as many tokens as wanted; None if it is fixed or that of now."""
    match type_.flexibility:
        case EnumeratedShapes(allowed) if len(allowed) > 1:
            varying = [
                axis for axis, extents in enumerate(zip(*allowed, strict=True)) if len(set(extents)) > 1
            ]
            places = [axis for axis in varying if shape[axis] == tokens]
            fits = [one for one in allowed if len({one[axis] for axis in places}) == 1]
            if not places or not fits:
                return None
            return min(fits, key=lambda one: abs(one[places[0]] - wanted))
        case RangeShapes(bounds):
            free = [axis for axis, (low, high) in enumerate(bounds) if low != high and shape[axis] == tokens]
            if not free:
                return None
            axis = free[0]
            low, high = bounds[axis]
            extent = max(low, wanted if high < 0 else min(wanted, high))
            return (*shape[:axis], extent, *shape[axis + 1 :])
        case _:
            return None


def _rate(function: str, step: Step, estimate: Estimate) -> TokenRate:
    latency = estimate.latency
    return TokenRate(
        device=estimate.device,
        chip=estimate.chip,
        os=estimate.os,
        compute_units=estimate.compute_units,
        function=function,
        phase="decode" if step.tokens == 1 else "prefill",
        tokens=step.tokens,
        context=step.context,
        cache_bytes=step.cache_bytes,
        step_s=latency,
        tokens_per_s=Figure(
            step.tokens / latency.value, step.tokens / latency.high, step.tokens / latency.low, "estimated"
        ),
        bound=estimate.bound,
        basis=estimate.basis,
        own=estimate.own,
    )
