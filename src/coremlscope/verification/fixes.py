"""Changes of a program that may fix a fault, the most specific first. Each is tried by running the changed
program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from coremlscope.ir import Array, Function, Op, TensorType, Value
from coremlscope.ir.rewriting import constant_argument, constants_of
from coremlscope.units import shown
from coremlscope.verification.causes.numbers import SMALLEST_FP16
from coremlscope.verification.causes.precision import LARGEST_FP16, RoundedCase
from coremlscope.verification.diagnosis import Diagnosis
from coremlscope.verification.distance import Relation, relative_error
from coremlscope.verification.edits import bypass, insert_after, keep_fp32, set_constant
from coremlscope.verification.inner_arithmetic import with_stable_forms
from coremlscope.verification.intermediates import Run
from coremlscope.verification.other_forms import with_form
from coremlscope.verification.pairing import plain_name

__all__ = ["Candidate", "conversion_candidates", "inner_candidates", "precision_candidates"]

#: Epsilons that fp16 represents: its smallest normal number, and larger ones.
_EPSILONS = (2.0**-14, 1e-4, 1e-3)
#: Shares of the operations that are kept in float32 where no single one stands out.
_SHARES = (0.1, 0.25, 0.5)
#: Constants named in a sentence.
_MOST_LISTED = 4
#: Operations named in a line of code; more are counted.
_MOST_NAMES = 12

#: Code to write in the module instead of an operation inside which numbers overflow.
_STABLE_CODE: Mapping[str, str] = {
    "softplus": "x.relu() + torch.log(1 + torch.exp(-x.abs())) instead of softplus(x)",
    "reduce_log_sum_exp": "m + torch.log(torch.exp(x - m).sum(dim, keepdim=True)) with m = x.amax(dim,"
    " keepdim=True) instead of logsumexp(x)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change that may fix a fault.

    Attributes:
        text: The change, as a sentence.
        ops: Ids of the operations that it changes, in the program as it was.
        function: The changed function.
        code: What to change where the model is converted.
    """

    text: str
    ops: tuple[str, ...]
    function: Function
    code: str = ""


def conversion_candidates(
    function: Function, diagnosis: Diagnosis, site: str, ours: Run
) -> Iterator[Candidate]:
    """Yields changes for a fault of the conversion.

    Args:
        function: The function.
        diagnosis: The cause.
        site: The value that shows the fault.
        ours: The run of the model.
    """
    op_id = ours.values[diagnosis.value].op
    for repair in diagnosis.repairs:
        yield Candidate(text=repair.text, ops=(op_id,), function=repair.apply(function))
    if diagnosis.repairs:
        return
    if diagnosis.cause == "epsilon" and diagnosis.parameter:
        yield from _epsilons(function, diagnosis, site, ours)
    elif diagnosis.form is not None:
        yield Candidate(
            text=f"{diagnosis.form.text}: {shown(diagnosis.value)}",
            ops=(op_id,),
            function=with_form(function, diagnosis.form.op),
        )
    elif diagnosis.changes:
        change = {(ours.values[name].op, key): array for (name, key), array in diagnosis.changes.items()}
        what = ", ".join(
            f"{shown(key)} of {shown(name)}" for name, key in list(diagnosis.changes)[:_MOST_LISTED]
        )
        source = "a finite number" if diagnosis.cause == "overflow" else "that of the reference"
        yield Candidate(
            text=f"replace the {what} by {source}",
            ops=tuple(dict.fromkeys(op for op, _ in change)),
            function=set_constant(function, change),
        )
    elif diagnosis.missing is not None:
        kind = diagnosis.missing.type
        made = insert_after(function, diagnosis.target, (op_id,), kind, diagnosis.missing.parameters)
        text = f"insert {shown(kind)} between {shown(diagnosis.target)} and {shown(site)}"
        yield Candidate(text=text, ops=(op_id,), function=made)
    elif diagnosis.cause == "cast" and diagnosis.target:
        yield from _without_cast(function, op_id)
    elif diagnosis.cause == "layout" and diagnosis.relation is None:
        text = f"remove the transposition {shown(diagnosis.value)}"
        yield Candidate(text=text, ops=(op_id,), function=bypass(function, (op_id,)))
    elif diagnosis.relation is not None and diagnosis.target:
        yield from _inverse(function, diagnosis, site, ours)


