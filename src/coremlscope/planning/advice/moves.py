"""Findings on operations that move elements without need: transposes, reshapes, casts, concats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from coremlscope.base.errors import MissingWeightsError
from coremlscope.model.ir import DType, Value
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView
from coremlscope.planning.advice.rule import (
    AdviceRule,
    Change,
    Found,
    FunctionView,
    dtype_of,
    has_trait,
    listed,
    plural,
    shape_of,
)

#: For several operations, and for one.
_FOLLOW = ("follow each other or change nothing", "changes nothing")
_PASSES = "apple/coremltools: graph passes"
#: The bits of the significand and of the exponent: a type with more of both holds every value.
_FLOATS = {DType.FP16: (11, 5), DType.FP32: (24, 8), DType.FP64: (53, 11)}
_CANNOT_TELL = (CannotInfer, CannotLower, MissingWeightsError, *CONTRADICTIONS)


def _without(
    pairs: Iterator[tuple[OpView, Sequence[OpView]]], what: Callable[[int, str], str]
) -> Found | None:
    """Returns a finding on operations, each given with those that vanish with it."""
    named: dict[str, OpView] = {}
    removed: set[str] = set()
    for view, gone in pairs:
        named[view.op.id] = view
        removed.update(one.op.id for one in gone)
    if not named:
        return None
    views = list(named.values())
    return Found(
        text=what(len(views), listed(views)),
        ops=tuple(named),
        change=Change(removed=frozenset(removed)),
    )


def _chained(kind: str) -> Callable[[int, str], str]:
    """Returns a function that describes operations of a kind of which at most one of a chain is needed."""
    return lambda count, names: (
        f"{plural(count, kind)} {_FOLLOW[count == 1]}, where at most one of a chain is needed: {names}."
    )


def _chain(function: FunctionView, last: OpView, traits: Trait) -> list[OpView]:
    """Returns the operations with a trait before one, each read by the next one only, the first one first."""
    found = [last]
    while True:
        source = function.source(found[0])
        if source is None or not _is_move(function, source, traits) or not function.is_read_once(source):
            return found
        found.insert(0, source)


def _ends(function: FunctionView, traits: Trait) -> Iterator[list[OpView]]:
    """Yields the longest chains of operations with a trait, each with its last one at the end."""
    for view in function.views:
        if _is_move(function, view, traits):
            reader = function.only_reader(view)
            goes_on = reader is not None and _is_move(function, reader, traits)
            if not goes_on or reader is None or function.source(reader) is not view:
                yield _chain(function, view, traits)


def _is_move(function: FunctionView, view: OpView, traits: Trait) -> bool:
    is_name = view.op.type == "identity" and not function.returned.isdisjoint(v.name for v in view.op.outputs)
    return has_trait(view, traits) and function.is_authored(view) and not is_name


def _permutation(view: OpView) -> tuple[int, ...]:
    rank = len(view.shape("x"))
    return tuple(axis % rank for axis in view.integers("perm"))


def _transposes(function: FunctionView) -> Found | None:
    def found() -> Iterator[tuple[OpView, Sequence[OpView]]]:
        for chain in _ends(function, Trait.TRANSPOSITION):
            try:
                steps = [_permutation(view) for view in chain]
                shape = chain[0].shape("x")
            except _CANNOT_TELL:
                continue
            whole = tuple(range(len(shape)))
            for step in steps:
                whole = tuple(whole[axis] for axis in step)
            # Axes of one element can be anywhere.
            kept = [axis for axis in whole if shape[axis] != 1]
            if kept == sorted(kept):
                if len(chain) > 1 or whole == tuple(range(len(shape))):
                    yield from ((view, chain) for view in chain)
            elif len(chain) > 1:
                yield from ((view, chain[:-1]) for view in chain)

    return _without(
        found(),
        _chained("transpose"),
    )


def find_needless_reshapes(function: FunctionView) -> Iterator[tuple[Sequence[OpView], bool]]:
    """Yields chains of reshapes of which at most the last one is needed, and whether none is."""
    for chain in _ends(function, Trait.RESHAPE):
        before, after = shape_of(chain[0], "x"), shape_of(chain[-1])
        is_whole = before is not None and before == after
        if is_whole or len(chain) > 1:
            yield chain, is_whole


def _reshapes(function: FunctionView) -> Found | None:
    chains = list(find_needless_reshapes(function))
    found = _without(
        ((view, chain if is_whole else chain[:-1]) for chain, is_whole in chains for view in chain),
        _chained("reshape"),
    )
    is_flexible = not any(function.has_fixed_shape(chain[-1]) for chain, _ in chains)
    return replace(found, transform="") if found is not None and is_flexible else found


def _holds(wide: DType | None, narrow: DType | None) -> bool:
    """Returns whether a type has every value of another one."""
    if wide == narrow:
        return True
    if wide in _FLOATS and narrow in _FLOATS:
        return _FLOATS[wide] >= _FLOATS[narrow]
    return False


def _casts(function: FunctionView) -> Found | None:
    def found() -> Iterator[tuple[OpView, Sequence[OpView]]]:
        for view in function.views:
            if view.op.type != "cast":
                continue
            given, result = dtype_of(view, "x"), dtype_of(view)
            if given is None or result is None:
                continue
            if given == result:
                yield view, [view]
                continue
            source = function.source(view)
            if source is None or source.op.type != "cast" or not _holds(given, dtype_of(source, "x")):
                continue
            # A value that is widened and cast again: the wide form is needed only by other readers.
            gone = [source] if function.is_read_once(source) else []
            if dtype_of(source, "x") == result:
                gone = [*gone, view]
            if gone:
                yield view, gone

    return _without(
        found(),
        lambda count, names: (
            f"{plural(count, 'cast')} {'gives' if count == 1 else 'give'} a type that the value had before,"
            " or that it is"
            f" cast from at once: {names}."
        ),
    )


def _axis(view: OpView, rank: int) -> int:
    return view.integer("axis") % rank


def find_needless_concats(function: FunctionView) -> Iterator[tuple[OpView, Sequence[OpView]]]:
    """Yields redundant concats, each with the operations that vanish with it."""
    for view in function.views:
        if view.op.type != "concat" or view.flag("interleave", False):
            continue
        parts = view.op.inputs.get("values", ())
        shape = shape_of(view)
        if len(parts) == 1:
            yield view, [view]
            continue
        if shape is None:
            continue
        try:
            yield from ((inner, [inner]) for inner in _nested(function, view, _axis(view, len(shape))))
            split = _undone_split(function, view, _axis(view, len(shape)))
        except _CANNOT_TELL:
            continue
        if split is not None:
            readers = {reader.op.id for value in split.op.outputs for reader in function.readers[value.name]}
            is_only = readers == {view.op.id} and not function.returned.intersection(
                value.name for value in split.op.outputs
            )
            yield view, [view, split] if is_only else [view]


def _concats(function: FunctionView) -> Found | None:
    return _without(
        find_needless_concats(function),
        lambda count, names: (
            f"{plural(count, 'concat')} {'copies' if count == 1 else 'copy'} what is joined again or was"
            f" joined before: {names}."
        ),
    )


def _nested(function: FunctionView, view: OpView, axis: int) -> Iterator[OpView]:
    """Yields the concats along the same axis whose result is a part of this one only."""
    for argument in view.op.inputs["values"]:
        maker = function.makers.get(argument.name) if isinstance(argument, Value) else None
        if maker is None or maker.op.type != "concat" or not function.is_read_once(maker):
            continue
        shape = shape_of(maker)
        if shape is not None and _axis(maker, len(shape)) == axis and not maker.flag("interleave", False):
            yield maker


def _undone_split(function: FunctionView, view: OpView, axis: int) -> OpView | None:
    """Returns the split whose results a concat joins, all of them and in their order."""
    names = [argument.name for argument in view.op.inputs["values"] if isinstance(argument, Value)]
    maker = function.makers.get(names[0]) if names else None
    if maker is None or maker.op.type != "split" or len(names) != len(view.op.inputs["values"]):
        return None
    is_whole = [value.name for value in maker.op.outputs] == names
    return maker if is_whole and _axis(maker, len(maker.shape("x"))) == axis else None


RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="redundant-transposes",
        doc="Transposes one after the other, without an operation between them: at most one is needed, and"
        " none where together they restore the order. Each of them reads and writes all elements.",
        find=_transposes,
        fix="remove needless transposes, for instance by coremltools' pass merge_consecutive_transposes",
        source=f"{_PASSES} merge_consecutive_transposes and reduce_transposes",
        confidence="documented",
        transform="tidy",
    ),
    AdviceRule(
        id="redundant-reshapes",
        doc="Reshapes, flattenings, and insertions and removals of axes of one element, one after the other"
        " or without any effect: at most the last one is needed.",
        find=_reshapes,
        fix="reshape once, for instance by coremltools' pass merge_consecutive_reshapes",
        source=f"{_PASSES} merge_consecutive_reshapes and noop_elimination",
        confidence="documented",
        transform="tidy",
    ),
    AdviceRule(
        id="redundant-casts",
        doc="Casts to the type that the value has, and casts to a wider type whose result is cast again at"
        " once. A cast that loses digits is not redundant: it changes the result.",
        find=_casts,
        fix="remove casts that cancel out, for instance by coremltools' pass cast_optimization",
        source=f"{_PASSES} cast_optimization",
        confidence="documented",
        transform="tidy",
    ),
    AdviceRule(
        id="redundant-concats",
        doc="A concat of one value, of all parts of one split in their order, or whose result only another"
        " concat along the same axis reads: each copies its inputs redundantly.",
        find=_concats,
        fix="join all parts by one concat",
        source="the definition of concat: a copy of all its inputs",
        confidence="static analysis",
    ),
)
