"""Why an operation computes something else than the reference from the same values, in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from coremlscope.errors import CoremlscopeError
from coremlscope.ir import Array, Op, Value
from coremlscope.results.verification import Cause
from coremlscope.units import shown
from coremlscope.verification.distance import (
    SAME,
    Relation,
    find_layout,
    find_relation,
    relative_error,
    unmasked_error,
)
from coremlscope.verification.edits import set_constant
from coremlscope.verification.element_functions import ElementFunction, find_functions
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.locate import ConversionSite, producers
from coremlscope.verification.other_forms import OtherForm, other_arguments, other_forms, with_form
from coremlscope.verification.own_run import Subject, constants_of, run_from
from coremlscope.verification.pairing import Pair, general_type, plain_name

__all__ = ["SMALLEST_FP16", "Case", "Diagnosis", "diagnose_conversion", "find_epsilon"]

#: The smallest positive fp16 number, which is subnormal (IEEE 754 binary16: 2⁻²⁴).
SMALLEST_FP16 = 2.0**-24
#: Operations that are undefined, or infinite, at zero.
UNDEFINED_AT_ZERO = frozenset({"inverse", "log", "pow", "real_div", "rsqrt"})
#: Operations that divide by a norm or a deviation, to which `epsilon` is added.
_NORMALISING = frozenset({"batch_norm", "instance_norm", "l2_norm", "layer_norm", "local_response_norm"})
#: Operations that return the places of elements.
CHOOSING = frozenset({"argsort", "reduce_argmax", "reduce_argmin", "topk", "non_maximum_suppression"})
#: How far above an operation an epsilon, or a loss, may lie.
FAR = 4
#: Weights are compared element by element up to this size.
_MOST_WEIGHTS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The cause of a difference.

    Attributes:
        cause: The cause.
        value: The name of a value of the operation at fault.
        text: The cause as a sentence.
        relation: How the wrong value results from the right one, where that is known.
        target: The name of the value that the relation is about, where it is an argument.
        parameter: The name of the constant at fault.
        right: What the constant should be, in the shape and order of the model's.
        changes: What constants should be, by value of the operation and parameter, where the reference tells.
        also: Further arguments that a relation is about, and the relations.
        form: The operation in the form in which its result is right.
        missing: The function that is missing.
    """

    cause: Cause
    value: str
    text: str
    relation: Relation | None = None
    target: str = ""
    parameter: str = ""
    right: Array | None = None
    changes: Mapping[tuple[str, str], Array] = field(default_factory=dict)
    also: tuple[tuple[str, Relation], ...] = ()
    form: OtherForm | None = None
    missing: ElementFunction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known of a difference, and experiments on it.

    Attributes:
        subject: The program and its inputs.
        site: The place.
        ours: The run of the model.
        theirs: The run of the reference.
        pairs: The pairs of both.
        ops: The operations of the program by id.
    """

    subject: Subject
    site: ConversionSite
    ours: Run
    theirs: Run
    pairs: Sequence[Pair]
    ops: dict[str, Op]

    @property
    def value(self) -> Intermediate:
        """The first wrong value."""
        return self.ours.values[self.site.value]

    @property
    def region(self) -> list[Intermediate]:
        """The wrong value and those without a counterpart on the way to it, the nearest first."""
        return [self.value, *(self.ours.values[name] for name in reversed(self.site.between))]

    def reference_region(self) -> list[Intermediate]:
        """The values of the reference between the same bounds."""
        bounds = {pair.theirs for pair in self.site.bounds}
        names = self.theirs.above(self.site.pair.theirs, lambda name: name in bounds)
        return [self.theirs.values[n] for n in names if n not in bounds and n in self.theirs.values]

    @property
    def is_rewritten(self) -> bool:
        """Whether the value was paired by the flow of data only, between operations of other types."""
        types = [
            sorted(general_type(v.type) for v in values) for values in (self.region, self.reference_region())
        ]
        return self.site.pair.how in ("flow", "name") and types[0] != types[1]

    def explains(
        self,
        *,
        changes: Mapping[tuple[str, str], Array] | None = None,
        given: Mapping[str, Array] | None = None,
        form: Op | None = None,
        most: float = math.inf,
    ) -> bool:
        """Returns whether the wrong value becomes right with other constants, or from other arguments.

        Args:
            changes: Constants by operation and parameter; see `set_constant`.
            given: Values by name, instead of those of the reference.
            form: An operation in another form.
            most: The largest error that remains, where many experiments are made.
        """
        function = set_constant(self.subject.function, changes) if changes else self.subject.function
        function = with_form(function, form) if form is not None else function
        bounds = {pair.ours: self.site.given[pair.ours] for pair in self.site.bounds}
        fed = {
            name: np.asarray(array, self.ours.values[name].array.dtype)
            for name, array in {**bounds, **(given or {})}.items()
        }
        subject = replace(self.subject, function=function)
        local = run_from(subject, fed, [self.site.value])[self.site.value]
        limit = self.site.made if math.isfinite(self.site.made) else 1.0
        return unmasked_error(local, self.site.expected) <= min(most, limit / _EXPLAINED)


_Floats = npt.NDArray[np.float64]
#: A change explains an error that it makes smaller by this factor.
_EXPLAINED = 10


def diagnose_conversion(case: Case) -> Diagnosis:
    """Finds the cause of a difference: the first check that explains it."""
    for check in _CHECKS:
        found = check(case)
        if found is not None:
            return found
    value, site = case.value, case.site
    what = "infinite or NaN" if not math.isfinite(site.made) else f"off by {site.made:.2g}"
    text = f"on the reference's own values its result is {what}, relative to {shown(site.pair.theirs)}"
    return Diagnosis(cause="unknown", value=value.name, text=text)


def describe_axes(axes: tuple[int, ...]) -> str:
    """Returns an order of axes as text: `(0, 2, 1, 3)`."""
    return f"({', '.join(map(str, axes))})"


def _check_tie(case: Case) -> Diagnosis | None:
    """Places of elements differ because the elements are equal."""
    value = case.value
    if value.type not in CHOOSING or value.array.dtype.kind not in "iu":
        return None
    scores = case.ours.values.get(value.inputs[0]) if value.inputs else None
    if scores is None:
        return None
    return describe_tie(value, scores, case.site.local, case.site.expected, scores.array)


def describe_tie(
    value: Intermediate, scores: Intermediate, ours: Array, theirs: Array, seen: Array
) -> Diagnosis | None:
    """Returns a diagnosis if the elements at both places are equal, in the model's scores."""
    rows = _rows(scores.array.shape, ours)
    if rows is None:
        return None
    table = np.moveaxis(seen, rows, -1).reshape(-1, seen.shape[rows])
    mine, other = ours.reshape(len(table), -1)[:, 0], theirs.reshape(len(table), -1)[:, 0]
    differ = np.flatnonzero(mine != other)
    if not differ.size or max(mine.max(), other.max()) >= table.shape[1] or min(mine.min(), other.min()) < 0:
        return None
    first, second = table[differ, mine[differ]], table[differ, other[differ]]
    if np.abs(first - second).max() > 1e-6 * max(1e-30, float(np.abs(table).max())):
        return None
    row = int(differ[0])
    text = (
        f"in {differ.size} of {len(table)} rows the elements at both places are equal: at"
        f" {int(mine[row])} and at"
        f" {int(other[row])} it is {float(first[0]):.6g}, so either place is right"
    )
    return Diagnosis(cause="tie", value=value.name, text=text)


