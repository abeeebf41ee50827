"""Where the time of a profile goes, put together for tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from coremlscope.measure.attribution import Status
from coremlscope.render.layers import by_layer
from coremlscope.render.words import plural
from coremlscope.results.profile import Group, OpRow, Profile
from coremlscope.units import format_duration

__all__ = ["Kind", "describe_inputs", "group_name", "kinds", "nodes_line", "slowest", "status_line"]

#: Made-up inputs that are named; of more, their number is told.
_MOST_LISTED = 24
_STATUS_WORDS: Mapping[Status, str] = {
    "timed": "timed alone",
    "fused": "fused with others",
    "inside": "inside loops and branches",
    "folded": "folded away",
    "not run": "not run",
    "unattributed": "not found in the engine's graph",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Groups that hold operations of the same types.

    Attributes:
        label: The types: `conv + relu`.
        groups: How many groups.
        ops: How many operations they hold.
        wall_s: The sum of their times.
        share: Its part of all groups' time.
    """

    label: str
    groups: int
    ops: int
    wall_s: float
    share: float


def kinds(profile: Profile) -> list[Kind]:
    """All groups by what they hold, slowest first: by operations, or by layers of a neural network."""
    found: dict[str, list[Group]] = {}
    for group in by_layer(profile):
        found.setdefault(group.label, []).append(group)
    rows = [
        Kind(
            label,
            len(groups),
            sum(len(group.op_ids) for group in groups),
            sum(group.wall_s for group in groups),
            sum(group.share for group in groups),
        )
        for label, groups in found.items()
    ]
    return sorted(rows, key=lambda kind: -kind.wall_s)


def slowest(profile: Profile) -> list[Group]:
    """All groups, slowest first: of operations, or of layers of a neural network."""
    return sorted(by_layer(profile), key=lambda group: -group.wall_s)


def group_name(group: Group, rows: Mapping[str, OpRow]) -> str:
    """What the author called the first operation or layer, and how many more there are."""
    members = [rows[op_id] for op_id in group.op_ids if op_id in rows]
    named = [row for row in members if row.layer] or members
    names = list(dict.fromkeys(row.name for row in named))
    if not names:
        return group.engine_nodes[0][0] if group.engine_nodes else ""
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def status_line(profile: Profile) -> str:
    """What became of the operations: `105 operations: 52 timed alone, 53 fused with others`."""
    counts = Counter(profile.ops.status)
    parts = [f"{counts[status]} {words}" for status, words in _STATUS_WORDS.items() if counts[status]]
    return f"{plural(len(profile.ops), 'operation')}: {', '.join(parts)}" if parts else "no operations"


def describe_inputs(profile: Profile) -> str:
    """Which values went in: `image 1×3×224×224, made up (seed 0)`."""
    request, inputs = profile.request, profile.model.main.inputs
    if len(inputs) > _MOST_LISTED and not request.inputs:
        return f"{len(inputs)}, all made up (seed {request.seed})"
    described = []
    for feature in inputs:
        shape = request.shapes.get(feature.name, feature.shape)
        size = " " + "×".join(map(str, shape)) if shape else ""
        origin = "given" if feature.name in request.inputs else "made up"
        described.append(f"{feature.name}{size} {origin}")
    seed = f" (seed {request.seed})" if len(request.inputs) < len(inputs) else ""
    return ", ".join(described) + seed


def nodes_line(profile: Profile) -> str:
    """How the times of the groups relate to that of a whole run under the engine's profiler."""
    nodes = profile.nodes
    medians = format_duration(sum(group.wall_s for group in profile.groups))
    run, inside = format_duration(nodes.run_s), format_duration(nodes.nodes_s)
    return f"medians add up to {medians}; a whole profiled run takes {run}, {inside} of it in operations"
