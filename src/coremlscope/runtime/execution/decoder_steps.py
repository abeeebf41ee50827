"""Tokens that predictions of a language model process, and input shapes for other numbers of tokens.

A decoder keeps keys and values of earlier tokens, in states or in inputs and outputs that it extends. The
number of rows that a prediction adds to this cache is the number of tokens that it processes: one when it
decodes, many when it prefills. The file does not say which flexible dimensions count tokens, and which count
the tokens of the cache: they are found by binding the function to shapes of which it is known.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from coremlscope.base.errors import CoremlscopeError
from coremlscope.model.ir import (
    ArrayFeature,
    EnumeratedShapes,
    Function,
    Model,
    RangeShapes,
    Value,
    default_shape,
)
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundGraph, CannotInfer, OpView
from coremlscope.runtime.execution.binding import bind_model, choose_function

#: Tokens of a prefill that shapes allow, where they allow any number.
_PREFILL = 512
#: Tokens of the cache, where shapes and states allow any number.
_LONGEST = 2048
#: Parts of the longest context for which decoding is looked at.
_PARTS = (8, 4, 2, 1)
#: A cache has keys and values.
_LEAST_CACHES = 2
#: Operations whose result is the content of a state that they read.
_PASSING = ("cast", "identity")
#: The most shapes to which a function is bound in search of the meaning of its dimensions.
_MOST_TRIALS = 48
#: The most enumerated shapes that are looked at.
_MOST_ENUMERATED = 32
#: The numbers of tokens, and of tokens of the cache before them, by which dimensions are distinguished.
_TRIAL_TOKENS, _TRIAL_PAST = 3, 8

Shapes = dict[str, tuple[int, ...]]

#: Count of a flexible dimension: tokens of the prediction, tokens that attention reads, tokens before the
#: prediction; or nothing that is known.
_Role = Literal["tokens", "attended", "past", "other"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one prediction of a decoder.

    Attributes:
        tokens: Tokens that it processes.
        context: Tokens that its cache has room for.
        attended: Tokens of the cache that attention reads, those of the prediction included; the room where
            the function shows no attention.
        cache_bytes: Bytes of the cache in the type of the file.
        cache_elements: Numbers in the cache.
    """

    tokens: int
    context: int
    attended: int
    cache_bytes: int
    cache_elements: int


class DecoderStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a decoder, and how to make it.

    Attributes:
        function: The function.
        shapes: Shapes of inputs, those that were requested included.
        step: What a prediction with these shapes does.
    """

    function: str
    shapes: Mapping[str, tuple[int, ...]]
    step: Step


class _Write(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are written into a cache: shapes of the rows and of the cache, and the cache's size."""

    cache: str
    rows: tuple[int, ...]
    whole: tuple[int, ...]
    nbytes: int
    elements: int


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
    return Step(
        tokens=tokens,
        context=context,
        attended=_attended(graph, tokens) or context,
        cache_bytes=sum(found[0].nbytes for found in by_cache.values()),
        cache_elements=sum(found[0].elements for found in by_cache.values()),
    )


def _tokens(writes: Sequence[_Write]) -> tuple[int, int] | None:
    """Tokens of the rows and of the whole cache: along the axis that rows do not fill, and layers do not."""
    first = writes[0]
    apart = [axis for axis, (a, b) in enumerate(zip(first.rows, first.whole, strict=True)) if a < b]
    layers = [axis for axis in apart if first.rows[axis] * len(writes) == first.whole[axis]]
    if len(apart) > 1 and layers:
        apart.remove(layers[0])
    return (first.rows[apart[0]], first.whole[apart[0]]) if len(apart) == 1 else None


def _state_writes(views: Iterable[OpView]) -> Iterator[_Write]:
    """Yields the parts of states that are replaced, except by an earlier part: such a state is a window."""
    content: dict[str, str] = {}
    parts: set[str] = set()
    for view in views:
        traits, op = traits_of(view.op.type), view.op
        if not op.outputs:
            continue
        if Trait.STATE_READ in traits:
            content[op.outputs[0].name] = _argument(view, "input")
        elif Trait.SLICE in traits and _argument(view, "x") in content:
            parts.add(op.outputs[0].name)
        elif op.type in _PASSING and _argument(view, "x") in content:
            content[op.outputs[0].name] = content[_argument(view, "x")]
        elif (replaced := _replaced(view, content)) is not None:
            whole, update = replaced
            state = content[_argument(view, whole)]
            content[op.outputs[0].name] = state
            if _argument(view, update) in parts:
                continue
            try:
                rows, shape, type_ = _rows(view, whole, update), view.static_shape(whole), view.type(whole)
                nbytes, elements = type_.nbytes or 0, type_.elements or 0
                yield _Write(cache=state, rows=rows, whole=shape, nbytes=nbytes, elements=elements)
            except CannotInfer:
                continue


