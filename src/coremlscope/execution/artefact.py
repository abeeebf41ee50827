"""What a compiled function leaves in its folder, beside the engine's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.engines.base import GRAPH_FILE
from coremlscope.errors import EngineError
from coremlscope.ir import DType, TensorType
from coremlscope.ops.program import OnnxProgram, Port, Precision, RangePort, StatePort
from coremlscope.version import __version__

__all__ = ["MANIFEST_FILE", "Manifest", "read_artefact", "write_manifest"]

MANIFEST_FILE = "compiled.json"
_SCHEMA = "coremlscope.compiled/1"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which function was compiled, how, and by what.

    Attributes:
        function: The name by which the model's description knows the function.
        shapes: The shapes that were asked for.
        engine: The engine's name.
        engine_version: Its version.
        random_weights: The seed of made-up weights; None where the model's own were used.
        precision: How results that are declared as fp16 are carried.
    """

    function: str
    shapes: Mapping[str, tuple[int, ...]]
    engine: str
    engine_version: str
    random_weights: int | None = None
    precision: Precision = "fp32"


def write_manifest(folder: Path, manifest: Manifest, program: OnnxProgram) -> None:
    """Writes everything about a compiled function that the engine's files do not say.

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
        (folder / MANIFEST_FILE).write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise EngineError(f"cannot write the compiled model into {folder}: {error.strerror}") from error


def read_artefact(folder: Path) -> tuple[Manifest, OnnxProgram]:
    """What was compiled into a folder. The program's weights stay in their file.

    Raises:
        EngineError: The folder does not hold a compiled function, or one of another version of this program.
    """
    import onnx

    try:
        content = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
        if content["schema"] != _SCHEMA or content["coremlscope"] != __version__:
            raise EngineError(
                f"{folder} was compiled by another version of coremlscope", "compile the model again"
            )
        model = onnx.load(str(folder / GRAPH_FILE), load_external_data=False)
        shapes = {name: tuple(shape) for name, shape in content["shapes"].items()}
        manifest = Manifest(
            content["function"],
            shapes,
            content["engine"],
            content["engine_version"],
            content["random_weights"],
            content["precision"],
        )
        program = OnnxProgram(
            model, (), content["weights_bytes"], content["owners"], frozenset(content["folded"]),
            tuple(map(_port_from_json, content["inputs"])),
            tuple(map(_port_from_json, content["outputs"])),
            tuple(map(_state_from_json, content["states"])),
            _ranges_from_json(content["ranges"]),
        )  # fmt: skip
    except EngineError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise EngineError(
            f"{folder} does not hold a compiled model: {reason}", "compile the model again"
        ) from error
    except Exception as error:  # JSON, protobuf and missing keys: all mean a damaged folder
        raise EngineError(f"the compiled model in {folder} is damaged", "compile the model again") from error
    return manifest, program


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
        content["name"], content["value"], _type(content), np.dtype(content["dtype"]),
        None if labels is None else tuple(labels), content["holds_keys"], content["is_closed"],
    )  # fmt: skip


def _ranges_from_json(content: list[str] | None) -> RangePort | None:
    return None if content is None else RangePort(content[0], tuple(content[1:]))


def _state_from_json(content: Mapping[str, Any]) -> StatePort:
    return StatePort(
        content["name"], content["value"], _type(content), np.dtype(content["dtype"]), content["updated"]
    )
