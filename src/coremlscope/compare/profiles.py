"""What differs between profiles: phase by phase, by what operations are, and operation by operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from coremlscope.compare.alignment import align
from coremlscope.compare.change import Change, change_of_rounds, change_of_samples
from coremlscope.compare.plans import Placement, PlacementChange, compare_placements, placements
from coremlscope.figures import Figure
from coremlscope.notebook import data_frame
from coremlscope.results.profile import Group, Profile

__all__ = [
    "SCHEMA",
    "Comparison",
    "Difference",
    "KindChange",
    "RowChange",
    "Subject",
    "compare_plans",
    "compare_profiles",
    "label_subjects",
]

#: Name and version of the form that is written.
SCHEMA = "coremlscope.comparison/1"

Presence = Literal["both", "added", "removed"]
#: The seconds of each round of a model that was timed in turns with others.
Rounds = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Subject:
    """One of the things that are compared.

    Attributes:
        label: What it is called here: as short as tells it from the others.
        path: Where the model was read from.
        facts: What it is and how it was run, in words, by what the fact is of.
    """

    label: str
    path: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KindChange:
    """The measured time of all operations that the engine ran in one kind of group.

    Attributes:
        label: The types of the operations of a group: `conv + relu`.
        before: How many groups the base has.
        after: How many groups the other has.
        time: The sum of their times, in seconds.
    """

    label: str
    before: int
    after: int
    time: Change


@dataclass(frozen=True, slots=True)
class RowChange:
    """The measured time of operations that correspond to each other. It is never split among operations
    that the engine runs as one, so a row holds all that belongs together on either side.

    Attributes:
        label: Types of the operations; where they differ, those of both: `conv + relu → conv + silu`.
        name: What the author called the first one.
        before: Ids in the base.
        after: Ids in the other.
        presence: `added` and `removed` where the operations have no counterpart.
        time: Seconds.
    """

    label: str
    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    presence: Presence
    time: Change


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between the base and one other subject.

    Attributes:
        base: Index of the base among the subjects.
        other: Index of the other.
        in_turns: True where predictions of both were timed in turns, round by round.
        incomparable: Why measured times of the two are not compared; empty where they are.
        phases: Compile, load and predict, in seconds.
        kinds: By what operations are, largest difference first.
        rows: Operation by operation, largest difference first.
        matched: How many operations have a counterpart.
        renamed: How many of them have another name.
        added: Ids of operations of the other without a counterpart.
        removed: Ids of operations of the base without a counterpart.
        placements: Plans and estimates for devices, of which nothing was measured.
    """

    base: int
    other: int
    in_turns: bool
    incomparable: str
    phases: Mapping[str, Change]
    kinds: tuple[KindChange, ...]
    rows: tuple[RowChange, ...]
    matched: int
    renamed: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    placements: tuple[PlacementChange, ...] = ()

    @property
    def telling_rows(self) -> tuple[RowChange, ...]:
        """The rows whose times differ by more than noise; behind them those of which that cannot be said."""
        clear = [row for row in self.rows if row.time.verdict in ("slower", "faster")]
        alone = [row for row in self.rows if row.presence != "both"]
        rest = [row for row in self.rows if row.presence == "both" and row.time.verdict == "unclear"]
        return (*clear, *alone, *rest)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two or more subjects, each against the first.

    Attributes:
        subjects: What is compared; the first is the base.
        differences: Of each other subject from the base.
    """

    subjects: tuple[Subject, ...]
    differences: tuple[Difference, ...]

    @property
    def differing(self) -> tuple[str, ...]:
        """The facts in which the subjects differ."""
        names = dict.fromkeys(name for subject in self.subjects for name in subject.facts)
        return tuple(name for name in names if len({s.facts.get(name) for s in self.subjects}) > 1)

    def slower_by(self, share: float) -> tuple[str, ...]:
        """Labels of the subjects whose predictions are slower than the base's by more than a share.

        Of what was measured the whole interval of the ratio has to lie above: noise alone makes nothing
        slower. Of estimates for one device under one setting the ratio counts: they have no noise, and what
        is wrong with one is mostly wrong with the other.
        """
        found = []
        for difference in self.differences:
            predict = difference.phases.get("predict")
            ratios = [predict.low] if predict is not None else []
            ratios += [p.latency.ratio for p in difference.placements if p.latency is not None]
            if any(ratio is not None and ratio > 1 + share for ratio in ratios):
                found.append(self.subjects[difference.other].label)
        return tuple(found)

    def to_pandas(self) -> Any:
        """The operations whose times are compared, as a pandas DataFrame, largest difference first.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        rows = [
            {
                "subject": self.subjects[difference.other].label,
                **{name: getattr(row, name) for name in ("label", "name", "before", "after", "presence")},
                "before_s": row.time.before,
                "after_s": row.time.after,
                **{name: getattr(row.time, name) for name in ("ratio", "low", "high", "verdict", "origin")},
            }
            for difference in self.differences
            for row in difference.rows
        ]
        return data_frame({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})

    def _repr_html_(self) -> str:
        from coremlscope.render.cards import comparison_card

        return comparison_card(self)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"schema": SCHEMA, **dataclasses.asdict(self), "differing": list(self.differing)}


