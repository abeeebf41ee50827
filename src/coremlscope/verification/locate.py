"""Finds the first operation where two runs part, and tells the error that it makes from the one that it
inherits.

An operation makes an error if its results differ on the exact arguments of the other run. So each operation
is run again on these, all in one run: see `run_from`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coremlscope.model.ir import Array
from coremlscope.verification.causes.site import Site
from coremlscope.verification.distance import unmasked_error
from coremlscope.verification.intermediates import Run
from coremlscope.verification.own_run import FunctionCall, run_from
from coremlscope.verification.pairing import Pair

__all__ = [
    "PrecisionSite",
    "errors_made",
    "locate_conversion",
    "locate_precision",
    "producers",
]

#: An operation makes an error above this relative size in a program with fp16 weights, and in one without:
#: several times that of rounding its weights, and of sums in another order.
_MADE = {True: 1e-2, False: 1e-3}
#: Where an output is off by more, this is a large error of an intermediate value.
_LARGE = 2e-2
#: The relative error of rounding to fp16.
_ROUNDING = 2.0**-11
#: An error of the arguments that grows by this factor, and more, is made by the operation that amplifies it.
_AMPLIFIED = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionSite:
    """The first value that rounding moves far from the exact one.

    Attributes:
        value: The name of the value.
        total: Its relative error.
        made: The relative error on exact arguments; None if it is unknown.
        inherited: The largest relative error of its arguments.
        is_gradual: True if no operation stands out, as errors grow slowly.
    """

    value: str
    total: float
    made: float | None
    inherited: float
    is_gradual: bool = False


def errors_made(
    call: FunctionCall, ours: Run, theirs: Run, pairs: Sequence[Pair]
) -> tuple[dict[str, Array], dict[str, Array], dict[str, float]]:
    """Computes the error that each operation makes on the reference's own values.

    Pairs by order alone may be wrong, so nothing is computed from them.

    Args:
        call: The function and its inputs.
        ours: The run of the model.
        theirs: The run of the reference.
        pairs: The pairs of values of both.

    Returns:
        What the model computes, the values of the reference in the layout of the model's, and the relative
        errors, all by the names of the model.

    Raises:
        EngineError: The engine failed.
    """
    given: dict[str, Array] = {}
    for pair in pairs:
        mine = ours.values[pair.ours].array
        other = theirs.values[pair.theirs].array
        if pair.how != "order" and other.size == mine.size:
            given[pair.ours] = pair.in_our_layout(other, mine.shape)
    names = [name for name in given if ours.values[name].op]
    fed = {name: array.astype(ours.values[name].array.dtype) for name, array in given.items()}
    local = run_from(call, fed, names)
    return local, given, {name: unmasked_error(local[name], given[name]) for name in names}


def locate_conversion(
    call: FunctionCall,
    ours: Run,
    theirs: Run,
    pairs: Sequence[Pair],
    failing: Collection[str],
    is_half: bool,
    until: float,
) -> tuple[Site | None, dict[str, float]]:
    """Finds the first value that the model computes wrongly, on the way to outputs that differ.

    Args:
        call: The function and its inputs.
        ours: Its run.
        theirs: The run of the reference.
        pairs: The pairs of their values.
        failing: The names of the values of outputs that differ.
        is_half: Whether its weights are rounded.
        until: When experiments with the value end.

    Returns:
        The value, or None if no operation makes an error of its own; and the errors that operations make.
    """
    local, given, made = errors_made(call, ours, theirs, pairs)
    by_name = {pair.ours: pair for pair in pairs}

    def agrees(name: str) -> bool:
        pair = by_name.get(name)
        return pair is not None and not pair.axes and pair.how != "order" and pair.error <= limit

    for limit in (_MADE[is_half], _MADE[is_half] / 10):
        reached = {name for output in failing for name in ours.above(output, agrees)}
        wrong = [name for name in ours.values if name in reached and made.get(name, 0.0) > limit]
        if wrong:
            break
    if not wrong:
        return None, made
    value = wrong[0]
    above = [name for name in ours.above(value, lambda name: name in given) if name != value]
    site = Site(
        value=ours.values[value],
        pair=by_name[value],
        local=local[value],
        expected=given[value],
        made=made[value],
        inherited=max((by_name[n].error for n in above if n in by_name), default=0.0),
        between=tuple(name for name in ours.values if name in above and name not in given),
        bounds=tuple(by_name[name] for name in above if name in given),
        others=tuple(wrong[1:]),
        given=given,
        call=call,
        ours=ours,
        theirs=theirs,
        is_half=is_half,
        until=until,
    )
    return site, made


def locate_precision(
    exact: Run, rounded: Run, failing: Collection[str], made: Mapping[str, float] | None
) -> PrecisionSite | None:
    """Finds the first value that rounding moves far from the exact one, on the way to outputs that differ.

    Args:
        exact: The run with float32 results.
        rounded: The run with rounded results, or the results of a compute unit.
        failing: The names of the values of outputs that differ.
        made: The errors of rounding on exact arguments by value; None if they are unknown.

    Returns:
        The value; None if the outputs do not differ.
    """
    total = {
        name: unmasked_error(rounded.values[name].array, value.array)
        for name, value in exact.values.items()
        if name in rounded.values
    }
    worst = max((total[name] for name in failing if name in total), default=0.0)
    if worst == 0:
        return None
    level = min(_LARGE, worst / 4)
    reached = {n for output in failing for n in exact.above(output, lambda n: total.get(n, math.inf) < level)}
    bad = [name for name in exact.values if name in reached and total.get(name, 0.0) >= level]
    first = next((name for name in bad if _is_start(exact, total, name, level)), None)
    if first is None:
        return None
    inherited = _inherited(exact, total, first)
    own = None if made is None else made.get(first)
    is_made = (own or 0.0) >= max(level / 2, _AMPLIFIED * _ROUNDING)
    stands_out = is_made or total[first] >= _AMPLIFIED * max(inherited, _ROUNDING)
    if stands_out or exact.values[first].array.dtype.kind in "iub":
        return PrecisionSite(value=first, total=total[first], made=own, inherited=inherited)
    growth = {name: total[name] - _inherited(exact, total, name) for name in reached if name in total}
    name = max(growth, key=lambda name: (growth[name], name))
    return PrecisionSite(
        value=name,
        total=total[name],
        made=None if made is None else made.get(name),
        inherited=_inherited(exact, total, name),
        is_gradual=True,
    )


def _is_start(run: Run, total: Mapping[str, float], name: str, level: float) -> bool:
    return all(total.get(given, 0.0) < level for given in run.values[name].inputs)


def _inherited(run: Run, total: Mapping[str, float], name: str) -> float:
    return max((total.get(given, 0.0) for given in run.values[name].inputs), default=0.0)


def producers(run: Run, name: str, depth: int) -> Iterator[str]:
    """Iterates over the values that a value is computed from, the nearest first."""
    level, seen = [name], {name}
    for _ in range(depth):
        level = [
            given
            for n in level
            for given in run.values[n].inputs
            if given in run.values and given not in seen
        ]
        seen.update(level)
        yield from dict.fromkeys(level)
