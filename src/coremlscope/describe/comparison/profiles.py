"""Compares profiles by phase, by kind of operation, and by operation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.base.folders import split_archive
from coremlscope.base.units import short_repr
from coremlscope.describe.comparison.alignment import align
from coremlscope.describe.comparison.change import Change, change_of_rounds, change_of_samples
from coremlscope.describe.comparison.folding import describe_folding
from coremlscope.describe.comparison.plans import PlanChange, compare_views, label_of, plan_views
from coremlscope.describe.comparison.work import pair_work
from coremlscope.model.ir import CORE_AI
from coremlscope.results.answer import PairVerdict
from coremlscope.results.encoding import COMPARISON, plain
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Group, Measurement
from coremlscope.results.migration import OutputAgreement, SharedWork
from coremlscope.results.model import COMPILED_BY, ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import PlanView
from coremlscope.results.presentation import Presented
from coremlscope.results.profile import Profile

#: The containers of compiled models.
_COMPILED = ("mlmodelc", "espresso")

Presence = Literal["both", "added", "removed"]
#: The seconds of each interleaved round of a model.
Rounds = Sequence[Sequence[float]]


class Subject(msgspec.Struct, frozen=True):
    """One of the compared models or profiles.

    Attributes:
        label: The shortest label that distinguishes it from the others.
        path: The path from which the model was read.
        facts: Properties of the model and of the measurement: readable values by label.
    """

    label: str
    path: str
    facts: Mapping[str, str]


class KindChange(msgspec.Struct, frozen=True):
    """The measured time of all operations that the engine ran in one kind of group.

    Attributes:
        label: The types of the operations of a group: `conv + relu`.
        before: Number of groups in the base.
        after: Number of groups in the other.
        time: The sum of their times, in seconds.
    """

    label: str
    before: int
    after: int
    time: Change


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """The measured time of operations that correspond to each other. It is never split among operations
    that the engine runs as one, so a row holds all that belongs together on either side.

    Attributes:
        label: Types of the operations; where they differ, those of both: `conv + relu → conv + silu`.
        name: The author's name of the first operation.
        before: Ids of the operations in the base.
        after: Ids of the operations in the other.
        presence: `added` or `removed` if the operations have no counterpart.
        time: The measured time, in seconds.
    """

    label: str
    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    presence: Presence
    time: Change


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between the base and one other subject.

    Attributes:
        base: Index of the base among the subjects.
        other: Index of the other.
        interleaved: True if predictions of both were timed in interleaved rounds.
        measured: Labels of the two compared measurements with setting and power mode, where they have one;
            empty if either subject has none.
        incomparable: Why the measured times are not compared; empty if they are.
        phases: Compile, load and predict, in seconds.
        kinds: Times by kind of group, largest difference first.
        rows: Times by operation, largest difference first.
        matched: Number of operations with a counterpart.
        renamed: Number of matched operations with another name.
        added: Ids of operations of the other without a counterpart.
        removed: Ids of operations of the base without a counterpart.
        types: The number of operations of each type in the base and in the other, where they differ.
        compiled: What Apple's compiler did to the operations, if the other subject is compiled and the base
            is not: `26 batch_norm folded into conv`. Empty for ML Programs with different metadata, which are
            different versions of a model.
        plans: Changes of plans and estimates for devices, which are not measured.
        estimated: What the answers of both say by device and setting, each under its own best setting first.
        answer: These in a sentence; empty where nothing is estimated.
        work: The work that a Core ML and a Core AI model have in common; None for models of one framework.
        agreement: How their values agree; None if they were not compared.
    """

    base: int
    other: int
    interleaved: bool = False
    measured: tuple[str, ...] = ()
    incomparable: str = ""
    phases: Mapping[str, Change] = msgspec.field(default_factory=dict)
    kinds: tuple[KindChange, ...] = ()
    rows: tuple[RowChange, ...] = ()
    matched: int
    renamed: int = 0
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    types: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    compiled: tuple[str, ...] = ()
    plans: tuple[PlanChange, ...] = ()
    estimated: tuple[PairVerdict, ...] = ()
    answer: str = ""
    work: SharedWork | None = None
    agreement: OutputAgreement | None = None

    @property
    def telling_rows(self) -> tuple[RowChange, ...]:
        """The rows whose times differ by more than noise, followed by those with too few samples."""
        clear = [row for row in self.rows if row.time.verdict in ("slower", "faster")]
        alone = [row for row in self.rows if row.presence != "both"]
        unsure = [row for row in self.rows if row.time.verdict == "unclear" and row.time.low is None]
        rest = [row for row in unsure if row.presence == "both"]
        return (*clear, *alone, *rest)