def _without_cast(function: Function, op_id: str) -> Iterator[Candidate]:
    chain = [op_id]
    names = {value.name for op in function.graph.ops if op.id == op_id for value in op.outputs}
    for op in function.graph.ops:
        if op.type == "cast" and _reads(op) & names:
            chain.append(op.id)
            names |= {value.name for value in op.outputs}
    text = "remove the cast to integers" + (", and that back to floats" if len(chain) > 1 else "")
    yield Candidate(text=text, ops=tuple(chain), function=bypass(function, chain))


def _reads(op: Op) -> set[str]:
    return {a.name for given in op.inputs.values() for a in given if isinstance(a, Value)}


def _inverse(function: Function, diagnosis: Diagnosis, site: str, ours: Run) -> Iterator[Candidate]:
    """Yields the operations that undo scales, offsets, transpositions."""
    assert diagnosis.relation is not None
    if diagnosis.relation.axis is not None:
        yield from _scaled_weights(function, diagnosis, site, ours)
        return
    op_id = ours.values[site].op
    made, texts = function, []
    for target, relation in ((diagnosis.target, diagnosis.relation), *diagnosis.also):
        undone = _UNDOING.get(relation.kind)
        if undone is None:
            return
        is_result = target in (site, diagnosis.value)
        where = f"behind {shown(target)}" if is_result else f"between {shown(target)} and {shown(site)}"
        way = _between(ours, target, site)
        readers = {
            op.id
            for op in made.graph.ops
            if target in _reads(op) and any(value.name in way for value in op.outputs)
        }
        text, op_type, parameters = undone(relation)
        made = insert_after(made, target, () if is_result else readers, op_type, parameters)
        texts.append(f"{text} {where}")
    yield Candidate(text=", ".join(texts), ops=(op_id,), function=made)


def _undo_scale(relation: Relation) -> tuple[str, str, dict[str, Array]]:
    number = np.float32(1 / relation.number)
    return f"multiply by {number:.6g}", "mul", {"y": np.array(number)}


def _undo_shift(relation: Relation) -> tuple[str, str, dict[str, Array]]:
    number = np.float32(-relation.number)
    return f"add {number:.6g}", "add", {"y": np.array(number)}


def _undo_sign(relation: Relation) -> tuple[str, str, dict[str, Array]]:
    return "multiply by −1", "mul", {"y": np.array(-1, np.float32)}


def _undo_order(relation: Relation) -> tuple[str, str, dict[str, Array]]:
    return f"transpose by {relation.axes}", "transpose", {"perm": np.array(relation.axes, np.int32)}


#: Inverse of a relation: a text, the type of the operation and its parameters.
_UNDOING: Mapping[str, Callable[[Relation], tuple[str, str, dict[str, Array]]]] = {
    "scaled": _undo_scale,
    "shifted": _undo_shift,
    "negated": _undo_sign,
    "permuted": _undo_order,
}


def _scaled_weights(function: Function, diagnosis: Diagnosis, site: str, ours: Run) -> Iterator[Candidate]:
    """Yields the operation with its weights scaled: its bias stays."""
    assert diagnosis.relation is not None
    value = ours.values[site]
    for parameter in value.parameters:
        if parameter.name.split(" ")[0] == "weight":
            factor = 1 / diagnosis.relation.number
            change = {(value.op, "weight"): parameter.read().astype(np.float64) * factor}
            text = f"multiply the weight of {shown(site)} by {factor:.6g}"
            yield Candidate(text=text, ops=(value.op,), function=set_constant(function, change))


def _epsilons(function: Function, diagnosis: Diagnosis, site: str, ours: Run) -> Iterator[Candidate]:
    """Yields larger epsilons, then float32 with that of the reference."""
    op_id = ours.values[diagnosis.value].op
    right = None if diagnosis.right is None else float(diagnosis.right)
    numbers = [n for n in (right,) if n is not None and n >= SMALLEST_FP16] + list(_EPSILONS)
    for number in numbers:
        change: Mapping[tuple[str, str], Array] = {(op_id, diagnosis.parameter): np.array(number, np.float32)}
        yield Candidate(
            text=f"use an epsilon of {number:.3g}, which fp16 represents",
            ops=(op_id,),
            function=set_constant(function, change),
            code=f"eps={number:.3g} in the module that {plain_name(diagnosis.value)} belongs to",
        )
    if right is None:
        return
    names = {diagnosis.value, site, *_between(ours, diagnosis.value, site)}
    ids = tuple(dict.fromkeys(ours.values[name].op for name in names))
    wide = keep_fp32(function, ids)
    wanted = f"{diagnosis.value}_fp32"
    changed = next((op for op in wide.graph.ops if any(v.name == wanted for v in op.outputs)), None)
    if changed is None:
        return
    made = set_constant(wide, {(changed.id, diagnosis.parameter): np.array(right, np.float32)})
    yield Candidate(
        text=f"keep {_listed(ours, ids)} in float32, with the epsilon of {right:.3g}",
        ops=ids,
        function=made,
        code=_selector(ours, ids),
    )


