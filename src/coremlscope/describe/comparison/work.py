"""Pairs the work of two conversions of one network, whose operations may be cut in different ways.

Operations that correspond to each other are aligned first. Every other operation belongs to the aligned
operation that its result is computed for: so attention as one operation and as four, or `linear` and a
product of matrices with a sum, end in the same group.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from coremlscope.describe.comparison.alignment import align
from coremlscope.results.migration import SharedWork, WorkGroup
from coremlscope.results.operations import OpTable

#: The group of operations whose results no aligned operation reads.
_END = -1
#: Types of operations that are the same work, with the one of them that represents both.
_SAME_WORK = {"linear": "matmul"}
#: From this factor between their work, operations that only move data do not correspond.
_DIFFERENT = 1.25


def pair_work(before: OpTable, after: OpTable) -> SharedWork:
    """Pairs all operations of two tables, and counts the work that both have.

    A loop counts as one operation with the work of all its steps, so it can be compared with operations that
    were written out step by step.
    """
    one, two = _Program(before), _Program(after)
    pairs = _pair(one, two)
    while True:
        mine, others = one.groups(set(pairs)), two.groups(set(pairs.values()))
        works = {
            row: _compared_flops(one.flops(mine.get(row, [])), two.flops(others.get(other, [])))
            for row, other in (*pairs.items(), (_END, _END))
        }
        certain = {
            row: other
            for row, other in pairs.items()
            if one.has_work(row) or two.has_work(other) or max(works[row]) <= _DIFFERENT * min(works[row])
        }
        if len(certain) == len(pairs):
            break
        # Many operations that only move data have equal types. These are not at the same place.
        pairs = certain
    groups = []
    for row, other in pairs.items():
        types = one.types(mine[row]), two.types(others[other])
        if types[0] != types[1]:
            groups.append(
                WorkGroup(
                    before=tuple(before.id[each] for each in mine[row]),
                    after=tuple(after.id[each] for each in others[other]),
                    types=types,
                    flops=works[row][0],
                    other_flops=works[row][1],
                )
            )
    flops, other_flops = map(sum, zip(*works.values(), strict=True))
    return SharedWork(
        flops=flops,
        other_flops=other_flops,
        shared_flops=sum(map(min, works.values())),
        pairs=len(pairs),
        groups=tuple(sorted(groups, key=lambda group: -max(group.flops, group.other_flops))),
        unpaired=tuple(before.id[row] for row in mine.get(_END, [])),
        other_unpaired=tuple(after.id[row] for row in others.get(_END, [])),
        fixed_flops=sum(one.flops(range(len(before)))) - flops,
        other_fixed_flops=sum(two.flops(range(len(after)))) - other_flops,
    )


def _compared_flops(work: tuple[int, int], other_work: tuple[int, int]) -> tuple[int, int]:
    """Returns the work of two groups that correspond.

    Work on weights alone is left out, except where the other group does more: the first step of a recurrent
    network multiplies a state of zeros, which one converter writes out, and another has within a loop.

    Args:
        work: That of the first group, without and on weights alone.
        other_work: That of the other group.
    """
    (own, fixed), (other, other_fixed) = work, other_work
    return own + min(fixed, max(other - own, 0)), other + min(other_fixed, max(own - other, 0))


def _pair(one: _Program, two: _Program) -> dict[int, int]:
    """Returns rows of the second program by rows of the first: aligned ones, then moved ones of equal types.

    Operations that do not read each other, such as the projections of attention, have no certain order.
    """
    before, after = one.with_plain_types(), two.with_plain_types()
    pairs = {row: other for row, other in align(before, after).items() if before.outputs[row]}
    free: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    taken = set(pairs.values())
    for other in range(len(after)):
        if other not in taken and two.has_work(other):
            free[after.type[other], after.outputs[other]].append(other)
    for row in range(len(before)):
        if row not in pairs and one.has_work(row) and free[before.type[row], before.outputs[row]]:
            pairs[row] = free[before.type[row], before.outputs[row]].pop(0)
    return pairs


class _Program:
    """The operations of one model, in which a loop is one operation with all that its blocks contain."""

    def __init__(self, table: OpTable) -> None:
        row_of = {id_: row for row, id_ in enumerate(table.id)}
        self.table = table
        #: For each row, the operation outside of all blocks that contains it, or is it.
        self.tops = [row_of.get("/".join(id_.split("/", 2)[:2]), row) for row, id_ in enumerate(table.id)]
        self.fixed = self._fixed()

    def _fixed(self) -> set[int]:
        """Returns the rows whose results are the same in every call: they depend on weights only.

        Blocks may read any value before them, so operations in and with blocks never count as fixed.
        """
        details, inputs = self.table.details, self.table.inputs
        parents = {top for row, top in enumerate(self.tops) if top != row}
        fixed: set[int] = set()
        for row, (given, sources) in enumerate(zip(details.arguments, inputs, strict=False)):
            reads_names = any(isinstance(argument, str) for argument in given)
            if (
                self.tops[row] not in parents
                and not reads_names
                and given
                and fixed.issuperset(sources or ())
            ):
                fixed.add(row)
        return fixed

    def has_work(self, row: int) -> bool:
        """Returns True if an operation outside of blocks calculates, rather than only moves data."""
        return self.tops[row] == row and bool(self.table.flops[row])

    def flops(self, rows: Iterable[int]) -> tuple[int, int]:
        """Returns the work of rows, without and on weights alone. A loop contains that of its blocks."""
        work = [0, 0]
        for row in rows:
            if self.tops[row] == row:
                work[row in self.fixed] += self.table.flops[row] or 0
        return work[0], work[1]

    def types(self, rows: Iterable[int]) -> str:
        """Returns the types of rows outside of blocks."""
        return " + ".join(self.table.type[row] for row in rows if self.tops[row] == row)

    def with_plain_types(self) -> OpTable:
        """Returns a table in which operations correspond only if they have equal types.

        Results have equal types if their dimensions other than 1 are equal: converters differ in where they
        put such dimensions, and in the precision.
        """
        types = (_SAME_WORK.get(type_, type_) for type_ in self.table.type)
        return replace(
            self.table,
            type=tuple(f"fixed {type_}" if row in self.fixed else type_ for row, type_ in enumerate(types)),
            outputs=tuple(tuple(map(_plain_result, found)) for found in self.table.outputs),
        )

    def groups(self, aligned: Collection[int]) -> Mapping[int, list[int]]:
        """Returns the rows that belong to each aligned row: those that it is computed from, and its bias.

        An operation in a block belongs where the operation with the block does.
        """
        readers: dict[int, list[int]] = defaultdict(list)
        for row, given in enumerate(self.table.inputs):
            for other in given or ():
                if self.tops[row] != self.tops[other]:
                    readers[self.tops[other]].append(self.tops[row])
        owner: dict[int, int] = {}
        for row in reversed(range(len(self.table))):
            if self.tops[row] != row:
                continue
            known = [owner[reader] for reader in readers[row] if owner.get(reader, _END) != _END]
            product = _biased_product(self.table, readers, row)
            if row not in aligned and product in aligned:
                owner[row] = product
            else:
                owner[row] = row if row in aligned else min(known, default=_END)
        groups: dict[int, list[int]] = defaultdict(list)
        for row, top in enumerate(self.tops):
            groups[owner[top]].append(row)
        return groups


def _plain_result(type_: str) -> str:
    """Returns a type of a tensor without dimensions of 1 and the width of floating-point numbers."""
    shape = re.fullmatch(r"tensor<(\w+), \[(.*)\]>", type_)
    if shape is None:
        return type_
    dimensions = [one for one in shape[2].split(", ") if one != "1"]
    return f"{re.sub(r'^(fp|bf).*', 'float', shape[1])} {dimensions}"


def _biased_product(table: OpTable, readers: Mapping[int, list[int]], row: int) -> int:
    """Returns the product to which an operation alone adds a constant, as `linear` does; `_END` for none."""
    given = table.inputs[row] or ()
    if table.type[row] != "add" or len(given) != 1:
        return _END
    (source,) = given
    is_product = _SAME_WORK.get(table.type[source], table.type[source]) == "matmul"
    return source if is_product and readers[source] == [row] else _END