def _rows(shape: tuple[int, ...], places: Array) -> int | None:
    """Returns the axis of scores along which places were chosen."""
    for axis in reversed(range(len(shape))):
        rest = math.prod(shape) // max(1, shape[axis])
        if rest and places.size % rest == 0 and places.size // rest <= shape[axis]:
            kept = tuple(size for place, size in enumerate(shape) if place != axis)
            if (
                tuple(s for s in places.shape if s != 1)[: len(kept)]
                == tuple(s for s in kept if s != 1)[: len(kept)]
            ):
                return axis
    return None


def _check_epsilon(case: Case) -> Diagnosis | None:
    """A number that keeps a division or a logarithm from zero is zero in fp16."""
    if math.isfinite(case.site.made):
        return None
    for value in (v for v in case.region if v.type in UNDEFINED_AT_ZERO | _NORMALISING):
        found = find_epsilon(case.ours, value, case.theirs, case.site.pair.theirs)
        if found is not None:
            return found
    return None


def find_epsilon(ours: Run, value: Intermediate, theirs: Run | None, other: str) -> Diagnosis | None:
    """Finds the constant that should keep an operation from zero, and is too small for fp16.

    Args:
        ours: The run of the model.
        value: The value that is infinite, or far off.
        theirs: The run of the reference; None if it has no intermediate values.
        other: The value of the reference that it should equal.
    """
    near = [value, *(ours.values[name] for name in producers(ours, value.name, FAR))]
    for types, names in ((_ADDING, ("x", "y")), (_EPSILONS, ("epsilon",))):
        for candidate in (v for v in near if v.type in types):
            for parameter in candidate.parameters:
                name = parameter.name.split(" ")[0]
                number = (
                    float(np.asarray(parameter.read()).reshape(-1)[0]) if parameter.size == 1 else math.inf
                )
                if name in names and 0 <= number < SMALLEST_FP16:
                    return _too_small(candidate, name, number, theirs, other)
    return None


#: Operations by which converters write an epsilon out.
_ADDING = frozenset({"add", "maximum"})
_EPSILONS = _NORMALISING | {"inverse", "log", "rsqrt"}


