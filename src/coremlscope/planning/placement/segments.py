"""Segments of a plan: operations in a row on one compute unit, between two changes of unit."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from coremlscope.devices.unit import ComputeUnit


class Segment(msgspec.Struct, frozen=True):
    """Operations in a row on one compute unit.

    Attributes:
        unit: The unit.
        ops: Their ids, in order.
    """

    unit: ComputeUnit
    ops: tuple[str, ...]


def find_segments(walk: Iterable[tuple[str, ComputeUnit | None]]) -> list[Segment]:
    """Returns the segments of operations in order: one more than there are changes of unit.

    Args:
        walk: The operations, nested ones after their owner: the id of each and its unit. Those without a
            unit change none; they belong to no segment.
    """
    found: list[tuple[ComputeUnit, list[str]]] = []
    for id_, unit in walk:
        if unit is None:
            continue
        if not found or found[-1][0] != unit:
            found.append((unit, []))
        found[-1][1].append(id_)
    return [Segment(unit, tuple(ops)) for unit, ops in found]
