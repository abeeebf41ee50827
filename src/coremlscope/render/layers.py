"""Times of neural networks by the layers that their authors know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coremlscope.results.profile import Group, OpRow, Profile

__all__ = ["by_layer"]


def by_layer(profile: Profile) -> Sequence[Group]:
    """The groups, those that work on one layer joined into one.

    Layers that share a group stay together: a group's time is never split. Programs have no layers, and keep
    their groups.
    """
    rows = {row.id: row for row in profile.ops}
    if not any(row.layer_type for row in rows.values()):
        return profile.groups
    joined: list[list[Group]] = []
    keys: list[set[tuple[str, str, str]]] = []
    for group in profile.groups:
        own = {key for op_id in group.op_ids if (key := _key(rows.get(op_id))) is not None}
        touched = [index for index, known in enumerate(keys) if known & own]
        members = [*(member for index in touched for member in joined[index]), group]
        own.update(*(keys[index] for index in touched))
        joined = [*(m for index, m in enumerate(joined) if index not in touched), members]
        keys = [*(k for index, k in enumerate(keys) if index not in touched), own]
    return [_join(members, rows) for members in joined]


def _key(row: OpRow | None) -> tuple[str, str, str] | None:
    """What tells a layer from all others; None for operations that are not of a layer."""
    if row is None or row.layer is None:
        return None
    return row.function, row.layer, row.layer_type or ""


def _join(members: Sequence[Group], rows: Mapping[str, OpRow]) -> Group:
    ops = [op_id for member in members for op_id in member.op_ids if op_id in rows]
    if not ops:
        return members[0]
    found = [rows[op_id] for op_id in ops]
    # A layer counts once, however many operations it came to; what arranges data between layers, not at all.
    known = {_key(row): row.layer_type or "" for row in found if row.layer is not None}
    counted = Counter(known.values() or [row.type for row in found])
    label = " + ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.items())
    single = members[0] if len(members) == 1 else None
    return Group(
        label,
        tuple(ops),
        sum(member.wall_s for member in members),
        sum(member.share for member in members),
        tuple(node for member in members for node in member.engine_nodes),
        single.low_s if single else None,
        single.high_s if single else None,
        members[0].stage,
    )