def _too_small(value: Intermediate, name: str, number: float, theirs: Run | None, other: str) -> Diagnosis:
    right = None
    if theirs is not None and other in theirs.values:
        above = [theirs.values[other], *(theirs.values[n] for n in producers(theirs, other, FAR))]
        numbers = [float(p.read().reshape(-1)[0]) for v in above for p in v.parameters if p.size == 1]
        right = next((n for n in numbers if 0 < n < 1e-3), None)
    was = "" if right is None else f", and {right:.3g} in the reference"
    what = "`epsilon`" if name == "epsilon" else "the number that keeps it from zero"
    text = f"{what} is {number:.3g}{was}: fp16 has no number between 0 and {SMALLEST_FP16:.2g}"
    array = None if right is None else np.array(right, np.float32)
    return Diagnosis(cause="epsilon", value=value.name, text=text, parameter=name, right=array)


def _check_weights(case: Case) -> Diagnosis | None:
    """With the weights of the reference the result is right."""
    own = [p for value in case.reference_region() for p in value.parameters if 1 < p.size <= _MOST_WEIGHTS]
    for value in case.region:
        mine = [p for p in value.parameters if 1 < p.size <= _MOST_WEIGHTS and p.read().dtype.kind == "f"]
        arrays = {p.name.split(" ")[0]: p.read() for p in mine}
        for changes in _hypotheses(arrays, own):
            keyed = {(value.op, name): array for name, array in changes.items()}
            if case.explains(changes=keyed):
                return _wrong_weight(case, value, arrays, changes)
    return None


def _check_folded_values(case: Case) -> Diagnosis | None:
    """A constant is not what the reference computes there without its inputs, for instance from positions."""
    others = [value for value in case.reference_region() if _is_constant(case.theirs, value)]
    for value in case.region:
        for mine in value.parameters:
            wrong = mine.read() if 1 < mine.size <= _MOST_WEIGHTS else np.zeros(0)
            for other in others if wrong.dtype.kind == "f" else ():
                if other.array.size != mine.size or np.array_equal(other.array.ravel(), wrong.ravel()):
                    continue
                name, right = mine.name.split(" ")[0], other.array.reshape(wrong.shape)
                if case.explains(changes={(value.op, name): right}):
                    text = (
                        f"with {shown(other.name)} of the reference, which depends on no input, as its"
                        f" {shown(name)} the result is right"
                    )
                    return Diagnosis(
                        cause="constant", value=value.name, text=text, changes={(value.name, name): right}
                    )
    return None


def _is_constant(run: Run, value: Intermediate) -> bool:
    """Returns whether an operation computes a value from no input."""
    above = [run.values[name] for name in run.above(value.name, lambda _: False) if name in run.values]
    return bool(value.op) and all(one.op for one in above)


def _check_folded_norm(case: Case) -> Diagnosis | None:
    """With the reference's weights, and the normalization behind them folded in, the result is right."""
    found = _norm_behind(case)
    if found is None or case.value.type not in _WEIGHTED:
        return None
    plain, norm = found
    mine = {p.name.split(" ")[0]: p for p in case.value.parameters}
    weight = next((p.read() for p in plain.parameters if p.name.endswith("weight")), None)
    if weight is None or not {"weight", "bias"} <= set(mine) or mine["weight"].size != weight.size:
        return None
    scale, shift = _fit_channels(plain.array, norm.array)
    if len(scale) != len(weight) or mine["bias"].size != len(scale):
        return None
    bias = next((p.read() for p in plain.parameters if p.name.endswith("bias")), np.zeros(len(scale)))
    planes = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    right: dict[str, Array] = {
        "weight": weight.astype(np.float64) * planes,
        "bias": bias.astype(np.float64) * scale + shift,
    }
    shape = case.site.local.shape
    expected = norm.array.reshape(shape)
    site = replace(case.site, expected=expected, made=relative_error(case.site.local, expected))
    folded = replace(case, site=site)
    keyed = {(case.value.op, name): array for name, array in right.items()}
    if not folded.explains(changes=keyed):
        return None
    wrong = {name: mine[name].read() for name in right}
    changed = {
        name: array for name, array in right.items() if relative_error(wrong[name], array) > _FOLDED_SAME
    }
    return _wrong_weight(folded, case.value, wrong, changed or right)


def _norm_behind(case: Case) -> tuple[Intermediate, Intermediate] | None:
    """Returns a value of the reference and the normalization that alone reads it, if the model has none."""
    theirs = case.theirs.values[case.site.pair.theirs]
    if general_type(theirs.type) == "batch_norm" and theirs.inputs:
        theirs = case.theirs.values[theirs.inputs[0]]
    readers = case.theirs.readers.get(theirs.name, ())
    norm = case.theirs.values[readers[0]] if len(readers) == 1 else None
    if norm is None or general_type(norm.type) != "batch_norm" or norm.array.size != case.value.array.size:
        return None
    ours = [case.ours.values[name].type for name in case.ours.readers.get(case.site.value, ())]
    return None if "batch_norm" in ours else (theirs, norm)


