"""The manifest of a compiled function, stored beside the engine's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coremlscope.base.errors import EngineError
from coremlscope.base.version import __version__
from coremlscope.base.writing import write_draft
from coremlscope.model.ir import DType, TensorType
from coremlscope.ops.program import OnnxProgram, Port, Precision, RangePort, StatePort
from coremlscope.runtime.engines.base import GRAPH_FILE

MANIFEST_FILE = "compiled.json"
_SCHEMA = "coremlscope.compiled/1"
_HINT = "compile the model again"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a compiled function: what was compiled, with which options, by which engine.

    Attributes:
        function: The function's name in the model's description.
        shapes: The requested input shapes by name.
        engine: The engine's name.
        engine_version: The engine's version.
        random_weights: The seed of random weights; None if the model's own weights were used.
        precision: The precision of results that the program declares as fp16.
    """

    function: str
    shapes: Mapping[str, tuple[int, ...]]
    engine: str
    engine_version: str
    random_weights: int | None = None
    precision: Precision = "fp32"


def write_manifest(folder: Path, manifest: Manifest, program: OnnxProgram) -> None:
    """Writes the parts of a compiled function that the engine's files do not hold.

    Raises:
        EngineError: The folder cannot be written.
    """
    content = {
        "schema": _SCHEMA,
        "coremlscope": __version__,
        "function": manifest.function,
        "shapes": {name: list(shape) for name, shape in manifest.shapes.items()},
        "engine": manifest.engine,
        "engine_version": manifest.engine_version,
        "random_weights": manifest.random_weights,
        "precision": manifest.precision,
        "weights_bytes": program.weights_bytes,
        "inputs": [_port_to_json(port) for port in program.inputs],
        "outputs": [_port_to_json(port) for port in program.outputs],
        "states": [_port_to_json(port) for port in program.states],
        "ranges": None if program.ranges is None else [program.ranges.value, *program.ranges.ops],
        "owners": dict(program.owners),
        "folded": sorted(program.folded),
    }
    try:
        write_draft(folder / MANIFEST_FILE, json.dumps(content))
    except OSError as error:
        raise EngineError(f"cannot write the compiled model into {folder}: {error.strerror}") from error


def read_artefact(folder: Path) -> tuple[Manifest, OnnxProgram]:
    """Reads a compiled function; the weights stay in their file.

    Raises:
        EngineError: The folder does not hold a compiled function, or another version of coremlscope wrote it.
    """
    import onnx

    try:
        content = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
        if content["schema"] != _SCHEMA or content["coremlscope"] != __version__:
            raise EngineError(f"{folder} was compiled by another version of coremlscope", _HINT)
        model = onnx.load(str(folder / GRAPH_FILE), load_external_data=False)
        return _manifest_from_json(content), _program_from_json(content, model)
    except EngineError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise EngineError(f"{folder} does not hold a compiled model: {reason}", _HINT) from error
    except Exception as error:  # JSON errors, protobuf errors and missing keys all mean a damaged folder.
        raise EngineError(f"the compiled model in {folder} is damaged", _HINT) from error


def _manifest_from_json(content: Mapping[str, Any]) -> Manifest:
    return Manifest(
        function=content["function"],
        shapes={name: tuple(shape) for name, shape in content["shapes"].items()},
        engine=content["engine"],
        engine_version=content["engine_version"],
        random_weights=content["random_weights"],
        precision=content["precision"],
    )


def _program_from_json(content: Mapping[str, Any], model: Any) -> OnnxProgram:
    return OnnxProgram(
        model=model,
        weights=(),
        weights_bytes=content["weights_bytes"],
        owners=content["owners"],
        folded=frozenset(content["folded"]),
        inputs=tuple(map(_port_from_json, content["inputs"])),
        outputs=tuple(map(_port_from_json, content["outputs"])),
        states=tuple(map(_state_from_json, content["states"])),
        ranges=_ranges_from_json(content["ranges"]),
    )


def _port_to_json(port: Port | StatePort) -> dict[str, Any]:
    shape = port.type.shape
    content: dict[str, Any] = {
        "name": port.name,
        "value": port.value,
        "type": port.type.dtype.value,
        "shape": None if shape is None else list(shape),
        "dtype": port.dtype.str,
    }
    if isinstance(port, StatePort):
        content["updated"] = port.updated
    else:
        content["labels"] = None if port.labels is None else list(port.labels)
        content["holds_keys"] = port.holds_keys
        content["is_closed"] = port.is_closed
    return content


def _type(content: Mapping[str, Any]) -> TensorType:
    shape = content["shape"]
    return TensorType(DType(content["type"]), None if shape is None else tuple(shape))


def _port_from_json(content: Mapping[str, Any]) -> Port:
    labels = content["labels"]
    return Port(
        name=content["name"],
        value=content["value"],
        type=_type(content),
        dtype=np.dtype(content["dtype"]),
        labels=None if labels is None else tuple(labels),
        holds_keys=content["holds_keys"],
        is_closed=content["is_closed"],
    )


def _state_from_json(content: Mapping[str, Any]) -> StatePort:
    return StatePort(
        name=content["name"],
        value=content["value"],
        type=_type(content),
        dtype=np.dtype(content["dtype"]),
        updated=content["updated"],
    )


def _ranges_from_json(content: list[str] | None) -> RangePort | None:
    return None if content is None else RangePort(content[0], tuple(content[1:]))
