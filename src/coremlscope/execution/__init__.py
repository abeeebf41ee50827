"""From a model to predictions: which function, which shapes, compiled, loaded and run.

Importing this package is cheap; onnx and the engine are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coremlscope.execution.artefact import Manifest, read_artefact
    from coremlscope.execution.binding import Chosen, bind_model, choose_function
    from coremlscope.execution.cache import ArtefactCache
    from coremlscope.execution.executable import Executable, compile_model, load_compiled
    from coremlscope.execution.pipeline import PipelineExecutable, PipelinePredictor, Runnable, open_predictor
    from coremlscope.execution.predictor import Predictor
    from coremlscope.execution.random_weights import missing_weights, with_random_weights
    from coremlscope.execution.ranges import OpRange
    from coremlscope.execution.state import State

__all__ = [
    "ArtefactCache",
    "Chosen",
    "Executable",
    "Manifest",
    "OpRange",
    "PipelineExecutable",
    "PipelinePredictor",
    "Predictor",
    "Runnable",
    "State",
    "bind_model",
    "choose_function",
    "compile_model",
    "load_compiled",
    "missing_weights",
    "open_predictor",
    "read_artefact",
    "with_random_weights",
]

_MODULES = {
    "ArtefactCache": "cache",
    "Chosen": "binding",
    "Executable": "executable",
    "Manifest": "artefact",
    "OpRange": "ranges",
    "PipelineExecutable": "pipeline",
    "PipelinePredictor": "pipeline",
    "Predictor": "predictor",
    "Runnable": "pipeline",
    "State": "state",
    "bind_model": "binding",
    "choose_function": "binding",
    "compile_model": "executable",
    "load_compiled": "executable",
    "missing_weights": "random_weights",
    "open_predictor": "pipeline",
    "read_artefact": "artefact",
    "with_random_weights": "random_weights",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