def _fit_channels(given: Array, result: Array) -> tuple[_Floats, _Floats]:
    """Returns the scale and the shift of each channel that make a result of a value."""
    x, y = (np.moveaxis(one.astype(np.float64), 1, 0).reshape(one.shape[1], -1) for one in (given, result))
    centred = x - x.mean(1, keepdims=True)
    spread = np.square(centred).sum(1)
    scale = (centred * (y - y.mean(1, keepdims=True))).sum(1) / np.where(spread == 0, 1, spread)
    return scale, y.mean(1) - scale * x.mean(1)


#: Layers into which a normalization is folded, and how far their weights in fp16 are off.
_WEIGHTED = frozenset({"conv", "conv_transpose", "linear"})
_FOLDED_SAME = 5e-3


def _check_folded_weights(case: Case) -> Diagnosis | None:
    """A weight into which a normalisation was folded has the directions of another one of the reference."""
    own = [p for value in case.reference_region() for p in _large(value)]
    for value in case.region:
        for parameter in _large(value):
            array = parameter.read()
            if array.ndim < 2 or array.dtype.kind != "f" or any(_is_folded(array, p) for p in own):
                continue
            owner = next(
                (
                    (other, theirs)
                    for other in case.theirs.values.values()
                    for theirs in _large(other)
                    if _is_folded(array, theirs)
                ),
                None,
            )
            if owner is not None:
                return _swapped_folded(case, value, parameter, own, owner)
    return None


def _is_folded(array: Array, parameter: Parameter) -> bool:
    """Returns whether a weight is another one with each channel multiplied by a number."""
    if parameter.size != array.size:
        return False
    other = parameter.read()
    if other.shape != array.shape:
        return False
    directions = []
    for weight in (array, other):
        rows = weight.astype(np.float64).reshape(len(weight), -1)
        sizes = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(sizes == 0, 1, sizes)
        directions.append(rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])[:, None])
    return relative_error(*directions) <= SAME


def _swapped_folded(
    case: Case,
    value: Intermediate,
    parameter: Parameter,
    own: list[Parameter],
    owner: tuple[Intermediate, Parameter],
) -> Diagnosis:
    """Returns the diagnosis of two operations that read each other's weights, and the exchange as its fix."""
    name = parameter.name.split(" ")[0]
    text = (
        f"its {shown(name)} has the directions of {shown(owner[1].name)}, which"
        f" {shown(owner[0].name)} of the reference reads"
    )
    changes: dict[tuple[str, str], Array] = {}
    for other in case.ours.values.values():
        for mine in _large(other) if other.name != value.name else ():
            if any(_is_folded(mine.read(), p) for p in own if p.size == mine.size):
                key = mine.name.split(" ")[0]
                changes = {(value.name, name): mine.read(), (other.name, key): parameter.read()}
    return Diagnosis(cause="swapped weights", value=value.name, text=text, changes=changes)


def _hypotheses(mine: dict[str, Array], own: list[Parameter]) -> Iterator[dict[str, Array]]:
    """Yields what weights could be instead: those of the reference, by their roles, then each by itself."""
    roles = {p.name.split(" ")[0]: p for p in own}
    same = {
        name: roles[name].read() for name in mine if name in roles and roles[name].size == mine[name].size
    }
    different = {
        n: a.reshape(mine[n].shape) for n, a in same.items() if not np.array_equal(a.ravel(), mine[n].ravel())
    }
    if different:
        yield different
    for name, array in mine.items():
        for parameter in own:
            if parameter.size == array.size:
                yield from ({name: fitting} for fitting in _orders(parameter.read(), array))


def _orders(right: Array, wrong: Array) -> Iterator[Array]:
    """Yields a weight in the orders of axes that have the shape of another one, unless both are equal."""
    orders = [tuple(range(right.ndim)), (1, 0, *range(2, right.ndim))] if right.ndim > 1 else [(0,)]
    seen = []
    for order in orders:
        moved = np.transpose(right, order)
        shapes = [tuple(d for d in a.shape if d > 1) for a in (moved, wrong)]
        if shapes[0] == shapes[1]:
            fitting = moved.reshape(wrong.shape)
            if relative_error(wrong, fitting) > SAME:
                seen.append(fitting)
    yield from seen