def compare_profiles(
    profiles: Sequence[Profile],
    *,
    rounds: Sequence[Rounds] = (),
    labels: Sequence[str] = (),
    settings: Collection[str] = (),
) -> Comparison:
    """Compares profiles with the first of them.

    Args:
        profiles: Two or more.
        rounds: For each of them, the seconds of predictions that were timed in turns with the others; empty
            for those that were not.
        labels: What to call them; by their paths where this is empty.
        settings: Under which settings plans are compared; all where this is empty.
    """
    names = labels or label_subjects([profile.model.path for profile in profiles])
    subjects = tuple(
        Subject(name, profile.model.path, describe(profile))
        for name, profile in zip(names, profiles, strict=True)
    )
    turns = rounds or [()] * len(profiles)
    differences = tuple(
        _Pair(profiles[0], profile, (turns[0], turns[index]), settings).difference(index)
        for index, profile in enumerate(profiles)
        if index
    )
    return Comparison(subjects, differences)


def compare_plans(chosen: Sequence[Placement]) -> Comparison:
    """Compares plans of one model, for devices or settings, with the first of them. Nothing is measured."""
    subjects = tuple(
        Subject(
            place.label,
            place.path,
            {
                "device": place.plan.device,
                "system": place.plan.os,
                "compute units": place.setting.compute_units,
            },
        )
        for place in chosen
    )
    same = {row: row for row in range(len(chosen[0].ops))}
    differences = tuple(
        Difference(
            0, other, False, "", {}, (), (), len(same), 0, (), (),
            (compare_placements(chosen[0], place, same),),
        )
        for other, place in enumerate(chosen)
        if other
    )  # fmt: skip
    return Comparison(subjects, differences)


def label_subjects(paths: Sequence[str]) -> list[str]:
    """The shortest ends of paths that tell them apart; equal ones are numbered."""
    parts = [PurePath(path).parts or ("model",) for path in paths]
    depth = 1
    while depth < max(map(len, parts)) and len({p[-depth:] for p in parts}) < len(set(parts)):
        depth += 1
    labels = [str(PurePath(*p[-depth:])) for p in parts]
    return [
        f"{label} #{number}" if labels.count(label) > 1 else label for number, label in enumerate(labels, 1)
    ]


