"""A pipeline as a folder of ONNX files, and what passes between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.errors import OutputError
from coremlscope.execution.export import export_onnx
from coremlscope.execution.pipeline import refuse_empty
from coremlscope.execution.wiring import Stage, Wire, Wiring, bind_stages, in_stage, is_external, wire
from coremlscope.features import describe_feature
from coremlscope.ir import External, Feature, Model
from coremlscope.version import __version__

__all__ = ["SCHEMA", "WIRING_FILE", "export_pipeline"]

#: Name and version of the form of `pipeline.json`.
SCHEMA = "coremlscope.pipeline/1"
WIRING_FILE = "pipeline.json"


def export_pipeline(
    model: Model, folder: Path, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Path, ...]:
    """Writes every stage of a pipeline as ONNX, and `pipeline.json`, which tells what passes between them.

    Labels, dictionaries and images pass from stage to stage as Core ML passes them, which ONNX cannot say;
    so a pipeline does not become one graph.

    Args:
        model: The pipeline.
        folder: Where to; made if absent.
        shapes: Shapes of flexible inputs of the whole, instead of the defaults.

    Returns:
        The files that were written, `pipeline.json` last. Stages whose file does not hold what computes them
        have none.

    Raises:
        UnsupportedModelError: Nothing of the pipeline can be run here.
        CorruptModelError: The stages do not fit each other.
        OutputError: A file cannot be written.
    """
    wiring = wire(model)
    refuse_empty(wiring)
    files: list[Path] = []
    described = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for index, one in enumerate(bind_stages(model, shapes)):
            name = None
            if not is_external(one.stage.model):
                name = f"{index:02}-{_stem(one.stage.name)}.onnx"
                with in_stage(one.stage):
                    files += export_onnx(one.stage.model, folder / name, shapes=one.shapes)
            described.append(_describe(one.stage, name, wiring))
        files.append(folder / WIRING_FILE)
        content = {
            "schema": SCHEMA,
            "coremlscope": __version__,
            "inputs": _features(model.description.main.inputs),
            "stages": described,
            "outputs": {name: _source(found, wiring) for name, found in wiring.outputs.items()},
        }
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        files[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written: {error.strerror or error}", "check the folder and its permissions"
        ) from None
    return tuple(files)


def _stem(name: str) -> str:
    """A file name for a stage, without its ending."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:100]


def _describe(stage: Stage, file: str | None, wiring: Wiring) -> dict[str, Any]:
    content = stage.model.content
    return {
        "name": stage.name,
        "type": stage.model.kind,
        "file": file,
        "left_out": content.absent if isinstance(content, External) else "",
        "inputs": {name: _source(found, wiring) for name, found in stage.wires.items()},
        "outputs": _features(stage.description.outputs),
    }


def _features(features: Sequence[Feature]) -> dict[str, str]:
    return {feature.name: describe_feature(feature.type) for feature in features}


def _source(found: Wire, wiring: Wiring) -> dict[str, str | None]:
    """Where a feature comes from; no stage for an input of the whole."""
    return {
        "stage": None if found.is_outside else wiring.stages[found.stage].name,
        "feature": found.feature.name,
    }