def _wrong_weight(
    case: Case, value: Intermediate, mine: dict[str, Array], changes: dict[str, Array]
) -> Diagnosis:
    name = next(iter(changes))
    wrong, right = mine[name], changes[name]
    keyed = {(value.name, key): array for key, array in changes.items()}
    other = _owner(case, wrong, right)
    if other is not None:
        text = f"its {shown(name)} is {shown(other)}: another weight of the reference belongs here"
        return Diagnosis(cause="swapped weights", text=text, value=value.name, changes=keyed)
    relation = find_relation(wrong, right)
    if relation is None:
        text = (
            f"its {shown(name)} is not that of the reference: it is off by {relative_error(wrong, right):.2g}"
        )
        return Diagnosis(cause="weights", text=text, value=value.name, changes=keyed)
    text = f"its {shown(name)} is {_describe(relation, 'that of the reference')}"
    cause: Cause = "layout" if relation.kind in ("permuted", "reordered") else "weights"
    return Diagnosis(cause=cause, text=text, relation=relation, value=value.name, changes=keyed)


def _owner(case: Case, wrong: Array, right: Array) -> str | None:
    """Returns the name of the weight of the reference that equals a wrong one, and not the right one."""
    if find_layout(wrong, right, SAME) is not None:
        return None
    for value in case.theirs.values.values():
        for parameter in value.parameters:
            if parameter.size == wrong.size and find_layout(wrong, parameter.read(), SAME) is not None:
                return f"{parameter.name.rpartition(' ')[2]}, which {value.name} of the reference reads"
    return None


def _describe(relation: Relation, what: str) -> str:
    match relation.kind:
        case "permuted":
            return (
                f"{what} with its axes in another order: transposed by"
                f" {describe_axes(relation.axes)} it equals it"
            )
        case "reordered":
            return f"{what} with its elements in another order"
        case "scaled":
            return f"{what} times {relation.number:.5g}"
        case "shifted":
            return f"{what} plus {relation.number:.5g}"
        case "truncated":
            return f"{what} without its fractions"
        case "negated":
            return f"{what} with the other sign"


_CAUSES: dict[str, Cause] = {
    "permuted": "layout",
    "reordered": "layout",
    "scaled": "scale",
    "shifted": "offset",
    "truncated": "cast",
    "negated": "sign",
}


def _check_cast(case: Case) -> Diagnosis | None:
    """A cast to integers loses fractions that the reference keeps."""
    for value in [*case.region, *_bounds(case)]:
        if value.type != "cast" or value.array.dtype.kind not in "iu" or not value.inputs:
            continue
        before = case.ours.values[value.inputs[0]].array
        if before.dtype.kind == "f" and not np.array_equal(np.trunc(before), before):
            text = "it casts to integers, and fractions are lost that the reference keeps"
            return Diagnosis(cause="cast", value=value.name, text=text, target=value.inputs[0])
    return None


def _bounds(case: Case) -> Iterator[Intermediate]:
    for pair in case.site.bounds:
        yield case.ours.values[pair.ours]


def _origin_of_order(case: Case, name: str) -> str:
    """Returns the transposition above a value whose axes are in another order; the value itself without
    one."""
    straight = {pair.ours for pair in case.pairs if not pair.axes}
    for above in case.ours.above(name, lambda n: n in straight):
        if above not in straight and case.ours.values[above].type == "transpose":
            return above
    return name


def _check_layout_of_arguments(case: Case) -> Diagnosis | None:
    """An argument is a transposition of that of the reference, and in the order of the reference all is
    right."""
    for pair in case.site.bounds:
        value = case.ours.values[pair.ours]
        other = case.theirs.values[pair.theirs].array
        if not pair.axes or other.size != value.array.size:
            continue
        straight = other.reshape(value.array.shape)
        if not case.explains(given={pair.ours: straight}):
            continue
        text = (
            f"its result is {shown(pair.theirs)} of the reference with its axes in another order:"
            f" transposed by {describe_axes(pair.axes)} it equals it"
        )
        return Diagnosis(
            cause="layout",
            value=_origin_of_order(case, value.name),
            text=text,
            relation=Relation(kind="permuted", axes=pair.axes),
            target=value.name,
        )
    return None


def _check_missing(case: Case) -> Diagnosis | None:
    """The reference applies a function to an argument first, which the model lacks."""
    by_reference = {pair.theirs: pair for pair in case.site.bounds}
    for other in case.reference_region():
        # The value itself is another result of its operation.
        applied = () if other.name == case.site.pair.theirs else _applied(case, by_reference, other)
        for pair, function in applied:
            shape = case.ours.values[pair.ours].array.shape
            if not case.explains(given={pair.ours: pair.in_our_layout(other.array, shape)}):
                continue
            text = (
                f"the reference computes {shown(function.type)} of {shown(pair.ours)} first: with"
                f" {shown(other.name)} instead, the result is right"
            )
            return Diagnosis(
                cause="missing operation",
                value=case.value.name,
                text=text,
                target=pair.ours,
                missing=function,
            )
    return None


