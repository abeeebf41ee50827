"""What a prediction does on each unit: its kernels in the order of a plan's segments, and what crosses these.

Kernels are fused within a segment: one that a plan divides is cut. A tensor that is read on another unit than
that which made it crosses once, however many operations read it there, and whatever lies in between. A
segment of which nothing is left as work, such as one with a `reshape`, is a kernel that only starts.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat

import msgspec
import numpy as np

from coremlscope.devices.unit import CPU, ComputeUnit
from coremlscope.planning.cost.latency.geometry import Geometry
from coremlscope.planning.cost.latency.kernels import Flow, Kernel
from coremlscope.planning.cost.latency.table import Floats, KernelTable

#: Cuts a kernel into those of groups of its operations.
Cut = Callable[[Kernel, Sequence[Sequence[str]]], Sequence[Kernel]]


class Work(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a prediction does on each unit.

    Attributes:
        table: The kernels in order.
        steps: How often each runs.
        units: The unit of each.
        kernels: The kernels; empty where only their numbers were recorded.
        parts_of: The place of the whole kernel that each is or is a part of; -1 for one that only starts.
            Empty where each is whole and in its place.
        switches: How often the plan changes the unit.
        returns: How often a prediction comes back to an accelerator, in all iterations of loops.
        moved: Elements that cross from one unit to another.
        converted_bytes: Bytes of inputs and outputs that are converted to or from half precision.
    """

    table: KernelTable
    steps: Floats
    units: tuple[ComputeUnit, ...]
    kernels: tuple[Kernel, ...] = ()
    parts_of: tuple[int, ...] = ()
    switches: int = 0
    returns: int = 0
    moved: Mapping[tuple[ComputeUnit, ComputeUnit], float] = {}
    converted_bytes: int = 0


def place_kernels(
    kernels: Sequence[Kernel],
    walk: Sequence[tuple[str, ComputeUnit | None]],
    flows: Sequence[Flow] = (),
    cut: Cut | None = None,
    table: KernelTable | None = None,
    converted_bytes: int = 0,
) -> Work:
    """Returns the work of kernels on the units of a plan.

    Args:
        kernels: The kernels, as if one unit ran them all. The CPU runs those that are not planned, at last.
        walk: The planned operations in order, each with its unit; see `find_segments`.
        flows: The tensors between operations.
        cut: Cuts a kernel that more than one segment runs; None where there are no such kernels.
        table: The kernels as a table, if many plans share it.
        converted_bytes: Bytes of inputs and outputs that are converted to or from half precision.
    """
    # The segments of `find_segments`; operations without a unit run with those before them.
    home: dict[str, int] = {}
    units: list[ComputeUnit] = []
    place = 0
    for id_, unit in walk:
        if unit is not None and (not units or units[-1] != unit):
            place = len(units)
            units.append(unit)
        home[id_] = place

    @cache
    def steps_of() -> dict[str, int]:
        return {id_: kernel.steps for kernel in kernels for id_ in kernel.ops}

    placed = list(_place_each(kernels, home, len(units), cut))
    for idle in set(range(len(units))).difference([segment for segment, _, _ in placed]):
        ops = [id_ for id_, unit in walk if unit is not None and home[id_] == idle]
        placed.append((idle, -1, _start(ops, steps_of())))
    placed.sort(key=operator.itemgetter(0))
    segments, parts_of, parts = zip(*placed, strict=True) if placed else ((), (), ())
    rows, is_whole = _rows(kernels, parts_of, parts, table)
    steps = np.array([kernel.steps for kernel in parts], dtype=np.float64)
    switches = max(len(units) - 1, 0)
    units.append(CPU)
    return Work(
        table=rows,
        steps=steps,
        units=tuple([units[segment] for segment in segments]),
        kernels=parts,
        parts_of=() if is_whole else parts_of,
        switches=switches,
        returns=_returns(segments, units, steps),
        moved=_moved(flows, home, units, steps_of),
        converted_bytes=converted_bytes,
    )


#: A segment, the whole kernel of which a kernel in it is a part, and that kernel.
_Placed = tuple[int, int, Kernel]


def _place_each(
    kernels: Sequence[Kernel], home: Mapping[str, int], last: int, cut: Cut | None
) -> Iterator[_Placed]:
    """Yields the kernels of each segment, those that are not planned in the last one."""
    for place, kernel in enumerate(kernels):
        ops = kernel.ops
        first = home.get(ops[0]) if ops else None
        if first is not None and (len(ops) == 1 or len(set(map(home.get, ops))) == 1):
            yield first, place, kernel
            continue
        groups = _groups(kernel.ops, home, last)
        pieces = [kernel] if len(groups) == 1 or cut is None else cut(kernel, list(groups.values()))
        for piece in pieces:
            yield home.get(piece.ops[0], last) if piece.ops else last, place, piece


