"""Pairs the work of two conversions of one network, whose operations may be cut in different ways.

Operations that correspond to each other are aligned first. Every other operation belongs to the aligned
operation that its result is computed for: so attention as one operation and as four, or `linear` and a
product of matrices with a sum, end in the same group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from coremlscope.comparison.alignment import align
from coremlscope.results.migration import SharedWork, WorkGroup
from coremlscope.results.operations import OpTable

__all__ = ["pair_operations", "pair_work"]

#: The group of operations whose results no aligned operation reads.
_END = -1


def pair_operations(before: OpTable, after: OpTable) -> dict[int, int]:
    """Returns rows of `after` by rows of `before`, for operations with results that correspond."""
    return {row: other for row, other in align(before, after).items() if before.outputs[row]}


def pair_work(before: OpTable, after: OpTable) -> SharedWork:
    """Pairs all operations of two tables, and counts the work that both have."""
    pairs = pair_operations(before, after)
    mine = _groups(before, set(pairs))
    others = _groups(after, set(pairs.values()))
    groups, shared = [], 0
    for row, other in (*pairs.items(), (_END, _END)):
        rows, other_rows = mine.get(row, []), others.get(other, [])
        work, other_work = _flops(before, rows), _flops(after, other_rows)
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
        flops=_flops(before, range(len(before))),
        other_flops=_flops(after, range(len(after))),
        shared_flops=shared,
        pairs=len(pairs),
        groups=tuple(sorted(groups, key=lambda group: -max(group.flops, group.other_flops))),
        unpaired=tuple(before.id[row] for row in mine.get(_END, [])),
        other_unpaired=tuple(after.id[row] for row in others.get(_END, [])),
    )


def _flops(table: OpTable, rows: Collection[int]) -> int:
    return sum(table.flops[row] or 0 for row in rows)


def _types(table: OpTable, rows: Collection[int]) -> str:
    return " + ".join(table.type[row] for row in rows)


def _groups(table: OpTable, aligned: Collection[int]) -> Mapping[int, list[int]]:
    """Returns the rows that belong to each aligned row: those whose results it is computed from."""
    readers: dict[int, list[int]] = defaultdict(list)
    for row, given in enumerate(table.inputs):
        for other in given or ():
            readers[other].append(row)
    owner: dict[int, int] = {}
    for row in reversed(range(len(table))):
        known = [owner[reader] for reader in readers[row] if owner.get(reader, _END) != _END]
        owner[row] = row if row in aligned else min(known, default=_END)
    groups: dict[int, list[int]] = defaultdict(list)
    for row in range(len(table)):
        groups[owner[row]].append(row)
    return groups