def _between(run: Run, upper: str, lower: str) -> set[str]:
    """Returns the values on the ways from one value to another."""
    above = set(run.above(lower, lambda name: name == upper))
    if upper not in above:
        return set()
    below, waiting = {upper}, [upper]
    while waiting:
        for reader in run.readers.get(waiting.pop(), ()):
            if reader in above and reader not in below:
                below.add(reader)
                waiting.append(reader)
    return below & above


def precision_candidates(function: Function, diagnosis: Diagnosis, case: RoundedCase) -> Iterator[Candidate]:
    """Yields changes for a fault of the precision.

    Args:
        function: The function.
        diagnosis: The cause.
        case: The place, and the runs.
    """
    run = case.exact
    if diagnosis.cause == "epsilon":
        yield from _epsilons(function, diagnosis, case.site.value, run)
    if diagnosis.cause == "overflow":
        yield from _scaled_before(function, case)
    seen: set[frozenset[str]] = set()
    for names in _growing(case, diagnosis):
        ids = tuple(dict.fromkeys(run.values[name].op for name in run.values if name in names))
        if ids and frozenset(ids) not in seen:
            seen.add(frozenset(ids))
            is_all = len(ids) == len({v.op for v in run.values.values() if v.op})
            what = "all operations" if is_all else _listed(run, ids)
            wide = [n for n, value in run.outputs.items() if n == value and not _fits(run.values[n].array)]
            more = f", and return {', '.join(map(shown, wide))} in float32" if wide else ""
            yield Candidate(
                text=f"keep {what} in float32{more}",
                ops=ids,
                function=keep_fp32(function, ids, wide),
                code="compute_precision=ct.precision.FLOAT32" if is_all else _selector(run, ids),
            )


def constant_candidates(
    function: Function,
    diagnosis: Diagnosis,
    case: RoundedCase,
    constants: Mapping[tuple[str, str], Array],
) -> Iterator[Candidate]:
    """Yields changes for constants that rounding to fp16 moved: float32, with those of the reference.

    Args:
        function: The function.
        diagnosis: The cause.
        case: The place, and the runs.
        constants: The exact constants by value and parameter.
    """
    run = case.exact
    for candidate in precision_candidates(function, diagnosis, case):
        names = {value.name for value in run.values.values() if value.op in candidate.ops}
        makers = {
            v.name.removesuffix("_fp32"): op.id for op in candidate.function.graph.ops for v in op.outputs
        }
        changes = {
            (makers[name], key): array
            for (name, key), array in constants.items()
            if name in names and name in makers
        }
        if changes:
            made = set_constant(candidate.function, changes)
            yield replace(candidate, text=f"{candidate.text}, with their exact constants", function=made)


def inner_candidates(function: Function, op_id: str, run: Run) -> Iterator[Candidate]:
    """Yields changes for an operation inside which numbers overflow: another form of it, or of its type.

    Args:
        function: The function.
        op_id: The operation.
        run: The run of the model.
    """
    kind = next(op.type for op in function.graph.ops if op.id == op_id)
    several = tuple(op.id for op in function.graph.ops if op.type == kind)
    for ids in dict.fromkeys(((op_id,), several)):
        yield Candidate(
            text=f"write {_listed(run, ids)} in a form whose exponentials are at most 1",
            ops=ids,
            function=with_stable_forms(function, ids),
            code=_STABLE_CODE[kind],
        )
        yield Candidate(
            text=f"keep {_listed(run, ids)} in float32, so that another unit computes it",
            ops=ids,
            function=keep_fp32(function, ids),
            code=_selector(run, ids),
        )


