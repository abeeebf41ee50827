"""Profiles held against each other."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec.structs
import numpy as np
import pytest

from coremlscope import api
from coremlscope.api.sources import compare_sources, fill_profiles, interleave
from coremlscope.base.errors import UsageError
from coremlscope.base.figures import Figure
from coremlscope.describe.comparison.change import (
    Change,
    change_of_plans,
    change_of_rounds,
    change_of_samples,
)
from coremlscope.describe.comparison.profiles import Comparison, compare_profiles, label_subjects
from coremlscope.formats.sample import sample_model
from coremlscope.measure.contract import Progress
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.model.ir import Model
from coremlscope.planning.answer.comparison import compare_judged
from coremlscope.reports.comparison import comparison_document
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.plan import plan_document
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.measurement import Phase, Settings
from coremlscope.results.plan import FunctionCost, PlannedOps
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.scripted import ScriptedClock, ScriptedEngine
from tests.support.comparisons import changed, rounds, small_comparison, timed, with_measurement
from tests.support.partial_profiles import PROFILES as PARTIAL
from tests.support.planned_profiles import device_estimates, device_plan, planned_profile
from tests.support.planned_rows import with_choices, with_ops
from tests.support.profiles import small_profile, timed_by


def test_overlapping_intervals_mean_no_change() -> None:
    before = [1.0, 1.1, 0.9, 1.2, 0.8, 1.3, 0.7, 1.05, 0.95, 1.15]
    change = change_of_samples(before, before)
    assert (change.ratio, change.verdict) == (1.0, "no change")
    # Of ten samples the second and the ninth: 0.8 and 1.2.
    assert (change.low, change.high) == (pytest.approx(0.8 / 1.2), pytest.approx(1.2 / 0.8))
    assert change_of_samples(before, [2 * s for s in before]).verdict == "slower"
    assert change_of_samples(before, [s / 2 for s in before]).verdict == "faster"


def test_few_samples_tell_nothing() -> None:
    assert change_of_samples([1.0, 1.0], [9.0, 9.0]) == Change(
        before=1.0,
        after=9.0,
        ratio=9.0,
        low=None,
        high=None,
        verdict="unclear",
        origin="measured",
    )


def test_noise_is_rarely_called_a_change() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.lognormal(sigma=0.1, size=(400, 2, 30))
    verdicts = [change_of_samples(a.tolist(), b.tolist()).verdict for a, b in pairs]
    assert sum(verdict in ("slower", "faster") for verdict in verdicts) / 400 < 0.05


@pytest.mark.parametrize("factor", [7.47, 1.2, 0.5])
def test_a_ratio_far_from_one_is_never_called_no_change(factor: float) -> None:
    wide = [0.1, 0.2, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0, 9.0]
    change = change_of_samples(wide, [factor * s for s in wide])
    assert change.ratio == pytest.approx(factor)
    assert change.verdict == "unclear"


def test_a_verdict_agrees_with_the_medians_next_to_it() -> None:
    # Nearly every round is faster, and the median of all samples is not.
    before, after = [[1.0]] * 6 + [[10.0]] * 5, [[0.9]] * 5 + [[10.0]] + [[9.0]] * 5
    change = change_of_rounds(before, after)
    assert (change.before, change.after, change.ratio) == (1.0, 9.0, 9.0)
    assert (change.low, change.high, change.verdict) == (0.9, 9.0, "unclear")


def test_rounds_cancel_what_slows_down_both() -> None:
    change = change_of_rounds(rounds(1), rounds(1.4))
    assert change.before is not None
    assert change.after is not None
    assert change.ratio == change.after / change.before
    assert change.verdict == "slower"
    assert (change.ratio, change.low, change.high) == (pytest.approx(1.4),) * 3
    assert change_of_rounds(rounds(1), rounds(1)).verdict == "no change"
    # The same samples without their rounds: the machine's drift hides the change.
    flat = [[s for round_ in rounds(factor) for s in round_] for factor in (1, 1.4)]
    assert change_of_samples(*flat).verdict in ("no change", "unclear")


def test_plans_have_no_noise() -> None:
    planned = [Figure(value, value, value, "planned") for value in (1.0, 1.01)]
    assert change_of_plans(*planned).verdict == "slower"
    # Profiles of version 0.1 keep six digits of planned costs.
    rounded = Figure(1.2345678, 1.2345678, 1.2345678, "planned"), Figure(1.23457, 1.23457, 1.23457, "planned")
    assert change_of_plans(*rounded).verdict == "no change"


def test_a_profile_differs_in_nothing_from_itself() -> None:
    profile = timed(small_profile())
    comparison = compare_profiles([profile, profile])
    assert comparison.differing == ()
    (difference,) = comparison.differences
    assert (difference.added, difference.removed, difference.renamed) == ((), (), 0)
    assert difference.matched == len(profile.ops)
    assert {row.time.verdict for row in difference.rows} == {"no change"}


def test_operations_and_kinds() -> None:
    (difference,) = small_comparison().differences
    rows = {row.name or row.label: row for row in difference.rows}
    assert rows["stem"].time.verdict == "slower"
    assert (rows["stem"].before, rows["stem"].after) == (("main/13", "main/16"),) * 2
    assert rows["classifier"].time.verdict == "no change"
    assert (rows["new"].presence, rows["new"].time.before) == ("added", None)
    assert (difference.renamed, difference.added, difference.removed) == (1, ("main/600",), ("main/546",))
    kinds = {kind.label: (kind.before, kind.after, kind.time.verdict) for kind in difference.kinds}
    assert kinds["conv + clip"] == (1, 1, "slower")
    assert kinds["relu"] == (0, 1, "unclear")


def test_telling_rows_begin_with_what_is_certain() -> None:
    after = changed()
    groups = [
        msgspec.structs.replace(group, low_s=None) if group.label == "linear" else group
        for group in after.measurement.groups
    ]
    unclear = with_measurement(after, groups=tuple(groups))
    (difference,) = compare_profiles([timed(small_profile()), unclear]).differences
    assert [row.name for row in difference.telling_rows] == ["stem", "new", "classifier"]


def test_what_was_fused_anew_is_one_row() -> None:
    before = timed(small_profile())
    first, conv, *rest = before.measurement.groups
    half = msgspec.structs.replace(conv, wall_s=conv.wall_s / 2, low_s=0.0002, high_s=0.0004)
    split = [
        msgspec.structs.replace(half, label="conv", ops=(2,)),
        msgspec.structs.replace(half, label="clip", ops=(3,)),
    ]
    after = with_measurement(before, groups=(first, *split, *rest), group=(0, -1, 1, 2, 4, -1))
    (difference,) = compare_profiles([before, after]).differences
    (row,) = [row for row in difference.rows if "main/13" in row.before]
    assert row.label == "conv + clip"
    assert (row.before, row.after) == (("main/13", "main/16"), ("main/13", "main/16"))
    assert row.time.before == row.time.after


def on_cores(profile: Profile, cores: int) -> Profile:
    machine = msgspec.structs.replace(profile.measurement.machine, cores=cores)
    return with_measurement(profile, machine=machine)


def in_power_mode(profile: Profile, mode: str) -> Profile:
    machine = msgspec.structs.replace(profile.measurement.machine, power_mode=mode)
    return with_measurement(profile, machine=machine)


BASE = timed(small_profile())


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            BASE,
            with_measurement(BASE, label="elsewhere"),
            "different hosts: scripted 1.0 on .* and elsewhere",
        ),
        (BASE, on_cores(BASE, 8), r"different hosts: .* \(4 cores\) and .* \(8 cores\)"),
        (BASE, with_measurement(BASE, threads=7), "numbers of threads: 2 and 7"),
        (BASE, with_measurement(BASE, compute_units="all"), "different compute units:  and all"),
        (
            in_power_mode(BASE, "normal"),
            in_power_mode(BASE, "low power"),
            "different power modes: normal and low power",
        ),
        (BASE, in_power_mode(BASE, "normal"), "different power modes: unknown and normal"),
    ],
)
def test_times_of_different_hosts_are_not_compared(before: Profile, after: Profile, reason: str) -> None:
    (difference,) = compare_profiles([before, after]).differences
    assert re.search(reason, difference.incomparable)
    times = [*difference.phases.values(), *(row.time for row in difference.rows)]
    assert {time.verdict for time in times} == {"unclear"}
    assert {time.ratio for time in times} == {None}
    assert before.measurement.predict is not None
    assert difference.phases["predict"].before == before.measurement.predict.statistics.median


def test_power_modes_stand_side_by_side() -> None:
    comparison = compare_profiles([in_power_mode(BASE, mode) for mode in ("normal", "low power")])
    assert comparison.differing == ("power mode",)
    assert [subject.facts["power mode"] for subject in comparison.subjects] == ["normal", "low power"]


def test_profiled_runs_that_drifted_are_not_trusted() -> None:
    before, after = timed(small_profile()), timed(small_profile(), conv=1.2, linear=1.2, mul=1.2)
    nodes = after.measurement.nodes
    assert nodes is not None
    drifted = with_measurement(after, nodes=msgspec.structs.replace(nodes, run_s=nodes.run_s * 1.2))
    (found,) = compare_profiles([before, drifted], rounds=[rounds(1), rounds(1)]).differences
    assert not {row.time.verdict for row in found.rows} & {"slower", "faster"}
    (real,) = compare_profiles([before, drifted], rounds=[rounds(1), rounds(1.2)]).differences
    assert "slower" in {row.time.verdict for row in real.rows}


def test_slower_by() -> None:
    comparison = small_comparison()
    assert [*comparison.slower_by(0.05)] == ["after.mlpackage"]
    assert comparison.slower_by(0.5) == {}


def test_labels() -> None:
    assert label_subjects(["a/x.json", "b/y.json"]) == ["x.json", "y.json"]
    assert label_subjects(["a/x.json", "b/x.json"]) == [str(Path("a/x.json")), str(Path("b/x.json"))]
    assert label_subjects(["a/x.json", "a/x.json"]) == ["x.json #1", "x.json #2"]
    assert label_subjects(["x", "x", "y"]) == ["x #1", "x #2", "y"]
    assert label_subjects(["", ""]) == ["model #1", "model #2"]


def test_json() -> None:
    data = json.loads(json.dumps(small_comparison().to_json()))
    assert data["schema"] == "coremlscope.comparison/2"
    assert data["differences"][0]["phases"]["predict"]["origin"] == "measured"
    assert data["differing"] == ["compute units"]


def compare(
    sources: Sequence[Model | Profile],
    settings: Settings,
    engine: ScriptedEngine,
    progress: Progress | None = None,
) -> Comparison:
    """Measures models with an engine, and compares them."""
    measurer = EngineMeasurer(engine=engine, clock=engine.clock)
    named = [(f"model {index}", source) for index, source in enumerate(sources)]
    profiles = fill_profiles(named, lambda _: (measurer, [settings]), progress=progress)
    profiles, rounds = interleave(named, profiles, measurer, progress=progress)
    return compare_sources(named, profiles, rounds=rounds)


def compare_on_devices(profile: Profile, settings: Sequence[str]) -> Comparison:
    """Compares the plans of one profile."""
    return compare_sources([("one", profile)], [profile], settings=settings)


def test_models_are_timed_in_interleaved_rounds() -> None:
    engine = ScriptedEngine(clock=ScriptedClock(), run_s=(0.25,))
    settings = Settings(iterations=20, compile_iterations=1, load_iterations=1, warmups=0)
    calls: list[tuple[str, int, int]] = []
    models = [sample_model(size=32, width=0.5, classes=10), sample_model(size=32, width=0.5, classes=4)]
    comparison = compare(models, settings, engine, progress=lambda *state: calls.append(state))
    (difference,) = comparison.differences
    assert difference.interleaved
    predict = difference.phases["predict"]
    assert (predict.before, predict.ratio, predict.verdict) == (0.25, 1.0, "no change")
    assert ("interleaved", 16, 16) in calls
    assert difference.matched == 105


def test_a_model_against_a_saved_profile() -> None:
    engine = ScriptedEngine(clock=ScriptedClock(), run_s=(0.25,))
    settings = Settings(iterations=2, compile_iterations=1, load_iterations=1, warmups=0)
    model = sample_model(size=32, width=0.5, classes=10)
    comparison = compare([small_profile(), model], settings, engine)
    assert not comparison.differences[0].interleaved


def test_saved_profiles(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(small_profile().to_json()))
    assert Profile.load(path) == small_profile()
    for text, message in (
        ("[", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "is not a profile"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=message):
            Profile.load(path)
    with pytest.raises(UsageError, match=r"absent\.json: No such file"):
        Profile.load(tmp_path / "absent.json")


def test_plans_for_the_same_device_are_compared() -> None:
    before, after = planned_profile(), planned_profile(slow=3)
    (difference,) = compare_judged([before, after]).differences
    first, second = difference.plans
    assert (first.before, first.after, second.after) == ("M1, all", "M1, all", "M1, cpu_only")
    assert (first.planned.ratio, first.planned.verdict) == (pytest.approx(3 / 2.25), "slower")
    assert [(op.type, op.planned.ratio) for op in first.ops] == [("conv", 3), ("clip", 3)]
    assert first.latency is not None
    assert first.latency.origin == "estimated"
    assert (second.ops, second.planned.verdict, second.moved) == ((), "no change", 0)
    (only,) = compare_judged([before, after], settings=["cpu_only"]).differences[0].plans
    assert only.before == "M1, cpu_only"
    assert [*compare_judged([before, after]).slower_by(0.2)] == ["sample.mlpackage #2"]


def test_plans_for_different_devices_are_compared_without_estimates() -> None:
    before, after = planned_profile(), planned_profile("M2", slow=9)
    compared = compare_profiles([before, after])
    first, second = compared.differences[0].plans
    assert [(one.before, one.after) for one in (first, second)] == [
        ("M1, all", "M2, all"),
        ("M1, cpu_only", "M2, cpu_only"),
    ]
    assert (first.planned.verdict, first.latency) == ("slower", None)
    assert compared.slower_by(0.2) == {"sample.mlpackage #2": None}
    assert compared.differing == ("planned for",)
    assert compared.subjects[1].facts["planned for"] == "M2, macOS 15"


def test_plans_of_several_devices_have_no_partners() -> None:
    several = msgspec.structs.replace(
        planned_profile(), plans=(device_plan(), device_plan("M2")), estimates=()
    )
    compared = compare_profiles([several, planned_profile("M4")])
    assert compared.differences[0].plans == ()
    assert compared.differing == ("planned for",)


def test_plans_for_another_system_name_it() -> None:
    newer = planned_profile()
    newer = msgspec.structs.replace(newer, plans=(msgspec.structs.replace(newer.plans[0], os="macOS 27"),))
    first, _ = compare_profiles([planned_profile(), newer]).differences[0].plans
    assert (first.before, first.after) == ("M1, macOS 15, all", "M1, macOS 27, all")


def test_plans_of_one_planner_are_compared() -> None:
    profile = PARTIAL["several measurements"]()
    (difference,) = compare_profiles([profile, profile], settings=("all",)).differences
    labels = [(change.before, change.after) for change in difference.plans]
    own = "M1, all, planned by Core ML"
    assert labels == [(own, own), ("M1, all", "M1, all")]
    assert [change.moved for change in difference.plans] == [0, 0]


def test_a_planner_without_costs_has_no_total() -> None:
    profile = PARTIAL["several measurements"]()
    theirs = profile.plans[0]
    bare = with_choices(theirs, "all", {op.id: {"planned_ms": None} for op in theirs.ops})
    free = msgspec.structs.replace(
        with_ops(bare, {op.id: {"cost_ms": {}, "cost_basis": {}} for op in theirs.ops}),
        settings=(msgspec.structs.replace(theirs.settings[0], functions={"main": FunctionCost(0.0, 2)}),),
    )
    assert free.total_ms(free.settings[0]) is None
    alone = msgspec.structs.replace(profile, plans=(free,), agreements=(), measurements=())
    (difference,) = compare_profiles([alone, alone]).differences
    assert difference.plans[0].planned.before is None
    for text in (
        write_terminal(document_of(alone)),
        write_markdown(document_of(alone)),
        write_terminal(plan_document(alone)),
    ):
        assert "0 ns" not in text


def test_devices_and_settings_of_one_profile() -> None:
    comparison = compare_on_devices(planned_profile(), ["all", "cpu_only"])
    assert [subject.label for subject in comparison.subjects] == ["M1, all", "M1, cpu_only"]
    assert comparison.differing == ("compute units",)
    (difference,) = comparison.differences
    assert difference.phases == {}
    (change,) = difference.plans
    assert change.moved == 2
    assert change.units == {"cpu": (4, 6), "neural_engine": (2, 0)}
    assert change.switches == (2, 0)
    assert compare_on_devices(planned_profile(), ["all"]).differences == ()


def test_devices_of_a_model_need_no_measurement() -> None:
    comparison = api.compare(sample_model(size=32, width=0.5, classes=4), devices=["m1", "a14"])
    assert comparison.profiles[0].measurements == ()
    (change,) = comparison.differences[0].plans
    assert (change.before, change.after) == ("M1, all", "A14, all")
    assert change.latency is not None
    assert sum(before for before, _ in change.units.values()) > 50


def test_phases_of_one_sample() -> None:
    profile = with_measurement(small_profile(), load=Phase.of((0.5,)))
    (difference,) = compare_profiles([profile, changed()]).differences
    assert difference.phases["load"].verdict == "unclear"


def test_measurements_of_one_runtime_and_setting_are_compared() -> None:
    before = msgspec.structs.replace(
        planned_profile(), measurements=(small_profile().measurement, timed_by("Core ML on M2", 0.002))
    )
    after = msgspec.structs.replace(before, measurements=(timed_by("Core ML on M2", 0.004),))
    (difference,) = compare_profiles([before, after]).differences
    assert difference.measured == ("Core ML on M2, all", "Core ML on M2, all")
    assert difference.incomparable == ""
    predict = difference.phases["predict"]
    assert (predict.before, predict.after) == (0.002, 0.004)
    # Core ML's measurements have no operations.
    assert (difference.rows, difference.kinds, difference.matched) == ((), (), 6)


def test_without_two_of_one_kind_the_first_ones_stand_beside_each_other() -> None:
    before = msgspec.structs.replace(small_profile(), measurements=(timed_by("Core ML on M2", 0.002),))
    (difference,) = compare_profiles([before, small_profile()]).differences
    assert difference.measured == ("Core ML on M2, all", small_profile().measurement.label)
    assert "measured on different hosts" in difference.incomparable
    assert {change.verdict for change in difference.phases.values()} == {"unclear"}


@pytest.mark.parametrize("side", [0, 1])
def test_profiles_without_measurements_are_compared_by_their_plans(side: int) -> None:
    profiles = [planned_profile(), planned_profile(slow=3)]
    profiles[side] = msgspec.structs.replace(profiles[side], measurements=())
    comparison = compare_judged(profiles)
    (difference,) = comparison.differences
    assert (difference.measured, difference.incomparable) == ((), "")
    assert (difference.phases, difference.rows, difference.kinds) == ({}, (), ())
    assert difference.matched == 6
    assert [change.before for change in difference.plans] == ["M1, all", "M1, cpu_only"]
    assert [*comparison.slower_by(0.2)] == ["sample.mlpackage #2"]


def test_estimates_stay_with_their_device_and_setting() -> None:
    base = planned_profile()
    both = msgspec.structs.replace(
        base,
        plans=(device_plan("M1"), device_plan("M2", slow=3)),
        estimates=(*device_estimates("M2", slow=3), *device_estimates("M1")),
    )
    comparison = compare_on_devices(both, ["all"])
    (change,) = comparison.differences[0].plans
    assert (change.before, change.after) == ("M1, all", "M2, all")
    assert change.latency is not None
    assert (change.latency.before, change.latency.after) == (pytest.approx(0.00175), pytest.approx(0.00225))
    without = msgspec.structs.replace(both, estimates=())
    (bare,) = compare_on_devices(without, ["all"]).differences[0].plans
    assert bare.latency is None
    assert bare.planned.ratio == pytest.approx(3 / 2.25)


def test_what_core_ml_inserts_is_matched_by_its_id() -> None:
    bare = planned_profile()
    plan = bare.plans[0]
    less = msgspec.structs.replace(
        plan,
        ops=PlannedOps(op for op in plan.ops if not op.inserted),
        settings=tuple(msgspec.structs.replace(one, what_ifs=()) for one in plan.settings),
    )
    other = msgspec.structs.replace(bare, plans=(less,))
    (same,) = compare_profiles([bare, bare], settings=["all"]).differences[0].plans
    assert same.ops == ()
    (change,) = compare_profiles([bare, other], settings=["all"]).differences[0].plans
    assert [(op.type, op.before, op.after) for op in change.ops] == [
        ("tensor_buffer_to_tensor", "main/input", "")
    ]


def test_a_model_without_measurements_or_plans_is_described() -> None:
    bare = msgspec.structs.replace(small_profile(), measurements=())
    comparison = compare_profiles([bare, small_profile()])
    known = ["kind", "file", "specification", "parameters", "weights", "weight bytes", "FLOPs", "operations"]
    known.append("constants")
    assert list(comparison.subjects[0].facts) == known
    assert {"measured", "compute units", "cores", "threads", "system", "function"} <= set(
        comparison.subjects[1].facts
    )


def test_types_whose_number_changed_are_counted() -> None:
    before, after = small_profile(), small_profile()
    kinds = list(after.ops.type)
    first = kinds[0]
    changed = msgspec.structs.replace(after.ops, type=("cast", *kinds[1:]))
    difference = compare_profiles([before, msgspec.structs.replace(after, ops=changed)]).differences[0]
    assert difference.types == {
        "cast": (kinds.count("cast"), kinds.count("cast") + 1),
        first: (kinds.count(first), kinds.count(first) - 1),
    }
    assert compare_profiles([before, after]).differences[0].types == {}


def test_a_type_that_is_missing_on_one_side_has_no_planned_cost_there() -> None:
    before, after = planned_profile(), planned_profile()
    renamed = msgspec.structs.replace(
        after.ops, type=tuple("gelu" if type_ == "clip" else type_ for type_ in after.ops.type)
    )
    gelus = {op.id: {"type": "gelu"} for op in after.plans[0].ops if op.type == "clip"}
    other = msgspec.structs.replace(after, ops=renamed, plans=(with_ops(after.plans[0], gelus),))
    compared = compare_profiles([before, other], settings=["all"])
    types = {row.type: row for row in compared.differences[0].plans[0].types}
    for name, given, missing in (("clip", "before", "after"), ("gelu", "after", "before")):
        change = types[name].planned
        assert getattr(change, given) > 0
        assert (getattr(change, missing), change.ratio, change.verdict) == (None, None, "unclear")
    assert types["conv"].planned.verdict == "no change"
    report = write_markdown(comparison_document(compared))
    assert not re.search(r"\b0 ns|−100|faster|slower", report)
    rows = [[cell.strip() for cell in line.split("|")] for line in report.splitlines()]
    cells = {row[1]: row[2:5] for row in rows if len(row) == 6}
    assert (cells["clip"][1:], cells["gelu"][:1]) == (["–", "–"], ["–"])
    values = {
        row["type"]: row["planned"] for row in compared.to_json()["differences"][0]["plans"][0]["types"]
    }
    assert (values["clip"]["after"], values["gelu"]["before"], values["gelu"]["ratio"]) == (None, None, None)
