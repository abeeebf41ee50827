"""Takes the cost of the engine's profiler off the times of loops and branches.

The profiler records every execution of a node when the node ends. The record of a top-level node is not part
of any node's time, but records of nested nodes are part of the time of the loop that contains them, and may
take many times as long as its steps. All records of a run together take the time by which the profiler slows
that run, so a loop that contains nearly all of them is timed as well as the run without the profiler. Loops
that are distinguished only by the assumption that all records take equally long are timed as one group.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from coremlscope.measure.embedded.attribution import Attribution, NodeGroup
from coremlscope.runtime.engines.base import NodeProfile

#: Executions of nested nodes in a run from which records may decide the time of a group.
_MANY = 50
#: Share of a group's remaining time, and of a prediction, that the uncertainty of its records may reach.
_UNCERTAIN_OF_GROUP = 0.5
_UNCERTAIN_OF_PREDICTION = 0.1


class GroupTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of the groups of a function.

    Attributes:
        attribution: The attribution, with groups joined that cannot be distinguished.
        seconds: For each group, its time in each profiled run without the records of nested nodes.
        executions: Executions of nested nodes in a run.
        recording_s: Median of the time that was taken off all groups in a run.
        joined: Groups that were joined because records decide their times; empty if there are none.
    """

    attribution: Attribution
    seconds: tuple[tuple[float, ...], ...]
    executions: int
    recording_s: float
    joined: tuple[NodeGroup, ...] = ()


def time_groups(attribution: Attribution, profiled: NodeProfile, plain_s: float) -> GroupTimes:
    """Returns the times of groups without the cost of the profiler.

    Args:
        attribution: The groups.
        profiled: The result of the engine's profiler.
        plain_s: Median time of a prediction without the profiler.
    """
    records = _Records(profiled, plain_s)
    uncertain = [index for index, group in enumerate(attribution.groups) if records.decide(group)]
    joined: tuple[NodeGroup, ...] = ()
    if uncertain:
        loops = [i for i, group in enumerate(attribution.groups) if records.within(group) >= _MANY]
        together = attribution.joined(loops)
        if any(map(records.decide, together.groups)):
            loops = list(range(len(attribution.groups)))
            together = attribution.joined(loops)
        joined = tuple(attribution.groups[index] for index in loops) if len(loops) > 1 else ()
        attribution = together
    taken_off = [sum(times) for times in zip(*map(records.taken_off, attribution.groups), strict=True)]
    return GroupTimes(
        attribution=attribution,
        seconds=tuple(map(records.seconds, attribution.groups)),
        executions=round(records.nested),
        recording_s=statistics.median(taken_off) if taken_off else 0.0,
        joined=joined,
    )


class _Records:
    """The profiler's records of executions, and the time that each of them takes."""

    def __init__(self, profiled: NodeProfile, plain_s: float) -> None:
        self._nodes = profiled.nodes
        self._plain_s = plain_s
        count = len(profiled.seconds)
        self._within = [0.0] * len(profiled.nodes)
        total = 0.0
        for node in profiled.nodes:
            total += node.runs / count
            outer = node.outer
            while outer is not None:
                self._within[outer] += node.runs / count
                outer = profiled.nodes[outer].outer
        self._total = total
        #: Executions of nested nodes in a run.
        self.nested = sum(node.runs / count for node in profiled.nodes if node.outer is not None)
        slowed = [max(seconds - plain_s, 0.0) for seconds in profiled.seconds]
        self._each = [seconds / total if total else 0.0 for seconds in slowed]

    def within(self, group: NodeGroup) -> float:
        """Returns the executions of nested nodes of a group in a run."""
        return sum(self._within[node] for node in group.nodes)

    def taken_off(self, group: NodeGroup) -> Sequence[float]:
        """Returns the time that records take within a group in each run, at most all of it."""
        within = self.within(group)
        return [min(within * each, raw) for each, raw in zip(self._each, self._raw(group), strict=True)]

    def seconds(self, group: NodeGroup) -> tuple[float, ...]:
        """Returns the time of a group in each run, without records."""
        return tuple(raw - off for raw, off in zip(self._raw(group), self.taken_off(group), strict=True))

    def decide(self, group: NodeGroup) -> bool:
        """True if the remaining time depends on how the cost of records differs between groups."""
        within = self.within(group)
        if within < _MANY:
            return False
        uncertain = statistics.median(self.taken_off(group)) * (1 - within / self._total)
        left = statistics.median(self.seconds(group))
        return uncertain > max(_UNCERTAIN_OF_GROUP * left, _UNCERTAIN_OF_PREDICTION * self._plain_s)

    def _raw(self, group: NodeGroup) -> list[float]:
        runs = range(len(self._each))
        return [sum(self._nodes[node].seconds[run] for node in group.nodes) for run in runs]