def _scaled_before(function: Function, case: RoundedCase) -> Iterator[Candidate]:
    """Yields the program with a factor that follows a product moved ahead of it."""
    value = case.value
    if value.type not in ("matmul", "linear", "conv"):
        return
    for op in function.graph.ops:
        given = op.inputs.get("x", ())
        is_next = op.type in ("mul", "real_div") and given and getattr(given[0], "name", "") == value.name
        factor = _number(function, op) if is_next else None
        if factor is None or not factor:
            continue
        if op.type == "real_div":
            factor = 1 / factor
        if (
            abs(factor) >= 1
            or len(case.exact.readers.get(value.name, ())) != 1
            or _has_bias(case.ops[value.op])
        ):
            return
        number = np.array(factor, np.float32)
        moved = insert_after(function, value.inputs[0], (value.op,), "mul", {"y": number})
        same = next(o for o in moved.graph.ops if o.outputs and o.outputs[0].name == op.outputs[0].name)
        yield Candidate(
            text=f"multiply by {factor:.5g} ahead of {shown(value.name)} instead of behind it",
            ops=(value.op, op.id),
            function=bypass(moved, (same.id,)),
            code="scale one operand before the product: (q * scale) @ k",
        )
        return


def _has_bias(op: Op) -> bool:
    return bool(op.inputs.get("bias"))


def _number(function: Function, op: Op) -> float | None:
    """Returns the constant factor `y` of an operation."""
    known = constant_argument(op, "y", constants_of(function))
    if known is None or not isinstance(known.type, TensorType) or known.type.elements != 1:
        return None
    return float(known.numpy().reshape(-1)[0])


def _growing(case: RoundedCase, diagnosis: Diagnosis) -> Iterator[set[str]]:
    """Yields larger and larger sets of values whose operations are kept in float32."""
    run = case.exact
    computed = [name for name, value in run.values.items() if value.op]
    if case.site.is_gradual:
        growth = sorted(computed, key=lambda name: _growth(case, name), reverse=True)
        for share in _SHARES:
            yield _closed(run, set(growth[: max(1, round(share * len(growth)))]))
        yield set(computed)
        return
    first = {diagnosis.value, case.site.value, *_between(run, diagnosis.value, case.site.value)}
    chosen = _closed(run, first)
    yield chosen
    chosen = _closed(run, chosen | _above(run, chosen))
    yield chosen
    chosen = _closed(run, chosen | {r for name in chosen for r in run.readers.get(name, ())})
    yield chosen
    for _ in range(2):
        chosen = _closed(run, chosen | _above(run, chosen))
        yield chosen
    yield set(computed)


def _growth(case: RoundedCase, name: str) -> float:
    value = case.exact.values[name]
    total = relative_error(case.rounded.values[name].array, value.array)
    given = [relative_error(case.rounded.values[n].array, case.exact.values[n].array) for n in value.inputs]
    return total - max(given, default=0.0)


def _above(run: Run, names: Collection[str]) -> set[str]:
    return {given for name in names for given in run.values[name].inputs if run.values[given].op}


def _closed(run: Run, names: set[str]) -> set[str]:
    """Adds the readers of values that fp16 cannot represent, up to where it can again."""
    closed, waiting = set(names), list(names)
    while waiting:
        array = run.values[waiting.pop()].array
        if _fits(array):
            continue
        for name in list(closed):
            if run.values[name].array is array:
                fresh = set(run.readers.get(name, ())) - closed
                closed |= fresh
                waiting += fresh
    return closed


def _fits(array: Array) -> bool:
    """Returns whether fp16 can represent the elements of a value."""
    return array.dtype.kind != "f" or np.abs(array[np.isfinite(array)]).max(initial=0.0) < LARGEST_FP16


def _listed(run: Run, ids: Collection[str]) -> str:
    names = [shown(plain_name(value.name)) for value in run.values.values() if value.op in ids]
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def _selector(run: Run, ids: Collection[str]) -> str:
    names = [plain_name(value.name) for value in run.values.values() if value.op in ids]
    if len(names) > _MOST_NAMES:
        types = sorted({value.type for value in run.values.values() if value.op in ids})
        return (
            "compute_precision=ct.transform.FP16ComputePrecision(op_selector=lambda op: op.op_type not in "
            f"{set(types)!r})"
        )
    return (
        "compute_precision=ct.transform.FP16ComputePrecision(op_selector=lambda op: op.name not in "
        f"{{{', '.join(map(repr, names))}}})"
    )
