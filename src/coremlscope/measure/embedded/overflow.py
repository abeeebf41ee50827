"""Findings on fp16 rounding: where values overflow, and where NaN first appears."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coremlscope.base.findings import Finding, Severity
from coremlscope.base.units import format_share
from coremlscope.model.ir import Argument, Graph, Op, Value
from coremlscope.runtime.execution.ranges import OpRange

#: The largest finite fp16 number (IEEE 754 binary16).
LARGEST_FP16 = 65504.0
#: Sums of this size become infinite in the accumulators of the Neural Engine of M4 and M6. Source:
#: 751K/Apple-Neural-Engine-Microarchitecture-Study-M6, notes/defects.md C2–C5 (fixed point, 15 bits before
#: the point). For other operations it is half of the fp16 range.
_LARGEST_SUM = 32768.0
_ACCUMULATING = frozenset(
    [
        "conv",
        "conv_transpose",
        "einsum",
        "linear",
        "matmul",
        "reduce_l1_norm",
        "reduce_log_sum",
        "reduce_sum",
        "reduce_sum_square",
        "scaled_dot_product_attention",
    ]
)
#: Operations that apply a mask.
_MASKING = frozenset({"add", "cast", "mul", "select", "sub"})
#: Number of findings of one kind that are listed separately; the others are merged.
_TOLD = 5

_Rows = Mapping[str, OpRange]


def note_ranges(
    graphs: Sequence[Graph], ranges: Sequence[OpRange], unused: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """Returns findings on the ranges of fp16 results, the most severe first.

    Args:
        graphs: The function's body, or the bodies of the stages of a pipeline.
        ranges: The ranges of their operations.
        unused: Operations whose results nothing reads: no device runs them.
    """
    rows = {row.id: row for row in ranges if row.id not in unused}
    found = [_summary(rows)]
    for graph in graphs:
        found += _note_graph(graph, rows)
    return tuple(found)


def _note_graph(graph: Graph, ranges: _Rows) -> list[Finding]:
    ops = {op.id: op for op in graph.walk()}
    rows = {op_id: row for op_id, row in ranges.items() if op_id in ops}
    flow = _Flow(graph)
    found, reported = list[Finding](), set[str]()
    for kind in _KINDS:
        ids = kind.concerned(rows, ops, flow) - reported
        worst_first = sorted((rows[op_id] for op_id in ids), key=_badness, reverse=True)
        found += _tell(kind, [(ops[row.id], row) for row in worst_first])
        reported |= ids
    return found


def _summary(rows: _Rows) -> Finding:
    if not rows:
        return Finding(
            id="fp16-nothing-rounded",
            severity="warning",
            text="No operation has a result that is declared as fp16: nothing was rounded.",
            hint="convert the model with compute_precision=ct.precision.FLOAT16 to see the effects of fp16",
        )
    count, largest = len(rows), max(row.largest or 0.0 for row in rows.values())
    results = "results of one operation were" if count == 1 else f"results of {count} operations were"
    return Finding(
        id="fp16-rounded",
        severity="info",
        text=f"The fp16 {results} rounded to fp16; the largest magnitude was {largest:.3g}, "
        f"{format_share(largest / LARGEST_FP16)} of the largest fp16 number.",
        hint="this was a separate prediction: times are those of float32 arithmetic",
    )


def _badness(row: OpRange) -> tuple[float, int]:
    return row.largest or 0.0, row.overflows + row.infinities + row.nans


def _tell(kind: _Kind, concerned: Sequence[tuple[Op, OpRange]]) -> list[Finding]:
    """Returns one finding for each of the most severe rows, and one for the rest."""
    found = []
    for op, row in concerned[:_TOLD]:
        text, hint = kind.describe(op, row)
        found.append(Finding(id=kind.id, severity=kind.severity, text=text, hint=hint, ops=(op.id,)))
    rest = tuple(op.id for op, _ in concerned[_TOLD:])
    if rest:
        noun = "operation" if len(rest) == 1 else "operations"
        text = f"The same applies to {len(rest)} more {noun}, {_name(concerned[_TOLD][0])} first."
        found.append(
            Finding(
                id=kind.id,
                severity=kind.severity,
                text=text,
                hint="the JSON report has the range of each",
                ops=rest,
            )
        )
    return found


def _overflow(op: Op, row: OpRange) -> tuple[str, str]:
    overflow = "overflows" if row.overflows == 1 else "overflow"
    text = (
        f"{_name(op)} reaches {row.largest:.3g}, and the largest fp16 number is {LARGEST_FP16:.0f}: "
        f"{_elements(row.overflows)} {overflow} to infinity. This will overflow on the Neural Engine."
    )
    advice = "a value of -1e4 is enough for a mask; " if op.type in _MASKING else ""
    return text, f"{advice}{_scale(op)}"


def _infinity(op: Op, row: OpRange) -> tuple[str, str]:
    text = (
        f"{_name(op)} is the first to produce infinity, in {_elements(row.infinities)}: "
        "a division by zero, a logarithm of zero, an infinite constant, or a float32 overflow."
    )
    if op.type in _MASKING:
        return text, "mask with -1e4 instead of -infinity"
    return text, "add an epsilon that fp16 can represent, at least 6e-8"


def _nan(op: Op, row: OpRange) -> tuple[str, str]:
    text = f"{_name(op)} is the first to produce NaN, in {_elements(row.nans)}."
    return text, "NaN results from infinity minus infinity, 0/0, or a softmax over -infinity only"


def _large_sum(op: Op, row: OpRange) -> tuple[str, str]:
    text = (
        f"{_name(op)} reaches {row.largest:.3g}: fp16 can represent it, but sums of {_LARGEST_SUM:.0f}"
        " and more were observed to become infinite in the Neural Engine's accumulators on M4 and M6."
    )
    return text, f"published in 751K's microarchitecture study of M6; {_scale(op)}"


def _large(op: Op, row: OpRange) -> tuple[str, str]:
    text = (
        f"{_name(op)} reaches {row.largest:.3g}, over half of the largest fp16 number ({LARGEST_FP16:.0f})."
    )
    return text, "other inputs may overflow: try some with --input"


def _scale(op: Op) -> str:
    return (
        "scale its arguments down, or keep it in fp32: convert with compute_precision="
        f"ct.transform.FP16ComputePrecision(op_selector=lambda op: op.name != {op.name!r})"
    )


def _name(op: Op) -> str:
    return op.type if op.name == op.id else f"{op.type} {op.name!r}"


def _elements(count: int) -> str:
    return "one element" if count == 1 else f"{count} elements"


class _Flow:
    """Origins of values, through blocks and loops."""

    def __init__(self, graph: Graph) -> None:
        self._ops = {op.id: op for op in graph.walk()}
        self._makers: dict[str, Op] = {}
        #: Values that are aliases of others.
        self._same: dict[str, tuple[Argument, ...]] = {}
        for op in self._ops.values():
            self._makers.update((value.name, op) for value in op.outputs)
            self._connect(op)

    def _connect(self, op: Op) -> None:
        """Links the inputs of blocks, in the first and later iterations, and their outputs."""
        if op.type == "while_loop":
            body, given = op.blocks[-1], op.inputs.get("loop_vars", ())
            for values in (op.outputs, *(block.inputs for block in op.blocks)):
                for value, first, later in zip(values, given, body.outputs, strict=False):
                    self._same[value.name] = (first, later)
        else:
            branches = zip(*(block.outputs for block in op.blocks), strict=False)
            self._same.update((value.name, given) for value, given in zip(op.outputs, branches, strict=False))

    def origins(self, ids: set[str], through: Callable[[str], bool]) -> set[str]:
        """Returns the operations that read from none of the others.

        Args:
            ids: The operations; where each reads from another, in a loop, the first of them is an origin.
            through: Whether another operation passes on its inputs.
        """
        found = {op_id for op_id in ids if not self._sources(op_id, through) & ids}
        return found or {next(op_id for op_id in self._ops if op_id in ids)} if ids else set()

    def _sources(self, op_id: str, through: Callable[[str], bool]) -> set[str]:
        """Returns the nearest operations that an operation reads from, skipping those that pass values on."""
        values = [a for given in self._ops[op_id].inputs.values() for a in given]
        seen: set[str] = set()
        found: set[str] = set()
        while values:
            value = values.pop()
            if not isinstance(value, Value) or value.name in seen:
                continue
            seen.add(value.name)
            maker = self._makers.get(value.name)
            if value.name in self._same:
                values += self._same[value.name]
            elif maker is not None and through(maker.id):
                values += [a for given in maker.inputs.values() for a in given]
            elif maker is not None:
                found.add(maker.id)
        return found - {op_id}


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of finding.

    Attributes:
        id: The finding's id.
        severity: Its severity.
        applies: Whether it applies to an operation.
        describe: Returns the text and the hint.
        is_inherited: True where it applies only to the operations where it first appears.
    """

    id: str
    severity: Severity
    applies: Callable[[Op, OpRange], bool]
    describe: Callable[[Op, OpRange], tuple[str, str]]
    is_inherited: bool = False

    def concerned(self, rows: _Rows, ops: Mapping[str, Op], flow: _Flow) -> set[str]:
        """Returns the operations that it applies to."""
        ids = {row.id for row in rows.values() if self.applies(ops[row.id], row)}
        return flow.origins(ids, lambda op_id: op_id not in rows) if self.is_inherited else ids


def _is_large(row: OpRange) -> bool:
    return (row.largest or 0.0) >= _LARGEST_SUM


#: Kinds, the most severe first; each operation is listed once.
_KINDS = (
    _Kind(
        id="fp16-overflow", severity="warning", applies=lambda _, row: row.overflows > 0, describe=_overflow
    ),
    _Kind(
        id="fp16-infinity",
        severity="warning",
        applies=lambda _, row: row.overflows + row.infinities > 0,
        describe=_infinity,
        is_inherited=True,
    ),
    _Kind(
        id="fp16-nan",
        severity="warning",
        applies=lambda _, row: row.nans > 0,
        describe=_nan,
        is_inherited=True,
    ),
    _Kind(
        id="fp16-sum",
        severity="warning",
        applies=lambda op, row: op.type in _ACCUMULATING and _is_large(row),
        describe=_large_sum,
    ),
    _Kind(id="fp16-near-overflow", severity="info", applies=lambda _, row: _is_large(row), describe=_large),
)
