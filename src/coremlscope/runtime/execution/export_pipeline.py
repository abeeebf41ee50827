"""Exports a pipeline as a folder of ONNX files and a description of their connections."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.version import __version__
from coremlscope.base.writing import new_content, write_draft
from coremlscope.model.features import describe_feature
from coremlscope.model.ir import Feature, Model
from coremlscope.runtime.execution.export import export_onnx, remove_earlier_data
from coremlscope.runtime.execution.pipeline import check_runnable
from coremlscope.runtime.execution.wiring import Stage, Wire, Wiring, bind_functions, in_stage, wire

#: Name and version of the schema of `pipeline.json`.
SCHEMA = "coremlscope.pipeline/1"
WIRING_FILE = "pipeline.json"


def export_pipeline(
    model: Model, folder: Path, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Path, ...]:
    """Writes every stage of a pipeline as ONNX, and `pipeline.json`, which describes the connections.

    A pipeline does not become one graph, because Core ML passes labels, dictionaries and images between
    stages, which ONNX cannot express.

    Args:
        model: The pipeline.
        folder: The folder to write into; created if it does not exist.
        shapes: Shapes of flexible inputs of the pipeline by name. The others get their default shapes.

    Returns:
        The files that were written, `pipeline.json` last. Stages that the model's file does not contain have
        no file.

    Raises:
        UnsupportedModelError: No stage of the pipeline can be run.
        CorruptModelError: The stages do not match each other.
        OutputError: A file cannot be written.
    """
    wiring = wire(model)
    check_runnable(wiring)
    with new_content(folder, last=WIRING_FILE, create=True) as draft:
        names, described = _export_stages(model, draft, wiring, shapes)
        content = {
            "schema": SCHEMA,
            "coremlscope": __version__,
            "inputs": _features(model.description.main.inputs),
            "stages": described,
            "outputs": {name: _source(source, wiring) for name, source in wiring.outputs.items()},
        }
        write_draft(draft / WIRING_FILE, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    graphs = [name for name in names if name.endswith(".onnx")]
    if graphs:
        remove_earlier_data(folder, graphs, names)
    return tuple(folder / name for name in (*names, WIRING_FILE))


def _export_stages(
    model: Model, folder: Path, wiring: Wiring, shapes: Mapping[str, Sequence[int]] | None
) -> tuple[list[str], list[dict[str, Any]]]:
    """Writes the stages; returns the names of the files and the descriptions of the stages."""
    names: list[str] = []
    described = []
    for index, bound in enumerate(bind_functions(model, None, shapes)):
        name = None
        if not bound.stage.model.content.absent:
            name = f"{index:02}-{_stem(bound.stage.name)}.onnx"
            with in_stage(bound.stage):
                files = export_onnx(bound.stage.model, folder / name, shapes=bound.shapes)
            names += [file.name for file in files]
        described.append(_describe(bound.stage, name, wiring))
    return names, described


def _stem(name: str) -> str:
    """A file name for a stage, without the suffix."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:100]


def _describe(stage: Stage, file: str | None, wiring: Wiring) -> dict[str, Any]:
    return {
        "name": stage.name,
        "type": stage.model.kind,
        "file": file,
        "left_out": stage.model.content.absent,
        "inputs": {name: _source(source, wiring) for name, source in stage.wires.items()},
        "outputs": _features(stage.description.outputs),
    }


def _features(features: Sequence[Feature]) -> dict[str, str]:
    return {feature.name: describe_feature(feature.type) for feature in features}


def _source(source: Wire, wiring: Wiring) -> dict[str, str | None]:
    """The source of a feature; the stage is None for an input of the pipeline."""
    return {
        "stage": None if source.is_outside else wiring.stages[source.stage].name,
        "feature": source.feature.name,
    }
