"""The child process that times a model in Core ML and prints each sample as a line of JSON.

`python -m coremlscope.measure.coreml.timing_child MODEL COMPUTE_UNITS ITERATIONS LOADS SEED`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coremlscope.execution.wiring import input_functions, interface_of
from coremlscope.features import dummy_values
from coremlscope.formats import container

__all__ = ["main"]

_WARMUPS = 3


def main(arguments: Sequence[str]) -> int:
    """Times loads and predictions.

    Args:
        arguments: The model, the name of a `coremltools.ComputeUnit`, how many predictions, how many loads,
            the seed of synthetic inputs.
    """
    path, units, iterations, loads, seed = arguments
    given = container.read(Path(path))
    _, interface = interface_of(given)
    values = dummy_values(interface, *input_functions(given), seed=int(seed))
    import coremltools
    from coremltools.models import CompiledMLModel
    from coremltools.models.utils import compile_model

    compiled = path if path.rstrip("/").endswith(".mlmodelc") else compile_model(path)
    unit = getattr(coremltools.ComputeUnit, units.upper())
    model: Any = None
    for _ in range(int(loads)):
        model = _timed("load", lambda: CompiledMLModel(compiled, unit))
    states = [model.make_state()] if interface.states else []
    for _ in range(_WARMUPS):
        _timed("warm-up", lambda: model.predict(values, *states))
    for _ in range(int(iterations)):
        _timed("predict", lambda: model.predict(values, *states))
    return 0


def _timed(phase: str, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    print(json.dumps({"phase": phase, "seconds": seconds}), flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
