"""Values that the reference computes by other operations, or in another size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from coremlscope.ir import Array, Constant, Op, TensorType
from coremlscope.ir.rewriting import constant_argument, constants_of
from coremlscope.results.verification import Cause
from coremlscope.units import shown
from coremlscope.verification.diagnosis import Case, Diagnosis
from coremlscope.verification.grafts import Graft
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.pairing import general_type
from coremlscope.verification.repairs import graft_instead, graft_of, grafts

__all__ = ["check_recomputed", "check_sizes"]

#: Weights that were rounded to fp16 cause smaller errors.
_MADE_BY_ROUNDING = 3e-3
#: Elements of a setting that a sentence lists.
_MOST_LISTED = 6


def check_recomputed(case: Case) -> Diagnosis | None:
    """With the operations of the reference, written for this program, the result is right."""
    if case.site.pair.axes or case.site.made < _MADE_BY_ROUNDING:
        return None
    graft = graft_of(case, case.site.value, case.site.pair.theirs)
    if graft is None:
        return None
    repair = graft_instead(graft, case.site.value, case.site.pair.theirs)
    text = f"the reference computes it in another way: with {repair.text.partition(' as ')[2]} it is right"
    own = case.ops.get(case.value.op)
    differs = None if own is None else _other_setting(own, graft, constants_of(case.call.function))
    return Diagnosis(
        cause="other operation" if differs is None else differs[0],
        value=case.site.value,
        text=text if differs is None else differs[1],
        repairs=(repair,),
        is_rewriting=differs is None,
    )


def _other_setting(own: Op, graft: Graft, constants: Mapping[str, Constant]) -> tuple[Cause, str] | None:
    """Returns in what an operation differs from that of a graft, if this is the only one and of its type."""
    made = [op for op in graft.ops if op.type not in ("identity", "reshape", "transpose")]
    if len(made) != 1 or made[0].type != own.type:
        return None
    differing = []
    for key in (*made[0].inputs, *(key for key in own.inputs if key not in made[0].inputs)):
        mine, right = (_constant(op, key, constants) for op in (own, made[0]))
        if mine is not None and right is not None and not np.array_equal(mine.ravel(), right.ravel()):
            differing.append((key, mine, right))
        elif key == "bias" and (mine is None) != (right is None):
            has = "it lacks the" if mine is None else "the reference lacks its"
            return "weights", f"{has} {shown(key)}: in the way of the reference its result is right"
    if not differing or any(mine.size > _MOST_LISTED for _, mine, _ in differing):
        return None
    texts = (
        f"its {shown(key)} is {mine.ravel().tolist()}, and {right.ravel().tolist()} is right"
        for key, mine, right in differing
    )
    return "setting", "; ".join(texts)


def _constant(op: Op, key: str, constants: Mapping[str, Constant]) -> Array | None:
    known = constant_argument(op, key, constants)
    return None if known is None or not isinstance(known.type, TensorType) else known.numpy()


def check_sizes(case: Case) -> Diagnosis | None:
    """An operation on the way makes as many elements as none of that type in the reference."""
    region = list(reversed(case.region))
    order = {name: place for place, name in enumerate(case.theirs.values)}
    theirs = sorted(case.reference_region(), key=lambda one: order[one.name])
    for value in region:
        mine, others = (_of_type(values, value.type) for values in (region, theirs))
        if len(mine) != len(others):
            continue
        other = others[[one.name for one in mine].index(value.name)]
        if other.array.size != value.array.size:
            text = (
                f"its result has {value.array.size:,} elements, and that of {shown(other.name)} of the"
                f" reference {other.array.size:,}"
            )
            repairs = (
                () if case.site.pair.axes else tuple(grafts(case, case.site.value, case.site.pair.theirs))
            )
            return Diagnosis(
                cause="setting",
                value=value.name,
                text=text,
                repairs=repairs,
                is_guess=not repairs,
                is_rewriting=bool(repairs),
            )
    return None


def _of_type(values: Iterable[Intermediate], kind: str) -> list[Intermediate]:
    return [value for value in values if general_type(value.type) == general_type(kind)]