def _applied(
    case: Case, bounds: Mapping[str, Pair], other: Intermediate
) -> Iterator[tuple[Pair, ElementFunction]]:
    """Yields the arguments of which a value of the reference is a function, and these functions."""
    for pair in bounds.values():
        given = case.theirs.values[pair.theirs].array
        if pair.ours in case.value.inputs and given.size == other.array.size and given.dtype.kind == "f":
            yield from ((pair, function) for function in find_functions(given, other.array))


def _check_result(case: Case) -> Diagnosis | None:
    """The wrong result is the right one, transposed, scaled, shifted, truncated."""
    relation = find_relation(case.site.local, case.site.expected)
    if relation is None:
        return None
    if relation.kind == "reordered":
        found = _check_other_forms(case)
        if found is not None:
            return replace(found, cause="layout")
    value = _place(case, relation)
    text = f"its result is {_describe(relation, f'{shown(case.site.pair.theirs)} of the reference')}"
    return Diagnosis(
        cause=_CAUSES[relation.kind], value=value, text=text, relation=relation, target=case.site.value
    )


def _place(case: Case, relation: Relation) -> str:
    """Returns the value of the region whose operation moves elements, for a wrong order of elements."""
    if relation.kind in ("permuted", "reordered"):
        movers = [v for v in case.region if v.type in ("transpose", "reshape", "concat", "pixel_shuffle")]
        if movers:
            return movers[-1].name if case.value.type not in ("transpose", "reshape") else case.value.name
    return case.site.value


def _check_arguments(case: Case) -> Diagnosis | None:
    """Arguments are those of the reference, scaled or transposed: an operation before them is missing."""
    found = dict(_related_arguments(case))
    straight = {
        name: other.array.reshape(case.ours.values[name].array.shape) for name, (_, other) in found.items()
    }
    for names in ([name] for name in found):
        if case.explains(given={name: straight[name] for name in names}):
            return _missing(case, {name: found[name] for name in names})
    if len(found) > 1 and case.explains(given=straight):
        return _missing(case, found)
    return None


def _related_arguments(case: Case) -> Iterator[tuple[str, tuple[Relation, Intermediate]]]:
    """Yields arguments that result in a simple way from what the operation of the reference reads."""
    used = {pair.theirs for pair in case.site.bounds}
    above = {pair.ours: pair.theirs for pair in case.site.bounds}
    for ours, theirs in above.items():
        array = case.site.given[ours]
        for other in case.reference_region():
            is_behind = theirs in case.theirs.above(other.name, lambda name: name in used)
            if other.name == case.site.pair.theirs or _shape(other.array) != _shape(array) or not is_behind:
                continue
            relation = find_relation(array, other.array)
            if relation is not None:
                yield ours, (relation, other)
                break


def _shape(array: Array) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size > 1)


def _missing(case: Case, found: Mapping[str, tuple[Relation, Intermediate]]) -> Diagnosis:
    (target, (relation, other)), *rest = found.items()
    text = (
        f"its argument {shown(target)} is {_describe(relation, f'{shown(other.name)} of the reference')}:"
        f" {shown(other.type or 'an operation')} before it is missing"
    )
    return Diagnosis(
        cause=_CAUSES[relation.kind],
        value=case.site.value,
        text=text,
        relation=relation,
        target=target,
        also=tuple((name, relation) for name, (relation, _) in rest),
    )


def _check_crossing(case: Case) -> Diagnosis | None:
    """Values equal those of the reference crosswise: their operations read each other's weights."""
    pairs = {pair.ours: pair for pair in case.pairs}
    changes: dict[tuple[str, str], Array] = {}
    found: list[tuple[str, str]] = []
    for name in producers(case.ours, case.site.value, 2 * FAR):
        if name not in pairs:
            continue
        theirs = _large(case.theirs.values[pairs[name].theirs])
        for mine in _large(case.ours.values[name]):
            # Files do not keep the order of parameters.
            wanted, wrong = _named_like(case.theirs, mine), mine.read()
            other = next((parameter for parameter in theirs if _is_same(wrong, parameter)), None)
            if other is None:
                continue
            if wanted is None or wanted.name == other.name or wanted.size != mine.size:
                continue
            parameter, right = mine.name.split(" ")[0], _fit(np.asarray(wanted.read()), wrong, other)
            if not _is_same(wrong, other) or relative_error(right, wrong) <= SAME:
                continue
            changes[name, parameter] = right
            text = (
                f"its {shown(parameter)} is {shown(other.name)} of the reference; by its name it"
                f" is {shown(wanted.name)}"
            )
            found.append((name, text))
    if not found:
        return None
    order = list(case.ours.values)
    name, text = min(found, key=lambda item: order.index(item[0]))
    return Diagnosis(cause="swapped weights", value=name, text=text, changes=changes)


def _large(value: Intermediate) -> list[Parameter]:
    return [p for p in value.parameters if 1 < p.size <= _MOST_WEIGHTS]