def describe(profile: Profile) -> dict[str, str]:
    """What was profiled and how, as facts that can be held against those of others."""
    model, host, request = profile.model, profile.host, profile.request
    work = model.main.work
    facts = {
        "kind": model.kind,
        "specification": str(model.spec_version),
        "parameters": str(model.parameters),
        "weights": ", ".join(dict.fromkeys(group.storage for group in model.weights)),
        "weight bytes": str(model.weights_bytes),
        "FLOPs": "" if work is None else str(work.flops),
        "operations": str(len(profile.ops)),
        "function": request.function,
        "shapes": ", ".join(f"{name} {'×'.join(map(str, s))}" for name, s in sorted(request.shapes.items())),
        "inputs given": ", ".join(request.inputs),
        "weights made up": "yes" if request.random_weights else "",
        "compute units": request.compute_units,
        "host": host.label,
        "cores": str(host.cores),
        "threads": str(host.threads),
        "system": host.os,
        "power mode": host.power_mode,
    }
    return {name: text for name, text in facts.items() if text}


def why_incomparable(before: Profile, after: Profile) -> str:
    """Why times that were measured for two profiles say nothing about the models; empty where they do."""
    a, b = before.host, after.host
    if a.label != b.label or a.cores != b.cores:
        hosts = [f"{host.label} ({host.cores} cores)" for host in (a, b)]
        return f"measured on different hosts: {hosts[0]} and {hosts[1]}"
    if a.threads != b.threads:
        return f"measured with different numbers of threads: {a.threads} and {b.threads}"
    return ""


