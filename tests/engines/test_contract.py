"""The contract of all engines."""

from __future__ import annotations

import importlib.util
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from coremlscope.base.errors import EngineError, MissingWeightsError, UsageError
from coremlscope.ops.lower import lower
from coremlscope.ops.program import WEIGHTS_FILE, OnnxProgram
from coremlscope.runtime.engines import ENGINES, engine
from coremlscope.runtime.engines.base import GRAPH_FILE, Engine, EngineOptions
from coremlscope.runtime.engines.scripted import ScriptedEngine
from coremlscope.runtime.execution.binding import bind_model
from coremlscope.runtime.execution.ranges import read_ranges
from coremlscope.runtime.execution.state import State
from tests.support.ir_models import absent_weights, accumulator, perceptron

_ENGINES = [
    ScriptedEngine(),
    *(engine(name) for name, *_ in ENGINES if importlib.util.find_spec(name) is not None),
]
every_engine = pytest.mark.parametrize("tested", _ENGINES, ids=lambda e: e.name)
OPTIONS = EngineOptions(threads=1)
FEEDS = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)}


@pytest.fixture(scope="module")
def program() -> OnnxProgram:
    return lower(bind_model(perceptron()))


@every_engine
def test_built_programs_can_be_loaded(tested: Engine, program: OnnxProgram, tmp_path: Path) -> None:
    built = tested.build(program, tmp_path, OPTIONS)
    assert (tmp_path / GRAPH_FILE).is_file()
    assert (tmp_path / WEIGHTS_FILE).stat().st_size == program.weights_bytes
    expected = built.run(FEEDS)
    assert {name: array.shape for name, array in expected.items()} == {"y": (1, 64)}
    loaded = tested.load(tmp_path, OPTIONS).run(FEEDS)
    np.testing.assert_array_equal(loaded["y"], expected["y"])


@every_engine
def test_built_programs_can_be_moved(tested: Engine, program: OnnxProgram, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    session = tested.build(program, tmp_path / "a", OPTIONS)
    expected = session.run(FEEDS)["y"]
    session.close()
    shutil.move(tmp_path / "a", tmp_path / "b")
    np.testing.assert_array_equal(tested.load(tmp_path / "b", OPTIONS).run(FEEDS)["y"], expected)


@every_engine
def test_nodes_are_timed_for_every_run(tested: Engine, program: OnnxProgram, tmp_path: Path) -> None:
    session = tested.build(program, tmp_path, OPTIONS)
    session.close()  # one session in memory is enough
    profile = session.node_times(FEEDS, 4, 2)
    assert profile.warmups == 2
    assert len(profile.seconds) == 4
    assert profile.nodes
    assert all(len(node.seconds) == 4 and min(node.seconds) >= 0 for node in profile.nodes)
    assert "y" in {name for node in profile.nodes for name in node.outputs}


@every_engine
def test_a_session_runs_in_several_threads(tested: Engine, program: OnnxProgram, tmp_path: Path) -> None:
    session = tested.build(program, tmp_path, OPTIONS)
    given = [{"x": np.full((1, 64), number, np.float32)} for number in range(4)]
    alone = [session.run(feeds)["y"] for feeds in given]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for expected, found in zip(alone * 4, pool.map(session.run, given * 4), strict=True):
                np.testing.assert_array_equal(found["y"], expected)


@every_engine
def test_folder_without_a_compiled_model(tested: Engine, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="does not hold a compiled model"):
        tested.load(tmp_path, OPTIONS)


@every_engine
def test_missing_folder(tested: Engine, program: OnnxProgram, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot write the compiled model"):
        tested.build(program, tmp_path / "nowhere", OPTIONS)


@every_engine
def test_missing_input(tested: Engine, program: OnnxProgram, tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        tested.build(program, tmp_path, OPTIONS).run({})


@every_engine
def test_missing_weights(tested: Engine, tmp_path: Path) -> None:
    program = lower(bind_model(absent_weights(perceptron())))
    with pytest.raises(MissingWeightsError):
        tested.build(program, tmp_path, OPTIONS)


@every_engine
def test_engines_have_a_name_and_a_version(tested: Engine) -> None:
    assert tested.name
    assert tested.version


def test_unknown_engine_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown engine 'abacus'"):
        engine("abacus")


@pytest.mark.parametrize("tested", _ENGINES[1:], ids=lambda e: e.name)
def test_states_stay_with_a_session_and_move_to_the_next(tested: Engine, tmp_path: Path) -> None:
    program = lower(bind_model(accumulator()))
    first = tested.build(program, tmp_path, OPTIONS)
    second = tested.load(tmp_path, OPTIONS, program.states)
    state, other = State(program.states), State(program.states)
    feeds = {"x": np.array([1, 2], np.float32)}
    for session, expected in ((first, [10, 20]), (first, [20, 40]), (second, [30, 60]), (first, [40, 80])):
        assert state.run(session, feeds)["y"].tolist() == expected
    state.write("total", np.array([5.0, 0.1]))
    assert state.run(first, feeds).keys() == {"y"}
    with pytest.raises(EngineError):
        state.run(first, {"x": np.ones(3, np.float32)})
    assert other.run(first, feeds)["y"].tolist() == [10, 20]
    profile = first.node_times({**feeds, **other.feeds()}, 2, 1)
    assert len(profile.seconds) == 2
    first.close()
    np.testing.assert_allclose(state.read("total"), [6, 2.1], rtol=1e-3)
    with pytest.raises(EngineError, match="closed"):
        state.run(first, feeds)
    assert other.run(second, feeds)["y"].tolist() == [20, 40]


@pytest.mark.parametrize("tested", _ENGINES[1:], ids=lambda e: e.name)
def test_ranges_are_those_of_rounded_results(tested: Engine, tmp_path: Path) -> None:
    program = lower(bind_model(accumulator()), "fp16")
    state = State(program.states)
    state.write("total", np.array([60000, 2048]))
    results = state.run(tested.build(program, tmp_path, OPTIONS), {"x": np.array([10000, 1], np.float32)})
    assert program.ranges is not None
    overflows = {row.id: row.overflows for row in read_ranges(program.ranges, results)}
    assert overflows == {"main/1": 1, "main/3": 0}
