"""What is said of ONNX models."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from coremlscope.cli import main
from coremlscope.studies.doctor.provider import examine_onnx


def _write(path: Path, types: list[str], shape: list[int | str]) -> Path:
    nodes = [helper.make_node(type_, [f"v{k}"], [f"v{k + 1}"]) for k, type_ in enumerate(types)]
    ends = [helper.make_tensor_value_info(f"v{k}", TensorProto.FLOAT, shape) for k in (0, len(types))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("types", "shape", "ids"),
    [
        (["Relu", "Tanh"], [1, 3, 8, 8], []),
        (["Relu", "NonZero", "LSTM"], [1, 3], ["onnxruntime-neuralnetwork", "onnxruntime-mlprogram"]),
        (["Relu"], ["batch", 3], ["onnxruntime-free-dimensions"]),
    ],
)
def test_an_onnx_model(types: list[str], shape: list[int | str], ids: list[str], tmp_path: Path) -> None:
    problems = examine_onnx(_write(tmp_path / "a.onnx", types, shape)).problems
    assert [problem.id for problem in problems if "judged" not in problem.text] == ids


@pytest.mark.usefixtures("_real_children")
def test_operators_are_counted(tmp_path: Path) -> None:
    report = examine_onnx(_write(tmp_path / "a.onnx", ["Relu", "NonZero", "LSTM", "NonZero"], [1, 3]))
    ops = next(problem.ops for problem in report.problems if problem.ops)
    assert ops == ("NonZero (2)", "LSTM (1)")


@pytest.mark.parametrize("content", [b"", b"\xff" * 99, b"version https://git-lfs.github.com/spec/v1\n"])
def test_damaged_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    problems = examine_onnx(path).problems
    assert [problem.id for problem in problems] == ["damaged"]


@pytest.mark.parametrize("name", ["a.onnx", "a.tflite", "a.pt", "a.gguf"])
def test_the_verb_tells_models_of_others_from_logs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / name, ["Relu"], [1, 3])
    assert main(["doctor", str(path), "--json", "-"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["type"] == "model"
    assert file["problems"] or name == "a.onnx"  # all of it is supported
    assert all("convert it with coremltools" not in problem["fix"] for problem in file["problems"])
