"""ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coremlscope.engines import EngineOptions, OnnxRuntimeEngine
from coremlscope.engines.base import GRAPH_FILE
from coremlscope.errors import EngineError
from coremlscope.execution import bind_model
from coremlscope.lower import lower
from handmade import perceptron

OPTIONS = EngineOptions(threads=1)
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)


def test_results_are_those_of_numpy(tmp_path: Path) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron(seed=3))), tmp_path, OPTIONS)
    weight = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    expected = np.sqrt(np.maximum(X @ weight.T, 0))
    np.testing.assert_allclose(session.run({"x": X})["y"], expected, rtol=1e-5, atol=1e-5)


def test_a_graph_that_is_damaged_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / GRAPH_FILE).write_bytes(b"this is no graph")
    with pytest.raises(EngineError, match=r"^ONNX Runtime cannot load the model: ") as caught:
        OnnxRuntimeEngine().load(tmp_path, OPTIONS)
    assert "\n" not in caught.value.message
    assert "ONNXRuntimeError" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_a_run_that_fails_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), tmp_path, OPTIONS)
    with pytest.raises(EngineError, match=r"^ONNX Runtime cannot run the model: .*x") as caught:
        session.run({"x": X[:, :5]})
    assert "\n" not in caught.value.message
    assert "/onnxruntime" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_a_session_that_is_closed_says_so(tmp_path: Path) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), tmp_path, OPTIONS)
    session.close()
    with pytest.raises(EngineError, match="closed"):
        session.run({"x": X})


def test_profiling_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, built, work = tmp_path / "scratch", tmp_path / "built", tmp_path / "work"
    for folder in (scratch, built, work):
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.chdir(work)
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), built, OPTIONS)
    before = sorted(built.iterdir())
    session.node_times({"x": X}, 2, 0)
    assert sorted(built.iterdir()) == before
    assert not [*scratch.iterdir(), *work.iterdir()]


def test_profiled_nodes_are_those_of_the_rewritten_graph(tmp_path: Path) -> None:
    session = OnnxRuntimeEngine().build(lower(bind_model(perceptron())), tmp_path, OPTIONS)
    nodes = session.node_times({"x": X}, 3, 1).nodes
    assert [node.runs for node in nodes] == [3] * len(nodes)
    assert nodes[0].inputs[0] == "x"
    assert nodes[-1].op_type == "Sqrt"


def test_threads_default_to_physical_cores() -> None:
    assert EngineOptions().thread_count >= 1
    assert EngineOptions(threads=3).thread_count == 3
