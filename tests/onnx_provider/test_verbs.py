"""What verbs say of ONNX models in ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.api.providers import ask_provider
from coremlscope.cli import main

onnx = pytest.importorskip("onnx")


def _write(path: Path, op: str) -> str:
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node(kind, [f"v{k}"], [f"v{k + 1}"]) for k, kind in enumerate(["Relu", op, "Relu", op])
    ]
    ends = [helper.make_tensor_value_info(f"v{k}", TensorProto.FLOAT, [1, 64, 56, 56]) for k in (0, 4)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_the_bare_verb_says_what_the_provider_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / "a.onnx", "Neg")
    assert main([path, "--device", "m2", "--json", "-"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["onnxruntime"]
    assert [(one["format"], one["models"]) for one in found["providers"]] == [
        ("neuralnetwork", 2),
        ("mlprogram", 2),
    ]
    assert [one["device"] for one in found["verdicts"]] == ["M2"]
    assert main([path, "--device", "m2", "--format", "mlprogram"]) == 0
    text = capsys.readouterr().out
    assert "in 2 Core ML models (MLProgram" in text
    assert "multiply by -1" in text


def test_the_page_that_opens_models_judges_the_graph_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coremlscope.server.browser import Answers

    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "a.onnx", "Neg")
    question = {"folder": str(tmp_path), "paths": ["a.onnx"]}
    answer: Any = json.loads(Answers().answer(json.dumps(question)))
    result = answer["payload"]["result"]
    assert [(one["models"], one["basis"]) for one in result["providers"]] == [
        (2, "before ONNX Runtime's own optimisation")
    ] * 2
    assert len(result["provider_verdicts"]) == 1


@pytest.mark.parametrize("batch", [2, "batch"])
def test_shapes_of_a_graph_that_no_engine_optimised(batch: int | str, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Identity", ["w"], ["w2"]),
        helper.make_node("Conv", ["x", "w2"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node(
            "Resize",
            ["b", "", "s"],
            ["y"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
    ]
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [result], [weight, scales])
    path = tmp_path / "a.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    seen, (division,) = ask_provider(path, ("mlprogram",), runs=False)
    size = batch if isinstance(batch, int) else None
    assert [seen.model.graph.types[name].shape for name in ("a", "b")] == [(size, 4, 6, 6)] * 2
    assert (division.report.models, division.report.nodes, division.report.supported) == (1, 3, 3)


def test_a_model_of_one_constant(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    value = helper.make_tensor("v", TensorProto.FLOAT, [2], [1, 2])
    node = helper.make_node("Constant", [], ["y"], value=value)
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    path = tmp_path / "a.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert main([str(path), "--device", "m2"]) == 0
    assert main(["plan", str(path), "--device", "m2"]) == 0


def test_models_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [_write(tmp_path / f"{op}.onnx", op) for op in ("Neg", "Tanh")]
    reports = [*paths, "--device", "m2", "--iterations", "2", "--json", "-"]
    assert main(["compare", *reports]) == 0
    values: Any = json.loads(capsys.readouterr().out)
    models = [[one["models"] for one in profile["providers"]] for profile in values["profiles"]]
    assert models == [[2, 2], [1, 1]]


@pytest.mark.parametrize("verb", [[], ["compare"], ["estimate"], ["plan"]])
def test_options_are_for_onnx(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb, "conv(dilations=1)" if verb else "a.mlpackage", "--ort", "1.27"]) != 0
    assert "ONNX" in capsys.readouterr().err


def test_limits_and_sweeps_are_about_sessions_where_a_format_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / "a.onnx", "Neg")
    limits = ["check", path, "--max-latency", "m2=10ms", "--json", "-"]
    assert main(limits) == 0
    converted = json.loads(capsys.readouterr().out)["models"][0]["checks"][0]["value"]["value"]
    assert main([*limits, "--format", "mlprogram"]) == 0
    session = json.loads(capsys.readouterr().out)["models"][0]["checks"][0]["value"]["value"]
    assert session != pytest.approx(converted)
    folder = tmp_path / "results"
    assert main(["sweep", path, "--device", "m2", "--format", "mlprogram", "-o", str(folder), "--quiet"]) == 0
    capsys.readouterr()
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(folder / "estimates.parquet").to_pylist()
    assert {row["variant"]: pytest.approx(row["estimated_s"]) for row in rows} == {
        "": converted,
        "onnxruntime-mlprogram": session,
    }
