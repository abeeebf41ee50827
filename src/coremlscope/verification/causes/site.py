"""What a cause is: it predicts a value at the first operation that differs, and is believed only if the
prediction holds for each element."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import msgspec.structs
import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.units import shown
from coremlscope.model.ir import Array, Op
from coremlscope.results.verification import Cause, FaultKind
from coremlscope.verification.distance import explains_all, unmasked_error
from coremlscope.verification.edits import set_constant, with_op
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.own_run import FunctionCall, near, run_from
from coremlscope.verification.pairing import Pair, plain_name

#: Weights are compared element by element up to this size.
_MOST_WEIGHTS = 1 << 24
#: The share of the largest element by which a prediction may be off, with rounded weights and without.
_EACH = {True: 1e-2, False: 1e-3}
#: Operations named in a line of code.
_MOST_NAMES = 12
#: A cause makes the error smaller by this factor.
_BETTER = 10


class Place(Protocol):
    """Where two runs differ first."""

    def tells(self, predicted: Array | None, observed: Array) -> bool:
        """Returns whether a prediction holds for each element of what is observed."""


#: What a row is about: a `Site`, or a `Rounded` value.
At = TypeVar("At", bound=Place)


class Hypothesis(msgspec.Struct, Generic[At], frozen=True, kw_only=True):
    """What a cause says about one operation: it has to hold on all inputs.

    Attributes:
        value: The name of a value of the operation at fault.
        text: The cause as a sentence, with the numbers.
        predict: Returns what a value is for the inputs of a place, if the cause is true (None if that cannot
            be computed), and what it is.
        cause: The cause, where it is a special case of that of the row.
        advice: What mends it, if the row does not say that.
        code: The line that does it where the model is converted.
        describe: Returns the cause and the rest of the sentence, where these take longer than the prediction.
        kind: Whether the conversion or the precision is at fault.
    """

    value: str
    text: str
    predict: Callable[[At], tuple[Array | None, Array]]
    cause: Cause | None = None
    advice: str = ""
    code: str = ""
    describe: Callable[[], tuple[Cause, str]] | None = None
    kind: FaultKind = "conversion"


class Row(msgspec.Struct, Generic[At], frozen=True, kw_only=True):
    """One cause of a wrong value.

    Attributes:
        cause: Its id.
        looks_like: What it looks like.
        propose: Yields what it may be at a place, the most likely first.
        fix: What to do.
        source: Where it is described.
    """

    cause: Cause
    looks_like: str
    propose: Callable[[At], Iterator[Hypothesis[At]]]
    fix: str
    source: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The simplest cause that explains each element of a value, or that none does.

    Attributes:
        cause: The cause.
        value: The name of a value of the operation at fault.
        text: The cause as a sentence.
        elements: The number of elements that it explains, on all inputs.
        advice: What mends it.
        code: The line that does it.
        kind: Whether the conversion or the precision is at fault.
    """

    cause: Cause
    value: str
    text: str
    elements: int = 0
    advice: str = ""
    code: str = ""
    kind: FaultKind = "conversion"


def _nowhere() -> Sequence[Any]:
    return ()