def _is_same(array: Array, parameter: Parameter) -> bool:
    return parameter.size == array.size and find_layout(array, parameter.read(), SAME) is not None


def _fit(right: Array, wrong: Array, other: Parameter) -> Array:
    """Returns a weight in the layout that another one of the reference has in the model."""
    axes = find_layout(other.read(), wrong, SAME) or ()
    return (np.transpose(right, axes) if axes else right).reshape(wrong.shape)


def _named_like(run: Run, parameter: Parameter) -> Parameter | None:
    """Returns the weight of a run whose name is that of a weight."""
    name = plain_name(parameter.name.rpartition(" ")[2])
    for value in run.values.values():
        for other in value.parameters:
            if other.size > 1 and plain_name(other.name.rpartition(" ")[2]) == name:
                return other
    return None


def _check_numbers(case: Case) -> Diagnosis | None:
    """With a single number of the reference, or without an epsilon, the result is right."""
    theirs = [p.read() for value in case.reference_region() for p in value.parameters if p.size == 1]
    numbers = {float(array.reshape(-1)[0]) for array in theirs if array.dtype.kind == "f"}
    for value in case.region:
        for name, mine in _scalars(value):
            is_added = name == "epsilon" or value.type in _ADDING
            for number in sorted(numbers - {mine}, key=lambda n: abs(n - mine)) + [0.0] * is_added:
                right = np.array(number, np.float32)
                if number == mine or not case.explains(changes={(value.op, name): right}):
                    continue
                if number == 0:
                    text = (
                        f"its {shown(name)} of {mine:.6g} is too large for its argument: without"
                        " it the result is right"
                    )
                    changes = {(value.name, name): right}
                    return Diagnosis(cause="epsilon", value=value.name, text=text, changes=changes)
                text = f"its {shown(name)} is {mine:.6g}, and {number:.6g} in the reference"
                return Diagnosis(
                    cause="constant", value=value.name, text=text, changes={(value.name, name): right}
                )
    return None


def _scalars(value: Intermediate) -> Iterator[tuple[str, float]]:
    """Yields the single numbers that an operation reads, by parameter."""
    for parameter in value.parameters:
        array = np.asarray(parameter.read())
        if array.size == 1 and array.dtype.kind == "f":
            yield parameter.name.split(" ")[0], float(array.reshape(-1)[0])


def _check_infinite_constant(case: Case) -> Diagnosis | None:
    """A constant is infinite: it was beyond the largest fp16 number.

    A bound of `clip` may be, and what is infinite in the reference is meant so.
    """
    above = [*case.reference_region(), *_values(case.theirs, case.site.pair.theirs)]
    if any(_has_infinities(other.read()) for one in above for other in one.parameters if _is_small(other)):
        return None
    for value in [*case.region, *(case.ours.values[n] for n in producers(case.ours, case.site.value, FAR))]:
        for parameter in value.parameters if value.type != "clip" else ():
            array = np.asarray(parameter.read()) if _is_small(parameter) else np.zeros(1)
            if not _has_infinities(array):
                continue
            name = parameter.name.split(" ")[0]
            text = f"its {shown(name)} is infinite: what it was is beyond the largest fp16 number, 65504"
            right = np.where(np.isinf(array), np.sign(array) * _FINITE, array).astype(np.float32)
            return Diagnosis(
                cause="overflow", value=value.name, text=text, changes={(value.name, name): right}
            )
    return None


def _values(run: Run, name: str) -> Iterator[Intermediate]:
    """Yields the values near another one that it is computed from."""
    if name in run.values:
        yield from (run.values[one] for one in producers(run, name, FAR))


def _is_small(parameter: Parameter) -> bool:
    return parameter.size <= _MOST_WEIGHTS


def _has_infinities(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.isinf(array).any())


#: Replaces infinities of masks: sums with it stay below the largest fp16 number.
_FINITE = 3e4


def _check_extra(case: Case) -> Diagnosis | None:
    """An operation before the wrong value scales, shifts or transposes, and without it the result is
    right."""
    for value in case.region[1:]:
        for pair in case.site.bounds:
            array = case.site.given[pair.ours]
            relation = find_relation(value.array, array) if _shape(value.array) == _shape(array) else None
            if relation is None:
                continue
            straight = array.reshape(value.array.shape)
            if not case.explains(given={value.name: straight}):
                continue
            text = (
                f"its result is {_describe(relation, shown(pair.theirs))} of the reference:"
                " the reference has no such operation"
            )
            return Diagnosis(
                cause=_CAUSES[relation.kind],
                value=value.name,
                text=text,
                relation=relation,
                target=value.name,
            )
    return None


