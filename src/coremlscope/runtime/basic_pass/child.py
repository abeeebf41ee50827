"""What a child process does with ONNX Runtime: it optimises a graph, and tells the shapes that it infers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from coremlscope.base.libraries import import_quietly
from coremlscope.formats.onnx.reader import read_message

SAVED, TYPED = "optimised.onnx", "typed.onnx"
_WEIGHTS, _UNUSED = "optimised.bin", "typed.bin"
#: Bytes from which constants are left out.
_LARGE = 1024
_FATAL = 4


def save_optimised(model: str, target: str, weights: str) -> None:
    """Saves a model as it is after the level BASIC, without large constants.

    A session of the saved graph, all of whose values are outputs, has their types.

    Args:
        model: The path of the model.
        target: The folder in which it is saved.
        weights: The folder of the model's external data.
    """
    path, folder = Path(model), Path(target)
    onnxruntime = import_quietly("onnxruntime")
    onnxruntime.disable_telemetry_events()
    onnxruntime.set_default_logger_severity(_FATAL)
    levels = onnxruntime.GraphOptimizationLevel
    options = _options(onnxruntime, levels.ORT_ENABLE_BASIC, weights)
    options.optimized_model_filepath = str(folder / SAVED)
    _leave_out_weights(options, folder, _WEIGHTS)
    onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])

    message = read_message(folder / SAVED)
    _fill_weights(message, folder / _WEIGHTS)
    outputs = {one.name for one in message.graph.output}
    for node in message.graph.node:
        for name in filter(None, node.output):
            if name not in outputs:
                message.graph.output.add(name=name)
    options = _options(onnxruntime, levels.ORT_DISABLE_ALL, str(folder))
    options.optimized_model_filepath = str(folder / TYPED)
    _leave_out_weights(options, folder, _UNUSED)
    onnxruntime.InferenceSession(message.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _options(onnxruntime: Any, level: Any, weights: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", weights)
    return options


def _leave_out_weights(options: Any, folder: Path, name: str) -> None:
    entry = options.add_session_config_entry
    entry("session.optimized_model_external_initializers_file_name", name)
    entry("session.optimized_model_external_initializers_min_size_in_bytes", str(_LARGE))
    if sys.platform != "win32":
        (folder / name).symlink_to(os.devnull)


def _fill_weights(message: Any, path: Path) -> None:
    """Gives the constants that were left out zeros, which take no space."""
    ends = [
        int(about.get("offset", 0)) + int(about["length"])
        for tensor in message.graph.initializer
        if (about := {one.key: one.value for one in tensor.external_data})
    ]
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(max(ends, default=0))
