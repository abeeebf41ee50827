"""The ONNX Runtime engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.ops.lower import lower
from coremlscope.runtime.engines import onnxruntime as engine_module
from coremlscope.runtime.engines.base import GRAPH_FILE, EngineOptions
from coremlscope.runtime.engines.onnxruntime import OnnxRuntimeEngine, OnnxRuntimeSession, _session_options
from coremlscope.runtime.execution.binding import bind_model
from tests.support.ir_models import perceptron
from tests.support.left_behind import assert_no_scratch

OPTIONS = EngineOptions(threads=1)
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)


def test_results_agree_with_numpy(tmp_path: Path) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron(seed=3))), tmp_path, OPTIONS)
    weight = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    expected = np.sqrt(np.maximum(X @ weight.T, 0))
    np.testing.assert_allclose(session.run({"x": X})["y"], expected, rtol=1e-5, atol=1e-5)


def test_damaged_graph_gives_a_one_sentence_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / GRAPH_FILE).write_bytes(b"not a graph")
    with pytest.raises(EngineError, match=r"^ONNX Runtime cannot load the model: ") as caught:
        OnnxRuntimeEngine().load(tmp_path, OPTIONS)
    assert "\n" not in caught.value.message
    assert "ONNXRuntimeError" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_failed_run_gives_a_one_sentence_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), tmp_path, OPTIONS)
    with pytest.raises(EngineError, match=r"^ONNX Runtime cannot run the model: .*x") as caught:
        session.run({"x": X[:, :5]})
    assert "\n" not in caught.value.message
    assert "/onnxruntime" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_closed_session_cannot_be_run(tmp_path: Path) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), tmp_path, OPTIONS)
    session.close()
    with pytest.raises(EngineError, match="closed"):
        session.run({"x": X})


def test_profiling_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, built, work = tmp_path / "scratch", tmp_path / "built", tmp_path / "work"
    for folder in (scratch, built, work):
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.chdir(work)
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), built, OPTIONS)
    before = sorted(built.iterdir())
    session.node_times({"x": X}, 2, 0)
    assert sorted(built.iterdir()) == before
    assert_no_scratch(scratch)
    assert not [*work.iterdir()]


def test_profiled_nodes_are_those_of_the_optimised_graph(tmp_path: Path) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), tmp_path, OPTIONS)
    nodes = session.node_times({"x": X}, 3, 1).nodes
    assert [node.runs for node in nodes] == [3] * len(nodes)
    assert nodes[0].inputs[0] == "x"
    assert nodes[-1].op_type == "Sqrt"


def _looping(tmp_path: Path, turns: int) -> OnnxRuntimeSession:
    """Loads a loop with one nested node besides the condition."""
    inputs = [helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("c", 9), ("a", 1))]
    results = [helper.make_tensor_value_info(n, t, []) for n, t in (("c2", 9), ("b", 1))]
    nodes = [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Exp", ["a"], ["b"], "inner")]
    body = helper.make_graph(nodes, "body", inputs, results)
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)
    number = helper.make_tensor("n", 7, [], [turns])
    ends = [[helper.make_tensor_value_info(name, 1, [])] for name in ("x", "y")]
    graph = helper.make_graph([loop], "main", *ends, [number])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / GRAPH_FILE).write_bytes(model.SerializeToString())
    return OnnxRuntimeEngine().load(tmp_path, OPTIONS)


def test_nested_nodes_are_counted_within_their_outer_node(tmp_path: Path) -> None:
    profile = _looping(tmp_path, 7).node_times({"x": np.zeros((), np.float32)}, 3, 1)
    by_name = {node.name: node for node in profile.nodes}
    assert by_name["loop"].runs == 3
    assert by_name["loop"].outer is None
    assert by_name["inner"].runs == 21
    assert profile.nodes[by_name["inner"].outer or 0].name == "loop"
    assert sum(by_name["inner"].seconds) <= sum(by_name["loop"].seconds)


def test_long_loops_are_profiled_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.runtime.engines.onnxruntime._MOST_EXECUTIONS", 40)
    profile = _looping(tmp_path, 7).node_times({"x": np.zeros((), np.float32)}, 30, 3)
    assert len(profile.seconds) == 2  # 15 executions per run: the loop, and two nodes seven times
    assert all(len(node.seconds) == 2 for node in profile.nodes)


def test_run_beyond_the_capacity_of_the_profiler_has_no_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _looping(tmp_path, 7)
    monkeypatch.setattr(engine_module, "read_runs", lambda path, warmups: ())
    profile = session.node_times({"x": np.zeros((), np.float32)}, 30, 3)
    assert (profile.nodes, len(profile.seconds), profile.warmups) == ((), 1, 0)


def test_threads_are_positive() -> None:
    with pytest.raises(UsageError, match="--threads"):
        EngineOptions(threads=0)


def test_threads_default_to_physical_cores() -> None:
    assert EngineOptions().thread_count >= 1
    assert EngineOptions(threads=3).thread_count == 3


def test_more_threads_than_processors_do_not_spin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("coremlscope.runtime.engines.onnxruntime.logical_processors", lambda: 2)
    entry = "session.intra_op.allow_spinning"
    assert _session_options(tmp_path, EngineOptions(threads=3)).get_session_config_entry(entry) == "0"
    with pytest.raises(RuntimeError, match=entry):  # ONNX Runtime's default
        _session_options(tmp_path, EngineOptions(threads=2)).get_session_config_entry(entry)
