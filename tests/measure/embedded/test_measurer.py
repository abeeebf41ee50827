"""Measuring with an engine whose times are given, and the profile that comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest

from coremlscope.base.errors import EngineError, InputError, MissingWeightsError, UsageError
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.results.measurement import Runtime, Settings
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.scripted import ScriptedClock, ScriptedEngine
from tests.support.ir_models import absent_weights, accumulator, adder, perceptron
from tests.support.left_behind import assert_no_scratch
from tests.support.measuring import joined_rows, measure, op_ids

#: Durations that binary floating point adds and subtracts without error.
BUILD_S, LOAD_S, RUN_S = 0.5, 0.25, 0.125


def _engine(**script: Any) -> ScriptedEngine:
    return ScriptedEngine(
        clock=ScriptedClock(), **{"build_s": BUILD_S, "load_s": LOAD_S, "run_s": (RUN_S,), **script}
    )


def _measure(
    model: ir.Model, request: Settings, engine: ScriptedEngine | None = None, **more: Any
) -> Profile:
    engine = engine or _engine()
    return measure(model, request, engine=engine, clock=engine.clock, **more)


QUICK = Settings(iterations=4, compile_iterations=2, load_iterations=3, warmups=1)


def test_each_phase_is_repeated_and_warmed_up() -> None:
    profile = _measure(perceptron(), QUICK)
    assert profile.measurement.compile.samples_s == (BUILD_S,) * 2
    assert profile.measurement.load.samples_s == (LOAD_S,) * 3
    assert profile.measurement.predict.samples_s == (RUN_S,) * 4
    assert [
        len(p.warmups_s)
        for p in (profile.measurement.compile, profile.measurement.load, profile.measurement.predict)
    ] == [1, 1, 1]
    assert profile.measurement.predict.statistics.mean == 0.125
    assert {
        p.origin for p in (profile.measurement.compile, profile.measurement.load, profile.measurement.predict)
    } == {"measured"}


def test_warmups_take_as_many_as_needed() -> None:
    profile = _measure(perceptron(), Settings(iterations=2, compile_iterations=1, load_iterations=1))
    assert profile.measurement.predict.warmups_s == (RUN_S,) * 3  # 0.375 s is the first sum above 0.3 s


def test_slow_first_runs_are_dropped() -> None:
    profile = _measure(perceptron(), QUICK, _engine(run_s=(4.0, 1.0)))
    assert profile.measurement.predict.warmups_s == (4.0,)
    assert profile.measurement.predict.statistics.max == 1.0


def test_operations_have_the_median_of_their_nodes() -> None:
    # In four runs: 2, 4, 4 and 6 s, and 1 s each time.
    script = {"main/1/Gemm:0": (2.0, 4.0, 4.0, 6.0), "main/2/Relu:0": (1.0,), "main/3/Sqrt:0": (3.0,)}
    profile = _measure(perceptron(), QUICK, _engine(node_s=script, run_s=(8.0,)))
    assert [(g.label, op_ids(profile, g), g.wall_s, g.share) for g in profile.measurement.groups] == [
        ("linear", ("main/1",), 4.0, 0.5),
        ("relu", ("main/2",), 1.0, 0.125),
        ("sqrt", ("main/3",), 3.0, 0.375),
    ]
    assert [(row.id, row.type, row.group, row.status) for row in joined_rows(profile)] == [
        ("main/1", "linear", 0, "timed"),
        ("main/2", "relu", 1, "timed"),
        ("main/3", "sqrt", 2, "timed"),
    ]
    assert profile.measurement.groups[0].engine_nodes == (("main/1/Gemm:0", "Gemm"),)


def test_the_table_has_work_and_types() -> None:
    profile = _measure(perceptron(), QUICK)
    row = next(iter(profile.ops))
    assert (row.name, row.function, row.outputs) == ("z", "main", ("tensor<fp32, [1, 64]>",))
    assert row.weight_bytes == 64 * 64 * 4
    assert row.flops is not None
    assert row.flops >= 2 * 64 * 64
    assert len(profile.ops) == 3


def test_times_of_operations_are_never_scaled() -> None:
    script = {"main/1/Gemm:0": (1.0,), "main/2/Relu:0": (1.0,), "main/3/Sqrt:0": (1.0,)}
    profile = _measure(perceptron(), QUICK, _engine(node_s=script))
    assert sum(group.wall_s for group in profile.measurement.groups) == 3.0
    nodes = profile.measurement.nodes
    assert (nodes.run_s, nodes.nodes_s, nodes.node_overhead_s) == (3.0, 3.0, 0.0)
    assert nodes.profiler_overhead_s == 3.0 - RUN_S
    assert (nodes.iterations, nodes.warmups) == (4, 1)


@pytest.mark.parametrize(("run_s", "runs"), [(1 / 64, 30), (1 / 8, 16), (1.0, 9)])
def test_profiled_runs_are_limited(run_s: float, runs: int) -> None:
    settings = Settings(iterations=100, compile_iterations=1)
    assert _measure(perceptron(), settings, _engine(run_s=(run_s,))).measurement.nodes.iterations == runs


def test_progress_tells_of_each_repetition() -> None:
    calls: list[tuple[str, int, int]] = []
    _measure(perceptron(), QUICK, progress=lambda *step: calls.append(step))
    assert calls == [
        *(("compile", done, 3) for done in range(4)),
        *(("load", done, 4) for done in range(5)),
        *(("warm-up", done, 1) for done in range(2)),
        *(("predict", done, 4) for done in range(5)),
        *(("operations", done, 1) for done in range(2)),
    ]


def test_phases_that_take_long_end_early() -> None:
    slow = _engine(build_s=1.2, load_s=0.6, run_s=(8.0,))
    profile = _measure(perceptron(), Settings(early=("compile", "load", "predict")), slow)
    measured = profile.measurement
    counts = {name: (len(phase.samples_s), len(phase.warmups_s)) for name, phase in measured.phases.items()}
    assert counts == {"compile": (1, 0), "load": (2, 1), "predict": (6, 2)}
    assert (measured.nodes.iterations, measured.nodes.warmups) == (6, 1)
    (finding,) = [finding for finding in measured.findings if finding.id == "fewer-repetitions"]
    assert finding.text == (
        "Compiled once instead of 10 times, loaded 2 times instead of 10 times, predicted 6 times instead of"
        " 50 times: compilations and loads have 2 s each, and predictions have 30 s."
    )
    assert finding.severity == "info"
    # A number that is given is kept exactly.
    exact = _measure(perceptron(), QUICK, _engine(build_s=64.0, load_s=64.0, run_s=(64.0,))).measurement
    assert [len(phase.samples_s) for phase in exact.phases.values()] == [2, 3, 4]
    assert "fewer-repetitions" not in {finding.id for finding in exact.findings}


def test_the_request_is_recorded() -> None:
    flexible = adder(ir.RangeShapes(((1, 4), (3, 3))))
    asked = Settings(
        compute_units="cpu_and_ne",
        function="times",
        iterations=2,
        compile_iterations=1,
        load_iterations=1,
        warmups=0,
        seed=7,
        shapes={"x": (4, 3)},
    )
    profile = _measure(flexible, asked, inputs={"x": np.ones((4, 3))})
    measured = profile.measurement
    assert measured.settings == msgspec.structs.replace(asked, inputs=("x",))
    assert list(profile.ops.outputs) == [("tensor<fp32, [4, 3]>",)]
    assert profile.model.main.name == "times"
    assert measured.runtime == Runtime("scripted", "Scripted engine", "1")
    assert measured.label == f"Scripted engine 1 on {measured.machine.processor}"
    assert measured.compute_units == ""
    assert measured.measured_at.endswith("Z")


def test_all_predictions_share_one_state() -> None:
    seen = []

    def outputs(feeds: Any) -> dict[str, np.ndarray]:
        seen.append(float(feeds["total"][0]))
        return {"y": feeds["x"], "total_updated": feeds["total"] + 1}

    _measure(accumulator(), QUICK, _engine(outputs=outputs))
    assert seen == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["iterations", "compile_iterations", "load_iterations", "warmups"])
def test_repetitions_are_checked(name: str) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} .* -1"):
        _measure(perceptron(), Settings(**{name: -1}))


def test_precisions_are_checked() -> None:
    with pytest.raises(UsageError, match="fp8"):
        _measure(perceptron(), Settings(precision="fp8"))


def test_wrong_shapes_and_values_are_input_errors() -> None:
    with pytest.raises(InputError):
        _measure(perceptron(), Settings(shapes={"x": (3, 3)}))
    with pytest.raises(InputError):
        _measure(perceptron(), QUICK, inputs={"x": np.zeros((3, 3))})
    with pytest.raises(InputError):
        _measure(perceptron(), QUICK, inputs={"z": np.zeros((3, 3))})


def test_values_of_flexible_inputs_bring_their_shapes() -> None:
    model = adder(ir.RangeShapes(((1, 4), (3, 3))))
    values = {"x": np.ones((4, 3), np.float32)}
    quick = Settings(iterations=1, compile_iterations=1, load_iterations=1)
    assert measure(model, quick, inputs=values).measurement.settings.shapes == {"x": (4, 3)}
    with pytest.raises(InputError, match="does not allow the shape 5×3"):
        measure(model, quick, inputs={"x": np.ones((5, 3), np.float32)})
    with pytest.raises(InputError, match="but 4×3 was given"):
        measure(model, msgspec.structs.replace(quick, shapes={"x": (2, 3)}), inputs=values)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _measure(perceptron(), QUICK)

    def fail(_: Any) -> dict[str, np.ndarray]:
        raise EngineError("no")

    with pytest.raises(EngineError):
        _measure(perceptron(), QUICK, _engine(outputs=fail))
    assert_no_scratch(tmp_path)


# Findings


def _findings(profile: Profile) -> dict[str, str]:
    return {finding.id: finding.text for finding in profile.all_findings}


def test_it_is_always_said_where_figures_come_from() -> None:
    steady = Settings(iterations=12, compile_iterations=1, load_iterations=1)
    profile = _measure(perceptron(), steady, _engine(run_s=(3e-6,)))
    assert list(_findings(profile)) == ["measured-on-host"]
    assert "none is a measurement of Core ML or of a Neural Engine" in _findings(profile)["measured-on-host"]


def test_compute_units_are_said_to_have_no_influence() -> None:
    found = _findings(
        _measure(perceptron(), Settings(compute_units="cpu_and_ne", iterations=2, compile_iterations=1))
    )
    assert "cpu_and_ne" in found["compute-units-ignored"]


def test_synthetic_weights_are_said() -> None:
    model = absent_weights(perceptron())
    with pytest.raises(MissingWeightsError):
        _measure(model, QUICK)
    profile = _measure(model, Settings(iterations=2, compile_iterations=1, random_weights=True))
    assert _findings(profile)["random-weights"].startswith("1 absent constant was replaced by synthetic")
    assert "random-weights" not in _findings(_measure(perceptron(), QUICK))


def test_few_and_unsteady_samples_are_said() -> None:
    found = _findings(_measure(perceptron(), QUICK, _engine(run_s=(1.0, 1.0, 2.0, 1.0, 2.0))))
    assert "4 predictions" in found["few-iterations"]
    assert "38 % of their mean" in found["high-spread"]  # of 1, 2, 1 and 2: 0.577 over 1.5


def test_a_profiler_that_slows_is_said() -> None:
    found = _findings(_measure(perceptron(), QUICK, _engine(node_s={"main/3/Sqrt:0": (0.5,)})))
    assert "from 125 ms to 500 ms" in found["profiler-overhead"]


def test_interrupted_runs_are_said() -> None:
    # Another operation takes a second in each run: the median of each is small.
    script = {
        "main/1/Gemm:0": (1.0, 0.0, 0.0, 0.0),
        "main/2/Relu:0": (0.0, 1.0, 0.0, 0.0),
        "main/3/Sqrt:0": (0.0, 0.0, 1.0, 1.0),
    }
    profile = _measure(perceptron(), QUICK, _engine(node_s=script))
    assert "spends 1.00 s in operations" in _findings(profile)["interrupted-operations"]
    assert "interrupted-operations" not in _findings(_measure(perceptron(), QUICK))


def test_requests_are_checked() -> None:
    for request in (Settings(compute_units="npu"), Settings(seed=-1)):
        with pytest.raises(UsageError):
            _measure(perceptron(), request)


# JSON


@pytest.fixture(scope="module")
def profile() -> Profile:
    return _measure(sample_model(size=32, width=0.1, classes=3), QUICK)


def test_json_gives_the_same_profile_back(profile: Profile) -> None:
    text = json.dumps(profile.to_json(), allow_nan=False)
    assert Profile.from_json(json.loads(text)) == profile
    assert Profile.from_json(profile.to_json()) == profile


def test_json_has_statistics_for_other_readers(profile: Profile) -> None:
    data = profile.to_json()
    assert data["schema"] == "coremlscope.profile/2"
    assert data["measurements"][0]["predict"]["statistics"]["median"] == RUN_S


@pytest.mark.parametrize("foreign", [{}, [], None, "text", {"schema": "speedscope"}, {"schema": None}])
def test_foreign_json_is_refused(foreign: object) -> None:
    with pytest.raises(UsageError, match="not a profile written by coremlscope"):
        Profile.from_json(foreign)


def test_another_version_is_refused(profile: Profile) -> None:
    with pytest.raises(UsageError, match=r"has the schema coremlscope\.profile/9"):
        Profile.from_json({**profile.to_json(), "schema": "coremlscope.profile/9"})


@pytest.mark.parametrize("part", ["ops", "measurements", "model", "plans", "kernels", "estimates"])
def test_a_damaged_profile_is_refused(part: str, profile: Profile) -> None:
    data = profile.to_json()
    for damaged in (None, {"x": 1}, 3):
        with pytest.raises(UsageError, match="damaged"):
            Profile.from_json({**data, part: damaged})


def test_columns_of_different_lengths_are_refused(profile: Profile) -> None:
    data = json.loads(json.dumps(profile.to_json()))
    del data["ops"]["type"][0]
    with pytest.raises(UsageError, match="column type does not have"):
        Profile.from_json(data)
