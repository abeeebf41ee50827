"""Exports whose weights are in a file of their own."""

from __future__ import annotations

from pathlib import Path

import onnx

from coremlscope.formats.sample import sample_model
from coremlscope.runtime.execution.export import export_onnx


def _weights(path: Path) -> set[str]:
    """The names of the files to which an export refers."""
    graph = onnx.load(str(path), load_external_data=False).graph
    return {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }


def test_an_export_names_its_weights_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    first, second = (sample_model(size=32, width=width, classes=4) for width in (0.25, 0.5))
    written = [export_onnx(model, path, largest_embedded=0) for model in (first, second, second)]
    names = [file.name for _, file in written]
    assert names[0] != names[1] == names[2]
    assert _weights(path) == {names[1]}
    assert {file.name for file in tmp_path.iterdir()} == {"m.onnx", names[1]}
    export_onnx(second, path)
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_files_of_others_stay(tmp_path: Path) -> None:
    others = {"m.onnx.data", "n.onnx.0123456789abcdef.data", "m.onnx.0123.data"}
    for name in others:
        (tmp_path / name).write_bytes(b"")
    export_onnx(sample_model(size=32, width=0.25, classes=4), tmp_path / "m.onnx", largest_embedded=0)
    assert others < {file.name for file in tmp_path.iterdir()}
