"""Chooses among paths of equal cost by the last bit of their sums, as Core ML does.

Many plans are ties: a `relu` costs the same on every unit, so that the path which changes the unit before it
costs as much as the one which changes after it. Floating-point sums of the two differ in the last bit, by the
order in which they are added, and Core ML takes the smaller one. Published plans of an M4 show the order: the
costs of a segment from its last operation to its first, then its launch, then the change that follows it;
then the segments in program order. Of 45 published plans that end with such a tie, and whose costs are all
known, 41 have the smaller sum (or, where the sums are the same to the bit, the path without the change);
`greater`, `less_equal`, `select` and a strided `slice_by_index` do not (`python -m benchmarks.plan context`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coremlscope.planning.placement.backend import BACKENDS, Backend
from coremlscope.planning.placement.search import Route, TransitionCosts
from coremlscope.results.plan import TIE_MS

#: The last operation of a segment, by its position, and the backend of the segment.
_End = tuple[int, Backend]

#: Additions for each operation of the list after which ties are left as they are.
_MOST_ADDITIONS = 100


class _Segment(msgspec.Struct, frozen=True):
    """Operations in a row on one backend, as the last segment of a path.

    Attributes:
        first: The position of its first operation.
        ms: The sum of its costs, from the last operation to the first.
        before: The end of the segment before it; None at the start of the list.
    """

    first: int
    ms: float
    before: _End | None


def settle(
    costs: Sequence[Mapping[Backend, float]], transition_costs: TransitionCosts, route: Route
) -> tuple[Backend, ...]:
    """Returns the path with the smallest sum, to the last bit, among the cheapest ones.

    Of paths whose sums are equal, it is that with the fewest changes of backend, then the earliest ones, then
    the later backend in the order of `BACKENDS`.

    Args:
        costs: For each operation, its cost on every backend that may run it, in milliseconds. They must be
            Core ML's own to the last bit; otherwise the choice means nothing.
        transition_costs: The costs of a path besides its operations.
        route: The cheapest path, and what it costs up to each operation.
    """
    if not costs:
        return ()
    reached = [dict(zip(BACKENDS, row, strict=True)) for row in route.reached_ms]
    finish = transition_costs.finish_ms
    last = len(costs) - 1
    ends = [
        (last, backend)
        for backend, ms in reached[last].items()
        if ms + finish.get(backend, 0.0) <= route.total_ms + TIE_MS
    ]
    segments = _segments(costs, transition_costs, reached, ends)
    if segments is None:
        return route.backends
    best: dict[_End, tuple[tuple[float, int, int, int], _Segment]] = {}
    for end in sorted(segments, key=lambda one: one[0]):
        closing = finish.get(end[1], 0.0) if end[0] == last else transition_costs.switch_ms
        launch = transition_costs.launch_ms.get(end[1], 0.0)
        ranked = []
        for segment in segments[end]:
            ms, changes, order = segment.ms + launch + closing, 0, 0
            if segment.before is not None:
                before = best[segment.before][0]
                ms, changes, order = before[0] + ms, before[1] + 1, -BACKENDS.index(segment.before[1])
            ranked.append(((ms, changes, segment.first, order), segment))
        best[end] = min(ranked, key=lambda one: one[0])
    end = min(ends, key=lambda one: (*best[one][0][:2], -BACKENDS.index(one[1])))
    return tuple(_path(end, {one: segment for one, (_, segment) in best.items()}))


def _segments(
    costs: Sequence[Mapping[Backend, float]],
    transition_costs: TransitionCosts,
    reached: Sequence[Mapping[Backend, float]],
    ends: Sequence[_End],
) -> dict[_End, list[_Segment]] | None:
    """The segments of all cheapest paths by their ends; None if there are too many to add them all.

    Also None where a cost is beyond the largest number: such paths cannot be told apart.
    """
    found: dict[_End, list[_Segment]] = {}
    open_ends = list(ends)
    left = _MOST_ADDITIONS * len(costs)
    while open_ends:
        end = open_ends.pop()
        if end in found:
            continue
        found[end] = list(_ending(end, costs, transition_costs, reached))
        if not found[end]:
            return None
        left -= end[0] - min(segment.first for segment in found[end])
        if left < 0:
            return None
        open_ends.extend(segment.before for segment in found[end] if segment.before is not None)
    return found


def _ending(
    end: _End,
    costs: Sequence[Mapping[Backend, float]],
    transition_costs: TransitionCosts,
    reached: Sequence[Mapping[Backend, float]],
) -> Iterator[_Segment]:
    """Yields the segments with this end that are part of a cheapest path up to it."""
    place, backend = end
    entry = transition_costs.switch_ms + transition_costs.launch_ms.get(backend, 0.0)
    ms = 0.0
    while True:
        spent = costs[place][backend]
        ms += spent
        if place == 0:
            yield _Segment(0, ms, None)
            return
        least = reached[place][backend] - spent + TIE_MS
        before = reached[place - 1]
        for other, ms_before in before.items():
            if other != backend and ms_before + entry <= least:
                yield _Segment(place, ms, (place - 1, other))
        if before.get(backend, least + 1.0) > least:
            return
        place -= 1


def _path(end: _End, segments: Mapping[_End, _Segment]) -> list[Backend]:
    """The backends of all operations up to an end."""
    path: list[Backend] = []
    at: _End | None = end
    while at is not None:
        segment = segments[at]
        path += [at[1]] * (at[0] - segment.first + 1)
        at = segment.before
    path.reverse()
    return path
