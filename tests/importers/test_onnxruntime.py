"""What ONNX Runtime wrote of sessions, and how far the rules of its Core ML provider agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coremlscope.api.imported import import_files
from coremlscope.api.providers import ask_provider
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.results.profile import Profile
from coremlscope.results.provider import LoggedNode, ProviderLog

onnx = pytest.importorskip("onnx")
_TIME = "2026-08-10 12:43:05.311041 "
_COUNTS = (
    "number of partitions supported by CoreML: {} number of nodes in the graph: {}"
    " number of nodes supported by CoreML: {}"
)
#: Lines of public logs: of a verbose one without what surrounds its lines, of NSLog, and wrapped by hand.
_PUBLIC = (
    (
        "Operator type: [Conv] index: [0] name: [node_Conv_29] supported: [1]\n"
        "Operator type: [Erf] index: [4] name: [node_Erf_16] supported: [0]\n"
        "CoreMLExecutionProvider::GetCapability, " + _COUNTS.format(3, 13, 11),
        [(3, 13, 11)],
        2,
    ),
    (
        "2026-08-10 12:43:05.311 python[28925:55332234] 2026-08-10 12:43:05.311041 [W:onnxruntime:,"
        " coreml_execution_provider.cc:137 GetCapability] CoreMLExecutionProvider::GetCapability, "
        + _COUNTS.format(39, 327, 212),
        [(39, 327, 212)],
        0,
    ),
    (
        "CoreMLExecutionProvider::GetCapability, number of partitions supported by CoreML: 38\n"
        "  number of nodes in the graph: 637\n  number of nodes supported by CoreML: 557\n",
        [(38, 637, 557)],
        0,
    ),
    (
        f"CoreMLExecutionProvider::GetCapability, {_COUNTS.format(1, 9403, 72)}\n"
        f"CoreMLExecutionProvider::GetCapability, {_COUNTS.format(0, 9528, 0)}\n"
        "Node(s) placed on [CoreMLExecutionProvider]. Number of nodes: 1\n"
        "Node(s) placed on [CPUExecutionProvider]. Number of nodes: 12185\n",
        [(1, 9403, 72), (0, 9528, 0)],
        0,
    ),
)


def _log(path: Path, content: str, model: Path | None = None) -> ProviderLog:
    path.write_text(content)
    profile = import_files([path], None if model is None else _read(model))
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile
    (log,) = profile.provider_logs
    return log


def _read(path: Path) -> Any:
    from coremlscope import api

    return api.read(path)


@pytest.mark.parametrize(("content", "rounds", "nodes"), _PUBLIC)
def test_lines_of_public_logs(content: str, rounds: list[Any], nodes: int, tmp_path: Path) -> None:
    log = _log(tmp_path / "a.log", content)
    assert [(one.partitions, one.nodes, one.supported) for one in log.rounds] == rounds
    assert len(log.nodes) == nodes
    assert log.models == sum(one[0] for one in rounds)


def test_sessions_of_a_log(tmp_path: Path) -> None:
    begin = f"{_TIME}[I:onnxruntime:, inference_session.cc:2767 operator()] Initializing session.\n"
    line = "CoreMLExecutionProvider::GetCapability, " + _COUNTS
    path = tmp_path / "a.log"
    path.write_text(begin + line.format(1, 5, 5) + "\n" + begin + begin + line.format(2, 9, 7))
    logs = import_files([path]).provider_logs
    assert [(log.session, log.rounds[0].nodes) for log in logs] == [(1, 5), (2, 9)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Relu, HardSwish, Relu: HardSwish is expanded, and the provider is asked again."""
    from onnx import TensorProto, helper

    types = ["Relu", "HardSwish", "Relu"]
    nodes = [helper.make_node(kind, [f"v{k}"], [f"v{k + 1}"], name=f"n{k}") for k, kind in enumerate(types)]
    ends = [helper.make_tensor_value_info(f"v{k}", TensorProto.FLOAT, [1, 3, 8, 8]) for k in (0, 3)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _written(model: Path, taken: dict[str, int], release: str = "1.32") -> str:
    _, (division,) = ask_provider(model, ("neuralnetwork",), release=release)
    lines = []
    for index, (op, name) in enumerate([("Relu", "n0"), ("HardSwish", "n1"), ("Relu", "n2")]):
        if not taken[name]:
            lines.append(f"{_TIME}[V:onnxruntime:, base_op_builder.cc:80 IsOpSupported] says no to {name}")
        lines.append(
            f"{_TIME}[V:onnxruntime:, helper.cc:144 GetSupportedNodes] Operator type: [{op}] index: [{index}]"
            f" name: [{name}] supported: [{taken[name]}]"
        )
    return "\n".join([*lines, *(_TIME + one.line for one in division.report.rounds)])


def test_a_log_that_agrees(model: Path, tmp_path: Path) -> None:
    log = _log(tmp_path / "a.log", _written(model, {"n0": 1, "n1": 0, "n2": 1}), model)
    agreement = log.agreement
    assert agreement is not None
    assert [(one.op, one.rule, one.agreed, one.differing) for one in agreement.rules] == [
        ("HardSwish", "no-builder", 1, ()),
        ("Relu", "taken", 2, ()),
    ]
    assert (log.models, agreement.models, agreement.release) == (3, 3, "1.32")
    assert [one.nodes for one in agreement.rounds] == [one.nodes for one in log.rounds]


def test_a_rule_that_does_not(model: Path, tmp_path: Path) -> None:
    log = _log(tmp_path / "a.log", _written(model, {"n0": 1, "n1": 0, "n2": 0}), model)
    assert log.agreement is not None
    first = log.agreement.rules[0]
    refused = LoggedNode(op="Relu", name="n2", is_taken=False, reason="says no to n2")
    assert (first.op, first.rule, first.agreed, first.differing) == ("Relu", "taken", 1, (refused,))


def test_the_line_in_the_source_limits_the_release(model: Path, tmp_path: Path) -> None:
    log = _log(tmp_path / "a.log", _written(model, {"n0": 1, "n1": 0, "n2": 1}, "1.24"), model)
    assert log.releases == ("1.24", "1.26")
    assert log.agreement is not None
    assert log.agreement.release in ("1.25", "1.26")


def test_an_assignment(model: Path, tmp_path: Path) -> None:
    nodes = [
        {"ep_name": "CoreMLExecutionProvider", "nodes": [{"op_type": "Relu", "name": "n0"}]},
        {"ep_name": "CPUExecutionProvider", "nodes": [{"op_type": "HardSwish", "name": "n1"}]},
        {"ep_name": "CoreMLExecutionProvider", "nodes": [{"op_type": "Relu", "name": "n2"}]},
    ]
    log = _log(tmp_path / "a.json", json.dumps(nodes), model)
    assert log.models == 2
    assert log.agreement is not None
    assert sum(one.agreed for one in log.agreement.rules) == 3


def _events(*providers: tuple[str, str, int]) -> str:
    events: list[dict[str, Any]] = [
        {"cat": "Session", "ph": "X", "name": "session_initialization", "dur": 1000, "args": {}}
    ]
    for _ in range(2):
        events += [
            {
                "cat": "Node",
                "ph": "X",
                "name": f"{name}_kernel_time",
                "dur": duration,
                "args": {"provider": provider},
            }
            for name, provider, duration in providers
        ]
        events.append({"cat": "Session", "ph": "X", "name": "model_run", "dur": 900, "args": {}})
    return json.dumps(events)


def test_a_profile(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(_events(("a", "CoreMLExecutionProvider", 500), ("b", "CPUExecutionProvider", 100)))
    profile = import_files([path], _read(model))
    (log,) = profile.provider_logs
    assert (log.runs, log.models) == (2, 1)
    assert log.seconds == {
        "CoreMLExecutionProvider": pytest.approx(5e-4),
        "CPUExecutionProvider": pytest.approx(1e-4),
    }
    assert log.agreement is not None
    assert log.agreement.models == 3
    (measured,) = profile.measurements
    assert measured.predict is not None
    assert measured.predict.samples_s == (9e-4, 9e-4)


def test_times_stand_next_to_estimates(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(_events(("a", "CoreMLExecutionProvider", 500), ("b", "CPUExecutionProvider", 100)))
    assert main(["import", str(path), "--model", str(model), "--device", "m2", "--json", "-"]) == 0
    profile = Profile.from_json(json.loads(capsys.readouterr().out))
    assert [one.device for one in profile.provider_verdicts] == ["M2"]
    assert main(["import", str(path), "--model", str(model), "--device", "m2"]) == 0
    assert "estimated for M2" in capsys.readouterr().out
    assert main(["import", str(path), "--model", str(model), "--device", "my own board"]) == 0


def test_a_session_without_the_provider_agrees_with_nothing(model: Path, tmp_path: Path) -> None:
    log = _log(tmp_path / "a.json", _events(("b", "CPUExecutionProvider", 100)), model)
    assert (log.models, log.agreement) == (0, None)


def test_a_session_of_another_model_agrees_with_nothing(model: Path, tmp_path: Path) -> None:
    log = _log(tmp_path / "a.log", "CoreMLExecutionProvider " + _COUNTS.format(1, 500, 9), model)
    assert log.agreement is None


@pytest.mark.parametrize(
    "content",
    [
        "2026 [I:onnxruntime:, inference_session.cc:1 operator()] nothing of the provider",
        '[{"cat": "Session", "ph": "X", "name": "model_loading_uri", "dur": 3}]',
        '[{"cat": "Session", "ph": "X", "name": "model_run", "dur": "long"}]',
    ],
)
def test_files_that_say_nothing(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(content)
    with pytest.raises(UsageError):
        import_files([path])


def test_the_verb(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_text(_written(model, {"n0": 1, "n1": 0, "n2": 0}))
    assert main(["import", str(path), "--model", str(model)]) == 0
    assert "says no to n2" in capsys.readouterr().out