class _Pair:
    """Two profiles, and which operation of the one is which of the other."""

    def __init__(
        self,
        before: Profile,
        after: Profile,
        rounds: tuple[Rounds, Rounds],
        settings: Collection[str] = (),
    ) -> None:
        self.before, self.after, self.settings = before, after, settings
        self.rounds = rounds if all(rounds) else None
        self.incomparable = why_incomparable(before, after)
        self.matches = align(before.ops, after.ops)
        self.names = [dict(zip(ops.id, ops.name, strict=True)) for ops in (before.ops, after.ops)]
        self.phases = self._phases()
        self.drift = self._drift()

    def difference(self, other: int) -> Difference:
        """All that differs, of the subject with this index."""
        before, after, matches = self.before.ops, self.after.ops, self.matches
        taken = set(matches.values())
        return Difference(
            base=0,
            other=other,
            in_turns=self.rounds is not None,
            incomparable=self.incomparable,
            phases=self.phases,
            kinds=tuple(sorted(self._kinds(), key=lambda kind: -_size(kind.time))),
            rows=tuple(sorted(self._rows(), key=lambda row: -_size(row.time))),
            matched=len(matches),
            renamed=sum(before.name[i] != after.name[j] for i, j in matches.items()),
            added=tuple(id_ for index, id_ in enumerate(after.id) if index not in taken),
            removed=tuple(id_ for index, id_ in enumerate(before.id) if index not in matches),
            placements=tuple(self._placements()),
        )

    def _placements(self) -> Iterator[PlacementChange]:
        """The plans for the same device under the same setting."""
        sides = [
            placements(profile.model.path, profile.ops, profile.plans, self.settings)
            for profile in (self.before, self.after)
        ]
        others = {(p.plan.device, p.plan.os, p.setting.compute_units): p for p in sides[1]}
        for before in sides[0]:
            after = others.get((before.plan.device, before.plan.os, before.setting.compute_units))
            if after is not None:
                yield compare_placements(before, after, self.matches)

    def _phases(self) -> dict[str, Change]:
        changes = {}
        for name in ("compile", "load", "predict"):
            a, b = getattr(self.before, name), getattr(self.after, name)
            if self.incomparable:
                changes[name] = Change.apart(a.statistics.median, b.statistics.median, "measured")
            elif name == "predict" and self.rounds is not None:
                changes[name] = change_of_rounds(*self.rounds)
            else:
                changes[name] = change_of_samples(a.samples_s, b.samples_s)
        return changes

    def _drift(self) -> float:
        """How much the profiled runs drifted apart: against the predictions that were timed in turns."""
        ratio = self.phases["predict"].ratio
        if self.rounds is None or not ratio or not self.before.nodes.run_s:
            return 1.0
        return self.after.nodes.run_s / self.before.nodes.run_s / ratio or 1.0

    def _time(self, before: Sequence[Group], after: Sequence[Group]) -> Change:
        """The times of groups on either side; intervals are added up as if all erred in the same way."""
        sums = [_sum(groups) for groups in (before, after)]
        values = [sum(group.wall_s for group in groups) for groups in (before, after)]
        if not before or not after:
            only = [value if groups else None for value, groups in zip(values, (before, after), strict=True)]
            return Change.apart(only[0], only[1], "measured")
        if self.incomparable:
            return Change.apart(values[0], values[1], "measured")
        if sums[0] is None or sums[1] is None:
            return Change.unsure(*values)
        return Change.within(sums[0], sums[1], widened=self.drift)

    def _kinds(self) -> Iterator[KindChange]:
        sides = [_by_label(profile.groups) for profile in (self.before, self.after)]
        for label in dict.fromkeys([*sides[0], *sides[1]]):
            before, after = (side.get(label, []) for side in sides)
            yield KindChange(label, len(before), len(after), self._time(before, after))

    def _rows(self) -> Iterator[RowChange]:
        for befores, afters in self._components():
            before = [self.before.groups[index] for index in befores]
            after = [self.after.groups[index] for index in afters]
            yield self._row(before, after)
        # What the engine adds has no names to go by.
        sides = [
            _by_label([group for group in profile.groups if not group.op_ids])
            for profile in (self.before, self.after)
        ]
        for label in dict.fromkeys([*sides[0], *sides[1]]):
            before, after = (side.get(label, []) for side in sides)
            yield self._row(before, after)

    def _row(self, before: Sequence[Group], after: Sequence[Group]) -> RowChange:
        left, right = (tuple(id_ for group in groups for id_ in group.op_ids) for groups in (before, after))
        labels = [" + ".join(dict.fromkeys(group.label for group in groups)) for groups in (before, after)]
        presence: Presence = "both"
        if not before:
            presence = "added"
        elif not after:
            presence = "removed"
        shown = list(dict.fromkeys(label for label in labels if label))
        name = self.names[0][left[0]] if left else self.names[1][right[0]] if right else ""
        return RowChange(" → ".join(shown), name, left, right, presence, self._time(before, after))

    def _components(self) -> Iterator[tuple[list[int], list[int]]]:
        """Groups of both sides that hold operations of each other: what was fused anew stays together."""
        links: dict[tuple[int, int], set[tuple[int, int]]] = {}
        sides = [self.before.ops.group, self.after.ops.group]
        for side, groups in enumerate(sides):
            for index in groups:
                if index >= 0:
                    links.setdefault((side, index), set())
        for i, j in self.matches.items():
            left, right = (0, sides[0][i]), (1, sides[1][j])
            if left in links and right in links:
                links[left].add(right)
                links[right].add(left)
        seen: set[tuple[int, int]] = set()
        for start in links:
            if start in seen:
                continue
            queue, found = [start], []
            seen.add(start)
            while queue:
                node = queue.pop()
                found.append(node)
                queue += links[node] - seen
                seen |= links[node]
            yield sorted(i for side, i in found if side == 0), sorted(i for side, i in found if side == 1)


def _by_label(groups: Sequence[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.label, []).append(group)
    return found


def _sum(groups: Sequence[Group]) -> Figure | None:
    """The sum of the groups' times; None where the interval of one is not known."""
    total = Figure(0.0, 0.0, 0.0, "measured")
    for group in groups:
        if group.low_s is None or group.high_s is None:
            return None
        total += Figure(group.wall_s, group.low_s, group.high_s, "measured")
    return total


def _size(change: Change) -> float:
    return abs((change.after or 0.0) - (change.before or 0.0))
