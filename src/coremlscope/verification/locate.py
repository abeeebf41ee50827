"""Finds the first operation where two runs part, and tells the error that it makes from the one that it
inherits.

An operation makes an error if its results differ on the exact arguments of the other run. So each operation
is run again on these, all in one run: see `run_from`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import Array
from coremlscope.verification.causes.rounding import SMALLEST_FP16, Rounded
from coremlscope.verification.causes.site import Site, parameters_of
from coremlscope.verification.check import Check
from coremlscope.verification.distance import find_unmasked, relative_error, unmasked_error
from coremlscope.verification.intermediates import Run
from coremlscope.verification.own_run import FunctionCall, run_from
from coremlscope.verification.pairing import Pair

#: An operation makes an error above this relative size in a program with fp16 weights, and in one without:
#: several times that of rounding its weights, and of sums in another order.
_MADE = {True: 1e-2, False: 1e-3}
#: Where an output is off by more, this is a large error of an intermediate value.
_LARGE = 2e-2
#: Paired values differ though outputs agree: by far more than rounded weights, and 8-bit ones, make of them.
_APART = 0.05
#: Inputs that differ by more are in another form.
_FORM = 1e-2
#: The relative error of rounding to fp16.
_ROUNDING = 2.0**-11
#: An error of the arguments that grows by this factor, and more, is made by the operation that amplifies it.
_AMPLIFIED = 4.0


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """What each operation computes from the reference's own values, all by the names of the model.

    Attributes:
        local: What the model computes.
        given: The values of the reference, in the layout of the model's.
        made: The relative errors.
    """

    local: Mapping[str, Array]
    given: Mapping[str, Array]
    made: Mapping[str, float]


def errors_made(check: Check, pairs: Sequence[Pair]) -> Errors:
    """Computes the error that each operation makes on the reference's own values.

    Raises:
        EngineError: The engine failed.
    """
    ours, given = check.exact, dict[str, Array]()
    for pair in pairs:
        mine, other = ours.values[pair.ours].array, check.theirs.values[pair.theirs].array
        is_input = not ours.values[
            pair.ours
        ].op  # The model has its own where the reference takes another form.
        if other.size == mine.size and not (is_input and pair.error > _FORM):
            given[pair.ours] = pair.in_our_layout(other, mine.shape)
    names = [name for name in given if ours.values[name].op]
    fed = {name: array.astype(ours.values[name].array.dtype) for name, array in given.items()}
    local = run_from(check.call, fed, names)
    made = {name: unmasked_error(local[name], given[name]) for name in names}
    return Errors(local=local, given=given, made=made)


def locate_conversion(
    check: Check, pairs: Sequence[Pair], failing: Collection[str], until: float
) -> tuple[Iterator[Site], Mapping[str, float]]:
    """Finds the values that the model computes wrongly, on the way to outputs that differ.

    Args:
        check: The verification.
        pairs: The pairs of values of the model and the reference.
        failing: The names of the values of outputs that differ.
        until: When experiments with the values end.

    Returns:
        The values, in the order of the graph; none if no operation makes an error of its own. And the errors
        that operations make.
    """
    errors, is_half = errors_made(check, pairs), check.has_rounded_weights
    lost = {pair.ours for pair in pairs if errors.made.get(pair.ours) and _reads_epsilon(check.theirs, pair)}
    several = (_wrong(check.exact, pairs, failing, errors.made, _MADE[is_half] / less) for less in (1, 10))
    wrong = next(filter(None, several), [name for name in check.exact.values if name in lost])
    sites = (_site(check, pairs, errors, value, until) for value in wrong)
    return sites, errors.made


def _reads_epsilon(theirs: Run, pair: Pair) -> bool:
    """Returns whether an operation of the reference reads a number that fp16 has not: what the model has
    instead is no large error yet, but of a logarithm or a quotient behind it."""
    numbers = parameters_of(theirs.values[pair.theirs], least=1).values()
    return any(one.size == 1 and 0 < abs(float(one.reshape(-1)[0])) < SMALLEST_FP16 for one in numbers)


def _site(check: Check, pairs: Sequence[Pair], errors: Errors, value: str, until: float) -> Site:
    """Returns a value with an error of its own."""
    ours, given = check.exact, errors.given
    by_name = {pair.ours: pair for pair in pairs}
    above = [name for name in ours.above(value, given.__contains__) if name != value]
    return Site(
        value=ours.values[value],
        pair=by_name[value],
        local=errors.local[value],
        expected=given[value],
        made=errors.made[value],
        inherited=max((by_name[name].error for name in above if name in by_name), default=0.0),
        between=tuple(name for name in ours.values if name in above and name not in given),
        bounds=tuple(by_name[name] for name in above if name in given),
        given=given,
        call=check.call,
        ours=ours,
        theirs=check.theirs,
        is_half=check.has_rounded_weights,
        until=until,
    )


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs though the outputs agree.

    Attributes:
        site: The value.
        error: Its error on the reference's own values, beside what is masked.
        is_sure: Whether what reads it computes the reference's values from that of the reference: if not,
            another value of the model stands for it, such as that behind a folded normalization.
    """

    site: Site
    error: float
    is_sure: bool