class Comparison(Presented, msgspec.Struct, frozen=True):
    """Two or more subjects, each compared with the first.

    Attributes:
        subjects: The compared subjects; the first is the base.
        differences: The differences of each other subject from the base.
        profiles: The profile of each model, saved or made for this, also of those that failed.
        exit_code: That of the first failure, or 130 after Ctrl-C.
    """

    subjects: tuple[Subject, ...]
    differences: tuple[Difference, ...]
    profiles: tuple[Profile, ...] = ()
    exit_code: int = 0

    __repr__ = short_repr

    @property
    def differing(self) -> tuple[str, ...]:
        """The facts in which the subjects differ."""
        names = dict.fromkeys(name for subject in self.subjects for name in subject.facts)
        return tuple(name for name in names if len({s.facts.get(name) for s in self.subjects}) > 1)

    def slower_by(self, share: float) -> Mapping[str, float | None]:
        """Returns the largest ratio of subjects whose predictions are slower by more than a share, by label.

        It is None for a subject of which no time could be compared with the base. For measured times, the
        whole interval of the ratio must be above the share, so that noise does not make a model slower. For
        estimates for one device under one setting, the ratio decides: they have no noise, and their errors
        are mostly common to both.
        """
        found: dict[str, float | None] = {}
        for difference in self.differences:
            predict = difference.phases.get("predict")
            ratios = [predict.low] if predict is not None else []
            ratios += [p.latency.ratio for p in difference.plans if p.latency is not None]
            largest = max((ratio for ratio in ratios if ratio is not None), default=None)
            if largest is None or largest > 1 + share:
                found[self.subjects[difference.other].label] = largest
        return found

    def to_json(self) -> dict[str, Any]:
        """Converts the comparison to plain JSON values, with the schema's name."""
        return {
            "schema": COMPARISON,
            **plain(replace(self, profiles=())),
            "differing": list(self.differing),
            "profiles": [profile.to_json() for profile in self.profiles],
        }


def compare_profiles(
    profiles: Sequence[Profile],
    *,
    rounds: Sequence[Rounds] = (),
    labels: Sequence[str] = (),
    settings: Collection[str] = (),
    verdicts: Sequence[tuple[str, Sequence[PairVerdict]]] = (),
) -> Comparison:
    """Compares profiles with the first of them.

    Args:
        profiles: Two or more.
        rounds: For each of them, the seconds of predictions that were timed in interleaved rounds; empty for
            those that were not.
        labels: Labels of the profiles; if empty, they are derived from the paths.
        settings: The settings under which plans are compared; all if empty.
        verdicts: What the answers of each and of the first say, in a sentence and by device and setting;
            without them estimates are not compared.
    """
    names = labels or label_subjects([profile.model.path for profile in profiles])
    subjects = tuple(
        Subject(name, profile.model.path, describe(profile))
        for name, profile in zip(names, profiles, strict=True)
    )
    turns = rounds or [()] * len(profiles)
    said = verdicts or [("", ())] * len(profiles)
    differences = tuple(
        _Pair(profiles[0], profile, (turns[0], turns[index]), settings, *said[index]).difference(index)
        for index, profile in enumerate(profiles)
        if index
    )
    return Comparison(subjects, differences, tuple(profiles))


def compare_plans(
    profile: Profile, views: Sequence[PlanView], verdicts: Sequence[PairVerdict | None] = ()
) -> Comparison:
    """Compares plans of one profile, for devices or settings, with the first of them. Nothing is measured.

    Args:
        profile: The profile.
        views: The plans.
        verdicts: What the answers of each and of the first say; without them estimates are not compared.
    """
    pairs = verdicts or [None] * len(views)
    subjects = tuple(
        Subject(
            label_of(view),
            profile.model.path,
            {"device": view.plan.device, "system": view.plan.os, "compute units": view.compute_units},
        )
        for view in views
    )
    same = {id_: id_ for id_ in profile.ops.id}
    estimates = [_estimate_of(profile, view) for view in views]
    differences = tuple(
        Difference(
            base=0,
            other=other,
            matched=len(same),
            plans=(compare_views(views[0], view, same, (estimates[0], estimates[other]), pair),),
            estimated=() if pair is None else (pair,),
            answer="" if pair is None else pair.text,
        )
        for other, (view, pair) in enumerate(zip(views, pairs, strict=True))
        if other
    )
    return Comparison(subjects, differences, (profile,))