def _replaced(view: OpView, content: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the arguments that are the content of a state, and what replaces a part; None if neither is."""
    traits = traits_of(view.op.type)
    pairs: list[tuple[str, str]] = []
    if Trait.UPDATE in traits:
        pairs = [("x", "update")]
    elif Trait.SCATTER in traits:
        pairs = [("data", "updates")]
    elif view.op.type == "select":
        pairs = [("a", "b"), ("b", "a")]
    return next((pair for pair in pairs if _argument(view, pair[0]) in content), None)


def _rows(view: OpView, whole: str, update: str) -> tuple[int, ...]:
    """Returns the shape of the part that is replaced, with the axes that an index selects as 1."""
    given, rank = list(view.static_shape(update)), len(view.shape(whole))
    if Trait.UPDATE not in traits_of(view.op.type):
        given = [1] * (rank - len(given)) + given
    is_index = view.integers("squeeze_mask", [0] * rank)
    if len(is_index) != rank or len(given) + sum(map(bool, is_index)) != rank:
        raise CannotInfer("the update has another rank than the part that it replaces")
    return tuple(1 if index else given.pop(0) for index in is_index)


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
            type_ = view.type("values", kept[0])
        except CannotInfer:
            continue
        whole = tuple(a + b if a != b else a for a, b in zip(past, rows, strict=True))
        nbytes, elements = type_.nbytes or 0, type_.elements or 0
        yield _Write(cache=given[kept[0]], rows=rows, whole=whole, nbytes=nbytes, elements=elements)


def _argument(view: OpView, name: str) -> str:
    given = view.op.inputs.get(name, ())
    return given[0].name if given and isinstance(given[0], Value) else ""


def _attended(graph: BoundGraph, tokens: int) -> int | None:
    """Returns the number of keys of most attentions; None if the function shows none."""
    found: Counter[int] = Counter()
    for view in graph.ops:
        traits = traits_of(view.op.type)
        try:
            if Trait.ATTENTION in traits:
                found[view.static_shape("key")[-2]] += 1
            elif Trait.SOFTMAX in traits:
                shape = view.static_shape("x")
                keys = shape[view.integer("axis", -1)]
                # A softmax over classes has no row for each token and head.
                if len(shape) > 2 and keys >= tokens:
                    found[keys] += 1
        except (CannotInfer, IndexError):
            continue
    return found.most_common(1)[0][0] if found else None


def decoder_steps(
    model: Model, function: str | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[DecoderStep, ...]:
    """Returns the steps of a language model; empty for other models.

    All functions are looked at, unless one is named. With flexible inputs these are steps of one token with
    contexts of several lengths, and of many tokens.

    Args:
        model: The model.
        function: The function; None for all of them.
        shapes: Shapes of flexible inputs of the function, instead of the defaults.
    """
    if not model.content.is_typed:
        return ()
    given = {key: tuple(shape) for key, shape in (shapes or {}).items()}
    names = [function] if function else list(model.description.functions)
    return tuple(
        step
        for name in names
        if _may_have_cache(model.content.functions[name])
        for step in _Function(model, name, given).steps()
    )


def _may_have_cache(function: Function) -> bool:
    """Whether a function replaces parts of states, or gives back concatenated values, by its operations."""
    outputs = {value.name for value in function.graph.outputs}
    ops = function.graph.ops
    return (
        any(Trait.STATE_WRITE in traits_of(op.type) for op in ops)
        or sum(op.type == "concat" and bool(outputs & {value.name for value in op.outputs}) for op in ops)
        >= _LEAST_CACHES
    )


class _Axis(msgspec.Struct, frozen=True, kw_only=True):
    """A flexible dimension of inputs, and its bounds; several inputs may have it, such as all caches."""

    inputs: tuple[str, ...]
    axis: int
    rank: int
    default: int
    low: int
    high: int

    def allows(self, extent: int) -> bool:
        return self.low <= extent and (self.high < 0 or extent <= self.high)


class _Function:
    """A function, in search of the shapes of its steps."""

    def __init__(self, model: Model, name: str, given: Shapes) -> None:
        self._model, self._name, self._given = model, name, given
        inputs = choose_function(model, name).description.inputs
        self._free = {
            feature.name: feature.type
            for feature in inputs
            if isinstance(feature.type, ArrayFeature) and feature.name not in given
        }

    def steps(self) -> Iterator[DecoderStep]:
        """Yields the steps, each once: as requested, then decoding, then prefill."""
        found = [*self._enumerated(), *self._ranges()]
        first = self._step(self._given)
        # The default of flexible inputs is often a context of one token, which tells nothing.
        if first is not None and (self._given or not found):
            found.insert(0, DecoderStep(function=self._name, shapes=self._given, step=first))
        seen: set[tuple[int, int]] = set()
        for one in found:
            key = (one.step.tokens, one.step.attended)
            if key not in seen:
                seen.add(key)
                yield one

    def _step(self, shapes: Mapping[str, tuple[int, ...]]) -> Step | None:
        """Returns what a prediction with these shapes does; None if they contradict each other."""
        try:
            bound = bind_model(self._model, self._name, shapes)
        except CoremlscopeError:
            return None
        return None if bound.problems else find_step(bound.graph)

    def _enumerated(self) -> list[DecoderStep]:
        """Returns the steps of enumerated shapes."""
        found = []
        for chosen in self._rows():
            shapes = {**self._given, **chosen}
            step = self._step(shapes)
            if step is not None:
                found.append(DecoderStep(function=self._name, shapes=shapes, step=step))
        decoding = sorted((one for one in found if one.step.tokens == 1), key=lambda one: one.step.attended)
        many = [one for one in found if one.step.tokens > 1]
        nearest = min(many, key=lambda one: abs(one.step.tokens - _PREFILL), default=None)
        return decoding + ([] if nearest is None else [nearest])

    def _rows(self) -> Iterator[Shapes]:
        """Yields enumerated shapes that belong together.

        coremltools sorts the lists, so the same place in two lists says little. Shapes belong together if one
        has only extents of the other: ids of 16 tokens and a mask of 16 × 64.
        """
        lists = {
            name: type_.flexibility.shapes[:_MOST_ENUMERATED]
            for name, type_ in self._free.items()
            if isinstance(type_.flexibility, EnumeratedShapes) and len(type_.flexibility.shapes) > 1
        }
        leading = max(lists.values(), key=lambda known: (len(known), len(_varying(known))), default=())
        for row, shape in enumerate(leading):
            extents = {shape[axis] for axis in _varying(leading)}
            chosen = {name: _belonging(known, row, extents) for name, known in lists.items()}
            yield {name: one for name, one in chosen.items() if one is not None}

    def _ranges(self) -> Iterator[DecoderStep]:
        """Yields the steps of ranges of shapes."""
        axes = self._axes()
        roles = self._roles(axes)
        if roles is None:
            return
        longest = self._longest(axes, roles)
        contexts = sorted({max(longest // part, 2) for part in _PARTS}) if longest else [_TRIAL_PAST]
        # Rows that fill the whole cache could not be distinguished from it.
        many = min([_PREFILL, *([longest // 2] if longest else []), *_bounds(axes, roles, "tokens")])
        before = max((max(a.low, 1) for a, r in zip(axes, roles, strict=True) if r == "past"), default=0)
        for tokens, attended in (*((1, context) for context in contexts), (many, many + before)):
            shapes = self._shaped(axes, roles, tokens, attended)
            step = None if shapes is None else self._step(shapes)
            if shapes is not None and step is not None and (tokens == 1) == (step.tokens == 1):
                yield DecoderStep(function=self._name, shapes=shapes, step=step)

    def _axes(self) -> list[_Axis]:
        """Returns the dimensions that ranges leave open; those that look the same are one."""
        alike: dict[tuple[int, int, int, int, int], list[str]] = defaultdict(list)
        for name, type_ in self._free.items():
            shape = default_shape(type_)
            if shape is None or not isinstance(type_.flexibility, RangeShapes):
                continue
            for axis, (low, high) in enumerate(type_.flexibility.bounds):
                if low != high:
                    alike[axis, len(shape), shape[axis], low, high].append(name)
        return [
            _Axis(inputs=tuple(names), axis=axis, rank=rank, default=default, low=low, high=high)
            for (axis, rank, default, low, high), names in alike.items()
        ]

    def _roles(self, axes: Sequence[_Axis]) -> tuple[_Role, ...] | None:
        """Returns what each dimension counts; None if no choice makes a step of the tokens that it says."""
        if not axes:
            return None
        second_best = None
        choices = itertools.product(*(_likely_roles(axis, axes) for axis in axes))
        for roles in itertools.islice(choices, _MOST_TRIALS):
            tokens = _TRIAL_TOKENS if "tokens" in roles else 1
            shapes = self._shaped(axes, roles, tokens, tokens + _TRIAL_PAST)
            step = None if shapes is None else self._step(shapes)
            if step is None or step.tokens != tokens:
                continue
            if step.attended == tokens + _TRIAL_PAST and {"attended", "past"} & set(roles):
                return roles
            if second_best is None and "tokens" in roles and not {"attended", "past"} & set(roles):
                second_best = roles
        return second_best

    def _shaped(
        self, axes: Sequence[_Axis], roles: Sequence[_Role], tokens: int, attended: int
    ) -> Shapes | None:
        """Returns the shapes of inputs for so many tokens; None if they are not allowed."""
        extents = {"tokens": tokens, "attended": attended, "past": attended - tokens}
        found = {name: list(default_shape(type_) or ()) for name, type_ in self._free.items()}
        changed = set()
        for axis, role in zip(axes, roles, strict=True):
            extent = extents.get(role, axis.default)
            if not axis.allows(extent):
                return None
            for name in axis.inputs:
                found[name][axis.axis] = extent
                changed.add(name)
        return {**self._given, **{name: tuple(found[name]) for name in sorted(changed)}}

    def _longest(self, axes: Sequence[_Axis], roles: Sequence[_Role]) -> int | None:
        """Returns the longest context for one token; None if no dimension counts it."""
        if not {"attended", "past"} & set(roles):
            return None
        shapes = self._shaped(axes, roles, 1, 1 + _TRIAL_PAST)
        step = None if shapes is None else self._step(shapes)
        # The room of a state; a cache in inputs is as large as they are.
        room = [step.context] if step is not None and step.context > step.attended else []
        past = [bound + 1 for bound in _bounds(axes, roles, "past")]
        return min([*room, *past, *_bounds(axes, roles, "attended")], default=_LONGEST)


def _varying(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns the dimensions in which shapes differ."""
    return [axis for axis, extents in enumerate(zip(*shapes, strict=True)) if len(set(extents)) > 1]


def _belonging(shapes: Sequence[tuple[int, ...]], row: int, extents: set[int]) -> tuple[int, ...] | None:
    """Returns the shape that has only these extents, else that of the row; None without either."""
    axes = _varying(shapes)
    in_order = [*shapes[row : row + 1], *shapes]
    fitting = (shape for shape in in_order if {shape[axis] for axis in axes} <= extents)
    return next(fitting, shapes[row] if row < len(shapes) else None)


def _bounds(axes: Sequence[_Axis], roles: Sequence[_Role], role: _Role) -> list[int]:
    """Returns the largest extents of the dimensions that count something, where they have one."""
    return [axis.high for axis, known in zip(axes, roles, strict=True) if known == role and axis.high >= 0]


def _likely_roles(axis: _Axis, axes: Sequence[_Axis]) -> tuple[_Role, ...]:
    """Returns what a dimension may count, the most likely first.

    Masks of attention are tokens × keys in their last dimensions, caches have rank 4 or more and one open
    dimension, ids and hidden states have tokens alone.
    """
    others = [other for other in axes if other.inputs == axis.inputs and other.axis != axis.axis]
    if any(other.axis < axis.axis for other in others):
        return ("attended", "past", "tokens", "other")
    if others or axis.rank < 4:
        return ("tokens", "attended", "past", "other")
    return ("past", "tokens", "attended", "other")