def _rows(
    kernels: Sequence[Kernel], parts_of: Sequence[int], parts: Sequence[Kernel], table: KernelTable | None
) -> tuple[KernelTable, bool]:
    """Returns the table of placed kernels, and whether it is that of the whole ones in their order."""
    pairs = list(zip(parts_of, parts, strict=True))
    extra = [part for part_of, part in pairs if part_of < 0 or part is not kernels[part_of]]
    beyond = {id(kernel): len(kernels) + place for place, kernel in enumerate(extra)}
    order = [beyond.get(id(part), part_of) for part_of, part in pairs]
    whole = KernelTable.of(kernels) if table is None else table
    if order == list(range(len(kernels))):
        return whole, True
    return whole.joined(KernelTable.of(extra)).take(order), False


def _groups(ops: Sequence[str], home: Mapping[str, int], last: int) -> dict[int, list[str]]:
    """Returns operations by their segment, the last one for those that are not planned at all.

    An operation that the plan folds into others stays with the one before it.
    """
    at = next((home[id_] for id_ in ops if id_ in home), last)
    found: dict[int, list[str]] = {}
    for id_ in ops:
        at = home.get(id_, at)
        found.setdefault(at, []).append(id_)
    return found or {last: []}


def _start(ops: Sequence[str], steps_of: Mapping[str, int]) -> Kernel:
    """Returns the kernel of operations that leave no work: it only starts."""
    name = ops[0].rpartition("/")[2]
    steps = max(steps_of.get(id_, 1) for id_ in ops)
    return Kernel(kind="reshape", ops=list(ops), name=name, geometry=Geometry(), steps=steps)


def _returns(segments: Sequence[int], units: Sequence[ComputeUnit], steps: Floats) -> int:
    """Returns how often a prediction comes back to an accelerator: every entry but the first one of each.

    The launch of an accelerator includes its first round trip, from the CPU and back.
    """
    entries: Counter[ComputeUnit] = Counter(units[segment] for segment in segments[:1])
    # Without loops and branches that are skipped, only changes of the segment count.
    ways = _ways(segments, steps) if (steps != 1).any() else zip(*_changes(segments), repeat(1), strict=False)
    for before, after, times in ways:
        if units[before] != units[after]:
            entries[units[after]] += times
    return sum(max(times - 1, 0) for unit, times in entries.items() if unit != CPU)


def _changes(segments: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the segments before and after each change."""
    every = np.array(segments, dtype=np.intp)
    places = np.flatnonzero(every[1:] != every[:-1])
    return every[places].tolist(), every[places + 1].tolist()


def _ways(segments: Sequence[int], steps: Floats) -> Iterator[tuple[int, int, int]]:
    """Yields how often a prediction goes from one segment to another, also back to the first of a loop."""
    begin, every = 0, steps.tolist()
    for place, times in enumerate(every):
        is_last = place + 1 == len(every)
        if not is_last:
            yield segments[place], segments[place + 1], int(min(times, every[place + 1]))
        if is_last or every[place + 1] != times:
            if times > 1:
                yield segments[place], segments[begin], int(times) - 1
            begin = place + 1


def _moved(
    flows: Iterable[Flow],
    home: Mapping[str, int],
    units: Sequence[ComputeUnit],
    steps_of: Callable[[], Mapping[str, int]],
) -> dict[tuple[ComputeUnit, ComputeUnit], float]:
    """Returns the elements that cross: each tensor once to every unit that reads it."""
    crossing: dict[tuple[str, str, ComputeUnit, ComputeUnit], float] = {}
    if len({units[segment] for segment in set(home.values())}) < 2:
        return {}
    for maker, reader, name, size in flows:
        before, after = home.get(maker), home.get(reader)
        if before is None or after is None or units[before] == units[after]:
            continue
        times = max(steps_of().get(reader, 1), 1)
        crossing.setdefault((maker, name, units[before], units[after]), float(size * times))
    found: dict[tuple[ComputeUnit, ComputeUnit], float] = {}
    for (*_, here, there), elements in crossing.items():
        found[here, there] = found.get((here, there), 0.0) + elements
    return found