def _estimate_of(profile: Profile, view: PlanView) -> Estimate | None:
    if view.plan.planner != "rules":  # estimates follow from plans by rules
        return None
    wanted = view.plan.device, view.plan.os, view.compute_units
    return next((e for e in profile.estimates if (e.device, e.os, e.compute_units) == wanted), None)


def label_subjects(paths: Sequence[str]) -> list[str]:
    """Returns the shortest ends of paths that distinguish them; equal ones are numbered.

    The end of `App.ipa#Detector.mlmodelc` is the name of the model, not of the archive.
    """
    parts = [PurePath(*split_archive(path)).parts or ("model",) for path in paths]
    depth = 1
    while depth < max(map(len, parts)) and len({p[-depth:] for p in parts}) < len(set(parts)):
        depth += 1
    labels = [str(PurePath(*p[-depth:])) for p in parts]
    return [
        f"{label} #{number}" if labels.count(label) > 1 else label for number, label in enumerate(labels, 1)
    ]


def describe(profile: Profile) -> dict[str, str]:
    """Returns facts on the model and the measurement that can be compared with those of other profiles."""
    model = profile.model
    work = model.main.work if model.functions else None
    facts = {
        "kind": model.kind,
        "file": model.container,
        **dict(model.facts),
        "specification": str(model.spec_version or ""),
        "parameters": str(model.parameters),
        "weights": ", ".join(dict.fromkeys(group.storage for group in model.weights)),
        "weight bytes": str(model.weights_bytes),
        "FLOPs": "" if work is None else str(work.flops),
        "operations": str(len(profile.ops)),
        "constants": str(model.main.constants) if model.functions else "",
    }
    facts["planned for"] = "; ".join(dict.fromkeys(f"{plan.device}, {plan.os}" for plan in profile.plans))
    if profile.measurements:
        facts |= _describe_measurement(profile.measurements[0])
    return {name: text for name, text in facts.items() if text}


def _describe_measurement(measurement: Measurement) -> dict[str, str]:
    settings, machine = measurement.settings, measurement.machine
    shapes = sorted(settings.shapes.items())
    return {
        "function": settings.function,
        "shapes": ", ".join(f"{name} {'×'.join(map(str, shape))}" for name, shape in shapes),
        "inputs given": ", ".join(settings.inputs),
        "synthetic weights": "yes" if settings.random_weights else "",
        "compute units": settings.compute_units,
        "measured": measurement.host,
        "cores": "" if machine.cores is None else str(machine.cores),
        "threads": "" if measurement.threads is None else str(measurement.threads),
        "system": machine.os,
        "power mode": machine.power_mode,
    }


def _conditions(measurement: Measurement) -> str:
    """The label of a measurement with its setting and its power mode: `Core ML on M4, all, low power`."""
    parts = measurement.host, measurement.compute_units, measurement.machine.power_mode
    return ", ".join(filter(None, parts))


def choose_measurements(before: Profile, after: Profile) -> tuple[Measurement, Measurement] | None:
    """Selects the measurements of two profiles to compare: of those that can be, the fastest of the base.

    If none can, selects the first two of one runtime, or the first of each; None if either profile has none.
    """
    pairs = [(a, b) for a in before.measurements for b in after.measurements]
    alike = [pair for pair in pairs if not why_incomparable(*pair)]
    if alike:
        return min(alike, key=lambda pair: pair[0].predict.statistics.median if pair[0].predict else math.inf)
    return next((pair for pair in pairs if pair[0].runtime.id == pair[1].runtime.id), next(iter(pairs), None))


def why_incomparable(a: Measurement, b: Measurement) -> str:
    """Returns why the times of two measurements cannot be compared; empty if they can."""
    if any(measurement.partial is not None for measurement in (a, b)):
        return "a measurement is partial"
    if a.host != b.host or a.machine.cores != b.machine.cores:
        first, second = (
            m.host if m.machine.cores is None else f"{m.host} ({m.machine.cores} cores)" for m in (a, b)
        )
        return f"measured on different hosts: {first} and {second}"
    if a.threads != b.threads:
        return f"measured with different numbers of threads: {a.threads} and {b.threads}"
    if a.compute_units != b.compute_units:
        return f"measured under different compute units: {a.compute_units} and {b.compute_units}"
    if a.machine.power_mode != b.machine.power_mode:
        modes = [m.machine.power_mode or "unknown" for m in (a, b)]
        return f"measured in different power modes: {modes[0]} and {modes[1]}"
    return ""


def _differing_types(before: OpTable, after: OpTable) -> dict[str, tuple[int, int]]:
    counts = Counter(before.type), Counter(after.type)
    return {
        name: (counts[0][name], counts[1][name])
        for name in sorted(counts[0] | counts[1])
        if counts[0][name] != counts[1][name]
    }


