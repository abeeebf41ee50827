"""Operations that Apple's compiler folded into others, left out or added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from coremlscope.results.operations import OpTable

#: Operations whose weights take up the operations after them.
_WEIGHTED = ("conv", "conv_transpose", "linear", "matmul")
#: Operations that a product takes up: those after it, in its weights, and those before it, in its padding.
_AFTER, _BEFORE = ("batch_norm", "mul", "add", "linear_activation"), ("pad",)


def describe_folding(before: OpTable, after: OpTable, matches: Mapping[int, int]) -> tuple[str, ...]:
    """Describes how a compiled model differs from its source.

    Args:
        before: The operations of the source.
        after: Those of the compiled model.
        matches: Rows of `after` by rows of `before` that correspond.

    Returns:
        Clauses with the number of operations, most frequent first: `26 batch_norm folded into conv`.
    """
    counts = Counter(_changes(before, after, matches))
    taken = set(matches.values())
    counts.update(f"{after.type[row]} added" for row in range(len(after)) if row not in taken)
    return tuple(f"{count} {text}" for text, count in counts.most_common())


def _changes(before: OpTable, after: OpTable, matches: Mapping[int, int]) -> Iterator[str]:
    readers = _readers(before)
    for row in range(len(before)):
        type_ = before.type[row]
        if row in matches:
            if after.type[matches[row]] != type_:
                yield f"{type_} replaced by {after.type[matches[row]]}"
            elif _is_fused(before, after, matches, row):
                yield f"{type_} fused into the layer before"
            continue
        source = _kept(before.inputs, matches, row)
        target = _kept(readers, matches, row)
        if type_ in _AFTER and source is not None and before.type[source] in _WEIGHTED:
            yield f"{type_} folded into {before.type[source]}"
        elif type_ in _BEFORE and target is not None and before.type[target] in _WEIGHTED:
            yield f"{type_} folded into {before.type[target]}"
        else:
            yield f"{type_} left out"


def _is_fused(before: OpTable, after: OpTable, matches: Mapping[int, int], row: int) -> bool:
    """True if an operation with a layer of its own is part of the layer before it in the other network."""
    inputs = before.inputs[row] or ()
    source = _kept(before.inputs, matches, row)
    if len(inputs) != 1 or source is None or before.layer[row] == before.layer[source]:
        return False
    layer = after.layer[matches[row]]
    return layer is not None and layer == after.layer[matches[source]]


def _readers(table: OpTable) -> list[tuple[int, ...] | None]:
    """Returns the operations that read the results of each operation."""
    readers: list[list[int]] = [[] for _ in range(len(table))]
    for row, sources in enumerate(table.inputs):
        for source in sources or ():
            readers[source].append(row)
    return [tuple(rows) for rows in readers]


def _kept(
    neighbours: tuple[tuple[int, ...] | None, ...] | list[tuple[int, ...] | None],
    matches: Mapping[int, int],
    row: int,
) -> int | None:
    """Follows single neighbours to the next operation that has a counterpart."""
    seen = {row}
    while len(given := neighbours[row] or ()) == 1:
        (row,) = given
        if row in matches:
            return row
        if row in seen:
            return None
        seen.add(row)
    return None