def locate_stage(check: Check, until: float) -> Stage | None:
    """Finds the first operation that gets equal arguments and returns another result, though what follows
    hides it: a mean, a softmax, a function that saturates.

    Args:
        check: The verification, of which all outputs agree.
        until: When experiments with the value end.
    """
    apart = [pair for pair in check.pairs if pair.error > _APART and check.exact.values[pair.ours].op]
    if not apart:
        return None
    errors = errors_made(check, check.pairs)
    found: list[Stage] = []
    for name in (pair.ours for pair in apart if errors.made.get(pair.ours, 0.0) > _APART):
        site = _site(check, check.pairs, errors, name, until)
        error = _beside_masks(site.local, site.expected)
        readers = _paired_below(check.exact, name, errors.given)
        if error > _APART and site.inherited <= _APART and readers:
            is_sure = all(errors.made.get(reader, 0.0) <= _APART for reader in readers)
            found.append(Stage(site=site, error=error, is_sure=is_sure))
    return next((one for one in found if one.is_sure), next(iter(found), None))


def _beside_masks(ours: Array, theirs: Array) -> float:
    """Returns the relative error of the finite elements that no large number masks on either side."""
    if ours.dtype.kind != "f" or not ours.size:
        return relative_error(ours, theirs)
    keep = np.isfinite(ours) & np.isfinite(theirs)
    pair = [np.where(keep, one, 0.0) for one in (ours, theirs)]
    keep &= find_unmasked(pair[0]) & find_unmasked(pair[1])
    return relative_error(ours[keep], theirs[keep]) if keep.any() else 0.0


def _paired_below(run: Run, name: str, known: Collection[str]) -> set[str]:
    """Returns the nearest paired values that are computed from a value."""
    waiting, found, seen = [name], set[str](), set[str]()
    while waiting:
        for reader in run.readers.get(waiting.pop(), ()):
            if reader in known:
                found.add(reader)
            elif reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return found


def same_site(site: Site, call: FunctionCall, theirs: Run) -> Site:
    """Returns the same value for another call.

    Args:
        site: The value.
        call: The same function with other inputs, or states.
        theirs: The run of the reference for these.

    Raises:
        EngineError: The engine failed.
    """
    given = {
        pair.ours: pair.in_our_layout(
            theirs.values[pair.theirs].array, site.ours.values[pair.ours].array.shape
        )
        for pair in (*site.bounds, site.pair)
    }
    dtypes = {name: site.ours.values[name].array.dtype for name in given}
    bounds = {pair.ours: given[pair.ours].astype(dtypes[pair.ours]) for pair in site.bounds}
    name = site.value.name
    return replace(
        site,
        local=run_from(call, bounds, [name])[name],
        expected=given[name],
        made=math.inf,
        given=given,
        call=call,
        theirs=theirs,
        kept={},
    )


def _wrong(
    run: Run, pairs: Sequence[Pair], failing: Collection[str], made: Mapping[str, float], limit: float
) -> list[str]:
    """Returns the values with errors of their own above a limit, in order, up to those that are equal."""
    equal = {pair.ours for pair in pairs if not pair.axes and pair.error <= limit}
    reached = {name for output in failing for name in run.above(output, equal.__contains__)}
    return [name for name in run.values if name in reached and made.get(name, 0.0) > limit]


def locate_precision(
    call: FunctionCall, exact: Run, rounded: Run, failing: Collection[str], made: Mapping[str, float]
) -> Rounded | None:
    """Finds the first value that rounding moves far from the exact one, on the way to outputs that differ.

    Args:
        call: The function and its inputs.
        exact: The run with float32 results.
        rounded: The run with rounded results, or the results of a compute unit.
        failing: The names of the values of outputs that differ.
        made: The errors of rounding on exact arguments by value, as far as they are known.

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
    inherited = {
        name: max((total.get(given, 0.0) for given in exact.values[name].inputs), default=0.0)
        for name in total
    }
    reached = {n for output in failing for n in exact.above(output, lambda n: total.get(n, math.inf) < level)}
    bad = (name for name in total if name in reached and total[name] >= level)
    first = next((name for name in bad if inherited[name] < level), None)
    if first is None:
        return None
    is_made = made.get(first, 0.0) >= max(level / 2, _AMPLIFIED * _ROUNDING)
    stands_out = is_made or total[first] >= _AMPLIFIED * max(inherited[first], _ROUNDING)
    is_gradual = not stands_out and exact.values[first].array.dtype.kind not in "iub"
    if is_gradual:
        first = max(reached & set(total), key=lambda name: (total[name] - inherited[name], name))
    return Rounded(
        name=first,
        total=total[first],
        made=made.get(first),
        inherited=inherited[first],
        is_gradual=is_gradual,
        call=call,
        exact=exact,
        rounded=rounded,
    )