def _is_same_export(before: ModelSummary, after: ModelSummary) -> bool:
    """True for equal metadata, which include the day of the conversion."""
    a, b = (
        (m.description, m.version, m.author, m.licence, dict(m.user_defined), m.spec_version)
        for m in (before, after)
    )
    return before.kind == after.kind == "mlProgram" and a == b


class _Pair:
    """Two profiles and the matching of their operations."""

    def __init__(
        self,
        before: Profile,
        after: Profile,
        rounds: tuple[Rounds, Rounds],
        settings: Collection[str] = (),
        answer: str = "",
        estimated: Sequence[PairVerdict] = (),
    ) -> None:
        self.profiles, self.settings = (before, after), settings
        self.answer, self.estimated = answer, tuple(estimated)
        self.measured = choose_measurements(before, after)
        self.rounds = rounds if all(rounds) else None
        self.incomparable = "" if self.measured is None else why_incomparable(*self.measured)
        self.matches = align(before.ops, after.ops)
        self.phases = self._phases()
        self.drift = self._drift()

    def difference(self, other: int) -> Difference:
        """Returns all differences of the subject with this index."""
        before, after, matches = self.profiles[0].ops, self.profiles[1].ops, self.matches
        taken = set(matches.values())
        return Difference(
            base=0,
            other=other,
            interleaved=self.rounds is not None,
            measured=() if self.measured is None else tuple(map(_conditions, self.measured)),
            incomparable=self.incomparable,
            phases=self.phases,
            kinds=tuple(sorted(self._kinds(), key=lambda kind: -_size(kind.time))),
            rows=tuple(sorted(self._rows(), key=lambda row: -_size(row.time))),
            matched=len(matches),
            renamed=sum(before.name[i] != after.name[j] for i, j in matches.items()),
            added=tuple(id_ for index, id_ in enumerate(after.id) if index not in taken),
            removed=tuple(id_ for index, id_ in enumerate(before.id) if index not in matches),
            types=_differing_types(before, after),
            compiled=self._compiled(),
            plans=tuple(self._plans()),
            estimated=self.estimated,
            answer=self.answer,
            work=self._work(),
        )

    def _work(self) -> SharedWork | None:
        before, after = self.profiles
        are_core_ai = {profile.model.kind == CORE_AI for profile in self.profiles}
        return pair_work(before.ops, after.ops) if len(are_core_ai) == 2 else None

    def _compiled(self) -> tuple[str, ...]:
        before, after = self.profiles
        is_compiled = [profile.model.container in _COMPILED for profile in self.profiles]
        if is_compiled != [False, True]:
            return ()
        if all(any(p.ops.layer_type) for p in self.profiles):
            return describe_folding(before.ops, after.ops, self.matches)
        if COMPILED_BY not in dict(after.model.facts) or not _is_same_export(before.model, after.model):
            return ()
        found = describe_folding(before.ops, after.ops, self.matches)
        constants = before.model.main.constants - after.model.main.constants
        if constants > 0:
            found += (f"{constants} const folded or made arguments",)
        return found or ("no operation changed",)

    def _plans(self) -> Iterator[PlanChange]:
        """Yields the changes of plans for the same device under the same setting.

        Where no two plans have those in common, others are compared, but not their estimates: what changes
        with the device is no change of the model.
        """
        before, after = self.profiles
        partners = {before.ops.id[i]: after.ops.id[j] for i, j in self.matches.items()}
        found = False
        others = {label_of(view): view for view in plan_views(after, self.settings)}
        for view in plan_views(before, self.settings):
            other = others.get(label_of(view))
            if other is not None and other.plan.os == view.plan.os:
                estimates = _estimate_of(before, view), _estimate_of(after, other)
                found = True
                pair = None if None in estimates else self._pair_at(view)
                yield compare_views(view, other, partners, estimates, pair)
        for views in [] if found else _pairs_across(before, after, self.settings):
            yield compare_views(*views, partners)

    def _pair_at(self, view: PlanView) -> PairVerdict | None:
        """Returns what the answers say of both under the setting of a plan."""
        wanted = view.plan.device, view.plan.os, view.compute_units
        for one in self.estimated:
            units = "" if one.before is None else one.before.compute_units
            if not one.is_best and (one.device, one.os, units) == wanted:
                return one
        return None

    def _groups(self, side: int) -> tuple[Group, ...]:
        return () if self.measured is None else self.measured[side].groups

    def _phases(self) -> dict[str, Change]:
        changes: dict[str, Change] = {}
        if self.measured is None:
            return changes
        first, second = (measurement.phases for measurement in self.measured)
        for name in first:
            if name not in second:
                continue
            a, b = first[name], second[name]
            if self.incomparable:
                changes[name] = Change.apart(a.statistics.median, b.statistics.median, "measured")
            elif name == "predict" and self.rounds is not None:
                changes[name] = change_of_rounds(*self.rounds)
            else:
                changes[name] = change_of_samples(a.samples_s, b.samples_s)
        return changes

    def _drift(self) -> float:
        """Returns the drift of the profiled runs relative to the predictions in interleaved rounds."""
        ratio = self.phases["predict"].ratio if "predict" in self.phases else None
        if self.measured is None or self.rounds is None or not ratio:
            return 1.0
        before, after = (measurement.nodes for measurement in self.measured)
        if before is None or after is None or not before.run_s:
            return 1.0
        return after.run_s / before.run_s / ratio or 1.0

    def _time(self, before: Sequence[Group], after: Sequence[Group]) -> Change:
        """Compares the times of groups; ends of intervals are added, as if all errors had the same sign."""
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
        sides = [_by_label(self._groups(side)) for side in (0, 1)]
        for label in dict.fromkeys([*sides[0], *sides[1]]):
            before, after = (side.get(label, []) for side in sides)
            yield KindChange(label, len(before), len(after), self._time(before, after))

    def _rows(self) -> Iterator[RowChange]:
        for befores, afters in self._components():
            before = [self._groups(0)[index] for index in befores]
            after = [self._groups(1)[index] for index in afters]
            yield self._row(before, after)
        # Nodes that the engine adds have no names.
        sides = [_by_label([group for group in self._groups(side) if not group.ops]) for side in (0, 1)]
        for label in dict.fromkeys([*sides[0], *sides[1]]):
            before, after = (side.get(label, []) for side in sides)
            yield self._row(before, after)

    def _row(self, before: Sequence[Group], after: Sequence[Group]) -> RowChange:
        rows = [[row for group in groups for row in group.ops] for groups in (before, after)]
        labels = [" + ".join(dict.fromkeys(group.label for group in groups)) for groups in (before, after)]
        presence: Presence = "both"
        if not before:
            presence = "added"
        elif not after:
            presence = "removed"
        tables = [profile.ops for profile in self.profiles]
        names = [table.name[found[0]] for table, found in zip(tables, rows, strict=True) if found]
        return RowChange(
            label=" → ".join(dict.fromkeys(label for label in labels if label)),
            name=names[0] if names else "",
            before=tuple(tables[0].id[row] for row in rows[0]),
            after=tuple(tables[1].id[row] for row in rows[1]),
            presence=presence,
            time=self._time(before, after),
        )

    def _components(self) -> Iterator[tuple[list[int], list[int]]]:
        """Yields groups of both sides that share operations, so that regrouped operations stay together."""
        links: dict[tuple[int, int], set[tuple[int, int]]] = {}
        if self.measured is None:
            return
        sides = [
            measurement.group or (-1,) * len(profile.ops)
            for measurement, profile in zip(self.measured, self.profiles, strict=True)
        ]
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
    """Returns the sum of the groups' times; None if the interval of one is unknown."""
    total = Figure(0.0, 0.0, 0.0, "measured")
    for group in groups:
        if group.low_s is None or group.high_s is None:
            return None
        total += Figure(group.wall_s, group.low_s, group.high_s, "measured")
    return total


def _size(change: Change) -> float:
    return abs((change.after or 0.0) - (change.before or 0.0))


def _pairs_across(
    before: Profile, after: Profile, settings: Collection[str]
) -> list[tuple[PlanView, PlanView]]:
    """The plans of two profiles that have no device in common, where it is clear which belong together.

    These are the plans of the only device of either under the same setting, or else the only ones by Core ML,
    whose file may not state its setting.
    """
    if len(before.plans) == len(after.plans) == 1:
        others = {view.compute_units: view for view in plan_views(after, settings)}
        views = plan_views(before, settings)
        same = [(view, others[view.compute_units]) for view in views if view.compute_units in others]
        if same:
            return same
    sides = []
    for profile in (before, after):
        known = plan_views(profile)
        sides.append(known if len(known) == 1 else [one for one in known if one.plan.planner == "Core ML"])
    if [len(side) for side in sides] != [1, 1]:
        return []
    first, second = sides[0][0], sides[1][0]
    return [(first, second)] if "Core ML" in (first.plan.planner, second.plan.planner) else []