def _check_order_of_elements(case: Case) -> Diagnosis | None:
    """A value on the way has the elements of one of the reference, in another order."""
    for value in reversed(case.region[1:]):
        mine = np.sort(value.array, axis=None)
        for other in case.reference_region():
            if other.array.size != mine.size or other.array.dtype.kind != value.array.dtype.kind:
                continue
            if relative_error(mine, np.sort(other.array, axis=None)) > SAME:
                continue
            straight = other.array.reshape(value.array.shape)
            if relative_error(value.array, straight) > SAME and case.explains(given={value.name: straight}):
                return _moved(case, value, other)
    return None


def _moved(case: Case, value: Intermediate, other: Intermediate) -> Diagnosis:
    """Returns the diagnosis of a value in another order, made by the transposition before it if there is
    one."""
    names = [value.name, *(n for n in producers(case.ours, value.name, 2) if n in case.site.between)]
    maker = next((n for n in names if case.ours.values[n].type == "transpose"), value.name)
    text = (
        f"{shown(value.name)} has the elements of {shown(other.name)} of the reference in another order"
        + ("" if maker == value.name else ", as this operation transposes them")
    )
    return Diagnosis(cause="layout", value=maker, text=text, target=value.name)


def _check_compressed(case: Case) -> Diagnosis | None:
    """A weight is compressed."""
    for value in case.region:
        op = case.ops.get(value.op)
        for given in () if op is None else op.inputs.values():
            for argument in given:
                maker = case.ops.get(_MAKER + getattr(argument, "name", ""))
                if maker is not None and maker.type.startswith("constexpr_"):
                    text = (
                        f"its weights are compressed ({maker.type}), which moves its result by"
                        f" {case.site.made:.2g}"
                    )
                    return Diagnosis(cause="compressed weights", value=value.name, text=text)
    return None


#: Begins the key of the operation that computes a value, in `Case.ops`.
_MAKER = "maker of "


def _check_undefined(case: Case) -> Diagnosis | None:
    """A division by zero, a logarithm of zero, that the reference does not compute."""
    if math.isfinite(case.site.made):
        return None
    for value in case.region:
        if value.type in UNDEFINED_AT_ZERO:
            return Diagnosis(
                cause="undefined",
                value=value.name,
                text="an argument is zero, and its result is infinite or NaN, which that of the"
                " reference is not",
            )
    return None


def _check_other_forms(case: Case) -> Diagnosis | None:
    """With another setting, type or argument of one operation the result is right."""
    constants = constants_of(case.subject.function)
    wanted = [value.type for value in case.reference_region()]
    return _first_right(case, lambda _, op: other_forms(op, constants, wanted))


def _check_other_arguments(case: Case) -> Diagnosis | None:
    """With another value of the reference as an argument the result is right."""
    constants = constants_of(case.subject.function)
    order = {name: place for place, name in enumerate(case.ours.values)}
    declared = {v.name: v for op in case.subject.function.graph.ops for v in op.outputs}
    declared.update((value.name, value) for value in case.subject.function.graph.inputs)
    known = {pair.ours for pair in case.pairs if pair.how != "order"} & set(case.site.given)

    def forms(value: Intermediate, op: Op) -> Iterator[OtherForm]:
        near = sorted((n for n in known if order[n] < order[value.name]), key=lambda n: -order[n])
        return other_arguments(op, constants, [declared[name] for name in near if name in declared])

    return _first_right(case, forms)


def _first_right(case: Case, forms: Callable[[Intermediate, Op], Iterator[OtherForm]]) -> Diagnosis | None:
    """Returns the first form of an operation of the region with which the result is right."""
    for value in case.region[:_MOST_TRIED]:
        op = case.ops.get(value.op)
        if op is None or op.blocks:
            continue
        for form in forms(value, op):
            if _is_right(case, form.op):
                return Diagnosis(cause=form.cause, value=value.name, text=form.reason, form=form)
    return None


def _is_right(case: Case, form: Op) -> bool:
    """Returns whether the wrong value is right with an operation in another form, if that can run."""
    read = {a.name for given in form.inputs.values() for a in given if isinstance(a, Value)}
    given = {name: case.site.given[name] for name in read & set(case.site.given)}
    try:
        return case.explains(form=form, given=given, most=SAME)
    except (CoremlscopeError, ValueError, IndexError, TypeError):
        return False  # No such setting, or another shape.


#: Operations between the reference's values whose other forms are tried.
_MOST_TRIED = 6

_CHECKS: tuple[Callable[[Case], Diagnosis | None], ...] = (
    _check_tie,
    _check_infinite_constant,
    _check_epsilon,
    _check_undefined,
    _check_crossing,
    _check_arguments,
    _check_layout_of_arguments,
    _check_order_of_elements,
    _check_folded_norm,
    _check_weights,
    _check_folded_values,
    _check_folded_weights,
    _check_missing,
    _check_cast,
    _check_extra,
    _check_result,
    _check_numbers,
    _check_compressed,
    _check_other_forms,
    _check_other_arguments,
)
