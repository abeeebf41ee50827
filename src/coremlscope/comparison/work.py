"""Pairs the work of two conversions of one network, whose operations may be cut in different ways.

Operations that correspond to each other are aligned first. Every other operation belongs to the aligned
operation that its result is computed for: so attention as one operation and as four, or `linear` and a
product of matrices with a sum, end in the same group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from coremlscope.comparison.alignment import align
from coremlscope.results.migration import SharedWork, WorkGroup
from coremlscope.results.operations import OpTable

__all__ = ["pair_operations", "pair_work"]

#: The group of operations whose results no aligned operation reads.
_END = -1
#: Types of operations that are the same work, with the one of them that represents both.
_SAME_WORK = {"linear": "matmul"}


def pair_operations(before: OpTable, after: OpTable) -> dict[int, int]:
    """Returns rows of `after` by rows of `before`, for operations with results that correspond."""
    return _pair(before, _fixed(before), after, _fixed(after))


def _pair(
    before: OpTable, fixed: Collection[int], after: OpTable, other_fixed: Collection[int]
) -> dict[int, int]:
    pairs = align(_with_plain_types(before, fixed), _with_plain_types(after, other_fixed))
    return {row: other for row, other in pairs.items() if before.outputs[row]}


def pair_work(before: OpTable, after: OpTable) -> SharedWork:
    """Pairs all operations of two tables, and counts the work that both have."""
    fixed, other_fixed = _fixed(before), _fixed(after)
    varying, other_varying = _without_work(before, fixed), _without_work(after, other_fixed)
    pairs = _pair(before, fixed, after, other_fixed)
    mine = _groups(before, set(pairs))
    others = _groups(after, set(pairs.values()))
    groups, shared = [], 0
    for row, other in (*pairs.items(), (_END, _END)):
        rows, other_rows = mine.get(row, []), others.get(other, [])
        work, other_work = _flops(varying, rows), _flops(other_varying, other_rows)
        shared += min(work, other_work)
        types = _types(before, rows), _types(after, other_rows)
        if row != _END and types[0] != types[1]:
            groups.append(
                WorkGroup(
                    before=tuple(before.id[one] for one in rows),
                    after=tuple(after.id[one] for one in other_rows),
                    types=types,
                    flops=work,
                    other_flops=other_work,
                )
            )
    return SharedWork(
        flops=_flops(varying, range(len(before))),
        other_flops=_flops(other_varying, range(len(after))),
        shared_flops=shared,
        pairs=len(pairs),
        groups=tuple(sorted(groups, key=lambda group: -max(group.flops, group.other_flops))),
        unpaired=tuple(before.id[row] for row in mine.get(_END, [])),
        other_unpaired=tuple(after.id[row] for row in others.get(_END, [])),
        fixed_flops=_flops(before, fixed),
        other_fixed_flops=_flops(after, other_fixed),
    )


def _fixed(table: OpTable) -> set[int]:
    """Returns the rows whose results are the same in every call: they depend on weights only.

    An operation in a block may run for each step of a loop, so it never counts as fixed.
    """
    fixed: set[int] = set()
    for row, (given, inputs) in enumerate(zip(table.details.arguments, table.inputs, strict=False)):
        is_nested = table.id[row].count("/") > 1
        reads_names = any(isinstance(argument, str) for argument in given)
        if not is_nested and not reads_names and given and fixed.issuperset(inputs or ()):
            fixed.add(row)
    return fixed


def _without_work(table: OpTable, rows: Collection[int]) -> OpTable:
    """Returns a table in which some rows have no work."""
    return replace(table, flops=tuple(0 if row in rows else one for row, one in enumerate(table.flops)))


def _with_plain_types(table: OpTable, fixed: Collection[int]) -> OpTable:
    """Returns a table in which operations correspond only if they have equal types."""
    types = (_SAME_WORK.get(type_, type_) for type_ in table.type)
    return replace(
        table, type=tuple(f"fixed {type_}" if row in fixed else type_ for row, type_ in enumerate(types))
    )


def _flops(table: OpTable, rows: Collection[int]) -> int:
    return sum(table.flops[row] or 0 for row in rows)


def _types(table: OpTable, rows: Collection[int]) -> str:
    return " + ".join(table.type[row] for row in rows)


def _groups(table: OpTable, aligned: Collection[int]) -> Mapping[int, list[int]]:
    """Returns the rows that belong to each aligned row: those that it is computed from, and its bias."""
    readers: dict[int, list[int]] = defaultdict(list)
    for row, given in enumerate(table.inputs):
        for other in given or ():
            readers[other].append(row)
    owner: dict[int, int] = {}
    for row in reversed(range(len(table))):
        known = [owner[reader] for reader in readers[row] if owner.get(reader, _END) != _END]
        product = _biased_product(table, readers, row)
        if row not in aligned and product in aligned:
            owner[row] = product
        else:
            owner[row] = row if row in aligned else min(known, default=_END)
    groups: dict[int, list[int]] = defaultdict(list)
    for row in range(len(table)):
        groups[owner[row]].append(row)
    return groups


def _biased_product(table: OpTable, readers: Mapping[int, list[int]], row: int) -> int:
    """Returns the product to which an operation alone adds a constant, as `linear` does; `_END` for none."""
    given = table.inputs[row] or ()
    if table.type[row] != "add" or len(given) != 1:
        return _END
    (source,) = given
    is_product = _SAME_WORK.get(table.type[source], table.type[source]) == "matmul"
    return source if is_product and readers[source] == [row] else _END
