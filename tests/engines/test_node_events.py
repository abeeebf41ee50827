"""The join of profiler events with the saved graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from coremlscope.base.errors import EngineError
from coremlscope.runtime.engines.node_events import Run, read_nodes, read_runs


def _node(name: str, op_type: str, microseconds: int) -> dict[str, Any]:
    args = {"op_name": op_type}
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": microseconds, "args": args}


RUN = {"cat": "Session", "name": "model_run", "dur": 99, "args": {}}
LOADING = {"cat": "Session", "name": "model_loading_array", "dur": 5, "args": {}}


def _events(path: Path, events: list[dict[str, Any]], warmups: int = 0) -> tuple[Run, ...]:
    lines = ",\n".join(json.dumps(event) for event in events)
    path.write_text(f"[\n{lines}\n]\n")
    return read_runs(path, warmups)


def _graph(path: Path, nodes: list[onnx.NodeProto]) -> Path:
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [])), str(path))
    return path


def test_executions_are_assigned_to_runs_and_nodes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "one"), helper.make_node("Neg", ["a"], ["y"], "two")]
    one = [_node("one", "Relu", 7), _node("two", "Neg", 2), RUN]
    other = [_node("one", "Relu", 5), _node("two", "Neg", 3), RUN]
    events = _events(tmp_path / "p.json", [LOADING, *one, *other])
    first, second = read_nodes(_graph(tmp_path / "g.onnx", nodes), events)
    assert first.seconds == pytest.approx((7e-6, 5e-6))
    assert second.seconds == pytest.approx((2e-6, 3e-6))
    assert (first.inputs, first.outputs, first.outer, first.runs) == (("x",), ("a",), None, 2)


def test_warmups_are_discarded(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "one")]
    events = [_node("one", "Relu", 70), RUN, _node("one", "Relu", 5), RUN]
    (node,) = read_nodes(_graph(tmp_path / "g.onnx", nodes), _events(tmp_path / "p.json", events, warmups=1))
    assert node.seconds == pytest.approx((5e-6,))


def test_nodes_with_the_same_name_share_executions_cyclically(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "same"), helper.make_node("Relu", ["a"], ["y"], "same")]
    run = [_node("same", "Relu", 7), _node("same", "Relu", 2), RUN]
    first, second = read_nodes(_graph(tmp_path / "g.onnx", nodes), _events(tmp_path / "p.json", run + run))
    assert first.seconds == pytest.approx((7e-6, 7e-6))
    assert second.seconds == pytest.approx((2e-6, 2e-6))


def test_nested_nodes_refer_to_their_outer_node(tmp_path: Path) -> None:
    inside = [helper.make_node("Relu", ["x"], ["r"], "in"), helper.make_node("Neg", ["r"], ["t"], "in2")]
    branch = helper.make_graph(inside, "b", [], [helper.make_tensor_value_info("t", 1, [])])
    nodes = [helper.make_node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch)]
    events = [_node("in", "Relu", 3), _node("in2", "Neg", 1), _node("if", "If", 9), RUN]
    outer, inner, *_ = read_nodes(_graph(tmp_path / "g.onnx", nodes), _events(tmp_path / "p.json", events))
    assert outer.inputs == ("c", "x")
    assert outer.seconds == pytest.approx((9e-6,))
    assert (inner.name, inner.outer) == ("in", 0)


def test_execution_of_an_unknown_node_gets_a_row(tmp_path: Path) -> None:
    events = _events(tmp_path / "p.json", [_node("ghost", "Cast", 4), RUN])
    (node,) = read_nodes(_graph(tmp_path / "g.onnx", []), events)
    assert (node.name, node.op_type, node.outputs) == ("ghost", "Cast", ())
    assert node.seconds == pytest.approx((4e-6,))


def test_missing_graph(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="did not save"):
        read_nodes(tmp_path / "absent.onnx")
