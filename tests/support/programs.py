"""Small programs built with coremltools' MIL builder, and functions that read, lower and run them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import onnxruntime as ort
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types

from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction, bind
from coremlscope.ops.lower import lower
from coremlscope.ops.program import WEIGHTS_FILE, OnnxProgram

_TYPES = {
    np.dtype(np.float16): types.fp16,
    np.dtype(np.float32): types.fp32,
    np.dtype(np.int32): types.int32,
    np.dtype(np.int8): types.int8,
    np.dtype(np.uint8): types.uint8,
    np.dtype(np.int16): types.int16,
    np.dtype(np.uint16): types.uint16,
    np.dtype(np.bool_): types.bool,
}


def build(
    body: Callable[..., Any],
    inputs: Mapping[str, np.ndarray],
    *,
    target: Any = ct.target.iOS16,
    states: Mapping[str, np.ndarray] | None = None,
) -> ir.Model:
    """The model whose program is `body`, a function of MIL variables named and typed like its arguments.

    No optimisation pass runs, so that the program has just the operations that `body` builds.
    """
    specs = [mb.TensorSpec(shape=a.shape, dtype=_TYPES[a.dtype]) for a in inputs.values()]
    kept = states or {}
    specs += [mb.StateTensorSpec(shape=a.shape, dtype=_TYPES[a.dtype]) for a in kept.values()]
    parameters = ", ".join([*inputs, *kept])
    # The MIL builder names the program's inputs after the parameters of the function that it is given.
    named = eval(f"lambda {parameters}: body({parameters})", {"body": body})
    program = mb.program(input_specs=specs, opset_version=target)(named)
    converted = ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=target,
        compute_precision=ct.precision.FLOAT32,
        pass_pipeline=ct.PassPipeline.EMPTY,
        skip_model_load=True,
    )
    folder = Path(tempfile.mkdtemp())
    converted.save(str(folder / "m.mlpackage"))
    return container.read(folder / "m.mlpackage")


def bind_main(model: ir.Model, shapes: Mapping[str, ir.Shape] | None = None) -> BoundFunction:
    """The default function of `model`, bound; fails on contradictions."""
    assert isinstance(model.content, ir.Program)
    bound = bind(model.content.functions[model.description.default], OPS, shapes)
    assert not bound.problems, bound.problems
    return bound


def run_onnx(
    program: OnnxProgram, inputs: Mapping[str, np.ndarray], states: dict[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Runs a lowered program; results by feature name, in the lowered graph's dtypes.

    The content of `states`, by name, is replaced by the new one.
    """
    with tempfile.TemporaryDirectory() as folder:
        program.write_weights(Path(folder, WEIGHTS_FILE))
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        session = ort.InferenceSession(
            program.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    feeds = {p.value: np.asarray(inputs[p.name]).astype(p.dtype) for p in program.inputs}
    feeds |= {s.value: (states or {})[s.name].astype(s.dtype) for s in program.states}
    wanted = {p.name: p.value for p in program.outputs}
    updated = {s.name: s.updated for s in program.states if s.updated is not None}
    results = session.run([*wanted.values(), *updated.values()], feeds)
    if states is not None:
        states.update(zip(updated, results[len(wanted) :], strict=True))
    return dict(zip(wanted, results, strict=False))


def run(
    body: Callable[..., Any], inputs: Mapping[str, np.ndarray], *, target: Any = ct.target.iOS16
) -> list[np.ndarray]:
    """Builds, lowers and runs `body`; the results in order.

    Also compares the inferred shapes of the results with the actual ones.
    """
    bound = bind_main(build(body, inputs, target=target))
    program = lower(bound)
    results = list(run_onnx(program, inputs).values())
    for port, result in zip(program.outputs, results, strict=True):
        if port.type.shape is not None:
            inferred, real = port.type.shape or (1,), result.shape or (1,)
            assert len(inferred) == len(real), (inferred, real)
            assert all(i in (None, r) for i, r in zip(inferred, real, strict=True)), (inferred, real)
    return results