def judge(
    place: At, rows: Sequence[Row[At]], unknown: Verdict, others: Callable[[], Sequence[At]] = _nowhere
) -> Verdict:
    """Finds the first cause whose prediction holds for each element, on all inputs.

    Args:
        place: The place.
        rows: The causes, the simplest first.
        unknown: What is said if none does; the causes that formed a hypothesis are added.
        others: Returns the same place with other inputs, and at further steps.
    """
    refuted = dict[str, None]()
    for row in rows:
        for found in row.propose(place):
            predicted, observed = found.predict(place)
            if predicted is None:
                continue
            refuted[row.cause] = None
            if not place.tells(predicted, observed):
                continue
            further = [(one, found.predict(one)) for one in others()]
            if all(one.tells(*pair) for one, pair in further):
                several = (observed, *(pair[1] for _, pair in further))
                cause, more = (found.cause, "") if found.describe is None else found.describe()
                return Verdict(
                    cause=cause or row.cause,
                    value=found.value,
                    text=f"{found.text}{more}",
                    elements=sum(int(np.asarray(one).size) for one in several),
                    advice=found.advice or row.fix,
                    code=found.code,
                    kind=found.kind,
                )
    text = f"{unknown.text}; tried and refuted: {', '.join(refuted)}" if refuted else unknown.text
    return msgspec.structs.replace(unknown, text=text)


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The first value that the model computes wrongly from the reference's own values.

    Attributes:
        value: The value.
        pair: Its pair.
        local: What the model computes from the reference's values.
        expected: The value of the reference, in the model's layout.
        made: The relative error that is made.
        inherited: The largest relative error of the values that it is computed from.
        between: The names of values that were computed on the way and have no counterpart.
        bounds: The pairs of the values that these are computed from.
        given: The values of the reference, in the model's layout, by the names of the model.
        call: The function and its inputs.
        ours: The run of the model.
        theirs: The run of the reference.
        is_half: Whether weights are rounded.
        until: When experiments end, by `time.monotonic`.
        kept: What rows have made of it: see `once`.
    """

    value: Intermediate
    pair: Pair
    local: Array
    expected: Array
    made: float
    inherited: float
    between: tuple[str, ...]
    bounds: tuple[Pair, ...]
    given: Mapping[str, Array]
    call: FunctionCall
    ours: Run
    theirs: Run
    is_half: bool
    until: float = math.inf
    kept: dict[str, Any] = {}

    @property
    def region(self) -> list[Intermediate]:
        """The wrong value and those without a counterpart on the way to it, the nearest first."""
        return [self.value, *(self.ours.values[name] for name in reversed(self.between))]

    def reference_region(self) -> list[Intermediate]:
        """The values of the reference between the same bounds, that of the site first."""
        bounds = {pair.theirs for pair in self.bounds}
        names = self.theirs.above(self.pair.theirs, lambda name: name in bounds)
        return [self.theirs.values[n] for n in names if n not in bounds and n in self.theirs.values]

    def on_the_way(self) -> list[tuple[Intermediate, Array]]:
        """Returns the values of the model on the way to the wrong one, and it, the first one first, with what
        they are on the values of the reference."""
        found = ((value, self.compute(name=value.name)) for value in reversed(self.region[1:]))
        return [*((value, own) for value, own in found if own is not None), (self.value, self.local)]

    def once(self, key: str, make: Callable[[Site], Any]) -> Any:
        """Returns what a function makes of the site, and keeps it for the next one that asks."""
        if key not in self.kept:
            self.kept[key] = make(self)
        return self.kept[key]

    def op(self, value: Intermediate) -> Op | None:
        """Returns the operation that computes a value, unless it has blocks."""
        ops = (op for op in self.call.function.graph.ops if op.id == value.op)
        return next((op for op in ops if not op.blocks), None)

    def compute(
        self,
        *,
        changes: Mapping[tuple[str, str], Array] | None = None,
        given: Mapping[str, Array] | None = None,
        op: Op | None = None,
        name: str = "",
    ) -> Array | None:
        """Computes the value of the site, or another one, from the values of the reference.

        Args:
            changes: Other constants by operation and parameter; see `set_constant`.
            given: Other values by name.
            op: An operation in place of the one that computes the same value.
            name: The value; empty for that of the site.

        Returns:
            The value; None if it cannot be computed so, or the time is over.
        """
        if time.monotonic() > self.until:
            return None
        name = name or self.value.name
        if name in self.given and name != self.value.name:
            return self.given[name]
        try:
            bounds = {pair.ours: self.given[pair.ours] for pair in self.bounds}
            function = self.once("near", lambda _: near(self.call.function, self.value.name, bounds))
            function = set_constant(function, changes) if changes else function
            function = with_op(function, op) if op is not None else function
            fed = {
                key: np.asarray(array, self.ours.values[key].array.dtype)
                for key, array in {**bounds, **(given or {})}.items()
                if key != name
            }
            return run_from(self.call.with_function(function), fed, [name])[name]
        except (CoremlscopeError, ValueError, IndexError, TypeError, AssertionError):
            return None  # There is no such operation: a setting that it does not have, or another shape.

    def tells(self, predicted: Array | None, observed: Array) -> bool:
        """Returns whether a prediction holds for each element, and the error is smaller by far."""
        if predicted is None or not explains_all(predicted, observed, _EACH[self.is_half]):
            return False
        error = unmasked_error(predicted, observed)
        return not math.isfinite(self.made) or error <= self.made / _BETTER


def parameters_of(value: Intermediate, *, least: int = 2, kinds: str = "f") -> dict[str, Array]:
    """Returns the constants that an operation reads, by the name of its parameter."""
    return {
        parameter.name.split(" ")[0]: array
        for parameter in value.parameters
        if least <= parameter.size <= _MOST_WEIGHTS and (array := _read(parameter)).dtype.kind in kinds
    }


def listed(run: Run, ids: Collection[str]) -> str:
    """Returns the names of operations, the first ones if there are many."""
    names = [shown(plain_name(value.name)) for value in run.values.values() if value.op in ids]
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def in_float32(run: Run, ids: Collection[str]) -> tuple[str, str]:
    """Returns that operations are to be kept in float32, and the argument of `ct.convert` that does it; for
    all, if they are many."""
    names = [plain_name(value.name) for value in run.values.values() if value.op in ids]
    code = "compute_precision=ct.precision.FLOAT32"
    if len(names) <= _MOST_NAMES:
        chosen = f"lambda op: op.name not in {{{', '.join(map(repr, names))}}}"
        code = f"compute_precision=ct.transform.FP16ComputePrecision(op_selector={chosen})"
    return f"keep {listed(run, ids)} in float32", code


def _read(parameter: Parameter) -> Array:
    return np.asarray(parameter.read())
